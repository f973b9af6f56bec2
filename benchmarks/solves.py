"""How long does an identification take, from equations to parameters, against opty and CasADi?

- `standing`: 8 feedback gains of a simulated minute or more of noisy standing, from zero gains;
- `n_link_n`: all masses, lengths and g of n links on a cart, from values that are 5 % off.
All solve the same nonlinear program with the same IPOPT: midpoint scheme, sum of squared
differences to noisy states at the nodes, measured states as the guess, tolerance 1e-8. Each solve
has a process of its own, so that its peak memory is its own and a crash is a line of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from peers.by_casadi import Entries
from peers.programs import NAN, QAMD, STORY, flat_equations, read_story
from record import Table, table
from report import (
    in_process,
    ipopt_libraries,
    leave,
    machine,
    number,
    parsed,
    peak_memory,
    ratio,
    same_ipopt,
)

import kinesym as ks
from kinesym.examples.standing import GAINS, STATES, add_noise, simulate
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.library.tiers import TIER_VARIABLE

Array = NDArray[np.float64]

PROBLEMS = ("standing", "n_link_1", "n_link_2", "n_link_5", "n_link_10")
NODES = {"standing": (600, 6000, 60000), "n_link_10": (3000,)}  # fewer do not tell 22 parameters
CHAIN_NODES, LARGE = (1000, 3000), 1_000_000
AGREEMENT = 1e-6  # relative; larger differences of objective or parameters are marked
SCALE = 100.0  # of the gains, for opty: about their size
SOLVES, LONG = 5, 10.0  # times each is solved; once what takes more seconds


@dataclass(frozen=True)
class Case:
    """An identification with numbers: n states at N nodes, r unknown parameters.

    u : (N,), the only input. measured : (n, N), also the guess. guess : (r,). bounds : of all r.
    """

    model: ks.Model
    unknown: list[str]
    bounds: tuple[float, float] | None
    time: Array
    u: Array
    measured: Array
    guess: Array

    @property
    def step(self) -> float:
        return float(self.time[1] - self.time[0])

    @property
    def known(self) -> dict[sp.Symbol, float]:
        model = self.model
        return {p: model.values[p.name] for p in model.parameters if p.name not in self.unknown}

    @property
    def limits(self) -> tuple[float, float]:
        return self.bounds or (-np.inf, np.inf)


@dataclass(frozen=True)
class Solve:
    """One solve. Times in seconds; linear : in linear algebra, as IPOPT counts it."""

    wall: float
    cpu: float
    linear: float
    iterations: int
    objective: float
    parameters: list[float]  # in the order of the case
    failure: str = ""
    note: str = ""


@dataclass
class Row:
    """Medians of one contender. memory : peak [MB] of its process, Python and packages included."""

    problem: str
    nodes: int
    contender: str
    build: float = NAN
    wall: float = NAN
    cpu: float = NAN
    linear: float = NAN
    iterations: int = -1
    memory: float = NAN
    objective: float = NAN
    parameters: list[float] = field(default_factory=list)
    solves: int = 0
    failure: str = ""
    note: str = ""
    ipopt: list[str] = field(default_factory=list)  # its library, for: all have the same?
    difference: float = NAN  # from the first contender that succeeded, relative


# -- the problems ---------------------------------------------------------------------------------


def make_model(problem: str) -> ks.Model:
    if problem == "standing":
        return ks.models.standing()
    return ks.models.n_link_pendulum_on_cart(int(problem.removeprefix("n_link_")))


def make_numbers(problem: str, nodes: int) -> dict[str, Array]:
    """Reproducible numbers of a case, which all contenders read from the same file."""
    if problem == "standing":
        grid, clean = simulate(nodes)
        noisy, guess = add_noise(clean, seed=1), np.zeros(len(GAINS))
        return {
            "time": grid,
            "u": clean["a"],
            "guess": guess,
            "measured": np.stack([noisy[name] for name in STATES]),
        }
    model, rng, grid = make_model(problem), np.random.default_rng(0), 0.001 * np.arange(nodes)
    u = sum(rng.uniform(5.0, 15.0) * np.sin(w * grid) for w in (1.3, 2.9, 5.1))
    links = [name for name in model.state_names if name.startswith("q_") and name != "q_0"]
    start = {name: 0.1 if name in links else 0.0 for name in model.state_names}
    run = ks.simulate(model, grid, start, inputs={"F": u}, substeps=4)
    clean = np.stack([run[name] for name in model.state_names])
    true = np.array([model.values[p] for p in model.parameter_names])
    return {
        "time": grid,
        "u": u,
        "guess": true * rng.uniform(0.95, 1.05, true.size),
        "measured": clean + 0.001 * rng.standard_normal(clean.shape),
    }


def make_case(problem: str, numbers: dict[str, Array]) -> Case:
    model, standing = make_model(problem), problem == "standing"
    unknown = list(GAINS if standing else model.parameter_names)
    return Case(model, unknown, None if standing else (0.01, 100.0), **numbers)


# -- the contenders -------------------------------------------------------------------------------

Contender = Callable[[Case, int, str], tuple[float, Callable[[], Solve]]]


def collocation(case: Case, threads: int, homotopy: str | None = None) -> ks.Collocation:
    """One weight for all that is measured, as others have it."""
    names = case.model.state_names
    measured = dict(zip(names, case.measured, strict=True))
    inputs = {case.model.input_names[0]: case.u}
    trial = ks.Experiment(
        case.time, inputs=inputs, measurements=measured, std=dict.fromkeys(names, "all")
    )
    unknown = dict.fromkeys(case.unknown, case.bounds)
    options: dict[str, Any] = {"scheme": "midpoint", "threads": threads, "homotopy": homotopy}
    return ks.Collocation(case.model, trial, unknown=unknown, **options)


def kinesym_solver(
    linear_solver: str, driver: str, case: Case, threads: int, folder: str
) -> tuple[float, Callable[[], Solve]]:
    """Seconds to build, and a function that solves."""
    start = time.perf_counter()
    problem = collocation(case, threads)
    build = time.perf_counter() - start
    guess = dict(zip(case.unknown, case.guess, strict=True))

    def solve() -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        found = problem.solve(
            guess,
            tolerance=STORY["tol"],
            linear_solver=linear_solver,
            driver=driver,
            progress=False,
        )
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        return Solve(
            wall,
            cpu,
            found.timings.get("linear solver", NAN),
            found.iterations,
            found.objective,
            [found.parameters[name] for name in case.unknown],
            "" if found.success else found.message,
            found.linear_solver if "gave up" in found.linear_solver else "",
        )

    return build, solve


def opty_solver(
    scale: float, case: Case, threads: int, folder: str
) -> tuple[float, Callable[[], Solve]]:
    """Unknown parameters are written as `scale` times what opty seeks. It has no Hessian: IPOPT
    makes one of limited memory from gradients."""
    from opty import Problem

    model, n, nodes = case.model, case.measured.size, len(case.time)
    equations = flat_equations(model)
    symbols = [p for p in model.parameters if p.name in case.unknown]
    if scale != 1.0:
        equations = equations.xreplace({p: sp.Float(scale) * p for p in symbols})
    start = time.perf_counter()
    problem = Problem(
        lambda free: float(np.sum((free[:n] - case.measured.ravel()) ** 2)),
        lambda free: np.append(2.0 * (free[:n] - case.measured.ravel()), np.zeros(len(symbols))),
        equations,
        model.states,
        nodes,
        case.step,
        known_parameter_map=case.known,
        known_trajectory_map={model.inputs[0]: case.u},
        time_symbol=ks.t,
        integration_method="midpoint",
        parallel=threads > 1,
        bounds={p: tuple(np.array(case.bounds) / scale) for p in symbols} if case.bounds else None,
        tmp_dir=folder,
    )
    build = time.perf_counter() - start
    order = [case.unknown.index(p.name) for p in problem.collocator.unknown_parameters]
    story = Path(folder) / "opty.txt"
    for name, value in {**STORY, "output_file": str(story)}.items():
        problem.add_option(name, value)
    free = np.concatenate([case.measured.ravel(), case.guess[order] / scale])

    def solve() -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        z, info = problem.solve(free)
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        linear, iterations = read_story(story)
        values = np.empty(len(order))
        values[order] = scale * z[n:]
        failure = "" if info["status"] in (0, 1) else info["status_msg"].decode()
        return Solve(
            wall, cpu, linear, iterations, float(info["obj_val"]), values.tolist(), failure
        )

    return build, solve


def casadi_solver(
    expand: bool, blocks: bool, options: dict[str, Any], case: Case, threads: int, folder: str
) -> tuple[float, Callable[[], Solve]]:
    """The equations of an interval as an SX function, mapped over the intervals; with `expand`,
    all intervals unrolled, which takes longer to build and less to evaluate; with `blocks`,
    derivatives of the interval are mapped and put together by hand, which is fast in both."""
    import casadi as ca

    start = time.perf_counter()
    n, nodes = case.measured.shape
    x, p = ca.MX.sym("x", n, nodes), ca.MX.sym("p", len(case.unknown))
    way = ("thread", threads) if threads > 1 else ("serial",)
    interval = casadi_interval(ca, case)
    every = interval.map(nodes - 1, *way)
    u = ca.DM(case.u).T
    residuals = every(x[:, :-1], x[:, 1:], u[:, :-1], u[:, 1:], ca.repmat(p, 1, nodes - 1))
    program = {
        "x": ca.veccat(x, p),
        "f": ca.sumsqr(x - ca.DM(case.measured)),
        "g": ca.vec(residuals),
    }
    story = Path(folder) / "casadi.txt"
    settings = {
        f"ipopt.{name}": value
        for name, value in {**STORY, **options, "output_file": str(story)}.items()
    }
    settings.update(expand=expand, print_time=False)
    if blocks:
        settings.update(casadi_derivatives(ca, interval, way, case))
    solver = ca.nlpsol("s", "ipopt", program, settings)
    build = time.perf_counter() - start
    low, high = np.full((2, program["x"].numel()), [[-np.inf], [np.inf]])
    low[n * nodes :], high[n * nodes :] = case.limits
    guess = np.concatenate([case.measured.ravel(order="F"), case.guess])

    def solve() -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        found = solver(x0=guess, lbx=low, ubx=high, lbg=0.0, ubg=0.0)
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        stats, values = solver.stats(), np.array(found["x"]).ravel()[n * nodes :]
        failure = "" if stats["success"] else stats["return_status"]
        linear, iterations = read_story(story)
        return Solve(wall, cpu, linear, iterations, float(found["f"]), values.tolist(), failure)

    return build, solve


def casadi_interval(ca: Any, case: Case) -> Any:
    """The residuals of an interval by the midpoint rule, intermediates as such."""
    model, sizes = case.model, (len(case.measured),) * 2 + (1, 1, len(case.unknown))
    before, after, u, v, p = arguments = [
        ca.SX.sym(name, size) for name, size in zip("abuvp", sizes, strict=True)
    ]
    given: dict[sp.Basic, Any] = {**case.known, model.inputs[0]: 0.5 * (u + v)}
    given.update(
        {q: p[case.unknown.index(q.name)] for q in model.parameters if q.name in case.unknown}
    )
    for k, state in enumerate(model.states):
        given[state] = 0.5 * (before[k] + after[k])
        given[state.diff(ks.t)] = (after[k] - before[k]) / case.step
    words = [{"sin": ca.sin, "cos": ca.cos}]

    def value(expressions: Any) -> Any:
        return sp.lambdify(list(given), expressions, words, cse=True)(*given.values())

    for symbol, expression in model.intermediates:
        given[symbol] = value(expression)
    residuals = ca.vertcat(*value(list(model.equations)))
    return ca.Function("interval", arguments, [residuals], {"cse": True})


def casadi_derivatives(ca: Any, interval: Any, way: tuple[Any, ...], case: Case) -> dict[str, Any]:
    """Jacobian and Hessian of the whole, as CasADi's interface to IPOPT wants them."""
    (n, nodes), r = case.measured.shape, len(case.unknown)
    steps, size = nodes - 1, case.measured.size + r
    x, multipliers = ca.MX.sym("x", size), ca.MX.sym("m", n * steps)
    none, factor = ca.MX.sym("none", 0), ca.MX.sym("f")  # no parameters in CasADi's sense
    states, u = ca.reshape(x[:-r], n, nodes), ca.DM(case.u).T
    given = states[:, :-1], states[:, 1:], u[:, :-1], u[:, 1:], ca.repmat(x[-r:], 1, steps)
    residuals = ca.vec(interval.map(steps, *way)(*given))

    blocks = casadi_blocks(ca, interval)
    step, fixed = np.arange(steps)[:, None], np.arange(r) + n * nodes
    shared = np.concatenate([np.arange(2 * n) + n * step, np.tile(fixed, (steps, 1))], axis=1)
    (rows, columns), jacobian = blocks["jacobian"]
    entries = Entries((n * steps, size))
    places = (rows + n * step).T, shared[:, columns].T
    entries.add(*places, jacobian.map(steps, *way)(*given))
    first = ca.Function(
        "nlp_jac_g", [x, none], [residuals, entries.matrix], ["x", "p"], ["g", "jac_g_x"]
    )

    (rows, columns), hessian = blocks["hessian"]
    diagonal = np.arange(n * nodes)[None]  # of the objective
    entries = Entries((size, size))
    curvature = hessian.map(steps, *way)(*given, ca.reshape(multipliers, n, steps))
    entries.add(shared[:, rows].T, shared[:, columns].T, curvature)
    entries.add(diagonal, diagonal, ca.repmat(2.0 * factor, 1, n * nodes))
    second = ca.Function(
        "nlp_hess_l",
        [x, none, factor, multipliers],
        [entries.matrix],
        ["x", "p", "lam_f", "lam_g"],
        ["triu_hess_gamma_x_x"],
    )
    return {"jac_g": first, "hess_lag": second}


