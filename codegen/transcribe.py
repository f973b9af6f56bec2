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

from kinesym.base.memory import without_collection
from kinesym.codegen.derive import (
    Sparse,
    compose_hessian,
    compose_jacobian,
    hessian,
    jacobian,
    pattern_of,
    pullback,
    summed,
)
from kinesym.codegen.family import (
    Ends,
    Family,
    Label,
    Points,
    condition_label,
    integrates_on_intervals,
    squares_of,
)
from kinesym.codegen.interval_symbols import measured_places
from kinesym.codegen.intervals import collocation_family
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.phases import contact_rows, contacts_at, link_family
from kinesym.codegen.priors import squares_of_priors
from kinesym.codegen.slots import signal_places, signals_of_slots
from kinesym.codegen.steps import costs_of_steps
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import at_end, at_start, of_both_ends
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme, ExplicitScheme


@without_collection()
def transcribe(problem: Problem, curvature: str = "exact") -> Program:
    """Program of the nonlinear program of `problem`: its kernels, and the description of its
    structure.

    curvature : "exact", the Hessian is that of the Lagrangian; "gauss-newton", J' W J of residuals
    that are squared, and what else the objective contains; constraints count as linear.
    """
    kernels: list[Kernel] = []
    description: dict[str, object] = {}
    for family in _families(problem):
        made, structure = _derivatives(family, curvature)
        kernels.extend(made)
        description[family.name] = structure
    return _program(problem, "", kernels, description)


def _program(
    problem: Problem, suffix: str, kernels: list[Kernel], families: dict[str, object]
) -> Program:
    """Program of kernels of families with these descriptions; suffix : of its name."""
    return Program(
        name=f"{problem.model.name}_{problem.scheme.name}{suffix}".replace("-", "_"),
        kernels=tuple(kernels),
        description={"collocation": {**_description(problem), "families": families}},
        tables=problem.tables.values,
    )


def _families(problem: Problem) -> list[Family]:
    return [
        _interval(problem),
        _node(problem),
        _ends(problem),
        link_family(problem, "link"),
        link_family(problem, "cycle"),
    ]


def output_slopes(problem: Problem) -> Program:
    """Derivatives of the outputs at nodes and intervals, in the local variables of `transcribe`."""
    kernels, description = list[Kernel](), dict[str, object]()
    for family in (_interval(problem), _node(problem)):
        g, structure = family.graph, _structure(family)
        outer = jacobian(g, [*family.outputs.values()], family.outer)
        entries = compose_jacobian(g, outer, jacobian(g, family.inner, family.z))
        structure["slopes"] = pattern_of(entries)
        description[family.name] = structure
        outputs, names = list(family.outputs), _variables(family)
        labels = [f"d {outputs[i]} / d {names[j]}" for i, j in entries]
        if entries:
            kernels.append(_kernel(family, "output_slopes", list(entries.values()), labels))
    return _program(problem, "_outputs", kernels, description)


def _description(problem: Problem) -> dict[str, object]:
    scheme = problem.scheme
    return {
        "model": problem.model.name,
        "scheme": scheme.name,
        **_places(scheme),
        "states": list(problem.model.state_names),
        "arrays": [
            {"name": name, "members": list(map(name_of, members))}
            | ({} if place is None else {"place": place})
            for name, members, place in problem.arrays
        ],
        "unknown_inputs": [name_of(u) for u in problem.unknown_inputs],
        "held": sorted(problem.held),
        "linear": sorted(problem.linear),
        "unknown_parameters": [name_of(p) for p in problem.unknown_parameters],
        "known_parameters": [name_of(p) for p in problem.known_parameters],
        "signals": [name_of(s) for s in problem.signals],
        "node_measurements": list(problem.sampled(between=False)),
        "interval_measurements": list(problem.sampled(between=True)),
        "free_duration": problem.free_duration,
        **_special(problem),
    }


def _special(problem: Problem) -> dict[str, object]:
    """Description of unknown parameters and measurements that need more than names: times, owners,
    logarithmic scales, priors; only entries that are not empty."""
    timed = [
        {"name": name, "slots": problem.slots[name], "signals": signals_of_slots(problem, name)}
        | ({"delay": name_of(problem.delays[name])} if name in problem.delays else {})
        | ({"spread": True} if name in problem.spreads else {})
        for name in problem.timed
    ]
    found = {
        "timed": timed,
        "owners": [list(pair) for pair in problem.owners.items()],
        "log_scale": sorted(problem.log_scale),
        "priors": list(problem.priors),
    }
    return {what: value for what, value in found.items() if value}


