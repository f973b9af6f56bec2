/* Elimination within one dense front, and the two triangular solves with what it leaves behind.
 *
 * Included by dense.c once per instruction set: TARGET(name) adds its suffix, WIDTH are the doubles of
 * its registers (wider vectors would live on the stack) and FIRST_ROWS their numbers; LARGER(a, b) are
 * the larger ones of the lanes (b where a is NaN), LARGEST(a) and SUM(a) go over the lanes. What is
 * stored is padded to LANES for all of them.
 *
 * A front is a symmetric matrix of m rows, stored by columns ld apart, ld a multiple of 8 and columns
 * aligned, rows m ... ld - 1 zero. The first `full` columns are fully summed and stored whole (above
 * the diagonal too), of the others only the lower triangle counts. Pivots are chosen among the
 * fully summed columns and moved to the front:
 *
 *     P' F P = L D L' + S,   L unit lower trapezoidal with n_pivots columns
 *
 * Column t of L is kept from the vector on that holds row t + 1, with zeros for the rows 0 ... t (and
 * t + 1 for the first column of a pair). Of D the inverse is kept: d[2t] is its diagonal, d[2t + 1]
 * the entry below it if t and t + 1 form a pair, else 0.
 */

typedef double TARGET(vector) __attribute__((vector_size(8 * WIDTH), may_alias));
typedef int64_t TARGET(mask) __attribute__((vector_size(8 * WIDTH), may_alias));
typedef double TARGET(unaligned)
    __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));
#define V TARGET(vector)
#define U TARGET(unaligned)
#define M TARGET(mask)

/* Zeroes the first n columns, from the diagonal on where they are not fully summed. */
static void TARGET(clear)(front *f, int n) {
    const V zeros = {0};
    const ptrdiff_t ld = f->ld, full = f->full;
    double *column = f->values;
    for (ptrdiff_t c = 0; c < n; c++, column += ld)
        for (ptrdiff_t i = c < full ? 0 : c & -LANES; i < ld; i += WIDTH) {
            *(V *)(column + i) = zeros;
            __asm__ volatile("" ::: "memory"); /* no call for each column */
        }
}

/* Copies n values, few of them. */
static inline void TARGET(copy)(int n, const double *from, double *to) {
    int k = 0;
    for (; k + WIDTH <= n; k += WIDTH) *(U *)(to + k) = *(const U *)(from + k);
    for (; k < n; k++) to[k] = from[k];
}

/* Puts what the front before leaves, which are the rows of some runs, where it belongs. */
static void TARGET(extend)(const front *before, const run *runs, int n_runs, front *f) {
    const run *last = runs + n_runs;
    const ptrdiff_t q = before->n_pivots;
    const double *from = before->values + q * before->ld + q;
    for (const run *mine = runs; mine < last; mine++) {
        double *to = f->values + (ptrdiff_t)(mine->begin + mine->shift) * f->ld;
        for (int c = mine->begin; c < mine->end; c++, from += before->ld, to += f->ld)
            for (const run *r = mine; r < last; r++)
                TARGET(copy)(r->end - r->begin, from + r->begin, to + r->begin + r->shift);
    }
}

/* The largest magnitude, scaled by row, in rows >= k without two rows >= k (which may be the same). NaN
 * counts as nothing. Rows are left out by masks: a scalar written into the column would have to reach
 * the cache before a vector can be read. */
static inline double TARGET(rest_max)(const front *f, const double *column, int k, int without,
                                      int and_without) {
    const int last = without > and_without ? without : and_without;
    int i = (k & -WIDTH);
    V most = {0};
    for (; i <= last; i += WIDTH) {
        const M row = FIRST_ROWS + i;
        const M counts = (row >= k) & (row != without) & (row != and_without) & INT64_MAX;
        const V scaled = *(const V *)(column + i) * *(const V *)(f->scale + i);
        most = LARGER((V)((M)scaled & counts), most);
    }
    for (; i < f->ld; i += WIDTH) {
        const V scaled = *(const V *)(column + i) * *(const V *)(f->scale + i);
        most = LARGER((V)((M)scaled & INT64_MAX), most);
    }
    return LARGEST(most);
}

