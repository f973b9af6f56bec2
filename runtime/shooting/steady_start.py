"""Starts in a steady state, with derivatives.

The steady state is the end of a simulation by radau-5 over spans that grow tenfold, until a span
changes no state. Derivatives are those of its steps, as they are. As the method is stiffly
accurate, its steps have the steady state as a fixed point, and their derivatives contract to those
of the implicit function theorem, d x/d p = -f_x^-1 f_p; along what the model conserves, where f_x
is singular, steps keep linear functions of the states, and so do their derivatives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import HELD, Run
from kinesym.runtime.shooting.chosen_steps import ChosenSteps, chain_of
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import (
    IVP,
    STIFF,
    Diverged,
    RawTrajectories,
    Stepper,
    bind,
    failure,
)

#: Change of a state over a span that is none, as a share of its value.
_STEADY = 1e-9
#: Spans, each ten times as long as the one before: the first one is as long as the record.
_SPANS = 10
#: Tangents that are as much work as an adjoint sweep, beyond the first.
_TANGENTS = 40
#: Steps of a span, at most; a motion that settles takes some hundred.
_MOST_STEPS = 20_000


@dataclass(frozen=True)
class SteadyStart:
    """Start of a trial in a steady state.

    states, parameters : names, of the latter all that it depends on. initial : where the simulation
    begins, (n,), NaN where `follows` tells it from values before the record. before : values of
    parameters there, which others replace: numbers, or names of parameters. inputs : values, (m,).
    reset : states that are then replaced by numbers; those of `resets` follow from parameters.
    begin, span : of the record [s].
    """

    states: Sequence[str]
    parameters: Sequence[str]
    initial: Array
    follows: Following | None
    before: Mapping[str, float | str]
    inputs: Array
    reset: Mapping[str, float]
    resets: Following | None
    begin: float
    span: float

    def earlier(self, known: Mapping[str, float]) -> dict[str, float]:
        """Values of parameters before the record."""
        own = {p: known[v] if isinstance(v, str) else v for p, v in self.before.items()}
        return {**known, **own}

    def came_from(self, names: Sequence[str]) -> Array:
        """Derivatives (r, r) of parameters before the record by those in it, of these names."""
        made, places = np.eye(len(names)), {name: k for k, name in enumerate(names)}
        for p, value in self.before.items():
            if p in places:
                made[places[p]] = 0.0
                if isinstance(value, str):
                    made[places[p], places[value]] = 1.0
        return made


@dataclass
class _Reached:
    """A steady state, the runs that led to it, none before it is found, derivatives of it by the
    seeds of the last sweep, and the trials that have begun in it. busy : held by the thread that
    finds one of these."""

    end: Array = field(default_factory=lambda: np.zeros(0))
    runs: Sequence[tuple[Run, RawTrajectories]] = ()
    swept: tuple[bytes, Array] | None = None
    users: set[int] = field(default_factory=set)
    busy: Lock = field(default_factory=Lock)


class SteadyStates:
    """Steady states of a model. stepper : of radau-5, which chooses its steps. free : names of the
    unknown parameters, in the order of its derivatives. most : steady states that are kept, the
    last ones, as several trials may begin in the same."""

    def __init__(
        self, stepper: Stepper, free: Sequence[str], tolerances: tuple[float, float], most: int
    ) -> None:
        self._stepper, self.free, self._tolerances = stepper, list(free), tolerances
        self._most = most
        self._kept: OrderedDict[bytes, _Reached] = OrderedDict()
        self._busy = Lock()

    def of(self, start: SteadyStart, known: Mapping[str, float]) -> _Reached:
        """The steady state at these parameters. Raises `Diverged` if there is none."""
        about, earlier = self._stepper.about, start.earlier(known)
        p = np.array([earlier.get(name, 0.0) for name in about.parameters])
        x = start.initial.copy()
        for name, value in (start.follows.values(earlier) if start.follows else {}).items():
            if not np.isfinite(value):
                raise Diverged(f"the initial value of state {name} is {value} at these parameters")
            x[start.states.index(name)] = value
        numbers = np.concatenate([p, x, start.inputs, [start.begin, start.span]])
        key = numbers.tobytes()
        with self._busy:
            reached = self._kept.setdefault(key, _Reached())
            self._kept.move_to_end(key)
            reached.users.add(id(start))
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with reached.busy:
            if not reached.runs:
                reached.end, reached.runs = self._settled(start, p, x)
        return reached

    def _settled(
        self, start: SteadyStart, p: Array, x: Array
    ) -> tuple[Array, Sequence[tuple[Run, RawTrajectories]]]:
        parameters, runs = self._stepper.with_tables(p[None]), list[tuple[Run, RawTrajectories]]()
        least, step = self._tolerances[1], np.zeros(1)
        for k in range(_SPANS):
            time = start.begin - np.array([start.span * 10.0**k, 0.0])
            inputs = [(np.full((1, 2), value), HELD) for value in start.inputs]
            ivp = IVP(time, x[:, None], parameters, inputs, tolerances=self._tolerances)
            states = np.empty((len(x), 1, 2))
            run, raw = bind(self._stepper, ivp, states, None, step, _MOST_STEPS)
            run.march(self._stepper.loop, 0, 1)
            if raw.reached[0] != 2:
                endless = raw.trouble[0] == STIFF
                why = f"it still moves after {_MOST_STEPS} steps" if endless else failure(raw, 0)
                raise Diverged(f"the model has no steady state before the record: {why}")
            runs.append((run, raw))
            before, x = x, states[:, 0, 1].copy()
            change = np.abs(x - before)
            if (change <= _STEADY * np.abs(x) + least).all():
                return x, runs
        worst = int(np.argmax(change / (_STEADY * np.abs(x) + least)))
        raise Diverged(
            "the model has no steady state before the record: over the last "
            f"{start.span * 10.0 ** (_SPANS - 1):g} s, {start.states[worst]} changes from "
            f"{before[worst]:.6g} to {x[worst]:.6g}"
        )

    def slopes(self, start: SteadyStart, known: Mapping[str, float]) -> Array:
        """Derivatives (n, r) of the steady state by the parameters before the record."""
        reached, carry = self.of(start, known), np.zeros((len(start.states), len(self.free)))
        if start.follows:
            rows = [start.states.index(x) for x in start.follows.states]
            carry[rows] = start.follows.slopes(start.earlier(known), self.free)
        seeds = carry.tobytes()
        with reached.busy:
            if reached.swept is None or reached.swept[0] != seeds:
                for steps in map(self._steps, reached.runs):
                    along = np.empty((2, *carry.shape))
                    steps.tangent(0, 1, carry, along, 0)
                    carry = along[1]
                reached.swept = (seeds, carry)
            return reached.swept[1]

    def pulled(self, start: SteadyStart, known: Mapping[str, float], weights: Array) -> Array:
        """Weights (n,) times these derivatives, (r,); backwards in time, unless several trials
        share these."""
        reached = self.of(start, known)
        if len(reached.users) > 1 + len(self.free) // _TANGENTS:
            return np.asarray(weights @ self.slopes(start, known))
        found, nothing = np.zeros(len(self.free)), np.zeros((0, 2))
        carry = weights.copy()
        for steps in map(self._steps, reversed(reached.runs)):
            steps.adjoint(0, 1, carry, np.zeros((len(carry), 2)), nothing, found)
        if start.follows:
            rows = [start.states.index(x) for x in start.follows.states]
            found += carry[rows] @ start.follows.slopes(start.earlier(known), self.free)
        return found

    def _steps(self, run: tuple[Run, RawTrajectories]) -> ChosenSteps:
        chained = partial(chain_of, self._stepper, held=())
        return ChosenSteps.of(*run, np.zeros(0, dtype=np.intp), chained)


@dataclass(frozen=True)
class Settled:
    """Initial values of a trial that begins in a steady state; the functions of `Following`."""

    start: SteadyStart
    steady: SteadyStates

    @property
    def states(self) -> Sequence[str]:
        """Names of the states, which all start so."""
        return self.start.states

    @property
    def parameters(self) -> Sequence[str]:
        """Parameters that it depends on."""
        return self.start.parameters

    def values(self, known: Mapping[str, float]) -> dict[str, Array]:
        """Initial values by name. Raises `Diverged` if there is no steady state."""
        reached = self.steady.of(self.start, known)
        found = dict(zip(self.states, map(np.asarray, reached.end), strict=True))
        found |= {x: np.asarray(value) for x, value in self.start.reset.items()}
        return found | (self.start.resets.values(known) if self.start.resets else {})

    def slopes(self, known: Mapping[str, float], names: Sequence[str]) -> Array:
        """Their derivatives (n, r) by the unknown parameters, which these names are."""
        start = self.start
        made = self.steady.slopes(start, known) @ start.came_from(self.steady.free)
        made[[start.states.index(x) for x in start.reset]] = 0.0
        if start.resets:
            rows = [start.states.index(x) for x in start.resets.states]
            made[rows] = start.resets.slopes(known, names)
        return made

    def pulled(self, known: Mapping[str, float], names: Sequence[str], weights: Array) -> Array:
        """Weights (n,) times the derivatives, (r,)."""
        start, rest = self.start, weights.copy()
        rest[[start.states.index(x) for x in start.reset]] = 0.0
        found = np.zeros(len(names))
        if start.resets:
            rows = [start.states.index(x) for x in start.resets.states]
            found += weights[rows] @ start.resets.slopes(known, names)
            rest[rows] = 0.0
        earlier = self.steady.pulled(start, known, rest)
        return np.asarray(found + earlier @ start.came_from(self.steady.free))
