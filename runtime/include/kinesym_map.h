/* Maps a generated kernel over points: blocks of lanes, tails, threads, and what becomes of the
 * outputs. Included once by each generated library, so that it is built with the library's flags.
 *
 * Points are split into at most KS_MAX_CHUNKS chunks, whose number depends on n alone; sums are
 * formed per chunk and added in order. Hence the result does not depend on the number of threads.
 */
#ifndef KINESYM_MAP_H
#define KINESYM_MAP_H
#include <stdlib.h>
#include <string.h>
#include "kinesym_simd.h"

#define KS_MAX_CHUNKS 64
#define KS_TILE_VALUES 49152 /* doubles per tile: 384 KiB, within a second-level cache */
#define KS_TILE_POINTS 512   /* points per tile at most */

/* One call of ks_map, and the plan for it.
 *
 * Outputs that are summed or added fill a tile first, block after block, which stays in cache; then
 * each output is taken for all points of the tile at once. Outputs that are only set go straight to
 * their places. */
typedef struct {
    const ks_kernel *k;
    const ks_arg *arg;
    double *out;
    const ptrdiff_t *offset;
    const unsigned char *mode;
    double *u;          /* uniform values, n_uniform */
    ptrdiff_t n, chunk; /* points in all and per chunk */
    ptrdiff_t tile;     /* points per tile, a multiple of KS_LANES */
    int packed;         /* outputs go to `out` in the order in which they are made */
    int direct;         /* outputs are rows of one array, ld apart */
    double *partial;    /* n_chunks x n_out: sums, or the last value of late outputs */
} ks_call;