/* The fully summed row >= k, not j, with the largest scaled magnitude; -1 if all are zero. */
static inline int TARGET(partner)(const front *f, const double *column, int k, int j) {
    V most = {0};
    M which = {0}, row = FIRST_ROWS + (k & -WIDTH);
    for (int i = (k & -WIDTH); i < f->full; i += WIDTH, row += WIDTH) {
        const M counts = (row >= k) & (row != j) & (row < f->full) & INT64_MAX;
        const V scaled = *(const V *)(column + i) * *(const V *)(f->scale + i);
        const V size = (V)((M)scaled & counts);
        const M larger = size > most;
        most = LARGER(size, most);
        which = (row & larger) | (which & ~larger);
    }
    int best = 0;
    for (int l = 1; l < WIDTH; l++)
        if (most[l] > most[best]) best = l;
    return most[best] > 0.0 ? (int)which[best] : -1;
}

/* Subtracts from column c, from row i on, a multiple of WIDTH, what the pivots from `begin` to the one
 * before `end` leave of it: L W', W = L D. */
static inline void TARGET(subtract)(const front *f, int c, int i, int begin, int end) {
    const ptrdiff_t ld = f->ld;
    const double *l = f->values + begin * ld, *stop = f->values + end * ld;
    const double *w = f->scaled + begin * ld + c;
    double *column = f->values + c * ld;
    for (; i + 4 * WIDTH <= ld; i += 4 * WIDTH) {
        V *to = (V *)(column + i);
        V s0 = to[0], s1 = to[1], s2 = to[2], s3 = to[3];
        const double *x = w;
        for (const double *y = l + i; y < stop; y += ld, x += ld) {
            const V *from = (const V *)y;
            s0 -= from[0] * *x, s1 -= from[1] * *x, s2 -= from[2] * *x, s3 -= from[3] * *x;
        }
        to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
    }
    for (; i < ld; i += WIDTH) {
        V s = *(V *)(column + i);
        const double *x = w;
        for (const double *y = l + i; y < stop; y += ld, x += ld) s -= *(const V *)y * *x;
        *(V *)(column + i) = s;
    }
}

/* The same of columns c ... c + 3 together, which reads half as much; not inlined, where constants of the
 * caller would take its registers. */
static __attribute__((noinline)) void TARGET(subtract_four)(const front *f, int c, int i, int begin,
                                                             int end) {
    const ptrdiff_t ld = f->ld;
    const double *l = f->values + begin * ld, *stop = f->values + end * ld;
    const double *w = f->scaled + begin * ld + c;
    double *column = f->values + c * ld;
    for (; i + 2 * WIDTH <= ld; i += 2 * WIDTH) {
        V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0};
        const double *x = w;
        for (const double *y = l + i; y < stop; y += ld, x += ld) {
            const V a = *(const V *)y, b = *(const V *)(y + WIDTH);
            s0 += a * x[0], s1 += a * x[1], s2 += a * x[2], s3 += a * x[3];
            t0 += b * x[0], t1 += b * x[1], t2 += b * x[2], t3 += b * x[3];
        }
        V *to = (V *)(column + i);
        to[0] -= s0, to[1] -= t0, to = (V *)(column + ld + i);
        to[0] -= s1, to[1] -= t1, to = (V *)(column + 2 * ld + i);
        to[0] -= s2, to[1] -= t2, to = (V *)(column + 3 * ld + i);
        to[0] -= s3, to[1] -= t3;
    }
    for (; i < ld; i += WIDTH) {
        V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        const double *x = w;
        for (const double *y = l + i; y < stop; y += ld, x += ld) {
            const V a = *(const V *)y;
            s0 += a * x[0], s1 += a * x[1], s2 += a * x[2], s3 += a * x[3];
        }
        *(V *)(column + i) -= s0;
        *(V *)(column + ld + i) -= s1;
        *(V *)(column + 2 * ld + i) -= s2;
        *(V *)(column + 3 * ld + i) -= s3;
    }
}

