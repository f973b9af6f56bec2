"""First guess: the free vector from given, measured or simulated trajectories, outputs that show
states, and straight lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_run import (
    over_events,
    shown_by_outputs,
    shown_states,
    simulated,
    start_values,
    step_ends,
)
from kinesym.internal.fitting.solution_grid import fits
from kinesym.internal.problems.fixed_values import straight_lines
from kinesym.internal.problems.known_jump_inputs import on_given_grids
from kinesym.internal.problems.plausible_units import kinematic_pairs
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.nlp.bounds import Limits
from kinesym.runtime.nlp.collocation import first_guess, within
from kinesym.runtime.results.guesses import values_of_results
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.names import by_name, name_of, names_of
from kinesym.symbolic.objective import at_start

#: Trajectories (N,) by name, of each trial.
Drawn = Sequence[Mapping[str, Array]]

#: A first trajectory that is simulated may cost so many times what the one without does.
_FAR = 10.0
#: Violation of bounds by the motion of a guess, relative to its largest value, at most.
_OFF = 1e-6


@dataclass(frozen=True)
class FirstGuess:
    """First guesses of a problem."""

    problem: Discretisation

    def pack(self, guess: Any = None) -> Array:
        """The free vector of a guess; see `Collocation.pack`."""
        if not isinstance(guess, Mapping | None):
            return self.packed(guess, self.lines)
        return self.packed(guess, self.made_up(self.named(guess))[0])

    @property
    def lines(self) -> Drawn:
        """Straight lines between what conditions fix."""
        pairs = ((row.fixed, row.trial) for row in self.problem.per_trial.rows)
        return [straight_lines(fixed, trial.grid) for fixed, trial in pairs]

    def named(self, guess: Mapping[Any, Any] | None) -> dict[str, Any]:
        """The values of a guess by name."""
        layout = self.problem.layout
        inputs = [name for name in layout.inputs if name not in layout.delayed]
        known = [*layout.states, *inputs, *layout.owned.parameters]
        known += [name for name in layout.parameters if name not in known]
        known += ["duration"] if layout.free_duration else []
        given = by_name(guess or {}, known, "guess")
        grids = [row.given_grid for row in self.problem.per_trial.rows]
        return on_given_grids(given, [grid for grid in grids if grid is not None])

    def packed(self, guess: Any, lines: Drawn) -> Array:
        """The free vector of a guess, with these trajectories of what it does not give, by trial;
        see `first_guess`."""
        layout, bounds = self.problem.layout, self.problem.variable_bounds
        if isinstance(guess, Solution) and fits(self.problem, guess):
            return np.clip(guess.free_vector, *bounds)
        if isinstance(guess, np.ndarray):
            if guess.shape != (self.problem.n_variables,):
                raise ValueError(
                    f"the free vector has {self.problem.n_variables} entries, got {guess.shape}"
                )
            z = real_array(guess, "the free vector")
            every = np.ones(len(z), dtype=bool)
            return within(z, bounds, every, layout.variable_name, layout.natural, stacklevel=6)
        values = values_of_results(guess, layout, self.problem.trials)
        by_hand = values is None
        if values is None:
            if not isinstance(guess, Mapping | None):
                raise ValueError(
                    "a guess is a mapping of names to values, a Solution, a Fit, a "
                    f"Trajectory, or an array, not {guess!r}"
                )
            values = self.named(guess)
        z, given = self._first(values, lines, by_hand)
        given &= by_hand
        z = within(z, bounds, given, layout.variable_name, layout.natural, stacklevel=6)
        return self._with_lags(z)

    def _first(
        self, values: Mapping[str, Any], lines: Drawn, rates: bool = True
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The free vector of values by name and which entries they give; see `first_guess`."""
        pairs = kinematic_pairs(self.problem.model) if rates else {}
        defaults = dict(self.problem.model.values)
        return first_guess(self.problem.layout, self.problem.trials, values, defaults, pairs, lines)

    def _with_lags(self, z: Array) -> Array:
        if self.problem.nlp.lags is not None:
            z[self.problem.layout.delayed_entries] = self.problem.nlp.lags.values(z)
        return z

    def started(self, values: Mapping[str, Any], drawn: Drawn) -> Array:
        """The free vector of values by name, moved into the bounds without a word."""
        z, _ = self._first(values, drawn)
        nobody = np.zeros(len(z), dtype=bool)
        return self._with_lags(
            within(z, self.problem.variable_bounds, nobody, self.problem.layout.variable_name)
        )

    def without_guess(self, guess: Any) -> list[str]:
        """Names of states that a guess by names does not give, that are not measured and not
        zero."""
        if not isinstance(guess, Mapping | None):
            return []
        told = {
            *names_of(list(guess or ()), "guess"),
            *(m for t in self.problem.trials for m in t.measured),
            *self.problem.model.vanishing,
        }
        pairs = kinematic_pairs(self.problem.model)
        return [x for x in self.problem.layout.states if not told & {x, pairs.get(x)}]

    # -- trajectories of what is not given ------------------------------------------------------

    def made_up(self, values: Mapping[str, Any]) -> tuple[Drawn, frozenset[str]]:
        """Trajectories of states and inputs that are neither given by these values nor measured,
        and the names of those of which more is known than lines between conditions."""
        lines = self.lines
        if not self.problem.symbolic.objective.least_squares:
            return lines, frozenset()
        drawn, shown = self._with_shown(values, lines)
        if shown and not np.isfinite(self._cost_of(values, drawn)):  # noise may leave a domain
            drawn, shown = lines, frozenset()
        runs = self._runs(values, drawn, shown)
        if not runs:
            return drawn, shown
        moved = [{**row, **run} for row, run in zip(drawn, runs, strict=True)]
        before, after = (self._cost_of(values, each) for each in (drawn, moved))
        if after > _FAR * before:
            return drawn, shown
        return moved, shown.union(*runs)

    def _cost_of(self, values: Mapping[str, Any], drawn: Drawn) -> float:
        """The objective of values by name with these trajectories; infinite where it or the
        equations are no numbers."""
        nlp, z = self.problem.nlp, self.started(values, drawn)
        with np.errstate(all="ignore"):
            J = nlp.cost(z)
            finite = np.isfinite(J) and np.isfinite(nlp.constraints(z)).all()
        return J if finite else np.inf

    def _with_shown(self, values: Mapping[str, Any], lines: Drawn) -> tuple[Drawn, frozenset[str]]:
        """The trajectories with those of states that measured outputs show, and their names."""
        pairs, made, names = kinematic_pairs(self.problem.model), [], frozenset[str]()
        for number, (trial, row) in enumerate(zip(self.problem.trials, lines, strict=True)):
            shows = shown_by_outputs(self.problem.model, trial)
            known = self._guessed_parameters(values, number) if shows else {}
            shown = shown_states(trial, shows, known)
            rates = {v for v, x in pairs.items() if x in shown}  # the slopes of these
            kept = {name: line for name, line in row.items() if name not in rates}
            made.append({**kept, **shown})
            names |= {*shown, *rates}
        return made, names

    def is_drawn(self, guess: Any) -> bool:
        """Whether a guess leaves states to measured outputs that show them, or to simulation."""
        if not isinstance(guess, Mapping | None):
            return False
        values = self.named(guess)
        return bool(self.made_up(values)[1] - values.keys())

    def _guessed_parameters(self, values: Mapping[str, Any], number: int) -> dict[str, float]:
        """Values of all parameters of a trial that are known, guessed, or of the model."""
        owned = self.problem.layout.owned
        guessed = owned.guessed(values)
        entries = [
            guessed.get(name, self.problem.model.values.get(p, np.nan))
            for name, p in zip(owned.names, owned.members, strict=True)
        ]
        mine = zip(owned.parameters, owned.places(number), strict=True)
        found = {**self.problem.known[number], **{p: float(entries[k]) for p, k in mine}}
        return {name: value for name, value in found.items() if np.isfinite(value)}

    def _runs(
        self, values: Mapping[str, Any], drawn: Drawn, shown: frozenset[str]
    ) -> Sequence[dict[str, Array]]:
        """Simulated states, by trial, for those of which nothing else is known; empty where starts,
        parameters or inputs are not known, or simulations do not reach their ends."""
        pairs, sums = kinematic_pairs(self.problem.model), self.problem.formulation.events.sums
        states = {*self.problem.model.state_names, *sums}
        every = [{*values, *trial.measured, *shown} for trial in self.problem.trials]
        every = [told | {v for v, x in pairs.items() if x in told} for told in every]
        if not self._can_run or all(states <= told for told in every):
            return []
        if any(states - told and self._open_starts(k, told) for k, told in enumerate(every)):
            return []
        z, found = self._first(values, drawn)[0], list[dict[str, Array]]()
        for number, told in enumerate(every):
            courses = self.problem.courses(z, number)
            rows = {x: courses[x] for x in self.problem.model.state_names if x in told}
            first = {x: float(row[0]) for x, row in rows.items()}
            run = self._run(values, number, courses, told, first, rows) if states - told else {}
            if run is None:
                return []
            found.append({x: row for x, row in run.items() if x not in told})
        return found

    @property
    def _can_run(self) -> bool:
        """Whether trials are simulated as they are: no phases, no delays, at known times."""
        asked = self.problem.symbolic
        apart = not (asked.links or asked.cycle or asked.contacts)
        return apart and not (self.problem.model.delays or self.problem.layout.free_duration)

    def _open_starts(self, number: int, told: Collection[str]) -> set[str]:
        """States of a trial that neither what is told nor a condition can start."""
        conditions, model = self.problem.formulation.boundary, self.problem.model
        behind = atoms_of(*(e for e in conditions if e is not None and e.has(at_start)))
        rows = self.problem.per_trial.rows
        fixed = {x for x, at in rows[number].fixed.items() if -np.inf in at}
        started = fixed.union(told, (name_of(x) for x in model.states if x in behind))
        return {*model.state_names} - {*model.index.algebraic} - started

    def _run(
        self,
        values: Mapping[str, Any],
        number: int,
        courses: Mapping[str, Array],
        told: set[str],
        first: Mapping[str, float],
        rows: Mapping[str, Array],
    ) -> dict[str, Array] | None:
        """States (N,) of a trial by simulation, None if there is none. courses : of all states and
        unknown inputs; told : names of those of which something is known. first : starts where
        conditions tell none; rows : see `simulated`."""
        trial, model = self.problem.trials[number], self.problem.model
        known = self._guessed_parameters(values, number)
        inputs = self._inputs(number, courses, told)
        if not {*model.parameter_names} <= known.keys() or inputs is None:
            return None
        fixed = {
            x: at[-np.inf]
            for x, at in self.problem.per_trial.rows[number].fixed.items()
            if -np.inf in at and x in model.state_names
        }
        limits = self.problem.per_trial.rows[number].limits["ends"]
        bounds = [each for each in limits if isinstance(each, Limits)]
        conditions = list(zip(self.problem.formulation.boundary, bounds, strict=True))
        start = start_values(conditions, model.states, {**first, **fixed}, known)
        needed = {*model.state_names} - {*model.index.algebraic}
        if not needed <= start.keys():
            return None
        start = {x: value for x, value in start.items() if x in model.state_names}
        if (events := self.problem.formulation.events).sums:
            return over_events(model, trial, start, known, inputs, events)
        return simulated(model, trial.grid, start, known, inputs, rows)

    def _inputs(
        self, number: int, courses: Mapping[str, Array], told: Collection[str]
    ) -> dict[str, Signal] | None:
        """Inputs of a trial with those of `courses` that are unknown; None where nothing is known
        of one."""
        trial, free = self.problem.trials[number], self.problem.layout.inputs
        names = self.problem.model.input_names
        inputs = {n: s for n, s in trial.signals.items() if n in names}
        inputs |= {u: Signal(trial.grid, courses[u]) for u in free}
        given = self.problem.formulation
        known = {*told, *given.noises, *given.events.sums}
        return inputs if {*free} <= known and {*names} <= inputs.keys() else None

    def steps(self, guess: Any) -> list[Array] | None:
        """Ends of the steps that an adaptive method chooses along the first guess, of each trial;
        None of what is no fit, of unknown inputs, and where a trial cannot be simulated as it is,
        or not to its end."""
        fit = self.problem.symbolic.objective.least_squares and not self.problem.layout.inputs
        if not (fit and self._can_run and isinstance(guess, Mapping | None)):
            return None
        values, model, found = self.named(guess), self.problem.model, list[Array]()
        drawn, names = self.made_up(values)
        z, shown = self.started(values, drawn), self._with_shown(values, self.lines)[1]
        for number, trial in enumerate(self.problem.trials):
            told, courses = {*values, *trial.measured, *names}, self.problem.courses(z, number)
            known, inputs = self._guessed_parameters(values, number), self._inputs(number, {}, ())
            unsaid = {*model.parameter_names} - known.keys()
            if inputs is None or unsaid or self._open_starts(number, told):
                return None
            states = {x: courses[x] for x in model.state_names}
            seen = bool({*values, *trial.measured, *shown} & states.keys())
            ends = step_ends(model, trial, states, known, inputs, seen)
            if ends is None:
                return None
            found.append(ends)
        return found

    def assumed(self, guess: Mapping[Any, Any] | None) -> Array:
        """The free vector near the motion that a guess by names means: simulated from its starts,
        where trials are simulated as they are, unless it gives trajectories of all states. Starts
        and inputs that neither it nor a condition tells are those of the record. Raises
        `ValueError` for a start or an unknown input that nothing tells."""
        values, model, layout = self.named(guess), self.problem.model, self.problem.layout
        drawn, shown = self._with_shown(values, self.lines)
        pairs, noises = kinematic_pairs(model), self.problem.formulation.noises
        for number, trial in enumerate(self.problem.trials):
            seen = {n for n, row in trial.measured.items() if not np.isnan(row).all()}
            told = {*values, *seen, *shown}
            told |= {v for v, x in pairs.items() if x in told}
            jumps = self.problem.formulation.events.sums
            free = {*layout.inputs} - {*layout.delayed, *noises, *jumps}
            open_ = self._open_starts(number, told) if self._can_run else set[str]()
            for name in sorted(open_ | (free - told)):
                what = "input" if name in free else "start"
                raise ValueError(
                    f"nothing tells the {what} of {name} in trial {number}; give what is assumed "
                    f"of it in the guess, guess={{{name!r}: ...}}"
                )
        z, given = self._first(values, drawn)
        courses = [self.problem.courses(z, k) for k in range(len(self.problem.trials))]
        needed = {*model.state_names} - {*model.index.algebraic}
        if self._can_run and not self.gives_courses(guess):
            begun = {x: [float(row[x][0]) for row in courses] for x in needed}
            jumps = self.problem.formulation.events.sums
            inputs = {u: [row[u] for row in courses] for u in layout.inputs if u not in jumps}
            ran = self._ran({**begun, **inputs, **values})
            z = z if ran is None else ran
        for name, value in zip(layout.parameters, layout.parameter_values(z), strict=True):
            if np.isnan(value):
                raise ValueError(
                    f"nothing tells what is assumed of parameter {name}; give it in the guess, "
                    f"guess={{{name!r}: ...}}"
                )
        about = (self.problem.variable_bounds, given, layout.variable_name, layout.natural)
        return self._with_lags(within(z, *about, stacklevel=6))

    def gives_courses(self, guess: Any) -> bool:
        """Whether a guess has trajectories of all states that are not algebraic, not only where
        they start."""
        if not isinstance(guess, Mapping | None):
            return True
        values, model = self.named(guess), self.problem.model
        needed = {*model.state_names} - {*model.index.algebraic}
        return all(x in values and np.ndim(first_of(values[x])) > 0 for x in needed)

    def moved_by(self, guess: Mapping[Any, Any] | None) -> Array | None:
        """The free vector of the motion that a guess by names means, from its starts and by its
        parameters; None where these are not told, or it is not within the bounds."""
        if not self._can_run:
            return None
        values, numbers = self.named(guess), range(len(self.problem.trials))
        if any(self._open_starts(number, values) for number in numbers):
            return None
        moved = self._ran(values)
        if moved is None:
            return None
        low, high = self.problem.variable_bounds
        off = np.maximum(low - moved, moved - high).max(initial=0.0)
        return np.clip(moved, low, high) if off <= _OFF * np.abs(moved).max(initial=1.0) else None

    def _ran(self, values: Mapping[str, Any]) -> Array | None:
        """The free vector of simulations from the first of these values; None where one does not
        reach its end, or starts, parameters or inputs are not told."""
        z, runs = self._first(values, self.lines)[0], []
        for number in range(len(self.problem.trials)):
            courses = self.problem.courses(z, number)
            first = {x: float(courses[x][0]) for x in self.problem.model.state_names if x in values}
            run = self._run(values, number, courses, {*values}, first, {})
            if run is None:
                return None
            runs.append(run)
        every = {x: [run[x] for run in runs] for x in runs[0]}
        return self._first({**values, **every}, self.lines)[0]


def first_of(value: Any) -> Any:
    """A value of a guess, of a list with one per trial the first."""
    return value[0] if isinstance(value, list) else value
