/* Maps a generated kernel over points: blocks of lanes, tails, threads, and what becomes of the
 * outputs. Compiled into each generated library, so that it is built with the library's flags.
 *
 * Points are split into at most KS_MAX_CHUNKS chunks, whose number depends on n alone; sums are
 * formed per chunk and added in order. Hence the result does not depend on the number of threads.
 */
#ifndef KINESYM_MAP_H
#define KINESYM_MAP_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "kinesym_simd.h"

#define KS_MAX_CHUNKS 64
#define KS_MIN_CHUNK 64 /* points, a multiple of any number of lanes */
#define KS_TILE_BLOCKS 64
#define KS_TILE_DOUBLES 2048 /* in a tile, unless one block has more: half a first-level cache */
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

/* One call of ks_map, and the plan for it.
 *
 * A block of lanes fills a tile, which stays in cache, and is taken to its places from there. In
 * blocks that lie whole in whole blocks of their places (points < n_fast), each output is one
 * vector: lines, sorted by what is done with them. Outputs that are only set and lie in the order
 * in which they are made need no tile. */
typedef struct {
    const ks_kernel *k;
    const ks_arg *arg;
    double *out;
    const ks_place *place;
    double *u;          /* uniform values, n_uniform */
    ptrdiff_t n, chunk; /* points in all and per chunk, a multiple of KS_LANES */
    ptrdiff_t n_fast;
    ptrdiff_t block, blocks; /* doubles of a block, and blocks of a tile */
    ks_line *line;      /* all outputs: those that are shared between neighbouring points and set;
                           set; added; summed; odd, which begin elsewhere in their place; late */
    int n_shared, n_set, n_add, n_sum, n_odd, n_late;
    int stream;      /* lines that are set follow each other, and are many */
    int direct;      /* all outputs are set, ld apart: they need no tile */
    ptrdiff_t ld;
    double *partial; /* sums, n_chunks x n_sum */
    double *last;    /* last values of late outputs, threads x n_late */
} ks_call;

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
        if (!c->k->varying[j]) continue;
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
    int count[6] = {0}, next[6] = {0};
    for (int j = 0; j < c->k->n_out; j++) count[ks_class(c->place + j)]++;
    for (int class = 1; class < 6; class++) next[class] = next[class - 1] + count[class - 1];
    c->n_fast = c->n / KS_LANES * KS_LANES;
    for (int j = 0; j < c->k->n_out; j++) {
        const ks_place *p = c->place + j;
        const int class = ks_class(p);
        c->line[next[class]++] = (ks_line){j, (int)p->late, ks_start(p), ks_stride(p)};
        if (class < 3 && ks_whole(c, p) < c->n_fast) c->n_fast = ks_whole(c, p);
    }
    c->n_shared = count[0], c->n_set = count[1], c->n_add = count[2], c->n_sum = count[3];
    c->n_odd = count[4], c->n_late = count[5];
    const int n = c->n_shared + c->n_set, large = n * c->n >= KS_STREAM_DOUBLES;
    const ptrdiff_t ld = n > 1 ? c->line[1].to - c->line[0].to : KS_LANES;
    int even = n > 0;
    for (int j = 0; j < n && even; j++)
        even = c->line[j].to == c->line->to + j * ld && c->line[j].step == c->line->step;
    c->stream = KS_CAN_STREAM && large && even && ld == KS_LANES && c->line->step == n * ld;
    c->direct = even && !c->stream && c->n_set == c->k->n_out;
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

/* -- chunks ----------------------------------------------------------------------------------- */

/* What one thread works with: two tiles in turn, sums of lanes, and what is left of the last line,
 * see ks_stream_lines. */
typedef struct {
    double *scratch, *pad, *tile, *next, *sum;
    const double *before; /* the last block */
    V left;
} ks_work;

