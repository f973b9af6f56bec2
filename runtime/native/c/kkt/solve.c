/* Solving with the factors, and how well that went. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dense_types.h"
#include "team.h"

#define PANEL 32 /* sides that are solved for at once: of a front of 200 rows they take 50 KB */

/* Sides that are solved for, by several threads. What a chain adds to its border is summed apart and
 * added when all have done their part, in the order of chains: not even rounding depends on threads.
 * The first chain starts from what is there. */
typedef struct {
    const kkt_factors *factors;
    const kkt_dense *dense;
    ptrdiff_t first; /* block; before it the sides are zero at the pivots */
    int width;       /* how many: one, or a multiple of LANES */
    double *x;       /* side by side, (n, width) */
    double *border;  /* of all chains, likewise */
    char *room;      /* of each thread, for the rows of a block */
} work;

static size_t room_of(const work *job) {
    return (size_t)padded(job->factors->max_rows + 1) * sizeof(double);
}

/* The border of a chain. */
static double *border_of(const work *job, ptrdiff_t chain) {
    return job->border + job->factors->plan->chains[chain].first_border * job->width;
}

static ptrdiff_t border_rows(const kkt_plan *p, ptrdiff_t chain) {
    return p->chains[chain + 1].first_border - p->chains[chain].first_border;
}

/* The unknowns of the border of a chain, by their numbers. */
static const int *unknowns_of_border(const kkt_plan *p) { return p->order + (p->n - p->n_border); }

/* Gathers the rows of a block; the padding stays zero. */
static void gather(const kkt_block *b, int n, const double *x, double *y) {
    for (int k = 0; k < n; k++) y[k] = x[b->rows[k]];
    for (int k = b->n_rows; k < padded(b->n_rows); k++) y[k] = 0.0;
}

/* Finds the rows of a block, the last ones in a border of its own if that is not NULL. */
static double **find(const work *job, const kkt_block *b, int n, double *border, void *room) {
    double **rows = room;
    for (int k = 0; k < n; k++) rows[k] = job->x + (ptrdiff_t)b->rows[k] * job->width;
    for (int k = n; k < b->n_rows; k++) rows[k] = border + (ptrdiff_t)(k - n) * job->width;
    return rows;
}

/* Whether a block has anything to do forwards; unit vectors of parameters touch only the last. */
static int touches(const work *job, const kkt_block *b) {
    for (int r = 0; r < b->n_pivots; r++) {
        const double *x = job->x + (ptrdiff_t)b->rows[r] * job->width;
        for (int k = 0; k < job->width; k++)
            if (x[k] != 0.0) return 1;
    }
    return 0;
}

/* One block, whose last rows are those of a border of its own, or of the sides if that is NULL. */
static void forward(const work *job, const kkt_block *b, int n_border, double *border, void *room) {
    if (!touches(job, b)) return;
    const int n = b->n_rows - (border != NULL ? n_border : 0);
    if (job->width > 1) {
        job->dense->forward_sides(b, job->width, find(job, b, n, border, room));
        return;
    }
    double *y = room;
    gather(b, n, job->x, y);
    if (n < b->n_rows) memcpy(y + n, border, (size_t)n_border * sizeof *y);
    job->dense->forward(b, y);
    for (int r = 0; r < n; r++) job->x[b->rows[r]] = y[r];
    if (n < b->n_rows) memcpy(border, y + n, (size_t)n_border * sizeof *y);
}

/* Blocks from first on to the one before `end`. */
static void forward_chains(const work *job, ptrdiff_t first, ptrdiff_t end, int apart, void *room) {
    const kkt_plan *p = job->factors->plan;
    for (ptrdiff_t k = first > job->first ? first : job->first; k < end; k++)
        forward(job, job->factors->blocks + k, p->fronts[k].n_border,
                apart ? border_of(job, p->fronts[k].chain) : NULL, room);
}

static void backward_chains(const work *job, ptrdiff_t first, ptrdiff_t end, void *room) {
    if (first < job->first) first = job->first;
    for (ptrdiff_t k = end - 1; k >= first; k--) {
        const kkt_block *b = job->factors->blocks + k;
        if (job->width > 1) {
            job->dense->backward_sides(b, job->width, find(job, b, b->n_rows, NULL, room));
            continue;
        }
        double *y = room;
        gather(b, b->n_rows, job->x, y);
        job->dense->backward(b, y);
        for (int r = 0; r < b->n_pivots; r++) job->x[b->rows[r]] = y[r];
    }
}

