"""From how many random starts are problems solved: plainly, by the ladder, by CasADi and opty?

The 20 problems of `published.PROBLEMS`, and six identifications. Starts are those of `multistart`
with `detour=1`, and the same for all: parameters log-uniform within a factor of ten of what is
published, or true where the record is simulated, and within their bounds; trajectories that are not
measured are those of the guess, a course between the conditions at the ends where there is none,
plus correlated noise as large as themselves; measured ones are as measured. A start counts if it
ends at the best optimum that is known, to 1e-5. Each solve may take 500 iterations, with the ladder
as many as by default, and 10 s of CPU time. For the ladder, fits declare `homotopy="data"` where a
measured state can be tied.

CasADi gets our nonlinear program function by function, and IPOPT as it is by default there; so does
opty, with the objective and its gradient, where it has the scheme, else the same problem by the
midpoint rule, whose best optimum is another one.

    python benchmarks/starts.py [--problems NAME ...] [--starts 100] [--nodes 101] [--resume]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import comb
from typing import Any, NamedTuple

import interval_coverage
import numpy as np
import published
import sympy as sp
from numpy.typing import NDArray
from peers.by_casadi import casadi_of
from peers.by_opty import opty_lacks, opty_of
from published import Published, explicit
from record import table
from report import leave, machine, parsed
from rows import kept, line_of, remarks
from solves import collocation, make_case, make_numbers

import kinesym as ks
from kinesym.base import checks
from kinesym.examples import pendulum_local_minima, reaction_time
from kinesym.examples.studies import muscle_fit
from kinesym.internal.fitting.starts import drawn, natural_parameters, ranges_of, starting_points

Array = NDArray[np.float64]

#: Relative difference from the best objective, and starts of a group.
NEAR, GROUP = 1e-5, 10
#: Iterations of each solve, and seconds of CPU time, an option of IPOPT.
MOST, LIMIT = 500, {"max_cpu_time": 10.0}
#: Nodes with which a problem is what it was: with fewer the pendulum swings up in no time.
LEAST = {"swing_up": 501}
#: Problems with optima that are none of the motion: steps jump over a pole, where an arm points up,
#: and damp, where a pendulum takes minutes. The guess leads to the best known optimum of these.
OF_THE_GRID = ("robot_arm", "swing_up")


# -- identifications ------------------------------------------------------------------------------


def fitted(posed: Callable[..., ks.Collocation], truth: Mapping[str, float]) -> Published:
    """A problem whose guess, and middle of the starts, are these parameters."""
    about = {name: (value, np.nan) for name, value in truth.items()}
    return Published(posed, "identification", guess=truth, parameters=about)


def covered(name: str) -> Published:
    """A record of `interval_coverage.py` with noise of known size."""
    made, _ = interval_coverage.subject(name)
    chance = np.random.default_rng(1)
    trial = interval_coverage.experiment(name, interval_coverage.FITS["white, sigma known"], chance)
    return fitted(partial(made.posed, trial, None, (), scheme="midpoint"), made.truth)


def links() -> Published:
    """Masses, lengths and g of two links on a cart, all states measured for 1 s."""
    case = make_case("n_link_2", make_numbers("n_link_2", 1000))
    return fitted(
        partial(collocation, case, threads=1), {p: case.model.values[p] for p in case.unknown}
    )


def pendulum() -> Published:
    """The one parameter of a pendulum whose shooting has 62 local minima; its angle for 50 s."""
    time, measured = pendulum_local_minima.record(1001)
    trial = ks.Experiment(time, measurements={"theta": measured["theta"]})
    model, truth = ks.models.pendulum(), {"p": pendulum_local_minima.TRUE}
    return fitted(
        partial(ks.Collocation, model, trial, unknown={"p": None}, scheme="midpoint"), truth
    )


def reaction() -> Published:
    """Gain and delay of a person who tracks a target for a minute; by the midpoint rule, which sees
    straight lines between nodes, a delay has a local minimum in some of the steps."""
    unknown = {"w_c": (0.1, 100.0), "tau": (0.01, 1.0)}
    trial = reaction_time.record(1501)
    return fitted(
        partial(ks.Collocation, reaction_time.person(), trial, unknown), reaction_time.TRUE
    )


def soleus() -> Published:
    """Measured: force of a cat's muscle that is held, stimulated and let go, at 50 Hz.

    Largest force, activation and deactivation times [s] of a first-order law, and the time in which
    the force follows, which may change places with that of activation.
    """
    record = muscle_fit.read()[43]
    activation, force, u = ks.dynamicsymbols("activation force u")
    rise, fall, follow, most = sp.symbols("rise fall follow most")
    rates = {
        activation: (u - activation) * (u / rise + (1 - u) / fall),
        force: (most * activation - force) / follow,
    }
    model = explicit("soleus", rates, [u], parameters=[rise, fall, follow, most])
    time = np.arange(record.time[0], record.time[-1], 0.02)
    measured = np.interp(time, record.time, record.force)
    stimulated = ((time > 0.95) & (time < 9.95)).astype(float)
    trial = ks.Experiment(time, {"u": stimulated}, {"force": measured}, {"force": 1.0})
    unknown = dict.fromkeys((rise, fall, follow), (1e-3, 10.0)) | {most: (0.1, 1e3)}
    posed = partial(
        ks.Collocation,
        model,
        trial,
        unknown=unknown,
        boundary=[ks.at_start(activation)],
        scheme="midpoint",
    )
    return fitted(posed, {"rise": 0.1, "fall": 0.1, "follow": 0.1, "most": 20.0})


IDENTIFICATIONS: Mapping[str, Callable[[], Published]] = {
    "standing_gains": partial(covered, "standing"),
    "quiet_standing": partial(covered, "cip"),
    "pendulum_50s": pendulum,
    "two_links_masses": links,
    "reaction_time": reaction,
    "soleus": soleus,
}
PROBLEMS = (*published.PROBLEMS, *IDENTIFICATIONS)


# -- starts and solves ----------------------------------------------------------------------------


def points(problem: ks.Collocation, about: Published, count: int) -> list[Array]:
    """Random starts, free vectors."""
    guess, names = about.guess, list(problem.layout.parameters)
    z = problem.pack(guess)
    values, low, high = (
        natural_parameters(problem, each) for each in (z, *problem.variable_bounds)
    )
    # about 1 where neither a solution nor a guess is published
    ranges = {name: (0.1, 10.0) for name, p in zip(names, values, strict=True) if p == 0.0}
    ranges |= {name: (0.1 * p, 10.0 * p) for name, (p, _) in about.parameters.items()}
    sides = dict(zip(names, zip(low, high, strict=True), strict=True))
    ranges = {n: (max(a, sides[n][0]), min(b, sides[n][1])) for n, (a, b) in ranges.items()}
    rows = drawn(ranges_of(names, values, (low, high), ranges), count, 1)
    return list(starting_points(problem.problem, guess, rows, names, 1.0, 1))


#: Objective, NaN without a solution, from a free vector.
Solver = Callable[[Array], float]


class Ends(NamedTuple):
    """Where the starts ended with a solver: objectives, NaN without a solution, and CPU seconds."""

    objectives: Array
    seconds: Array


class Share(NamedTuple):
    """Shares of starts that end at the best optimum and at any, mean CPU seconds of each, and the
    share of groups of ten of these starts of which one at least ends at the best optimum."""

    best: float = np.nan
    any: float = np.nan
    seconds: float = np.nan
    group: float = np.nan


def kinesym_by(problem: ks.Collocation, **options: Any) -> Solver:
    """Our solver."""

    def solve(z: Array) -> float:
        found = problem.solve(z, progress=False, **options)
        return found.objective if found.success else np.nan

    return solve


def peer_by(make: Callable[..., Any], problem: ks.Collocation, z: Array, folder: str) -> Solver:
    """That of a peer, made as `make` does and tried at z; raises what that raises."""
    peer = make(problem, z, {"max_iter": MOST, **LIMIT}, folder)

    def objective(z: Array) -> float:
        found = peer.solve(z)
        return np.nan if found.failure else found.objective

    return objective


#: Of a problem, a start, and a folder.
CONTENDERS: Mapping[str, Callable[[ks.Collocation, Array, str], Solver]] = {
    "plain": lambda problem, *_: kinesym_by(
        problem, max_iterations=MOST, ladder=False, options=LIMIT
    ),
    "ladder": lambda problem, *_: kinesym_by(problem, ladder=True, options=LIMIT),
    "casadi": partial(peer_by, casadi_of),
    "opty": partial(peer_by, opty_of),
}


def ended(solver: Solver, begins: Sequence[Array]) -> Ends:
    """One solve after the other."""
    found = []
    for z in begins:
        clock = time.thread_time()
        try:
            objective = solver(z)
        except ValueError:  # a function is not finite there
            objective = np.nan
        found.append((objective, time.thread_time() - clock))
    return Ends(*np.array(found).T)


def share(ends: Ends, best: float) -> Share:
    """Of all groups: the hypergeometric distribution."""
    near = ends.objectives <= best + NEAR * max(abs(best), 1e-3)
    count, missed = near.size, int(np.sum(~near))
    group = 1.0 - comb(missed, GROUP) / comb(count, GROUP) if count >= GROUP else np.nan
    found = np.isfinite(ends.objectives)
    return Share(*map(float, (near.mean(), found.mean(), ends.seconds.mean(), group)))


def tied(problem: ks.Collocation, about: Published) -> ks.Collocation:
    """A fit that declares the homotopy of its data; the problem itself if it can have none."""
    try:
        return about.posed(homotopy="data", threads=1)
    except ValueError:
        return problem


def compared(
    problem: ks.Collocation, about: Published, count: int, contenders: Sequence[str], lower: bool
) -> dict[str, Share]:
    """What the contenders make of the same starts; nothing of those that cannot. lower : whether
    optima below that of the guess are optima of the problem."""
    begins, ends = points(problem, about, count), dict[str, Ends]()
    for name in contenders:
        with tempfile.TemporaryDirectory() as folder:
            try:
                asked = tied(problem, about) if name == "ladder" else problem
                solver = CONTENDERS[name](asked, begins[0], folder)
            except (ImportError, ValueError) as error:
                print(f"{problem.model.name}: without {name}: {error}", flush=True)
            else:
                ends[name] = ended(solver, begins)
    best = kinesym_by(problem)(problem.pack(about.guess))
    if lower:
        best = float(np.nanmin([best, *np.concatenate([e.objectives for e in ends.values()])]))
    return {name: share(each, best) for name, each in ends.items()}


class Row(NamedTuple):
    """A problem by all contenders."""

    name: str
    starts: int
    shares: Mapping[str, Share]


def row(name: str, starts: int, nodes: int) -> Row:
    """One problem, in one thread; opty has a grid of its own where it lacks the scheme."""
    warnings.simplefilter("ignore")
    about = stated(name, nodes)
    problem = about.posed(threads=1)
    lacks = opty_lacks(problem)
    names = [each for each in CONTENDERS if each != "opty" or not lacks]
    shares = compared(problem, about, starts, names, name not in OF_THE_GRID)
    if lacks == "this scheme":
        other = about.posed(scheme="midpoint", threads=1)
        found = compared(other, about, starts, ("plain", "opty"), name not in OF_THE_GRID)
        shares |= {each: found[each] for each in found if each == "opty"}
    return Row(name, starts, shares)


def row_of(value: Sequence[Any]) -> Row:
    """A row from what is kept of it."""
    name, starts, shares = value
    return Row(name, starts, {each: Share(*share) for each, share in shares.items()})


def stated(name: str, nodes: int) -> Published:
    """A problem; published ones with so many nodes."""
    if name in IDENTIFICATIONS:
        return IDENTIFICATIONS[name]()
    return published.PROBLEMS[name](max(nodes, LEAST.get(name, 0)))


# -- report ---------------------------------------------------------------------------------------

HEADER = ["problem", "plain: best", "any", "s", "of ten", "ladder: best", "any", "s", "of ten"]
HEADER += ["casadi: best", "any", "s", "opty: best", "any", "s"]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    found = [row.name]
    for name in CONTENDERS:
        values = row.shares.get(name, Share())
        words = ["-" if np.isnan(v) else f"{v:{k}}" for v, k in zip(values, KINDS, strict=True)]
        found += words if name in ("plain", "ladder") else words[:3]
    return found


KINDS = (".0%", ".0%", ".2f", ".0%")


def mean(rows: Sequence[Row]) -> Row:
    """Of all problems that a contender can say."""
    shares = {}
    for name in CONTENDERS:
        have = [row.shares[name] for row in rows if name in row.shares]
        if have:
            shares[name] = Share(*np.mean(have, axis=0))
    return Row("mean", rows[0].starts, shares)


def numbers(row: Row) -> dict[str, Any]:
    """A line of the raw numbers."""
    found: dict[str, Any] = {"problem": row.name, "starts": row.starts}
    for name in CONTENDERS:
        values = row.shares.get(name, Share())._asdict()
        found |= {f"{name}_{what}": value for what, value in values.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=101, help="of published problems")
    given = parsed(parser)
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits opty best
    words = machine("casadi", "opty")
    names = given.problems[: 2 if given.quick else None]
    starts = 4 if given.quick else given.starts
    lines, found = [], []
    with ProcessPoolExecutor(checks.threads()) as pool:
        tasks = [(name, starts, given.nodes) for name in names]
        for each in kept(given, "starts", row, tasks, pool.map):
            found.append(each)
            lines.append(line_of(each, HEADER, lambda value: cells(row_of(value))))
            print(*lines[-1], flush=True)
    rows = [row_of(each.value) for each in found if not each.failure]
    parts = [
        f"{starts} starts of each problem, {given.nodes} nodes.",
        *remarks(found),
        table(HEADER, [*lines, cells(mean(rows))] if rows else lines),
    ]
    leave(given, "starts", words, parts, list(map(numbers, rows)))


if __name__ == "__main__":
    main()
