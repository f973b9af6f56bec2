"""Our nonlinear program in the words of CasADi and opty, by the same IPOPT."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array, lil_array, vstack
from solves import STORY, flat_equations, read_story

import kinesym as ks
from kinesym.codegen.kernel import Kernel
from kinesym.runtime.nlp.layout import FAMILIES
from kinesym.symbolic.names import name_of

Array = NDArray[np.float64]

SAME = 1e-12  # relative; of the functions at the guess


@dataclass(frozen=True)
class Solve:
    """One solve. linear : seconds in linear algebra, as IPOPT counts it. z : where it ended."""

    wall: float
    linear: float
    iterations: int
    objective: float
    z: Array
    failure: str = ""
    note: str = ""


# -- CasADi ---------------------------------------------------------------------------------------


def casadi_operations(ca: Any) -> dict[str, Callable[..., Any]]:
    """What the operations of our expression graph are called there."""
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


def casadi_function(ca: Any, kernel: Kernel) -> Any:
    """A kernel as a function of all its arguments at one point, one below the other."""
    graph, operations = kernel.graph, casadi_operations(ca)
    names = [symbol for argument in kernel.arguments for symbol in argument.symbols]
    point = ca.SX.sym("point", len(names))
    place, values = {name: k for k, name in enumerate(names)}, {}
    for node in kernel.nodes:
        op = graph.op[node]
        if op == "const":
            values[node] = ca.SX(graph.value[node])
        elif op == "sym":
            values[node] = point[place[graph.name[node]]]
        else:
            values[node] = operations[op](*(values[a] for a in graph.args[node]))
    outputs = ca.vertcat(*(values[node] for node in kernel.outputs))
    return ca.Function(kernel.name, [point], [outputs])


def casadi_mapped(
    ca: Any,
    problem: ks.Collocation,
    trial: int,
    kernel: Kernel,
    z: Any,
    moved: Callable[[Array], Array] = lambda index: index,
) -> Any:
    """The outputs of a kernel at all points of a trial, (outputs, points).

    moved : where in z its variables are, from where they are in our free vector, (variables,
    points)."""
    (family, what), nlp = kernel.name.split("_", 1), problem.nlp
    about = problem.program.description["collocation"]["families"][family]
    variables, n = {name for name, *_ in about["variables"]}, problem.layout.points(trial, family)
    places = np.arange(float(nlp.n_variables)), np.empty(nlp.n_constraints), np.ones(1)
    rows = []
    for name, values in nlp.arguments(trial, family, what, places).items():
        values = np.broadcast_to(values if values.ndim == 2 else values[:, None], (len(values), n))
        if name in variables:  # what was read are places in z
            index = moved(values.astype(int)).ravel(order="F").tolist()
            rows.append(ca.reshape(z[index], *values.shape))
        else:
            rows.append(ca.DM(values))
    return casadi_function(ca, kernel).map(n)(ca.vertcat(*rows))


def casadi_program(ca: Any, problem: ks.Collocation) -> dict[str, Any]:
    """The whole, with variables and constraints in our order."""
    z, cost, constraints = ca.MX.sym("z", problem.n_variables), 0, []
    kernels = {kernel.name: kernel for kernel in problem.program.kernels}
    for trial, family in product(range(len(problem.trials)), FAMILIES):
        if f"{family}_cost" in kernels:
            cost += ca.sum2(casadi_mapped(ca, problem, trial, kernels[f"{family}_cost"], z))
        if f"{family}_constraints" in kernels:
            values = casadi_mapped(ca, problem, trial, kernels[f"{family}_constraints"], z)
            constraints.append(ca.vec(values.T))
    return {"x": z, "f": cost, "g": ca.vertcat(*constraints)}


def check_same(problem: ks.Collocation, z: Array, cost: float, constraints: Array) -> None:
    """Refuses another nonlinear program: its functions at z must be ours."""
    ours = np.append(problem.cost(z), problem.constraints(z))
    theirs = np.append(cost, constraints)
    for what, part in (("objective", slice(0, 1)), ("constraints", slice(1, None))):
        scale = max(1.0, float(np.max(np.abs(ours[part]))), float(np.max(np.abs(z))))
        difference = float(np.max(np.abs(theirs[part] - ours[part]))) / scale
        if not difference <= SAME:
            raise ValueError(f"the {what} at the guess differ by {difference:.0e}")


def casadi_of(
    problem: ks.Collocation,
    z: Array,
    options: Mapping[str, Any],
    folder: str,
    expand: bool = False,
) -> tuple[float, Callable[[Array], Solve]]:
    """Seconds to build, and a function that solves the nonlinear program of `problem` from a free
    vector. Raises `ValueError` if its functions at z are not ours, and for delays.

    expand : all operations of all points one after the other, without calls: longer to build,
    shorter to solve."""
    import casadi as ca

    if problem.layout.delayed:
        raise ValueError("delays are not handed to CasADi")
    start = time.perf_counter()
    program, story = casadi_program(ca, problem), Path(folder) / "casadi.txt"
    settings = {
        f"ipopt.{name}": value
        for name, value in {**STORY, **options, "output_file": str(story)}.items()
    }
    settings |= {"print_time": False, "show_eval_warnings": False, "expand": expand}
    solver = ca.nlpsol("s", "ipopt", program, settings)
    build = time.perf_counter() - start
    functions = ca.Function("functions", [program["x"]], [program["f"], program["g"]])
    for point in (z, z + 0.01 * np.random.default_rng(0).random(z.size)):
        cost, constraints = functions(point)
        check_same(problem, point, float(cost), np.array(constraints).ravel())
    (low, high), (below, above) = problem.variable_bounds, problem.constraint_bounds

    def solve(z: Array) -> Solve:
        clock = time.perf_counter()
        found = solver(x0=z, lbx=low, ubx=high, lbg=below, ubg=above)
        wall, stats = time.perf_counter() - clock, solver.stats()
        failure = "" if stats["success"] else stats["return_status"]
        end = np.array(found["x"]).ravel()
        return Solve(wall, *read_story(story), float(found["f"]), end, failure)

    return build, solve


# -- opty -----------------------------------------------------------------------------------------

#: Our schemes that opty has, and its names for them.
OPTY_SCHEMES = {"backward-euler": "backward euler", "midpoint": "midpoint"}


def opty_lacks(problem: ks.Collocation) -> str:
    """What of a problem opty cannot say; empty if it can."""
    steps = np.diff(problem.trials[0].grid)
    lacks = {
        "this scheme": problem.symbolic.scheme.alias not in OPTY_SCHEMES,
        "several trials": len(problem.trials) > 1,
        "delays": bool(problem.model.delays),
        "path conditions": bool(problem.symbolic.path),
        "steps of different lengths": bool(np.ptp(steps) > 1e-6 * steps[0]),
    }
    return ", ".join(words for words, true in lacks.items() if true)


@dataclass(frozen=True)
class Variables:
    """Those of opty, as its collocator of our problem has them, and ours.

    It has inputs at the nodes, of which the midpoint rule takes means, and the length of a step
    where we have the duration.
    """

    problem: ks.Collocation
    theirs: Any

    @cached_property
    def nodes(self) -> int:
        return self.problem.layout.nodes[0]

    @cached_property
    def rows(self) -> list[tuple[int, Array]]:
        """Of each trajectory in our z, where it begins in theirs and where it has values, counted
        in steps."""
        every = [*self.theirs.state_symbols, *self.theirs.unknown_input_trajectories]
        begins, place = (
            {name_of(x): self.nodes * k for k, x in enumerate(every)},
            np.arange(self.nodes),
        )
        return [
            (begins[name], place if block.place is None else place[:-1] + block.place)
            for block in self.problem.layout.blocks
            for name in block.members
        ]

    @cached_property
    def lasts(self) -> list[int]:
        """Where they have our parameters and duration."""
        layout, symbols = self.problem.layout, [p.name for p in self.theirs.unknown_parameters]
        begin = self.theirs.num_free - len(symbols) - layout.free_duration
        found = [begin + symbols.index(name) for name in layout.parameters]
        return found + [self.theirs.num_free - 1] * layout.free_duration

    @cached_property
    def matrix(self) -> csr_array:
        """Makes our z of theirs."""
        parts = []
        for begin, at in self.rows:
            mean = np.maximum(1.0 - np.abs(at[:, None] - np.arange(self.nodes)), 0.0)
            part = lil_array((len(at), self.theirs.num_free))
            part[:, begin : begin + self.nodes] = mean
            parts.append(part)
        rest = lil_array((len(self.lasts), self.theirs.num_free))
        for row, column in enumerate(self.lasts):
            rest[row, column] = 1.0
        if self.problem.layout.free_duration:
            rest[-1, -1] = self.nodes - 1.0
        return vstack([*parts, rest], format="csr")

    def of(self, z: Array) -> Array:
        """Theirs from ours: straight lines through values within intervals."""
        free, row = np.zeros(self.theirs.num_free), 0
        for begin, at in self.rows:
            values = z[row : row + len(at)]
            free[begin : begin + self.nodes] = np.interp(np.arange(self.nodes), at, values)
            row += len(at)
        free[self.lasts] = z[row:]
        if self.problem.layout.free_duration:
            free[-1] /= self.nodes - 1.0
        return free


def opty_of(
    problem: ks.Collocation, z: Array, options: Mapping[str, Any], folder: str
) -> tuple[float, Callable[[Array], Solve]]:
    """As `casadi_of`. The objective and its gradient, which opty leaves to its user, are ours. It
    has no Hessian: IPOPT makes one of limited memory from gradients. Raises `ValueError` for what
    opty cannot say."""
    from opty import Problem

    words = opty_lacks(problem)
    if words:
        raise ValueError(f"opty has no {words}")
    start = time.perf_counter()
    theirs = Problem(
        lambda free: problem.cost(ours @ free),
        lambda free: ours.T @ problem.cost_gradient(ours @ free),
        parallel=False,
        tmp_dir=folder,
        **opty_statement(problem),
    )
    build, story = time.perf_counter() - start, Path(folder) / "opty.txt"
    variables = Variables(problem, theirs.collocator)
    ours = variables.matrix
    for option, value in {**STORY, **options, "output_file": str(story)}.items():
        theirs.add_option(option, value)
    free = variables.of(z)
    check_same(problem, ours @ free, theirs.obj(free), theirs.con(free))

    def solve(z: Array) -> Solve:
        clock = time.perf_counter()
        free, info = theirs.solve(variables.of(z))
        wall = time.perf_counter() - clock
        failure = "" if info["status"] in (0, 1) else info["status_msg"].decode()
        return Solve(wall, *read_story(story), float(info["obj_val"]), ours @ free, failure)

    return build, solve


def opty_statement(problem: ks.Collocation) -> dict[str, Any]:
    """All of a problem but its objective, as arguments of opty's."""
    model, (trial,), layout = problem.model, problem.trials, problem.layout
    equations, nodes = flat_equations(model), layout.nodes[0]
    free = trial.duration is not None
    step = sp.Symbol("step") if free else float(trial.grid[1] - trial.grid[0])
    ends = {ks.at_start: 0 * step, ks.at_end: (nodes - 1) * step}

    def instance(condition: sp.Expr) -> sp.Expr:
        found = condition.atoms(ks.at_start, ks.at_end)
        points = {point: point.args[0].func(ends[type(point)]) for point in found}
        return condition.xreplace({**points, sp.pi: sp.pi.evalf(17)})

    used = [p for p in model.parameters if p in equations.free_symbols]
    (low, high), values = problem.variable_bounds, problem.problem.known[0]
    bounds, row = {}, 0
    for block in layout.blocks:
        for name in block.members:
            bounds[ks.dynamicsymbols(name)] = low[row], high[row]
            row += block.count(nodes)
    for k, name in enumerate(layout.parameters):
        bounds[sp.Symbol(name)] = low[row + k], high[row + k]
    if free:
        bounds[step] = low[-1] / (nodes - 1), high[-1] / (nodes - 1)
    return {
        "equations_of_motion": sp.Matrix(equations),
        "state_symbols": model.states,
        "num_collocation_nodes": nodes,
        "node_time_interval": step,
        "known_parameter_map": {p: values[p.name] for p in used if p.name in values},
        "known_trajectory_map": {
            u: trial.inputs[name_of(u)] for u in model.inputs if name_of(u) in trial.inputs
        },
        "instance_constraints": tuple(map(instance, problem.symbolic.boundary)) or None,
        "bounds": bounds,
        "time_symbol": ks.t,
        "integration_method": OPTY_SCHEMES[problem.symbolic.scheme.alias],
    }