static int ks_is_direct(const ks_kernel *k, ptrdiff_t n, const ptrdiff_t *offset,
                        const unsigned char *mode) {
    ptrdiff_t ld = k->n_out > 1 ? offset[1] - offset[0] : n;
    int direct = ld >= n;
    for (int j = 0; j < k->n_out && direct; j++)
        direct = mode[j] == KS_SET && offset[j] == offset[0] + j * ld;
    return direct;
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

/* Copies output j of the m points of a tile to `row`; returns row. */
static const double *ks_row(const ks_call *c, int j, ptrdiff_t m, const double *tile, double *row) {
    const double *from = tile + j * KS_LANES;
    for (ptrdiff_t i = 0; i < m; i += KS_LANES, from += c->k->n_out * KS_LANES)
        ks_store(row + i, ks_load(from));
    return row;
}

static double ks_row_sum(const double *row, ptrdiff_t m) {
    V sum = ks_splat(0.0);
    double rest = 0.0;
    ptrdiff_t i = 0;
    for (; i + KS_LANES <= m; i += KS_LANES) sum += ks_load(row + i);
    for (; i < m; i++) rest += row[i];
    double lane[KS_LANES];
    ks_store(lane, sum);
    for (int l = 0; l < KS_LANES; l++) rest += lane[l];
    return rest;
}

static void ks_add(double *restrict to, const double *restrict row, ptrdiff_t m) {
    for (ptrdiff_t l = 0; l < m; l++) to[l] += row[l];
}

/* Distributes a tile of m points from i on; late outputs after all others. */
static void ks_scatter(const ks_call *c, ptrdiff_t i, ptrdiff_t m, int first, const double *tile,
                       double *partial) {
    double buffer[KS_TILE_POINTS];
    for (int j = 0; j < c->k->n_out; j++) {
        if (c->mode[j] == KS_LATE) continue;
        const double *row = ks_row(c, j, m, tile, buffer);
        double *to = c->out + c->offset[j] + i;
        if (c->mode[j] == KS_SET) memcpy(to, row, (size_t)m * sizeof *row);
        if (c->mode[j] == KS_ADD) ks_add(to, row, m);
        if (c->mode[j] == KS_SUM) partial[j] += ks_row_sum(row, m);
    }
    for (int j = 0; j < c->k->n_out; j++) {
        if (c->mode[j] != KS_LATE) continue;
        const double *row = ks_row(c, j, m, tile, buffer);
        double *to = c->out + c->offset[j] + i;
        if (!first) to[-1] += partial[j];
        ks_add(to, row, m - 1);
        partial[j] = row[m - 1];
    }
}

/* Points begin <= i < end; work holds scratch vectors, padding and the tile. */
static void ks_run_chunk(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, double *partial,
                         double *work) {
    const ks_kernel *k = c->k;
    const ptrdiff_t block = (ptrdiff_t)k->n_out * KS_LANES;
    double *scratch = work;
    double *pad = scratch + (ptrdiff_t)k->n_scratch * KS_LANES;
    double *tile = pad + (ptrdiff_t)ks_arg_total(k) * KS_LANES;
    ks_arg a[k->n_args > 0 ? k->n_args : 1];
    const ptrdiff_t ld = !c->packed && k->n_out > 1 ? c->offset[1] - c->offset[0] : c->n;
    if (c->direct || c->packed) {
        const ptrdiff_t whole = (end - begin) / KS_LANES * KS_LANES;
        ks_arguments(c, begin, KS_LANES, a, pad);
        double *to = c->out + c->offset[0] + begin * (c->packed ? k->n_out : 1);
        if (c->packed)
            k->block(whole / KS_LANES, a, c->u, to, KS_LANES, block, scratch);
        else
            k->block(whole / KS_LANES, a, c->u, to, ld, KS_LANES, scratch);
        begin += whole;
    }
    for (ptrdiff_t i = begin; i < end; i += c->tile) {
        const ptrdiff_t m = end - i < c->tile ? end - i : c->tile, rest = m % KS_LANES;
        ks_arguments(c, i, KS_LANES, a, pad);
        k->block(m / KS_LANES, a, c->u, tile, KS_LANES, block, scratch);
        if (rest > 0) {
            ks_arguments(c, i + m - rest, rest, a, pad);
            k->block(1, a, c->u, tile + m / KS_LANES * block, KS_LANES, block, scratch);
        }
        if (c->packed)
            for (int j = 0; j < k->n_out; j++)
                memcpy(c->out + c->offset[0] + i * k->n_out + j * m, tile + j * KS_LANES,
                       (size_t)m * sizeof *tile);
        else
            ks_scatter(c, i, m, i == begin, tile, partial);
    }
}

/* Chunk sums and chunk edges, in order. */
static void ks_combine(const ks_call *c, ptrdiff_t n_chunks) {
    const double *partial = c->partial;
    for (ptrdiff_t b = 0; b < n_chunks; b++, partial += c->k->n_out) {
        ptrdiff_t end = (b + 1) * c->chunk < c->n ? (b + 1) * c->chunk : c->n;
        for (int j = 0; j < c->k->n_out; j++) {
            if (c->mode[j] == KS_SUM) c->out[c->offset[j]] += partial[j];
            if (c->mode[j] == KS_LATE) c->out[c->offset[j] + end - 1] += partial[j];
        }
    }
}

static ptrdiff_t ks_round_up(ptrdiff_t value, ptrdiff_t unit) {
    return (value + unit - 1) / unit * unit;
}

KS_PART int ks_map(const ks_kernel *k, ptrdiff_t n, const ks_arg *arg, double *out,
                  const ptrdiff_t *offset, const unsigned char *mode, int threads) {
    ks_call c = {.k = k, .arg = arg, .out = out, .offset = offset, .mode = mode, .n = n};
    if (k->n_out == 0 || n < 1) return 0;
    c.packed = mode == NULL;
    c.direct = !c.packed && ks_is_direct(k, n, offset, mode);
    ptrdiff_t fit = KS_TILE_VALUES / k->n_out / KS_LANES * KS_LANES;
    c.tile = fit < KS_LANES ? KS_LANES : fit > KS_TILE_POINTS ? KS_TILE_POINTS : fit;
    c.chunk = ks_round_up((n + KS_MAX_CHUNKS - 1) / KS_MAX_CHUNKS, c.tile);
    ptrdiff_t n_chunks = (n + c.chunk - 1) / c.chunk;
    if (threads > n_chunks) threads = (int)n_chunks;

    size_t work = (size_t)k->n_out * (size_t)c.tile;
    work += (size_t)(k->n_scratch + ks_arg_total(k)) * KS_LANES;
    work = (size_t)ks_round_up((ptrdiff_t)work, 8); /* whole cache lines: rows stay aligned */
    size_t partials = (size_t)ks_round_up(n_chunks * k->n_out, 8);
    size_t uniform = (size_t)ks_round_up(k->n_uniform, 8);
    size_t bytes = (uniform + partials + work * (size_t)threads) * sizeof(double);
    double *memory = aligned_alloc(64, bytes);
    if (memory == NULL) return 1;
    c.u = memory;
    c.partial = c.u + uniform;
    double *workspace = c.partial + partials;
    memset(c.partial, 0, partials * sizeof(double));
    if (k->n_uniform > 0) k->uniform(arg, c.u, workspace);

#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
#endif
    for (int t = 0; t < threads; t++) {
        for (ptrdiff_t b = n_chunks * t / threads; b < n_chunks * (t + 1) / threads; b++) {
            ptrdiff_t begin = b * c.chunk;
            ptrdiff_t end = begin + c.chunk < n ? begin + c.chunk : n;
            ks_run_chunk(&c, begin, end, c.partial + b * k->n_out, workspace + (size_t)t * work);
        }
    }
    if (!c.packed) ks_combine(&c, n_chunks);
    free(memory);
    return 0;
}

#endif