/* Brings column j up to date when it is looked at, once for many pivots, so that all k are accounted for;
 * the next ones, too, where that is many. Its rows before k hold anything. */
static inline void TARGET(update)(front *f, int j, int k) {
    int *seen = f->seen + j;
    const int begin = seen[0], first = (k & -WIDTH);
    if (begin == k) return;
    if (k - begin < 4 || j + 4 > f->full || seen[1] != begin || seen[2] != begin || seen[3] != begin) {
        TARGET(subtract)(f, j, first, begin, k);
        seen[0] = k;
    } else {
        TARGET(subtract_four)(f, j, first, begin, k);
        seen[0] = seen[1] = seen[2] = seen[3] = k;
    }
}

/* Exchanges the rows and columns i and k of the fully summed part. */
static inline void TARGET(exchange)(front *f, int i, int k) {
    if (i == k) return;
    double *a = f->values + (ptrdiff_t)i * f->ld, *b = f->values + (ptrdiff_t)k * f->ld;
    for (int r = 0; r < f->ld; r += WIDTH) {
        V swap = *(V *)(a + r);
        *(V *)(a + r) = *(V *)(b + r);
        *(V *)(b + r) = swap;
    }
    for (int c = 0; c < f->full; c++) {
        double *column = f->values + (ptrdiff_t)c * f->ld, swap = column[i];
        column[i] = column[k];
        column[k] = swap;
    }
    for (int t = 0; t < k; t++) {
        double *w = f->scaled + (ptrdiff_t)t * f->ld, swap = w[i];
        w[i] = w[k];
        w[k] = swap;
    }
    int seen = f->seen[i];
    f->seen[i] = f->seen[k];
    f->seen[k] = seen;
    double noise = f->noise[i];
    f->noise[i] = f->noise[k];
    f->noise[k] = noise;
    double scale = f->scale[i];
    f->scale[i] = f->scale[k];
    f->scale[k] = scale;
    int row = f->rows[i];
    f->rows[i] = f->rows[k];
    f->rows[k] = row;
}

/* Quality of column j as a pivot, alone or with the row of its largest entry: see `choice`. Sizes are
 * those of the scaled matrix. Returns whether the column is zero up to rounding: then the matrix is
 * singular. */
static inline int TARGET(try_column)(front *f, int k, int j, double enough, choice *best) {
    const double *scale = f->scale;
    TARGET(update)(f, j, k);
    const double *cj = f->values + (ptrdiff_t)j * f->ld;
    const double a = cj[j], rest = TARGET(rest_max)(f, cj, k, j, j);
    const double size = fabs(a) * scale[j] > rest ? fabs(a) * scale[j] : rest;
    if (!(size > ROUNDING * f->noise[j])) return 1;
    consider(best, fabs(a) >= enough * rest * rest ? HUGE_VAL : fabs(a) / (rest * rest), j, -1, rest);
    if (best->quality >= enough) return 0;

    const int r = TARGET(partner)(f, cj, k, j);
    if (r < 0) return 0;
    TARGET(update)(f, r, k);
    const double *cr = f->values + (ptrdiff_t)r * f->ld;
    const double b = cj[r], c = cr[r], rest_r = TARGET(rest_max)(f, cr, k, r, r);
    consider(best, fabs(c) / (rest_r * rest_r), r, -1, rest_r);
    if (best->quality >= enough) return 0;

    const double gj = fabs(b) * scale[r] < rest ? rest : TARGET(rest_max)(f, cj, k, j, r);
    const double gr = fabs(b) * scale[j] < rest_r ? rest_r : TARGET(rest_max)(f, cr, k, j, r);
    const double det = fabs(a * c - b * b), terms = fabs(a * c) + b * b;
    const double growth = fabs(c) * gj * gj + 2.0 * fabs(b) * gj * gr + fabs(a) * gr * gr;
    if (det > ROUNDING * terms)
        consider(best, growth > 0.0 ? det / growth * (det / terms) : HUGE_VAL, j, r, 0.0);
    return 0;
}

