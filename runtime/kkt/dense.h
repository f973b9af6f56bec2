/* Elimination within one dense front, and the two triangular solves with what it leaves behind.
 *
 * Included by dense.c once per instruction set: TARGET(name) adds its suffix; LARGER(a, b) are the
 * larger ones of the lanes (b where a is NaN), LARGEST(a) and SUM(a) go over the lanes.
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


/* Powers of two that make the largest entry of each row of the front about 1: a few rounds of dividing
 * rows and columns by the square root of their largest entry (Ruiz 2001). They decide on pivots only,
 * nothing is scaled: a weight of 1e6 on a measurement must not make all else look like rounding.
 * Rows that are not fully summed count with what is known of them, and with their diagonal: the
 * information on a parameter grows from stage to stage. */
static void TARGET(equilibrate)(front *f) {
    const int ld = f->ld;
    double *scale = f->scale, *most = f->scaled; /* not needed yet */
    for (int i = 0; i < ld; i++) scale[i] = 1.0;
    for (int round = 0; round < SCALING_ROUNDS; round++) {
        memset(most, 0, (size_t)ld * sizeof *most);
        for (int c = 0; c < f->full; c++) {
            const double *column = f->values + (ptrdiff_t)c * ld, s = scale[c];
            for (int i = 0; i < ld; i += LANES) {
                const V size = (V)((M)(*(const V *)(column + i) * s) & INT64_MAX);
                *(V *)(most + i) = LARGER(size, *(const V *)(most + i));
            }
        }
        for (int i = f->full; i < f->n_rows; i++) {
            const double size = fabs(f->values[(ptrdiff_t)i * ld + i]) * scale[i];
            most[i] = size > most[i] ? size : most[i];
        }
        for (int i = 0; i < ld; i += LANES) {
            const V size = *(const V *)(most + i) * *(const V *)(scale + i);
            const M half = (((M)size >> 52) - 1023) >> 1; /* of the exponent */
            const M known = size > 0.0;
            *(V *)(scale + i) *= (V)((1023 - (half & known)) << 52);
        }
    }
}

/* The largest magnitude, scaled by row, in rows >= k without two rows (which may be the same); rows
 * before k in the vector of k are zero. NaN counts as nothing. Rows are left out by masks: a scalar
 * written into the column would have to reach the cache before a vector can be read. */
static inline double TARGET(rest_max)(const front *f, const double *column, int k, int without,
                                      int and_without) {
    V most = {0};
    M row = FIRST_ROWS + k / LANES * LANES;
    for (int i = k / LANES * LANES; i < f->ld; i += LANES, row += LANES) {
        const M counts = (row != without) & (row != and_without) & INT64_MAX;
        const V scaled = *(const V *)(column + i) * *(const V *)(f->scale + i);
        most = LARGER((V)((M)scaled & counts), most);
    }
    return LARGEST(most);
}

