"""A symbolic problem becomes the kernels of its nonlinear program.

Kernels belong to families of points: *intervals* (defects, and what contains x'), *nodes* (costs
and path conditions of one node), *ends* (terminal cost and boundary conditions), *links* between
the end of a trial and the start of the next, and the *cycle* from the last to the first. Each is
one scalar cost and some constraints, functions of local variables z; it yields up to five kernels:
cost, gradient, constraints, jacobian, hessian.

Equations are differentiated in terms of the model's own variables v (x', x, u, p, t, h); the
discretisation v(z) enters by the chain rule. Derivatives with respect to both nodes of an interval
then share all their work.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.codegen.derive import (
    Sparse,
    compose_hessian,
    compose_jacobian,
    hessian,
    jacobian,
    pattern_of,
    pullback,
)
from kinesym.codegen.family import Family, Symbols, TwoPoints, boundary
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.phases import contact_rows, contacts_at, link_family
from kinesym.symbolic.declared import atoms_through
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem, moving_symbols
from kinesym.symbolic.schemes import NodeScheme, StageScheme

#: Second derivatives of the Lagrangian, or Gauss-Newton's: J' W J of residuals that are squared,
#: and what else the objective contains; constraints count as linear.
CURVATURES = ("exact", "gauss-newton")


def transcribe(problem: Problem, curvature: str = "exact") -> Program:
    """All kernels of the nonlinear program of `problem`, and the description of its structure.

    curvature : what the Hessian is, one of `CURVATURES`.
    """
    families = [
        interval_family(problem),
        _node(problem),
        _ends(problem),
        link_family(problem, "link"),
        link_family(problem, "cycle"),
    ]
    kernels: list[Kernel] = []
    description: dict[str, object] = {}
    for family in families:
        made, structure = _derivatives(family, curvature)
        kernels.extend(made)
        description[family.name] = structure
    return Program(
        name=f"{problem.model.name}_{problem.scheme.name}".replace("-", "_"),
        kernels=tuple(kernels),
        description={"collocation": {**_description(problem), "families": description}},
    )


def _description(problem: Problem) -> dict[str, object]:
    scheme, measured = problem.scheme, problem.measurements
    return {
        "model": problem.model.name,
        "scheme": scheme.name,
        "state_weights": list(scheme.state) if isinstance(scheme, StageScheme) else [0.5, 0.5],
        "quadrature": list(scheme.quadrature),
        "states": list(problem.model.state_names),
        "unknown_inputs": [name_of(u) for u in problem.unknown_inputs],
        "held": sorted(problem.held),
        "unknown_parameters": [name_of(p) for p in problem.unknown_parameters],
        "known_parameters": [name_of(p) for p in problem.known_parameters],
        "signals": [name_of(s) for s in problem.signals],
        "node_measurements": [n for n, e in measured.items() if not _on_interval(problem, e)],
        "interval_measurements": [n for n, e in measured.items() if _on_interval(problem, e)],
        "free_duration": problem.free_duration,
    }


# -- derivatives of a family ----------------------------------------------------------------


def _derivatives(family: Family, curvature: str) -> tuple[list[Kernel], dict[str, object]]:
    """The kernels of a family and the sparsity of its derivatives, in local variables."""
    g, objective = family.graph, family.objective
    has_cost, constraints = objective != g.zero, list(family.constraints)
    structure: dict[str, object] = {
        "variables": [[a.name, len(a.symbols)] for a in family.variables],
        "constraints": list(family.labels),
        "outputs": list(family.outputs),
    }
    kernels = []
    if family.outputs:
        kernels.append(_kernel(family, "outputs", [*family.outputs.values()], [*family.outputs]))
    if not has_cost and not constraints:
        return kernels, structure
    inner = jacobian(g, family.inner, family.z)
    if has_cost:
        kernels.append(_kernel(family, "cost", [objective], ["cost"]))
        bars = pullback(g, [objective], [g.one], family.outer)
        outer: Sparse = {(0, v): bar for v, bar in enumerate(bars) if bar != g.zero}
        entries = compose_jacobian(g, outer, inner)
        structure["gradient"] = [j for _, j in entries]
        labels = [f"d cost / d {_variable(family, j)}" for _, j in entries]
        kernels.append(_kernel(family, "gradient", list(entries.values()), labels))
    if constraints:
        kernels.append(_kernel(family, "constraints", constraints, list(family.labels)))
        entries = compose_jacobian(g, jacobian(g, constraints, family.outer), inner)
        structure["jacobian"] = pattern_of(entries)
        labels = [f"d {family.labels[i]} / d {_variable(family, j)}" for i, j in entries]
        kernels.append(_kernel(family, "jacobian", list(entries.values()), labels))
    if curvature == "exact" or has_cost:
        kernel, structure["hessian"] = _second_derivatives(family, curvature, inner)
        kernels.append(kernel)
    return kernels, structure


def _second_derivatives(
    family: Family, curvature: str, inner: Sparse
) -> tuple[Kernel, list[list[int]]]:
    """The Hessian of a family and its sparsity; `inner` are the derivatives of v(z)."""
    g = family.graph
    factor = Argument("factor", ("factor",), varying=False)
    symbols = tuple(f"multipliers.{k}" for k in range(len(family.constraints)))
    multipliers = Argument("multipliers", symbols)
    if curvature == "exact":
        weights = [g.symbol("factor"), *g.symbols(symbols)]
        outputs = [family.objective, *family.constraints]
        gradient, second = hessian(g, outputs, weights, family.outer)
    else:
        gradient, second = hessian(g, [family.cost], [g.symbol("factor")], family.outer)
        second = _with_squares(family, second)
    curvatures = [hessian(g, [v], [g.one], family.z)[1] for v in family.inner]
    entries = compose_hessian(g, gradient, second, inner, curvatures)
    labels = [f"d2 L / d {_variable(family, i)} d {_variable(family, j)}" for i, j in entries]
    weighted = (factor, multipliers)
    kernel = _kernel(family, "hessian", list(entries.values()), labels, weighted)
    return kernel, pattern_of(entries)


def _with_squares(family: Family, second: Sparse) -> Sparse:
    """Adds 2 w r_a r_b of the squares, where r_a are first derivatives of a residual."""
    g = family.graph
    terms = {key: [node] for key, node in second.items()}
    slopes = jacobian(g, [r for _, r in family.squares], family.outer)
    twice = g.mul(g.const(2.0), g.symbol("factor"))
    for (row, a), left in slopes.items():
        weight = g.mul(twice, family.squares[row][0])
        for (other, b), right in slopes.items():
            if other == row and a <= b:
                terms.setdefault((a, b), []).append(g.mul(weight, g.mul(left, right)))
    sums = {key: g.sum(parts) for key, parts in sorted(terms.items())}
    return {key: node for key, node in sums.items() if node != g.zero}


def _variable(family: Family, j: int) -> str:
    return [s for group in family.variables for s in group.symbols][j]


_PURPOSES = {
    "outputs": "outputs of the model",
    "cost": "terms of the objective",
    "gradient": "derivatives of the objective",
    "constraints": "constraints, each = 0 or bounded",
    "jacobian": "derivatives of the constraints that are not identically zero",
    "hessian": "second derivatives of factor * cost + multipliers . constraints, upper triangle",
}


def _kernel(
    family: Family,
    what: str,
    outputs: list[int],
    labels: list[str],
    more: tuple[Argument, ...] = (),
) -> Kernel:
    g = family.graph
    replacement = {v: e for v, e in zip(family.outer, family.inner, strict=True) if v != e}
    return Kernel(
        name=f"{family.name}_{what}",
        graph=g,
        arguments=tuple(a for a in (*family.variables, *family.data, *more) if a.symbols),
        outputs=tuple(g.substitute(outputs, replacement)),
        labels=tuple(labels),
        purpose=_PURPOSES[what],
    )


# -- the families ---------------------------------------------------------------------


def _moves(problem: Problem, e: sp.Expr) -> bool:
    """Whether `e` contains x', directly or through intermediates."""
    return bool(e.atoms(sp.Symbol, sp.Derivative) & moving_symbols(problem.model))