/* Keeps the size of what a pivot subtracts from the columns, W times the largest entry of L: what is left
 * of less is rounding. */
static inline void TARGET(add_noise)(front *f, int i, V w, double growth) {
    V *noise = (V *)(f->noise + i);
    *noise = LARGER((V)((M)(w * growth) & INT64_MAX), *noise);
}

/* `rest`: the largest entry of the column but the pivot. */
static inline void TARGET(eliminate_one)(front *f, int k, double rest) {
    double *l = f->values + (ptrdiff_t)k * f->ld, *w = f->scaled + (ptrdiff_t)k * f->ld;
    const double inverse = 1.0 / l[k];
    f->d[2 * k] = inverse;
    f->d[2 * k + 1] = 0.0;
    f->negative += inverse < 0.0;
    int i = (k & -LANES);
    for (; i <= k; i += WIDTH) {
        const V x = *(V *)(l + i);
        *(V *)(w + i) = x;
        *(V *)(l + i) = (V)((M)(x * inverse) & (FIRST_ROWS + i > k));
        TARGET(add_noise)(f, i, x, rest * inverse);
    }
    for (; i < f->ld; i += WIDTH) {
        const V x = *(V *)(l + i);
        *(V *)(w + i) = x;
        *(V *)(l + i) = x * inverse;
        TARGET(add_noise)(f, i, x, rest * inverse);
    }
}

static inline void TARGET(eliminate_pair)(front *f, int k) {
    double *l1 = f->values + (ptrdiff_t)k * f->ld, *l2 = l1 + f->ld;
    double *w1 = f->scaled + (ptrdiff_t)k * f->ld, *w2 = w1 + f->ld;
    const double a = l1[k], b = l1[k + 1], c = l2[k + 1], det = a * c - b * b;
    const double ia = c / det, ib = -b / det, ic = a / det;
    f->d[2 * k] = ia;
    f->d[2 * k + 1] = ib;
    f->d[2 * k + 2] = ic;
    f->d[2 * k + 3] = 0.0;
    f->negative += det < 0.0 ? 1 : a < 0.0 ? 2 : 0;
    f->pairs++;
    const int first = (k & -LANES);
    M row = FIRST_ROWS + first;
    for (int i = first; i < f->ld; i += WIDTH, row += WIDTH) {
        const V x = *(V *)(l1 + i), y = *(V *)(l2 + i);
        const M below = row > k + 1;
        *(V *)(w1 + i) = x;
        *(V *)(w2 + i) = y;
        *(V *)(l1 + i) = (V)((M)(x * ia + y * ib) & below);
        *(V *)(l2 + i) = (V)((M)(x * ib + y * ic) & below);
    }
    const double one = TARGET(rest_max)(f, l1, k, k, k), two = TARGET(rest_max)(f, l2, k, k, k);
    for (int i = first; i < f->ld; i += WIDTH) {
        TARGET(add_noise)(f, i, *(V *)(w1 + i), one);
        TARGET(add_noise)(f, i, *(V *)(w2 + i), two);
    }
}

/* The lower triangle of the columns that are not fully summed. */
static void TARGET(schur)(front *f) {
    for (int c = f->full; c < f->n_rows; c += 4)
        TARGET(subtract_four)(f, c, (c & -WIDTH), 0, f->n_pivots);
}

