"""A model becomes the kernels of time stepping; the loops are in `runtime/native/c/include`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp

from kinesym.codegen.derive import Sparse, jacobian, pattern_of, with_kinks, with_smooth_kinks
from kinesym.codegen.evaluate import (
    ModelSymbols,
    describe_model,
    equation_label,
    model_symbols,
    rhs_kernel,
)
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.solve import NotExplicit, linearised_rates
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.problem import Problem, moving_symbols
from kinesym.symbolic.schemes import ADAPTIVE, EXPLICIT, CollocationScheme
from kinesym.symbolic.structure import random_jacobian, rank, signature


def stepper(model: Model, scheme: CollocationScheme | None, varying: bool) -> Program:
    """Program of a simulation: explicit derivatives, or the equations that an implicit `scheme`
    solves.

    varying : whether parameters differ between the members of an ensemble.
    Raises `ValueError` if the method is explicit (no scheme) and x' cannot be solved for, or if
    outputs contain x' that the equations do not tell at one time.
    """
    s = model_symbols(model, varying)
    kernels = [*_rhs(model, s, required=scheme is None), *_outputs(model, s), *_delays(model, s)]
    pattern = Sparse()
    if scheme is not None:
        made, pattern = _equations(model, s)
        kernels.extend(made)
    if not any(kernel.name == "rhs" for kernel in kernels):
        _check_rates(model)
    about = _description(
        model,
        _tableaus(scheme, adaptive=True),
        pattern,
        outputs=list(model.outputs),
        limits=list(model.moving_limits),
        varying=varying,
        index=_index(model, scheme),
    )
    name = f"{model.name}_{'implicit' if scheme else 'explicit'}".replace("-", "_")
    return Program(name, tuple(kernels), {"stepping": about}, model.tables.values)


def _tableaus(scheme: CollocationScheme | None, adaptive: bool) -> dict[str, dict[str, object]]:
    """The numbers of an implicit scheme, or of all explicit methods. adaptive : steps are chosen
    where the method can."""
    if scheme is None:
        return {method.name: method.tableau for method in EXPLICIT.values()}
    chosen = adaptive and scheme.name in ADAPTIVE
    return {scheme.name: adaptive_tableau(scheme) if chosen else scheme.tableau}


def _index(model: Model, scheme: CollocationScheme | None) -> int:
    """Differentiation index of the equations; 0 for explicit methods, which need not know it."""
    return 0 if scheme is None else model.index.value or 0


def adaptive_tableau(scheme: CollocationScheme) -> dict[str, object]:
    """Tableau of an implicit scheme with the weights of the error estimate by which steps are
    chosen."""
    return {**scheme.tableau, "error": list(scheme.first_rates)}


def _description(
    model: Model, methods: Mapping[str, object], pattern: Sparse, **more: object
) -> dict[str, object]:
    """Names for the runtime, the numbers of methods, and the places of the entries of the
    derivatives."""
    return {
        **describe_model(model),
        "methods": methods,
        "outputs": [],
        "limits": [],
        "varying": False,
        "solution": [],
        "outputs_need_rates": bool(_need_rates(model)),
        "pattern": pattern_of(pattern),
        "partials": [[], []],
        "delays": [[], []],
        **more,
    }


def explicit_description(model: Model, **more: object) -> dict[str, object]:
    """Description of a model for explicit methods without derivatives; more : entries that replace
    its own."""
    return _description(model, _tableaus(None, adaptive=False), Sparse(), **more)


def _need_rates(model: Model) -> list[str]:
    """Outputs and limits that contain x'."""
    return [
        name
        for name, e in {**model.outputs, **model.moving_limits}.items()
        if e.atoms(sp.Symbol, sp.Derivative) & moving_symbols(model)
    ]


