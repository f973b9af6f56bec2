"""A model becomes the kernels of time stepping; the loops are in `runtime/native/c/include`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy as sp

from kinesym.codegen.derive import Sparse, compose_jacobian, jacobian, pattern_of
from kinesym.codegen.evaluate import (
    ModelSymbols,
    describe_model,
    equation_label,
    model_symbols,
    rhs_kernel,
)
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.solve import NotExplicit, linearised_rates
from kinesym.codegen.transcribe import interval_family
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem, moving_symbols
from kinesym.symbolic.schemes import EXPLICIT, CollocationScheme, Scheme


def stepper(model: Model, scheme: Scheme | CollocationScheme | None, varying: bool) -> Program:
    """What a simulation needs: explicit derivatives, or the equations of an implicit `scheme`.

    varying : whether parameters differ between the members of an ensemble.
    Raises `ValueError` if the method is explicit (no scheme) and x' cannot be solved for.
    """
    s = model_symbols(model, varying)
    kernels, pattern = [*_rhs(model, s, required=scheme is None), *_outputs(model, s)], Sparse()
    if isinstance(scheme, CollocationScheme):
        made, pattern = _equations(model, s)
        kernels.extend(made)
    elif scheme is not None:
        made, pattern = _implicit(model, scheme, varying)
        kernels.extend(made)
    about = _description(
        model,
        scheme,
        pattern,
        outputs=list(model.outputs),
        limits=list(model.moving_limits),
        varying=varying,
    )
    name = f"{model.name}_{scheme.name if scheme else 'explicit'}".replace("-", "_")
    return Program(name, tuple(kernels), {"stepping": about})


def _description(
    model: Model, scheme: Scheme | CollocationScheme | None, pattern: Sparse, **more: object
) -> dict[str, object]:
    """Names for the runtime, the numbers of methods, and the places of the entries of the
    derivatives."""
    methods: dict[str, dict[str, object]] = {}
    if scheme is None:
        methods = {method.name: method.tableau for method in EXPLICIT.values()}
    elif isinstance(scheme, CollocationScheme):
        methods[scheme.name] = {**scheme.tableau, "error": list(scheme.first_rates)}
    return {
        **describe_model(model),
        "methods": methods,
        "outputs": [],
        "limits": [],
        "varying": False,
        "solution": [],
        "outputs_need_rates": any(
            output.atoms(sp.Symbol, sp.Derivative) & moving_symbols(model)
            for output in (*model.outputs.values(), *model.moving_limits.values())
        ),
        "pattern": pattern_of(pattern),
        **more,
    }


def shooting_kernels(
    model: Model, scheme: Scheme | None, inputs: Sequence[sp.Basic], parameters: Sequence[sp.Symbol]
) -> tuple[list[Kernel], dict[str, object]]:
    """Kernels that step along a trajectory and differentiate its steps.

    An implicit scheme is differentiated by the kernels of its collocation; explicit steps by the
    kernel `tangent`: x', then what its derivatives with respect to states, `inputs` and
    `parameters` follow from, see `codegen.solve.Linearised`.
    """
    s = model_symbols(model)
    kernels = _rhs(model, s, required=scheme is None)
    if scheme is not None:
        made, pattern = _implicit(model, scheme, varying=False)
        return [*kernels, *made], _description(model, scheme, pattern)
    g, lower = s.graph, s.lower
    chosen = [*s.nodes(s.x), *(lower(u) for u in inputs), *(lower(p) for p in parameters)]
    residual = [lower(e) for e in model.equations]
    found = linearised_rates(g, residual, s.nodes(s.xdot), model.state_names, chosen)
    names = [*model.state_names, *map(name_of, inputs), *map(name_of, parameters)]
    n = len(model.states)  # entries in columns of states come first
    order = sorted(found.side, key=lambda key: (key[1] >= n, key))
    pattern = {key: found.side[key] for key in order}
    labels = [f"{x}'" for x in model.state_names]
    labels += [f"-d equation of {model.state_names[i]}' / d {names[j]}" for i, j in pattern]
    labels += [
        f"solution, {model.state_names[i]} from {model.state_names[j]}" for i, j, _ in found.steps
    ]
    outputs = (*found.rates, *pattern.values(), *(node for _, _, node in found.steps))
    tangent = Kernel(
        "tangent",
        g,
        s.arguments,
        outputs,
        tuple(labels),
        "x' = f(x, u, p, t) = M^-1 side, the derivatives of the side, and M^-1 in steps",
    )
    solution = [[i, j] for i, j, _ in found.steps]
    return [*kernels, tangent], _description(model, scheme, pattern, solution=solution)


def _rhs(model: Model, s: ModelSymbols, required: bool) -> list[Kernel]:
    try:
        return [rhs_kernel(model, s)]
    except NotExplicit as error:
        if required:
            raise ValueError(
                f"model {model.name} has no explicit derivatives: {error}; use an implicit method, "
                "for example radau-5"
            ) from error
        return []


def _outputs(model: Model, s: ModelSymbols) -> list[Kernel]:
    """Outputs, then the limits that change along a trajectory."""
    labels = (*model.outputs, *model.moving_limits)
    if not labels:
        return []
    values = tuple(map(s.lower, (*model.outputs.values(), *model.moving_limits.values())))
    arguments = (s.xdot, *s.arguments)
    return [Kernel("outputs", s.graph, arguments, values, labels, "y = g(x', x, u, p, t)")]


def _equations(model: Model, s: ModelSymbols) -> tuple[list[Kernel], Sparse]:
    """The equations at one point, and their derivatives with respect to x', then x."""
    g, arguments = s.graph, (s.xdot, *s.arguments)
    residual = [s.lower(e) for e in model.equations]
    entries = jacobian(g, residual, [*s.nodes(s.xdot), *s.nodes(s.x)])
    labels = tuple(equation_label(model, k) for k in range(len(residual)))
    names = [*(f"{x}'" for x in model.state_names), *model.state_names]
    slopes = tuple(f"d {labels[i]} / d {names[j]}" for i, j in entries)
    return [
        Kernel("residual", g, arguments, tuple(residual), labels, "0 = f(x', x, u, p, t)"),
        Kernel(
            "slopes",
            g,
            arguments,
            tuple(entries.values()),
            slopes,
            "derivatives of the equations with respect to x' and x",
        ),
    ], entries