def casadi_blocks(ca: Any, interval: Any) -> dict[str, tuple[tuple[Any, Any], Any]]:
    """Rows and columns of the entries of both matrices of an interval, and the entries.

    Its variables are the states before and after and the parameters.
    """
    given = interval.sx_in()
    before, after, p = given[0], given[1], given[4]
    multipliers, variables = ca.SX.sym("m", before.numel()), ca.vertcat(before, after, p)
    residuals = interval(*given)
    jacobian = ca.jacobian(residuals, variables)
    hessian = ca.triu(ca.hessian(ca.dot(multipliers, residuals), variables)[0])
    result = {}
    for name, matrix, more in (("jacobian", jacobian, []), ("hessian", hessian, [multipliers])):
        places = tuple(map(np.array, matrix.sparsity().get_triplet()))
        entries = [ca.vertcat(*matrix.nonzeros())]
        result[name] = places, ca.Function(name, [*given, *more], entries, {"cse": True})
    return result


CONTENDERS: dict[str, Contender] = {
    "kinesym": partial(kinesym_solver, "time-structured", "direct"),
    "kinesym+mumps": partial(kinesym_solver, "mumps", "direct"),
    "kinesym+mumps+cyipopt": partial(kinesym_solver, "mumps", "cyipopt"),
    "opty": partial(opty_solver, 1.0),
    "opty+scaling": partial(opty_solver, SCALE),
    "casadi": partial(casadi_solver, False, False, {}),
    "casadi+qamd": partial(casadi_solver, False, False, QAMD),
    "casadi+qamd+expand": partial(casadi_solver, True, False, QAMD),
    "casadi+qamd+blocks": partial(casadi_solver, False, True, QAMD),
}