/* Copies the columns of L. */
static void TARGET(keep)(const front *f, double *l) {
    const ptrdiff_t ld = f->ld, n_pivots = f->n_pivots;
    const double *column = f->values;
    for (ptrdiff_t t = 0; t < n_pivots; t++, column += ld)
        for (ptrdiff_t i = (t + 1) & -LANES; i < ld; i += WIDTH, l += WIDTH) {
            *(V *)l = *(const V *)(column + i);
            __asm__ volatile("" ::: "memory"); /* no call for each column */
        }
}

/* Eliminates from column n_pivots on what has good pivots; returns 1 if the matrix is singular. */
static int TARGET(eliminate)(front *f, kkt_tolerance tolerance) {
    int k = f->n_pivots, next = k;
    while (k < f->full) {
        choice best = {-1.0, -1, -1, 0.0};
        if (next < k || next >= f->full) next = k;
        for (int left = f->full - k, j = next; left > 0; left--, j = j + 1 < f->full ? j + 1 : k) {
            if (TARGET(try_column)(f, k, j, tolerance.accept, &best)) return 1;
            if (best.quality >= tolerance.accept) {
                next = j + 1;
                break;
            }
        }
        if (!(best.quality >= tolerance.least)) break;
        if (best.second < 0 && is_faint(f, best.first, tolerance)) return 1;
        TARGET(exchange)(f, best.first, k);
        if (best.second < 0) {
            TARGET(eliminate_one)(f, k, best.rest);
            k++;
        } else {
            TARGET(exchange)(f, best.second == k ? best.first : best.second, k + 1);
            TARGET(eliminate_pair)(f, k);
            k += 2;
        }
        f->n_pivots = k;
    }
    for (int c = k; c < f->full; c++) TARGET(update)(f, c, k);
    return 0;
}

/* y := D^-1 L^-1 y for the pivots, and the rest of y is updated. y has ld entries. */
static void TARGET(forward)(const kkt_block *b, double *y) {
    const int ld = padded(b->n_rows);
    const double *l = b->l;
    for (int t = 0; t < b->n_pivots; t++) {
        const double x = y[t];
        for (int i = (t + 1) & -LANES; i < ld; i += WIDTH, l += WIDTH) {
            __builtin_prefetch(l + EARLY);
            *(V *)(y + i) -= *(const V *)l * x;
        }
    }
    for (int t = 0; t < b->n_pivots; t++) {
        const double x = y[t];
        y[t] = x * b->d[2 * t];
        if (b->d[2 * t + 1] == 0.0) continue;
        y[t] += y[t + 1] * b->d[2 * t + 1];
        y[t + 1] = x * b->d[2 * t + 1] + y[t + 1] * b->d[2 * t + 2];
        t++;
    }
}

/* The pivots' part of y := L^-T y. */
static void TARGET(backward)(const kkt_block *b, double *y) {
    const int ld = padded(b->n_rows);
    const double *l = b->l + trapezoid(b->n_rows, b->n_pivots);
    for (int t = b->n_pivots - 1; t >= 0; t--) {
        const int first = (t + 1) & -LANES;
        V s = {0};
        l -= ld - first;
        for (int i = first; i < ld; i += WIDTH) {
            __builtin_prefetch(l + i - first - EARLY);
            s += *(const V *)(y + i) * *(const V *)(l + i - first);
        }
        y[t] -= SUM(s);
    }
}

