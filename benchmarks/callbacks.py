"""How long do the callbacks of the nonlinear program take, and how long those of opty?

Cost, its gradient, constraints, their Jacobian and the Hessian of the Lagrangian of
- `standing`: 8 unknown gains, known platform acceleration;
- `n_link`: chains of n links on a cart, all masses, lengths and g unknown, known force.
Both packages get the same equations, midpoint scheme, data and objective (sum of squared
differences to "measured" states at the nodes) and must return the same numbers before any is timed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from report import README, machine, number, ratio, table, write
from scipy.sparse import coo_array, csr_array

import kinesym as ks
from kinesym.runtime.build import CACHE_VARIABLE

Array = NDArray[np.float64]

CALLBACKS = ("cost", "gradient", "constraints", "jacobian", "hessian")
STEP = 1.0 / 64.0  # s; a power of two, so that differences of the time grid are exact
TOLERANCE = 1e-9  # largest difference between the packages, relative to the largest entry
NAN = float("nan")


@dataclass(frozen=True)
class Case:
    """A problem with numbers; z = [states (n, N), unknown parameters in the model's order]."""

    model: ks.Model
    unknown: list[str]
    time: Array
    inputs: dict[str, Array]
    measured: Array
    z: Array


@dataclass
class Side:
    """One package: callbacks without arguments, numbers each returns, seconds to build."""

    build: float = NAN
    calls: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    matrix: Callable[[], csr_array] | None = None  # the Jacobian
    place: NDArray[np.intp] | None = None  # its free vector is z[place]


@dataclass(frozen=True)
class Row:
    """Medians [ms] of one callback."""

    model: str
    nodes: int
    threads: int
    callback: str
    ours: float
    theirs: float
    our_size: int
    their_size: int | None


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
    )


def flat_equations(model: ks.Model) -> sp.ImmutableMatrix:
    """The equations with all intermediates substituted."""
    table: dict[sp.Basic, sp.Basic] = {}
    for symbol, expression in model.intermediates:
        table[symbol] = expression.xreplace(table)
    return sp.ImmutableMatrix([e.xreplace(table) for e in model.equations])


# -- the packages -------------------------------------------------------------------------------


def kinesym_side(case: Case, threads: int) -> Side:
    start = time.perf_counter()
    measured = dict(zip(case.model.state_names, case.measured, strict=True))
    trial = ks.Experiment(case.time, inputs=case.inputs, measurements=measured)
    problem = ks.Collocation(
        case.model, trial, unknown=dict.fromkeys(case.unknown), scheme="midpoint", threads=threads
    )
    build = time.perf_counter() - start
    nlp, z = problem.nlp, case.z
    multipliers = np.random.default_rng(1).standard_normal(nlp.n_constraints)
    calls = {"cost": partial(nlp.cost, z)}  # the others into arrays made once, as IPOPT has them
    calls["gradient"] = partial(nlp.gradient, z, np.empty(nlp.n_variables))
    calls["constraints"] = partial(nlp.constraints, z, np.empty(nlp.n_constraints))
    calls["jacobian"] = partial(nlp.jacobian, z, np.empty(nlp.jacobian_structure.size))
    values = np.empty(nlp.hessian_structure.size)
    calls["hessian"] = partial(nlp.hessian, z, multipliers, 1.0, values)
    sizes = _sizes(len(z), nlp.n_constraints, nlp.jacobian_structure.size)
    sizes["hessian"] = nlp.hessian_structure.size
    return Side(build, calls, sizes, partial(problem.constraint_jacobian, z))


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
        known_parameter_map={p: model.values[p.name] for p in model.parameters
                             if p.name not in case.unknown},
        known_trajectory_map={u: case.inputs[u.name] for u in model.inputs},
        time_symbol=ks.t,
        integration_method="midpoint",
        parallel=threads > 1,
        tmp_dir=folder,
    )  # fmt: skip
    build = time.perf_counter() - start
    order = [case.unknown.index(p.name) for p in problem.collocator.unknown_parameters]
    n = case.measured.size
    place = np.concatenate([np.arange(n), n + np.array(order)])
    free, structure = case.z[place], problem.jacobianstructure()
    calls = {name: partial(getattr(problem, name), free) for name in CALLBACKS[1:-1]}
    calls["cost"] = partial(problem.objective, free)
    sizes = _sizes(len(free), problem.num_constraints, len(structure[0]))
    shape = (problem.num_constraints, len(free))

    def matrix() -> csr_array:
        return coo_array((problem.jacobian(free), structure), shape=shape).tocsr()

    return Side(build, calls, sizes, matrix, place)


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


# -- comparison and timing ----------------------------------------------------------------------


