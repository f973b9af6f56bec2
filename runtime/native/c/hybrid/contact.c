#include "contact.h"

#include <math.h>
#include <string.h>

/* A force or acceleration this small against the largest of its kind is none */
#define NEGLIGIBLE 1e-10
/* Tangential velocities below this are none [m/s] */
#define STANDING 1e-9

static void swap(double *a, double *b, int count, int step) {
    for (int k = 0; k < count * step; k += step) {
        const double kept = a[k];
        a[k] = b[k], b[k] = kept;
    }
}

/* Solves a x = b (n x n, row by row; n x sides) by elimination with full pivoting. Columns without a
 * pivot, which redundant contacts leave, get 0, and `null` (nullity x n) is what may be added; returns
 * 0 if the rest is not zero then. */
static int solve(int n, int sides, double *a, double *b, double *x, double *null, int *nullity,
                 double doubt) {
    int column[HYBRID_ROWS];
    double largest = 0.0, size = 0.0;
    for (int k = 0; k < n * n; k++) largest = fmax(largest, fabs(a[k]));
    for (int k = 0; k < n * sides; k++) size = fmax(size, fabs(b[k]));
    for (int k = 0; k < n; k++) column[k] = k;
    int rank = 0;
    for (; rank < n; rank++) {
        int row = rank, best = rank;
        for (int i = rank; i < n; i++)
            for (int j = rank; j < n; j++)
                if (fabs(a[i * n + j]) > fabs(a[row * n + best])) row = i, best = j;
        if (!(fabs(a[row * n + best]) > 1e-12 * largest)) break;
        swap(a + rank * n, a + row * n, n, 1);
        swap(a + rank, a + best, n, n);
        swap(b + rank * sides, b + row * sides, sides, 1);
        const int moved = column[rank];
        column[rank] = column[best], column[best] = moved;
        for (int i = rank + 1; i < n; i++) {
            const double factor = a[i * n + rank] / a[rank * n + rank];
            for (int j = rank; j < n; j++) a[i * n + j] -= factor * a[rank * n + j];
            for (int s = 0; s < sides; s++) b[i * sides + s] -= factor * b[rank * sides + s];
        }
    }
    for (int k = rank * sides; k < n * sides; k++)
        if (fabs(b[k]) > doubt * (size + 1e-300)) return 0;
    for (int k = rank * sides; k < n * sides; k++) b[k] = 0.0;
    for (int i = rank - 1; i >= 0; i--)
        for (int s = 0; s < sides; s++) {
            for (int j = i + 1; j < rank; j++) b[i * sides + s] -= a[i * n + j] * b[j * sides + s];
            b[i * sides + s] /= a[i * n + i];
        }
    for (int k = 0; k < n; k++)
        memcpy(x + column[k] * sides, b + k * sides, (size_t)sides * sizeof *x);
    *nullity = n - rank;
    for (int free = rank; free < n; free++) { /* directions that change nothing, one row each */
        double v[HYBRID_ROWS] = {0};
        v[free] = 1.0;
        for (int i = rank - 1; i >= 0; i--) {
            for (int j = i + 1; j < n; j++) v[i] -= a[i * n + j] * v[j];
            v[i] /= a[i * n + i];
        }
        for (int k = 0; k < n; k++) null[(free - rank) * n + column[k]] = v[k];
    }
    return 1;
}

/* Of all solutions x + null^T c that with the least sum of x^2 / weight */
static void least(int n, double *x, const double *null, int nullity, const double *weight) {
    double a[HYBRID_ROWS * HYBRID_ROWS], b[HYBRID_ROWS], c[HYBRID_ROWS];
    double unused[HYBRID_ROWS * HYBRID_ROWS];
    int more;
    for (int i = 0; i < nullity; i++) {
        b[i] = 0.0;
        for (int k = 0; k < n; k++) b[i] -= null[i * n + k] * x[k] / weight[k];
        for (int j = 0; j < nullity; j++) {
            a[i * nullity + j] = 0.0;
            for (int k = 0; k < n; k++)
                a[i * nullity + j] += null[i * n + k] * null[j * n + k] / weight[k];
        }
    }
    if (nullity == 0 || !solve(nullity, 1, a, b, c, unused, &more, 1.0)) return;
    for (int i = 0; i < nullity; i++)
        for (int k = 0; k < n; k++) x[k] += c[i] * null[i * n + k];
}

