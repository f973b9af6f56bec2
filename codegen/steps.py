"""Intervals of trajectories from time stepping, as in shooting: no defects, only their part of the
objective."""

from __future__ import annotations

from kinesym.codegen.family import At, Family, Points, integrates_on_intervals
from kinesym.codegen.interval_symbols import Interval
from kinesym.codegen.kernel import Argument
from kinesym.codegen.timed import timed
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import SCHEMES


def costs_of_steps(problem: Problem) -> Family:
    """The integral by the trapezoidal rule, if its integrand jumps at nodes with what is held; and
    measurements with unknown delays."""
    s = Interval(problem, SCHEMES["trapezoid"]) if problem.slots else Points(problem)
    g = s.graph
    step, time = s.group("h", ["step"]), s.group("t", ["time"])
    h, t0 = s.of_duration(step, time)
    begin, end, length = g.symbols(["stage.t0", "stage.t1", "stage.h"])
    symbols = (*problem.node_states, *problem.node_inputs, *problem.signals)
    right = [s.nodes(s.x[1]), *(_held(s, *pair) for pair in (s.u, s.s))]
    after = dict(zip(symbols, (node for nodes in right for node in nodes), strict=True))

    def ends() -> tuple[At, At]:
        return s.at(0, begin), At(after, end)

    integrand, cost = problem.objective.integrand, g.zero
    if integrates_on_intervals(problem):
        moves = problem.moves(integrand)
        values = [s.lowering(at, s.explicit(at) if moves else ())(integrand) for at in ends()]
        cost = g.mul(g.mul(length, g.const(0.5)), g.add(*values))
    data = (s.k, *s.s, step, time)
    outer = [*s.own, *s.scaled, begin, end, length]
    inner = [*s.own, *s.scaled.values(), t0, g.add(t0, h), h]
    if not isinstance(s, Interval):
        return Family("interval", g, s.groups, data, outer, inner, cost, {})
    rates = [dict(zip(problem.model.states, s.explicit(at), strict=True)) for at in ends()]
    squares, modelled = timed(s, rates)
    outer, inner = [*outer, *s.linked], [*inner, *s.linked.values()]
    return Family(
        "interval", g, s.groups, s.data, outer, inner, cost, {}, squares=squares, timed=modelled
    )


def _held(s: Points, left: Argument, right: Argument) -> list[int]:
    """The values at the right node; those of the left where held."""
    pairs = zip(left.symbols, right.symbols, strict=True)
    return s.graph.symbols(a if a.split(".", 1)[1] in s.problem.held else b for a, b in pairs)
