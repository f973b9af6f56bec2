"""Steps of many members with their adjoint sweeps, as functions of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import LINEAR
from kinesym.runtime.simulation.stepper import IVP, Stepper, bind, mapped


class Pulled(NamedTuple):
    """Gradients by parameters (M, r), initial values (M, n) and samples of inputs (M, m, N)."""

    parameters: Array
    initial: Array
    inputs: Array


@dataclass(frozen=True, eq=False)
class Swept:
    """Explicit steps of the kernels of `codegen.stepping.swept`, of M members at once, which all
    have parameters (M, r), initial values (M, n), and inputs (M, m, N) with straight lines between
    the nodes. threads : over members."""

    stepper: Stepper
    threads: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of states, inputs and parameters."""
        about = self.stepper.about
        return len(about.states), len(about.inputs), len(about.parameters)

    def rates(self, x: Array, u: Array, p: Array, t: Array) -> Array:
        """Right-hand side x' (M, n) at points x (M, n), u (M, m), p (M, r), t (M,)."""
        return self._at("rhs", x, u, p, t, self.sizes[0]).T

    def slopes(self, x: Array, u: Array, p: Array, t: Array) -> tuple[Array, Array]:
        """Right-hand side, and its derivatives (M, n, n + m + r + 1) by x, u, p and t."""
        (n, m, r), (rows, columns) = self.sizes, self.stepper.pattern
        targets, sources = self.stepper.solution
        found = self._at("tangent", x, u, p, t, n + len(rows) + len(targets))
        side = np.zeros((n, n + m + r + 1, len(x)))
        side[rows, columns] = found[n : n + len(rows)]
        for target, source, value in zip(targets, sources, found[n + len(rows) :], strict=True):
            if target == source:
                side[target] *= value
            else:
                side[target] -= value * side[source]
        return found[:n].T, np.moveaxis(side, 2, 0)

    def states(self, time: Array, p: Array, initial: Array, u: Array) -> Array:
        """States (M, n, N) at the nodes of a grid (N,), NaN from where a member fails."""
        ivp = IVP(
            time=time,
            initial=np.ascontiguousarray(initial.T),
            parameters=np.ascontiguousarray(p),
            inputs=[(np.ascontiguousarray(u[:, k]), LINEAR) for k in range(u.shape[1])],
            threads=min(self.threads, len(p)),
        )
        run, raw = bind(self.stepper, ivp)
        run.march(self.stepper.loop, 0, len(time) - 1)
        found = np.moveaxis(raw.states, 1, 0).copy()
        for member in np.flatnonzero(raw.reached < len(time)):
            found[member, :, raw.reached[member] :] = np.nan
        return found

    def pulled(self, time: Array, p: Array, u: Array, states: Array, slopes: Array) -> Pulled:
        """Gradients of a function of these states (M, n, N) whose derivatives by them are given,
        exact for the steps: an adjoint sweep per member. NaN where a member failed."""
        (n, m, r), count = self.sizes, len(time)
        made = Pulled(np.zeros(p.shape), np.zeros((len(p), n)), np.zeros(u.shape))
        parameters, course = np.zeros((1, r)), np.zeros((n, 1, count))
        inputs = [np.zeros((1, count)) for _ in range(m)]
        ivp = IVP(time, course[:, :, 0].copy(), parameters, [(row, LINEAR) for row in inputs])
        run, _ = bind(self.stepper, ivp, course)
        varied = np.arange(m)
        for k, (mine, starts, moved) in enumerate(zip(*made, strict=True)):
            if not np.isfinite(states[k]).all():
                for part in (mine, starts, moved):
                    part[:] = np.nan
                continue
            parameters[0], course[:, 0] = p[k], states[k]
            for row, samples in zip(inputs, u[k], strict=True):
                row[0] = samples
            node, by = np.ascontiguousarray(slopes[k]), np.zeros(r + 1)
            carry, samples = node[:, -1].copy(), np.zeros((m, count))
            run.adjoint(0, count - 1, carry, node, samples, by, varied)
            mine[:], starts[:], moved[:] = by[:r], carry, samples
        return made

    def _at(self, kernel: str, x: Array, u: Array, p: Array, t: Array, rows: int) -> Array:
        points = [np.ascontiguousarray(each.T) for each in (x, u, p, t[:, None])]
        return mapped(self.stepper.library, kernel, [*points, *self.stepper.apart], rows)
