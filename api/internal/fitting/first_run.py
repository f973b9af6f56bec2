"""First trajectories of a fit: records of outputs as states, and simulations from known starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.known_events_collocation import KnownEvents
from kinesym.internal.problems.simulation_arguments import (
    SimulationArguments,
    simulation_arguments,
)
from kinesym.internal.problems.step_options import checked_steps
from kinesym.internal.running.consistent_starts import consistent_initial
from kinesym.internal.running.model_run import chosen_steps, unwatched_states
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.bounds import Limits
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import at_end, at_start
from kinesym.symbolic.problem import measured_expressions

#: Operations of an output of which the inverse is looked for, and intermediates behind it.
_SHORT = 20
#: Functions that take each of their values once.
_ONE_TO_ONE = (sp.exp, sp.log, sp.sinh, sp.asinh, sp.tanh, sp.atanh, sp.atan)
#: Tolerances of a simulation that only begins a search, and parts of it that begin with what is
#: measured.
_ROUGH = (1e-6, 1e-9)
#: Tolerances of steps that are as long as those of a first grid.
_COARSE = (1e-4, 1e-7)
_PARTS = 20


def shown_by_outputs(model: Model, trial: Experiment) -> dict[str, Inverse]:
    """Outputs that are measured and show one state each that is not, one to one: the state itself,
    degrees, logarithms, a gain and an offset."""
    every = measured_expressions(model, list(trial.measured)).items()
    pairs = ((name, _inverse(model, shows)) for name, shows in every)
    return {name: found for name, found in pairs if found and found.state not in trial.measured}


def shown_states(
    trial: Experiment, shows: Mapping[str, Inverse], parameters: Mapping[str, float]
) -> dict[str, Array]:
    """Courses (N,) of states that outputs show, see `shown_by_outputs`.

    parameters : those that are known, or guessed.
    """
    found = dict[str, Array]()
    for name, (state, needed, states_of) in shows.items():
        own = trial.timed_samples(name)
        if own is None or state in found or not {*needed} <= {*parameters}:
            continue
        with np.errstate(all="ignore"):
            row = states_of(own.values, *(parameters[p] for p in needed))
        row = np.broadcast_to(np.where(np.isfinite(row), row, np.nan), own.values.shape)
        if np.isfinite(row).any():
            found[state] = TimedSamples(own.times, np.array(row), own.delay).on(trial.grid)
    return found


class Inverse(NamedTuple):
    """The one state that an output shows, the parameters in it, and the state as a function of
    samples (K,) and these."""

    state: str
    needed: Sequence[str]
    states_of: Callable[..., Any]


@lru_cache(maxsize=256)
def _inverse(model: Model, shows: sp.Expr) -> Inverse | None:
    """State that an output shows, inverted; None for outputs that show no state, several, or one
    not one to one."""
    if len(model.intermediates) <= _SHORT:
        shows = model.written_out(shows)
    functions, others = shows.atoms(AppliedUndef), shows.free_symbols - {t}
    if len(functions) != 1 or not others <= {*model.parameters} or shows.has(sp.Derivative):
        return None
    (x,) = functions
    if x not in model.states or shows.count_ops() > _SHORT:
        return None
    y, at = sp.Dummy("y", real=True), sp.Dummy("x", real=True)
    bare = shows.xreplace({x: at})
    root = None if bare.has(t) else _root(bare, y, at)
    if root is None:
        return None
    needed = sorted(others, key=name_of)
    states_of = sp.lambdify([y, *needed], root, "numpy")
    return Inverse(name_of(x), tuple(map(name_of, needed)), states_of)


def _root(e: sp.Expr, y: sp.Expr, x: sp.Dummy) -> sp.Expr | None:
    """The x with e(x) = y, if there is one for each y that there is one for: of functions of
    functions, and of ratios that are linear in x."""
    while e != x:
        if sum(arg.has(x) for arg in e.args) > 1:
            return _root_of_ratio(e - y, x)
        (inner,), outer = sp.sift(e.args, lambda arg: arg.has(x), binary=True)
        if e.is_Add:
            y = y - sp.Add(*outer)
        elif e.is_Mul:
            y = y / sp.Mul(*outer)
        elif isinstance(e, _ONE_TO_ONE):
            y = e.inverse()(y)
        elif isinstance(e, sp.Pow) and e.exp.is_Integer and e.exp.is_odd:
            y = sp.sign(y) * sp.Abs(y) ** (1 / e.exp)
        elif isinstance(e, sp.Pow) and e.base.is_positive:
            y = sp.log(y) / sp.log(e.base)
        else:
            return None
        e = inner
    return y


def _root_of_ratio(e: sp.Expr, x: sp.Dummy) -> sp.Expr | None:
    """The root of a ratio of polynomials, if the upper one is linear."""
    if not e.is_rational_function(x):
        return None
    above = sp.Poly(sp.together(e).as_numer_denom()[0], x)
    return -above.nth(0) / above.nth(1) if above.degree() == 1 else None


def start_values(
    rows: Sequence[tuple[sp.Expr | None, Limits]],
    states: Sequence[AppliedUndef],
    known: Mapping[str, float],
    parameters: Mapping[str, float],
) -> dict[str, float]:
    """Values of states at the start of a trial: `known` ones, and those that follow from them by
    equations at the start, one after the other, each linear in one that is open.

    rows : conditions at the ends with their bounds in the trial.
    """
    found, marks = dict(known), {name_of(x): sp.Dummy(name_of(x)) for x in states}
    open_ = []
    for e, limits in rows:
        if e is None or limits.low != limits.high or not e.has(at_start) or e.has(at_end):
            continue
        inner = {x: marks[name_of(x)] for x in states}
        e = e.xreplace({atom: atom.args[0].xreplace(inner) for atom in e.atoms(at_start)})
        numbers = {
            s: sp.Float(parameters[name_of(s)]) for s in e.free_symbols if name_of(s) in parameters
        }
        open_.append(e.xreplace(numbers) - limits.low)
    while True:
        table = {marks[name]: sp.Float(value) for name, value in found.items()}
        news = [_solved(e.xreplace(table)) for e in open_]
        more = {mark.name: value for new in news if new for mark, value in [new]}
        if not more.keys() - found.keys():
            return found
        found = {**more, **found}


def _solved(e: sp.Expr) -> tuple[sp.Dummy, float] | None:
    """The one unknown of an expression that is zero, and its value, if it is linear in it."""
    if len(e.free_symbols) != 1 or e.has(AppliedUndef):
        return None
    (x,) = e.free_symbols
    slope = e.diff(x)
    if not isinstance(x, sp.Dummy) or not slope.is_number or not slope.is_finite or slope == 0:
        return None
    value = -e.xreplace({x: sp.S.Zero}) / slope
    return (x, float(value)) if value.is_number and value.is_finite else None


def over_events(
    model: Model,
    trial: Experiment,
    start: Mapping[str, float],
    parameters: Mapping[str, float],
    inputs: Mapping[str, Signal],
    events: KnownEvents,
) -> dict[str, Array] | None:
    """States (N,) of a trial without their jumps, and the inputs that are jumps, by simulation from
    event to event; None if it does not reach its end."""
    names = [*model.state_names, *sorted(events.sums)]
    found = {name: np.zeros(trial.n_nodes) for name in names}
    rises = {name: np.diff(trial.inputs[name], prepend=0.0) > 0.0 for name in events.names}
    nodes = np.flatnonzero(np.any([*rises.values()], axis=0)).tolist()
    here, jumps = dict(start), dict.fromkeys(sorted(events.sums), 0.0)
    for first, last in pairwise([0, *nodes, trial.n_nodes - 1]):
        grid = trial.grid[first : last + 1]
        constant = {u: Signal(grid[[0, -1]], [jump, jump]) for u, jump in jumps.items()}
        run = simulated(model, grid, here, parameters, {**inputs, **constant}, {})
        if run is None:
            return None
        for name, row in run.items():
            found[name][first : last + 1] = row
        for u, jump in jumps.items():
            found[u][first:] = jump
        here = {name: float(row[-1]) for name, row in run.items()}
        if last in nodes:
            held = {name: float(row[last - 1]) for name, row in trial.inputs.items()}
            fired = [name for name, row in rises.items() if row[last]]
            jumps = events.passed(fired, here, {**parameters, **held, **jumps}, jumps)
    return found


def simulated(
    model: Model,
    grid: Array,
    start: Mapping[str, float],
    parameters: Mapping[str, float],
    inputs: Mapping[str, Signal],
    told: Mapping[str, Array],
) -> dict[str, Array] | None:
    """States (N,) on a grid by simulation from values of all states that are not algebraic; None if
    it does not reach its end.

    told : courses (N,) of states of which something is known: if that is not all of them, the
    others are simulated in parts, each of which begins with these, so that an unstable plant stays
    with its record.
    """
    found = {x: np.empty(len(grid)) for x in model.state_names}
    here: dict[str, Any] = dict.fromkeys(model.state_names, 0.0) | dict(start)
    for first, last in pairwise(_edges(len(grid), bool(told))):
        here |= {x: float(row[first]) for x, row in told.items()} if first else {}
        mine = slice(first, last + 1)
        try:
            given = _posed(model, grid[mine], here, parameters, inputs, _ROUGH)
            states = unwatched_states(model, given)
        except ValueError:  # the start violates a constraint, or an input does not reach so far
            return None
        if states is None:
            return None
        for name, row in states.items():
            found[name][mine] = row
        here = {name: float(row[-1]) for name, row in states.items()}
    return found


def step_ends(
    model: Model,
    trial: Experiment,
    courses: Mapping[str, Array],
    parameters: Mapping[str, float],
    inputs: Mapping[str, Signal],
    told: bool,
) -> Array | None:
    """Ends (S,) of the steps that an adaptive method chooses along a motion; None where it does not
    reach the end.

    courses : states (N,) of the motion. told : whether something is known of them, so that they are
    followed in parts.
    """
    found = [trial.grid[:1]]
    for first, last in pairwise(_edges(trial.n_nodes, told)):
        here, time = {x: float(row[first]) for x, row in courses.items()}, trial.grid[[first, last]]
        try:
            given = _posed(model, time, here, parameters, inputs, _COARSE)
            ends = chosen_steps(model, given)
        except ValueError:  # the start violates a constraint
            return None
        if ends is None:
            return None
        found.append(ends)
    return np.concatenate(found)


def _posed(
    model: Model,
    time: Array,
    start: Mapping[str, Any],
    parameters: Mapping[str, float],
    inputs: Mapping[str, Signal],
    tolerances: tuple[float, float],
) -> SimulationArguments:
    """Arguments of a simulation from a start that is moved onto the constraints."""
    about = (parameters, inputs, checked_steps(("radau-5",), None, 1, *tolerances), 1, False)
    given = simulation_arguments(model, time, start, *about)
    if not (model.index.value or model.invariants):
        return given
    return simulation_arguments(model, time, consistent_initial(model, given), *about)


def _edges(n_nodes: int, told: bool) -> NDArray[np.intp]:
    """Nodes at which the parts of a simulation begin and end."""
    parts = min(_PARTS, n_nodes - 1) if told else 1
    return np.unique(np.linspace(0, n_nodes - 1, parts + 1).round().astype(np.intp))
