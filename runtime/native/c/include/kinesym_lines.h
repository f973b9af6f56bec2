/* What becomes of the outputs of a kernel: from a tile, in which a block of lanes is made, to their
 * places. See kinesym_map.h.
 */
#ifndef KINESYM_LINES_H
#define KINESYM_LINES_H
#include <stdint.h>
#include <string.h>
#include "kinesym_simd.h"

/* Values from which outputs go past the caches (16 MiB): of fewer, most are still in a cache when
 * they are read. */
#ifndef KS_STREAM_DOUBLES
#define KS_STREAM_DOUBLES (1 << 21)
#endif

/* One block of an output on its way from the tile to its place: block b goes to
 * out[to + b * step]. The value of the output `late` at the point before is added, unless < 0. */
typedef struct {
    int from, late;
    ptrdiff_t to, step;
} ks_line;

/* How a task is done.
 *
 * A block of lanes fills a tile, which stays in cache, and is taken to its places from there. In
 * blocks that lie whole in whole blocks of their places (points < n_fast), each output is one
 * vector: lines, sorted by what is done with them. Outputs that are only set and lie in the order
 * in which they are made need no tile. */
typedef struct ks_call ks_call;
struct ks_call {
    const ks_kernel *k;
    const ks_arg *arg;
    const unsigned char *same;
    double *out;
    const ks_place *place;
    ks_call *along;     /* goes along with this one, or NULL */
    int *onto;          /* of one that goes along: to which outputs its own are added, or -1 */
    double *u;          /* uniform values, n_uniform */
    ptrdiff_t n, chunk; /* points in all and per chunk, a multiple of KS_LANES */
    ptrdiff_t n_fast;
    ptrdiff_t block, blocks; /* doubles of a block, and blocks of a tile */
    ks_line *line;      /* all outputs: those that are shared between neighbouring points and set;
                           set; added; summed; odd, which begin elsewhere in their place; late;
                           those that are added to outputs of the task that this one goes along with */
    int n_shared, n_set, n_add, n_sum, n_odd, n_late;
    int stream;      /* lines that are set follow each other, and are many */
    int direct;      /* all outputs are set, ld apart: they need no tile */
    ptrdiff_t ld;
    double *partial; /* sums, n_chunks x n_sum */
    double *last;    /* last values of late outputs, n_late */
};

static ptrdiff_t ks_chunks(const ks_call *c) { return (c->n + c->chunk - 1) / c->chunk; }

/* Where the value of point i lies. */
static ptrdiff_t ks_index(const ks_place *p, ptrdiff_t i) {
    const ptrdiff_t j = p->first + i, whole = p->count / KS_LANES * KS_LANES;
    if (j < 0 || j >= p->count) return p->other;
    if (j >= whole) return p->base + whole * p->members + p->slot * (p->count - whole) + j - whole;
    return p->base + (j / KS_LANES * p->members + p->slot) * KS_LANES + j % KS_LANES;
}

/* Where the first block of an output goes, and how far apart its blocks are. */
static ptrdiff_t ks_start(const ks_place *p) { return p->base + p->slot * KS_LANES; }
static ptrdiff_t ks_stride(const ks_place *p) { return p->members * KS_LANES; }

/* Points in blocks that lie whole in a block of their place. */
static ptrdiff_t ks_whole(const ks_call *c, const ks_place *p) {
    ptrdiff_t whole = p->members > 1 && p->count < c->n ? p->count : c->n;
    return whole / KS_LANES * KS_LANES;
}

static int ks_arg_total(const ks_kernel *k) {
    int total = 0;
    for (int a = 0; a < k->n_args; a++) total += k->varying[a] ? k->count[a] : 0;
    return total;
}

/* Arguments of the points from i on; of fewer than KS_LANES points (m), the last one is repeated to
 * fill the lanes. `pad` has room for one block of all arguments. */
