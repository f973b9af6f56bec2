/* Maps generated kernels over points: blocks of lanes, tails, threads, and what becomes of the
 * outputs. Compiled into each generated library, so that it is built with the library's flags.
 *
 * The points of a task are split into at most KS_MAX_CHUNKS chunks, whose number depends on n alone.
 * Each thread has the chunks that follow each other in all tasks, and writes what belongs to their
 * points; what the point before a chunk adds there it computes again. Sums are formed per chunk and
 * added in order. Hence the result does not depend on the number of threads.
 *
 * A task that adds to the values of the one before, point by point, as the terms of nodes do to those
 * of intervals, goes along with it: its values are added before those are written.
 */
#ifndef KINESYM_MAP_H
#define KINESYM_MAP_H
#include <stdlib.h>
#include <string.h>
#include "kinesym_lines.h"

#define KS_MAX_CHUNKS 64
#define KS_MIN_CHUNK 64 /* points, a multiple of any number of lanes */
#define KS_TILE_BLOCKS (KS_SAME / KS_LANES < 64 ? KS_SAME / KS_LANES : 64)
#define KS_TILE_DOUBLES 2048 /* in a tile, unless one block has more: half a first-level cache */

/* -- chunks ----------------------------------------------------------------------------------- */

/* What one thread works with: two tiles in turn and one of the task that goes along, sums of lanes,
 * and what is left of the last line, see ks_stream_lines. */
typedef struct {
    double *scratch, *pad, *tile, *next, *more, *sum;
    const double *before; /* the last block */
    V left;
} ks_work;

/* The points from i on in a tile: blocks of KS_LANES points, or one of m < KS_LANES. */
static const double *ks_fill(const ks_call *c, ptrdiff_t i, ptrdiff_t blocks, ptrdiff_t m,
                             double *tile, const ks_work *w) {
    ks_arg a[c->k->n_args > 0 ? c->k->n_args : 1];
    ks_arguments(c, i, m, a, w->pad);
    c->k->block(c->k, blocks, a, c->u, tile, KS_LANES, c->block, w->scratch);
    return tile;
}

/* The same in a fresh tile; the one before stays. */
static double *ks_fresh(const ks_call *c, ptrdiff_t i, ptrdiff_t blocks, ptrdiff_t m, ks_work *w) {
    double *tile = w->next;
    w->next = w->tile, w->tile = tile;
    ks_fill(c, i, blocks, m, tile, w);
    return tile;
}

/* Adds to a tile what the task that goes along has at the same points, in a tile too. */
static void ks_add_along(const ks_call *c, ptrdiff_t blocks, double *tile, const double *more) {
    const ks_call *along = c->along;
    for (ptrdiff_t b = 0; b < blocks; b++, tile += c->block, more += along->block)
        for (int j = 0; j < along->k->n_out; j++)
            if (along->onto[j] >= 0) {
                double *to = tile + along->onto[j] * KS_LANES;
                ks_store(to, ks_load(to) + ks_load(more + j * KS_LANES));
            }
}

