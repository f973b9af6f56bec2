"""Trajectories of collocation that follow from parameters and starts, for the log-density of
these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from kinesym.internal.fitting.curvature import prior_squares
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.density import Misfit, Sloped
from kinesym.runtime.estimation.estimation import Estimation

#: Newton's steps at most; near a solution five suffice.
_STEPS = 15
#: Step, as a share of the size of z, after which one more is exact to rounding.
_SMALL = 1e-7
#: Parts of the way from the best trajectories, at most.
_PARTS = 64
#: Share of the size by which bounds of trajectories may be passed: rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ImplicitTrajectories:
    """Free vector of a problem as a function of parameters and starts: the equations are solved for
    all its other entries.

    best : where all is known. mine : places of the parameters and starts in z, others : of what
    follows. rows : of the equations.
    """

    problem: Discretisation
    best: Array
    mine: NDArray[np.intp]
    others: NDArray[np.intp]
    rows: NDArray[np.intp]

    @staticmethod
    def of(problem: Discretisation, best: Array) -> ImplicitTrajectories:
        """Function near a solution. Raises `ValueError` where parameters and starts do not tell all
        else, or tell too much."""
        layout, (low, high) = problem.layout, problem.variable_bounds
        free = low < high
        starts = [
            layout.offsets[k] + layout.at_nodes.index(x) * N
            for k, N in enumerate(layout.nodes)
            for x in layout.states
            if x in layout.at_nodes
        ]
        r = layout.parameter_offset + np.arange(len(layout.parameters))
        mine = np.array([*r, *starts], dtype=np.intp)
        mine = mine[free[mine]]
        lower, upper = problem.constraint_bounds
        rows = np.flatnonzero(lower == upper)
        told = _told(csr_array(problem.constraint_jacobian(best))[rows], r, mine)
        mine = np.setdiff1d(mine, list(told))
        others = np.setdiff1d(np.flatnonzero(free), mine)
        mine = np.concatenate([np.intersect1d(mine, r), np.setdiff1d(mine, r)])
        made = ImplicitTrajectories(problem, best, mine, others, rows)
        timed = any(channel.delay for channel in problem.about.timed)
        if timed or problem.about.interval_measurements:
            what = "samples that are not at nodes" if not timed else "sensors of unknown delay"
            raise ValueError(f"there is no log-density by collocation with {what}: use ks.Shooting")
        if len(others) != len(made.rows) or made._solver(best) is None:
            raise ValueError(
                f"there is no log-density: {len(made.rows)} equations and conditions do not tell "
                f"the {len(others)} other unknowns from the {len(mine)} parameters and starts, as "
                "with unknown inputs or durations, conditions at ends or between trials; use "
                "ks.Shooting"
            )
        return made

    @property
    def names(self) -> list[str]:
        """Names of parameters and starts, as shooting has them."""
        layout, many = self.problem.layout, len(self.problem.trials) > 1
        found = []
        for place in self.mine.tolist():
            if place >= layout.parameter_offset:
                found.append(layout.parameters[place - layout.parameter_offset])
                continue
            trial = int(np.searchsorted(layout.offsets, place, side="right")) - 1
            name = layout.at_nodes[(place - layout.offsets[trial]) // layout.nodes[trial]]
            found.append(f"{name}(0)" + f" of trial {trial}" * many)
        return found

    @property
    def log(self) -> NDArray[np.bool_]:
        """Mask of those of which z has the logarithm."""
        layout = self.problem.layout
        every = np.zeros(layout.n_variables, dtype=bool)
        layout.parameter_values(every)[:] = layout.owned.log
        return np.asarray(every[self.mine])

    @property
    def _own(self) -> NDArray[np.bool_]:
        """Mask of the parameters among those of `mine`."""
        return np.asarray(self.mine >= self.problem.layout.parameter_offset)

    @property
    def _members(self) -> NDArray[np.intp]:
        """Numbers of these parameters."""
        return np.asarray(self.mine[self._own] - self.problem.layout.parameter_offset)

    def misfit(self) -> Misfit:
        """Misfit of the samples as a function of parameters and starts."""
        layout, log, problem = self.problem.layout, self.log, self.problem
        priors, flat = problem.known_priors, layout.owned.log.copy()
        flat[priors.places] &= priors.log & (priors.powers == 0.0)  # else densities of p
        logarithmic = log.copy()
        logarithmic[self._own] = flat[self._members]

        def squares(q: Array, sloped: bool) -> tuple[Array, Array]:
            J, slopes = np.full(len(q), np.inf), np.full(q.shape, np.nan)
            for k, row in enumerate(q):
                z = self.at(self._entries(row))
                if z is not None:
                    J[k] = problem.nlp.cost(z)
                    slopes[k] = self._gradient(z) / np.where(log, row, 1.0) if sloped else np.nan
            return J, slopes

        def sloped(q: Array) -> Sloped | None:
            z = self.at(self._entries(q))
            return None if z is None else self._sloped(z)

        sides = tuple(layout.natural(side)[self.mine] for side in problem.variable_bounds)
        return Misfit(
            names=self.names,
            best=layout.natural(self.best)[self.mine],
            bounds=(sides[0], sides[1]),
            logarithmic=logarithmic,
            heights=priors.heights,
            squares=squares,
            sloped=sloped,
        )

    def at(self, entries: Array) -> Array | None:
        """z with these entries, from the best one in as many parts of the way as needed; None if
        there is none, or if trajectories leave their bounds."""
        parts = 1
        while parts <= _PARTS:
            z: Array | None = self.best
            for k in range(parts):
                assert z is not None
                share = (k + 1) / parts
                begin = z.copy()
                begin[self.mine] = (1.0 - share) * self.best[self.mine] + share * entries
                z = self._solved(begin)
                if z is None:
                    break
            if z is not None:
                return z if self._allowed(z) else None
            parts *= 2
        return None

    def _solved(self, z: Array) -> Array | None:
        """z of the equations by Newton's method; None without convergence."""
        with np.errstate(all="ignore"):
            small = False
            for _ in range(_STEPS):
                solver = self._solver(z)
                if solver is None:
                    return None
                target = self.problem.constraint_bounds[0][self.rows]
                step = solver.solve(self.problem.constraints(z)[self.rows] - target)
                z[self.others] -= step
                if not np.isfinite(z).all():
                    return None
                if small:
                    return z
                small = np.abs(step).max(initial=0.0) <= _SMALL * (1.0 + np.abs(z).max())
        return None

    def _allowed(self, z: Array) -> bool:
        problem, room = self.problem, _ROUNDING * (1.0 + np.abs(z).max())
        pairs = ((z, problem.variable_bounds), (problem.constraints(z), problem.constraint_bounds))
        return all(
            ((values >= low - room) & (values <= high + room)).all()
            for values, (low, high) in pairs
        )

    def _jacobian(self, z: Array) -> csc_array:
        return csc_array(self.problem.constraint_jacobian(z)[self.rows])

    def _solver(self, z: Array) -> Any:
        """Factors of the derivatives by what follows; None if these are singular."""
        found = self._jacobian(z)[:, self.others]
        if found.shape[0] != found.shape[1] or not np.isfinite(found.data).all():
            return None
        try:
            return splu(found)
        except RuntimeError:  # exactly singular
            return None

    def _gradient(self, z: Array) -> Array:
        """d J by the entries, all else following: adjoint."""
        direct = self.problem.nlp.gradient(z)
        costates = self._solver(z).solve(direct[self.others], trans="T")
        return np.asarray(direct[self.mine] - self._jacobian(z)[:, self.mine].T @ costates)

    def _sloped(self, z: Array) -> Sloped:
        """Residuals of the samples with derivatives by the unknowns; priors by themselves."""
        problem, layout = self.problem, self.problem.layout
        nlp = problem.residual_nlp
        found, slopes = nlp.residuals(z), csc_array(nlp.residual_jacobian(z))
        timed = ~np.isnan(nlp.samples.time)
        follow = self._solver(z).solve(self._jacobian(z)[:, self.mine].toarray())
        dense = slopes[:, self.mine].toarray() - slopes[:, self.others] @ follow
        by = layout.natural(z)[self.mine]
        dense = dense / np.where(self.log, by, 1.0)
        values, pull = layout.owned.natural(layout.parameter_values(z)), np.zeros(len(self.mine))
        pull[self._own] = problem.known_priors.gradient(values)[self._members]
        return Sloped(
            residuals=found[timed],
            slopes=dense[timed],
            samples=nlp.samples.taken(timed),
            priors=prior_squares(problem, z),
            slopes_of_priors=pull,
        )

    def _entries(self, q: Array) -> Array:
        return np.where(self.log, np.log(np.where(self.log, q, 1.0)), q)


def _told(rows: csr_array, parameters: NDArray[np.intp], mine: NDArray[np.intp]) -> set[int]:
    """Starts, of the places of parameters and starts, that conditions on these alone tell."""
    found = set[int]()
    for k in range(rows.shape[0]):
        places = rows.indices[rows.indptr[k] : rows.indptr[k + 1]]
        if len(places) and np.isin(places, mine).all():
            found |= {*[j for j in places.tolist() if j not in parameters and j not in found][:1]}
    return found


def as_asked(problem: Discretisation) -> Estimation:
    """Estimation of the problem, with standard deviations unknown that were not given."""
    trials = [trial.without_estimated_std() for trial in problem.trials]
    return replace(problem.estimation, trials=trials)