/* Exchanges the rows and columns i and k of the fully summed part. */
static inline void TARGET(exchange)(front *f, int i, int k) {
    if (i == k) return;
    double *a = f->values + (ptrdiff_t)i * f->ld, *b = f->values + (ptrdiff_t)k * f->ld;
    for (int r = 0; r < f->ld; r += LANES) {
        V swap = *(V *)(a + r);
        *(V *)(a + r) = *(V *)(b + r);
        *(V *)(b + r) = swap;
    }
    for (int c = 0; c < f->full; c++) {
        double *column = f->values + (ptrdiff_t)c * f->ld, swap = column[i];
        column[i] = column[k];
        column[k] = swap;
    }
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

/* How good column j is as a pivot, alone or with the row of its largest entry: see `choice`. Sizes are
 * those of the scaled matrix. Returns whether the column is zero up to rounding: then the matrix is
 * singular. */
static inline int TARGET(try_column)(const front *f, int k, int j, double enough, choice *best) {
    const double *scale = f->scale;
    const double *cj = f->values + (ptrdiff_t)j * f->ld;
    const double a = cj[j], rest = TARGET(rest_max)(f, cj, k, j, j);
    const double size = fabs(a) * scale[j] > rest ? fabs(a) * scale[j] : rest;
    if (!(size > ROUNDING * f->noise[j])) return 1;
    consider(best, rest > 0.0 ? fabs(a) / (rest * rest) : HUGE_VAL, j, -1);
    if (best->quality >= enough) return 0;

    int r = -1;
    double b = 0.0, most = 0.0;
    for (int i = k; i < f->full; i++)
        if (i != j && fabs(cj[i] * scale[i]) > most) {
            b = cj[i];
            most = fabs(b * scale[i]);
            r = i;
        }
    if (r < 0) return 0;
    const double *cr = f->values + (ptrdiff_t)r * f->ld;
    const double c = cr[r], rest_r = TARGET(rest_max)(f, cr, k, r, r);
    consider(best, fabs(c) / (rest_r * rest_r), r, -1);
    if (best->quality >= enough) return 0;

    const double gj = TARGET(rest_max)(f, cj, k, j, r), gr = TARGET(rest_max)(f, cr, k, j, r);
    const double det = fabs(a * c - b * b), terms = fabs(a * c) + b * b;
    const double growth = fabs(c) * gj * gj + 2.0 * fabs(b) * gj * gr + fabs(a) * gr * gr;
    if (det > ROUNDING * terms)
        consider(best, growth > 0.0 ? det / growth * (det / terms) : HUGE_VAL, j, r);
    return 0;
}

/* Subtracts l1 w1' + l2 w2' (l2 may be NULL) from the fully summed columns from k on and zeroes the
 * rows before k in the vector of k. */
static inline void TARGET(update)(front *f, int k, const double *l1, const double *w1,
                                  const double *l2, const double *w2) {
    const int first = k / LANES * LANES;
    const M stay = FIRST_ROWS + first >= k;
    for (int c = k; c < f->full; c++) {
        double *column = f->values + (ptrdiff_t)c * f->ld;
        const double a = w1[c], b = l2 != NULL ? w2[c] : 0.0;
        V value = *(V *)(column + first) - *(const V *)(l1 + first) * a;
        if (l2 != NULL) value -= *(const V *)(l2 + first) * b;
        *(V *)(column + first) = (V)((M)value & stay);
        for (int i = first + LANES; i < f->ld; i += LANES) {
            value = *(V *)(column + i) - *(const V *)(l1 + i) * a;
            if (l2 != NULL) value -= *(const V *)(l2 + i) * b;
            *(V *)(column + i) = value;
        }
    }
}

/* Remembers the size of what was subtracted from each column: what is left of less is rounding. */
static inline void TARGET(note_noise)(front *f, int begin, double most, const double *w) {
    for (int c = begin; c < f->full; c++) {
        const double size = most * fabs(w[c]);
        f->noise[c] = f->noise[c] > size ? f->noise[c] : size;
    }
}

static inline void TARGET(eliminate_one)(front *f, int k) {
    double *l = f->values + (ptrdiff_t)k * f->ld, *w = f->scaled + (ptrdiff_t)k * f->ld;
    const double inverse = 1.0 / l[k];
    f->d[2 * k] = inverse;
    f->d[2 * k + 1] = 0.0;
    f->negative += inverse < 0.0;
    M row = FIRST_ROWS;
    for (int i = 0; i < f->ld; i += LANES, row += LANES) {
        const V x = *(V *)(l + i);
        *(V *)(w + i) = x;
        *(V *)(l + i) = (V)((M)(x * inverse) & (row > k));
    }
    TARGET(note_noise)(f, k + 1, TARGET(rest_max)(f, l, k, k, k), w);
    TARGET(update)(f, k + 1, l, w, NULL, NULL);
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
    M row = FIRST_ROWS;
    for (int i = 0; i < f->ld; i += LANES, row += LANES) {
        const V x = *(V *)(l1 + i), y = *(V *)(l2 + i);
        const M below = row > k + 1;
        *(V *)(w1 + i) = x;
        *(V *)(w2 + i) = y;
        *(V *)(l1 + i) = (V)((M)(x * ia + y * ib) & below);
        *(V *)(l2 + i) = (V)((M)(x * ib + y * ic) & below);
    }
    TARGET(note_noise)(f, k + 2, TARGET(rest_max)(f, l1, k, k, k), w1);
    TARGET(note_noise)(f, k + 2, TARGET(rest_max)(f, l2, k, k, k), w2);
    TARGET(update)(f, k + 2, l1, w1, l2, w2);
}

/* The lower triangle of the columns that are not fully summed: S -= L W', W = L D. */
static void TARGET(schur)(front *f) {
    const ptrdiff_t ld = f->ld;
    const int n_pivots = f->n_pivots;
    for (int c = f->full; c < f->n_rows; c += 4) {
        double *column = f->values + c * ld;
        int i = c / LANES * LANES;
        for (; i + 2 * LANES <= ld; i += 2 * LANES) {
            V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0};
            for (int t = 0; t < n_pivots; t++) {
                const double *w = f->scaled + t * ld + c;
                const V x = *(const V *)(f->values + t * ld + i);
                const V y = *(const V *)(f->values + t * ld + i + LANES);
                s0 += x * w[0], s1 += x * w[1], s2 += x * w[2], s3 += x * w[3];
                t0 += y * w[0], t1 += y * w[1], t2 += y * w[2], t3 += y * w[3];
            }
            *(V *)(column + i) -= s0;
            *(V *)(column + ld + i) -= s1;
            *(V *)(column + 2 * ld + i) -= s2;
            *(V *)(column + 3 * ld + i) -= s3;
            *(V *)(column + i + LANES) -= t0;
            *(V *)(column + ld + i + LANES) -= t1;
            *(V *)(column + 2 * ld + i + LANES) -= t2;
            *(V *)(column + 3 * ld + i + LANES) -= t3;
        }
        for (; i < ld; i += LANES) {
            V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            for (int t = 0; t < n_pivots; t++) {
                const double *w = f->scaled + t * ld + c;
                const V x = *(const V *)(f->values + t * ld + i);
                s0 += x * w[0], s1 += x * w[1], s2 += x * w[2], s3 += x * w[3];
            }
            *(V *)(column + i) -= s0;
            *(V *)(column + ld + i) -= s1;
            *(V *)(column + 2 * ld + i) -= s2;
            *(V *)(column + 3 * ld + i) -= s3;
        }
    }
}