def verify(ours: Side, theirs: Side) -> str:
    """Largest relative differences in words; raises `ValueError` if one is too large.

    States, equations and intervals have the same order; opty sorts the unknown parameters.
    """
    if theirs.matrix is None or ours.matrix is None:
        return "opty is not installed: nothing compared"
    place = theirs.place
    pairs = {name: (ours.calls[name](), theirs.calls[name]()) for name in CALLBACKS[:3]}
    pairs["gradient"] = (pairs["gradient"][0][place], pairs["gradient"][1])
    errors = {name: float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
              for name, (a, b) in pairs.items()}  # fmt: skip
    jacobian = theirs.matrix()
    errors["jacobian"] = float(abs(ours.matrix()[:, place] - jacobian).max() / abs(jacobian).max())
    for name, error in errors.items():
        if not error <= TOLERANCE:
            raise ValueError(f"{name}: kinesym and opty differ by {error:.1e} of the largest entry")
    return "same numbers: " + ", ".join(f"{name} {error:.0e}" for name, error in errors.items())


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


def compare(ours: Side, theirs: Side, case: Case, threads: int) -> list[Row]:
    rows = []
    for name in CALLBACKS:
        both = [side.calls[name] for side in (ours, theirs) if name in side.calls]
        first, second, *_ = [*medians(both), NAN]
        rows.append(
            Row(case.model.name, len(case.time), threads, name, first, second,
                ours.sizes[name], theirs.sizes.get(name))
        )  # fmt: skip
        print(f"  {name:12} kinesym {number(first):>8} ms, opty {number(second):>8} ms, "
              f"ratio {ratio(second, first)}", flush=True)  # fmt: skip
    return rows


def measure(
    model: ks.Model, nodes: Iterable[int], threads: Iterable[int], folder: str
) -> tuple[list[Row], list[str]]:
    """All rows of a model, and its line in the table of build times."""
    rows, builds = [], []
    for n_threads in threads:
        for n_nodes in sorted(nodes):
            case = make_case(model, n_nodes)
            ours, theirs = kinesym_side(case, n_threads), opty_side(case, n_threads, folder)
            builds.append((ours.build, theirs.build))
            print(f"{model.name}, {n_nodes} nodes, {n_threads} thread(s): {verify(ours, theirs)}")
            rows += compare(ours, theirs, case, n_threads)
    first, second = builds[0]  # nothing was cached
    print(f"  built in {number(first)} s, opty in {number(second)} s", flush=True)
    return rows, [model.name, number(first), number(second), ratio(second, first)]


# -- the report ---------------------------------------------------------------------------------


def times_table(rows: Sequence[Row], threads: Sequence[int]) -> str:
    header = ["model", "nodes", "callback", "numbers", "opty's"]
    for n in threads:
        unit = f"{n} thread{'s' if n > 1 else ''}"
        header += [f"kinesym, {unit} [ms]", "opty [ms]", "ratio"]
    merged: dict[tuple[str, int, str], list[str]] = {}
    for row in rows:
        key = (row.model, row.nodes, row.callback)
        sizes = [f"{row.our_size}", "-" if row.their_size is None else f"{row.their_size}"]
        line = merged.setdefault(key, [row.model, f"{row.nodes}", row.callback, *sizes])
        line += [number(row.ours), number(row.theirs), ratio(row.theirs, row.ours)]
    return table(header, merged.values())


def report(words: str, rows: Sequence[Row], builds: Sequence[Sequence[str]]) -> str:
    command = shlex.join(["python", "benchmarks/callbacks.py", *sys.argv[1:]])
    threads = sorted({row.threads for row in rows})
    return "\n\n".join([
        f"Machine: {words}.",
        f"Made by `{command}`; opty's `CFLAGS` were `{os.environ['CFLAGS']}`.",
        times_table(rows, threads),
        "Time to build, nothing cached, fewest nodes, 1 thread:",
        table(["model", "kinesym [s]", "opty [s]", "ratio"], builds),
    ])  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--links", type=int, nargs="*", default=list(range(1, 11)), metavar="n",
                        help="chains to measure; default: 1 2 5 10")  # fmt: skip
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N",
                        help="default: 1000 10000, and 60000 for standing")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2, help="compared with 1 (default: 2)")
    parser.add_argument("--quick", action="store_true", help="one small smoke test, 1 thread")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {README.name}")
    given = parser.parse_args()
    if given.quick and given.write:
        parser.error("--quick measures nothing worth writing; leave out one of --quick and --write")
    if given.quick:
        given.links, given.nodes, given.threads = [1], [20], 1
    return given


def main() -> None:
    given = arguments()
    nodes = given.nodes or [1000, 10000]
    models = [(ks.models.standing(), given.nodes or [*nodes, 60000])]
    models += [(ks.models.n_link_pendulum_on_cart(n), nodes) for n in given.links]
    os.environ["OMP_NUM_THREADS"] = str(given.threads)  # opty takes the number from here
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits opty best
    words = machine("opty")
    print(words)
    rows: list[Row] = []
    builds: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for model, sizes in models:
            own = tempfile.mkdtemp(dir=folder)
            more, build = measure(model, sizes, sorted({1, given.threads}), own)
            rows += more
            builds.append(build)
    text = report(words, rows, builds)
    print(f"\n{text}")
    if given.write:
        write(text, "callbacks")


if __name__ == "__main__":
    main()