static void ks_arguments(const ks_call *c, ptrdiff_t i, ptrdiff_t m, ks_arg *a, double *pad) {
    for (int j = 0; j < c->k->n_args; j++) {
        a[j] = c->arg[j];
        if (!c->k->varying[j] || c->same[j]) continue;
        if (m >= KS_LANES) {
            a[j].data += i;
            continue;
        }
        a[j].data = pad;
        a[j].ld = KS_LANES;
        for (int s = 0; s < c->k->count[j]; s++, pad += KS_LANES)
            for (ptrdiff_t l = 0; l < KS_LANES; l++)
                pad[l] = c->arg[j].data[s * c->arg[j].ld + i + (l < m ? l : m - 1)];
    }
}

/* -- lines ------------------------------------------------------------------------------------ */

/* The class of an output: shared and set, set, added, summed, odd, late. */
static int ks_class(const ks_place *p) {
    if (p->mode == KS_SUM) return 3;
    if (p->mode == KS_LATE) return 5;
    if (p->first != 0) return 4;
    return p->mode == KS_ADD ? 2 : p->late < 0;
}

static void ks_make_lines(ks_call *c) {
    int count[7] = {0}, next[7] = {0};
    for (int j = 0; j < c->k->n_out; j++) count[c->onto[j] < 0 ? ks_class(c->place + j) : 6]++;
    for (int class = 1; class < 7; class++) next[class] = next[class - 1] + count[class - 1];
    c->n_fast = c->n / KS_LANES * KS_LANES;
    for (int j = 0; j < c->k->n_out; j++) {
        const ks_place *p = c->place + j;
        const int class = c->onto[j] < 0 ? ks_class(p) : 6;
        c->line[next[class]++] = (ks_line){j, (int)p->late, ks_start(p), ks_stride(p)};
        if ((class < 3 || class == 6) && ks_whole(c, p) < c->n_fast) c->n_fast = ks_whole(c, p);
    }
    c->n_shared = count[0], c->n_set = count[1], c->n_add = count[2], c->n_sum = count[3];
    c->n_odd = count[4], c->n_late = count[5];
    const int n = c->n_shared + c->n_set, large = n * c->n >= KS_STREAM_DOUBLES;
    const ptrdiff_t ld = n > 1 ? c->line[1].to - c->line[0].to : KS_LANES;
    int even = n > 0;
    for (int j = 0; j < n && even; j++)
        even = c->line[j].to == c->line->to + j * ld && c->line[j].step == c->line->step;
    c->stream = KS_CAN_STREAM && large && even && ld == KS_LANES && c->line->step == n * ld;
    c->direct = even && !c->stream && c->n_set == c->k->n_out && c->along == NULL;
    c->ld = ld;
}

/* Where block b of a line goes. */
static inline double *ks_to(const ks_call *c, const ks_line *line, ptrdiff_t b) {
    return c->out + line->to + b * line->step;
}

/* The vector of a line; `before` is the tile of the block before. */
static inline V ks_shared(const ks_line *line, const double *tile, const double *before) {
    return ks_load(tile + line->from * KS_LANES) +
           ks_shift(ks_load(before + line->late * KS_LANES), ks_load(tile + line->late * KS_LANES));
}

static inline V ks_plain(const ks_line *line, const double *tile) {
    return ks_load(tile + line->from * KS_LANES);
}

/* Block b of all lines that are set. */
static void ks_set_lines(const ks_call *c, ptrdiff_t b, const double *tile, const double *before) {
    const ks_line *line = c->line, *shared = line + c->n_shared, *end = shared + c->n_set;
    for (; line < shared; line++) ks_store(ks_to(c, line, b), ks_shared(line, tile, before));
    for (; line < end; line++) ks_store(ks_to(c, line, b), ks_plain(line, tile));
}

/* Doubles from where lines begin to the next multiple of the size of a vector, 1 ... KS_LANES. */
static ptrdiff_t ks_rest(const ks_call *c) {
    return KS_LANES -
           (ptrdiff_t)((uintptr_t)(c->out + c->line->to) / sizeof(double) % KS_LANES);
}