/* The points from i on in a fresh tile: blocks of KS_LANES points, or one of m < KS_LANES. */
static const double *ks_fill(const ks_call *c, ptrdiff_t i, ptrdiff_t blocks, ptrdiff_t m,
                             ks_work *w) {
    ks_arg a[c->k->n_args > 0 ? c->k->n_args : 1];
    double *tile = w->next;
    w->next = w->tile, w->tile = tile;
    ks_arguments(c, i, m, a, w->pad);
    c->k->block(blocks, a, c->u, tile, KS_LANES, c->block, w->scratch);
    return tile;
}

static void ks_direct(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, ks_work *w) {
    ks_arg a[c->k->n_args > 0 ? c->k->n_args : 1];
    ks_arguments(c, begin, KS_LANES, a, w->pad);
    c->k->block((end - begin) / KS_LANES, a, c->u, ks_to(c, c->line, begin / KS_LANES), c->ld,
                c->line->step, w->scratch);
}

/* Block b, whose lanes are all points: what is in the tile goes to its place. */
static void ks_block(const ks_call *c, ptrdiff_t b, int is_first, const double *tile,
                     double *partial, ks_work *w) {
    const ks_line *odd = ks_sums(c) + c->n_sum;
    if (c->stream && !is_first) {
        w->left = ks_stream_lines(c, b, tile, w->before, w->left);
    } else {
        ks_set_lines(c, b, tile, w->before);
        if (c->stream) w->left = ks_load(ks_to(c, c->line, b + 1) - KS_LANES);
    }
    ks_add_lines(c, b, tile, w->before);
    for (int j = 0; j < c->n_odd; j++)
        ks_points(c, odd + j, b * KS_LANES, KS_LANES, tile, w->before, partial);
    w->before = tile;
}

/* Points begin <= i < end in blocks of whole lines. */
static void ks_blocks(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, int is_first,
                      double *partial, ks_work *w) {
    memset(w->sum, 0, (size_t)c->n_sum * KS_LANES * sizeof(double));
    for (ptrdiff_t i = begin; i < end; i += c->blocks * KS_LANES) {
        const ptrdiff_t rest = (end - i) / KS_LANES, n = rest < c->blocks ? rest : c->blocks;
        const double *tile = ks_fill(c, i, n, KS_LANES, w);
        for (ptrdiff_t b = 0; b < n; b++)
            ks_block(c, i / KS_LANES + b, is_first && i == begin && b == 0, tile + b * c->block,
                     partial, w);
        ks_sum_lines(c, n, tile, w->sum);
    }
    for (int j = 0; j < c->n_sum; j++)
        for (int l = 0; l < KS_LANES; l++) partial[j] += w->sum[j * KS_LANES + l];
    if (c->stream && begin < end) ks_stream_end(c, end / KS_LANES, w->left);
}

/* Points begin <= i < end. */
static void ks_chunk(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, int is_first,
                     double *partial, ks_work *w) {
    ptrdiff_t fast = end / KS_LANES * KS_LANES;
    if (fast > c->n_fast) fast = c->n_fast;
    if (c->direct && begin < fast)
        ks_direct(c, begin, fast, w);
    else
        ks_blocks(c, begin, fast, is_first, partial, w);
    for (ptrdiff_t i = begin > fast ? begin : fast; i < end; i += KS_LANES) {
        const ptrdiff_t m = end - i < KS_LANES ? end - i : KS_LANES;
        const double *tile = ks_fill(c, i, 1, m, w);
        for (int j = 0; j < c->k->n_out; j++) ks_points(c, c->line + j, i, m, tile, w->before, partial);
        w->before = tile;
    }
}

