"""The compiled functions of a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.library.manifest import (
    Built,
    FunctionsManifest,
    JacobiansManifest,
    KernelManifest,
    Pattern,
)
from kinesym.runtime.library.tiers import look
from kinesym.runtime.native import Call, Library, Plan
from kinesym.runtime.sparse.places import rows

#: Numbers that a kernel takes and gives at once, 2 MB: more do not stay in a cache.
_AT_ONCE = 2**18
#: Arguments with respect to which Jacobians can be taken.
GROUPS = ("states", "derivatives", "inputs", "parameters")


class Bound(NamedTuple):
    """A kernel of so many points and the memory from which it takes its arguments, by name."""

    size: int
    arguments: dict[str, Array]
    plan: Plan


def _numbers(value: ArrayLike, name: str) -> Array:
    """`real_array`, without its time where nothing has to be checked."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if isinstance(value, list | tuple) and value:
        with suppress(ValueError):  # ragged: said below
            array = np.asarray(value)
            if array.ndim == 1 and array.dtype.kind in "fiu":
                return array.astype(np.float64, copy=False)
    return real_array(value, name)


def _kernels(built: Built) -> dict[str, tuple[Library, KernelManifest]]:
    return {name: (built.library, kernel) for name, kernel in built.manifest.kernels.items()}


