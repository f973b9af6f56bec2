"""Active bounds that keep conditions from being met, and the least widening that would let them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.elastic import Side, Slack, least_widening
from kinesym.runtime.summary import listed

Flags = NDArray[np.bool_]

#: Multiplier of an active bound, relative to the largest one.
_HOLDS = 1e-3
#: Distance of an active bound, which a barrier keeps, in sizes of the variables.
_NEAR = 1e-3
#: Widening of a bound that counts, in sizes of the variables.
_MORE = 1e-5
_SIGN = {-1: "lower", 1: "upper"}


@dataclass(frozen=True)
class ActiveBound:
    """A bound that holds conditions. name : of what is bounded; which : -1 for the lower, 1 for the
    upper one. places : numbers of all variables it bounds. limit : its value, where it holds;
    equal : whether it is that everywhere. words : what it is and when it holds."""

    name: str
    which: int
    places: NDArray[np.intp]
    limit: float
    equal: bool
    words: str


def bounds_that_hold(
    problem: Discretisation, slack: Slack, of_variables: Array
) -> list[ActiveBound]:
    """Active bounds, by their multipliers, without which more could be met. of_variables : sizes of
    z, (n_variables,)."""
    z, (_, *sides) = slack.z, slack.found.multipliers
    n = len(z)
    most = max(float(side[:n].max(initial=0.0)) for side in sides)
    if most <= 0.0:
        return []
    found = list[ActiveBound]()
    for which, side, bound in zip((-1, 1), sides, problem.variable_bounds, strict=True):
        near = np.abs(z - bound) <= _NEAR * of_variables
        held = (side[:n] > _HOLDS * most) & near & np.isfinite(bound)
        found += _of_trajectories(problem, z, which, bound, held)
        found += _of_numbers(problem, which, bound, held)
    return found


def _of_trajectories(
    problem: Discretisation, z: Array, which: int, bound: Array, held: Flags
) -> Iterator[ActiveBound]:
    """Active bounds of states and inputs."""
    layout, numbers = problem.layout, np.arange(len(z))
    for trial in range(len(layout.nodes)):
        time, courses = layout.time(z, trial), dict[str, list[tuple[Array, NDArray[np.intp]]]]()
        for name, place, row in layout.named_rows(numbers, trial):
            at = time if place is None else time[:-1] + place * np.diff(time)
            courses.setdefault(name, []).append((at, row))
        for name, parts in courses.items():
            at, places = (np.concatenate(each) for each in zip(*parts, strict=True))
            if not held[places].any():
                continue
            own = np.sort(at[held[places]])
            when = f"between t = {own[0]:.4g} and {own[-1]:.4g} s"
            when += f" ({100 * held[places].mean():.0f} % of the time)"
            when = when if len(own) > 1 else f"at t = {own[0]:.4g} s"
            limit = float(bound[places[held[places]]][0])
            words = f"the {_SIGN[which]} bound {limit:.4g} of {name} holds it, {when}"
            yield ActiveBound(
                name, which, places, limit, bool((bound[places] == limit).all()), words
            )


def _of_numbers(
    problem: Discretisation, which: int, bound: Array, held: Flags
) -> Iterator[ActiveBound]:
    """Active bounds of parameters and durations."""
    layout = problem.layout
    named = [(layout.parameter_offset + k, p, "") for k, p in enumerate(layout.parameters)]
    if layout.free_duration:
        named += [(layout.duration_offset + k, "", " s") for k in range(len(layout.nodes))]
    for j, name, unit in named:
        if held[j]:
            of = f"the parameter {name}" if name else "the duration"
            words = f"the {_SIGN[which]} bound {bound[j]:.4g}{unit} of {of} holds it"
            yield ActiveBound(
                name or "the duration", which, np.array([j]), float(bound[j]), True, words
            )


def wider(
    problem: Discretisation, slack: Slack, held: Sequence[ActiveBound], of_variables: Array
) -> str | None:
    """Sentence on the least widening of active bounds, each as a whole, that lets all conditions be
    met; None if none was found. of_variables : sizes of z."""
    sizes = [float(of_variables[h.places].max()) for h in held]
    sides = [Side(h.places, h.which, size) for h, size in zip(held, sizes, strict=True)]
    by, found = least_widening(problem.ipopt(problem.nlp), slack.z, sides)
    if not found.status.success:
        return None
    would = [
        _wider(bound, more)
        for bound, more, size in zip(held, by, sizes, strict=True)
        if more > _MORE * size
    ]
    return f"all conditions could be met with {listed(would)}" if would else None


def _wider(bound: ActiveBound, more: float) -> str:
    if not bound.equal:
        return f"the {_SIGN[bound.which]} bound of {bound.name} wider by {more:.4g}"
    sign, now = "<=" if bound.which > 0 else ">=", bound.limit + bound.which * more
    return f"{bound.name} {sign} {now:.4g} instead of {bound.limit:.4g}"
