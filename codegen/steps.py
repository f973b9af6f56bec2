"""One step of a method that shooting takes, as a family: its defect, and costs on it."""

from __future__ import annotations

from collections.abc import Sequence

from kinesym.codegen.family import (
    At,
    Family,
    Points,
    equation_label,
    integrates_on_intervals,
    squares_of,
)
from kinesym.codegen.kernel import Argument
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import NodeScheme, StageScheme


def step_family(problem: Problem) -> Family:
    """Defects of the scheme, and cost terms that belong to intervals."""
    s, measured = Points(problem), problem.sampled(between=True)
    step, time = s.group("h", ["step"]), s.group("t", ["time"])
    data = (s.k, *s.s, step, time, s.group("y1", measured), s.group("w1", measured))
    h, t0 = s.of_duration(step, time)
    if isinstance(problem.scheme, StageScheme):
        return _stage_interval(problem.scheme, s, data, h, t0)
    assert isinstance(problem.scheme, NodeScheme)
    return _node_interval(problem.scheme, s, data, h, t0)


def _stage_interval(
    scheme: StageScheme, s: Points, data: tuple[Argument, ...], h: int, t0: int
) -> Family:
    """Everything at the one collocation point of the interval."""
    problem, model, g = s.problem, s.problem.model, s.graph
    parameters = s.nodes(s.p, s.T)
    outer_x, inner_x = _mixed(s, "x", s.x, scheme.state)
    outer_u, inner_u = _mixed(s, "u", s.u, scheme.state, problem.held)
    _, signals = _mixed(s, "s", s.s, scheme.state, problem.held)
    outer_xd = g.symbols(f"xdot.{name}" for name in model.state_names)
    difference = _mixed(s, "d", s.x, scheme.derivative)[1]
    inner_xd = [g.mul(d, g.inv(h)) for d in difference]
    outer_t, outer_h = g.symbols(["stage.t", "stage.h"])
    stage_time = g.add(t0, g.mul(g.const(scheme.time), h))

    symbols = (*problem.node_states, *problem.node_inputs, *problem.signals)
    values = dict(zip(symbols, (*outer_x, *outer_u, *signals), strict=True))
    lower = s.lowering(At(values, outer_t), outer_xd)
    cost = g.zero
    if integrates_on_intervals(problem):
        cost = g.mul(outer_h, lower(problem.objective.integrand))
    y, w = (s.nodes(group) for group in data[-2:])
    rows = {equation_label(model, k): lower(e) for k, e in enumerate(model.equations)}
    return Family(
        name="interval",
        graph=g,
        groups=s.groups,
        data=data,
        outer=[*outer_xd, *outer_x, *outer_u, outer_t, outer_h, *parameters],
        inner=[*inner_xd, *inner_x, *inner_u, stage_time, h, *parameters],
        cost=cost,
        rows=rows,
        outputs={n: lower(e) for n, e in model.outputs.items() if problem.on_interval(e)},
        squares=squares_of(s, lower, problem.sampled(between=True).values(), y, w),
    )


def _node_interval(
    scheme: NodeScheme, s: Points, data: tuple[Argument, ...], h: int, t0: int
) -> Family:
    """Defects from the explicit derivatives at the two nodes."""
    problem, g = s.problem, s.graph
    parameters = s.nodes(s.p, s.T)
    stage_t0, stage_t1, stage_h = g.symbols(["stage.t0", "stage.t1", "stage.h"])
    x0, x1 = map(s.nodes, s.x)
    symbols = (*problem.node_states, *problem.node_inputs, *problem.signals)
    right = dict(zip(symbols, (*x1, *_held(s, *s.u), *_held(s, *s.s)), strict=True))
    ends = (s.at(0, stage_t0), At(right, stage_t1))
    integrand, integrates = problem.objective.integrand, integrates_on_intervals(problem)
    needs = scheme.rates is not None or (integrates and problem.moves(integrand))
    rates = [s.explicit(at) if needs else [] for at in ends]
    rows: dict[str, int] = {}
    if scheme.rates is not None:
        b0, b1 = (g.const(b) for b in scheme.rates)
        for name, a, b, f0, f1 in zip(problem.model.state_names, x0, x1, *rates, strict=True):
            slope = g.add(g.mul(b0, f0), g.mul(b1, f1))
            rows[f"defect of {name}"] = g.sub(g.mul(g.sub(b, a), g.inv(stage_h)), slope)
    cost = g.zero
    if integrates:
        values = [s.lowering(at, f)(integrand) for at, f in zip(ends, rates, strict=True)]
        weights = [g.mul(stage_h, g.const(w)) for w in scheme.quadrature]
        cost = g.sum([g.mul(w, value) for w, value in zip(weights, values, strict=True)])
    own = [*x0, *x1, *s.nodes(*s.u), *parameters]
    outer = [*own, stage_t0, stage_t1, stage_h]
    inner = [*own, t0, g.add(t0, h), h]
    return Family("interval", g, s.groups, data, outer, inner, cost, rows)


def _held(s: Points, left: Argument, right: Argument) -> list[int]:
    """The values at the right node; those of the left where held."""
    pairs = zip(left.symbols, right.symbols, strict=True)
    return s.graph.symbols(a if a.split(".", 1)[1] in s.problem.held else b for a, b in pairs)


def _mixed(
    s: Points,
    name: str,
    groups: Sequence[Argument],
    weights: tuple[float, float],
    hold: frozenset[str] = frozenset(),
) -> tuple[list[int], list[int]]:
    """Stage symbols and their expressions w_0 left + w_1 right; the left value where held."""
    g = s.graph
    symbols, values = [], []
    for a, b in zip(*(group.symbols for group in groups), strict=True):
        member = a.split(".", 1)[1]
        w0, w1 = (1.0, 0.0) if member in hold else weights
        symbols.append(g.symbol(f"stage.{name}.{member}"))
        if w0 == w1:
            values.append(g.mul(g.const(w0), g.add(g.symbol(a), g.symbol(b))))
        else:
            values.append(g.add(g.mul(g.const(w0), g.symbol(a)), g.mul(g.const(w1), g.symbol(b))))
    return symbols, values
