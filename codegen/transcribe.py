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

from collections.abc import Iterable, Sequence

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
from kinesym.codegen.evaluate import equation_label
from kinesym.codegen.family import Ends, Family, Points
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.phases import contact_rows, contacts_at, link_family
from kinesym.symbolic.declared import atoms_of
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
    scheme = problem.scheme
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
        "node_measurements": list(_sampled(problem, between=False)),
        "interval_measurements": list(_sampled(problem, between=True)),
        "free_duration": problem.free_duration,
    }


# -- derivatives of a family ----------------------------------------------------------------


def _derivatives(family: Family, curvature: str) -> tuple[list[Kernel], dict[str, object]]:
    """The kernels of a family and the sparsity of its derivatives, in local variables."""
    g, objective = family.graph, family.objective
    has_cost, constraints = objective != g.zero, list(family.rows.values())
    structure: dict[str, object] = {
        "variables": [[a.name, len(a.symbols)] for a in family.variables],
        "constraints": list(family.rows),
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
        kernels.append(_kernel(family, "constraints", constraints, [*family.rows]))
        entries = compose_jacobian(g, jacobian(g, constraints, family.outer), inner)
        structure["jacobian"] = pattern_of(entries)
        names = list(family.rows)
        labels = [f"d {names[i]} / d {_variable(family, j)}" for i, j in entries]
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
    symbols = tuple(f"multipliers.{k}" for k in range(len(family.rows)))
    multipliers = Argument("multipliers", symbols)
    if curvature == "exact":
        weights = [g.symbol("factor"), *g.symbols(symbols)]
        outputs = [family.objective, *family.rows.values()]
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


def _sampled(problem: Problem, between: bool) -> dict[str, sp.Expr]:
    """What is measured at the nodes, or `between` them, by name."""
    every = problem.measurements.items()
    return {name: e for name, e in every if _on_interval(problem, e) == between}


def _integrates_on_intervals(problem: Problem) -> bool:
    """Whether the integrand contains x' or a held signal, which have no values at the nodes."""
    integrand = problem.objective.integrand
    behind = atoms_of(*problem.model.through([integrand]))
    held = {name_of(f) for f in behind if isinstance(f, AppliedUndef)} & problem.held
    jumps = bool(problem.held) and _moves(problem, integrand)
    return bool(held) or jumps or _on_interval(problem, integrand)


def _squares(
    s: Points,
    lower: Lowering,
    expressions: Iterable[sp.Expr],
    y: Sequence[int],
    w: Sequence[int],
) -> list[tuple[int, int]]:
    """Weight and residual, expression - y, of each measurement, if the objective has them."""
    g, factor = s.graph, s.problem.objective.least_squares
    return [
        (g.mul(g.const(factor), weight), g.counted(weight, g.sub(lower(expression), measured)))
        for expression, measured, weight in zip(expressions, y, w, strict=True)
        if factor
    ]


def interval_family(problem: Problem) -> Family:
    """Defects of the scheme, and cost terms that belong to intervals."""
    s, measured = Points(problem), _sampled(problem, between=True)
    step, time = s.group("h", ["step"]), s.group("t", ["time"])
    data = (s.k, *s.s, step, time, s.group("y", measured), s.group("w", measured))
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

    lower = s.lowering(outer_x, outer_u, signals, outer_t, outer_xd)
    cost = g.zero
    if _integrates_on_intervals(problem):
        cost = g.mul(outer_h, lower(problem.objective.integrand))
    y, w = (s.nodes(group) for group in data[-2:])
    rows = {equation_label(model, k): lower(e) for k, e in enumerate(model.equations)}
    return Family(
        name="interval",
        graph=g,
        variables=s.variables,
        data=data,
        outer=[*outer_xd, *outer_x, *outer_u, outer_t, outer_h, *parameters],
        inner=[*inner_xd, *inner_x, *inner_u, stage_time, h, *parameters],
        cost=cost,
        rows=rows,
        outputs={n: lower(e) for n, e in model.outputs.items() if _on_interval(problem, e)},
        squares=_squares(s, lower, _sampled(problem, between=True).values(), y, w),
    )


def _node_interval(
    scheme: NodeScheme, s: Points, data: tuple[Argument, ...], h: int, t0: int
) -> Family:
    """Defects from the explicit derivatives at the two nodes."""
    problem, g = s.problem, s.graph
    parameters = s.nodes(s.p, s.T)
    stage_t0, stage_t1, stage_h = g.symbols(["stage.t0", "stage.t1", "stage.h"])
    x0, x1 = map(s.nodes, s.x)
    ends = (s.at(0, stage_t0), (x1, _held(s, *s.u), _held(s, *s.s), stage_t1))
    integrand, integrates = problem.objective.integrand, _integrates_on_intervals(problem)
    needs = scheme.rates is not None or (integrates and _moves(problem, integrand))
    rates = [s.explicit(*at) if needs else [] for at in ends]
    rows: dict[str, int] = {}
    if scheme.rates is not None:
        b0, b1 = (g.const(b) for b in scheme.rates)
        for name, a, b, f0, f1 in zip(problem.model.state_names, x0, x1, *rates, strict=True):
            slope = g.add(g.mul(b0, f0), g.mul(b1, f1))
            rows[f"defect of {name}"] = g.sub(g.mul(g.sub(b, a), g.inv(stage_h)), slope)
    cost = g.zero
    if integrates:
        values = [s.lowering(*at, f)(integrand) for at, f in zip(ends, rates, strict=True)]
        weights = [g.mul(stage_h, g.const(w)) for w in scheme.quadrature]
        cost = g.sum([g.mul(w, value) for w, value in zip(weights, values, strict=True)])
    own = [*x0, *x1, *s.nodes(*s.u), *parameters]
    outer = [*own, stage_t0, stage_t1, stage_h]
    inner = [*own, t0, g.add(t0, h), h]
    return Family("interval", g, s.variables, data, outer, inner, cost, rows)


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


def _node(problem: Problem) -> Family:
    """Cost terms and path conditions at one node."""
    model, measured = problem.model, _sampled(problem, between=False)
    s = Points(problem, suffixes=("",))
    g = s.graph
    weight, time = s.group("q", ["weight"]), s.group("t", ["time"])
    y, w = s.group("y", measured), s.group("w", measured)
    q, now = s.of_duration(weight, time)
    outer_q, outer_t = g.symbols(["stage.q", "stage.t"])

    at = s.at(0, outer_t)
    integrand = problem.objective.integrand
    wanted = [integrand, *measured.values(), *model.outputs.values(), *problem.path]
    with_rates = isinstance(problem.scheme, NodeScheme) and any(_moves(problem, e) for e in wanted)
    lower = s.lowering(*at, s.explicit(*at) if with_rates else ())
    rows = contact_rows(s, at) if problem.contacts else {}
    cost = g.zero
    if not _integrates_on_intervals(problem):
        cost = g.mul(outer_q, g.counted(outer_q, lower(integrand)))
    own = s.nodes(*s.variables)
    rows |= {f"path condition {k}": lower(e) for k, e in enumerate(problem.path)}
    return Family(
        name="node",
        graph=g,
        variables=s.variables,
        data=(s.k, *s.s, weight, time, y, w),
        outer=[*own, outer_t, outer_q],
        inner=[*own, now, q],
        cost=cost,
        rows=rows,
        outputs={n: lower(e) for n, e in model.outputs.items() if not _on_interval(problem, e)},
        squares=_squares(s, lower, measured.values(), s.nodes(y), s.nodes(w)),
    )


def _ends(problem: Problem) -> Family:
    """Terminal cost and boundary conditions, functions of the first and the last node."""
    s = Ends(problem, last=1)
    first, last = (s.lowering(*s.end(k)) for k in (0, 1))
    speeds = contacts_at(s, s.end(0))[0].speeds if problem.contacts else []
    rows = {f"contact speed {row} at the start": node for row, node in enumerate(speeds)}
    cost = last(problem.objective.terminal)
    for number, condition in enumerate(problem.boundary):
        rows[f"boundary condition {number}"] = s.boundary(condition, first, last)
    return s.family("ends", cost, rows)