def _check_rates(model: Model) -> None:
    """Raise `ValueError` for outputs with x' where the equations at one time do not determine x',
    with the algebraic states, or at index 2 beside them."""
    wanted = _need_rates(model)
    if not wanted:
        return
    moving = {j for row in signature(model) for j, order in row.items() if order}
    unknown: list[sp.Basic] = [model.derivatives[j] for j in sorted(moving)]
    if (model.index.value or 0) < 2:
        unknown += [x for j, x in enumerate(model.states) if j not in moving]
    slopes = random_jacobian(model.equations, model.intermediates, unknown)
    if slopes is not None and rank(slopes) < len(unknown):
        raise ValueError(
            f"model {model.name}: {wanted[0]} contains x', which the equations alone do not tell, "
            "without their derivatives; simulate model.reduced_index(index=0), or write "
            f"{wanted[0]} by states"
        )


def shooting_kernels(
    problem: Problem, scheme: CollocationScheme | None, adaptive: bool = False
) -> tuple[list[Kernel], dict[str, object]]:
    """Kernels that step along a trajectory and differentiate its steps. adaptive : an implicit
    method chooses these, where it can.

    Implicit steps are differentiated by the kernel `partials`: derivatives of the equations by x',
    x, unknown inputs and parameters. Explicit ones by the kernel `tangent`: x', then what its
    derivatives by states and these follow from, see `codegen.solve.Linearised`. With delays both
    are differentiated by `partials`, and `delay_slopes` are derivatives of the delays by x, unknown
    inputs and parameters.
    """
    model, s = problem.model, model_symbols(problem.model, tables=problem.tables)
    explicit = scheme is None or bool(model.delays)
    kernels, methods = _rhs(model, s, required=explicit), _tableaus(scheme, adaptive)
    chosen = [*problem.unknown_inputs, *problem.unknown_parameters]
    if scheme is not None or model.delays:
        made, pattern = _equations(model, s) if scheme is not None else ([], Sparse())
        equations = with_smooth_kinks(s.graph, [s.lower(e) for e in model.equations])
        partials, places = _derivatives(model, s, "partials", chosen, equations)
        slopes, late = _delay_slopes(model, s, chosen)
        about = _description(
            model,
            methods,
            pattern,
            partials=pattern_of(places),
            delays=pattern_of(late),
            index=_index(model, scheme),
        )
        return [*kernels, *made, partials, *_delays(model, s), *slopes], about
    tangent, pattern, solution = _tangent(model, s, chosen)
    return [*kernels, tangent], _description(model, methods, pattern, solution=solution)


def differentiated(problem: Problem, scheme: CollocationScheme | None) -> Program:
    """Program of a simulation of a model with delays, with derivatives; see `shooting_kernels`."""
    model = problem.model
    kernels, about = shooting_kernels(problem, scheme)
    kernels += _outputs(model, model_symbols(model, tables=problem.tables))
    about |= {"outputs": list(model.outputs), "outputs_need_rates": bool(_need_rates(model))}
    name = f"{model.name}_differentiated".replace("-", "_")
    return Program(name, tuple(kernels), {"stepping": about}, problem.tables.values)


def swept(model: Model) -> Program:
    """Program of explicit steps of many members, each with parameters of its own, and the kernel
    `tangent` of their derivatives by states, inputs, parameters and time, in this order.

    Raises `ValueError` if x' cannot be solved for, or inputs are delayed.
    """
    if model.delays:
        raise ValueError(
            f"model {model.name} has delays ({model.delays[0].name}), and no right-hand side of "
            "the present alone; simulate it with ks.simulate, differentiate by ks.sensitivities"
        )
    s = model_symbols(model, varying=True)
    [rhs] = _rhs(model, s, required=True)
    tangent, pattern, solution = _tangent(model, s, [*model.inputs, *model.parameters, t])
    about = explicit_description(model, varying=True, solution=solution)
    about |= {"pattern": pattern_of(pattern)}
    return Program(
        f"{model.name}_swept".replace("-", "_"),
        (rhs, tangent),
        {"stepping": about},
        model.tables.values,
    )