def _on_interval(problem: Problem, e: sp.Expr) -> bool:
    """Whether `e` contains x' and so belongs to intervals; some schemes have x' at the nodes."""
    return not isinstance(problem.scheme, NodeScheme) and _moves(problem, e)


def _integrates_on_intervals(problem: Problem) -> bool:
    """Whether the integrand contains x' or a held signal, which have no values at the nodes."""
    integrand = problem.objective.integrand
    behind = atoms_through(problem.model, [integrand])
    held = {name_of(f) for f in behind if isinstance(f, AppliedUndef)} & problem.held
    jumps = bool(problem.held) and _moves(problem, integrand)
    return bool(held) or jumps or _on_interval(problem, integrand)


def _squares(
    problem: Problem,
    lower: Lowering,
    expressions: Sequence[sp.Expr],
    y: Sequence[int],
    w: Sequence[int],
) -> list[tuple[int, int]]:
    """Weight and residual, expression - y, of each measurement, if the objective has them."""
    factor = problem.objective.least_squares
    if not factor:
        return []
    g = lower.graph
    return [
        (g.mul(g.const(factor), weight), g.counted(weight, g.sub(lower(expression), measured)))
        for expression, measured, weight in zip(expressions, y, w, strict=True)
    ]


def interval_family(problem: Problem) -> Family:
    """Defects of the scheme, and cost terms that belong to intervals."""
    s = Symbols(problem)
    groups = _Interval(s)
    if isinstance(problem.scheme, StageScheme):
        return _stage_interval(problem.scheme, s, groups)
    assert isinstance(problem.scheme, NodeScheme)
    return _node_interval(problem.scheme, s, groups)


