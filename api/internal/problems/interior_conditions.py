"""Conditions at times that are parameters, known or unknown.

Of each condition e at a time tau an unknown input `moment_1` has the sum of e over the intervals up
to a node, where e counts in the interval only that has tau; it begins and ends with zero. So e is
taken on the polynomials of the scheme, wherever tau moves, and all remains local in time. If e is
not zero, a further one, `moment_1_value`, that is the same throughout has its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.conditions import At, conditions
from kinesym.internal.problems.controls import Step, held
from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.bounds import RateLimits
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.delayed import DelayedValue
from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, name_of, written
from kinesym.symbolic.objective import at_end, at_start


class Moment(NamedTuple):
    """Condition at a time, as an expression that an input u sums up; see this module."""

    u: AppliedUndef
    expression: sp.Expr
    time: sp.Symbol


class Moments(NamedTuple):
    """Arguments of a problem after conditions at times that are parameters have become moments;
    sums : names of the inputs of these."""

    system: Any
    unknown_inputs: Mapping[Any, Any]
    path: Any
    boundary: Any
    steps: Sequence[Step]
    moments: Sequence[Moment]
    sums: frozenset[str] = frozenset()


def with_moments(
    system: Any,
    unknown_inputs: Mapping[Any, Any],
    path: Any,
    boundary: Any,
) -> Moments:
    """Replace conditions at times that are parameters by inputs that sum them up; these times
    become parameters of the model. Raises `ValueError` for a model with contacts."""
    given = path if isinstance(path, (list, tuple)) else ()
    asked = [condition for condition in given if isinstance(condition, At)]
    if not asked:
        return Moments(system, unknown_inputs, path, boundary, (), ())
    if not isinstance(system, Model):
        raise ValueError(
            f"the condition at {asked[0].time} is for a Model; phases of models with contacts have "
            "times of their own"
        )
    taken: set[Any] = {*system.symbols, *system.outputs}
    made, more, moments = dict[AppliedUndef, Any](), list[Step](), list[Moment]()
    for number, one in enumerate(asked, 1):
        [c] = conditions([one.condition], f"the condition at {one.time},")
        if c.expression.has(DelayedValue):
            raise ValueError(
                f"the condition at {one.time} has a delayed value, {written(c.expression, 20)}; "
                "give what is delayed a state or an output of its own, or a time of its own"
            )
        u, value = (
            dynamicsymbols(fresh_name(f"moment_{number}{end}", taken)) for end in ("", "_value")
        )
        made[u] = held()
        if c.low < c.high:
            made[value] = held(c.low, c.high)
            more.append(Step(value, sp.S.Zero, RateLimits(every=np.inf)))
        moments.append(Moment(u, c.expression - (value if c.low < c.high else c.low), one.time))
    times = list(dict.fromkeys(one.time for one in asked))
    ends = [*(at_start(m.u) for m in moments), *(at_end(m.u) for m in moments)]
    return Moments(
        system.extended(inputs=list(made), parameters=[p for p in times if p not in taken]),
        {**unknown_inputs, **made},
        [condition for condition in given if not isinstance(condition, At)],
        [*boundary, *ends] if isinstance(boundary, (list, tuple)) else boundary,
        more,
        moments,
        frozenset(map(name_of, made)),
    )


def bends(
    moments: Sequence[Moment],
    layout: Layout,
    multipliers: Array,
    objective: float,
    runs: Sequence[Trajectory],
) -> list[str]:
    """Sentences on conditions at times that were found, within intervals, which act on the motion
    (their multipliers are not zero), so that it bends there; multipliers : of the constraints,
    (m,)."""
    names = {name_of(m.u): name_of(m.time) for m in moments}
    found = dict[str, None]()
    for trial, _, label, rows in layout.constraint_rows():
        time = names.get(label.of) if label.kind == "moment" else None
        if time not in layout.owned.parameters:
            continue
        run = runs[trial]
        near = np.abs(run.time - run.parameters[time]).min() / np.diff(run.time).min()
        acts = np.abs(multipliers[rows]).max(initial=0.0)
        if acts > _ACTS * abs(objective) and near > _AT_NODE:
            found[time] = None
    return [_BENDS.format(time) for time in found]


#: Relative change of the objective by a condition that acts on a motion.
_ACTS = 1e-5
#: Distance of a time that is at a node, at most, relative to the shortest interval.
_AT_NODE = 1e-3
_BENDS = (
    "the condition at {0} acts on the motion, which bends there, within an interval that shows no "
    "bend: each interval has a minimum of its own, and another guess of {0} may lead to a lower "
    "one. Phases that meet at {0} are exact: ks.Phases([ks.Experiment(nodes=..., duration=(low, "
    "high)), ...], joints=[[the condition, by ks.at_end(...), and what continues]]); a state whose "
    "rate is 1 counts the time of both"
)


def check_within(
    trials: Sequence[Experiment],
    moments: Sequence[Moment],
    unknown: Mapping[str, Unknown],
    known: Sequence[Mapping[str, float]],
) -> None:
    """Raise `ValueError` for times of conditions that may lie outside of a trial."""
    for k, trial in enumerate(trials):
        begin, end = (0.0, np.inf) if trial.duration else (trial.grid[0], trial.grid[-1])
        for name in dict.fromkeys(name_of(m.time) for m in moments):
            p = unknown.get(name)
            low, high = (known[k][name],) * 2 if p is None else (p.low, p.high)
            if low < begin or high > end:
                span = "0 s to its end" if trial.duration else f"{begin:g} to {end:g} s"
                where = f"{low:g} s" if low == high else f"{low:g} ... {high:g} s"
                raise ValueError(
                    f"the time {name} of a condition is {where}, but trial {k} is from {span}; "
                    f"give bounds within: unknown={{{name}: (0.1, 0.4)}}"
                )
