# cython: language_level=3, boundscheck=False, wraparound=False
"""The time-structured KKT solver: sessions for IPOPT, and its parts one by one."""

from libc.math cimport fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from kinesym.runtime.native._arrays cimport doubles, ints

import numpy as np


cdef extern from "kkt/kkt.h" nogil:
    enum: KKT_OK
    enum: KKT_SINGULAR
    enum: KKT_NO_MEMORY
    enum: KKT_NOT_FINITE
    enum: KKT_UNSUPPORTED
    enum: KKT_INACCURATE
    enum: KKT_DELAYED
    enum: KKT_INERTIA
    enum: KKT_BORDER
    enum: KKT_UNKNOWN

    ctypedef struct kkt_front:
        int n_pivots
        int n_carried

    ctypedef struct kkt_way:
        int reversed
        int threads
        int one_way
        int parts

    ctypedef struct kkt_plan:
        int n
        ptrdiff_t n_entries
        ptrdiff_t n_fronts
        kkt_front *fronts
        int max_rows
        double operations
        double factor_bytes
        int hinted
        int n_parts
        int n_separators
        uint64_t key[2]

    ctypedef struct kkt_factors:
        ptrdiff_t negative
        ptrdiff_t delayed
        ptrdiff_t turned
        ptrdiff_t pairs
        double operations
        int max_rows
        double *seconds
        ptrdiff_t bad_entry
        int ready
        double bytes

    double KKT_QUALITY
    ctypedef struct kkt_tolerance:
        double accept
        double least
        double faint

    int kkt_analyse(int, ptrdiff_t, const int *, const int *, const int *, kkt_way, int,
                    kkt_plan **)
    void kkt_free_plan(kkt_plan *)
    void kkt_pattern_key(int, ptrdiff_t, const int *, const int *, const int *, uint64_t *)
    int kkt_find_stages(int, ptrdiff_t, const int *, const int *, int *)
    int kkt_new_factors(const kkt_plan *, kkt_factors **)
    void kkt_free_factors(kkt_factors *)
    ctypedef struct kkt_matrix:
        int n
        ptrdiff_t n_entries
        const int *row
        const int *column
        const double *values
        int n_multipliers

    int kkt_factorise(kkt_factors *, const kkt_matrix *, kkt_tolerance)
    int kkt_solve(kkt_factors *, int, double *)
    int kkt_inverse(kkt_factors *, int, const int *, double *)
    double kkt_log_determinant(const kkt_factors *)
    int kkt_inverse_entries(const kkt_factors *, ptrdiff_t, const int *, const int *, double *)
    double kkt_backward_error(const kkt_matrix *, const double *, const double *, double *)
    void kkt_subtract(const kkt_matrix *, int, const double *, double *)
    void kkt_forms(const kkt_matrix *, int, const double *, double *, double *)
    int kkt_equilibrate(const kkt_matrix *, int, double *)


cdef extern from "kkt/session.h" nogil:
    ctypedef struct kkt_report:
        int analyses
        int factorisations
        int solves
        int status
        int bad_row
        int bad_column
        int hinted
        int reversed
        int n_parts
        int max_rows
        ptrdiff_t n_fronts
        double delayed
        double backward_error
        double bytes
        double seconds

    ctypedef struct kkt_limits:
        int max_rows
        double backward_error

    int kkt_open(int, int, const int *, int, int, kkt_limits)
    void kkt_close(kkt_report *)
    kkt_factors *kkt_take_factors(kkt_plan **)
    void kkt_forget()
    int kkt_kept()


#: Names of the outcomes of a factorisation, by number.
STATUSES = {
    KKT_OK: "ok", KKT_SINGULAR: "singular", KKT_NO_MEMORY: "no memory",
    KKT_NOT_FINITE: "not finite", KKT_UNSUPPORTED: "unsupported", KKT_INACCURATE: "inaccurate",
    KKT_DELAYED: "delayed", KKT_INERTIA: "wrong inertia",
}

#: Stage of unknowns that belong to no node.
BORDER = KKT_BORDER
#: Stage of unknowns whose stage is to be found.
UNKNOWN = KKT_UNKNOWN
#: Quality of pivots that suffices for solutions, see `kkt.h`.
QUALITY = KKT_QUALITY


