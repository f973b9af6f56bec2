"""How many nodes, and how much time, does a true error of 1e-4, 1e-6 and 1e-8 take, by which scheme
and by which package?

Published problems of optimal control and identification, see `published.py` and `grid.py`. The
error is that of the objective, or of a fit's parameter that is farthest off, relative to its value:
the distance from a closed form, or from order 5 and 6 on grids that are 16 times as fine, or
adapted where inputs jump. How far these two are apart is the doubt: no smaller error is verified.

    python benchmarks/accuracy.py [--problems NAME ...] [--contenders NAME ...] [--resume] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from grid import CASES
from peers.by_casadi import casadi_of
from peers.programs import QAMD
from published import CLOSED_FORMS, Array, Published
from record import Table, table
from report import in_process, leave, machine, parsed
from rows import kept, remarks

import kinesym as ks
from kinesym.internal.fitting.certificate import told
from kinesym.runtime.library.build import CACHE_VARIABLE

TOLERANCES = (1e-4, 1e-6, 1e-8)
#: Of IPOPT, for all: the defaults relax bounds and stop so early that 1e-8 is not to be seen.
SETTINGS = {"tol": 1e-11, "bound_relax_factor": 1e-12, "max_iter": 500}
FITS = {**SETTINGS, "tol": 1e-8}  # rounding in sums of many squares allows no less
SCHEMES = {
    **{"midpoint": 2, "radau-3": 3, "hermite-simpson": 4},
    **{"gauss-4": 4, "radau-5": 5, "gauss-6": 6},
}
SMOOTH = (
    *("brachistochrone", "hanging_chain", "particle_steering", "hang_glider"),
    *("hypersensitive_short", "hypersensitive", "bryson_denham"),
    *("gas_oil", "alpha_pinene", "lynx_and_hare", "oscillator", "pendulum", "standing"),
)
JUMPS = ("robot_arm", "lotka_volterra_fishing", "catalyst_mixing")  # of inputs, or singular arcs
FINER, MOST_NODES, SOLVES, ELSEWHERE = 16, 200_000, 3, 100.0
NAN = float("nan")


@dataclass(frozen=True)
class Answer:
    """One solve. cpu, certificate : seconds of the solve, of the error of its grid. states : by
    name at a third, at two thirds and at the end of the motion, where these are nodes."""

    nodes: int
    cpu: float
    certificate: float
    iterations: int
    objective: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, list[float]] = field(default_factory=dict)
    failure: str = ""


#: Seconds to build, and a function that solves; made for a number of intervals.
Made = tuple[float, Callable[[], Answer]]


@dataclass
class Row:
    """The fewest nodes with which a contender reaches a tolerance, and medians of its seconds of
    CPU time there (`build`: of wall clock, compilers are other processes). states : error of the
    states there, relative to their ranges. supposed : from the order of the scheme, as the grid
    would be too fine to be tried."""

    problem: str
    contender: str
    tolerance: float
    nodes: int = 0
    cpu: float = NAN
    certificate: float = NAN
    build: float = NAN
    iterations: int = -1
    error: float = NAN
    states: float = NAN
    supposed: bool = False
    failure: str = ""


# -- truth ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """Values by two schemes; doubt : how far these are apart, relative. guess : the solution at
    the few nodes of `CASES`, from which all start, so that all find the same minimum."""

    objective: float
    parameters: Mapping[str, float]
    states: Mapping[str, list[float]]
    ranges: Mapping[str, float]
    guess: Mapping[str, Any]
    doubt: float

    def posed(self, name: str, intervals: int) -> Published:
        """The problem with so many intervals, with this guess."""
        made = CASES[name].make(intervals + 1)
        place = np.linspace(0.0, 1.0, len(made.problem.layout.grids[0]))
        rows = {x: row for x, row in self.guess.items() if isinstance(row, list)}
        found = {x: np.interp(place, np.linspace(0, 1, len(row)), row) for x, row in rows.items()}
        return replace(made, guess={**self.guess, **found})

    def error(self, fitted: bool, answer: Answer) -> float:
        """Relative, of the objective or of the worst parameter, whatever the solver says of it."""
        if not fitted:
            return abs((answer.objective - self.objective) / self.objective)
        return max(abs(answer.parameters[p] / value - 1.0) for p, value in self.parameters.items())

    def error_of_states(self, answer: Answer) -> float:
        """The largest at the places of `Answer`, relative to the range of the state."""
        return max(
            (
                float(np.nanmax(np.abs(np.subtract(row, self.states[x]))) / self.ranges[x])
                for x, row in answer.states.items()
            ),
            default=NAN,
        )


def truth(name: str) -> Truth:
    """By Radau IIA of order 5, on a grid as in `FINER`, doubted by Gauss of order 6."""
    case, jumps = CASES[name], name in JUMPS
    fine = 1 if jumps else FINER if case.fitted else 3 * FINER  # thirds are nodes
    until = {"tolerance_grid": 1e-10} if jumps else {}
    rough, found = case.make(case.nodes), []
    first = None if case.fitted else solved(rough.posed(scheme="radau-5"), rough.guess)
    for scheme in ("radau-5", "gauss-6"):
        stated = case.make(fine * (case.nodes - 1) + 1)
        problem = stated.posed(scheme=scheme)
        found.append(solved(problem, stated.guess if case.fitted else first, **until))
    best, other = (answer_of(solution) for solution in found)
    runs = found[0].trials[0]
    ranges = {x: float(np.ptp(row)) or 1.0 for x, row in runs.states.items()}
    guess = {**coarse(name, runs), **best.parameters}
    if problem.layout.free_duration:
        guess["duration"] = float(runs.time[-1] - runs.time[0])
    made = Truth(best.objective, best.parameters, best.states, ranges, guess, 0.0)
    doubt = made.error(case.fitted, other)
    if name in CLOSED_FORMS:
        exact = CLOSED_FORMS[name]()
        made, doubt = replace(made, objective=exact), abs(best.objective / exact - 1.0)
    return replace(made, doubt=doubt)


def coarse(name: str, run: ks.Trajectory) -> dict[str, list[float]]:
    """States and unknown inputs of a motion at the few nodes of `CASES`."""
    problem = CASES[name].make(CASES[name].nodes).problem
    grid = problem.layout.grids[0]
    place = (run.time - run.time[0]) / (run.time[-1] - run.time[0])
    wanted = (grid - grid[0]) / (grid[-1] - grid[0])
    names = [*problem.layout.states, *problem.layout.inputs]
    return {x: np.interp(wanted, place, run[x]).tolist() for x in names}


def thirds(time: Array, states: Mapping[str, Array]) -> dict[str, list[float]]:
    """States a third, two thirds and all of the way, NaN where there is no node; none for fits."""
    place = (time - time[0]) / (time[-1] - time[0])
    at = [int(np.argmin(np.abs(place - s))) for s in (1 / 3, 2 / 3, 1.0)]
    miss = [abs(place[k] - s) > 1e-9 for k, s in zip(at, (1 / 3, 2 / 3, 1.0), strict=True)]
    return {
        x: [NAN if m else float(row[k]) for k, m in zip(at, miss, strict=True)]
        for x, row in states.items()
    }


# -- kinesym and CasADi ---------------------------------------------------------------------------


def settings(problem: ks.Collocation) -> dict[str, float]:
    return FITS if problem.symbolic.objective.least_squares else SETTINGS


def solved(problem: ks.Collocation, guess: Any, **more: Any) -> ks.Solution:
    options = settings(problem)
    tolerance = options["tol"]
    rest = {name: value for name, value in options.items() if name != "tol"}
    return problem.solve(guess, tolerance=tolerance, options=rest, progress=False, **more)


def answer_of(solution: ks.Solution) -> Answer:
    run = solution.trials[0]
    return Answer(
        len(run.time),
        NAN,
        0.0,
        solution.iterations,
        solution.objective,
        dict(solution.parameters),
        thirds(run.time, run.states),
        "" if solution.success else solution.message,
    )


def kinesym(scheme: str, stated: Published, folder: str, until: Any = None) -> Made:
    """until : solve on ever better grids until kinesym says that the error is this."""
    start = time.perf_counter()
    problem = stated.posed(scheme=scheme, threads=1)
    build = time.perf_counter() - start

    def solve() -> Answer:
        clock = time.process_time()
        solution = solved(problem, stated.guess, tolerance_grid=until)
        cpu = time.process_time() - clock
        if until:
            return replace(answer_of(solution), cpu=cpu, states={})
        clock = time.process_time()
        told(problem.problem, solution, problem.problem)  # again: its own time is of the wall clock
        certificate = time.process_time() - clock
        return replace(answer_of(solution), cpu=cpu - certificate, certificate=certificate)

    return build, solve


def casadi(options: Mapping[str, Any], stated: Published, folder: str) -> Made:
    """The nonlinear program of "radau-5", its derivatives and solution by CasADi: Radau points of
    degree 3, inputs with a value at each, SX functions mapped over the intervals."""
    problem = stated.posed(scheme="radau-5", threads=1)
    start, chosen = problem.pack(stated.guess), {**settings(problem), **options}
    peer = casadi_of(problem, start, chosen, folder)

    def solve() -> Answer:
        found = peer.solve(start)
        values = problem.unpack(found.z)
        parameters = {p: float(values[p]) for p in problem.layout.parameters}
        states = {x: values[x] for x in problem.layout.states}
        duration = values["duration"][0] if "duration" in values else 1.0
        grid = problem.layout.grids[0] * duration
        return Answer(
            len(grid),
            found.cpu,
            0.0,
            found.iterations,
            found.objective,
            parameters,
            thirds(grid, states),
            found.failure,
        )

    return peer.build, solve


def peer(package: str, made: Published, folder: str) -> Made:
    """A package with a language of its own; see `peers.optimal_control`."""
    os.environ["OPENMDAO_WORKDIR"] = folder
    from peers import optimal_control

    about = optimal_control.stated(made)
    start = time.perf_counter()
    solver = getattr(optimal_control, package)(about, SETTINGS)
    build = time.perf_counter() - start

    def solve() -> Answer:
        found = solver()
        head = about.intervals + 1, found.cpu, 0.0, found.iterations, found.objective
        return Answer(*head, failure=found.failure)

    return build, solve


PACKAGES = ("rockit", "dymos", "pycollo")
#: With the order of each, by which the next grid is chosen.
CONTENDERS: dict[str, tuple[Callable[[Published, str], Made], int]] = {
    **{scheme: (partial(kinesym, scheme), order) for scheme, order in SCHEMES.items()},
    "casadi": (partial(casadi, {}), 5),
    "casadi+qamd": (partial(casadi, QAMD), 5),
    **{package: (partial(peer, package), 5) for package in PACKAGES},
}
#: What is written for packages with a language of their own.
SHARED = (*SMOOTH[:4], "bryson_denham")


# -- one contender, in its own process ------------------------------------------------------------


@dataclass(frozen=True)
class Try:
    """A grid that was tried: its intervals, what came out, and the seconds to build."""

    intervals: int
    build: float
    answer: Answer
    error: float


def climb(attempt: Callable[[int], Try], base: int, limit: float) -> list[Try]:
    """Grids from `base` intervals on, twice as fine each, until two in turn have the smallest
    error, or what the next one takes is beyond the limit of nodes or seconds of CPU time. Without
    those that end elsewhere: in another minimum, or nowhere."""
    tries, begin = [attempt(base)], time.process_time()
    while True:
        last = tries[-1]
        best = [t.error <= TOLERANCES[-1] for t in tries[-2:]]
        costly = 2.2 * last.answer.cpu > limit or 2 * last.intervals > MOST_NODES
        costly = costly or time.process_time() - begin > 4.0 * limit  # with what it builds
        if (len(best) == 2 and all(best)) or costly:
            least = np.fmin.accumulate([t.error for t in tries])
            return [
                t for t, e in zip(tries, least, strict=True) if t.error <= max(1e-8, ELSEWHERE * e)
            ]
        tries.append(attempt(2 * last.intervals))


def reached(
    tries: list[Try], tolerance: float, attempt: Callable[[int], Try], unit: int
) -> Try | None:
    """The coarsest of the tries from which on all are as good; a grid between it and the one
    before, if that is as good, too."""
    good = [k for k in range(len(tries)) if all(t.error <= tolerance for t in tries[k:])]
    if not good:
        return None
    best = tries[good[0]]
    if good[0] and tries[good[0] - 1].error > tolerance and best.error > 0.0:
        coarse = tries[good[0] - 1]
        slope = np.log(coarse.error / best.error) / np.log(best.intervals / coarse.intervals)
        wanted = coarse.intervals * (1.1 * coarse.error / tolerance) ** (1.0 / slope)
        count = unit * int(np.ceil(wanted / unit))
        if coarse.intervals < count < best.intervals:
            between = attempt(count)
            return between if between.error <= tolerance else best
    return best


def supposed(tries: list[Try], tolerance: float, order: int) -> tuple[int, float] | None:
    """Nodes and seconds by the order of the scheme, if the errors of the last grids show it."""
    ends = [t for t in tries if t.error > 0.0][-2:]
    if len(ends) < 2 or abs(np.log2(ends[0].error / ends[1].error) - order) > 0.3:
        return None
    factor = (ends[1].error / tolerance) ** (1.0 / order)
    return int(factor * ends[1].intervals) + 1, factor * ends[1].answer.cpu


def one(contender: str, name: str, limit: float, best: Truth) -> list[Row]:
    """What a contender needs for each tolerance that can be verified."""
    case, (make, order) = CASES[name], CONTENDERS[contender]
    unit = case.nodes - 1 if case.fitted else 3
    base = unit * (1 if case.fitted else max(1, (case.nodes - 1) // 12))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # empty: nothing was built before
        solvers: dict[int, Callable[[], Answer]] = {}

        def attempt(intervals: int) -> Try:
            build, solvers[intervals] = make(best.posed(name, intervals), folder)
            answer = solvers[intervals]()
            return Try(intervals, build, answer, best.error(case.fitted, answer))

        tries = climb(attempt, base, limit)
        rows = []
        for tolerance in TOLERANCES:
            if tolerance < 3.0 * best.doubt:
                continue
            row = Row(problem=name, contender=contender, tolerance=tolerance)
            found = reached(tries, tolerance, attempt, unit)
            if found:
                repeats = [found.answer]
                while len(repeats) < SOLVES and found.answer.cpu < 2.0:
                    repeats.append(solvers[found.intervals]())
                fill(row, found, median(a.cpu for a in repeats), best)
                row.certificate = median(a.certificate for a in repeats)
                row.build = tries[0].build if contender in SCHEMES else found.build
            elif guessed := supposed(tries, tolerance, order):
                row.nodes, row.cpu, row.supposed = *guessed, True
            else:
                row.failure = f"error {min(t.error for t in tries):.0e}" if tries else "no solution"
            rows.append(row)
        return rows + (adapted(contender, name, best, folder) if contender in SCHEMES else [])


def fill(row: Row, found: Try, cpu: float, best: Truth) -> None:
    answer = found.answer
    row.nodes, row.cpu, row.iterations = answer.nodes, cpu, answer.iterations
    row.error, row.states = found.error, best.error_of_states(answer)


def adapted(scheme: str, name: str, best: Truth, folder: str) -> list[Row]:
    """What kinesym does if it is asked for a tolerance, from the coarse grid on."""
    case, rows = CASES[name], []
    for tolerance in TOLERANCES:
        build, solve = kinesym(scheme, best.posed(name, case.nodes - 1), folder, tolerance)
        answers = [solve()]
        while len(answers) < 3 and answers[-1].cpu < 2.0:
            answers.append(solve())
        found = Try(case.nodes - 1, build, answers[0], best.error(case.fitted, answers[0]))
        row = Row(name, f"{scheme} adapted", tolerance, failure=answers[0].failure)
        fill(row, found, median(a.cpu for a in answers), best)
        rows.append(row)
    return rows


# -- report ---------------------------------------------------------------------------------------


def measure(name: str, contenders: Sequence[str], limit: float) -> list[dict[str, Any]]:
    """All contenders on one problem, one after the other, as dictionaries of rows."""
    with tempfile.TemporaryDirectory() as folder:
        return [asdict(row) for row in raced(name, contenders, limit, Path(folder))]


def raced(name: str, contenders: Sequence[str], limit: float, folder: Path) -> list[Row]:
    """As `measure`, with a folder for what is passed to the processes."""
    story, rows = folder / f"{name}.json", []
    found, failure = in_process([__file__, "--truth", name], 40.0 * limit, folder)
    if failure:
        raise RuntimeError(f"{name}: no truth, {failure}")
    story.write_text(json.dumps(found))
    print(f"{name}: doubt {found['doubt']:.1e}", flush=True)
    for contender in contenders:
        if contender in PACKAGES and name not in SHARED:
            continue
        command = [__file__, "--one", contender, name, str(story), "--limit", f"{limit:g}"]
        made, failure = in_process(command, 40.0 * limit, folder)
        lost = Row(name, contender, TOLERANCES[-1], failure=failure)
        rows += [lost] if failure else [Row(**row) for row in made["rows"]]
        for row in rows[-(1 if failure else len(made["rows"])) :]:
            words = [f"{row.tolerance:.0e}", cell(row), f"{row.error:.1e}", row.failure]
            print(f"  {row.contender:24}", *words, flush=True)
    return rows


def cell(row: Row | None) -> str:
    """Nodes and milliseconds."""
    if row is None:
        return "-"
    if row.failure and not row.nodes:
        return row.failure if row.failure.startswith("error") else "failed"
    text = f"{'about ' * row.supposed}{row.nodes} / {1e3 * row.cpu:.3g}"
    missed = row.failure or not (row.supposed or row.error <= row.tolerance)
    return f"{text} ({row.error:.0e})" if missed else text


def tables(rows: Sequence[Row]) -> list[str | Table]:
    """For each tolerance nodes / milliseconds, on uniform grids; then on adapted ones."""
    problems = list(dict.fromkeys(row.problem for row in rows))
    found = {(row.problem, row.contender, row.tolerance): row for row in rows}
    parts: list[str | Table] = []
    names = list(dict.fromkeys(row.contender for row in rows))
    ours = [name for name in names if name.endswith("adapted")]
    uniform = [name for name in names if name not in ours]
    for words, chosen in (("Uniform grids", uniform), ("Adapted grids", ours)):
        for tolerance in reversed(TOLERANCES) if chosen else ():
            lines = [
                [problem, *(cell(found.get((problem, n, tolerance))) for n in chosen)]
                for problem in problems
            ]
            heads = ["problem", *(n.removesuffix(" adapted") for n in chosen)]
            parts += [f"{words}, error {tolerance:.0e}: nodes / ms.", table(heads, lines)]
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    every = [*SMOOTH, *JUMPS]
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS], metavar="NAME"
    )
    parser.add_argument(
        "--limit", type=float, default=20.0, help="CPU seconds of the longest solve"
    )
    parser.add_argument("--truth", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parsed(parser)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    warnings.simplefilter("ignore")
    if given.truth:
        print("\n" + json.dumps(asdict(truth(given.truth))))
        return
    if given.one:
        contender, name, story = given.one
        best = Truth(**json.loads(Path(story).read_text()))
        rows = one(contender, name, given.limit, best)
        print("\n" + json.dumps({"rows": [asdict(row) for row in rows]}))
        return
    words = machine("casadi", *PACKAGES)
    problems = given.problems[:2] if given.quick else given.problems
    contenders = ["midpoint", "radau-5"] if given.quick else given.contenders
    limit = 1.0 if given.quick else given.limit
    found = list(kept(given, "accuracy", measure, [(name, contenders, limit) for name in problems]))
    rows = [Row(**row) for each in found if not each.failure for row in each.value]
    parts = [*remarks(found), *tables(rows)]
    leave(given, "accuracy", words, parts, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
