"""Models and collocation problems as functions of CasADi.

The nodes of a kernel become expressions of `casadi.SX`, operation by operation, so that CasADi has
exact derivatives of its own, code generation and maps of them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any

import casadi
import numpy as np
from numpy.typing import NDArray

from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel
from kinesym.codegen.own import without_own
from kinesym.internal.exporting.fixed import check_fixed
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.runtime.nlp.layout import FAMILIES
from kinesym.symbolic.model import Model


def _mod(x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor; that of C has the sign of the dividend."""
    rest = casadi.fmod(x, y)
    apart = casadi.logic_or(casadi.logic_and(rest < 0, y > 0), casadi.logic_and(rest > 0, y < 0))
    return casadi.if_else(apart, rest + y, rest)


#: What CasADi calls the operations of the graph; those that are not here it does not have.
OPERATIONS_OF_CASADI: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "neg": operator.neg,
        "inv": lambda a: 1.0 / a,
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "select": lambda c, a, b: casadi.if_else(c != 0.0, a, b),
        "pow": operator.pow,
        "atan2": casadi.atan2,
        "mod": _mod,
        "min": casadi.fmin,
        "max": casadi.fmax,
        "lt": operator.lt,
        "le": operator.le,
        "eq": operator.eq,
        "hypot": casadi.hypot,
        "cbrt": lambda a: casadi.sign(a) * casadi.fabs(a) ** (1.0 / 3.0),
        "abs": casadi.fabs,
        **{
            name: getattr(casadi, name)
            for name in (
                *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh"),
                *("acosh", "atanh", "exp", "expm1", "log", "log1p", "sqrt", "sign", "floor", "erf"),
            )
        },
    }
)

#: Names of results, by kernel.
_RESULTS = {"rhs": "dx", "residual": "residual", "outputs": "y"}


def model_in_casadi(model: Model) -> dict[str, casadi.Function]:
    """Functions of `casadi.SX` by name: "residual" (xdot, x, u, p, t), "outputs" likewise, if there
    are any, and "rhs" (x, u, p, t) if x' can be solved for.

    They are those of `kinesym.compile`: columns in the order of the model, whose names the symbols
    have (`function.sx_in("x")`). Delayed values are inputs. CasADi multiplies the derivative of
    each case of an if-else by its condition: where one that does not hold is not finite, the sum is
    NaN. Raises `ValueError` for functions that CasADi does not have.
    """
    program = model_functions(model)
    name = _identifier(model.name)
    return {
        kernel.name: function_of_kernel(
            kernel, program.tables, f"{name}_{kernel.name}", _RESULTS[kernel.name]
        )
        for kernel in program.kernels
    }


def problem_in_casadi(problem: Discretisation, guess: Any = None) -> dict[str, dict[str, Any]]:
    """The nonlinear program: "nlp", expressions x, f and g of `casadi.MX` for `casadi.nlpsol`, and
    "arguments" of the solver that it makes: x0, lbx, ubx, lbg and ubg as arrays.

    Entries of x and g stand as in `problem.cost` and `problem.constraints`. Cost and constraints of
    a kind of point are one function of SX each, mapped over its points. guess : of
    `Collocation.pack`, for x0. Raises `ValueError` for delayed inputs, whose rows are no
    expressions, for unknown delays of sensors, and for functions that CasADi does not have.
    """
    nlp, program = problem.nlp, problem.libraries.program
    check_fixed(problem)
    z = casadi.MX.sym("z", nlp.n_variables)
    cost, rows = casadi.MX(0.0), [casadi.MX(0, 1)]
    for trial, family in product(range(len(problem.trials)), FAMILIES):
        for kernel in program.kernels:
            what = kernel.name.removeprefix(f"{family}_")
            if what in ("cost", "constraints") and nlp.layout.points(trial, family):
                found = _at_points(problem, kernel, trial, family, what, z)
                cost += casadi.sum2(found) if what == "cost" else 0.0
                rows += [casadi.vec(found.T)] if what == "constraints" else []
    (lbx, ubx), (lbg, ubg) = problem.variable_bounds, problem.constraint_bounds
    x0 = FirstGuess(problem).pack(guess)
    return {
        "nlp": {"x": z, "f": cost, "g": casadi.vertcat(*rows)},
        "arguments": {"x0": x0, "lbx": lbx, "ubx": ubx, "lbg": lbg, "ubg": ubg},
    }