class _Interval:
    """The arguments of an interval, and its first time and length as nodes."""

    def __init__(self, s: Symbols) -> None:
        problem, g = s.problem, s.graph
        self.x, self.u = s.pair("x", problem.model.states), s.pair("u", problem.unknown_inputs)
        self.s = s.pair("s", problem.signals)
        p, duration, k = s.parameters()
        step, time = s.group("h", ["step"]), s.group("t", ["time"])
        measured = {n: e for n, e in problem.measurements.items() if _on_interval(problem, e)}
        self.measured = list(measured.values())
        y, w = s.group("y", list(measured)), s.group("w", list(measured))
        self.h, self.t0 = s.nodes(step)[0], s.nodes(time)[0]
        if problem.free_duration:
            T = s.nodes(duration)[0]
            self.h, self.t0 = g.mul(T, self.h), g.mul(T, self.t0)
        self.variables = (*self.x, *self.u, p, duration)
        self.data = (k, *self.s, step, time, y, w)
        self.parameters = [*s.nodes(p), *s.nodes(duration)]


def _stage_interval(scheme: StageScheme, s: Symbols, groups: _Interval) -> Family:
    """Everything at the one collocation point of the interval."""
    problem, g = s.problem, s.graph
    model, h = problem.model, groups.h
    outer_x, inner_x = _mixed(s, "x", *groups.x, scheme.state)
    outer_u, inner_u = _mixed(s, "u", *groups.u, scheme.state, problem.held)
    _, signals = _mixed(s, "s", *groups.s, scheme.state, problem.held)
    outer_xd = g.symbols(f"xdot.{name}" for name in model.state_names)
    difference = _mixed(s, "d", *groups.x, scheme.derivative)[1]
    inner_xd = [g.mul(d, g.inv(h)) for d in difference]
    outer_t, outer_h = g.symbols(["stage.t", "stage.h"])
    stage_time = g.add(groups.t0, g.mul(g.const(scheme.time), h))

    lower = s.lowering(outer_x, outer_u, signals, outer_t, outer_xd)
    terms = []
    if _integrates_on_intervals(problem):
        terms.append(g.mul(outer_h, lower(problem.objective.integrand)))
    y, w = (s.nodes(group) for group in groups.data[-2:])
    return Family(
        name="interval",
        graph=g,
        variables=groups.variables,
        data=groups.data,
        outer=[*outer_xd, *outer_x, *outer_u, outer_t, outer_h, *groups.parameters],
        inner=[*inner_xd, *inner_x, *inner_u, stage_time, h, *groups.parameters],
        cost=g.sum(terms),
        constraints=[lower(e) for e in model.equations],
        labels=[_equation_label(problem, number) for number in range(len(model.equations))],
        outputs={n: lower(e) for n, e in model.outputs.items() if _on_interval(problem, e)},
        squares=_squares(problem, lower, groups.measured, y, w),
    )


def _node_interval(scheme: NodeScheme, s: Symbols, groups: _Interval) -> Family:
    """Defects from the explicit derivatives at the two nodes."""
    problem, g = s.problem, s.graph
    t0, t1, h = g.symbols(["stage.t0", "stage.t1", "stage.h"])
    x0, x1 = (s.nodes(group) for group in groups.x)
    at0 = (x0, s.nodes(groups.u[0]), s.nodes(groups.s[0]), t0)
    at1 = (x1, _held(s, *groups.u), _held(s, *groups.s), t1)
    integrates = _integrates_on_intervals(problem)
    moves = integrates and _moves(problem, problem.objective.integrand)
    needs = moves or scheme.rates is not None
    rates = [s.explicit(*at) if needs else [] for at in (at0, at1)]
    constraints = []
    if scheme.rates is not None:
        b0, b1 = (g.const(b) for b in scheme.rates)
        for a, b, f0, f1 in zip(x0, x1, *rates, strict=True):
            slope = g.add(g.mul(b0, f0), g.mul(b1, f1))
            constraints.append(g.sub(g.mul(g.sub(b, a), g.inv(h)), slope))
    cost = g.zero
    if integrates:
        ends = [
            s.lowering(*at, f)(problem.objective.integrand)
            for at, f in zip((at0, at1), rates, strict=True)
        ]
        weights = [g.mul(h, g.const(w)) for w in scheme.quadrature]
        cost = g.sum([g.mul(w, end) for w, end in zip(weights, ends, strict=True)])
    own = [*x0, *x1, *s.nodes(groups.u[0]), *s.nodes(groups.u[1]), *groups.parameters]
    return Family(
        name="interval",
        graph=g,
        variables=groups.variables,
        data=groups.data,
        outer=[*own, t0, t1, h],
        inner=[*own, groups.t0, g.add(groups.t0, groups.h), groups.h],
        cost=cost,
        constraints=constraints,
        labels=[f"defect of {x}" for x in problem.model.state_names[: len(constraints)]],
    )