def _tangent(
    model: Model, s: ModelSymbols, wrt: Sequence[sp.Basic]
) -> tuple[Kernel, Sparse, list[list[int]]]:
    """The kernel `tangent`, the places of its entries, and targets and sources of its steps."""
    g, lower = s.graph, s.lower
    chosen = [*s.nodes(s.x), *(lower(e) for e in wrt)]
    residual = [lower(e) for e in model.equations]
    found = linearised_rates(g, residual, s.nodes(s.xdot), model.state_names, chosen)
    names = [*model.state_names, *map(name_of, wrt)]
    n = len(model.states)  # entries in columns of states come first
    order = sorted(found.side, key=lambda key: (key[1] >= n, key))
    pattern = {key: found.side[key] for key in order}
    labels = [f"{x}'" for x in model.state_names]
    labels += [f"-d equation of {model.state_names[i]}' / d {names[j]}" for i, j in pattern]
    labels += [
        f"solution, {model.state_names[i]} from {model.state_names[j]}" for i, j, _ in found.steps
    ]
    outputs = (*found.rates, *pattern.values(), *(node for _, _, node in found.steps))
    purpose = "x' = f(x, u, p, t) = M^-1 side, the derivatives of the side, and M^-1 in steps"
    tangent = Kernel("tangent", g, s.arguments, outputs, tuple(labels), purpose)
    return tangent, pattern, [[i, j] for i, j, _ in found.steps]


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


def _delays(model: Model, s: ModelSymbols) -> list[Kernel]:
    """Kernel of the delays of inputs [s]; none without delays."""
    if not model.delays:
        return []
    labels = tuple(delay.name for delay in model.delays)
    values = tuple(s.lower(delay.tau) for delay in model.delays)
    return [Kernel("delays", s.graph, s.arguments, values, labels, "tau of x(t - tau)")]


def _delay_slopes(
    model: Model, s: ModelSymbols, wrt: Sequence[sp.Basic]
) -> tuple[list[Kernel], Sparse]:
    """Derivatives of the delays with respect to x, then `wrt`, and their places."""
    chosen = [*s.nodes(s.x), *(s.lower(e) for e in wrt)]
    names = [*model.state_names, *map(name_of, wrt)]
    entries = jacobian(s.graph, [s.lower(delay.tau) for delay in model.delays], chosen)
    if not entries:
        return [], entries
    labels = [f"d tau of {model.delays[i].name} / d {names[j]}" for i, j in entries]
    about = (tuple(entries.values()), tuple(labels), "derivatives of tau of x(t - tau)")
    return [Kernel("delay_slopes", s.graph, s.arguments, *about)], entries


def _equations(model: Model, s: ModelSymbols) -> tuple[list[Kernel], Sparse]:
    """The equations at one point, and their derivatives with respect to x', then x."""
    residual = tuple(s.lower(e) for e in model.equations)
    labels = tuple(equation_label(model, k) for k in range(len(residual)))
    arguments, purpose = (s.xdot, *s.arguments), "0 = f(x', x, u, p, t)"
    slopes, entries = _derivatives(model, s, "slopes", (), with_kinks(s.graph, residual))
    return [Kernel("residual", s.graph, arguments, residual, labels, purpose), slopes], entries


def _derivatives(
    model: Model, s: ModelSymbols, name: str, wrt: Sequence[sp.Basic], residual: Sequence[int]
) -> tuple[Kernel, Sparse]:
    """Derivatives of the equations, whose nodes are given, with respect to x', x, then `wrt`, and
    their places."""
    g = s.graph
    rows = [equation_label(model, k) for k in range(len(residual))]
    chosen = [*s.nodes(s.xdot), *s.nodes(s.x), *(s.lower(e) for e in wrt)]
    names = [*(f"{x}'" for x in model.state_names), *model.state_names, *map(name_of, wrt)]
    entries = jacobian(g, residual, chosen)
    labels = tuple(f"d {rows[i]} / d {names[j]}" for i, j in entries)
    purpose = "derivatives of the equations that are not identically zero"
    values = tuple(entries.values())
    return Kernel(name, g, (s.xdot, *s.arguments), values, labels, purpose), entries