/* The same past the caches. What goes there at once is the end of one line, from `rest` on, and the
 * beginning of the next: `left` is the line before. Returns the last line, whose end is left. */
static V ks_stream_lines(const ks_call *c, ptrdiff_t b, const double *tile, const double *before,
                         V left) {
    const ks_line *line = c->line, *shared = line + c->n_shared, *end = shared + c->n_set;
    const ptrdiff_t rest = ks_rest(c);
    double *to = ks_to(c, line, b) + rest - KS_LANES;
    const ks_mask pick = ks_pick(rest);
    for (; line < shared; line++, to += KS_LANES) {
        const V v = ks_shared(line, tile, before);
        ks_stream(to, ks_shuffle(left, v, pick)), left = v;
    }
    for (; line < end; line++, to += KS_LANES) {
        const V v = ks_plain(line, tile);
        ks_stream(to, ks_shuffle(left, v, pick)), left = v;
    }
    return left;
}

/* The end of the last line before block b. */
static void ks_stream_end(const ks_call *c, ptrdiff_t b, V left) {
    double lane[KS_LANES], *to = ks_to(c, c->line, b) - KS_LANES;
    ks_store(lane, left);
    for (ptrdiff_t l = ks_rest(c); l < KS_LANES; l++) to[l] = lane[l];
}

/* Block b of the lines that are added. */
static void ks_add_lines(const ks_call *c, ptrdiff_t b, const double *tile, const double *before) {
    const ks_line *line = c->line + c->n_shared + c->n_set, *end = line + c->n_add;
    for (; line < end; line++) {
        double *to = ks_to(c, line, b);
        const V v = line->late < 0 ? ks_plain(line, tile) : ks_shared(line, tile, before);
        ks_store(to, ks_load(to) + v);
    }
}

/* The lines that are summed; the odd ones and the late ones follow. */
static inline const ks_line *ks_sums(const ks_call *c) {
    return c->line + c->n_shared + c->n_set + c->n_add;
}

static inline const ks_line *ks_late(const ks_call *c) { return ks_sums(c) + c->n_sum + c->n_odd; }

/* Adds n blocks of the lines that are summed. */
static void ks_sum_lines(const ks_call *c, ptrdiff_t n, const double *tile, double *sum) {
    const ks_line *line = ks_sums(c);
    for (int j = 0; j < c->n_sum; j++, sum += KS_LANES) {
        V v = ks_load(sum);
        for (ptrdiff_t b = 0; b < n; b++) v += ks_plain(line + j, tile + b * c->block);
        ks_store(sum, v);
    }
}

/* -- single values ---------------------------------------------------------------------------- */

/* An output at the m points of a block from i on. */
static void ks_points(const ks_call *c, const ks_line *line, ptrdiff_t i, ptrdiff_t m,
                      const double *tile, const double *before, double *partial) {
    const ks_place *p = c->place + line->from;
    const double *value = tile + line->from * KS_LANES;
    double *to = c->out + ks_index(p, i);
    if (p->mode == KS_LATE) return;
    if (ks_class(p) == 1 && i + m <= p->count) { /* the most frequent */
        memcpy(to, value, (size_t)m * sizeof *to);
        return;
    }
    for (ptrdiff_t l = 0; l < m; l++, to++) {
        const ptrdiff_t number = p->first + i + l;
        double v = value[l];
        if (p->late >= 0)
            v += l > 0 ? tile[p->late * KS_LANES + l - 1]
                       : before[p->late * KS_LANES + KS_LANES - 1];
        if (number % KS_LANES == 0 || number == p->count) to = c->out + ks_index(p, i + l);
        if (p->mode == KS_SUM)
            partial[line - ks_sums(c)] += v;
        else
            *to = p->mode == KS_ADD ? *to + v : v;
    }
}

#endif
