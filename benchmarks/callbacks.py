"""How long do the callbacks of the nonlinear program take, against opty and CasADi?

Cost, its gradient, constraints, their Jacobian and the Hessian of the Lagrangian of
- `standing`: 8 unknown gains, known platform acceleration;
- `n_link`: chains of n links on a cart, all masses, lengths and g unknown, known force.
All packages get the same equations, midpoint scheme, data and objective (sum of squared
differences to "measured" states at the nodes) and must return the same numbers before any is timed.
opty has no Hessian. CasADi's matrices are the entries of all intervals, one interval after the
other; adding up those with the same place, as IPOPT wants them, is not in its times.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import solves
from numpy.typing import NDArray
from peers.by_casadi import Call
from peers.programs import NAN, flat_equations
from record import Table, table
from report import leave, machine, number, parsed, ratio
from scipy.sparse import coo_array, csr_array

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE, find_compiler

Array = NDArray[np.float64]

PACKAGES = ("kinesym", "opty", "CasADi")
CALLBACKS = ("cost", "gradient", "constraints", "jacobian", "hessian")
STEP = 1.0 / 64.0  # s; a power of two, so that differences of the time grid are exact
TOLERANCE = 1e-9  # largest difference between the packages, relative to the largest entry


@dataclass(frozen=True)
class Case:
    """A problem with numbers: n states at N nodes, r unknown parameters in the model's order.

    z : states (n, N), then parameters. multipliers : (n, N - 1), of the constraints.
    """

    model: ks.Model
    unknown: list[str]
    time: Array
    inputs: dict[str, Array]
    measured: Array
    z: Array
    multipliers: Array


@dataclass
class Side:
    """One package: callbacks without arguments, how many numbers each returns, seconds to build.

    values : functions that call and return an array or sparse matrix in kinesym's order; of the
    Hessian the lower triangle.
    """

    build: float = NAN
    calls: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Callable[[], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """By package: medians [ms] of a callback and how many numbers it returns, or build times."""

    model: str
    nodes: int
    threads: int
    callback: str  # or "build", then in s
    times: Mapping[str, float]
    sizes: Mapping[str, int | None]


# -- the problems -------------------------------------------------------------------------------


def make_case(model: ks.Model, nodes: int) -> Case:
    """Random but reproducible numbers of the size of the real ones."""
    rng = np.random.default_rng(nodes)
    names = model.parameter_names
    unknown = [p for p in names if p.startswith("k_")] if model.name == "standing" else [*names]
    states = 0.5 * rng.standard_normal((len(model.states), nodes))
    values = np.array([model.values[p] for p in unknown]) * rng.uniform(0.9, 1.1, len(unknown))
    return Case(
        model=model,
        unknown=unknown,
        time=np.arange(nodes) * np.float64(STEP),
        inputs={name: rng.standard_normal(nodes) for name in model.input_names},
        measured=states + 0.1 * rng.standard_normal(states.shape),
        z=np.concatenate([states.ravel(), values]),
        multipliers=rng.standard_normal((len(states), nodes - 1)),
    )


# -- the packages -------------------------------------------------------------------------------


def kinesym_side(case: Case, threads: int, folder: str) -> Side:
    start = time.perf_counter()
    measured = dict(zip(case.model.state_names, case.measured, strict=True))
    trial = ks.Experiment(case.time, inputs=case.inputs, measurements=measured)
    problem = ks.Collocation(
        case.model, trial, unknown=dict.fromkeys(case.unknown), scheme="midpoint", threads=threads
    )
    build = time.perf_counter() - start
    nlp, z, multipliers = problem.nlp, case.z, case.multipliers.ravel()
    calls = {"cost": partial(nlp.cost, z)}  # the others into arrays made once, as IPOPT has them
    calls["gradient"] = partial(nlp.gradient, z, np.empty(nlp.n_variables))
    calls["constraints"] = partial(nlp.constraints, z, np.empty(nlp.n_constraints))
    calls["jacobian"] = partial(nlp.jacobian, z, np.empty(nlp.jacobian_structure.size))
    values = np.empty(nlp.hessian_structure.size)
    hessian = calls["hessian"] = partial(nlp.hessian, z, multipliers, 1.0, values)
    sizes = _sizes(len(z), nlp.n_constraints, nlp.jacobian_structure.size)
    sizes["hessian"] = nlp.hessian_structure.size
    places, shape = nlp.hessian_structure.arrays(), (len(z), len(z))
    read = {
        **calls,
        "jacobian": partial(problem.constraint_jacobian, z),
        "hessian": lambda: coo_array((hessian(), places), shape=shape).tocsr(),
    }
    return Side(build, calls, sizes, read)


def opty_side(case: Case, threads: int, folder: str) -> Side:
    """opty keeps what it compiled in `folder`; without opty, a side that can do nothing."""
    try:
        from opty import Problem
    except ImportError:
        return Side()
    model, nodes = case.model, len(case.time)
    equations = flat_equations(model)
    start = time.perf_counter()
    problem = Problem(
        *_least_squares(case.measured.ravel(), len(case.z)),
        equations,
        model.states,
        nodes,
        STEP,
        known_parameter_map={
            p: model.values[p.name] for p in model.parameters if p.name not in case.unknown
        },
        known_trajectory_map={u: case.inputs[u.name] for u in model.inputs},
        time_symbol=ks.t,
        integration_method="midpoint",
        parallel=threads > 1,
        tmp_dir=folder,
    )
    build = time.perf_counter() - start
    order = [case.unknown.index(p.name) for p in problem.collocator.unknown_parameters]
    n = case.measured.size
    place = np.concatenate([np.arange(n), n + np.array(order)])  # its free vector is z[place]
    free, (rows, columns) = case.z[place], problem.jacobianstructure()
    calls = {name: partial(getattr(problem, name), free) for name in CALLBACKS[1:-1]}
    calls["cost"] = partial(problem.objective, free)
    sizes = _sizes(len(free), problem.num_constraints, len(rows))
    places, shape = (rows, place[columns]), (problem.num_constraints, len(free))
    read = {
        **calls,
        "gradient": lambda: calls["gradient"]()[np.argsort(place)],
        "jacobian": lambda: coo_array((calls["jacobian"](), places), shape=shape).tocsr(),
    }
    return Side(build, calls, sizes, read)


def _least_squares(
    measured: Array, n_free: int
) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """Objective and gradient as users of opty write them."""
    n = measured.size

    def objective(free: Array) -> float:
        return float(np.sum((free[:n] - measured) ** 2))  # no BLAS: it would bring its own threads

    def gradient(free: Array) -> Array:
        result = np.zeros(n_free)
        result[:n] = 2.0 * (free[:n] - measured)
        return result

    return objective, gradient


def _sizes(free: int, constraints: int, jacobian: int) -> dict[str, int]:
    return {"cost": 1, "gradient": free, "constraints": constraints, "jacobian": jacobian}


def casadi_side(case: Case, threads: int, folder: str) -> Side:
    """Functions of an interval and their loops over all intervals, generated to C and compiled;
    with more threads the loops are OpenMP's. Without CasADi or OpenMP, a side that can do nothing.
    """
    try:
        import casadi as ca
    except ImportError:
        return Side()
    flags = ["-fopenmp"] if threads > 1 else []
    start = time.perf_counter()
    functions, places = casadi_functions(ca, case, "openmp" if threads > 1 else "serial")
    try:
        library = casadi_build(ca, tempfile.mkdtemp(dir=folder), [*functions.values()], flags)
    except subprocess.CalledProcessError:
        if not flags:
            raise
        return Side()
    compiled = {name: ca.external(f.name(), library) for name, f in functions.items()}
    return casadi_bound(compiled, places, time.perf_counter() - start, case)


def casadi_bound(
    functions: Mapping[str, Any],
    places: Mapping[str, tuple[Any, Any]],
    build: float,
    case: Case,
) -> Side:
    """Functions of CasADi, bound to the numbers of a case."""
    n, nodes = case.measured.shape
    x, u = case.z[: n * nodes].reshape(n, nodes).T.ravel(), case.inputs[case.model.input_names[0]]
    p = np.tile(case.z[n * nodes :], nodes - 1)
    squares, given = (x, case.measured.T.ravel()), (x[:-n], x[n:], u[:-1], u[1:], p)
    arguments = {
        "cost": squares,
        "gradient": squares,
        "constraints": given,
        "jacobian": given,
        "hessian": (*given, case.multipliers.T.ravel()),
    }
    calls = {name: Call(f, "", arguments[name]) for name, f in functions.items()}
    sizes = {name: f.nnz_out(0) for name, f in functions.items()}
    return Side(build, calls, sizes, casadi_values(calls, places, case))


def casadi_functions(
    ca: Any, case: Case, way: str
) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]]]:
    """Callbacks, and rows and columns of the matrices' entries within an interval.

    The states are ordered node by node, so that those before and after an interval need no copy.
    """
    model, (n, nodes) = case.model, case.measured.shape
    interval = solves.casadi_interval(
        ca,
        solves.Case(
            model,
            case.unknown,
            None,
            case.time,
            case.inputs[model.input_names[0]],
            case.measured,
            case.z[n * nodes :],
        ),
    )
    blocks = solves.casadi_blocks(ca, interval)
    every = {"constraints": interval, **{name: f for name, (_, f) in blocks.items()}}
    x, xm = ca.SX.sym("x", n), ca.SX.sym("xm", n)
    node = ca.Function("gradient", [x, xm], [ca.gradient(ca.sumsqr(x - xm), x)])
    x, xm = ca.MX.sym("x", n * nodes), ca.MX.sym("xm", n * nodes)
    functions = {"cost": ca.Function("cost", [x, xm], [ca.sumsqr(x - xm)])}
    functions["gradient"] = node.map(nodes)  # as the cost, too short for threads
    with redirect_stderr(io.StringIO()):  # a warning that CasADi's own loop has no OpenMP
        functions.update({name: f.map(nodes - 1, way) for name, f in every.items()})
    return functions, {name: place for name, (place, _) in blocks.items()}


def casadi_build(ca: Any, folder: str, functions: Sequence[Any], flags: Sequence[str]) -> str:
    """The library, compiled with the flags that opty gets, too."""
    generator, path = ca.CodeGenerator("callbacks"), Path(folder, "callbacks.c")
    for function in functions:
        generator.add(function)
    path.write_text(generator.dump(), encoding="utf-8")
    library, flags = str(path.with_suffix(".so")), [*shlex.split(os.environ["CFLAGS"]), *flags]
    command = [*find_compiler().command, *flags, "-fPIC", "-shared", str(path), "-lm"]
    subprocess.run([*command, "-o", library], check=True)
    return library


def casadi_values(
    calls: Mapping[str, Callable[[], Array]], places: Mapping[str, tuple[Any, Any]], case: Case
) -> dict[str, Callable[[], Any]]:
    """From CasADi's order, by nodes, to kinesym's, by states and equations."""
    (n, nodes), size = case.measured.shape, len(case.z)
    steps, grid = nodes - 1, np.arange(n * nodes).reshape(n, nodes)
    fixed = np.tile(np.arange(n * nodes, size), (steps, 1))
    variables = np.concatenate([grid[:, :-1].T, grid[:, 1:].T, fixed], axis=1)
    equations = np.arange(n * steps).reshape(n, steps).T

    def jacobian() -> csr_array:
        rows, columns = places["jacobian"]
        entries = calls["jacobian"](), (equations[:, rows].ravel(), variables[:, columns].ravel())
        return coo_array(entries, shape=(n * steps, size)).tocsr()

    def hessian() -> csr_array:
        pairs = np.stack([variables[:, place].ravel() for place in places["hessian"]])
        rows, columns = (np.append(k, grid) for k in (pairs.max(axis=0), pairs.min(axis=0)))
        entries = np.append(calls["hessian"](), np.full(grid.size, 2.0))  # of the cost
        return coo_array((entries, (rows, columns)), shape=(size, size)).tocsr()

    def gradient() -> Array:
        return np.append(calls["gradient"]().reshape(nodes, n).T, np.zeros(size - n * nodes))

    def constraints() -> Array:
        return calls["constraints"]().reshape(steps, n).T.ravel()

    return {
        "cost": calls["cost"],
        "gradient": gradient,
        "constraints": constraints,
        "jacobian": jacobian,
        "hessian": hessian,
    }


# -- comparison and timing ----------------------------------------------------------------------


def verify(sides: Mapping[str, Side]) -> str:
    """Largest relative differences in words; raises `ValueError` if one is too large."""
    ours, worst = sides["kinesym"], dict.fromkeys(CALLBACKS, 0.0)
    present = [package for package in sides if sides[package].values]
    for package in present[1:]:
        for name, values in sides[package].values.items():
            theirs = np.atleast_1d(values()) if name == "cost" else values()
            error = float(abs(ours.values[name]() - theirs).max() / abs(theirs).max())
            worst[name] = max(worst[name], error)
            if not error <= TOLERANCE:
                raise ValueError(
                    f"{name}: kinesym and {package} differ by {error:.1e} of the largest entry"
                )
    if len(present) == 1:
        return "no other package is here: nothing compared"
    words = ", ".join(f"{name} {error:.0e}" for name, error in worst.items())
    return f"same numbers of {', '.join(present)}: {words}"


def medians(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Median time of each [ms], in turns: 30 each, or fewer (at least 5) once each took 0.5 s."""
    samples: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for turn in range(30):
        for call, times in zip(calls, samples, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        if turn >= 4 and min(map(sum, samples)) >= 0.5:
            break
    return [1e3 * median(times) for times in samples]


def compare(sides: Mapping[str, Side], case: Case, threads: int) -> list[Row]:
    rows = []
    for name in CALLBACKS:
        calls = {package: side.calls[name] for package, side in sides.items() if name in side.calls}
        found = dict(zip(calls, medians([*calls.values()]), strict=True))
        times = {package: found.get(package, NAN) for package in sides}
        sizes = {package: side.sizes.get(name) for package, side in sides.items()}
        rows.append(Row(case.model.name, len(case.time), threads, name, times, sizes))
        print(f"  {name:12} {words(times, 'ms')}", flush=True)
    return rows


def words(times: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{package} {number(value):>8} {unit}" for package, value in times.items())


def measure(
    model: ks.Model, nodes: Iterable[int], threads: Iterable[int], folder: str
) -> list[Row]:
    """The row of build times of a model, and those of its callbacks."""
    rows: list[Row] = []
    for n_threads in threads:
        for n_nodes in sorted(nodes):
            case = make_case(model, n_nodes)
            makers = zip(PACKAGES, (kinesym_side, opty_side, casadi_side), strict=True)
            sides = {package: make(case, n_threads, folder) for package, make in makers}
            if not rows:  # nothing was cached
                build = {package: side.build for package, side in sides.items()}
                rows.append(Row(model.name, n_nodes, n_threads, "build", build, {}))
            print(f"{model.name}, {n_nodes} nodes, {n_threads} thread(s): {verify(sides)}")
            rows += compare(sides, case, n_threads)
    print(f"  built: {words(rows[0].times, 's')}", flush=True)
    return rows


# -- the report ---------------------------------------------------------------------------------


def times_table(rows: Sequence[Row]) -> Table:
    header = ["model", "nodes", "callback", "numbers", "opty's", "CasADi's"]
    for n in sorted({row.threads for row in rows}):
        header += [f"kinesym, {n} thread{'s' if n > 1 else ''} [ms]"]
        header += [word for peer in PACKAGES[1:] for word in (f"{peer} [ms]", "ratio")]
    merged: dict[tuple[str, int, str], list[str]] = {}
    for row in rows:
        key = (row.model, row.nodes, row.callback)
        sizes = ["-" if size is None else f"{size}" for size in row.sizes.values()]
        line = merged.setdefault(key, [row.model, f"{row.nodes}", row.callback, *sizes])
        line += cells(row)
    return table(header, merged.values())


def cells(row: Row) -> list[str]:
    """Our time, and each peer's with its ratio."""
    ours, *others = row.times.values()
    return [
        number(ours),
        *(word for value in others for word in (number(value), ratio(value, ours))),
    ]


def report(rows: Sequence[Row]) -> list[str | Table]:
    builds = [row for row in rows if row.callback == "build"]
    header = ["model", "kinesym [s]"]
    header += [word for peer in PACKAGES[1:] for word in (f"{peer} [s]", "ratio")]
    return [
        f"The peers' `CFLAGS` were `{os.environ['CFLAGS']}`.",
        times_table([row for row in rows if row.callback != "build"]),
        "Time to build, nothing cached, fewest nodes, 1 thread:",
        table(header, [[row.model, *cells(row)] for row in builds]),
    ]


def numbers(row: Row) -> dict[str, Any]:
    """A line of the raw numbers."""
    line = {
        "model": row.model,
        "nodes": row.nodes,
        "threads": row.threads,
        "callback": row.callback,
        "unit": "s" if row.callback == "build" else "ms",
    }
    line.update(row.times)
    return {**line, **{f"numbers of {package}": row.sizes.get(package) for package in PACKAGES}}


def draw(path: Path, rows: Sequence[Row]) -> None:
    """One thread: time per node over links, at most nodes, and time over nodes for standing."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row.threads == 1]
    chains = [row for row in rows if row.model.startswith("n_link_")]
    most = max((row.nodes for row in chains), default=0)
    chains = [row for row in chains if row.nodes == most]
    standing = [row for row in rows if row.model == "standing"]
    fig, axes = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")
    lines(
        axes[0],
        chains,
        lambda row: int(row.model.removeprefix("n_link_")),
        lambda row: 1e3 / row.nodes,
    )
    lines(axes[1], standing, lambda row: row.nodes, lambda row: 1.0)
    axes[0].set(
        title=f"n links on a cart, {most:,} nodes, 1 thread",
        xlabel="links",
        ylabel="time per node [µs]",
    )
    axes[1].set(title="standing, 1 thread", xlabel="nodes", ylabel="time [ms]")
    links = {int(row.model.removeprefix("n_link_")) for row in chains}
    for axis, places in zip(axes, (links, {row.nodes for row in standing}), strict=True):
        axis.xaxis.set_minor_locator(plt.NullLocator())
        axis.set_xticks(sorted(places), [f"{n}" for n in sorted(places)])
    handles, labels = axes[1].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center", fontsize="small")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def lines(
    axis: Any, rows: Sequence[Row], x: Callable[[Row], int], factor: Callable[[Row], float]
) -> None:
    """A colour for each package and a kind of line for each callback."""
    kinds = {"hessian": ("s", "-"), "jacobian": ("o", "--"), "constraints": ("^", ":")}
    for name, (marker, style) in kinds.items():
        for k, package in enumerate(PACKAGES):
            points = [
                (x(row), factor(row) * row.times[package])
                for row in rows
                if row.callback == name and not np.isnan(row.times[package])
            ]
            if points:
                axis.loglog(
                    *zip(*points, strict=True),
                    color=f"C{k}",
                    marker=marker,
                    ls=style,
                    ms=5,
                    lw=2.2 if k == 0 else 1.2,
                    label=f"{package}, {name}",
                )
    axis.grid(True, which="both", alpha=0.3)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--links",
        type=int,
        nargs="*",
        default=list(range(1, 11)),
        metavar="n",
        help="chains to measure; default: 1 to 10",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        metavar="N",
        help="default: 1000 10000, and 60000 for standing",
    )
    parser.add_argument("--threads", type=int, default=2, help="compared with 1 (default: 2)")
    given = parsed(parser)
    if given.quick:
        given.links, given.nodes, given.threads = [1], [20], 1
    return given


def main() -> None:
    given = arguments()
    nodes = given.nodes or [1000, 10000]
    models = [(ks.models.standing(), given.nodes or [*nodes, 60000])]
    models += [(ks.models.n_link_pendulum_on_cart(n), nodes) for n in given.links]
    os.environ["OMP_NUM_THREADS"] = str(given.threads)  # opty and CasADi take the number from here
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits them best
    computer = machine("opty", "casadi")
    print(computer)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for model, sizes in models:
            own = tempfile.mkdtemp(dir=folder)
            rows += measure(model, sizes, sorted({1, given.threads}), own)
    for path in leave(given, "callbacks", computer, report(rows), list(map(numbers, rows))):
        draw(path, rows)


if __name__ == "__main__":
    main()