# -- one contender, in its own process ------------------------------------------------------------


def one(contender: str, problem: str, nodes: int, threads: int, data: str | None) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # empty: nothing was built before
        os.environ.pop(TIER_VARIABLE, None)  # as by default: interpreted, until that takes long
        numbers = dict(np.load(data)) if data else make_numbers(problem, nodes)
        build, solve = CONTENDERS[contender](make_case(problem, numbers), threads, folder)
        solves = [solve()]
        while len(solves) < SOLVES and solves[-1].wall <= LONG and not solves[-1].failure:
            solves.append(solve())
    last = solves[-1]
    middle = {name: median(getattr(s, name) for s in solves) for name in ("wall", "cpu", "linear")}
    return Row(
        problem,
        nodes,
        contender,
        build,
        **middle,
        iterations=last.iterations,
        memory=peak_memory(),
        objective=last.objective,
        parameters=last.parameters,
        solves=len(solves),
        failure=last.failure,
        note=last.note,
        ipopt=ipopt_libraries(),
    )


def apart(contender: str, problem: str, nodes: int, given: argparse.Namespace, data: str) -> Row:
    """The row of a contender, from a process of its own, whatever happens there."""
    command = [__file__, "--one", contender, problem, f"{nodes}", "--data", data]
    command += ["--threads", f"{given.threads}"]
    found, failure = in_process(command, given.limit, Path(data).parent)
    return Row(problem, nodes, contender, failure=failure) if failure else Row(**found)