def _at_points(
    problem: Discretisation, kernel: Kernel, trial: int, family: str, what: str, z: Any
) -> Any:
    """The outputs of a kernel at the points of a trial, (outputs, points)."""
    points, nothing = problem.layout.points(trial, family), np.zeros(0)
    given = problem.nlp.arguments(trial, family, what, (z, nothing, nothing))
    columns = []
    for argument in kernel.arguments:
        count, value = len(argument.symbols), given[argument.name]
        if argument.varying:
            columns.append(casadi.reshape(value, count, points))
        else:
            columns.append(casadi.repmat(value[:count], 1, points))
    function = function_of_kernel(kernel, problem.libraries.program.tables, kernel.name, what)
    return function.map(points)(*columns)


def _identifier(text: str) -> str:
    """A name that CasADi takes."""
    name = re.sub(r"[\W_]+", "_", text, flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"model_{name}".rstrip("_")


def function_of_kernel(
    kernel: Kernel, tables: NDArray[np.float64], name: str, result: str
) -> casadi.Function:
    """A kernel as a function of its arguments, each a column."""
    kernel = without_own(kernel, False)
    graph = kernel.graph
    columns = {
        a.name: [casadi.SX.sym(_plain(a.name, symbol)) for symbol in a.symbols]
        for a in kernel.arguments
    }
    named = {
        symbol: column
        for a in kernel.arguments
        for symbol, column in zip(a.symbols, columns[a.name], strict=True)
    }
    values: dict[int, Any] = {}
    for node in kernel.nodes:
        op, args = graph.op[node], graph.args[node]
        if op == "const":
            values[node] = casadi.SX(graph.value[node])
        elif op == "sym":
            values[node] = named[graph.name[node]]
        elif op in ("locate", "entry"):
            values[node] = _from_table(graph, op, args, tables, values[args[3]])
        elif op in OPERATIONS_OF_CASADI:
            values[node] = OPERATIONS_OF_CASADI[op](*(values[a] for a in args))
        elif op != "data":
            raise ValueError(
                f"{name} needs the function {op}, which CasADi does not have; write it with "
                "others, or as a kinesym.table"
            )
    out = casadi.vertcat(casadi.SX(0, 1), *(values[node] for node in kernel.outputs))
    inputs = [casadi.vertcat(casadi.SX(0, 1), *column) for column in columns.values()]
    return casadi.Function(name, inputs, [out], [*columns], [result])


def _plain(argument: str, symbol: str) -> str:
    """The name of the model: `theta` of `x.theta`, `theta'` of `xdot.theta`."""
    name = symbol.partition(".")[2]
    return f"{name}'" if argument == "xdot" else name


def _from_table(
    graph: Graph, op: str, args: tuple[int, ...], tables: NDArray[np.float64], x: Any
) -> Any:
    """Number of the points of a table that are not larger than x, or the entry of that number: a
    sum in which all terms but one are zero, so that it is exact."""
    begin, step = (int(graph.value[a]) for a in args[1:3])
    if op == "locate":
        return casadi.sum1(casadi.DM(tables[begin + 1 : begin + 1 + step]) <= x)
    places = np.arange(_largest(graph, args[3]) + 1)
    entries = casadi.DM(tables[begin + step * places])
    return casadi.sum1(casadi.if_else(casadi.DM(places) == x, entries, 0.0))


def _largest(graph: Graph, node: int) -> int:
    """The largest number that a sum of products of constants and of places in tables can be."""
    op, args = graph.op[node], graph.args[node]
    if op == "const":
        return int(graph.value[node])
    if op == "locate":
        return int(graph.value[args[2]])
    a, b = (_largest(graph, arg) for arg in args)
    return a + b if op == "add" else a * b