def _places(scheme: CollocationScheme | ExplicitScheme) -> dict[str, object]:
    """Places in an interval: of stages, with the weights that continue what they have to both ends;
    of signals; of measurements. And the weights of both nodes in integrals over nodes."""
    if isinstance(scheme, CollocationScheme):
        at_nodes = scheme.explicit_start
        return {
            "stages": list(scheme.nodes),
            "to_ends": scheme.inputs((0.0, 1.0)).tolist(),
            "signal_places": list(signal_places(scheme)),
            "measured_places": list(map(list, measured_places(scheme))),
            "quadrature": [scheme.weights[0], scheme.weights[-1]] if at_nodes else [0.0, 0.0],
        }
    return {
        "stages": [0.5],
        "to_ends": [[1.0], [1.0]],
        "signal_places": [],
        "measured_places": [],
        "quadrature": [0.5, 0.5],
    }


# -- derivatives of a family ----------------------------------------------------------------


def residual_program(problem: Problem) -> Program:
    """The residuals of the measurements with their weights, and their derivatives: kernels
    `residuals` and `residual_jacobian` of the families, and the description of these."""
    kernels: list[Kernel] = []
    description: dict[str, object] = {}
    for family in _families(problem):
        made, structure = _residuals(family)
        kernels.extend(made)
        description[family.name] = {**_structure(family), **structure}
    return _program(problem, "_residuals", kernels, description)


def _residuals(family: Family) -> tuple[list[Kernel], dict[str, object]]:
    """The kernels of the squares of a family: all residuals, then their weights, and derivatives
    of residuals in local variables; and what the squares are about, and the sparsity."""
    g, squares = family.graph, family.squares
    if not squares:
        return [], {}
    names = [square.label for square in squares]
    labels = [*(f"residual of {n}" for n in names), *(f"weight of {n}" for n in names)]
    values = _kernel(
        family, "residuals", [*(s.residual for s in squares), *(s.weight for s in squares)], labels
    )
    inner = jacobian(g, family.inner, family.z)
    outer = _slopes(family, [square.slope(g) for square in squares])
    entries = compose_jacobian(g, outer, inner)
    z = _variables(family)
    labels = [f"d residual of {names[i]} / d {z[j]}" for i, j in entries]
    slopes = _kernel(family, "residual_jacobian", list(entries.values()), labels)
    about = {
        "squares": names,
        "shares": [square.share for square in squares],
        "samples": [square.samples for square in squares],
        "residual_jacobian": pattern_of(entries),
    }
    return [values, slopes], about


def _structure(family: Family) -> dict[str, object]:
    """Groups of local variables, constraints, and names of outputs, of several stages once."""
    groups = family.groups
    return {
        "variables": [[v.argument.name, len(v.argument.symbols), v.array, v.side] for v in groups],
        "constraints": [{k: v for k, v in vars(row).items() if v} for row in family.rows],
        "outputs": list(dict.fromkeys(row.name for row in family.outputs)),
    }


def _derivatives(family: Family, curvature: str) -> tuple[list[Kernel], dict[str, object]]:
    """The kernels of a family and the sparsity of its derivatives, in local variables."""
    g, objective = family.graph, family.objective
    has_cost, constraints = objective != g.zero, list(family.rows.values())
    structure, names = _structure(family), _variables(family)
    kernels = []
    if family.outputs:
        labels = list(map(str, family.outputs))
        kernels.append(_kernel(family, "outputs", list(family.outputs.values()), labels))
    if family.timed:
        labels = [f"slot {k}" for k, _ in enumerate(family.timed)]
        kernels.append(_kernel(family, "timed", list(family.timed), labels))
    if not has_cost and not constraints:
        return kernels, structure
    inner = jacobian(g, family.inner, family.z)
    if has_cost:
        kernels.append(_kernel(family, "cost", [objective], ["cost"]))
        bars = pullback(g, [objective], [g.one], family.outer)
        outer: Sparse = {(0, v): bar for v, bar in enumerate(bars) if bar != g.zero}
        entries = compose_jacobian(g, outer, inner)
        structure["gradient"] = [j for _, j in entries]
        labels = [f"d cost / d {names[j]}" for _, j in entries]
        kernels.append(_kernel(family, "gradient", list(entries.values()), labels))
    if constraints:
        rows = list(map(str, family.rows))
        kernels.append(_kernel(family, "constraints", constraints, rows))
        entries = compose_jacobian(g, jacobian(g, constraints, family.outer), inner)
        structure["jacobian"] = pattern_of(entries)
        labels = [f"d {rows[i]} / d {names[j]}" for i, j in entries]
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
    names = _variables(family)
    labels = [f"d2 L / d {names[i]} d {names[j]}" for i, j in entries]
    weighted = (factor, multipliers)
    kernel = _kernel(family, "hessian", list(entries.values()), labels, weighted)
    return kernel, pattern_of(entries)