class Functions:
    """Residual, right-hand side, outputs and Jacobians of a model, evaluated at n points.

    Arguments: xdot and x (n_states, n), u (n_inputs, n), p (n_parameters,), t (n,) or a number. For
    a single point the last axis may be left out, and the result has none. Raises `ValueError`
    naming the argument whose shape does not fit.
    """

    def __init__(self, built: Built, jacobians: Callable[[], Built]) -> None:
        self.library, self._built, self._build_jacobians = built.library, built, jacobians
        self._about = about = built.manifest.of(FunctionsManifest)
        self._kernels = _kernels(built)
        self.name, self.values = built.manifest.name, dict(about.values)
        self.states, self.inputs, self.parameters = about.states, about.inputs, about.parameters
        self.output_names = about.outputs
        n, m, r = map(len, (self.states, self.inputs, self.parameters))
        self._counts = {"xdot": n, "x": n, "u": m, "p": r, "t": 1}
        self._tables = built.tables
        self._memory = threading.local()  # kernels bound last, of each thread its own

    def __reduce__(self) -> tuple[Any, ...]:
        """State for pickling, without objects that are bound to memory."""
        return Functions, (self._built, self._build_jacobians)

    @property
    def is_explicit(self) -> bool:
        """Whether x' can be solved for."""
        return self._about.explicit

    def residual(
        self, xdot: ArrayLike, x: ArrayLike, u: ArrayLike, p: ArrayLike, t: ArrayLike = 0.0
    ) -> Array:
        """f(x', x, u, p, t), (n_states, n)."""
        return self._call("residual", len(self.states), xdot=xdot, x=x, u=u, p=p, t=t)

    def rhs(self, x: ArrayLike, u: ArrayLike, p: ArrayLike, t: ArrayLike = 0.0) -> Array:
        """x' = M^-1 (...), (n_states, n). Raises `ValueError` if the model is not explicit."""
        if not self.is_explicit:
            raise ValueError(f"the model has no explicit right-hand side: {self._about.reason}")
        return self._call("rhs", len(self.states), x=x, u=u, p=p, t=t)

    def outputs(
        self, xdot: ArrayLike, x: ArrayLike, u: ArrayLike, p: ArrayLike, t: ArrayLike = 0.0
    ) -> Array:
        """g(x', x, u, p, t), (n_outputs, n)."""
        return self._call("outputs", len(self.output_names), xdot=xdot, x=x, u=u, p=p, t=t)

    def jacobian(
        self,
        xdot: ArrayLike,
        x: ArrayLike,
        u: ArrayLike,
        p: ArrayLike,
        t: ArrayLike = 0.0,
        of: str = "residual",
        wrt: str = "states",
    ) -> Array:
        """Dense Jacobian (n_out, n_wrt, n) of "residual" or "outputs" with respect to "states",
        "derivatives", "inputs" or "parameters"; raises `ValueError` for anything else."""
        rows, columns, values = self.entries(xdot, x, u, p, t, of, wrt)
        n_out = len(self.states if of == "residual" else self.output_names)
        n_wrt = len(getattr(self, "states" if wrt == "derivatives" else wrt))
        dense = np.zeros((n_out, n_wrt, *values.shape[1:]))
        dense[rows, columns] = values
        return dense

    def entries(
        self,
        xdot: ArrayLike,
        x: ArrayLike,
        u: ArrayLike,
        p: ArrayLike,
        t: ArrayLike = 0.0,
        of: str = "residual",
        wrt: str = "states",
    ) -> tuple[Sequence[int], Sequence[int], Array]:
        """Rows, columns (k,) and values (k, n) of the entries of a Jacobian that are not zero
        everywhere; as `jacobian`."""
        if of not in ("residual", "outputs") or wrt not in GROUPS:
            raise ValueError(
                f"no Jacobian of {of!r} with respect to {wrt!r}; of is residual or outputs, wrt is "
                "states, derivatives, inputs or parameters"
            )
        rows, columns = self._patterns[f"{of}_{wrt}"]
        return rows, columns, self._call(f"{of}_{wrt}", len(rows), xdot=xdot, x=x, u=u, p=p, t=t)

    @cached_property
    def _patterns(self) -> Mapping[str, Pattern]:
        """Places of the entries of all Jacobians, whose kernels are built here: most of the time
        that a model takes is theirs."""
        built = self._build_jacobians()
        self._kernels |= _kernels(built)
        return built.manifest.of(JacobiansManifest).patterns

    def _call(self, name: str, n_out: int, **given: ArrayLike) -> Array:
        arrays, n = self._shaped(given)
        count = 1 if n is None else n
        out = np.empty((n_out, count))
        if n_out and count and name in self._kernels:
            rows = n_out + sum(self._counts[a] for a in self._kernels[name][1].arguments)
            parts = -(-count * rows // _AT_ONCE)
            size = -(-count // parts)
            for begin in range(0, count, size):  # the last part overlaps the one before
                self._part(name, arrays, out, min(begin, count - size), size)
            look(self._kernels[name][0])
        return out[:, 0] if n is None else out

    def _part(
        self, name: str, arrays: Mapping[str, Array], out: Array, begin: int, size: int
    ) -> None:
        """Evaluate some of the points in memory that is kept: allocating it takes longer than many
        kernels."""
        kept = vars(self._memory)
        if name not in kept or kept[name].size != size:
            kept[name] = self._bound(name, len(out), size)
        bound, end = kept[name], begin + size
        for argument, buffer in bound.arguments.items():
            given = arrays[argument]
            several = given.ndim == 2 and given.shape[1] > 1
            buffer[: self._counts[argument]] = given[:, begin:end] if several else given
        whole = size == out.shape[1]
        values = out.reshape(-1) if whole else np.empty(out.shape[0] * size)
        bound.plan((), values)
        if not whole:
            out[:, begin:end] = values.reshape(len(out), size)

    def _bound(self, name: str, n_out: int, count: int) -> Bound:
        """A kernel with memory for its arguments."""
        library, kernel = self._kernels[name]
        counts = self._counts
        buffers = {
            a: np.empty((counts[a], count))
            if a != "p"
            else np.append(np.zeros(counts[a]), self._tables)
            for a in kernel.arguments
        }
        arguments = [(b.reshape(-1), 0, count if a != "p" else 1) for a, b in buffers.items()]
        size = n_out * count
        call = Call(library, name, count, arguments, (), rows(n_out, count), size)
        return Bound(count, buffers, Plan([call], [], size))

    def _shaped(self, given: Mapping[str, ArrayLike]) -> tuple[dict[str, Array], int | None]:
        """Arguments as arrays (count, 1 or n), and n (None for a single point)."""
        counts = self._counts
        arrays: dict[str, Array] = {}
        n: int | None = None
        for name, value in given.items():
            array = _numbers(value, name)
            if name == "u" and not self.inputs:
                array = np.zeros((0, 1))
            elif name == "t" and array.ndim < 2:
                n = len(array) if array.ndim == 1 else n
                array = array.reshape(1, -1)
            elif array.ndim == 2 and name != "p":
                n = array.shape[1]
            elif array.ndim == 1:
                array = array if name == "p" else array[:, None]
            if array.ndim != (1 if name == "p" else 2) or array.shape[0] != counts[name]:
                raise ValueError(
                    f"{name} has shape {np.shape(value)}, expected {counts[name]} values"
                    + ("" if name == "p" else " per point")
                )
            arrays[name] = array
        for name, array in arrays.items():
            if array.ndim == 2 and array.shape[1] not in (1, n):
                raise ValueError(f"{name} has {array.shape[1]} points, others have {n}")
        return arrays, n
