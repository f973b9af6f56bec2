"""What do studies cost beside the work: per task, per worker, when killed, with a million rows?

    python benchmarks/studies.py [--parts NAME ...] [--tasks 10000] [--kills 30] [--rows 1000000]

Parts: `overhead`, tasks of 5 ms in as many processes as there are cores; `fits`, independent fits
of standing with 6,000 nodes in a study and in as many separate processes; `kills`, the process that
runs a study, or one of its workers, killed at random moments, and what the table says at the end;
`rows`, the table of a million tasks; `small`, fits of a muscle's law, beside a loop of SciPy;
`dask`, four workers in processes of their own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from record import table
from report import leave, machine, number, parsed
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.base import checks
from kinesym.runtime.status import Task
from kinesym.runtime.studies.index import Entry, Index
from kinesym.runtime.studies.work import Outcome

#: Seconds of a short task.
TASK = 0.005

Lines = list[list[str]]


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def short(task: int) -> dict[str, float]:
    spin(TASK)
    return {"value": float(task)}


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of a processor of this process alone."""
    wall, own = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - own


# -- overhead -------------------------------------------------------------------------------------


def overhead(given: argparse.Namespace, folder: Path) -> Lines:
    """Per task: what a worker spends beside the function, and what the driver does, which all
    workers wait for: from that how many it can serve."""
    workers, count = checks.cores(), given.tasks
    warm = ks.Study(folder / "warm")
    warm.cross(task=range(2 * workers))(short)
    start = timed(lambda: warm.run(workers=workers))[0]
    study = ks.Study(folder / "short")
    added = timed(lambda: study.cross(task=range(count))(short))[0]
    wall, driver = timed(lambda: study.run(workers=workers))
    busy = float(study.table(timing=True)["seconds"].sum())
    beside = max(0.0, workers * (wall - start) - busy) / count
    again = timed(study.run)[0]
    serial = driver / count
    rows = [
        ["adding a task [ms]", number(1e3 * added / count)],
        [f"starting {workers} workers [s]", number(start)],
        [f"beside a task of 5 ms, {workers} workers [ms]", number(1e3 * beside)],
        ["of that the driver, one after the other [ms]", number(1e3 * serial)],
        [f"the same {count} tasks again, all done [s]", number(again)],
    ]
    for cores in (16, 1000):
        for seconds in (0.1, 10.0):
            share = min(1.0, seconds / (cores * serial))
            rows.append([f"{cores} cores busy with tasks of {seconds:g} s, model", f"{share:.0%}"])
    return rows


# -- fits -----------------------------------------------------------------------------------------


def standing(seed: int) -> ks.Collocation:
    """A person on a platform that is shaken, 6,000 nodes; unknown: stiffness and damping."""
    lean, rate, shake = ks.dynamicsymbols("lean rate shake")
    k, b = sp.symbols("k b")
    m, h, j, g = 75.0, 0.95, 78.0, 9.81
    toppling = m * h * (g * sp.sin(lean) - shake * sp.cos(lean))
    model = ks.Model(
        "person",
        [lean, rate],
        [shake],
        [k, b],
        [lean.diff(ks.t) - rate, j * rate.diff(ks.t) - toppling + k * lean + b * rate],
    )
    grid, chance = np.linspace(0.0, 60.0, 6000), np.random.default_rng(seed)
    shaken = 0.2 * np.convolve(chance.standard_normal(6000), np.ones(20) / 20**0.5, "same")
    run = ks.simulate(model, grid, {lean: 0.02, rate: 0.0}, {k: 1100, b: 260}, {shake: shaken})
    measured = run["lean"] + 0.002 * chance.standard_normal(6000)
    record = ks.Experiment(grid, {shake: shaken}, {lean: measured}, {lean: 0.002})
    return ks.Collocation(model, record, {k: (0, 5000), b: (0, 1000)})


def standing_fit(seed: int) -> dict[str, float]:
    return {"objective": standing(seed).solve(guess={"k": 800, "b": 100}).objective}