static void forward_part(void *of, int k) {
    const work *job = of;
    const ptrdiff_t *part = job->factors->plan->part;
    forward_chains(job, part[k], part[k + 1], 1, job->room + (size_t)k * room_of(job));
}

static void backward_part(void *of, int k) {
    const work *job = of;
    const ptrdiff_t *part = job->factors->plan->part;
    backward_chains(job, part[k], part[k + 1], job->room + (size_t)k * room_of(job));
}

/* Puts the border of the first chain from the sides where it is summed, or adds all to the sides. */
static void move_borders(const work *job, int back) {
    const kkt_plan *p = job->factors->plan;
    const int *unknowns = unknowns_of_border(p);
    const ptrdiff_t inner = p->part[p->n_parts] > 0 ? p->fronts[p->part[p->n_parts] - 1].chain + 1 : 0;
    for (ptrdiff_t c = 0; c < (back ? inner : inner > 0); c++) {
        double *sum = border_of(job, c);
        const int *border = p->border + p->chains[c].first_border;
        for (ptrdiff_t k = 0; k < border_rows(p, c); k++) {
            double *mine = job->x + (ptrdiff_t)unknowns[border[k]] * job->width;
            for (int side = 0; side < job->width; side++, sum++) {
                if (!back) *sum = mine[side];
                else mine[side] = c == 0 ? *sum : mine[side] + *sum;
            }
        }
    }
}

/* x := A^-1 x at the pivots of the blocks from `first` on, for one or a panel of sides; x must be zero
 * at those before. */
static int solve_panel(const kkt_factors *factors, ptrdiff_t first, int width, double *x) {
    const kkt_plan *p = factors->plan;
    const ptrdiff_t inner = p->part[p->n_parts];
    const int threads = first < inner ? p->n_parts : 1;
    work job = {factors, kkt_dense_routines(), first, width, x, NULL, NULL};
    const size_t border = (size_t)(p->chains[p->n_chains].first_border * width);
    job.room = aligned_alloc(64, room_of(&job) * (size_t)threads);
    job.border = aligned_alloc(64, (border + LANES) / LANES * LANES * sizeof(double));
    const int made = job.room != NULL && job.border != NULL;
    if (made) {
        memset(job.border, 0, border * sizeof *job.border);
        move_borders(&job, 0);
        if (first < inner) kkt_team(threads, forward_part, &job);
        move_borders(&job, 1);
        forward_chains(&job, inner, p->n_fronts, 0, job.room);
        backward_chains(&job, inner, p->n_fronts, job.room);
        if (first < inner) kkt_team(threads, backward_part, &job);
    }
    free(job.room);
    free(job.border);
    return made ? KKT_OK : KKT_NO_MEMORY;
}

/* A panel of zeros, aligned; memory that is not touched costs nothing. To be freed is `*memory`. */
static double *new_panel(int n, int width, void **memory) {
    *memory = calloc((size_t)n * (size_t)width * sizeof(double) + 64, 1);
    return *memory == NULL ? NULL : (double *)(((uintptr_t)*memory + 63) / 64 * 64);
}

/* Copies `some` columns of a matrix of n rows into another, columns beyond them stay. */
static void copy_columns(int n, int some, const double *from, int their, double *to, int our) {
    for (ptrdiff_t k = 0; k < n; k++)
        memcpy(to + k * our, from + k * their, (size_t)some * sizeof *to);
}

int kkt_solve(kkt_factors *factors, int n_sides, double *x) {
    if (!factors->ready) return KKT_SINGULAR;
    if (n_sides == 1) return solve_panel(factors, 0, 1, x);
    const int n = factors->plan->n, most = padded(n_sides < PANEL ? n_sides : PANEL);
    void *memory;
    double *panel = new_panel(n, most, &memory);
    int status = panel != NULL ? KKT_OK : KKT_NO_MEMORY;
    for (int begin = 0; begin < n_sides && status == KKT_OK; begin += most) {
        const int some = n_sides - begin < most ? n_sides - begin : most, width = padded(some);
        if (begin > 0 && some < width) memset(panel, 0, (size_t)n * (size_t)width * sizeof *panel);
        copy_columns(n, some, x + begin, n_sides, panel, width);
        status = solve_panel(factors, 0, width, panel);
        copy_columns(n, some, panel, width, x + begin, n_sides);
    }
    free(memory);
    return status;
}

/* The first block that has one of these unknowns as a pivot. */
static ptrdiff_t first_block(const kkt_factors *factors, int count, const int *unknowns) {
    ptrdiff_t left = count, k = factors->plan->n_fronts;
    while (left > 0 && k-- > 0) {
        const kkt_block *b = factors->blocks + k;
        for (int r = 0; r < b->n_pivots; r++)
            for (int j = 0; j < count; j++) left -= b->rows[r] == unknowns[j];
    }
    return k;
}

