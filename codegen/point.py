"""A problem at any one point of a trajectory: its equations and its integrand, for the error of the
grid."""

from __future__ import annotations

from dataclasses import replace

from kinesym.codegen.derive import hessian, jacobian, pattern_of, pullback
from kinesym.codegen.family import At, Points
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.phases import pushed_rates
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem, algebraic_states


def with_point(program: Program, problem: Problem) -> Program:
    """A program with the kernels of `point_kernels`."""
    kernels, about = point_kernels(problem)
    every = {**program.description, "point": about}
    return replace(program, kernels=(*program.kernels, *kernels), description=every)


def point_kernels(problem: Problem) -> tuple[list[Kernel], dict[str, object]]:
    """Kernels at one point: `residual` of the equations, its `jacobian` with respect to x', x, u, p
    and t, `integrand` with its derivatives, `curvature` in each u, of weight * integrand +
    multipliers . equations, and `outputs` of models with algebraic states.

    They do not depend on the scheme, nor on owners and scales of parameters.
    """
    problem = replace(problem, owners={}, log_scale=frozenset(), priors={})
    s, model = Points(problem, suffixes=()), problem.model
    g, [p] = s.graph, s.p
    xdot, x = s.group("xdot", model.states), s.group("x", model.states)
    u, signals = s.group("u", problem.unknown_inputs), s.group("s", problem.signals)
    time = s.group("t", ["time"])
    symbols = (*model.states, *problem.unknown_inputs, *problem.signals)
    at = At(dict(zip(symbols, s.nodes(x, u, signals), strict=True)), *s.nodes(time))
    lower = s.lowering(at, s.nodes(xdot))
    pushed = s.lowering(at, pushed_rates(s, at, s.nodes(xdot), -1.0))
    rows = {f"equation {k}": pushed(e) for k, e in enumerate(model.equations)}
    outputs, wrt = list(rows.values()), s.nodes(xdot, x, u, p, time)
    entries = jacobian(g, outputs, wrt)
    integrand = lower(problem.objective.integrand)
    bars = pullback(g, [integrand], [g.one], wrt)
    slopes = {j: bar for j, bar in enumerate(bars) if bar != g.zero}
    every = tuple(a for a in (xdot, x, u, p, s.k, signals, time) if a.count)
    names = [symbol for a in (xdot, x, u, p, time) for symbol in a.symbols]
    labels = list(rows)
    kernels = [
        _kernel("residual", s, every, rows),
        _kernel(
            "jacobian",
            s,
            every,
            {f"d {labels[i]} / d {names[j]}": node for (i, j), node in entries.items()},
        ),
    ]
    if integrand != g.zero:
        derivatives = {f"d integrand / d {names[j]}": bar for j, bar in slopes.items()}
        kernels.append(_kernel("integrand", s, every, {"integrand": integrand, **derivatives}))
    weight, mu = Argument("weight", ("weight",)), s.group("mu", model.state_names)
    weights = s.nodes(weight, mu)
    bends = hessian(g, [integrand, *outputs], weights, s.nodes(u))[1]
    if u.symbols:
        curvature = {
            f"d2 L / d {u.symbols[k]}^2": bends.get((k, k), g.zero) for k in range(len(u.symbols))
        }
        kernels.append(_kernel("curvature", s, (*every, weight, mu), curvature))
    rated = [x for x in model.states if x not in algebraic_states(model)]
    between = {n: e for n, e in model.outputs.items() if problem.on_interval(e)}
    if not problem.solved and (len(rated) == len(model.states) or not problem.staged):
        between = {}
    if between:
        values = {name: lower(e) for name, e in between.items()}
        kernels.append(_kernel("outputs", s, every, values))
    about = {
        "states": list(model.state_names),
        "rated": [name_of(x) for x in rated],
        "inputs": [name_of(u) for u in problem.unknown_inputs],
        "parameters": [name_of(p) for p in problem.unknown_parameters],
        "known_parameters": [name_of(p) for p in problem.known_parameters],
        "signals": [name_of(signal) for signal in problem.signals],
        "jacobian": pattern_of(entries),
        "integrand": list(slopes),
        "outputs": list(between),
    }
    return kernels, about


def _kernel(name: str, s: Points, every: tuple[Argument, ...], outputs: dict[str, int]) -> Kernel:
    purpose = "for the error of the grid: equations, derivatives, or the integrand, at one point"
    labels, nodes = tuple(outputs), tuple(outputs.values())
    return Kernel(f"point_{name}", s.graph, every, nodes, labels, purpose)
