"""Intervals of a grid: defects of the scheme, and the parts of objective and conditions that belong
to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinesym.codegen.evaluate import equation_label
from kinesym.codegen.family import (
    At,
    Family,
    Label,
    Square,
    condition_label,
    integrates_on_intervals,
    squares_of,
)
from kinesym.codegen.interval_symbols import Interval, measured_places, mixed
from kinesym.codegen.lower import Lowering
from kinesym.codegen.phases import contact_rows, held_contacts, holding_rows, pushed_rates
from kinesym.codegen.timed import (
    Rates,
    moment_rows,
    timed,
)
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme


def collocation_family(problem: Problem, scheme: CollocationScheme) -> Family:
    """Equations at the stages of each interval, and terms of the objective and conditions that
    belong there."""
    s = Interval(problem, scheme)
    return _at_knots(s) if scheme.explicit_start else _at_stages(s)


def _at_stages(s: Interval) -> Family:
    """The equations at each stage, where x' is that of the polynomial through the knots."""
    problem, model = s.problem, s.problem.model
    points = [s.at_stage(k) for k in range(s.scheme.stages)]
    lowers = [s.lowering(at, s.rates(k)) for k, at in enumerate(points)]
    pushed = lowers
    if held_contacts(problem):
        rates = [pushed_rates(s, at, s.rates(k), -1.0) for k, at in enumerate(points)]
        pushed = [s.lowering(at, row) for at, row in zip(points, rates, strict=True)]
    rows: dict[Label, int] = {}
    for number, equation in enumerate(model.equations):
        row = Label(equation_label(model, number))
        rows |= {_at_stage(s, k, row): lower(equation) for k, lower in enumerate(pushed)}
    for k, at in enumerate(points if problem.contacts else ()):
        rows |= {_at_stage(s, k, row): node for row, node in contact_rows(s, at).items()}
    if held_contacts(problem):
        rows |= holding_rows(s, *(s.at_node(side, points[-1]) for side in (0, 1)))
    between = {n: e for n, e in model.outputs.items() if problem.on_interval(e)}
    return _family(
        s,
        cost=_integral(s, lowers, s.scheme.weights),
        rows=rows
        | _reset_rows(s, points[0])
        | _step_rows(s, lowers[0])
        | moment_rows(s)
        | _path_rows(s, lowers),
        outputs={
            _at_stage(s, k, Label(name)): lower(e)
            for name, e in between.items()
            for k, lower in enumerate(lowers)
        },
        squares=_squares(s, lowers),
    )


def _at_knots(s: Interval) -> Family:
    """Defects of Lobatto IIIA, from the explicit x' at both nodes and the places between."""
    problem, scheme, g = s.problem, s.scheme, s.graph
    points = [s.at_knot(k) for k in range(scheme.stages)]
    rates = [s.explicit(at) for at in points]
    lowers = [s.lowering(at, f) for at, f in zip(points, rates, strict=True)]
    pushed = [pushed_rates(s, at, f, 1.0) for at, f in zip(points, rates, strict=True)]
    rows: dict[Label, int] = {}
    for n, x in enumerate(problem.model.states):
        begin, slopes = points[0].values[x], [f[n] for f in pushed]
        for k in range(1, scheme.stages):
            step = g.mul(g.sub(points[k].values[x], begin), g.inv(s.h))
            inner = ", within" + f" {k}" * (scheme.stages > 3) if k < scheme.stages - 1 else ""
            row = Label(f"defect of {name_of(x)}{inner}")
            rows[row] = g.sub(step, mixed(s, slopes, scheme.matrix[k]))
    for k, at in enumerate(points[1:-1] if problem.contacts else ()):
        rows |= {_at_stage(s, k + 1, row): node for row, node in contact_rows(s, at).items()}
    if held_contacts(problem):
        rows |= holding_rows(s, points[0], points[-1])
    knots = [dict(zip(problem.model.states, f, strict=True)) for f in rates]
    rows |= _reset_rows(s, points[0]) | _step_rows(s, lowers[0]) | moment_rows(s, knots)
    weights = list(scheme.weights)
    if not integrates_on_intervals(problem):
        weights[0] = weights[-1] = 0.0
    return _family(
        s,
        cost=_integral(s, lowers, weights),
        rows=rows | _path_rows(s, lowers[1:-1]),
        outputs={},
        squares=[],
        rates=knots,
    )