def _held(s: Symbols, left: Argument, right: Argument) -> list[int]:
    """The values at the right node; those of the left where held."""
    pairs = zip(left.symbols, right.symbols, strict=True)
    return s.graph.symbols(a if a.split(".", 1)[1] in s.problem.held else b for a, b in pairs)


def _mixed(
    s: Symbols,
    name: str,
    left: Argument,
    right: Argument,
    weights: tuple[float, float],
    hold: frozenset[str] = frozenset(),
) -> tuple[list[int], list[int]]:
    """Stage symbols and their expressions w_0 left + w_1 right; the left value where held."""
    g = s.graph
    symbols, values = [], []
    for a, b in zip(left.symbols, right.symbols, strict=True):
        member = a.split(".", 1)[1]
        w0, w1 = (1.0, 0.0) if member in hold else weights
        symbols.append(g.symbol(f"stage.{name}.{member}"))
        if w0 == w1:
            values.append(g.mul(g.const(w0), g.add(g.symbol(a), g.symbol(b))))
        else:
            values.append(g.add(g.mul(g.const(w0), g.symbol(a)), g.mul(g.const(w1), g.symbol(b))))
    return symbols, values


def _equation_label(problem: Problem, number: int) -> str:
    """`equation 3 (omega_a')`: its number and the derivative it is about."""
    model = problem.model
    equation = model.equations[number]
    about = [
        f"{name}'"
        for name, rate in zip(model.state_names, model.derivatives, strict=True)
        if equation.has(rate)
    ]
    return f"equation {number} ({', '.join(about[:2])})" if about else f"equation {number}"


def _node(problem: Problem) -> Family:
    """Cost terms and path conditions at one node."""
    model = problem.model
    s = Symbols(problem)
    g = s.graph
    x, u = s.group("x", model.states), s.group("u", problem.unknown_inputs)
    signals = s.group("s", problem.signals)
    weight, time = s.group("q", ["weight"]), s.group("t", ["time"])
    p, duration, k = s.parameters()
    chosen = {n: e for n, e in problem.measurements.items() if not _on_interval(problem, e)}
    y, w = s.group("y", list(chosen)), s.group("w", list(chosen))
    q, now = s.nodes(weight)[0], s.nodes(time)[0]
    if problem.free_duration:
        q, now = (g.mul(s.nodes(duration)[0], node) for node in (q, now))
    outer_q, outer_t = g.symbols(["stage.q", "stage.t"])

    at = (s.nodes(x), s.nodes(u), s.nodes(signals), outer_t)
    integrand = problem.objective.integrand
    wanted = [integrand, *chosen.values(), *model.outputs.values(), *problem.path]
    with_rates = isinstance(problem.scheme, NodeScheme) and any(_moves(problem, e) for e in wanted)
    lower = s.lowering(*at, s.explicit(*at) if with_rates else ())
    contacts = contact_rows(s, at) if problem.contacts else {}
    terms = []
    if not _integrates_on_intervals(problem):
        terms.append(g.mul(outer_q, g.counted(outer_q, lower(integrand))))
    own = [*s.nodes(x), *s.nodes(u), *s.nodes(p), *s.nodes(duration)]
    return Family(
        name="node",
        graph=g,
        variables=(x, u, p, duration),
        data=(k, signals, weight, time, y, w),
        outer=[*own, outer_t, outer_q],
        inner=[*own, now, q],
        cost=g.sum(terms),
        constraints=[*contacts.values(), *(lower(e) for e in problem.path)],
        labels=[*contacts, *(f"path condition {number}" for number in range(len(problem.path)))],
        outputs={n: lower(e) for n, e in model.outputs.items() if not _on_interval(problem, e)},
        squares=_squares(problem, lower, list(chosen.values()), s.nodes(y), s.nodes(w)),
    )


def _ends(problem: Problem) -> Family:
    """Terminal cost and boundary conditions, functions of the first and the last node."""
    points = TwoPoints(problem, last=1)
    s = points.symbols
    first, last = s.lowering(*points.at(0)), s.lowering(*points.at(1))
    speeds = contacts_at(s, points.at(0))[0].speeds if problem.contacts else []
    rows = {f"contact speed {row} at the start": node for row, node in enumerate(speeds)}
    cost = last(problem.objective.terminal)
    for number, condition in enumerate(problem.boundary):
        rows[f"boundary condition {number}"] = boundary(condition, s, first, last)
    return points.family("ends", cost, rows)
