/* Random structured systems for the KKT solver, to be run under sanitizers: see test_kkt_memory.py.
 *
 * usage: kkt_stress SEED SYSTEMS; prints the number of solves and the worst backward error, and
 * ends with 1 if something is wrong.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kkt.h"

#define MAX_REFINED 1e-11 /* backward error after one step of refinement */
#define MAX_INVERSE 1e-5      /* error of a row of A A^-1; see invert */
#define NEARLY_SINGULAR 1e8   /* entries of the inverse of the scaled matrix, whose own are 1 */
#define MAX_ROWS 2000

/* -- chance ------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t next(void) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

static int below(int n) { return n > 0 ? (int)(next() >> 33) % n : 0; }

/* Between -1 and 1. */
static double uniform(void) { return (double)(next() >> 11) / 4503599627370496.0 - 1.0; }

static int chance(int percent) { return below(100) < percent; }

/* -- a system ----------------------------------------------------------------------------------- */

/* Exactly as many elements as are used are allocated, so that a step beyond is seen. */
typedef struct {
    int n, n_entries, room;
    int *row, *column, *stage;
    double *values;
} sparse;

static void *must(void *memory) {
    if (memory == NULL) exit(2);
    return memory;
}

static void enter(sparse *a, int i, int j, double value) {
    if (a->n_entries == a->room) {
        a->room = 2 * a->room + 64;
        a->row = must(realloc(a->row, (size_t)a->room * sizeof *a->row));
        a->column = must(realloc(a->column, (size_t)a->room * sizeof *a->column));
        a->values = must(realloc(a->values, (size_t)a->room * sizeof *a->values));
    }
    const int swap = chance(50);
    a->row[a->n_entries] = (swap ? j : i) + 1;
    a->column[a->n_entries] = (swap ? i : j) + 1;
    a->values[a->n_entries++] = value;
}

static void block(sparse *a, int i, int n_rows, int j, int n_columns, double factor) {
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < n_columns; c++)
            if (chance(95)) enter(a, i + r, j + c, factor * uniform());
}

static void trim(sparse *a) {
    a->row = must(realloc(a->row, (size_t)a->n_entries * sizeof *a->row));
    a->column = must(realloc(a->column, (size_t)a->n_entries * sizeof *a->column));
    a->values = must(realloc(a->values, (size_t)a->n_entries * sizeof *a->values));
}

static void renumber(sparse *a) {
    int *to = must(malloc((size_t)a->n * sizeof *to));
    int *stage = must(malloc((size_t)a->n * sizeof *stage));
    for (int v = 0; v < a->n; v++) to[v] = v;
    for (int v = a->n - 1; v > 0; v--) {
        const int w = below(v + 1), swap = to[v];
        to[v] = to[w];
        to[w] = swap;
    }
    for (int e = 0; e < a->n_entries; e++) {
        a->row[e] = to[a->row[e] - 1] + 1;
        a->column[e] = to[a->column[e] - 1] + 1;
    }
    for (int v = 0; v < a->n; v++) stage[to[v]] = a->stage[v];
    free(to);
    free(a->stage);
    a->stage = stage;
}

/* Chains of stages that share a border, with multipliers between stages, slacks, dense rows, delays,
 * long entries; sometimes regularised, sometimes with the scales of an interior-point method. */