def _implicit(model: Model, scheme: Scheme, varying: bool) -> tuple[list[Kernel], Sparse]:
    """The defects of collocation on one interval with all inputs given, and d defect / d x1."""
    family = interval_family(
        Problem(model, scheme, Objective(), unknown_parameters=(), unknown_inputs=model.inputs)
    )
    g = family.graph
    groups: Mapping[str, Argument] = {a.name: a for a in (*family.variables, *family.data)}
    arguments = tuple(
        replace(groups[name], varying=varying if name == "k" else True)
        for name in ("x0", "x1", "u0", "u1", "k", "t", "h")
    )
    after, defects = g.symbols(groups["x1"].symbols), list(family.rows.values())
    entries = compose_jacobian(
        g, jacobian(g, defects, family.outer), jacobian(g, family.inner, after)
    )
    known = {v: e for v, e in zip(family.outer, family.inner, strict=True) if v != e}
    labels = tuple(family.rows)
    names = tuple(f"d {labels[i]} / d {model.state_names[j]}" for i, j in entries)
    purpose = f"defects of {scheme.name} on one step"
    slopes = f"{purpose}, their derivatives with respect to its end"
    defects = g.substitute(defects, known)
    newton = tuple(g.substitute(list(entries.values()), known))
    return [
        Kernel("defect", g, arguments, tuple(defects), labels, purpose),
        Kernel("newton", g, arguments, newton, names, slopes),
    ], entries