#: Rows of a front above which the solver gives up: dense fronts are no match for sparse ones then.
MAX_ROWS = 2000
#: Backward error after one step of refinement above which the solver gives up [-].
MAX_BACKWARD_ERROR = 1e-8


def open_session(int n, stages, int multipliers=0, int threads=1, int max_rows=MAX_ROWS,
                 double backward_error=MAX_BACKWARD_ERROR):
    """Prepare a solve by IPOPT on this thread.

    n : order of the KKT systems. stages : int32, stages of the first unknowns, see `Factorisation`.
    multipliers : see `Factorisation.factorise`. threads : that factorisations take at most. max_rows, backward_error : beyond these the solver
        gives up.
    """
    cdef kkt_limits limits
    limits.max_rows, limits.backward_error = max_rows, backward_error
    given = np.ascontiguousarray(stages, dtype=np.intc)
    if kkt_open(n, len(given), ints(given, given.shape, "stages"), multipliers, threads,
                limits) != KKT_OK:
        raise MemoryError


cdef class _Analysis:
    """The analysis of a pattern, which all factorisations of it share."""

    cdef kkt_plan *plan

    def __dealloc__(self):
        kkt_free_plan(self.plan)


cdef class Workspace:
    """The analysis of a pattern, which every `Factorisation` of it shares and the first one fills in,
    and memory for factors that one of them can take."""

    cdef _Analysis _analysis
    cdef kkt_factors *_factors

    def __cinit__(self):
        self._analysis = _Analysis()

    def __dealloc__(self):
        kkt_free_factors(self._factors)

    cdef void fill(self, _Analysis analysis) noexcept:
        kkt_free_factors(self._factors)
        self._analysis, self._factors = analysis, NULL

    cdef bint fits(self, int n, ptrdiff_t count, const int *rows, const int *columns,
                   const int *stages):
        """Whether an analysis exists and fits this pattern."""
        cdef uint64_t key[2]
        cdef kkt_plan *plan = self._analysis.plan
        if plan == NULL or plan.n != n or plan.n_entries != count:
            return False
        kkt_pattern_key(n, count, rows, columns, stages, key)
        return key[0] == plan.key[0] and key[1] == plan.key[1]


def close_session():
    """End the session; returns its report, a dictionary with the fields of `kkt_report`, and the
    `workspace` of the last factors or None."""
    cdef kkt_report r
    cdef Workspace left = Workspace()
    left._factors = kkt_take_factors(&left._analysis.plan)
    kkt_close(&r)
    report = dict(r)
    report["status"] = STATUSES[r.status]
    report["workspace"] = None if left._factors == NULL else left
    return report


def forget():
    """Free the analysis that is kept for the next session."""
    kkt_forget()


def kept():
    """Number of analyses that are kept, by all threads."""
    return kkt_kept()


def _places(int n, rows, columns):
    """Rows and columns from 1, int32; raises `ValueError` if they do not fit a matrix of order n."""
    i, j = np.asarray(rows), np.asarray(columns)
    integers = i.dtype.kind in "iu" and j.dtype.kind in "iu"
    if i.shape != j.shape or i.ndim != 1 or i.size == 0 or not integers:
        raise ValueError("rows and columns must be integers, equally many, and not empty")
    if min(i.min(), j.min()) < 0 or max(i.max(), j.max()) >= n:
        raise ValueError(f"entries lie outside a matrix of order {n}")
    return [np.ascontiguousarray(k + 1, dtype=np.intc) for k in (i, j)]


def find_stages(int n, rows, columns):
    """Stages of the unknowns from the pattern alone, (n,) int32; see `Factorisation`."""
    i, j = _places(n, rows, columns)
    stages = np.empty(n, dtype=np.intc)
    status = kkt_find_stages(n, len(i), ints(i, i.shape, "rows"), ints(j, i.shape, "columns"),
                             ints(stages, (n,), "stages"))
    if status != KKT_OK:
        raise MemoryError
    return stages


