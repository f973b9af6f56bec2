"""Trials whose parameters are functions of the unknowns, as experiments set them.

The trials are simulated with parameters p of their own; what is unknown, q, has other parameters:
p = g(q). All else is the same in both vectors. So J(q) is that of the trials at g(q), and its
derivatives are theirs times those of g.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.priors import Priors
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.scores import Scores
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.simulation.stepper import Diverged


@dataclass(frozen=True)
class Assignment:
    """Value of a parameter in a trial: of a function of `arguments`, names of unknowns or numbers,
    from which it gives the value and the derivatives by each; of one argument itself if there is
    none."""

    function: Callable[..., Any] | None
    arguments: tuple[str | float, ...]

    @property
    def names(self) -> list[str]:
        """Unknowns on which it depends."""
        return [a for a in self.arguments if isinstance(a, str)]


@dataclass(frozen=True, eq=False)
class Assigned:
    """The function g from parameters as they are unknown to those that trials are simulated with.

    outer, inner : both. constants : numbers that assignments depend on, which stand behind the
    parameters of q in `sources` and `arguments`. copies, sources : places of inner parameters that
    are equal to an outer one or to a constant. groups : for each function places (M,) of inner
    parameters, and of its arguments (M, s).
    """

    outer: Owned
    inner: Owned
    constants: Array
    copies: NDArray[np.intp]
    sources: NDArray[np.intp]
    groups: Sequence[tuple[Callable[..., Any], NDArray[np.intp], NDArray[np.intp]]]

    @staticmethod
    def of(outer: Owned, inner: Owned, rules: Sequence[Mapping[str, Assignment]]) -> Assigned:
        """Function of assignments, by trial and name; parameters without one are unknowns."""
        constants, r = list[float](), len(outer.names)
        copies, sources = list[int](), list[int]()
        groups = dict[int, tuple[Callable[..., Any], list[int], list[list[int]]]]()
        for row, (name, trial) in enumerate(zip(inner.members, inner.first_trials, strict=True)):
            rule = rules[trial].get(name, Assignment(None, (name,)))
            places = list[int]()
            for argument in rule.arguments:
                if isinstance(argument, str):
                    places.append(outer.place(argument, trial))
                else:
                    places.append(r + len(constants))
                    constants.append(argument)
            if rule.function is None:
                copies.append(row)
                sources.extend(places)
            else:
                group = groups.setdefault(id(rule.function), (rule.function, [], []))
                group[1].append(row)
                group[2].append(places)
        made = [
            (f, np.array(rows, dtype=np.intp), np.array(places, dtype=np.intp))
            for f, rows, places in groups.values()
        ]
        here, there = (np.array(each, dtype=np.intp) for each in (copies, sources))
        return Assigned(outer, inner, np.array(constants), here, there, made)

    def check_used(self) -> None:
        """Raise `ValueError` for an unknown that no trial depends on."""
        used = {*self.sources.tolist()}.union(*(places.flat for _, _, places in self.groups))
        for place, name in enumerate(self.outer.names):
            if place not in used:
                member = self.outer.members[place]
                where = "each trial" if name == member else f"each trial of {name}"
                raise ValueError(
                    f"parameter {member} has a value in {where} and is unknown; it is either, in "
                    "all trials"
                )

    def values(self, q: Array) -> Array:
        """g(q). Raises `Diverged` where an expression has no finite value."""
        r = len(self.outer.names)
        known, found = np.concatenate([q[:r], self.constants]), np.empty(len(self.inner.names))
        found[self.copies] = known[self.sources]
        for function, rows, places in self.groups:
            with np.errstate(all="ignore"):
                value = np.broadcast_to(function(*known[places].T)[0], rows.shape)
            found[rows] = np.where(np.imag(value) == 0.0, np.real(value), np.nan)
        for place in np.flatnonzero(~np.isfinite(found))[:1]:
            name, trial = self.inner.members[place], self.inner.first_trials[place]
            raise Diverged(f"parameter {name} of trial {trial} is {found[place]} at these unknowns")
        return np.concatenate([found, q[r:]])

    def slopes(self, q: Array) -> csr_array:
        """Derivatives of g, (inner, outer)."""
        r, rest = len(self.outer.names), len(q) - len(self.outer.names)
        known, size = np.concatenate([q[:r], self.constants]), len(self.inner.names)
        tail = np.arange(rest)
        rows, columns = [self.copies, size + tail], [self.sources, r + len(self.constants) + tail]
        entries = [np.ones(len(self.copies)), np.ones(rest)]
        for function, mine, places in self.groups:
            with np.errstate(all="ignore"):
                by = function(*known[places].T)[1]
            for column, slope in zip(places.T, by, strict=True):
                rows.append(mine)
                columns.append(column)
                entries.append(np.broadcast_to(np.real(slope), mine.shape))
        i, j, e = (np.concatenate(each) for each in (rows, columns, entries))
        moved = (j < r) | (j >= r + len(self.constants))
        j = np.where(j < r, j, j - len(self.constants))
        return csr_array((e[moved], (i[moved], j[moved])), shape=(size + rest, len(q)))


class AssignedTrials(Simulated):
    """Trials at g(q), see `Simulated`. inner : the trials, without priors. rules : by trial."""

    def __init__(
        self,
        inner: Simulated,
        unknowns: Unknowns,
        priors: Priors,
        assigned: Assigned,
        rules: Sequence[Mapping[str, Assignment]],
    ) -> None:
        super().__init__(unknowns, inner.system, inner.trials, priors, inner.following)
        self.inner, self.at, self._rules = inner, assigned, rules
        self.measured, self.weighted = inner.measured, inner.weighted
        self.scored = inner.scored or not priors.squares
        self.factor, self.loss, self.substeps = inner.factor, inner.loss, inner.substeps

    def set_in(self, trial: int) -> Collection[str]:
        rules = self._rules[trial].items()
        return {name for name, rule in rules if rule != Assignment(None, (name,))}

    def values(self, q: Array, trial: int) -> dict[str, float]:
        return {**super().values(q, trial), **self.inner.values(self.at.values(q), trial)}

    def _simulated(self, q: Array) -> Any:
        return self.inner.simulate(self.at.values(q))

    @property
    def steps(self) -> Sequence[int]:
        return self.inner.steps

    @contextmanager
    def at_most(self, steps: Sequence[int]) -> Iterator[None]:
        with super().at_most(steps), self.inner.at_most(steps):
            yield

    def _cost(self, q: Array) -> float:
        return self.inner._cost(self.at.values(q))

    def _gradient(self, q: Array) -> Array:
        return np.asarray(self.at.slopes(q).T @ self.inner._gradient(self.at.values(q)))

    def _forward_gradient(self, q: Array) -> Array:
        return np.asarray(self.at.slopes(q).T @ self.inner._forward_gradient(self.at.values(q)))

    def _rows(self, q: Array) -> tuple[Array, Scores | None]:
        return self.inner._rows(self.at.values(q))

    def _jacobian(self, q: Array) -> csr_array:
        return csr_array(self.inner._jacobian(self.at.values(q)) @ self.at.slopes(q))

    def check_squares(self) -> None:
        self.inner.check_squares()

    def samples(self) -> Samples:
        return self.inner.samples()

    def gaps(self, q: Array) -> Array:
        return self.inner.gaps(self.at.values(q))

    def gap_jacobian(self, q: Array) -> csr_array:
        return csr_array(self.inner.gap_jacobian(self.at.values(q)) @ self.at.slopes(q))

    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        found = self.inner.course_slopes(self.at.values(q), trial, names)
        return {name: csr_array(rows @ self.at.slopes(q)) for name, rows in found.items()}

    def trajectories(self, q: Array) -> list[Trajectory]:
        """Trajectories, which know unknowns that are no parameters of the model, too."""
        runs = self.inner.trajectories(self.at.values(q))
        return [
            replace(run, parameters={**super(AssignedTrials, self).values(q, k), **run.parameters})
            for k, run in enumerate(runs)
        ]

    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        return self.inner.largest(self.at.values(q))

    def instability(self, q: Array) -> str:
        return self.inner.instability(self.at.values(q))