void ks_contact_linear(int n, double *a, double *b, double *x) {
    double unused[HYBRID_ROWS * HYBRID_ROWS];
    int nullity;
    solve(n, 1, a, b, x, unused, &nullity, INFINITY);
}

/* The rows that are kept at rest, and the equations `a` of their forces; returns how many */
static int closed(const contact_set *c, const double *W, const int *mode, int *unknown, double *a) {
    int n = 0;
    for (int i = 0; i < c->count; i++)
        if (mode[i] != KS_CONTACT_OPEN) unknown[n++] = i;
    for (int i = 0; i < c->count; i++)
        if (mode[i] == KS_CONTACT_STICKS && c->law[i] != KS_LAW_SLIP) unknown[n++] = c->tangent[i];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const int k = unknown[j], row = unknown[i] * c->rows;
            a[i * n + j] = W[row + k];
            /* friction follows the normal force */
            if (k < c->count && mode[k] >= KS_CONTACT_FORWARDS)
                a[i * n + j] += (mode[k] == KS_CONTACT_FORWARDS ? -1.0 : 1.0) * c->mu[k] *
                                W[row + c->tangent[k]];
        }
    return n;
}

/* Friction of what slides */
static void add_friction(const contact_set *c, const int *mode, double *f) {
    for (int i = 0; i < c->count; i++)
        if (mode[i] >= KS_CONTACT_FORWARDS)
            f[c->tangent[i]] = (mode[i] == KS_CONTACT_FORWARDS ? -1.0 : 1.0) * c->mu[i] * f[i];
}

int ks_contact_forces(const contact_set *c, const double *W, const double *b, const int *mode,
                      double doubt, double *f) {
    int unknown[HYBRID_ROWS];
    double a[HYBRID_ROWS * HYBRID_ROWS], side[HYBRID_ROWS], found[HYBRID_ROWS];
    if (c->count == 0) return 1; /* there is no f either */
    const int n = closed(c, W, mode, unknown, a);
    memset(f, 0, (size_t)c->rows * sizeof *f);
    for (int i = 0; i < n; i++) side[i] = -b[unknown[i]];
    double null[HYBRID_ROWS * HYBRID_ROWS], weight[HYBRID_ROWS];
    int nullity = 0;
    if (n > 0 && !solve(n, 1, a, side, found, null, &nullity, doubt)) return 0;
    if (nullity > 0) { /* redundant points share pressure evenly, friction like pressure */
        double most = 1e-300;
        for (int j = 0; j < n; j++) weight[j] = 1.0;
        least(n, found, null, nullity, weight);
        for (int j = 0; j < n; j++) {
            f[unknown[j]] = found[j];
            if (unknown[j] < c->count) most = fmax(most, fabs(found[j]));
        }
        for (int j = 0; j < n; j++)
            for (int i = 0; i < c->count; i++)
                if (c->tangent[i] == unknown[j]) weight[j] = fmax(f[i] / most, 1e-14);
        least(n, found, null, nullity, weight);
    }
    for (int j = 0; j < n; j++) f[unknown[j]] = found[j];
    add_friction(c, mode, f);
    return 1;
}

void ks_contact_map(const contact_set *c, const double *W, const int *mode, double *map) {
    const int R = c->rows;
    int unknown[HYBRID_ROWS], nullity = 0;
    double a[HYBRID_ROWS * HYBRID_ROWS], side[HYBRID_ROWS * HYBRID_ROWS], weight[HYBRID_ROWS];
    double null[HYBRID_ROWS * HYBRID_ROWS], found[HYBRID_ROWS * HYBRID_ROWS];
    double one[HYBRID_ROWS], f[HYBRID_ROWS];
    const int n = closed(c, W, mode, unknown, a);
    memset(map, 0, (size_t)(R * R) * sizeof *map);
    for (int k = 0; k < n * n; k++) side[k] = k % (n + 1) == 0 ? -1.0 : 0.0;
    solve(n, n, a, side, found, null, &nullity, INFINITY);
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < n; j++) one[j] = found[j * n + k], weight[j] = 1.0;
        least(n, one, null, nullity, weight);
        memset(f, 0, sizeof f);
        for (int j = 0; j < n; j++) f[unknown[j]] = one[j];
        add_friction(c, mode, f);
        for (int i = 0; i < R; i++) map[i * R + unknown[k]] = f[i];
    }
}