/* forward of many sides at once, a multiple of LANES, from pointers to their rows. */
static void TARGET(forward_sides)(const kkt_block *b, int width, double *const *rows) {
    const int q = b->n_pivots;
    for (int t = 0; t < q; t++) {
        const double *l = b->l + trapezoid(b->n_rows, t) - ((t + 1) & -LANES);
        for (int i = t + 1; i < q; i++)
            for (int k = 0; k < width; k += WIDTH)
                *(V *)(rows[i] + k) -= *(const V *)(rows[t] + k) * l[i];
    }
    for (int t = 0; t < q; t += 4) {
        const int some = q - t < 4 ? q - t : 4;
        const double *l[4];
        for (int s = 0; s < 4; s++) {
            const int column = t + (s < some ? s : 0);
            l[s] = b->l + trapezoid(b->n_rows, column) - ((column + 1) & -LANES);
        }
        for (int i = q; i < b->n_rows; i++)
            for (int k = 0; k < width; k += WIDTH) {
                V y = *(V *)(rows[i] + k);
                for (int s = 0; s < some; s++) y -= *(const V *)(rows[t + s] + k) * l[s][i];
                *(V *)(rows[i] + k) = y;
            }
    }
    for (int t = 0; t < q; t++) {
        const double *d = b->d + 2 * t;
        for (int k = 0; k < width; k += WIDTH) {
            V *y = (V *)(rows[t] + k);
            const V x = *y;
            *y = x * d[0];
            if (d[1] == 0.0) continue;
            V *z = (V *)(rows[t + 1] + k);
            *y += *z * d[1];
            *z = x * d[1] + *z * d[2];
        }
        t += d[1] != 0.0;
    }
}

/* backward of many sides. */
static void TARGET(backward_sides)(const kkt_block *b, int width, double *const *rows) {
    for (int t = b->n_pivots - 1; t >= 0; t--) {
        const double *l = b->l + trapezoid(b->n_rows, t) - ((t + 1) & -LANES);
        int k = 0;
        for (; k + 4 * WIDTH <= width; k += 4 * WIDTH) {
            V *y = (V *)(rows[t] + k), s0 = y[0], s1 = y[1], s2 = y[2], s3 = y[3];
            for (int i = t + 1; i < b->n_rows; i++) {
                const V *x = (const V *)(rows[i] + k);
                s0 -= x[0] * l[i], s1 -= x[1] * l[i], s2 -= x[2] * l[i], s3 -= x[3] * l[i];
            }
            y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
        }
        for (; k < width; k += WIDTH) {
            V s = *(V *)(rows[t] + k);
            for (int i = t + 1; i < b->n_rows; i++) s -= *(const V *)(rows[i] + k) * l[i];
            *(V *)(rows[t] + k) = s;
        }
    }
}

/* The pivots' rows and columns of Z = A^-1 at the rows of a front, columns padded(n_rows) apart, from
 * the other rows: Z L = L^-T D^-1, whose lower triangle is that of D^-1. Padding is zero. */
static void TARGET(inverse)(const kkt_block *b, double *z) {
    const int rows = b->n_rows;
    const ptrdiff_t ld = padded(rows);
    const double *l = b->l + trapezoid(rows, b->n_pivots);
    for (int t = b->n_pivots - 1; t >= 0; t--) {
        const int first = (t + 1) & -LANES;
        double *column = z + t * ld;
        V s = {0};
        l -= ld - first;
        int i = first;
        for (; i + 4 * WIDTH <= ld; i += 4 * WIDTH) {
            V c0 = {0}, c1 = {0}, c2 = {0}, c3 = {0};
            for (int r = t + 1; r < rows; r++) {
                const V *theirs = (const V *)(z + r * ld + i);
                const double x = l[r - first];
                c0 -= theirs[0] * x, c1 -= theirs[1] * x, c2 -= theirs[2] * x, c3 -= theirs[3] * x;
            }
            V *mine = (V *)(column + i);
            mine[0] = c0, mine[1] = c1, mine[2] = c2, mine[3] = c3;
        }
        for (; i < ld; i += WIDTH) {
            V c = {0};
            for (int r = t + 1; r < rows; r++) c -= *(const V *)(z + r * ld + i) * l[r - first];
            *(V *)(column + i) = c;
        }
        for (i = first; i < ld; i += WIDTH) s += *(V *)(column + i) * *(const V *)(l + i - first);
        if (b->d[2 * t + 1] != 0.0) column[t + 1] += b->d[2 * t + 1];
        column[t] = b->d[2 * t] - SUM(s);
        for (int r = t + 1; r < rows; r++) z[r * ld + t] = column[r];
    }
}

#undef V
#undef U
#undef M
