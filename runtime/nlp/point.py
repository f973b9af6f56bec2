"""Equations and integrand of a problem at any points of its trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built, PointManifest
from kinesym.runtime.native import Call, Plan
from kinesym.runtime.nlp.places import rows


@dataclass(frozen=True, eq=False)
class Linearised:
    """At points: the residual of the equations (.., n), its derivatives (.., n, C) with respect to
    x', x, u, p, t in turn, the integrand (..) and its derivatives (.., C)."""

    residual: Array
    jacobian: Array
    integrand: Array
    slopes: Array


class PointFunctions:
    """The compiled functions of `codegen.point`. known : values of the known parameters, of each
    trial; the functions are those of the first one, `of_trial` has those of others."""

    def __init__(self, built: Built, known: Sequence[Mapping[str, float]]) -> None:
        self.about = about = built.manifest.of(PointManifest)
        self._library, self._kernels = built.library, built.manifest.kernels
        names = about.known_parameters
        self._rows = [np.array([values[name] for name in names]) for values in known]
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
        """At P points with `xdot`, `x`, `u` and signals `s` of shape (count, P), parameters `p`
        (r,) and `t` (P,)."""
        P = given["t"].size
        jacobian = np.zeros((P, len(self.about.states), self.columns))
        places = tuple(map(list, self.about.jacobian))
        jacobian[:, places[0], places[1]] = self._values("jacobian", P, given).T
        integrand, slopes = np.zeros(P), np.zeros((P, self.columns))
        if "point_integrand" in self._kernels:
            values = self._values("integrand", P, given)
            integrand, slopes[:, list(self.about.integrand)] = values[0], values[1:].T
        return Linearised(self._values("residual", P, given).T, jacobian, integrand, slopes)

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