static void ks_direct(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, ks_work *w) {
    ks_arg a[c->k->n_args > 0 ? c->k->n_args : 1];
    for (ptrdiff_t i = begin; i < end; i += KS_SAME) {
        const ptrdiff_t n = end - i < KS_SAME ? end - i : KS_SAME;
        ks_arguments(c, i, KS_LANES, a, w->pad);
        c->k->block(c->k, n / KS_LANES, a, c->u, ks_to(c, c->line, i / KS_LANES), c->ld,
                    c->line->step, w->scratch);
    }
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

/* Points begin <= i < end in blocks of whole lines; is_first: of this thread. */
static void ks_blocks(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, int is_first, ptrdiff_t chunk,
                      ks_work *w) {
    const ks_call *along = c->along;
    const int sums = c->n_sum + (along != NULL ? along->n_sum : 0);
    double *more = w->sum + c->n_sum * KS_LANES;
    memset(w->sum, 0, (size_t)sums * KS_LANES * sizeof(double));
    for (ptrdiff_t i = begin; i < end; i += c->blocks * KS_LANES) {
        const ptrdiff_t rest = (end - i) / KS_LANES, n = rest < c->blocks ? rest : c->blocks;
        double *tile = ks_fresh(c, i, n, KS_LANES, w);
        if (along != NULL) {
            ks_add_along(c, n, tile, ks_fill(along, i, n, KS_LANES, w->more, w));
            for (ptrdiff_t b = 0; b < n; b++)
                ks_set_lines(along, i / KS_LANES + b, w->more + b * along->block, NULL);
            ks_sum_lines(along, n, w->more, more);
        }
        for (ptrdiff_t b = 0; b < n; b++)
            ks_block(c, i / KS_LANES + b, is_first && i == begin && b == 0, tile + b * c->block,
                     c->partial + chunk * c->n_sum, w);
        ks_sum_lines(c, n, tile, w->sum);
    }
    for (const ks_call *mine = c; mine != NULL; mine = mine == c ? along : NULL) {
        double *partial = mine->partial + chunk * mine->n_sum;
        const double *sum = mine == c ? w->sum : more;
        for (int j = 0; j < mine->n_sum; j++)
            for (int l = 0; l < KS_LANES; l++) partial[j] += sum[j * KS_LANES + l];
    }
    if (c->stream && begin < end) ks_stream_end(c, end / KS_LANES, w->left);
}

/* Points begin <= i < end, which are not in whole lines. */
static void ks_rest_of(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, double *partial, ks_work *w) {
    for (ptrdiff_t i = begin; i < end; i += KS_LANES) {
        const ptrdiff_t m = end - i < KS_LANES ? end - i : KS_LANES;
        const double *tile = ks_fresh(c, i, 1, m, w);
        for (int j = 0; j < c->k->n_out; j++)
            ks_points(c, c->line + j, i, m, tile, w->before, partial);
        w->before = tile;
    }
}

/* The same of a task that goes along. */
static void ks_rest_along(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, double *partial,
                          const ks_work *w) {
    for (ptrdiff_t i = begin; i < end; i += KS_LANES) {
        const ptrdiff_t m = end - i < KS_LANES ? end - i : KS_LANES;
        const double *tile = ks_fill(c, i, 1, m, w->more, w);
        for (int j = 0; j < c->k->n_out; j++)
            ks_points(c, c->line + j, i, m, tile, NULL, partial);
    }
}

static void ks_chunk(const ks_call *c, ptrdiff_t chunk, int is_first, ks_work *w) {
    const ptrdiff_t begin = chunk * c->chunk;
    const ptrdiff_t end = begin + c->chunk < c->n ? begin + c->chunk : c->n;
    ptrdiff_t fast = end / KS_LANES * KS_LANES;
    if (fast > c->n_fast) fast = c->n_fast;
    if (fast < begin) fast = begin;
    if (is_first && c->n_late > 0) {
        if (begin > 0)
            w->before = ks_fresh(c, begin - KS_LANES, 1, KS_LANES, w);
        else
            w->before = memset(w->tile, 0, (size_t)c->block * sizeof(double));
    }
    if (c->direct)
        ks_direct(c, begin, fast, w);
    else
        ks_blocks(c, begin, fast, is_first, chunk, w);
    ks_rest_of(c, fast, end, c->partial + chunk * c->n_sum, w);
    for (int j = 0; end == c->n && j < c->n_late; j++)
        c->last[j] = w->before[ks_late(c)[j].from * KS_LANES + (end - 1) % KS_LANES];
    if (c->along != NULL)
        ks_rest_along(c->along, fast, end, c->along->partial + chunk * c->along->n_sum, w);
}

/* -- tasks ------------------------------------------------------------------------------------ */

static int ks_larger(int a, int b) { return a > b ? a : b; }

/* What a thread works with in a task. */
static ks_work ks_workspace(const ks_call *c, double *memory) {
    const ks_call *along = c->along;
    const ptrdiff_t tile = c->blocks * c->block;
    ks_work w = {.tile = memory, .next = memory + tile, .more = memory + 2 * tile};
    w.sum = w.more + (along != NULL ? c->blocks * along->block : 0);
    w.scratch = w.sum + (c->n_sum + (along != NULL ? along->n_sum : 0)) * KS_LANES;
    w.pad = w.scratch + ks_larger(c->k->n_scratch, along != NULL ? along->k->n_scratch : 0) * KS_LANES;
    return w;
}

/* Doubles that it takes. */
static ptrdiff_t ks_room(const ks_call *c) {
    const ks_call *along = c->along;
    const ptrdiff_t own = 2 * c->blocks * c->block;
    if (along == NULL)
        return own + (c->n_sum + c->k->n_scratch + ks_arg_total(c->k)) * KS_LANES;
    return own + c->blocks * along->block +
           (c->n_sum + along->n_sum + ks_larger(c->k->n_scratch, along->k->n_scratch) +
            ks_larger(ks_arg_total(c->k), ks_arg_total(along->k))) * KS_LANES;
}

/* Thread number t of `threads`: chunks that follow each other, through all calls. */
static void ks_thread(const ks_call *const *call, ptrdiff_t count, int t, int threads,
                      double *memory) {
    ptrdiff_t all = 0, before = 0;
    for (ptrdiff_t k = 0; k < count; k++) all += ks_chunks(call[k]);
    const ptrdiff_t first = all * t / threads, last = all * (t + 1) / threads;
    for (ptrdiff_t k = 0; k < count && before < last; k++) {
        const ptrdiff_t n = ks_chunks(call[k]);
        const ptrdiff_t begin = first > before ? first - before : 0;
        const ptrdiff_t end = last - before < n ? last - before : n;
        if (begin < end) {
            ks_work w = ks_workspace(call[k], memory);
            for (ptrdiff_t b = begin; b < end; b++) ks_chunk(call[k], b, b == begin, &w);
        }
        before += n;
    }
    ks_fence();
}

/* What was kept of chunks, in order; then the points of one that goes along beyond those. */
static void ks_combine(const ks_call *c, double *memory) {
    for (ptrdiff_t b = 0; b < ks_chunks(c); b++)
        for (int j = 0; j < c->n_sum; j++)
            c->out[c->place[ks_sums(c)[j].from].base] += c->partial[b * c->n_sum + j];
    for (int j = 0; j < c->n_late; j++)
        c->out[ks_index(c->place + ks_late(c)[j].from, c->n - 1)] += c->last[j];
    if (c->along == NULL) return;
    const ks_work w = ks_workspace(c, memory);
    ks_rest_along(c->along, c->n, c->along->n, c->along->partial, &w);
    ks_combine(c->along, memory);
}

/* -- plans ------------------------------------------------------------------------------------ */

/* Whether all values that a task adds are added, point by point, to those that the one before sets:
 * then it goes along, and `onto` says to which. */
static int ks_goes_along(const ks_call *c, const ks_call *lead) {
    if (lead->along != NULL || c->n < lead->n || c->n > lead->n + 1) return 0;
    int any = 0;
    for (int j = 0; j < c->k->n_out; j++) {
        const ks_place *p = c->place + j;
        if (p->late >= 0 || (p->mode != KS_SUM && p->first != 0) || p->mode == KS_LATE) return 0;
        if (p->mode != KS_ADD) continue;
        for (int i = 0; i < lead->k->n_out && c->onto[j] < 0; i++) {
            const ks_place *q = lead->place + i;
            const int same = q->base == p->base && q->members == p->members && q->slot == p->slot;
            if (same && q->count == p->count && q->first == 0 && q->mode == KS_SET) c->onto[j] = i;
        }
        if (c->onto[j] < 0) return 0;
        any = 1;
    }
    return any;
}

/* Whether a task adds to values of others: then it waits for them. */
static int ks_waits(const ks_call *c) {
    for (int j = 0; j < c->k->n_out; j++)
        if (c->place[j].mode == KS_ADD) return 1;
    return 0;
}

/* Sizes of tiles and chunks. */
static void ks_split(ks_call *c) {
    c->block = (ptrdiff_t)c->k->n_out * KS_LANES;
    c->blocks = c->block < KS_TILE_DOUBLES ? KS_TILE_DOUBLES / c->block : 1;
    if (c->blocks > KS_TILE_BLOCKS) c->blocks = KS_TILE_BLOCKS;
    if (c->blocks < c->k->n_wide) c->blocks = c->k->n_wide; /* at most KS_SAME points */
    ptrdiff_t least = c->blocks * KS_LANES;
    if (least < KS_MIN_CHUNK) least = KS_MIN_CHUNK;
    c->chunk = (ptrdiff_t)ks_round_up((c->n + KS_MAX_CHUNKS - 1) / KS_MAX_CHUNKS, least);
}

/* What all calls of a plan take. */
typedef struct {
    ks_call *call;          /* of all tasks with something to do */
    const ks_call **lead;   /* those that go along with none, and do not wait */
    const ks_call **wait;   /* those that wait, in order */
    ptrdiff_t n_calls, n_lead, n_wait;
} ks_calls;

/* Calls from tasks; there is memory for all of them, with lines and `onto` behind. */
static void ks_prepare(const ks_task *task, ptrdiff_t count, double *out, ks_calls *all,
                       ks_line *line, int *onto) {
    ks_call *before = NULL;
    for (ptrdiff_t k = 0; k < count; k++, task++) {
        if (task->kernel->n_out == 0 || task->n < 1) continue;
        ks_call *c = all->call + all->n_calls++;
        *c = (ks_call){.k = task->kernel, .arg = task->arg, .same = task->same, .out = out,
                       .place = task->place, .onto = onto, .n = task->n, .line = line};
        line += c->k->n_out;
        for (int j = 0; j < c->k->n_out; j++) *onto++ = -1;
        ks_split(c);
        if (before != NULL && ks_goes_along(c, before)) {
            before->along = c;
            c->chunk = before->chunk;
        } else {
            for (int j = 0; j < c->k->n_out; j++) c->onto[j] = -1;
            *(ks_waits(c) ? all->wait + all->n_wait++ : all->lead + all->n_lead++) = c;
            before = c;
        }
    }
    for (ks_call *c = all->call; c < all->call + all->n_calls; c++) {
        ks_make_lines(c);
        if (!c->direct) continue;
        c->blocks = 1; /* a tile is filled for the last points only */
        c->chunk = (ptrdiff_t)ks_round_up(c->chunk, KS_SAME);
    }
    for (ks_call *c = all->call; c < all->call + all->n_calls; c++)
        if (c->along != NULL && c->along->n_fast < c->n_fast) c->n_fast = c->along->n_fast;
}

/* Doubles that a call keeps, in whole cache lines: uniform values, sums, late values. */
static size_t ks_kept(const ks_call *c) {
    return ks_round_up(c->k->n_uniform, 8) +
           ks_round_up(ks_chunks(c) * c->n_sum + c->n_late, 8);
}

/* Gives the calls their memory, and fills it. */
static void ks_keep(const ks_calls *all, double *memory, double *scratch) {
    for (ks_call *c = all->call; c < all->call + all->n_calls; c++) {
        c->u = memory;
        c->partial = c->u + ks_round_up(c->k->n_uniform, 8);
        c->last = c->partial + ks_chunks(c) * c->n_sum;
        memset(c->partial, 0, (size_t)(ks_chunks(c) * c->n_sum + c->n_late) * sizeof(double));
        if (c->k->n_uniform > 0) c->k->uniform(c->k, c->arg, c->u, scratch);
        memory += ks_kept(c);
    }
}

/* Calls that write nothing in common but sums. */
static void ks_together(const ks_call *const *call, ptrdiff_t count, int threads, double *memory,
                        size_t room) {
    ptrdiff_t chunks = 0;
    for (ptrdiff_t k = 0; k < count; k++) chunks += ks_chunks(call[k]);
    if (threads > chunks) threads = (int)chunks;
    if (threads <= 1) { /* a team of one would cost as much as a thousand points */
        ks_thread(call, count, 0, 1, memory);
    } else {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
        for (int t = 0; t < threads; t++)
            ks_thread(call, count, t, threads, memory + (size_t)t * room);
    }
    for (ptrdiff_t k = 0; k < count; k++) ks_combine(call[k], memory);
}

int ks_map(const ks_task *task, ptrdiff_t count, double *out, int threads) {
    ptrdiff_t n_out = 0;
    for (ptrdiff_t k = 0; k < count; k++) n_out += task[k].kernel->n_out;
    const size_t calls = (size_t)count * (sizeof(ks_call) + 2 * sizeof(ks_call *));
    ks_calls all = {.call = calloc(1, calls + (size_t)n_out * (sizeof(ks_line) + sizeof(int)) + 1)};
    if (all.call == NULL) return 1;
    all.lead = (const ks_call **)(all.call + count);
    all.wait = all.lead + count;
    ks_line *line = (ks_line *)(all.wait + count);
    ks_prepare(task, count, out, &all, line, (int *)(line + n_out));

    size_t kept = 0, room = 0; /* whole cache lines: vectors stay aligned */
    for (const ks_call *c = all.call; c < all.call + all.n_calls; c++) {
        const size_t mine = ks_round_up(ks_room(c), 8);
        kept += ks_kept(c);
        if (mine > room) room = mine;
    }
    double *memory = aligned_alloc(64, (kept + room * (size_t)threads + 8) * sizeof(double));
    if (memory == NULL) {
        free(all.call);
        return 1;
    }
    ks_keep(&all, memory, memory + kept);
    ks_together(all.lead, all.n_lead, threads, memory + kept, room);
    for (ptrdiff_t k = 0; k < all.n_wait; k++)
        ks_together(all.wait + k, 1, threads, memory + kept, room);
    free(memory);
    free(all.call);
    return 0;
}

#endif