int kkt_inverse(kkt_factors *factors, int count, const int *unknowns, double *inverse) {
    if (!factors->ready) return KKT_SINGULAR;
    const ptrdiff_t first = first_block(factors, count, unknowns);
    int status = KKT_OK;
    for (int begin = 0; begin < count && status == KKT_OK; begin += PANEL) {
        const int some = count - begin < PANEL ? count - begin : PANEL, width = padded(some);
        void *memory;
        double *x = new_panel(factors->plan->n, width, &memory);
        if (x == NULL) return KKT_NO_MEMORY;
        for (int j = 0; j < some; j++) x[(ptrdiff_t)unknowns[begin + j] * width + j] = 1.0;
        status = solve_panel(factors, first, width, x);
        for (ptrdiff_t i = 0; i < count; i++)
            memcpy(inverse + i * count + begin, x + (ptrdiff_t)unknowns[i] * width,
                   (size_t)some * sizeof *x);
        free(memory);
    }
    return status;
}

static double largest(int n, const double *x) {
    double most = 0.0;
    for (int k = 0; k < n; k++) {
        const double size = fabs(x[k]);
        if (!(size <= most)) most = size; /* NaN stays */
    }
    return most;
}

double kkt_backward_error(const kkt_matrix *a, const double *x, const double *b, double *r) {
    const int n = a->n;
    double matrix = 0.0;
    for (int k = 0; k < n; k++) r[k] = b[k];
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = a->row[e] - 1, j = a->column[e] - 1;
        const double value = a->values[e], size = fabs(value);
        r[i] -= value * x[j];
        if (i != j) r[j] -= value * x[i];
        if (size > matrix) matrix = size;
    }
    const double scale = matrix * largest(n, x) + largest(n, b);
    return scale > 0.0 ? largest(n, r) / scale : largest(n, r);
}

void kkt_subtract(const kkt_matrix *a, int count, const double *x, double *restrict r) {
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const ptrdiff_t i = (ptrdiff_t)(a->row[e] - 1) * count;
        const ptrdiff_t j = (ptrdiff_t)(a->column[e] - 1) * count;
        const double value = a->values[e];
        for (int k = 0; k < count; k++) r[i + k] -= value * x[j + k];
        if (i == j) continue;
        for (int k = 0; k < count; k++) r[j + k] -= value * x[i + k];
    }
}

/* `kkt_forms` of one vector: several sums, since an addition takes longer than all else. */
static void form(const kkt_matrix *a, const double *x, double *value, double *size) {
    double values[4] = {0.0}, sizes[4] = {0.0};
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = a->row[e] - 1, j = a->column[e] - 1;
        const double term = a->values[e] * (i == j ? 1.0 : 2.0) * x[i] * x[j];
        values[e & 3] += term;
        sizes[e & 3] += fabs(term);
    }
    *value += (values[0] + values[1]) + (values[2] + values[3]);
    *size += (sizes[0] + sizes[1]) + (sizes[2] + sizes[3]);
}

void kkt_forms(const kkt_matrix *a, int count, const double *x, double *restrict value,
               double *restrict size) {
    if (count == 1) {
        form(a, x, value, size);
        return;
    }
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const double *one = x + (ptrdiff_t)(a->row[e] - 1) * count;
        const double *other = x + (ptrdiff_t)(a->column[e] - 1) * count;
        const double entry = a->values[e] * (one == other ? 1.0 : 2.0);
        for (int k = 0; k < count; k++) {
            const double term = entry * one[k] * other[k];
            value[k] += term;
            size[k] += fabs(term);
        }
    }
}

int kkt_equilibrate(const kkt_matrix *a, int sweeps, double *scale) {
    double *most = malloc((size_t)a->n * sizeof *most);
    if (most == NULL) return KKT_NO_MEMORY;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        memset(most, 0, (size_t)a->n * sizeof *most);
        for (ptrdiff_t e = 0; e < a->n_entries; e++) {
            const int i = a->row[e] - 1, j = a->column[e] - 1;
            const double size = fabs(a->values[e]) * scale[i] * scale[j];
            if (size > most[i]) most[i] = size;
            if (size > most[j]) most[j] = size;
        }
        for (int k = 0; k < a->n; k++)
            if (most[k] > 0.0) scale[k] /= sqrt(most[k]);
    }
    free(most);
    return KKT_OK;
}
