"""The adjoint of a model as a model in reversed time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.base.checks import shown
from kinesym.symbolic.adjoint.forms import Form, first_order, rate_of, second_order
from kinesym.symbolic.adjoint.system import ForwardSystem
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known, name_of, names_of, t
from kinesym.symbolic.objective import Objective

FORMS = ("first-order", "second-order")


@dataclass(frozen=True)
class Adjoint:
    """The adjoint model and the meaning of its states, inputs and outputs.

    model : in reversed time T - t from 0 on. Its inputs are the states, inputs and signals of the
        forward run under their own names, and `slopes`. Rates (lambda_dot_q) are with respect to t.
    signals : functions of time that only the objective contains.
    slopes : {input of the adjoint: the input or signal whose time derivative it is}.
    costates : {state x: state or output of the adjoint that is dJ/dx(t)}.
    terminal : states of the adjoint that need not be zero at the end; they follow from the linear
        equations dJ/dx(T) = dphi/dx.
    densities : {parameter or input: output of the adjoint, the integrand of dJ/dp or dJ/df(t)}.
    ends : {state or parameter: output of the adjoint, dphi/dx or dphi/dp at the end}, where it is
        not identically zero.
    multipliers : outputs of the adjoint, Lambda of each equation of motion.
    psi, phi, duration : outputs of the adjoint: integrand, terminal cost, and at the end dJ/dT.
    zero : names of conjugate variables that vanish identically and are no states of the adjoint.
    end_time : parameter of the adjoint that is T, if time appears explicitly.
    """

    model: Model
    signals: Sequence[str]
    slopes: Mapping[str, str]
    costates: Mapping[str, str]
    terminal: Sequence[str]
    densities: Mapping[str, str]
    ends: Mapping[str, str]
    multipliers: Sequence[str]
    psi: str
    phi: str
    duration: str
    zero: Sequence[str]
    end_time: str | None


def adjoint(
    model: Model,
    objective: Objective,
    unknown: Iterable[sp.Symbol | str] = (),
    form: str = "first-order",
    hold: Iterable[str] = (),
) -> Adjoint:
    """The adjoint of `model` for `objective`, with the integrand of dJ/dp for `unknown` parameters.

    form : "first-order" for any explicit model, or "second-order" (lambda, mu, eta) for equations
        of motion. hold : inputs and signals that are constant between nodes (zero-order hold).

    Barauskas, Krusinskiene 2005, equations (2.3) to (2.8), corrected; see the module. Raises
    `ValueError` naming what has no adjoint of this form, and the remedy.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form {shown(form)}; choose one of {', '.join(FORMS)}")
    parameters = _unknown(model, unknown)
    system = ForwardSystem(model, objective, frozenset(hold))
    build = first_order if form == "first-order" else second_order
    return _assemble(system, build(system, [*parameters, *system.inputs]))


def _unknown(model: Model, unknown: Iterable[sp.Symbol | str]) -> list[sp.Symbol]:
    names = names_of(unknown, "unknown")
    for name in names:
        what = f"unknown: {name} is no parameter of model {model.name}"
        check_known(name, model.parameter_names, what)
    return [p for p in model.parameters if name_of(p) in names]


def _assemble(system: ForwardSystem, form: Form) -> Adjoint:
    """The model in reversed time that `form` describes."""
    outputs: dict[str, sp.Expr] = {}

    def output(name: str, expression: sp.Expr) -> str:
        name = system.named.unique(name)
        outputs[name] = expression
        return name

    unknown = [p for p in form.densities if p in system.model.parameters]
    ends = [*system.states, *unknown]
    phi_x = zip(ends, system.named.gradient(system.phi, ends), strict=True)
    meaning: dict[str, Any] = {
        "multipliers": [output(name, e) for name, e in form.multipliers.items()],
        "costates": {
            x.name: c.name if c in form.states else output(f"costate_{x.name}", c)
            for x, c in zip(system.states, form.costates, strict=True)
        },
        "densities": {x.name: output(f"dJ_d{x.name}", e) for x, e in form.densities.items()},
        "ends": {x.name: output(f"dphi_d{x.name}", e) for x, e in phi_x if e != 0},
        "psi": output("psi", system.psi),
        "phi": output("phi", system.phi),
        "duration": output("dJ_dT", system.duration()),
    }
    used = system.named.variables([*form.equations, *outputs.values()])
    slopes = {slope: u for u, slope in system.slopes.items() if slope in used}
    _check_slopes(system, slopes.values())
    end = sp.Symbol(system.named.unique("T")) if t in used else None
    return Adjoint(
        model=_reversed_model(system, form, outputs, used, end),
        signals=[name_of(x) for x in system.signals],
        slopes={slope.name: u.name for slope, u in slopes.items()},
        terminal=[x.name for x in form.terminal],
        zero=[x.name for x in form.zero],
        end_time=end.name if end else None,
        **meaning,
    )


def _reversed_model(
    system: ForwardSystem,
    form: Form,
    outputs: Mapping[str, sp.Expr],
    used: set[sp.Symbol],
    end: sp.Symbol | None,
) -> Model:
    """Equations and outputs of a form as a model in T - t; only what is used is declared."""
    model, named = system.model, system.named
    functions = _functions(system, form, end)
    slopes = [functions[slope] for slope in system.slopes.values() if slope in used]
    moving = [*model.states, *model.inputs, *system.signals]
    parameters = [p for p in model.parameters if p in used]
    steps = named.needed([*form.equations, *outputs.values()])
    return Model(
        name=f"{model.name}_adjoint",
        states=[functions[x] for x in form.states],
        inputs=[*(x for x in moving if system.plain[x] in used), *slopes],
        parameters=[*parameters, *([end] if end else [])],
        equations=[e.xreplace(functions) for e in form.equations],
        outputs={name: e.xreplace(functions) for name, e in outputs.items()},
        intermediates=[
            (functions.get(s, s), named.definitions[s].xreplace(functions)) for s in steps
        ],
        values={p: model.values[p.name] for p in parameters if p.name in model.values},
        units=model.units,
    )


def _functions(
    system: ForwardSystem, form: Form, end: sp.Symbol | None
) -> dict[sp.Basic, sp.Basic]:
    """Substitution of plain symbols by functions of reversed time."""
    moving = {*system.model.states, *system.model.inputs, *system.signals}
    functions: dict[sp.Basic, sp.Basic] = {system.plain[x]: x for x in moving}
    functions |= {slope: sp.Function(slope.name)(t) for slope in system.slopes.values()}
    for x in form.states:
        functions[x] = sp.Function(x.name)(t)
        functions[rate_of(x)] = -functions[x].diff(t)
    for x, rate in zip(system.states, system.rates, strict=True):
        functions[rate] = sp.Symbol(system.named.unique(f"{x.name}_rate"))
    return functions if end is None else {**functions, t: end - t}


def _check_slopes(system: ForwardSystem, moving: Iterable[sp.Symbol]) -> None:
    """Raise `ValueError` for held inputs with slopes: they jump at the nodes, and their time
    derivative is an impulse there."""
    held = [u.name for u in moving if u.name in system.hold]
    if held:
        raise ValueError(
            f"model {system.model.name}: damping or stiffness depends on {held[0]}, which jumps at "
            "the nodes (zero-order hold), so that their time derivatives are impulses there; use "
            "form='first-order'"
        )
