"""Arrays of NumPy as pointers for C, which are valid as long as the arrays."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport ptrdiff_t


cdef inline void *_first(array, str kind, Py_ssize_t size, tuple shape, str name,
                         bint written) except? NULL:
    """The first element of a contiguous array; NULL if it is empty. Raises `ValueError` for another
    shape or kind of numbers, by NumPy's letter and their size [bytes], and for one that must be
    written but cannot be."""
    cdef Py_buffer view
    cdef void *found = NULL
    of, flags = array.dtype, array.flags
    if of.kind != kind or of.itemsize != size or not of.isnative or not flags.c_contiguous \
            or array.shape != shape:
        wanted = {"f": "float", "i": "int", "u": "uint"}[kind]
        raise ValueError(f"{name} must be contiguous {wanted}{8 * size} of shape {shape}, "
                         f"got {of} of shape {array.shape}")
    if written and not flags.writeable:
        raise ValueError(f"{name} must be writeable")
    if array.size > 0:
        PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
        found = view.buf
        PyBuffer_Release(&view)
    return found


cdef inline double *doubles(array, tuple shape, str name, bint written=False) except? NULL:
    return <double *>_first(array, "f", sizeof(double), shape, name, written)


cdef inline int *ints(array, tuple shape, str name, bint written=False) except? NULL:
    return <int *>_first(array, "i", sizeof(int), shape, name, written)


cdef inline ptrdiff_t *places(array, tuple shape, str name, bint written=False) except? NULL:
    return <ptrdiff_t *>_first(array, "i", sizeof(ptrdiff_t), shape, name, written)


cdef inline unsigned char *flags(array, tuple shape, str name) except? NULL:
    return <unsigned char *>_first(array, "u", 1, shape, name, False)


cdef inline ptrdiff_t *indices(array, str name, ptrdiff_t end) except? NULL:
    """Places 0 <= k < end. Raises `ValueError` for another one."""
    cdef ptrdiff_t k, count = len(array)
    cdef ptrdiff_t *found = places(array, (count,), name)
    for k in range(count):
        if not 0 <= found[k] < end:
            raise ValueError(f"{name} must be in 0 ... {end - 1}")
    return found