# -- comparison and report ------------------------------------------------------------------------


def compare(rows: Sequence[Row]) -> str:
    """Sets the differences from the first success; says which are too large."""
    solved = [row for row in rows if not row.failure]
    for row in solved:
        first = np.array([solved[0].objective, *solved[0].parameters])
        values = np.array([row.objective, *row.parameters])
        row.difference = float(np.max(np.abs(values - first) / np.abs(first)))
    others = [row for row in solved[1:] if row.difference > AGREEMENT]
    words = [f"{row.contender} differs by {row.difference:.0e}" for row in others]
    return "; ".join(words) or f"{len(solved)} agree to {AGREEMENT:.0e}"


def measure(
    contenders: Sequence[str], problem: str, nodes: int, given: argparse.Namespace, folder: str
) -> list[Row]:
    data, rows = f"{folder}/{problem}_{nodes}.npz", []
    np.savez(data, **make_numbers(problem, nodes))
    for contender in contenders:
        row = apart(contender, problem, nodes, given, data)
        rows.append(row)
        print(f"  {contender:22} {summary(row)}", flush=True)
    print(f"{problem}, {nodes} nodes: {compare(rows)}", flush=True)
    Path(data).unlink()
    return rows


def summary(row: Row) -> str:
    if row.failure and np.isnan(row.wall):
        return f"failed: {row.failure}"
    words = (
        f"built in {number(row.build)} s, solved in {number(row.wall)} s "
        f"({row.iterations} iterations), {row.memory:.0f} MB"
    )
    return f"{words}, failed: {row.failure}" if row.failure else words


def lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Of the table; ratios are to the first contender of the same problem and size."""
    ours = {(row.problem, row.nodes): row for row in reversed(rows) if row.contender == "kinesym"}
    for row in rows:
        base = ours.get((row.problem, row.nodes), Row("", 0, ""))
        base = Row("", 0, "") if base.failure else base
        valid = NAN if row.failure else 1.0  # a time to no solution is no ratio
        whole = row.build + row.wall
        agreement = "-" if row is base else f"{row.difference:.0e}"
        if row.failure:
            agreement = f"failed: {row.failure}"
        elif row.difference > AGREEMENT:
            agreement = f"**{agreement}**"
        yield [
            row.problem,
            f"{row.nodes}",
            row.contender,
            number(row.build),
            f"{row.iterations}" if row.iterations >= 0 else "-",
            number(row.wall),
            ratio(valid * row.wall, base.wall),
            number(row.cpu),
            number(row.linear),
            number(whole),
            ratio(valid * whole, base.build + base.wall),
            number(row.memory),
            ratio(valid * row.memory, base.memory),
            agreement + (f"; {row.note}" if row.note else ""),
        ]


def report(rows: Sequence[Row]) -> list[str | Table]:
    header = [
        "problem",
        "nodes",
        "contender",
        "build [s]",
        "iterations",
        "solve [s]",
        "ratio",
        "CPU [s]",
        "linear algebra [s]",
        "build + solve [s]",
        "ratio",
        "memory [MB]",
        "ratio",
        "difference",
    ]
    return [same_ipopt(rows), table(header, lines(rows))]


def numbers(row: Row) -> dict[str, Any]:
    """A line of the raw numbers."""
    values = {k: v for k, v in asdict(row).items() if k != "ipopt"}
    return {**values, "parameters": " ".join(map(repr, row.parameters))}


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Seconds to solve over nodes, one panel per problem; what failed has no dot."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    problems = list(dict.fromkeys(row.problem for row in rows))
    fig, axes = plt.subplots(
        1,
        len(problems),
        figsize=(2.0 + 3.2 * len(problems), 4.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, problem in zip(axes[0], problems, strict=True):
        for k, contender in enumerate(CONTENDERS):
            if contender not in {row.contender for row in rows}:
                continue
            points = [
                (row.nodes, row.wall)
                for row in rows
                if not row.failure and (row.problem, row.contender) == (problem, contender)
            ]
            style = {"color": f"C{k}", "marker": "osv^<>DxP"[k], "ms": 5}
            axis.loglog(
                *(zip(*points, strict=True) if points else ([], [])),
                label=contender,
                lw=2.5 if k == 0 else 1.2,
                **style,
            )
        axis.set(title=problem, xlabel="nodes")
        sizes = sorted({row.nodes for row in rows if row.problem == problem})
        axis.xaxis.set_minor_locator(plt.NullLocator())
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axis.set_xlim(0.7 * sizes[0], 1.5 * sizes[-1])
        axis.grid(True, which="both", alpha=0.3)
    axes[0][0].set_ylabel("seconds to solve")
    handles, labels = axes[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center", fontsize="small")
    fig.savefig(path, dpi=120)
    plt.close(fig)


# -- command line ---------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=PROBLEMS, metavar="NAME", help="standing, n_link_1, ..."
    )
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        metavar="N",
        help="default: 600 6000 60000 for standing, 1000 3000 for chains, 3000 for 10 links",
    )
    parser.add_argument("--large", action="store_true", help="a million nodes, kinesym only")
    parser.add_argument("--long", action="store_true", help="opty for all sizes")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds for each process (default: 300)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--one",
        nargs=3,
        metavar=("CONTENDER", "PROBLEM", "N"),
        help="only this, in this process; prints JSON",
    )
    parser.add_argument("--data", metavar="FILE", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.quick:
        given.problems, given.nodes = ["standing", "n_link_1"], [600]
    return given


def plan(given: argparse.Namespace) -> Iterator[tuple[str, int, list[str]]]:
    """Problems and nodes with the contenders that are worth their time."""
    for problem in given.problems:
        standing = problem == "standing"
        for nodes in given.nodes or NODES.get(problem, CHAIN_NODES):
            size = nodes if standing else int(problem.removeprefix("n_link_"))
            patient = given.long or size <= (6000 if standing else 5)
            left_out = set() if patient else {"opty"}
            left_out |= set() if standing else {"opty+scaling"}  # chains: all are near 1
            left_out |= {"opty", "opty+scaling"} if given.quick and standing else set()
            yield problem, nodes, [c for c in given.contenders if c not in left_out]
        if standing and given.large:
            yield problem, LARGE, [c for c in given.contenders if c == "kinesym"]


def main() -> None:
    given = arguments()
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits opty best
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(given.threads)
    if given.one:
        contender, problem, nodes = given.one
        row = one(contender, problem, int(nodes), given.threads, given.data)
        print("\n" + json.dumps(asdict(row)))
        return
    words = machine("opty", "casadi")
    print(words)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for problem, nodes, contenders in plan(given):
            rows += measure(contenders, problem, nodes, given, folder)
    for path in leave(given, "solves", words, report(rows), list(map(numbers, rows))):
        draw(path, rows)


if __name__ == "__main__":
    main()
