"""Equations and integrand of a problem at any points of its trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built, PointManifest
from kinesym.runtime.native import Call, Plan, solve_systems
from kinesym.runtime.sparse.places import rows


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of n functions with respect to C numbers at points, as a sparse matrix.

    shape : (n, C). rows, columns : (entries,). values : (entries, ..).
    """

    shape: tuple[int, int]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: Array

    def part(self, columns: slice | list[int]) -> Derivatives:
        """Derivatives with respect to some of the numbers."""
        place = np.full(self.shape[1], -1)
        wanted = np.arange(self.shape[1])[columns]
        place[wanted] = np.arange(len(wanted))
        mine = place[self.columns] >= 0
        rows, at = self.rows[mine], place[self.columns[mine]]
        return Derivatives((self.shape[0], len(wanted)), rows, at, self.values[mine])

    def at(self, *places: int) -> Derivatives:
        """Derivatives with the points in this shape."""
        return replace(self, values=self.values.reshape(len(self.values), *places))

    def product(self, x: Array) -> Array:
        """Product of the derivatives with x (.., C), (.., n)."""
        return _sums(self.rows, self.columns, self.values, x, self.shape[0])

    def pulled(self, mu: Array) -> Array:
        """The derivatives of mu . functions, (.., C); mu : (.., n)."""
        return _sums(self.columns, self.rows, self.values, mu, self.shape[1])

    def solve(self, b: Array | None, c: Array | None = None) -> tuple[Array, Array]:
        """x and y of A x = b and A' y = c (.., n) for square ones A at all points; raises
        `LinAlgError` if one is singular."""
        points = int(np.prod(self.values.shape[1:]))
        flat = self.values.reshape(len(self.values), points)
        sides = (None if a is None else np.moveaxis(a, -1, 0).reshape(-1, points) for a in (b, c))
        solved = solve_systems(self.shape[0], self.rows, self.columns, flat, *sides)
        x, y = (
            a if a is None else np.moveaxis(a.reshape(-1, *self.values.shape[1:]), 0, -1)
            for a in solved
        )
        return x, y


def _sums(to: NDArray[np.intp], by: NDArray[np.intp], values: Array, x: Array, count: int) -> Array:
    """Sums of values times what of x (.., k) is at `by`, (.., count) at `to`."""
    parts = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    found, term = np.zeros((count, *values.shape[1:])), np.empty(values.shape[1:])
    for row, column, entries in zip(to, by, values, strict=True):
        found[row] += np.multiply(entries, parts[column], out=term)
    return np.moveaxis(found, 0, -1)


@dataclass(frozen=True, eq=False)
class Linearised:
    """Linearisation at points: the residual of the equations (.., n), its derivatives with respect
    to x', x, u, p, t in turn, the integrand (..) and its derivatives in the same order, as those of
    one function."""

    residual: Array
    jacobian: Derivatives
    integrand: Array
    slopes: Derivatives

    def at(self, *places: int) -> Linearised:
        """Linearisation with the points in this shape."""
        residual = self.residual.reshape(*places, self.residual.shape[-1])
        integrand = self.integrand.reshape(*places)
        return Linearised(residual, self.jacobian.at(*places), integrand, self.slopes.at(*places))


class PointFunctions:
    """The compiled functions of `codegen.point`. known : values of the known parameters, of each
    trial; the functions are those of the first one, `of_trial` has those of others."""

    def __init__(self, built: Built, known: Sequence[Mapping[str, float]]) -> None:
        self.about = about = built.manifest.of(PointManifest)
        self._library, self._kernels = built.library, built.manifest.kernels
        names = about.known_parameters
        self._rows = [np.append([row[name] for name in names], built.tables) for row in known]
        self._known = self._rows[0]
        n, m, r = len(about.states), len(about.inputs), len(about.parameters)
        starts = np.cumsum([0, n, n, m, r, 1])
        self.xdot, self.x, self.u, self.p, self.t = map(slice, starts[:-1], starts[1:])
        self.columns = int(starts[-1])
        self.tied = self._tied()

    def of_trial(self, number: int) -> PointFunctions:
        """The functions with the values of a trial."""
        made = copy(self)
        made._known = self._rows[number]
        return made

    def _tied(self) -> list[int]:
        """Numbers of the inputs that an algebraic equation ties to states with a rate alone: they
        are as continuous as these."""
        states = self.about.states
        rated = {self.x.start + k for k, x in enumerate(states) if x in self.about.rated}
        inputs, found = set(range(self.u.start, self.u.stop)), set[int]()
        for equation in range(len(states)):
            pairs = zip(*self.about.jacobian, strict=True)
            columns = {column for row, column in pairs if row == equation and column < self.u.stop}
            if columns <= rated | inputs and columns & rated:
                found |= columns & inputs
        return sorted(column - self.u.start for column in found)

    def __call__(self, given: Mapping[str, Array]) -> Linearised:
        """Linearisation at P points with `xdot`, `x`, `u` and signals `s` of shape (count, P),
        parameters `p` (r,) and `t` (P,)."""
        P, n = given["t"].size, len(self.about.states)
        integrand, slopes = np.zeros((1, P)), np.zeros((0, P))
        if "point_integrand" in self._kernels:
            integrand, slopes = np.split(self._values("integrand", P, given), [1])
        rows, columns = (np.array(k, dtype=np.intp) for k in self.about.jacobian)
        wrt = np.array(self.about.integrand, dtype=np.intp)[: len(slopes)]
        jacobian = self._values("jacobian", P, given)
        return Linearised(
            self._values("residual", P, given).T,
            Derivatives((n, self.columns), rows, columns, jacobian),
            integrand[0],
            Derivatives((1, self.columns), np.zeros(len(wrt), dtype=np.intp), wrt, slopes),
        )

    def outputs(self, given: Mapping[str, Array]) -> Array:
        """The outputs that have no value at nodes, (count, P), at the same points."""
        return self._values("outputs", given["t"].size, given)

    def curvature(self, given: Mapping[str, Array], weight: Array, mu: Array) -> Array:
        """Second derivatives of weight * integrand + mu . equations with respect to each input,
        (inputs, P), at the same points; weight (P,), mu (n, P)."""
        more = {"weight": weight, "mu": np.ascontiguousarray(mu)}
        return self._values("curvature", given["t"].size, {**given, **more})

    def _values(self, name: str, P: int, given: Mapping[str, Array]) -> Array:
        name = f"point_{name}"
        kernel, known = self._kernels[name], {**given, "k": self._known}
        arguments = [
            (known[a].reshape(-1), 0, P if varying else 1)
            for a, varying in zip(kernel.arguments, kernel.varying, strict=True)
        ]
        count = len(kernel.outputs)
        out = np.empty((count, P))
        size = count * P
        call = Call(self._library, name, P, arguments, (), rows(count, P), size)
        Plan([call], [], size)((), out.reshape(-1))
        return out
