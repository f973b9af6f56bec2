"""Discretisation error of a solution, to first order: shifts by the grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import chosen, chosen_trial, panels
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.shift import Shift, in_standard_errors, relative, worst_of
from kinesym.runtime.summary import listed

PerInterval: TypeAlias = Annotated[Array, "interval"]
PerNode: TypeAlias = Annotated[Array, "node"]
Trials: TypeAlias = Annotated[NDArray[np.intp], "interval"]

#: Share of the largest error below which errors are rounding, as at fixed ends, and not drawn.
_SHOWN = 1e-9
#: Sum of local errors, as a share of the range of a state, from which the motion is wrong.
_MOVED = 0.05
#: Shift of a parameter that is more than noise [standard errors].
_BEYOND = 3.0
#: Share of the size of an objective below which its value is no measure of its shift.
_VANISHING = 1e-3
#: Range of a state, as a share of the largest of its kind, below which it does not move.
_STILL = 1e-6


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GridError(Saved):
    """Discretisation error of a solution, to first order.

    A shift is what has to be added to the solution for the exact one. Intervals and nodes of
    several trials are one after the other.

    parameters : shifts by name; deviations : their standard errors, if there are measurements.
    objective, durations : shifts. states, inputs : shifts at the nodes, (nodes,) each. defects :
    local errors, the error of each state after one interval from exact values, (intervals,) each.
    gains : part of the shift of the objective, its gain if inputs were free within an interval, as
    where they jump, (intervals,); that of inputs in path conditions is not known, and not counted.
    objective_size : its change with trajectories as large as they are, which measures its shift
    where its value vanishes. oscillating : unknown inputs that go up and down from stage to stage,
    as along singular arcs.
    begin, trial : of the intervals, time [s] and number. time : of the nodes [s]. values : of
    parameters, objective and durations. ranges : of states. scheme : its name. freer : standard
    errors of parameters that would be larger if unknown inputs could do within intervals what the
    scheme does not allow, NaN for those that would be undetermined. note : why shifts are not known
    (NaN), if they are not. unseen : effects that shifts do not include. timed : whether the
    objective has durations. units : by name, if known.
    """

    scheme: str
    begin: PerInterval
    trial: Trials
    time: PerNode
    defects: Mapping[str, PerInterval]
    gains: PerInterval
    states: Mapping[str, PerNode]
    inputs: Mapping[str, PerNode]
    parameters: Mapping[str, float]
    deviations: Mapping[str, float]
    durations: Sequence[float]
    objective: float
    values: Mapping[str, float]
    ranges: Mapping[str, float]
    note: str = ""
    freer: Mapping[str, float] = field(default_factory=dict)
    order: int = 2
    fitted: bool = field(default=False)
    timed: bool = False
    objective_size: float = 0.0
    oscillating: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    unseen: str = ""

    def _shifts(self) -> Iterator[Shift]:
        """Shifts that the verdict considers and refinement reduces: of determined parameters, and
        unless these are the whole result, of durations, the objective and the states."""
        found = [*self._shifts_of_parameters()]
        yield from found
        known = self.deviations and not np.isnan([*self.deviations.values()]).any()
        if self.fitted and found and known:
            return
        for k, shift in enumerate(self.durations):
            name = "the duration" + f" of trial {k}" * (len(self.durations) > 1)
            yield relative(name, shift, self.values[f"duration {k}"], "of it")
        if not self.fitted and "objective" in self.values:
            vanishes = abs(self.values["objective"]) < self.objective_scale
            of = f"of {self.objective_scale:.2g}, a thousandth of its size" if vanishes else "of it"
            yield relative("the objective", self.objective, self.objective_scale, of)
        for name, size in self._shifts_of_states():
            how = "of its range" + " (sum of local errors)" * bool(self.inputs)
            yield relative(name, size, self.ranges[name], how)

    @property
    def objective_scale(self) -> float:
        """Measure of shifts of the objective: its value, or a share of its size where that is
        larger."""
        return max(abs(self.values.get("objective", 0.0)), _VANISHING * self.objective_size)

    def _shifts_of_parameters(self) -> Iterator[Shift]:
        """Shifts of parameters that are determined and not at a bound; zero values have no
        share."""
        for name, shift in self.parameters.items():
            deviation = self.deviations.get(name, 0.0)
            if deviation > 0.0:
                yield in_standard_errors(name, shift, deviation, self.values[name])
            elif deviation == 0.0 and shift and self.values[name]:
                yield relative(name, shift, self.values[name], "of its value")

    def _shifts_of_states(self) -> Iterator[tuple[str, float]]:
        """Largest shift of each state; with unknown inputs the sum of its local errors, the largest
        of all trials, since motions that differ by more may be equally good."""
        for name, row in self.states.items():
            local = np.bincount(self.trial, np.abs(self.defects[name]))
            yield name, float((local if self.inputs else np.abs(row)).max(initial=0.0))

    @property
    def worst(self) -> Shift:
        """Shift that matters most; NaN in size if shifts are not known."""
        return worst_of([] if self.note else self._shifts())

    @property
    def largest(self) -> float:
        """Largest shift as a share: of a parameter by its value, or by its standard error if that
        is larger, of a duration and the objective by their values, of an objective that vanishes by
        a thousandth of its size, of a state by its range (with unknown inputs the sum of its local
        errors in place of its shift).

        Undetermined parameters do not count; if all parameters have a standard error, only they do.
        NaN if shifts are not known.
        """
        shares = [] if self.note else [shift.share for shift in self._shifts()]
        return np.nan if self.note else float(np.max(shares, initial=0.0))

    @property
    def matters(self) -> bool:
        """Whether a shift exceeds half a standard error, or without measurements 1e-3 of a value or
        of the range of a state; also if shifts are not known, or standard errors are too small
        (`freer`)."""
        return bool(self.freer) or not self.worst.size <= 1.0

    @property
    def relative_defects(self) -> Array:
        """Largest local error of each interval as a share of the range of its state, or the gain of
        the objective there as a share of it."""
        rows = [np.abs(row) / (self.ranges[name] or 1.0) for name, row in self.defects.items()]
        if "objective" in self.values and self.objective_scale:
            rows.append(np.abs(self.gains / self.objective_scale))
        return np.max(np.nan_to_num(rows, nan=np.inf), axis=0)

    def drowns(self, most: float) -> str:
        """Message if the grid is too coarse to show the motion, else empty: it shifts all durations
        together by this share of them, or if the objective has none, the objective or the
        parameters. Steps that jump over a pole, damp a stiff mode or are longer than a motion give
        such solutions."""
        return self._misses_durations(most) if self.timed else self._misses_aim(most)

    def _misses_durations(self, most: float) -> str:
        """Message if durations shift by a share of them, all together."""
        if self.note or self.fitted:
            return ""
        whole = sum(self.values[f"duration {k}"] for k in range(len(self.durations)))
        shift = float(np.abs(self.durations).sum()) if len(self.durations) else 0.0
        if not shift >= most * whole > 0.0:
            return ""
        return f"the grid shifts the duration, {whole:.4g} s, by {shift:.3g} s"

    def _misses_aim(self, most: float) -> str:
        """Message if the objective, or parameters of a fit beyond their standard errors, shift by a
        share of them, and the motion is wrong, too, since values near zero have no share. Steps of
        first order are too far from the exact motion for shifts to first order."""
        words = "" if self.note or self.order < 2 else self._shifted_aim(most)
        return words if words and max(self._sums(), default=0.0) >= _MOVED else ""

    def _shifted_aim(self, most: float) -> str:
        """Message if the objective, or parameters of a fit, shift by a share of them."""
        if not self.fitted and self.objective_scale:
            shift, value = self.objective, self.values["objective"]
            if np.abs(shift) >= most * self.objective_scale:
                return f"the grid shifts the objective, {value:.4g}, by {shift:.3g}"
        for name, shift in self.parameters.items() if self.fitted else ():
            value, deviation = self.values[name], self.deviations.get(name, np.nan)
            if np.abs(shift) >= max(most * np.abs(value), _BEYOND * deviation) > 0.0:
                return f"the grid shifts {name}, {value:.4g}, by {shift:.3g}"
        return ""

    def _sums(self) -> Iterator[float]:
        """Sums of the local errors of states that move, as shares of their ranges."""
        for name in self._moving():
            yield float(np.abs(np.nan_to_num(self.defects[name])).sum()) / self.ranges[name]

    def _moving(self) -> Iterator[str]:
        """Names of states with known local errors that move by more than rounding."""
        least = _STILL * max(np.nan_to_num([*self.ranges.values()]), default=0.0)
        for name, row in self.defects.items():
            if self.ranges[name] > least and np.isfinite(row).any():
                yield name

    def resists(self, tolerance: float) -> str:
        """Message on the location of the error, if it is larger than a tolerance."""
        if self.largest <= tolerance:
            return ""
        local = self.relative_defects
        order = np.argsort(-local)[:3]
        places = ", ".join(f"{self.begin[k]:.6g} s" for k in sorted(order))
        return (
            f"the error of the grid is {self.largest:.2g}, not {tolerance:.2g}: the intervals at "
            f"t = {places} resist" + (f"; use {self._linear()}" if self.oscillating else "")
        )

    @property
    def summary(self) -> str:
        """Size of the error in a few words."""
        return f"{len(self.begin)} intervals, error {self.largest:.2g}"

    def __str__(self) -> str:
        """Verdict in one line."""
        return self._verdict + (f"; {self.unseen}" if self.unseen else "")

    @property
    def _verdict(self) -> str:
        if self.note:
            return f"its error is not known: {self.note}"
        worst, k = self.worst, int(np.argmax(self.relative_defects))
        if self.freer:
            return self._too_small()
        if not self.matters:
            return f"shifts {worst.words} at most"
        names = list(self.defects)
        sizes = [abs(self.defects[name][k]) / (self.ranges[name] or 1.0) for name in names]
        where = f"{names[int(np.argmax(sizes))]} at t = {self.begin[k]:.4g} s"
        where += f" of trial {self.trial[k]}" if self.trial.max(initial=0) else ""
        return f"shifts {worst.words} (largest defect: {where}); use {self.remedy}"

    def _too_small(self) -> str:
        """Message that the scheme restricts inputs within intervals, in one line."""
        told, lost = dict[str, str](), listed(n for n, sd in self.freer.items() if np.isnan(sd))
        for name, sd in self.freer.items():
            if not np.isnan(sd):
                told[name] = f"that of {name} is about {sd:.2g}, not {self.deviations[name]:.2g}"
        says = [listed(told.values())] if told else []
        says += [f"only this restriction tells {lost}"] if lost else []
        free = self.order >= 5 and "lobatto" not in self.scheme
        held = "unknown_inputs={...: ks.held()} if they are constant within intervals"
        how = held if free else "scheme='radau-5'"
        return (
            "standard errors are too small, as this scheme restricts unknown inputs within "
            f"intervals: {'; '.join(says)}; use {how}"
        )

    @property
    def remedy(self) -> str:
        """Remedy: a higher order, or a finer grid; no finer grid for a fit with unknown inputs,
        whose values at nodes between the samples nothing measures; where inputs oscillate within
        intervals, which both leave, inputs that cannot."""
        if self.oscillating:
            return self._linear()
        better = ["scheme='radau-5'"] if self.order < 5 else []
        if not (self.fitted and self.inputs):
            better.append("problem.refined(solution)")
        return " or ".join(better) or "scheme='gauss-6', or more samples"

    def _linear(self) -> str:
        """Remedy for inputs that oscillate within intervals, or if they are states, continuous,
        from node to node."""
        if any(name in self.states for name in self.oscillating):
            names = [name for name in self.oscillating if name in self.states]
            better = self.order < 5 or "gauss" in self.scheme.lower()
            how = (
                "scheme='radau-5'"
                if better
                else f"a small ks.total_variation({names[0]}) as a cost"
            )
            return f"{how}, as {listed(names)} {'goes' if len(names) == 1 else 'go'} up and down"
        told = ", ".join(f"{name}: ks.linear()" for name in self.oscillating)
        verb = "oscillates" if len(self.oscillating) == 1 else "oscillate"
        return (
            f"unknown_inputs={{{told}}} and scheme='radau-5', as {listed(self.oscillating)} {verb} "
            "within intervals"
        )

    def __repr__(self) -> str:
        return f"<error of the grid, {self.scheme}: {self}>"

    def plot(self, names: Sequence[Any] | None = None, trial: int = 0) -> Any:
        """Figure of a trial, one panel per state: the local error of each interval, and the shift
        at each node."""
        wanted = chosen(names, self.defects)
        figure, axes = panels(wanted, f"Error of the grid, {self.scheme}", self.units)
        here = self.trial == chosen_trial(trial, len(np.bincount(self.trial)))
        nodes = slice(*np.searchsorted(self._trial_of_nodes, [trial, trial + 1]))
        time, begin = self.time[nodes], self.begin[here]
        for axis, name in zip(axes, wanted, strict=True):
            defect, shift = np.abs(self.defects[name][here]), np.abs(self.states[name][nodes])
            [local] = axis.step(begin, defect, where="post", lw=1.0, color="C1", label="local")
            [whole] = axis.plot(time, shift, lw=1.2, color="C0", label="shift of the solution")
            largest = float(np.nanmax(np.append(defect, shift), initial=0.0))
            if largest > 0.0:
                axis.set_yscale("log")
                axis.set_ylim(bottom=max(axis.get_ylim()[0], _SHOWN * largest))
        figure.legend(handles=[whole, local], loc="outside upper right", ncols=2)
        return figure

    @property
    def _trial_of_nodes(self) -> NDArray[np.intp]:
        """Trial of each node: each trial has one more node than intervals."""
        counts = np.bincount(self.trial) + 1
        return np.repeat(np.arange(len(counts)), counts)
