"""Multistart: solutions from many starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import positive
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.status import Solve

#: How starts end that found a solution.
_SOLUTIONS = [str(status) for status in Solve if status.success]


class Found(NamedTuple):
    """Result from one start: the parameters at its end, the status, and the number of iterations;
    the objective there, NaN if it has none, a function that makes the whole solution, None without
    one, and its merit, NaN if that is the objective."""

    parameters: Mapping[str, float]
    status: str
    iterations: int = 0
    objective: float = np.nan
    solution: Callable[[], Solution | Fit] | None = None
    merit: float = np.nan


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MultiStart(Saved):
    """Results from many starts, S of them, the best first; those without a solution are last.

    names : of the parameters, r. starts, ends : their values at the start and at the end, (S, r).
    objective : where each ended, NaN if it has none there. merit : the number by which they are
    ordered, -2 log L if standard deviations are estimated, otherwise the objective, see `Trials`.
    status : of each.
    order : the number of each as it was drawn; 0 is the guess itself. iterations : of each.
    solutions : the best ones, of different optima first; standard errors and errors of the grid are
    computed of those that are looked at. planned : number of starts that were planned; there are
    fewer after Ctrl-C.
    """

    names: Sequence[str]
    starts: Annotated[Array, "start", "parameter"]
    ends: Annotated[Array, "start", "parameter"]
    objective: Annotated[Array, "start"]
    iterations: Annotated[Array, "start"]
    order: Annotated[Array, "start"]
    status: Sequence[str]
    solutions: Sequence[Solution | Fit]
    planned: int
    merit: Annotated[Array, "start"] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if len(self.merit) != len(self.objective):
            object.__setattr__(self, "merit", self.objective)

    def __len__(self) -> int:
        return len(self.status)

    @property
    def _solved(self) -> NDArray[np.bool_]:
        """Flags of starts that found a solution."""
        return np.isfinite(self.objective) & np.isin(self.status, _SOLUTIONS)

    @property
    def best(self) -> Solution | Fit:
        """Solution with the lowest merit; raises `ValueError` if no start found any."""
        if not self.solutions:
            raise ValueError(f"none of {len(self)} starts found a solution; see `status`")
        return self.solutions[0]

    def clusters(self, tolerance: float = 1e-5) -> list[NDArray[np.intp]]:
        """Clusters of starts that found the same optimum, as rows, the lowest first.

        Merits of one optimum differ by less than tolerance * (|J| + max |J| / 1000), its
        parameters by less than sqrt(tolerance) of theirs: an error of that size in them changes an
        optimum by its square.
        """
        near = positive(tolerance, "tolerance")
        found = np.flatnonzero(self._solved)
        J, p, merit = self.objective, self.ends, self.merit
        spread = np.ptp(p[found], axis=0) if len(found) else 0.0
        size = np.abs(p[found]).max(axis=0, initial=0.0) + spread
        close = 1e-3 * near * np.abs(J[found]).max(initial=0.0)
        groups: list[list[int]] = []
        for k in found:
            for group in groups:
                first = group[0]
                same = abs(merit[k] - merit[first]) <= near * abs(J[first]) + close
                if same and (np.abs(p[k] - p[first]) <= np.sqrt(near) * size).all():
                    group.append(int(k))
                    break
            else:
                groups.append([int(k)])
        return [np.array(group) for group in groups]

    def __repr__(self) -> str:
        found = self.clusters()
        some = len(self) if len(self) == self.planned else f"{len(self)} of {self.planned}"
        if not found:
            return f"<{some} starts, none of which found a solution>"
        word = "optimum" if len(found) == 1 else "optima"
        return (
            f"<{some} starts, {len(found)} {word}: the best, {self._ranked}{self.merit[0]:.6g}, "
            f"was found by {len(found[0])} of {len(self)}>"
        )

    @property
    def _ranked(self) -> str:
        """Prefix that names merits, if they are not the objectives."""
        return "" if np.array_equal(self.merit, self.objective, equal_nan=True) else "-2 log L "

    def __str__(self) -> str:
        """Table with a line per optimum: merit, number of starts that found it, its parameters."""
        lines = [repr(self)[1:-1]]
        for rows in self.clusters()[:10]:
            k = rows[0]
            values = ", ".join(
                f"{name} = {value:.6g}"
                for name, value in zip(self.names, self.ends[k], strict=True)
            )
            lines.append(f"{self.merit[k]:14.6g}  {len(rows):4d} starts  {values}".rstrip())
        lost = int((~self._solved).sum())
        if lost:
            lines.append(f"{'none':>14}  {lost:4d} starts")
        return "\n".join(lines)

    def distances(self) -> Array:
        """Distance of each start from its end, (S,): the norm of the difference of the parameters,
        each divided by the range of the starts."""
        size = np.ptp(self.starts, axis=0)
        size = np.where(size > 0.0, size, 1.0)
        return np.asarray(np.linalg.norm((self.ends - self.starts) / size, axis=1))

    def plot_waterfall(self) -> Any:
        """Figure of all merits in order (waterfall plot); flat steps are optima that many starts
        found."""
        figure, axis = subplots(figsize=(6.0, 3.6))
        found = self._solved
        rise = self.merit[found] - (self.merit[found].min() if found.any() else 0.0)
        for k, rows in enumerate(self.clusters()):
            axis.plot(rows + 1, rise[rows], "o", ms=5, color=f"C{k % 10}")
        scale = np.abs(self.objective[found]).max(initial=1e-300)
        above = rise[rise > 1e-5 * scale]
        if len(above) and above.max() > 100.0 * above.min():
            axis.set_yscale("symlog", linthresh=float(above.min()))
        axis.set(xlabel="start, by its end", ylabel=f"{self._ranked or 'objective '}above the best")
        axis.set_title(plain(repr(self)[1:-1]), fontsize="medium")
        return figure

    def plot_parameters(self) -> Any:
        """Figure of parallel coordinates: the parameters of each optimum, from the lowest to the
        highest value found; the best is thick."""
        figure, axis = subplots(grid="", figsize=(6.0, 3.6))
        groups = self.clusters()
        rows = [group[0] for group in groups]
        low, high = (f(self.ends[rows], axis=0) for f in (np.min, np.max)) if rows else (0.0, 1.0)
        width = np.where(np.asarray(high) > low, np.asarray(high) - low, 1.0)
        places = np.arange(len(self.names))
        for k, row in enumerate(rows):
            line = (self.ends[row] - low) / width
            label = f"{self.merit[row]:.4g} ({len(groups[k])})" if k < 6 else None
            style = {"color": f"C{k % 10}", "lw": 1.0 if k else 3.0, "zorder": 5.0 - 0.01 * k}
            axis.plot(places, line, "o-", label=label, **style)
        ends = np.broadcast_arrays(low, high, np.zeros(len(self.names)))[:2]
        rows_of = zip(map(plain, self.names), *ends, strict=True)
        names = [f"{n}\n{a:.3g} ... {b:.3g}" for n, a, b in rows_of]
        axis.set_xticks(places, names)
        axis.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.5, len(self.names) - 0.5))
        axis.legend(title=f"{self._ranked or 'objective '}(starts)", fontsize="small")
        return figure


def multistart(
    names: Sequence[str], starts: Array, found: Mapping[int, Found], keep: int
) -> MultiStart:
    """Multistart result from solves by the number of their start; there may be fewer than planned.

    starts : parameters of all planned starts, (S, r).
    """
    numbers, ended = np.array([*found], dtype=np.intp), list(found.values())
    pairs = np.array([(each.objective, each.merit) for each in ended]).reshape(-1, 2)
    J, merit = pairs[:, 0], np.where(np.isnan(pairs[:, 1]), pairs[:, 0], pairs[:, 1])
    lost = np.array([each.solution is None for each in ended], dtype=bool)
    order = np.lexsort((numbers, np.where(np.isnan(J), np.inf, merit), lost))
    ends = np.array([[each.parameters[n] for n in names] for each in ended])
    made = MultiStart(
        names=list(names),
        starts=starts[numbers[order]],
        ends=ends.reshape(len(found), len(names))[order],
        objective=J[order],
        iterations=np.array([float(each.iterations) for each in ended])[order],
        order=numbers[order].astype(float),
        status=[ended[k].status for k in order],
        solutions=[],
        planned=len(starts),
        merit=merit[order],
    )
    groups = made.clusters()
    rows = [g[0] for g in groups] + [k for g in groups for k in g[1:]]
    sizes = {int(k): len(group) for group in groups for k in group}
    found_by = {k: f"{len(made)}, of which {sizes[k]} found this optimum" for k in sizes}
    kept = [(ended[order[k]].solution, found_by[int(k)]) for k in rows[:keep]]
    whole = [partial(_with_starts, make, words) for make, words in kept if make is not None]
    object.__setattr__(made, "solutions", _Made(whole))
    return made


def _with_starts(make: Callable[[], Solution | Fit], words: str) -> Solution | Fit:
    one = make()
    return replace(one, setting={**one.setting, "starts": words})


class _Made(Sequence[Solution | Fit]):
    """Solutions, each made when it is first looked at; copies have all of them."""

    def __init__(self, makers: Sequence[Callable[[], Solution | Fit]]) -> None:
        self._makers = [cache(make) for make in makers]

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, k: int) -> Solution | Fit: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Solution | Fit]: ...

    def __getitem__(self, k: int | slice) -> Solution | Fit | Sequence[Solution | Fit]:
        if isinstance(k, slice):
            return [make() for make in self._makers[k]]
        return self._makers[k]()

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, ([*self],)