def largest_in_rows(rows, columns, values, sizes, int n):
    """The largest |value| sizes[column] of each of n rows of a matrix, (n,), from its entries; 0
    where there are none."""
    i, j = (np.ascontiguousarray(k, dtype=np.intc) for k in (rows, columns))
    a, given = (np.ascontiguousarray(k, dtype=np.float64) for k in (values, sizes))
    found = np.zeros(n)
    cdef const int *row = ints(i, a.shape, "rows")
    cdef const int *column = ints(j, a.shape, "columns")
    cdef const double *value = doubles(a, a.shape, "values")
    cdef const double *size = doubles(given, given.shape, "sizes")
    cdef double *most = doubles(found, (n,), "found")
    cdef ptrdiff_t e, count = len(a), width = len(given)
    cdef double here
    for e in range(count):
        if not (0 <= row[e] < n and 0 <= column[e] < width):
            raise ValueError(f"entries lie outside a matrix ({n}, {width})")
        here = fabs(value[e]) * size[column[e]]
        if not here <= most[row[e]]:  # NaN stays
            most[row[e]] = here
    return found


def forms(rows, columns, values, x):
    """The forms x' A x of the columns of x (n, k) and the sizes of their terms, (k,) each, for a
    symmetric A from the entries of one triangle; duplicates count as terms of their own."""
    i, j = _places(len(x), rows, columns)
    a, vectors = (np.ascontiguousarray(each, dtype=np.float64) for each in (values, x))
    made = np.zeros((2, vectors.shape[1]))
    cdef kkt_matrix matrix
    matrix.n, matrix.n_entries = len(x), len(i)
    matrix.row, matrix.column = ints(i, i.shape, "rows"), ints(j, i.shape, "columns")
    matrix.values = doubles(a, i.shape, "values")
    cdef int count = vectors.shape[1]
    cdef double *value = doubles(made, made.shape, "made")
    cdef const double *vector = doubles(vectors, vectors.shape, "x")
    with nogil:
        kkt_forms(&matrix, count, vector, value, value + count)
    return made[0], made[1]


def equilibrated(rows, columns, values, scale, int sweeps):
    """Diagonal (n,) of D with which the largest entry of each row of D A D comes near 1, by sweeps
    from `scale` over the entries of a symmetric A, each place of one triangle once."""
    made = np.array(scale, dtype=np.float64)
    i, j = _places(len(made), rows, columns)
    a = np.ascontiguousarray(values, dtype=np.float64)
    cdef kkt_matrix matrix
    matrix.n, matrix.n_entries = len(made), len(i)
    matrix.row, matrix.column = ints(i, i.shape, "rows"), ints(j, i.shape, "columns")
    matrix.values = doubles(a, i.shape, "values")
    if kkt_equilibrate(&matrix, sweeps, doubles(made, made.shape, "scale")) != KKT_OK:
        raise MemoryError
    return made


