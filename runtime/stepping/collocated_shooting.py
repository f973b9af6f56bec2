"""Trials of a model with delays as functions of few unknowns; derivatives by the implicit function.

The trajectories z(q) of all trials solve the equations c(z, q) = 0 of collocation, which have an
equation for each of their values. Time stepping comes near to them, Newton's method to rounding.
Then d z/d q = -c_z^-1 c_q, and the adjoint takes one solution with the transpose (Hager 2000,
Numerische Mathematik 87: the adjoint of a discretised problem is discretised by it).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.nlp.slopes import course_slopes, slopes_of_outputs
from kinesym.runtime.nlp.timed import compared
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.stepping.priors import Priors
from kinesym.runtime.stepping.simulated import Diverged, Simulated, System
from kinesym.runtime.stepping.unknowns import Unknowns

#: Steps of Newton's method at most; a step so small, relative to the trajectories, is rounding.
_MOST, _ROUNDING = 30, 1e-13
#: A step as small as that need not become smaller.
_SMALL = 1e-9


@dataclass(frozen=True, eq=False)
class Discretisation:
    """Trials on the grids of the steps as a nonlinear program.

    nlp : objective and equations. residuals : makes the same of the measurements, and raises
    `ValueError` if the objective has none. outputs : makes the library of derivatives of outputs,
    if these have any. near : free vector near to the motion with parameters and starts by trial;
    raises `Diverged`.
    """

    nlp: NLP
    residuals: Callable[[], NLP]
    outputs: Callable[[], Built | None]
    near: Callable[[Sequence[Mapping[str, float]], Sequence[Mapping[str, float]]], Array]


class CollocatedTrials(Simulated):
    """Trials of a model with delays, see `Simulated`.

    trials : as they are given; fine : on the grids of the steps. initial : per trial the initial
    values by state, NaN where unknown. factor, loss : of the measurements in the objective.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        system: System,
        trials: Sequence[Experiment],
        priors: Priors,
        *,
        made: Discretisation,
        fine: Sequence[Experiment],
        initial: Sequence[Mapping[str, float]],
        substeps: int,
        measured: bool,
        weighted: bool,
        factor: float,
        loss: RobustLoss | None,
    ) -> None:
        super().__init__(unknowns, system, trials, priors)
        self.measured, self.weighted, self.substeps = measured, weighted, substeps
        self.factor, self.loss = factor, loss
        self.nlp, self._made, self._fine, self._initial = made.nlp, made, fine, initial
        self._put_places()

    def _put_places(self) -> None:
        """Columns of starts, of what follows, and of what q has, in its order."""
        layout, unknowns = self.nlp.layout, self.unknowns
        index = np.arange(layout.n_variables)
        self._starts = list[dict[str, int]]()
        for k in range(len(self.trials)):
            states, rows = layout.rows(index, k)[0]
            self._starts.append(dict(zip(states.members, rows[:, 0].tolist(), strict=True)))
        r = len(unknowns.parameters)
        places = [*range(layout.parameter_offset, layout.parameter_offset + r)]
        places += [starts[x] for starts in self._starts for x in unknowns.initial if x in starts]
        self._own = np.array(places, dtype=np.intp)
        given = [*places[:r], *(j for starts in self._starts for j in starts.values())]
        self._following = np.setdiff1d(index, np.array(given, dtype=np.intp))

    @property
    def square(self) -> bool:
        """Whether there are as many equations as values of trajectories."""
        return len(self._following) == self.nlp.n_constraints

    # -- values -----------------------------------------------------------------------------

    def _simulated(self, q: Array) -> Array:
        """z(q); the factors of c_z are kept for derivatives."""
        unknowns, r = self.unknowns, len(self.unknowns.parameters)
        values = [self.values(q, k) for k in range(len(self.trials))]
        starts = [
            {**self._initial[k], **dict(zip(unknowns.initial, q[unknowns.starts(k)], strict=True))}
            for k in range(len(self.trials))
        ]
        z = self._made.near(values, starts)
        self.nlp.layout.parameter_values(z)[:] = q[:r]
        for places, start in zip(self._starts, starts, strict=True):
            z[[*places.values()]] = [start[x] for x in places]
        return self._solved(z)

    def _solved(self, z: Array) -> Array:
        last = np.inf
        for _ in range(_MOST):
            jacobian = self._jacobian_at(z)
            rest = self.nlp.constraints(z)
            if not (np.isfinite(rest).all() and np.isfinite(jacobian.data).all()):
                break
            try:
                self._factors = splu(csc_array(jacobian[:, self._following]))
            except RuntimeError:  # exactly singular
                break
            step = self._factors.solve(rest)
            size = float(np.max(np.abs(step) / (1.0 + np.abs(z[self._following])), initial=0.0))
            z[self._following] -= step
            if size <= _ROUNDING or _SMALL >= size >= last:
                self._slopes = self._jacobian_at(z)
                self._factors = splu(csc_array(self._slopes[:, self._following]))
                return z
            last = size
        raise Diverged(
            f"the equations of the steps of {self.system.name} have no solution near the "
            "simulation; use more substeps"
        )

    def _jacobian_at(self, z: Array) -> csr_array:
        entries = (self.nlp.jacobian(z), self.nlp.jacobian_structure.arrays())
        shape = (self.nlp.n_constraints, self.nlp.n_variables)
        return coo_array(entries, shape=shape).tocsr()

    def _cost(self, q: Array) -> float:
        return self.nlp.cost(self.simulate(q))

    def instability(self, q: Array) -> str:
        return ""  # eigenvalues of a start do not tell the growth of motions with delays

    def trajectories(self, q: Array) -> list[Trajectory]:
        z = self.simulate(q)
        return [self._trajectory(q, z, k) for k in range(len(self.trials))]

    def _trajectory(self, q: Array, z: Array, number: int) -> Trajectory:
        trial, fine, part = self.trials[number], self._fine[number], self.substeps
        values, courses = self.values(q, number), self._courses(z, number)
        outputs = self.nlp.outputs(z, number)
        return Trajectory(
            time=trial.grid,
            states={x: courses[x][::part].copy() for x in self.nlp.layout.states},
            inputs={
                **{name: fine.inputs[name][::part] for name in fine.inputs},
                **{u: courses[u][::part].copy() for u in self.nlp.layout.inputs},
            },
            outputs={name: row[::part] for name, row in outputs.items()},
            parameters={name: values[name] for name in self.system.parameters},
            model=self.system.name,
            measurements=dict(trial.measurements),
            std={name: row for name, row in trial.std.items() if name in trial.measurements},
            drawing=self.system.drawing,
            samples=compared(self.nlp, fine, number, z),
        )

    def _courses(self, z: Array, number: int) -> dict[str, Array]:
        about = self.nlp.about
        return self.nlp.layout.courses(z, number, about.stages, about.to_ends)

    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        z, states, found = self.simulate(q), self.nlp.layout.states, []
        for k in range(len(self.trials)):
            courses = self._courses(z, k)
            found.append((np.array([np.abs(courses[x]).max() for x in states]), np.zeros(0)))
        return found

    # -- residuals --------------------------------------------------------------------------

    def check_squares(self) -> None:
        self._made.residuals()

    def samples(self) -> Samples:
        return self._made.residuals().samples

    def _residuals(self, q: Array) -> Array:
        e = self._made.residuals().residuals(self.simulate(q))
        return np.asarray(np.sqrt(self.factor) * (self.loss.root(e) if self.loss else e))

    def _jacobian(self, q: Array) -> csr_array:
        residuals, z = self._made.residuals(), self.simulate(q)
        slopes = np.sqrt(self.factor) * residuals.residual_jacobian(z) @ self._tangent(q)
        if self.loss:
            slopes = self.loss.root_slope(residuals.residuals(z))[:, None] * slopes
        return csr_array(slopes)

    # -- derivatives ------------------------------------------------------------------------

    def _gradient(self, q: Array) -> Array:
        direct = self.nlp.gradient(self.simulate(q))
        costates = self._factors.solve(direct[self._following], trans="T")
        return np.asarray(direct[self._own] - self._slopes[:, self._own].T @ costates)

    def _forward_gradient(self, q: Array) -> Array:
        direct = self.nlp.gradient(self.simulate(q))
        return np.asarray(self._tangent(q).T @ direct)

    def _tangent(self, q: Array) -> Array:
        """d z/d q, (n_variables, n_unknowns)."""
        self.simulate(q)
        found = np.zeros((self.nlp.n_variables, q.size))
        found[self._own, np.arange(q.size)] = 1.0
        found[self._following] = -self._factors.solve(self._slopes[:, self._own].toarray())
        return found

    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        rows, part, tangent = course_slopes(self.nlp, trial), self.substeps, self._tangent(q)
        library = None if rows.keys() >= set(names) else self._made.outputs()
        if library is not None:
            rows |= slopes_of_outputs(self.nlp, library, self.simulate(q), trial)
        chosen = (name for name in names if name in rows)
        return {name: csr_array(rows[name].tocsr()[::part] @ tangent) for name in chosen}