def alone(seeds: list[int]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    for seed in seeds:
        standing_fit(seed)


def fits(given: argparse.Namespace, folder: Path) -> Lines:
    """The same fits in one process, in separate processes, and in a study; processes have started
    and opened the library before."""
    workers, count = checks.cores(), given.fits
    standing_fit(0)  # compiled
    one = timed(lambda: alone(list(range(count))))[0]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        pool.map(alone, [[0]] * workers, chunksize=1)
        parts = [list(range(k, count, workers)) for k in range(workers)]
        separate = timed(lambda: pool.map(alone, parts, chunksize=1))[0]
    study = ks.Study(folder / "fits")
    study.cross(seed=range(count))(standing_fit)
    start = time.perf_counter()
    study.run(workers=workers)
    whole = time.perf_counter() - start
    spent = study.table(timing=True).groupby("worker")["seconds"]
    each = float(spent.apply(lambda seconds: seconds.iloc[1:].mean()).mean())
    return [
        [f"{count} fits in one process [s]", number(one)],
        [f"in {workers} separate processes, started before [s]", number(separate)],
        [f"in a study of {workers} workers, with their start [s]", number(whole)],
        [
            "share of the speed of separate processes, without the first of each worker",
            f"{separate * workers / count / each:.0%}",
        ],
    ]


# -- kills ----------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, time
import kinesym as ks
from kinesym.base import checks

study = ks.Study(sys.argv[1])

@study.cross(number=range(400))
def cube(number):
    time.sleep(0.01)
    return {"cube": number**3}

if __name__ == "__main__":
    print(study.run(workers=2, retries=20).to_csv())
"""


def kills(given: argparse.Namespace, folder: Path) -> Lines:
    """Half of the kills meet the process that runs the study, half a worker."""
    script = folder / "script.py"
    script.write_text(SCRIPT)

    def begun(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(script), str(folder / name)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    whole = begun("whole").communicate()[0]
    chance, lost = random.Random(1), 0
    for k in range(given.kills):
        process = begun("killed")
        time.sleep(chance.uniform(0.8, 3.0))
        victims = [process.pid] if k % 2 == 0 else children(process.pid)
        before = finished(folder / "killed")
        with suppress(ProcessLookupError):
            os.kill(victims[-1], 9)
        if k % 2 == 0:
            process.wait()
        else:
            time.sleep(0.3)
            process.kill()
            process.wait()
        lost += max(0, before - finished(folder / "killed"))
    final = begun("killed").communicate()[0]
    return [
        [f"finished tasks lost by {given.kills} kills", str(lost)],
        ["final table", "identical to that of a run without kills" if final == whole else "OTHER"],
    ]


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()] or [pid]


def finished(folder: Path) -> int:
    path = folder / "index.sqlite"
    return Index(path).counts().get(Task.DONE, 0) if path.is_file() else 0


# -- a million rows -------------------------------------------------------------------------------


def rows(given: argparse.Namespace, folder: Path) -> Lines:
    """With subject, trial, start, two parameters and their errors, objective; in a new process."""
    path, count = folder / "rows.sqlite", given.rows
    index = Index(path)
    axes = ("subject", "trial", "start")
    for begin in range(0, count, 100_000):
        block = range(begin, min(count, begin + 100_000))
        entries = [Entry(axes, (f"s{i % 97}", i % 12, i), f"{i:032x}") for i in block]
        known = index.register(entries)
        names = ("success", "iterations", "objective", "k", "k_se", "b", "b_se")
        index.put(
            [
                Outcome(one.number, one.content, Task.DONE, scalars=dict.fromkeys(names, float(i)))
                for i, one in zip(block, known, strict=True)
            ]
        )
    code = (
        "import sys, time, resource; from pathlib import Path; "
        "from kinesym.runtime.studies.index import Index; begin = time.perf_counter(); "
        "table = Index(Path(sys.argv[1])).table({}, False); took = time.perf_counter() - begin; "
        "print(len(table), took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    command = [sys.executable, "-c", code, str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [
        [f"the table of {said[0]} rows [s]", number(float(said[1]))],
        ["memory of the process [GB]", number(float(said[2]))],
        ["the file [MB]", number(path.stat().st_size / 1e6)],
    ]


# -- many small fits ------------------------------------------------------------------------------


SECONDS = np.linspace(0.0, 0.5, 51)


def noisy(seed: int) -> NDArray[np.float64]:
    """The force of a twitch, F t/c exp(1 - t/c), measured."""
    noise = 0.3 * np.random.default_rng(seed).standard_normal(51)
    return 20.0 * SECONDS / 0.07 * np.exp(1.0 - SECONDS / 0.07) + noise


def law() -> ks.Model:
    """Two states of one rate whose answer to a pulse it is."""
    a, f = ks.dynamicsymbols("a f")
    F, c = sp.symbols("F c")
    slopes = [a.diff(ks.t) + a / c, f.diff(ks.t) - (F * np.e * a - f) / c]
    return ks.Model("twitch", [a, f], [], [F, c], slopes)


LAW = law()


def twitch(seed: int) -> dict[str, float]:
    record = ks.Experiment(SECONDS, measurements={"f": noisy(seed)}, std={"f": 0.3})
    unknown = {"F": (0, 100), "c": (0.01, 1)}
    shooting = ks.Shooting(LAW, record, unknown, initial={"a": 1.0, "f": 0.0}, substeps=4)
    found = shooting.solve({"F": 10, "c": 0.1}, "least-squares").parameters
    return {"F": found["F"], "c": found["c"]}


def by_scipy(seed: int) -> NDArray[np.float64]:
    """As a user of SciPy has it: the model integrated at each cost, slopes by differences."""
    data = noisy(seed)

    def rates(t: float, y: Sequence[float], F: float, c: float) -> list[float]:
        return [-y[0] / c, (F * np.e * y[0] - y[1]) / c]

    def residual(q: NDArray[np.float64]) -> NDArray[np.float64]:
        span, options = (0.0, 0.5), {"t_eval": SECONDS, "rtol": 1e-6, "atol": 1e-8}
        run = solve_ivp(rates, span, [1.0, 0.0], args=tuple(q), **options)
        return np.asarray((run.y[1] - data) / 0.3)

    return np.asarray(least_squares(residual, [10.0, 0.1], bounds=([0, 0.01], [100, 1])).x)


def small(given: argparse.Namespace, folder: Path) -> Lines:
    count = min(given.tasks, 2000)
    study = ks.Study(folder / "small")
    study.cross(seed=range(count))(twitch)
    ours = timed(lambda: study.run())[0]
    theirs = timed(lambda: [by_scipy(seed) for seed in range(20)])[0]
    F, exact = study.table()["F"].iloc[3], by_scipy(3)[0]
    assert abs(F - exact) < 1e-3 * exact, (F, exact)
    return [
        [f"{count} fits of a twitch in a study, a minute", number(60.0 * count / ours)],
        ["in a loop of SciPy (least_squares, solve_ivp), a minute", number(60.0 * 20 / theirs)],
    ]


# -- Dask -----------------------------------------------------------------------------------------


def dask(given: argparse.Namespace, folder: Path) -> Lines:
    from distributed import Client, LocalCluster

    def made(name: str) -> ks.Study:
        study = ks.Study(folder / name)
        study.cross(seed=range(8))(standing_fit)
        return study

    options = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        there = made("there").run(client)
    with ThreadPoolExecutor(1) as pool:
        here = made("here").run(pool)
    names = ["seed", "status", "objective"]
    same = there[names].equals(here[names])
    return [
        ["table of four workers of Dask, beside that of one process", "same" if same else "OTHER"]
    ]


PARTS = {f.__name__: f for f in (overhead, fits, kills, rows, small, dask)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parsed(parser)
    if given.quick:
        given.tasks, given.fits, given.kills, given.rows = 100, 4, 2, 10_000
    lines: Lines = []
    for name in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            made = PARTS[name](given, Path(folder))
        for line in made:
            print(*line, flush=True)
        lines += made
    rows = [{"figure": a, "value": b} for a, b in lines]
    leave(given, "studies", machine("loky", "distributed"), [table(["figure", ""], lines)], rows)


if __name__ == "__main__":
    main()