def _with_squares(family: Family, second: Sparse) -> Sparse:
    """Adds 2 w r_a r_b of the squares, where r_a are first derivatives of a residual."""
    g = family.graph
    terms = {key: [node] for key, node in second.items()}
    roots = [square.root(g) for square in family.squares]
    slopes = _slopes(family, [(moving, pace) for _, moving, pace in roots])
    twice = g.mul(g.const(2.0), g.symbol("factor"))
    for (row, a), left in slopes.items():
        weight = g.mul(twice, roots[row][0])
        for (other, b), right in slopes.items():
            if other == row and a <= b:
                terms.setdefault((a, b), []).append(g.mul(weight, g.mul(left, right)))
    return summed(g, terms)


def _slopes(family: Family, rows: Sequence[tuple[int, int]]) -> Sparse:
    """Derivatives of what moves, times its pace."""
    g = family.graph
    found = jacobian(g, [moving for moving, _ in rows], family.outer)
    return {(row, v): g.mul(rows[row][1], node) for (row, v), node in found.items()}


def _variables(family: Family) -> list[str]:
    return [s for group in family.variables for s in group.symbols]


_PURPOSES = {
    "outputs": "outputs of the model",
    "timed": "what the model has where measurements have times of their own",
    "residuals": "modelled - measured, and weights",
    "residual_jacobian": "derivatives of the residuals that are not identically zero",
    "output_slopes": "derivatives of the outputs that are not identically zero",
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
        arguments=tuple(a for a in (*family.variables, *family.data, *more) if a.count),
        outputs=tuple(g.substitute(outputs, replacement)),
        labels=tuple(labels),
        purpose=_PURPOSES[what],
    )


# -- the families ----------------------------------------------------------------------------


def _interval(problem: Problem) -> Family:
    scheme = problem.scheme
    if isinstance(scheme, CollocationScheme):
        return collocation_family(problem, scheme)
    return costs_of_steps(problem)


def _node(problem: Problem) -> Family:
    """Cost terms and path conditions at one node."""
    model, measured = problem.model, problem.sampled(between=False)
    s = Points(problem, suffixes=("",))
    g = s.graph
    weight, time = s.group("q", ["weight"]), s.group("t", ["time"])
    y, w = s.group("y", measured), s.group("w", measured)
    q, now = s.of_duration(weight, time)
    outer_q, outer_t = g.symbols(["stage.q", "stage.t"])

    at = s.at(0, outer_t)
    integrand = problem.objective.integrand
    path = [problem.path[k] for k in problem.path_at_nodes]
    outputs = {n: e for n, e in model.outputs.items() if not problem.on_interval(e)}
    wanted = [*measured.values(), *outputs.values(), *path]
    wanted += [e for name in measured for e in problem.behind(name)[1:]]
    at_nodes = not integrates_on_intervals(problem)
    needs = any(problem.moves(e) for e in (*wanted, *([integrand] if at_nodes else ())))
    at, rates = s.determined(at, needs)
    lower = s.lowering(at, rates)
    rows = contact_rows(s, at) if problem.contacts and not problem.staged else {}
    cost = g.zero
    if at_nodes:
        cost = g.mul(outer_q, g.counted(outer_q, lower(integrand)))
    for k in problem.path_at_nodes:
        row = condition_label("path", k, problem.path[k], problem.model)
        rows[row] = lower(problem.path[k])
    return Family(
        name="node",
        graph=g,
        groups=s.groups,
        data=(s.k, *s.s, weight, time, y, w),
        outer=[*s.own, *s.scaled, outer_t, outer_q],
        inner=[*s.own, *s.scaled.values(), now, q],
        cost=cost,
        rows=rows,
        outputs={Label(n): lower(e) for n, e in outputs.items()},
        squares=squares_of(s, lower, measured, s.nodes(y), s.nodes(w)),
    )


def _ends(problem: Problem) -> Family:
    """Terminal cost, priors, and boundary conditions, functions of the first and the last node."""
    s = Ends(problem, last=1)
    first, last = (s.lowering(s.end(k)) for k in (0, 1))
    speeds = contacts_at(s, s.end(0))[0].speeds if problem.contacts else []
    rows = {Label(f"contact speed {row} at the start"): node for row, node in enumerate(speeds)}
    cost = problem.objective.terminal
    both = cost.has(at_start, at_end)
    paid = s.boundary(of_both_ends(cost), first, last) if both else last(cost)
    for number, condition in enumerate(problem.boundary):
        row = condition_label("boundary", number, condition, problem.model)
        rows[row] = s.boundary(condition, first, last)
    squares, more = squares_of_priors(s)
    return s.family("ends", paid, rows, squares, more)
