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
#define KS_TILE_VALUES 16384 /* doubles per tile: 128 KiB, well inside a second-level cache */

/* One call of ks_map, and the plan for it. */
typedef struct {
    const ks_kernel *k;
    const ks_arg *arg;
    double *out;
    const ptrdiff_t *offset;
    const unsigned char *mode;
    double *u;          /* uniform values, n_uniform */
    ptrdiff_t n, chunk; /* points in all and per chunk */
    ptrdiff_t tile;     /* points per tile */
    int direct;         /* all outputs are rows of one array: written without a tile */
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

/* The m < KS_LANES points from i on, the last one repeated to fill the lanes. */
static void ks_pad(const ks_call *c, ptrdiff_t i, ptrdiff_t m, ks_arg *a, double *pad) {
    for (int j = 0; j < c->k->n_args; j++) {
        a[j] = c->arg[j];
        if (!c->k->varying[j]) continue;
        a[j].data = pad;
        a[j].ld = KS_LANES;
        for (int s = 0; s < c->k->count[j]; s++, pad += KS_LANES)
            for (ptrdiff_t l = 0; l < KS_LANES; l++)
                pad[l] = c->arg[j].data[s * c->arg[j].ld + i + (l < m ? l : m - 1)];
    }
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

/* Distributes a tile of m points from i on; late outputs after all others. */
static void ks_scatter(const ks_call *c, ptrdiff_t i, ptrdiff_t m, int first, const double *tile,
                       double *partial) {
    for (int j = 0; j < c->k->n_out; j++) {
        const double *row = tile + j * c->tile;
        double *to = c->out + c->offset[j] + i;
        if (c->mode[j] == KS_SET) memcpy(to, row, (size_t)m * sizeof *row);
        if (c->mode[j] == KS_ADD)
            for (ptrdiff_t l = 0; l < m; l++) to[l] += row[l];
        if (c->mode[j] == KS_SUM) partial[j] += ks_row_sum(row, m);
    }
    for (int j = 0; j < c->k->n_out; j++) {
        if (c->mode[j] != KS_LATE) continue;
        const double *row = tile + j * c->tile;
        double *to = c->out + c->offset[j] + i;
        if (!first) to[-1] += partial[j];
        for (ptrdiff_t l = 0; l + 1 < m; l++) to[l] += row[l];
        partial[j] = row[m - 1];
    }
}

/* Points begin <= i < end; work holds the tile, the padding and the scratch vectors. */
static void ks_run_chunk(const ks_call *c, ptrdiff_t begin, ptrdiff_t end, double *partial,
                         double *work) {
    const ks_kernel *k = c->k;
    double *scratch = work;
    double *pad = scratch + (ptrdiff_t)k->n_scratch * KS_LANES;
    double *tile = pad + (ptrdiff_t)ks_arg_total(k) * KS_LANES;
    ks_arg a[k->n_args > 0 ? k->n_args : 1];
    ptrdiff_t ld = c->k->n_out > 1 ? c->offset[1] - c->offset[0] : c->n;
    for (ptrdiff_t i = begin; i < end; i += c->tile) {
        ptrdiff_t m = end - i < c->tile ? end - i : c->tile;
        ptrdiff_t whole = m / KS_LANES * KS_LANES;
        if (whole > 0) {
            for (int j = 0; j < k->n_args; j++) {
                a[j] = c->arg[j];
                if (k->varying[j]) a[j].data += i;
            }
            if (c->direct)
                k->block(whole / KS_LANES, a, c->u, c->out + c->offset[0] + i, ld, scratch);
            else
                k->block(whole / KS_LANES, a, c->u, tile, c->tile, scratch);
        }
        if (whole < m) {
            ks_pad(c, i + whole, m - whole, a, pad);
            if (c->direct) {
                k->block(1, a, c->u, tile, KS_LANES, scratch);
                for (int j = 0; j < k->n_out; j++)
                    memcpy(c->out + c->offset[j] + i + whole, tile + j * KS_LANES,
                           (size_t)(m - whole) * sizeof *tile);
            } else {
                k->block(1, a, c->u, tile + whole, c->tile, scratch);
            }
        }
        if (!c->direct) ks_scatter(c, i, m, i == begin, tile, partial);
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

static int ks_map(const ks_kernel *k, ptrdiff_t n, const ks_arg *arg, double *out,
                  const ptrdiff_t *offset, const unsigned char *mode, int threads) {
    ks_call c = {.k = k, .arg = arg, .out = out, .offset = offset, .mode = mode, .n = n};
    if (k->n_out == 0 || n < 1) return 0;
    c.direct = ks_is_direct(k, n, offset, mode);
    ptrdiff_t fit = KS_TILE_VALUES / k->n_out / KS_LANES * KS_LANES;
    c.tile = fit < KS_LANES ? KS_LANES : fit > 1024 ? 1024 : fit;
    c.chunk = ks_round_up((n + KS_MAX_CHUNKS - 1) / KS_MAX_CHUNKS, c.tile);
    ptrdiff_t n_chunks = (n + c.chunk - 1) / c.chunk;
    if (c.direct) c.tile = c.chunk;
    if (threads > n_chunks) threads = (int)n_chunks;

    size_t tile_values = (size_t)k->n_out * (size_t)(c.direct ? KS_LANES : c.tile);
    size_t work = tile_values + (size_t)(k->n_scratch + ks_arg_total(k)) * KS_LANES;
    work = (size_t)ks_round_up((ptrdiff_t)work, 8); /* whole cache lines: rows stay aligned */
    size_t partials = (size_t)ks_round_up(c.direct ? 0 : n_chunks * k->n_out, 8);
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
            double *partial = c.direct ? NULL : c.partial + b * k->n_out;
            ks_run_chunk(&c, begin, end, partial, workspace + (size_t)t * work);
        }
    }
    if (!c.direct) ks_combine(&c, n_chunks);
    free(memory);
    return 0;
}

#endif
