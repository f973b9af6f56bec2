"""Our nonlinear program in the words of CasADi, by IPOPT: derivatives by `nlpsol`, or put together
by hand from those of a point."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

import kinesym as ks
from kinesym.codegen.kernel import Kernel
from kinesym.runtime.nlp.layout import FAMILIES
from peers.programs import (
    FACTOR,
    STORY,
    VALUES,
    Callback,
    Peer,
    Solve,
    check_same,
    ours_at,
    read_story,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]


# -- kernels of a point -------------------------------------------------------------------------


def casadi_operations() -> dict[str, Callable[..., Any]]:
    """What the operations of our expression graph are called there."""
    import casadi as ca

    same = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp log sqrt sign floor erf"
    return {
        **{name: getattr(ca, name) for name in [*same.split(), "atan2"]},
        "abs": ca.fabs,
        "min": ca.fmin,
        "max": ca.fmax,
        "select": ca.if_else,
        "neg": lambda a: -a,
        "inv": lambda a: 1.0 / a,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "pow": lambda a, b: a**b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "eq": lambda a, b: a == b,
    }


@dataclass(frozen=True)
class Points:
    """A kernel at all points of a trial.

    function : its outputs at one point, of the variables and of the known numbers there. index :
    where in z the variables are, (variables, points). known : (numbers, points). outputs : where
    its outputs are among our constraints, (outputs, points); of a cost -1.
    """

    function: Any
    index: Index
    known: Array
    outputs: Index

    def over(self, function: Any, z: Any, *more: Any) -> Any:
        """Values at all points of a function of the variables, of the known numbers, and of more
        numbers of each point."""
        import casadi as ca

        variables = ca.reshape(z[self.index.ravel(order="F").tolist()], *self.index.shape)
        return function.map(self.index.shape[1])(variables, ca.DM(self.known), *more)


def points_of(problem: ks.Collocation, trial: int, kernel: Kernel) -> Points:
    """A kernel at the points of a trial. Raises `ValueError` for operations that CasADi lacks."""
    (family, what), nlp = kernel.name.split("_", 1), problem.nlp
    about = problem.program.description["collocation"]["families"][family]
    variables, n = {name for name, *_ in about["variables"]}, problem.layout.points(trial, family)
    places = np.arange(float(nlp.n_variables)), np.empty(nlp.n_constraints), np.ones(1)
    rows: tuple[list[Array], list[Array]] = [np.zeros((0, n))], [np.zeros((0, n))]
    for name, values in nlp.arguments(trial, family, what, places).items():
        values = values if values.ndim == 2 else values[:, None]
        rows[name not in variables].append(np.broadcast_to(values, (len(values), n)))
    begin = problem.layout.constraint_offsets[trial, family]
    outputs = np.arange(len(kernel.outputs))[:, None] * n + np.arange(n)
    outputs = np.full_like(outputs, -1) if what == "cost" else begin + outputs
    index = np.concatenate(rows[0]).astype(int)  # what was read are places in z
    return Points(casadi_function(kernel, variables), index, np.concatenate(rows[1]), outputs)


def casadi_function(kernel: Kernel, variables: set[str]) -> Any:
    """A kernel at one point as a function of the arguments with these names, and of the others,
    each below the other."""
    import casadi as ca

    graph, operations = kernel.graph, casadi_operations()
    symbols: tuple[list[str], list[str]] = [], []
    for argument in kernel.arguments:
        symbols[argument.name not in variables].extend(argument.symbols)
    point = [ca.SX.sym(name, len(s)) for name, s in zip(("v", "known"), symbols, strict=True)]
    place = {
        name: side[k] for s, side in zip(symbols, point, strict=True) for k, name in enumerate(s)
    }
    values: dict[int, Any] = {}
    for node in kernel.nodes:
        op = graph.op[node]
        if op == "const":
            values[node] = ca.SX(graph.value[node])
        elif op == "sym":
            values[node] = place[graph.name[node]]
        elif op in operations:
            values[node] = operations[op](*(values[a] for a in graph.args[node]))
        else:
            raise ValueError(f"CasADi has no {op}")
    outputs = ca.vertcat(*(values[node] for node in kernel.outputs))
    return ca.Function(kernel.name, point, [outputs])


def every_kernel(problem: ks.Collocation) -> list[tuple[str, Points]]:
    """All costs and constraints, in our order: "cost" or "constraints", and where."""
    kernels = {kernel.name: kernel for kernel in problem.program.kernels}
    return [
        (what, points_of(problem, trial, kernels[f"{family}_{what}"]))
        for trial, family in product(range(len(problem.trials)), FAMILIES)
        for what in ("cost", "constraints")
        if f"{family}_{what}" in kernels and problem.layout.points(trial, family)
    ]


# -- the whole ----------------------------------------------------------------------------------

#: The program for `nlpsol`, and options of it, from all kernels.
Written = tuple[dict[str, Any], dict[str, Any]]


def by_nlpsol(
    problem: ks.Collocation, kernels: Sequence[tuple[str, Points]], folder: str
) -> Written:
    """The whole, with variables and constraints in our order; derivatives are its own."""
    import casadi as ca

    z, cost, constraints = ca.MX.sym("z", problem.n_variables), 0, []
    for what, points in kernels:
        values = points.over(points.function, z)
        if what == "cost":
            cost += ca.sum2(values)
        else:
            constraints.append(ca.vec(values.T))
    return {"x": z, "f": cost, "g": ca.vertcat(*constraints)}, {}


def expanded(
    problem: ks.Collocation, kernels: Sequence[tuple[str, Points]], folder: str
) -> Written:
    """All operations of all points one after the other, without calls: longer to build, shorter to
    solve."""
    return by_nlpsol(problem, kernels, folder)[0], {"expand": True}


def by_hand(
    problem: ks.Collocation, kernels: Sequence[tuple[str, Points]], folder: str, **about: Any
) -> Written:
    """Derivatives of a point, mapped over all, put together by hand. about : options of these
    functions, and of the solver."""
    import casadi as ca

    program = by_nlpsol(problem, kernels, folder)[0]
    z, n, m = program["x"], problem.n_variables, problem.n_constraints
    factor, multipliers = ca.MX.sym("f"), ca.MX.sym("m", m)
    gradient, jacobian, hessian = (Entries(shape) for shape in ((n, 1), (m, n), (n, n)))
    for what, points in kernels:
        rows, columns, slopes = block(points, "jacobian")
        at, values = points.index[columns], points.over(slopes, z)
        if what == "cost":
            gradient.add(at, 0 * at, values)
            weights = ca.repmat(factor, 1, points.index.shape[1])
        else:
            jacobian.add(points.outputs[rows], at, values)
            places = points.outputs.ravel(order="F").tolist()
            weights = ca.reshape(multipliers[places], *points.outputs.shape)
        rows, columns, curvature = block(points, "hessian")
        values = points.over(curvature, z, weights)
        hessian.add_upper(points, rows, columns, values)
    names = ["x", "p", "lam_f", "lam_g"]
    given = dict(zip(names, (z, ca.MX.sym("none", 0), factor, multipliers), strict=True))

    def function(name: str, count: int, **outputs: Any) -> Any:
        labels = names[:count], [*outputs]
        values = [given[n] for n in names[:count]], [*outputs.values()]
        return ca.Function(name, *values, *labels, dict(about))

    return program, {
        "grad_f": function("nlp_grad_f", 2, f=program["f"], grad_f_x=ca.densify(gradient.matrix)),
        "jac_g": function("nlp_jac_g", 2, g=program["g"], jac_g_x=jacobian.matrix),
        "hess_lag": function("nlp_hess_l", 4, triu_hess_gamma_x_x=hessian.matrix),
        **about,
    }


def by_hand_in_c(
    problem: ks.Collocation, kernels: Sequence[tuple[str, Points]], folder: str
) -> Written:
    """The same, generated to C as a whole and compiled, by the flags that opty gets, too."""
    flags = shlex.split(os.environ.get("CFLAGS", "-O3 -march=native"))
    options = {"flags": flags, "directory": f"{folder}/"}
    return by_hand(problem, kernels, folder, jit=True, compiler="shell", jit_options=options)


def block(points: Points, what: str) -> tuple[Index, Index, Any]:
    """Rows and columns of the entries of a matrix of a point, "jacobian" of the outputs or
    "hessian" of their sum with multipliers (upper triangle), and the function of these entries."""
    import casadi as ca

    given = points.function.sx_in()
    values = points.function(*given)
    if what == "jacobian":
        matrix = ca.jacobian(values, given[0])
    else:
        given.append(ca.SX.sym("m", values.numel()))
        matrix = ca.triu(ca.hessian(ca.dot(given[2], values), given[0])[0])
    rows, columns = (np.array(k, int) for k in matrix.sparsity().get_triplet())
    entries = [ca.vertcat(ca.SX(0, 1), *matrix.nonzeros())]
    return rows, columns, ca.Function(what, given, entries, {"cse": True})


class Entries:
    """Entries of a sparse matrix of this shape from all points; those with the same place are
    added."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.parts: list[tuple[Index, Index, Any, Array]] = []

    def add(self, rows: Index, columns: Index, values: Any, weights: Any = 1.0) -> None:
        """Of each row of `values` at each point, all (entries, points)."""
        self.parts.append((rows, columns, values, np.broadcast_to(weights, rows.shape)))

    def add_upper(self, points: Points, rows: Index, columns: Index, values: Any) -> None:
        """Of a symmetric matrix of each point, above the diagonal."""
        i, j = points.index[rows], points.index[columns]
        twice = (i == j) & (rows != columns)[
            :, None
        ]  # two variables of a point are one of the whole
        self.add(np.minimum(i, j), np.maximum(i, j), values, 1.0 + twice)

    @property
    def matrix(self) -> Any:
        """The matrix, by a constant one that adds up entries."""
        import casadi as ca

        if not sum(rows.size for rows, *_ in self.parts):
            return ca.MX(*self.shape)
        rows, columns, weights = (
            np.concatenate([part[k].ravel(order="F") for part in self.parts]) for k in (0, 1, 3)
        )
        keys, place = np.unique(columns * self.shape[0] + rows, return_inverse=True)
        where = (keys % self.shape[0]).tolist(), (keys // self.shape[0]).tolist()
        add = ca.DM.triplet(
            place.tolist(), list(range(place.size)), ca.DM(weights), keys.size, place.size
        )
        values = ca.mtimes(add, ca.vertcat(*(ca.vec(values) for _, _, values, _ in self.parts)))
        return ca.MX(ca.Sparsity.triplet(*self.shape, *where), values)


def casadi_of(
    problem: ks.Collocation,
    z: Array,
    options: Mapping[str, Any],
    folder: str,
    written: Callable[..., Written] = by_nlpsol,
) -> Peer:
    """The nonlinear program of `problem`. written : in which way, one of those above. Raises
    `ValueError` if its functions at z are not ours, and for what CasADi cannot say."""
    import casadi as ca

    if problem.layout.delayed:
        raise ValueError("delays are not handed to CasADi")
    start, story = time.perf_counter(), Path(folder) / "casadi.txt"
    program, own = written(problem, every_kernel(problem), folder)
    told = {**STORY, **options, "output_file": str(story)}
    settings = {f"ipopt.{name}": value for name, value in told.items()}
    settings |= {"print_time": False, "show_eval_warnings": False, **own}
    solver = ca.nlpsol("s", "ipopt", program, settings)
    build = time.perf_counter() - start
    (low, high), (below, above) = problem.variable_bounds, problem.constraint_bounds

    def solve(z: Array) -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        found = solver(x0=z, lbx=low, ubx=high, lbg=below, ubg=above)
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        stats, end = solver.stats(), np.array(found["x"]).ravel()
        failure = "" if stats["success"] else stats["return_status"]
        return Solve(wall, cpu, *read_story(story), float(found["f"]), end, failure)

    every = np.arange(problem.n_variables), np.arange(problem.n_constraints)
    peer = Peer(build, solve, partial(casadi_callbacks, problem, solver, *every))
    check_same(problem, peer, z, VALUES)
    return peer


# -- its callbacks ------------------------------------------------------------------------------


def casadi_callbacks(
    problem: ks.Collocation, solver: Any, source: Index, rows: Index, z: Array, multipliers: Array
) -> dict[str, Callback]:
    """Callbacks of a solver of `nlpsol`. source : the entry of z to which each of its variables is
    equal. rows : of its constraints, which are ours, in our order."""
    x, weights = z[source], np.zeros(solver.get_function("nlp_g").numel_out(0))
    weights[rows] = multipliers
    whole = x, np.zeros(0), np.array([FACTOR]), weights
    call = {
        "cost": Call(solver.get_function("nlp_f"), "f", whole),
        "gradient": Call(solver.get_function("nlp_grad_f"), "grad_f_x", whole),
        "constraints": Call(solver.get_function("nlp_g"), "g", whole),
        "jacobian": Call(solver.get_function("nlp_jac_g"), "jac_g_x", whole),
        "hessian": Call(solver.get_function("nlp_hess_l"), "hess_gamma_x_x", whole),
    }
    spread = csr_array((np.ones(x.size), (np.arange(x.size), source)), shape=(x.size, z.size))
    theirs = {
        "cost": lambda: call["cost"].matrix.toarray().ravel(),
        "gradient": lambda: spread.T @ call["gradient"].matrix.toarray().ravel(),
        "constraints": lambda: call["constraints"].matrix.toarray().ravel()[rows],
        "jacobian": lambda: call["jacobian"].matrix[rows] @ spread,
        "hessian": lambda: spread.T @ call["hessian"].matrix @ spread,
    }
    ours = ours_at(problem, z, multipliers)
    return {name: Callback(call[name], theirs[name], ours[name]) for name in call}


class Call:
    """A function of CasADi without conversions: it reads and writes memory that is made once."""

    def __init__(self, function: Any, output: str, arguments: Sequence[Array]) -> None:
        [self.number] = [k for k, name in enumerate(function.name_out()) if name.endswith(output)]
        self.function, self.values = function, np.zeros(function.nnz_out(self.number))
        self.arguments = arguments[: function.n_in()]
        self.buffer, self.evaluate = function.buffer()
        for k, given in enumerate(self.arguments):
            self.buffer.set_arg(k, memoryview(given))
        self.buffer.set_res(self.number, memoryview(self.values))

    def __call__(self) -> Array:
        self.evaluate()
        return self.values

    @property
    def matrix(self) -> csr_array:
        """The output, evaluated; symmetric where only the upper triangle is known."""
        pattern = self.function.sparsity_out(self.number)
        rows, columns = map(np.array, pattern.get_triplet())
        found = csr_array((self(), (rows.astype(int), columns.astype(int))), shape=pattern.shape)
        if self.function.name_out(self.number).startswith("triu"):
            found = found + found.T - csr_array(diags_array(found.diagonal()))
        return found