/* Eliminates from column n_pivots on what has good pivots; returns 1 if the matrix is singular. */
static int TARGET(eliminate)(front *f, kkt_tolerance tolerance) {
    int k = f->n_pivots, next = k;
    while (k < f->full) {
        choice best = {-1.0, -1, -1};
        if (next < k || next >= f->full) next = k;
        for (int left = f->full - k, j = next; left > 0; left--, j = j + 1 < f->full ? j + 1 : k) {
            if (TARGET(try_column)(f, k, j, tolerance.accept, &best)) return 1;
            if (best.quality >= tolerance.accept) {
                next = j + 1;
                break;
            }
        }
        if (!(best.quality >= tolerance.least)) break;
        TARGET(exchange)(f, best.first, k);
        if (best.second < 0) {
            TARGET(eliminate_one)(f, k);
            k++;
        } else {
            TARGET(exchange)(f, best.second == k ? best.first : best.second, k + 1);
            TARGET(eliminate_pair)(f, k);
            k += 2;
        }
        f->n_pivots = k;
    }
    return 0;
}

/* y := D^-1 L^-1 y for the pivots, and the rest of y is updated. y has ld entries. */
static void TARGET(forward)(const kkt_block *b, double *y) {
    const int ld = padded(b->n_rows);
    const double *l = b->l;
    for (int t = 0; t < b->n_pivots; t++) {
        const double x = y[t];
        for (int i = (t + 1) / LANES * LANES; i < ld; i += LANES, l += LANES)
            *(V *)(y + i) -= *(const V *)l * x;
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
        const int first = (t + 1) / LANES * LANES;
        V s = {0};
        l -= ld - first;
        for (int i = first; i < ld; i += LANES) s += *(const V *)(y + i) * *(const V *)(l + i - first);
        y[t] -= SUM(s);
    }
}