/* Thread number t of `threads`: consecutive chunks. */
static void ks_thread(const ks_call *c, int t, int threads, double *memory) {
    const ptrdiff_t n_chunks = (c->n + c->chunk - 1) / c->chunk;
    const ptrdiff_t tile = c->blocks * c->block;
    const ptrdiff_t first = n_chunks * t / threads, last = n_chunks * (t + 1) / threads;
    ks_work w = {.tile = memory, .next = memory + tile, .sum = memory + 2 * tile};
    w.before = w.tile;
    w.scratch = w.sum + c->n_sum * KS_LANES;
    w.pad = w.scratch + (ptrdiff_t)c->k->n_scratch * KS_LANES;
    if (c->n_late > 0) memset(w.tile, 0, (size_t)c->block * sizeof(double));
    ptrdiff_t end = 0;
    for (ptrdiff_t b = first; b < last; b++) {
        end = (b + 1) * c->chunk < c->n ? (b + 1) * c->chunk : c->n;
        ks_chunk(c, b * c->chunk, end, b == first, c->partial + b * c->n_sum, &w);
    }
    const ks_line *late = c->line + c->k->n_out - c->n_late;
    for (int j = 0; j < c->n_late; j++)
        c->last[t * c->n_late + j] = w.before[late[j].from * KS_LANES + (end - 1) % KS_LANES];
    ks_fence();
}

/* What was kept of chunks and threads, in order. */
static void ks_combine(const ks_call *c, ptrdiff_t n_chunks, int threads) {
    for (ptrdiff_t b = 0; b < n_chunks; b++)
        for (int j = 0; j < c->n_sum; j++)
            c->out[c->place[ks_sums(c)[j].from].base] += c->partial[b * c->n_sum + j];
    const ks_line *late = c->line + c->k->n_out - c->n_late;
    for (int t = 0; t < threads; t++) {
        ptrdiff_t end = n_chunks * (t + 1) / threads * c->chunk;
        if (end > c->n) end = c->n;
        for (int j = 0; j < c->n_late; j++)
            c->out[ks_index(c->place + late[j].from, end - 1)] += c->last[t * c->n_late + j];
    }
}

int ks_map(const ks_kernel *k, ptrdiff_t n, const ks_arg *arg, double *out, const ks_place *place,
           int threads) {
    ks_call c = {.k = k, .arg = arg, .out = out, .place = place, .n = n};
    if (k->n_out == 0 || n < 1) return 0;
    c.block = (ptrdiff_t)k->n_out * KS_LANES;
    c.blocks = c.block < KS_TILE_DOUBLES ? KS_TILE_DOUBLES / c.block : 1;
    if (c.blocks > KS_TILE_BLOCKS) c.blocks = KS_TILE_BLOCKS;
    ptrdiff_t least = c.blocks * KS_LANES;
    if (least < KS_MIN_CHUNK) least = KS_MIN_CHUNK;
    c.chunk = (ptrdiff_t)ks_round_up((n + KS_MAX_CHUNKS - 1) / KS_MAX_CHUNKS, least);
    const ptrdiff_t n_chunks = (n + c.chunk - 1) / c.chunk;
    if (threads > n_chunks) threads = (int)n_chunks;

    c.line = malloc((size_t)k->n_out * sizeof *c.line);
    if (c.line == NULL) return 1;
    ks_make_lines(&c);
    if (c.direct) c.blocks = 1; /* a tile is filled for the last points only */

    /* whole cache lines: vectors stay aligned */
    const size_t uniform = ks_round_up(k->n_uniform, 8);
    const size_t partials = ks_round_up(n_chunks * c.n_sum + threads * c.n_late, 8);
    const size_t work = ks_round_up(
        2 * c.blocks * c.block + (c.n_sum + k->n_scratch + ks_arg_total(k)) * KS_LANES, 8);
    c.u = aligned_alloc(64, (uniform + partials + work * (size_t)threads) * sizeof(double));
    if (c.u == NULL) {
        free(c.line);
        return 1;
    }
    c.partial = c.u + uniform;
    c.last = c.partial + n_chunks * c.n_sum;
    double *workspace = c.partial + partials;
    memset(c.partial, 0, partials * sizeof(double));
    if (k->n_uniform > 0) k->uniform(arg, c.u, workspace);

    if (threads == 1) { /* a team of one would cost as much as a thousand points */
        ks_thread(&c, 0, 1, workspace);
    } else {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
        for (int t = 0; t < threads; t++) ks_thread(&c, t, threads, workspace + (size_t)t * work);
    }
    ks_combine(&c, n_chunks, threads);
    free(c.u);
    free(c.line);
    return 0;
}

#endif