/* Whether forces f of these modes obey all inequalities; of friction only if `slide` is known */
static int agrees(const contact_set *c, const double *W, const double *b, const int *near,
                  const double *slide, const int *mode, const double *f) {
    const int R = c->rows;
    double motion[HYBRID_ROWS], force = 0.0, speed = 0.0;
    for (int i = 0; i < R; i++) {
        motion[i] = b[i];
        for (int j = 0; j < R; j++) motion[i] += W[i * R + j] * f[j];
        force = fmax(force, fabs(f[i]));
        speed = fmax(speed, fabs(b[i]));
    }
    const double little = NEGLIGIBLE * force, slow = NEGLIGIBLE * speed;
    for (int i = 0; i < c->count; i++) {
        if (!near[i]) continue;
        if (mode[i] == KS_CONTACT_OPEN) {
            if (motion[i] < -slow) return 0;
            continue;
        }
        if (f[i] < -little) return 0;
        if (c->law[i] != KS_LAW_COULOMB || slide == NULL) continue;
        const int t = c->tangent[i];
        if (mode[i] == KS_CONTACT_STICKS) {
            if (fabs(f[t]) > c->mu[i] * f[i] + little) return 0;
        } else if (fabs(slide[i]) <= STANDING) { /* starts to slide against its friction */
            if ((mode[i] == KS_CONTACT_FORWARDS ? motion[t] : -motion[t]) < -slow) return 0;
        }
    }
    return 1;
}

/* Which modes a contact may be in, `start` being its own: bits 1 << mode */
static int possible(const contact_set *c, int i, const int *near, const double *slide, int start) {
    if (!near[i]) return 1 << KS_CONTACT_OPEN;
    int bits = 1 << KS_CONTACT_OPEN;
    if (slide == NULL) return bits | 1 << start;
    if (c->law[i] != KS_LAW_COULOMB) return bits | 1 << KS_CONTACT_STICKS;
    if (slide[i] > STANDING) return bits | 1 << KS_CONTACT_FORWARDS;
    if (slide[i] < -STANDING) return bits | 1 << KS_CONTACT_BACKWARDS;
    return bits | 1 << KS_CONTACT_STICKS | 1 << KS_CONTACT_FORWARDS | 1 << KS_CONTACT_BACKWARDS;
}

/* Tries all modes that differ from `start` in exactly `left` of the contacts from i on */
static int search(const contact_set *c, const double *W, const double *b, const int *near,
                  const double *slide, const int *start, int i, int left, int *mode, double *f) {
    if (i == c->count)
        return left == 0 && ks_contact_forces(c, W, b, mode, KS_DOUBT, f) &&
               agrees(c, W, b, near, slide, mode, f);
    const int bits = possible(c, i, near, slide, start[i]);
    if (bits & 1 << start[i]) {
        mode[i] = start[i];
        if (search(c, W, b, near, slide, start, i + 1, left, mode, f)) return 1;
    }
    if (left == 0) return 0;
    for (int m = 0; m < 4; m++) {
        if (m == start[i] || !(bits & 1 << m)) continue;
        mode[i] = m;
        if (search(c, W, b, near, slide, start, i + 1, left - 1, mode, f)) return 1;
    }
    return 0;
}

int ks_contact_solve(const contact_set *c, const double *W, const double *b, const int *near,
                     const double *slide, int *mode, double *f) {
    int start[HYBRID_CONTACTS];
    if (c->count == 0) return 1;
    memcpy(start, mode, (size_t)c->count * sizeof *start);
    for (int different = 0; different <= c->count; different++)
        if (search(c, W, b, near, slide, start, 0, different, mode, f)) return 1;
    memcpy(mode, start, (size_t)c->count * sizeof *start);
    return 0;
}