cdef class Factorisation:
    """L D L' of a symmetric matrix with stages.

    Parameters
    ----------
    n : order. rows, columns : places of the entries, from 0, either triangle; duplicates are summed.
    stages : (n,), the stage of each unknown, or BORDER, or UNKNOWN (found from its neighbours);
        None finds all from the pattern.
    reverse : eliminate from the first stage to the last instead of backwards.
    max_rows : of a front. threads : that work at most, where they save time; rounding depends on how
        many. parts : so many, whether or not that saves time. one_way : no part is eliminated
        against the direction of the others. workspace : used if it is of this pattern, in the same
        order: then nothing is analysed, and direction and threads are as they were; else it gets
        the analysis of this one.

    Raises `ValueError` if the pattern has no narrow stages.
    """

    cdef _Analysis _analysis
    cdef kkt_plan *_plan
    cdef kkt_factors *_factors
    cdef const int *_row
    cdef const int *_column
    cdef list _keep
    cdef bint _analysed

    def __cinit__(self, int n, rows, columns, stages=None, bint reverse=False,
                  int max_rows=MAX_ROWS, int threads=1, int parts=0, bint one_way=False,
                  Workspace workspace=None):
        cdef kkt_way way
        cdef const int *hint = NULL
        self._keep = [i, j] = _places(n, rows, columns)
        self._row, self._column = ints(i, i.shape, "rows"), ints(j, i.shape, "columns")
        if stages is not None:
            given = np.ascontiguousarray(stages, dtype=np.intc)
            if given.shape != (n,) or np.min(given) < KKT_UNKNOWN:
                raise ValueError(f"stages must be {n} numbers >= {KKT_UNKNOWN}")
            hint = ints(given, (n,), "stages")
        if workspace is not None and workspace.fits(n, len(i), self._row, self._column, hint):
            self._analysis, self._plan = workspace._analysis, workspace._analysis.plan
            self._factors, workspace._factors = workspace._factors, NULL
            if self._factors != NULL:
                self._factors.ready = 0  # until there are factors of these values
            elif kkt_new_factors(self._plan, &self._factors) != KKT_OK:
                raise MemoryError
            return
        self._analysed, self._analysis = True, _Analysis()
        way.reversed, way.threads, way.one_way, way.parts = reverse, threads, one_way, parts
        status = kkt_analyse(n, len(i), self._row, self._column, hint, way, min(max_rows, 65535),
                             &self._plan)
        self._analysis.plan = self._plan
        if status == KKT_OK and workspace is not None:
            workspace.fill(self._analysis)
        if status == KKT_OK:
            status = kkt_new_factors(self._plan, &self._factors)
        if status == KKT_UNSUPPORTED:
            raise ValueError("the pattern has no narrow stages")
        if status != KKT_OK:
            raise MemoryError

    def __dealloc__(self):
        kkt_free_factors(self._factors)

    @property
    def order(self):
        """The order of the matrix."""
        return self._plan.n

    def factorise(self, values, double accept=KKT_QUALITY, double least=KKT_QUALITY,
                  double faint=0.0, int multipliers=0):
        """Factorise for these values; returns a name in `STATUSES`.

        accept, least : qualities (inverse of the growth) at which a pivot is taken at once, and
            below which it is delayed. faint : a pivot that is less, beside what was subtracted from
            its column, makes the matrix singular; 0 for what is rounding only. multipliers : how
            many of the last unknowns are; with more negative eigenvalues the inertia is wrong, and
            the factorisation ends where that shows. 0 counts none.
        """
        cdef int status
        cdef kkt_tolerance tolerance
        given = np.ascontiguousarray(values, dtype=np.float64)
        cdef kkt_matrix a = self._matrix(given)
        a.n_multipliers = multipliers
        tolerance.accept, tolerance.least, tolerance.faint = accept, least, faint
        with nogil:
            status = kkt_factorise(self._factors, &a, tolerance)
        if status == KKT_NO_MEMORY:
            raise MemoryError
        return STATUSES[status]

    cdef kkt_matrix _matrix(self, values) except *:
        cdef kkt_matrix a
        if values.shape != (self._plan.n_entries,):
            raise ValueError(f"expected {self._plan.n_entries} values, got {values.shape}")
        a.n, a.n_entries, a.row, a.column = self._plan.n, self._plan.n_entries, self._row, self._column
        a.values, a.n_multipliers = doubles(values, values.shape, "values"), 0
        return a

    def solve(self, b):
        """x of A x = b, (n,) or (n, k). Raises `ValueError` without a successful factorisation."""
        self._check_ready()
        if np.ndim(b) not in (1, 2) or np.shape(b)[0] != self._plan.n:
            raise ValueError(f"b has shape {np.shape(b)}, expected {self._plan.n} rows")
        found = np.array(b, dtype=np.float64, order="C")
        cdef double *x = doubles(found, found.shape, "b")
        cdef int status, count = 1 if found.ndim == 1 else found.shape[1]
        with nogil:
            status = kkt_solve(self._factors, count, x)
        if status != KKT_OK:
            raise MemoryError
        return found

    def inverse(self, unknowns):
        """The entries of A^-1 for k different unknowns, (k, k): of parameters almost for nothing.
        Raises `ValueError` without a successful factorisation."""
        self._check_ready()
        wanted = np.ascontiguousarray(unknowns, dtype=np.intc)
        cdef int status, count = len(wanted)
        cdef const int *which = ints(wanted, (count,), "unknowns")
        if len(set(wanted.tolist())) < count or any(not 0 <= k < self._plan.n for k in wanted):
            raise ValueError(f"unknowns must be different numbers from 0 to {self._plan.n - 1}")
        found = np.zeros((count, count))
        cdef double *out = doubles(found, (count, count), "found")
        if count == 0:
            return found
        with nogil:
            status = kkt_inverse(self._factors, count, which, out)
        if status != KKT_OK:
            raise MemoryError
        return found

    def inverse_entries(self, rows, columns):
        """The entries of A^-1 at k places, (k,), counted from 0, in the time of one or two
        factorisations. NaN for unknowns that share no two neighbouring fronts, as those of each entry
        of A do. Raises `ValueError` without a successful factorisation."""
        self._check_ready()
        found = np.empty(len(rows))
        cdef ptrdiff_t count = len(rows)
        if count == 0:
            return found
        i, j = (k - 1 for k in _places(self._plan.n, rows, columns))
        cdef const int *row = ints(i, (count,), "rows")
        cdef const int *column = ints(j, (count,), "columns")
        cdef double *out = doubles(found, (count,), "found")
        cdef int status
        with nogil:
            status = kkt_inverse_entries(self._factors, count, row, column, out)
        if status != KKT_OK:
            raise MemoryError
        return found

    @property
    def log_determinant(self):
        """log |det A|; the sign of det A is that of (-1)^negative, see `about`. Raises `ValueError`
        without a successful factorisation."""
        self._check_ready()
        return kkt_log_determinant(self._factors)

    def _check_ready(self):
        if not self._factors.ready:
            raise ValueError("factorise first: there are no factors")

    def residual(self, values, x, b):
        """b - A x (n,), and its backward error |b - A x| / (|A| |x| + |b|), maximum norms."""
        a, y, c = (np.ascontiguousarray(each, dtype=np.float64) for each in (values, x, b))
        left, shape = np.empty(self._plan.n), (self._plan.n,)
        cdef kkt_matrix matrix = self._matrix(a)
        if not y.shape == c.shape == shape:
            raise ValueError(f"vectors must have {self._plan.n} values")
        error = kkt_backward_error(&matrix, doubles(y, shape, "x"), doubles(c, shape, "b"),
                                   doubles(left, shape, "residual"))
        return left, error

    def residuals(self, values, x, b):
        """b - A x of all columns, (n, k)."""
        a, y = (np.ascontiguousarray(each, dtype=np.float64) for each in (values, x))
        left = np.array(b, dtype=np.float64, order="C")
        cdef kkt_matrix matrix = self._matrix(a)
        if y.ndim != 2 or y.shape != left.shape or len(y) != self._plan.n:
            raise ValueError(f"columns must have {self._plan.n} values")
        cdef int count = y.shape[1]
        cdef const double *given = doubles(y, y.shape, "x")
        cdef double *made = doubles(left, left.shape, "residuals")
        with nogil:
            kkt_subtract(&matrix, count, given, made)
        return left

    @property
    def seconds(self):
        """Processor time of the last factorisation [s]: of each part, and of the serial rest, as a
        list."""
        return [self._factors.seconds[k] for k in range(self._plan.n_parts + 1)]

    @property
    def about(self):
        """The analysis and the last factorisation, as a dictionary."""
        p, f = self._plan, self._factors
        carried = max(p.fronts[k].n_carried for k in range(p.n_fronts))
        return {
            "analysed": bool(self._analysed), "fronts": p.n_fronts, "parts": p.n_parts,
            "separators": p.n_separators, "plan_rows": p.max_rows, "carried": carried,
            "border": p.fronts[p.n_fronts - 1].n_pivots, "operations": p.operations,
            "longest": f.operations, "turned": f.turned,
            "hinted": bool(p.hinted), "negative": f.negative, "delayed": f.delayed,
            "pairs": f.pairs, "max_rows": f.max_rows, "bad_entry": f.bad_entry, "bytes": f.bytes,
        }
