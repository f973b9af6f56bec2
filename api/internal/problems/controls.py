"""Controls: kinds of unknown inputs between nodes (held, linear, continuous), limits on rates,
costs of absolute values and of total variation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import mapping, positive
from kinesym.runtime.nlp.bounds import RateLimits, nodes_at, pieces
from kinesym.runtime.signals.corridor import bound_pair, changes
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, t, written
from kinesym.symbolic.objective import Objective, magnitude, variation


@dataclass(frozen=True)
class Held:
    """An unknown input that is constant between nodes; see `held`."""

    low: Any = None
    high: Any = None
    every: float | None = None
    max_rate: float | None = None


def held(
    low: Any = None, high: Any = None, every: float | None = None, max_rate: float | None = None
) -> Held:
    """Bounds of an unknown input that is constant from each node to the next (zero-order hold):
    `unknown_inputs={T: ks.held(-10, 10)}`. Without it an input has a value at each stage of the
    scheme.

    every : time [s] for which it is constant, from the start of each trial on (with an unknown
    duration a share of that); there must be nodes at the ends of these times, and more between
    where the states need them. max_rate : the most that it changes from one value to the next, over
    the time for which it had the former [1/s]. Moving bounds hold until the next node, path
    conditions at its node and stages. What conditions and costs have of it at the end is its last
    value. Raises `ValueError` for what is not positive, and for bounds that are none.
    """
    pair, span = _pair(low, high, "ks.held"), _positive(every, "every of ks.held")
    return Held(*pair, span, _rate(max_rate, "ks.held"))


@dataclass(frozen=True)
class Linear:
    """An unknown input that is linear between nodes; see `linear`."""

    low: Any = None
    high: Any = None
    max_rate: float | None = None


def linear(low: Any = None, high: Any = None, max_rate: float | None = None) -> Linear:
    """Bounds of an unknown input with straight lines between nodes: `unknown_inputs={T:
    ks.linear(-10, 10)}`. So are, without saying it, those that are measured. max_rate : the largest
    slope [1/s]. Raises `ValueError` as `held`."""
    return Linear(*_pair(low, high, "ks.linear"), _rate(max_rate, "ks.linear"))


@dataclass(frozen=True)
class Continuous:
    """An unknown input without jumps; see `continuous`."""

    low: Any
    high: Any
    max_rate: float | None


def continuous(low: Any = None, high: Any = None, max_rate: float | None = None) -> Continuous:
    """Bounds of an unknown input without jumps, whose rate has a value at each stage of the scheme:
    `unknown_inputs={T: ks.continuous(-10, 10, max_rate=50)}`.

    It becomes a state, as by `Model.with_rates`, and its rate `T_rate` the input, at most
    `max_rate` [1/s] at all stages, and from node to node. Raises `ValueError` as `held`.
    """
    return Continuous(*_pair(low, high, "ks.continuous"), _rate(max_rate, "ks.continuous"))


def _rate(given: Any, what: str) -> float | None:
    return _positive(given, f"max_rate of {what}")


def _positive(given: Any, what: str) -> float | None:
    return None if given is None else positive(given, what)


def _pair(low: Any, high: Any, what: str) -> tuple[Any, Any]:
    """Bounds as they are given; those that do not change over time are checked here."""
    if not changes((low, high)):
        bound_pair(what, (low, high))
    return low, high


def pair_of(given: Any) -> Any:
    """Bounds (low, high) of an unknown input; None if it has none."""
    if not isinstance(given, (Held, Linear, Continuous)):
        return given
    return None if given.low is None and given.high is None else (given.low, given.high)


def is_limited(given: Any) -> bool:
    """Whether an unknown input is constant over several intervals, or bounded in its rate."""
    every = isinstance(given, Held) and given.every is not None
    return every or isinstance(given, Continuous) or getattr(given, "max_rate", None) is not None


class Step(NamedTuple):
    """A condition on the change of an input over each interval: the rate of u less an expression,
    within limits."""

    u: AppliedUndef
    expression: sp.Expr
    limits: RateLimits

    @property
    def name(self) -> str:
        """Name of the input."""
        return name_of(self.u)


class Controls(NamedTuple):
    """Arguments of a problem after continuous inputs, rate limits and absolute values have become
    parts of the model, conditions and steps. parts : names of inputs that are parts of others."""

    system: Any
    unknown_inputs: Mapping[Any, Any]
    bounds: Mapping[Any, Any]
    objective: Objective | None
    path: Sequence[Any]
    steps: Sequence[Step]
    parts: frozenset[str] = frozenset()


def controls(
    system: Any,
    unknown_inputs: Mapping[Any, Any] | None,
    bounds: Mapping[Any, Any] | None,
    objective: Any,
    path: Sequence[Any],
) -> Controls:
    """The model with inputs that are `continuous` as states, and with the positive and the negative
    part of all whose absolute value is a cost (l1, total variation) as unknown inputs.

    So the cost is their sum, linear and exact, where a root smoothed by a width would be neither
    (Betts 2010, Practical Methods for Optimal Control and Estimation, section 1.13). Raises
    `ValueError` for costs of what is no input, and for those that are no costs.
    """
    free = mapping({} if unknown_inputs is None else unknown_inputs, "unknown_inputs")
    sides = mapping({} if bounds is None else bounds, "bounds")
    system, free, bounds = _with_rates(system, free, sides)
    steps = _steps(system, free)
    terms = _terms(objective)
    if not terms:
        return Controls(system, free, bounds, objective, path, steps)
    if not isinstance(system, Model):
        raise ValueError(f"{_words(terms[0])}: costs of absolute values are for a Model")
    parts, more = _Parts(system), list[sp.Expr]()
    integrand = objective.integrand
    for term in terms:
        [e] = term.args
        kind = _kind(term, e, system, free)
        above, below = parts.of(e, kind)
        _check_cost(integrand, term)
        integrand = integrand.xreplace({term: above + below})
        if kind is None:
            more.append((e.diff(t) if isinstance(term, variation) else e) - above + below)
        else:
            limits = RateLimits(split=True, held=isinstance(kind, Held))
            steps.append(Step(e, above - below, limits))
    larger = system.extended(inputs=list(parts.made))
    objective = Objective(integrand, objective.terminal, objective.least_squares, objective.loss)
    every = [*path, *more] if isinstance(path, (list, tuple)) else path
    names = frozenset(map(name_of, parts.made))
    return Controls(larger, {**free, **parts.made}, bounds, objective, every, steps, names)


def _with_rates(
    system: Any, free: Mapping[Any, Any], bounds: Mapping[Any, Any]
) -> tuple[Any, Mapping[Any, Any], Mapping[Any, Any]]:
    smooth = {u: asked for u, asked in free.items() if isinstance(asked, Continuous)}
    if not smooth:
        return system, free, bounds
    if not isinstance(system, Model):
        raise ValueError("ks.continuous is for the inputs of a Model")
    names = by_name(smooth, system.input_names, "unknown_inputs")
    limits: dict[str, Any] = {
        f"{name}_rate": None if c.max_rate is None else (-c.max_rate, c.max_rate)
        for name, c in names.items()
    }
    pairs = {name: pair_of(asked) for name, asked in names.items()}
    given = by_name(bounds, None, "bounds")
    for name, pair in pairs.items():
        if name in given and pair is not None:
            raise ValueError(f"bounds of {name} are given in bounds and in unknown_inputs")
    own = {name: pair for name, pair in pairs.items() if pair is not None}
    kept = {u: asked for u, asked in free.items() if u not in smooth}
    return system.with_rates(*names), {**kept, **limits}, {**given, **own}


def _steps(system: Any, free: Mapping[Any, Any]) -> list[Step]:
    """Limits of inputs that are constant over several intervals, or bounded in rate."""
    found = []
    inputs = {name_of(u): u for u in system.inputs} if isinstance(system, Model) else {}
    for u, asked in free.items():
        if not is_limited(asked):
            continue
        if not isinstance(system, Model):
            raise ValueError(f"every and max_rate of {u} are for the inputs of a Model")
        [name] = by_name({u: None}, list(inputs), "unknown_inputs")
        every = asked.every if isinstance(asked, Held) else None
        most = np.inf if asked.max_rate is None else asked.max_rate
        limits = RateLimits(most, every, isinstance(asked, Held))
        found.append(Step(inputs[name], sp.S.Zero, limits))
    return found


def _terms(objective: Any) -> list[sp.Function]:
    """Absolute values in an objective, in order."""
    if not isinstance(objective, Objective):
        return []
    if objective.terminal.atoms(magnitude, variation):
        raise ValueError("ks.l1 and ks.total_variation are integrals; they belong in no Terminal")
    return sorted(objective.integrand.atoms(magnitude, variation), key=sp.default_sort_key)


def _kind(
    term: sp.Function, e: sp.Expr, system: Model, free: Mapping[Any, Any]
) -> Held | Linear | None:
    """Interpolation (held or linear) of the input whose variation is a cost; None for other
    costs."""
    if e.atoms(magnitude, variation):
        raise ValueError(f"{_words(term)} is the absolute value of an absolute value; give one")
    if not isinstance(term, variation) or e in system.states:
        return None
    asked = by_name(free, None, "unknown_inputs").get(getattr(e, "name", ""))
    if isinstance(asked, (Held, Linear)) and e in system.inputs:
        return asked
    raise ValueError(
        f"{_words(term)} is of a state, or of an unknown input by its kind between nodes: "
        "unknown_inputs={...: ks.held(...)}, ks.linear(...) or ks.continuous(...)"
    )


def _check_cost(integrand: sp.Expr, term: sp.Function) -> None:
    """Raise `ValueError` for an absolute value that is no summand, or makes the cost fall."""
    size = sp.Dummy("size")
    factor = sp.diff(integrand.xreplace({term: size}), size)
    if factor.has(size):
        raise ValueError(
            f"{_words(term)} must be a summand of the objective, perhaps with a factor"
        )
    if factor.is_number and factor < 0:
        raise ValueError(
            f"{_words(term)} has the factor {float(factor):g}, so that more of it is better: there "
            "is no optimum that its parts show; give a positive factor"
        )


def _words(term: sp.Function) -> str:
    """Text of a cost, as it was written."""
    kind = "l1" if isinstance(term, magnitude) else "total_variation"
    return f"ks.{kind}({written(term.args[0], 40)})"


class _Parts:
    """Positive and negative parts of expressions, as unknown inputs by symbol."""

    def __init__(self, model: Model) -> None:
        self._taken: set[Any] = {*model.symbols, *model.outputs}
        self.made: dict[AppliedUndef, Any] = {}

    def of(self, e: sp.Expr, kind: Held | Linear | None) -> tuple[AppliedUndef, AppliedUndef]:
        """Positive and negative part of e; inputs that are held where e is an input that changes
        from node to node."""
        name = name_of(e) if isinstance(e, AppliedUndef) else f"part_{len(self.made) // 2 + 1}"
        words = ("positive", "negative") if kind is None else ("rise", "fall")
        made = [sp.Function(fresh_name(f"{name}_{word}", self._taken))(t) for word in words]
        self._taken |= {*made}
        asked = (0.0, None) if kind is None else held(0.0)
        self.made |= dict.fromkeys(made, asked)
        return made[0], made[1]


def check_pieces(steps: Iterable[Step], trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` for an input that is constant over several intervals but has no node at
    their ends."""
    for step in steps:
        limits = step.limits
        for k, trial in enumerate(trials):
            times = pieces(trial.grid, limits.every)
            missing = times[~nodes_at(times, trial.grid)] if limits.every else times[:0]
            if len(missing):
                unit = " of the duration" if trial.duration else " s"
                raise ValueError(
                    f"input {step.name} is held for {limits.every:g}{unit} each, but trial {k} "
                    f"has no node at {missing[0]:g}{unit}; add that time to the grid"
                )


def instants_of(steps: Iterable[Step], trials: Sequence[Experiment]) -> list[float]:
    """Times [s] at which inputs that are constant over several intervals may change."""
    every = [s.limits.every for s in steps if s.limits.every is not None]
    return [float(time) for e in every for trial in trials for time in pieces(trial.grid, e)]