def _at_stage(s: Interval, k: int, row: Label) -> Label:
    """The row at stage k, if there are several."""
    return replace(row, stage=k + 1) if s.scheme.stages > 1 else row


def _integral(s: Interval, lowers: Sequence[Lowering], weights: Sequence[float]) -> int:
    """h sum_k b_k g_k of the integrand g."""
    g, integrand = s.graph, s.problem.objective.integrand
    pairs = [(w, lower(integrand)) for w, lower in zip(weights, lowers, strict=True) if w]
    return g.sum([g.mul(g.mul(s.h, g.const(w)), value) for w, value in pairs])


def _reset_rows(s: Interval, stage: At) -> dict[Label, int]:
    """Inputs rise by what the resets at the end of the interval add to their states; all that is
    held is as before."""
    g, resets, rows = s.graph, s.problem.resets, dict[Label, int]()
    if not resets.inputs:
        return rows
    at = s.at_node(1, stage)
    lower = s.lowering(at)
    before = {x: lower(x + jump) for x, jump in resets.jumps}
    signals = zip(s.problem.signals, *map(s.nodes, s.s), strict=True)
    rises = {symbol: g.sub(end, begin) for symbol, begin, end in signals}
    now = dict(before)
    for after, states in resets.maps:
        found = s.lowering(replace(at, values={**at.values, **now}))
        changes = {x: g.sub(found(e), now.get(x, at.values[x])) for x, e in states}
        here = rises[after]
        now |= {x: g.add(now[x], g.mul(here, g.counted(here, e))) for x, e in changes.items()}
    inputs = zip(s.problem.node_inputs, *map(s.nodes, s.u), strict=True)
    ends = {symbol: pair for symbol, *pair in inputs}
    for u, x in resets.inputs:
        left, right = ends[u]
        rows[Label(f"resets of {name_of(x)}")] = g.sub(g.sub(right, left), g.sub(now[x], before[x]))
    return rows


def _step_rows(s: Interval, lower: Lowering) -> dict[Label, int]:
    """Rates of inputs from node to node, less expressions of what is held."""
    g, rows = s.graph, dict[Label, int]()
    ends = dict(zip(s.problem.node_inputs, zip(*map(s.nodes, s.u), strict=True), strict=True))
    for u, e in s.problem.steps:
        begin, end = ends[u]
        rate = g.mul(g.sub(end, begin), g.inv(s.h))
        row = Label(f"{'parts of the ' if e != 0 else ''}rate of {name_of(u)}")
        rows[row] = g.sub(rate, lower(e))
    return rows


def _path_rows(s: Interval, lowers: Sequence[Lowering]) -> dict[Label, int]:
    """Path conditions within the interval."""
    problem, rows = s.problem, dict[Label, int]()
    for k, place in problem.path_within:
        row = condition_label("path", k, problem.path[k], problem.model)
        row = replace(row, stage=place + 1) if len(lowers) > 1 else row
        rows[row] = lowers[place](problem.path[k])
    return rows


def _squares(s: Interval, lowers: Sequence[Lowering]) -> list[Square]:
    """Residuals of measurements between nodes."""
    expressions = s.problem.sampled(between=True)
    used, places = lowers[-len(s.measured) :], measured_places(s.scheme)
    return [
        square
        for lower, (y, w), (place, share) in zip(used, s.measured, places, strict=True)
        for square in squares_of(s, lower, expressions, s.nodes(y), s.nodes(w), share, place)
    ]


def _family(
    s: Interval,
    cost: int,
    rows: dict[Label, int],
    outputs: dict[Label, int],
    squares: list[Square],
    rates: Rates = (),
) -> Family:
    """The interval as a family. rates : of states at the knots, where these are the stages."""
    more, values = timed(s, rates)
    outer = [*s.own, *s.scaled, *s.linked]
    inner = [*s.own, *s.scaled.values(), *s.linked.values()]
    groups, data = s.groups, s.data
    every = [*squares, *more]
    return Family(
        "interval", s.graph, groups, data, outer, inner, cost, rows, outputs, every, values
    )