static sparse make(void) {
    const int chains = chance(25) ? 1 + below(4) : 1, stages = 1 + below(chance(10) ? 60 : 12);
    const int nx = 1 + below(chance(15) ? 30 : 7);
    const int border = chance(50) ? below(chance(20) ? 25 : 5) : 0;
    const int slacks = chance(30), dense = chance(20) ? 1 + below(2) : 0, curved = !chance(25);
    const int wild = chance(25), regular = chance(20), lag = chance(40) ? 2 + below(20) : stages;
    const int ny = curved ? nx : (nx + 1) / 2;
    const int points = chains * stages, first_slack = points * nx + border;
    const int first_y = first_slack + slacks * points;
    const int first_z = first_y + chains * (stages - 1) * ny;
    const int first_dense = first_z + slacks * points;
    sparse a = {.n = first_dense + dense};
    a.stage = must(malloc((size_t)a.n * sizeof *a.stage));
    for (int v = 0; v < a.n; v++) {
        const int k = v / nx;
        a.stage[v] = v < points * nx ? k / stages * (stages + 1) + k % stages
                     : v < first_slack ? KKT_BORDER : KKT_UNKNOWN;
        const int multiplier = v >= first_y;
        double d = multiplier ? 0.0 : curved ? 2.0 * uniform() : 0.1 + fabs(uniform());
        if (regular) d += multiplier ? -1e-8 : 1e-4;
        if (wild && !multiplier && chance(50)) d += pow(10.0, 1.0 + 11.0 * uniform());
        enter(&a, v, v, d);
    }
    for (int k = 0; k < points; k++) {
        const int x = k * nx;
        for (int i = 0; curved && i < nx; i++) block(&a, x + i, 1, x, i, 1.0);
        block(&a, points * nx, border, x, nx, 1.0);
        block(&a, first_dense, dense, x, nx, 1.0);
        if (slacks) {
            enter(&a, first_z + k, first_slack + k, -1.0);
            block(&a, first_z + k, 1, x, nx, 1.0);
        }
        if (k % stages == stages - 1) continue;
        const int y = first_y + (k / stages * (stages - 1) + k % stages) * ny;
        block(&a, y, ny, x, nx, 1.0);
        block(&a, y, ny, x + nx, nx, 0.1);
        for (int i = 0; i < ny; i++) enter(&a, y + i, x + nx + i, 1.0);
        block(&a, y, ny, points * nx, border, 1.0);
        if (k % stages < lag) continue;
        block(&a, y, 1 + below(ny), x - lag * nx, 1, 1.0);
        if (curved) block(&a, x, nx, x - lag * nx, 1, 0.1);
    }
    for (int k = 0; k < border; k++) block(&a, points * nx + k, 1, points * nx, k, 1.0);
    for (int k = chance(20) ? 1 + below(4) : 0; k > 0; k--) {
        const int i = below(points * nx), j = below(points * nx);
        if (i != j) enter(&a, i, j, uniform());
    }
    trim(&a);
    if (chance(25)) renumber(&a);
    return a;
}

static void drop(sparse *a) {
    free(a->row);
    free(a->column);
    free(a->stage);
    free(a->values);
}

/* As the solver wants it. */
static kkt_matrix view(const sparse *a) {
    return (kkt_matrix){a->n, a->n_entries, a->row, a->column, a->values, 0};
}

/* -- what is done with it ----------------------------------------------------------------------- */

static long solves, singular, refused;
static double worst, worst_refined, worst_inverse;

static int wrong(const char *what, double number) {
    printf("wrong: %s %g\n", what, number);
    return 1;
}

/* Solves for three right-hand sides, the first refined by one step. */
static int solve(const sparse *a, kkt_factors *f) {
    const size_t n = (size_t)a->n;
    double *x = must(calloc(n, sizeof *x)), *b = must(malloc(n * sizeof *b));
    double *r = must(malloc(n * sizeof *r)), *sides = must(malloc(3 * n * sizeof *sides));
    for (size_t v = 0; v < 3 * n; v++) sides[v] = uniform();
    for (size_t v = 0; v < n; v++) b[v] = sides[3 * v];
    int failed = kkt_solve(f, 3, sides) != KKT_OK;
    for (size_t v = 0; v < n; v++) x[v] = sides[3 * v];
    const kkt_matrix whole = view(a);
    const double error = kkt_backward_error(&whole, x, b, r);
    failed |= kkt_solve(f, 1, r) != KKT_OK;
    for (int v = 0; v < a->n; v++) x[v] += r[v];
    const double refined = kkt_backward_error(&whole, x, b, r);
    free(x);
    free(b);
    free(r);
    free(sides);
    solves++;
    worst = fmax(worst, error);
    worst_refined = fmax(worst_refined, refined);
    if (failed) return wrong("status of a solve", 0);
    return refined < MAX_REFINED ? 0 : wrong("backward error", refined);
}

/* The diagonal of A A^-1 from the entries of the inverse in the pattern of A, over the size of their
 * products. Pivots are as bad as chance has it: they only must not be nonsense, unless the matrix is
 * nearly singular. An entry of unknowns that may share no front is asked for, too. */
