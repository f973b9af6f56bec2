"""Sources of models beside equations: mechanics of SymPy, functions of CasADi."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import mapping
from kinesym.symbolic.declared import Declared
from kinesym.symbolic.expression import parts_of, real_expression
from kinesym.symbolic.names import name_of, t

Made = TypeVar("Made", bound="Sourced")


class Sourced(Declared):
    """Ways to make a `Model` of what others have."""

    @classmethod
    def from_kane(
        cls: type[Made],
        kane: Any,
        inputs: Sequence[AppliedUndef] | None = None,
        parameters: Sequence[sp.Symbol] | None = None,
        outputs: Mapping[str, sp.Expr] | None = None,
        name: str = "kane",
        values: Mapping[Any, float] | None = None,
        frame: Any = None,
        units: Mapping[Any, str] | None = None,
    ) -> Made:
        """The model of a `KanesMethod` of `sympy.physics.mechanics` after `kanes_equations`, of a
        `LagrangesMethod` after `form_lagranges_equations`, or of a `System` after `form_eoms`.

        States are the generalised coordinates q and speeds u; equations are the kinematic
        differential equations and Kane's dynamical equations Fr + Fr* = 0, which need no solution
        for u'. Lagrange's equations have speeds `q_rate`. `inputs=None` takes every function of
        time in the loads that is no state, `parameters=None` every constant of the equations, both
        sorted by name.

        frame : the inertial one, for a `KanesMethod` with constraints. With it their forces are
            states `lam1`, ..., one for each velocity constraint, by M u' = F + J' lam, where J is
            the derivative of the velocity constraints by u; so are those of Lagrange's equations,
            whose multipliers in SymPy have the other sign. Without it
            dependent speeds are eliminated as SymPy does it, by symbolic solution, which may divide
            by what is zero on the way. A `System` has a frame.

        Constraints of the coordinates stand as they are given, and the velocity constraints that
        are not their derivatives: the model is one of higher index, see `reduced_index`. Raises
        `ValueError` for constraints that depend on one another.
        """
        # brings 0.2 s of SymPy
        from kinesym.symbolic.mechanics import forces_over_time, mechanical_equations

        states, equations = mechanical_equations(kane, frame)
        if inputs is None:
            found = forces_over_time(kane) & parts_of(AppliedUndef, *equations)
            inputs = sorted(found - set(states), key=name_of)
        mapping({} if outputs is None else outputs, f"model {name}: outputs", "{name: expression}")
        used = {*equations, *(outputs or {}).values()}
        if parameters is None:
            used = {real_expression(e, f"model {name}: an equation or output") for e in used}
            free = set().union(*(e.free_symbols for e in used)) - {t}
            parameters = sorted(free, key=name_of)
        parts = (name, states, inputs, parameters, equations, outputs or {}, (), values or {})
        return cls(*parts, units={} if units is None else units)

    @classmethod
    def from_system(
        cls: type[Made],
        system: Any,
        outputs: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]] | None = None,
        name: str = "system",
        values: Mapping[Any, float] | None = None,
        units: Mapping[Any, str] | None = None,
    ) -> Made:
        """The model of a `System` of `sympy.physics.mechanics`, from its bodies, joints, loads and
        actuators, without its `form_eoms`: equal equations with operations linear in the number of
        bodies, by the recursions of `kinesym.multibody.Tree`; all joints of SymPy.

        States are the generalised coordinates and speeds of the joints, in their order; a speed
        that is given as q' is `q_rate`. Inputs, parameters, constraints : as in `from_kane`.
        outputs : as there, or a list of such and of the kinds of `Tree.model`, "energy" for
            example; bodies have the names that they have in SymPy.

        Raises `ValueError` for what is no tree, with auxiliary speeds, or with speeds that are no
        rates of coordinates; `from_kane` takes such a `System` after `form_eoms`.
        """
        from kinesym.symbolic.multibody.system import model_of  # made of models

        made: Any = model_of(system, outputs, name, values, units)
        return made

    @classmethod
    def from_casadi(
        cls: type[Made],
        function: Any,
        states: Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
        parameters: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        name: str | None = None,
        values: Mapping[Any, float] | None = None,
        units: Mapping[Any, str] | None = None,
        arguments: Sequence[str] | None = None,
        results: Sequence[str] | None = None,
    ) -> Made:
        """The model of a `casadi.Function` of SX: f(x, u, p, t) -> dx, or the residual of (xdot, x,
        u, p, t), or with algebraic states z and equations `alg`; further results are outputs.

        What is used more than once, or would be long, becomes an intermediate `v1`, `v2`, ...

        Parameters
        ----------
        states, inputs, parameters, outputs : names of the entries, states with the algebraic ones
            after the others; by default those of the symbols, and of results.
        name : by default that of the function.
        arguments : what each argument is, one of "xdot", "x", "z", "u", "p", "t". By default what
            their names say; x, u, p, t in this order, if they have none.
        results : what each result is: "dx" (or "ode", "xdot", "rhs") for x', "residual" (or "alg")
            for what is to be zero, other names for outputs. By default what their names say; the
            first one is dx, or the residual, if they have none.

        Raises `ValueError` for functions of MX (give their `expand()`), free variables, operations
        that a model cannot have, and as `Model`.
        """
        from kinesym.symbolic.casadi_model import parts_of_function  # brings CasADi

        names = {
            "states": states,
            "inputs": inputs,
            "parameters": parameters,
            "outputs": outputs,
        }
        found = parts_of_function(function, names, arguments, results)
        title = function.name() if name is None else name
        return cls(title, *found, values=values or {}, units={} if units is None else units)