static int invert(const sparse *a, const kkt_factors *f) {
    const int count = a->n_entries + 1;
    int *row = must(malloc((size_t)count * sizeof *row));
    int *column = must(malloc((size_t)count * sizeof *column));
    double *z = must(malloc((size_t)count * sizeof *z));
    double *sum = must(calloc((size_t)a->n, sizeof *sum));
    double *size = must(calloc((size_t)a->n, sizeof *size));
    for (int e = 0; e < a->n_entries; e++) {
        row[e] = a->row[e] - 1;
        column[e] = a->column[e] - 1;
    }
    row[count - 1] = 0;
    column[count - 1] = a->n - 1;
    int failed = kkt_inverse_entries(f, count, row, column, z) != KKT_OK;
    double error = 0.0, most = 0.0;
    for (int e = 0; e < a->n_entries; e++) {
        const double term = a->values[e] * z[e];
        most = fmax(most, fabs(z[e]) / (f->scale[row[e]] * f->scale[column[e]]));
        sum[row[e]] += term;
        size[row[e]] += fabs(term);
        if (row[e] == column[e]) continue;
        sum[column[e]] += term;
        size[column[e]] += fabs(term);
    }
    for (int v = 0; v < a->n && most < NEARLY_SINGULAR; v++) {
        const double mine = fabs(sum[v] - 1.0) / (size[v] + 1.0);
        if (!(mine <= error)) error = mine; /* NaN stays */
    }
    worst_inverse = fmax(worst_inverse, error);
    failed |= !isfinite(kkt_log_determinant(f));
    free(row);
    free(column);
    free(z);
    free(sum);
    free(size);
    if (failed) return wrong("status of an inverse", 0);
    return error < MAX_INVERSE ? 0 : wrong("entries of the inverse", error);
}

/* Factorises good values, spoilt ones, and good ones again. */
static int factorise(sparse *a, const kkt_plan *plan) {
    const kkt_tolerance tolerances[] = {
        {KKT_QUALITY, KKT_QUALITY, 0.0}, {0.1, 0.01, 0.0}, {0.9, 0.9, 1e-14}};
    const kkt_tolerance tolerance = tolerances[below(3)];
    kkt_factors *f;
    if (kkt_new_factors(plan, &f) != KKT_OK) return wrong("new factors", 0);
    const kkt_matrix whole = view(a);
    int failed = 0;
    for (int round = 0; round < 3 && !failed; round++) {
        const int status = kkt_factorise(f, &whole, tolerance);
        if (status == KKT_SINGULAR) {
            singular++;
        } else if (status == KKT_DELAYED && tolerance.least > 0.5) {
            refused++; /* hardly any pivot is good enough */
        } else if (status != KKT_OK) {
            failed = wrong("status", status);
        } else {
            failed = solve(a, f) || invert(a, f);
        }
        const int e = below(a->n_entries);
        const double kept = a->values[e];
        a->values[e] = round == 0 ? NAN : HUGE_VAL;
        const int spoilt = kkt_factorise(f, &whole, tolerance); /* what is met first counts */
        if (spoilt != KKT_NOT_FINITE && status == KKT_OK) failed |= wrong("status", spoilt);
        if (spoilt == KKT_NOT_FINITE && f->bad_entry != e) failed |= wrong("bad entry", e);
        a->values[e] = kept;
        for (int k = 0; k < a->n_entries; k++) /* other delays than before */
            if (a->row[k] == a->column[k] && chance(30)) a->values[k] += 0.1 * uniform();
    }
    kkt_free_factors(f);
    return failed;
}

static int analyse(sparse *a, const int *stage, int reversed) {
    kkt_plan *plan;
    const int rows = chance(10) ? below(30) : MAX_ROWS;
    const kkt_way way = {.reversed = reversed, .one_way = chance(30), .parts = below(6)};
    const int status = kkt_analyse(a->n, a->n_entries, a->row, a->column, stage, way, rows, &plan);
    if (status == KKT_UNSUPPORTED && plan == NULL && rows < MAX_ROWS) return 0;
    if (status != KKT_OK) return wrong("analysis", status);
    const int failed = factorise(a, plan);
    kkt_free_plan(plan);
    return failed;
}

/* With stages given and found, sometimes with wrong ones, in both directions, in up to five parts. */
static int examine(sparse *a) {
    int *random = must(malloc((size_t)a->n * sizeof *random)), failed = 0;
    for (int v = 0; v < a->n; v++) random[v] = below(20) - 2;
    const int *stages[] = {a->stage, NULL, random};
    const int ways = chance(20) ? 3 : 2;
    for (int way = 0; way < 2 * ways && !failed; way++) {
        failed = analyse(a, stages[way / 2], way % 2);
        if (failed) printf("%d unknowns, stages %d, reversed %d\n", a->n, way / 2, way % 2);
    }
    free(random);
    return failed;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    const int count = atoi(argv[2]);
    for (int k = 0; k < count; k++) {
        sparse a = make();
        const int failed = examine(&a);
        drop(&a);
        if (failed) return 1;
    }
    printf("%d systems, %ld solves, %ld singular, %ld refused, worst %.1e, refined %.1e, "
           "inverse %.1e\n",
           count, solves, singular, refused, worst, worst_refined, worst_inverse);
    if (100 * refused >= solves) return wrong("too many refused systems", (double)refused);
    return 100 * singular < solves ? 0 : wrong("too many singular systems", (double)singular);
}
