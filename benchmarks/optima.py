"""How long do optimal control and published identification take to solve, against CasADi and opty?

- all problems of `published.py`, with the number of nodes of their source and with ten times as
  many;
- `swing_up_fixed` and `swing_up_fastest`: the pendulum of `published.swing_up` with least effort in
  10 s, and in the least time.
CasADi gets the very same nonlinear program, function by function, and differentiates it itself: its
optima check our derivatives; for fatrop the same is said stage by stage. Each solve has a process
of its own, so that its peak memory is its own and a crash is a line of the table.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import published
import sympy as sp
from numpy.typing import NDArray
from peers.by_casadi import casadi_of, expanded
from peers.by_opty import opty_of
from peers.programs import NAN, QAMD, Solve, solved
from peers.stages import fatrop_of
from published import Published
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
from rows import kept, remarks
from solves import AGREEMENT, summary

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE

Array = NDArray[np.float64]

FACTORS = (1, 10)  # of the number of intervals
QUICK = ("brachistochrone", "hanging_chain")
SOLVES, LONG = 5, 4.0  # so many, if one takes less than so many seconds


@dataclass
class Row:
    """Medians of one contender. memory : peak [MB] of its process, Python and packages included.

    published : relative difference of the objective from the published one; difference : from
    kinesym's; apart : largest difference of an entry of z from kinesym's, of 1 + |entry|.
    """

    problem: str
    nodes: int
    contender: str
    build: float = NAN
    wall: float = NAN
    linear: float = NAN
    iterations: int = -1
    memory: float = NAN
    objective: float = NAN
    published: float = NAN
    difference: float = NAN
    apart: float = NAN
    solves: int = 0
    failure: str = ""
    note: str = ""
    ipopt: list[str] = field(default_factory=list)  # its library, for: all have the same?


# -- the problems ---------------------------------------------------------------------------------


def pendulum(nodes: int = 501, duration: Any = None, objective: Any = None) -> Published:
    """The torque-limited pendulum from hanging to upright, rest to rest, guess as published; a
    pair of durations sets it free."""
    theta, omega, T = ks.dynamicsymbols("theta omega T")
    free = isinstance(duration, tuple)
    posed = partial(
        ks.Collocation,
        published.explicit("swing_up", {theta: omega, omega: T - 9.81 * sp.sin(theta)}, [T]),
        ks.Experiment(nodes=nodes, duration=duration)
        if free
        else ks.Experiment(np.linspace(0.0, duration, nodes)),
        scheme="backward-euler",
        objective=objective(T),
        unknown_inputs={T: (-2, 2)},
        boundary=published.ends({theta: 0, omega: 0}, {theta: sp.pi, omega: 0}),
    )
    s = np.linspace(0.0, 1.0, nodes)
    swings = np.interp(s, [0, 0.15, 0.3, 0.5, 0.65, 1], [0, 0.4, -0.8, 1.2, -1.7, np.pi])
    guess = {theta: swings, omega: 0.0, **({"duration": 5.0} if free else {})}
    return Published(posed, "none", guess=guess)


def cart_pole(nodes: int = 101) -> Published:
    """A pole that hangs from a cart swings up in 2 s, with least effort (Kelly 2017, SIAM Review
    59, section 5 and appendix E.1: 1 kg and 0.3 kg, 0.5 m, 1 m to go, at most 20 N); the guess is
    his, straight lines."""
    q, angle, v, rate, u = ks.dynamicsymbols("q angle v rate u")
    m1, m2, length, g = 1.0, 0.3, 0.5, 9.81
    s, c = sp.sin(angle), sp.cos(angle)
    rates = {
        q: v,
        angle: rate,
        v: (length * m2 * s * rate**2 + u + m2 * g * c * s) / (m1 + m2 * s**2),
        rate: -(length * m2 * c * s * rate**2 + u * c + (m1 + m2) * g * s)
        / (length * (m1 + m2 * s**2)),
    }
    start, end = dict.fromkeys(rates, 0), {q: 1, angle: sp.pi, v: 0, rate: 0}
    posed = partial(
        ks.Collocation,
        published.explicit("cart_pole", rates, [u]),
        ks.Experiment(np.linspace(0.0, 2.0, nodes)),
        scheme="trapezoid",
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-20, 20)},
        bounds={q: (-2, 2)},
        boundary=published.ends(start, end),
    )
    line = np.linspace(0.0, 1.0, nodes)
    return Published(posed, "none", guess={q: line, angle: np.pi * line})


PENDULA = ("swing_up", "swing_up_fixed", "swing_up_fastest")
PROBLEMS: Mapping[str, Callable[..., Published]] = {
    **published.PROBLEMS,
    "swing_up_fixed": partial(pendulum, duration=10.0, objective=lambda T: ks.Integral(T**2)),
    "swing_up_fastest": partial(
        pendulum, duration=(1.0, 250.0), objective=lambda _: ks.Terminal(ks.t)
    ),
    "cart_pole": cart_pole,
}


def size(problem: str, factor: int) -> int:
    """Nodes: `factor` times the intervals of the source, so that its nodes are among them."""
    default = inspect.signature(PROBLEMS[problem]).parameters["nodes"].default
    return factor * (default - 1) + 1


# -- kinesym --------------------------------------------------------------------------------------

#: The problem, seconds to build a solver, and a function that solves.
Made = tuple[Published, float, Callable[[], Solve]]


def kinesym_solver(linear_solver: str, name: str, nodes: int, folder: str) -> Made:
    start = time.perf_counter()
    stated = PROBLEMS[name](nodes)
    build = time.perf_counter() - start

    def solve() -> Solve:
        return solved(stated.problem, stated.guess, linear_solver, "direct")

    return stated, build, solve


# -- others ---------------------------------------------------------------------------------------


def peer_solver(
    make: Callable[..., Any], options: Mapping[str, Any], name: str, nodes: int, folder: str
) -> Made:
    """The time to build is that of a peer, from expressions of a point to a solver."""
    stated = PROBLEMS[name](nodes)
    z = stated.problem.pack(stated.guess)
    peer = make(stated.problem, z, options, folder)
    return stated, peer.build, partial(peer.solve, z)


CONTENDERS: dict[str, Callable[[str, int, str], Made]] = {
    "kinesym": partial(kinesym_solver, "time-structured"),
    "kinesym+mumps": partial(kinesym_solver, "mumps"),
    "casadi": partial(peer_solver, casadi_of, {}),
    "casadi+qamd": partial(peer_solver, casadi_of, QAMD),
    "casadi+qamd+expand": partial(peer_solver, partial(casadi_of, written=expanded), QAMD),
    "casadi+fatrop": partial(peer_solver, fatrop_of, {}),
    "opty": partial(peer_solver, opty_of, {}),
}
MARKERS = "osD^v<>"  # of contenders in the picture


def missing(contender: str) -> str:
    """Why a contender is left out here; empty if it is there."""
    package = contender.split("+")[0]
    if find_spec(package) is None:
        return f"{package} is not installed"
    if contender.endswith("fatrop"):
        import casadi

        return "" if casadi.has_nlpsol("fatrop") else "this CasADi has no fatrop"
    return ""


# -- one contender, in its own process ------------------------------------------------------------


def one(contender: str, problem: str, nodes: int, ends: str | None) -> Row:
    """Build and solve; z goes into the file `ends`."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # empty: nothing was built before
        stated, build, solve = CONTENDERS[contender](problem, nodes, folder)
        solves = [solve()]
        while len(solves) < SOLVES and solves[-1].wall < LONG and not solves[-1].failure:
            solves.append(solve())
    last, value = solves[-1], stated.value
    if ends:
        np.save(ends, last.z)
    return Row(
        problem,
        nodes,
        contender,
        build,
        median(s.wall for s in solves),
        median(s.linear for s in solves),
        last.iterations,
        peak_memory(),
        last.objective,
        NAN if value is None else (last.objective - value) / abs(value),
        solves=len(solves),
        failure=last.failure,
        note=last.note,
        ipopt=ipopt_libraries(),
    )


def apart(contender: str, problem: str, nodes: int, limit: float, ends: Path) -> Row:
    """The row of a contender, from a process of its own, whatever happens there."""
    command = [__file__, "--one", contender, problem, f"{nodes}", "--ends", str(ends)]
    found, failure = in_process(command, limit, ends.parent)
    return Row(problem, nodes, contender, failure=failure) if failure else Row(**found)


# -- comparison and report ------------------------------------------------------------------------


def measure(problem: str, nodes: int, contenders: Sequence[str], limit: float) -> list[Row]:
    """All contenders on one problem, compared to the first, kinesym, if that succeeds."""
    rows, first = [], None
    print(f"{problem}, {nodes} nodes", flush=True)
    for contender in contenders:
        with tempfile.TemporaryDirectory() as folder:
            ends = Path(folder) / "z.npy"
            row = apart(contender, problem, nodes, limit, ends)
            z = None if row.failure else np.load(ends)
        if contender == "kinesym" and z is not None:
            first = row.objective, z
        elif first is not None and z is not None:
            compare(row, z, *first)
        rows.append(row)
        words = [f"objective {row.objective:.9g}", row.note] if z is not None else []
        print(f"  {contender:14} {', '.join(filter(None, [summary(row), *words]))}", flush=True)
    return rows


def compare(row: Row, z: Array, objective: float, ours: Array) -> None:
    """Sets the differences and says which objective is not that of our minimum."""
    row.difference = (row.objective - objective) / abs(objective)
    row.apart = float(np.max(np.abs(z - ours) / (1.0 + np.abs(ours))))
    if abs(row.difference) > AGREEMENT:
        row.note = "; ".join(filter(None, [row.note, "other minimum"]))


def lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Of the table; ratios are to kinesym on the same problem and size."""
    ours = {
        (row.problem, row.nodes): row.wall
        for row in rows
        if row.contender == "kinesym" and not row.failure
    }
    for row in rows:
        base = NAN if row.failure else ours.get((row.problem, row.nodes), NAN)
        difference = "-" if np.isnan(row.difference) else f"{row.difference:.0e}"
        words = f"failed: {row.failure}" if row.failure else difference
        yield [
            row.problem,
            f"{row.nodes}",
            row.contender,
            number(row.build),
            f"{row.iterations}" if row.iterations >= 0 else "-",
            number(row.wall),
            "-" if np.isnan(base) else ratio(row.wall, base),
            number(row.memory),
            "-" if np.isnan(row.objective) else f"{row.objective:.9g}",
            "-" if np.isnan(row.published) else f"{row.published:.0e}",
            words + (f"; {row.note}" if row.note else ""),
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
        "memory [MB]",
        "objective",
        "from published",
        "from kinesym",
    ]
    return [same_ipopt(rows), table(header, lines(rows))]


def draw(path: Path, rows: Sequence[Row], limit: float) -> None:
    """Seconds to solve, a line per problem; a cross is the time to a failure, or the limit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels: dict[int, dict[str, list[Row]]] = {}  # the smallest size of each problem, the next
    for row in rows:
        sizes = sorted({other.nodes for other in rows if other.problem == row.problem})
        panel = panels.setdefault(sizes.index(row.nodes), {})
        panel.setdefault(row.problem, []).append(row)
    height = 1.6 + 0.36 * max(map(len, panels.values()))
    fig, axes = plt.subplots(
        1,
        len(panels),
        figsize=(2.0 + 5.5 * len(panels), height),
        squeeze=False,
        layout="constrained",
    )
    for axis, (_, panel) in zip(axes[0], sorted(panels.items()), strict=True):
        for y, found in enumerate(panel.values()):
            for row in found:
                k = list(CONTENDERS).index(row.contender)
                x = limit if np.isnan(row.wall) else row.wall
                axis.plot(
                    x,
                    y + 0.11 * (k - 3),
                    "x" if row.failure else MARKERS[k],
                    color=f"C{k}",
                    ms=6 if row.failure else 5,
                )
        labels = [f"{name} ({found[0].nodes})" for name, found in panel.items()]
        axis.set(
            xscale="log",
            xlabel="seconds to solve (x: failed)",
            yticks=range(len(labels)),
            yticklabels=labels,
            ylim=(len(labels) - 0.5, -0.5),
        )
        for y in range(1, len(labels)):
            axis.axhline(y - 0.5, color="0.85", lw=0.8, zorder=0)
        axis.grid(True, axis="x", which="major", alpha=0.4)
    for k, name in enumerate(CONTENDERS):
        if name in {row.contender for row in rows}:
            axes[0][0].plot([], [], MARKERS[k], color=f"C{k}", label=name)
    fig.legend(loc="outside upper center", ncols=4)
    fig.savefig(path, dpi=110)
    plt.close(fig)


# -- command line ---------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--problems",
        nargs="+",
        choices=PROBLEMS,
        default=[*PROBLEMS],
        metavar="NAME",
        help=", ".join(PROBLEMS),
    )
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument(
        "--factors",
        nargs="+",
        type=int,
        default=FACTORS,
        metavar="K",
        help="times the intervals of the source (default: 1 10)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds for each process (default: 120)",
    )
    parser.add_argument(
        "--one",
        nargs=3,
        metavar=("CONTENDER", "PROBLEM", "N"),
        help="only this, in this process; prints JSON",
    )
    parser.add_argument("--ends", metavar="FILE", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.quick:
        given.problems, given.factors = QUICK, [1]
    return given


def main() -> None:
    given = arguments()
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits opty best
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if given.one:
        contender, problem, nodes = given.one
        print("\n" + json.dumps(asdict(one(contender, problem, int(nodes), given.ends))))
        return
    words = machine("opty", "casadi")
    print(words)
    absent = {c: why for c in given.contenders if (why := missing(c))}
    present = [c for c in given.contenders if c not in absent]
    tasks = [
        (
            problem,
            size(problem, factor),
            [c for c in present if c != "opty" or problem in PENDULA],
            given.limit,
        )
        for problem in given.problems
        for factor in given.factors
    ]
    found = list(kept(given, "optima", lambda *task: list(map(asdict, measure(*task))), tasks))
    rows = [Row(**row) for each in found if not each.failure for row in each.value]
    raw = [{k: v for k, v in asdict(row).items() if k != "ipopt"} for row in rows]
    out = [f"Left out: {', '.join(f'{c} ({why})' for c, why in absent.items())}."] if absent else []
    for path in leave(given, "optima", words, [*out, *remarks(found), *report(rows)], raw):
        draw(path, rows, given.limit)


if __name__ == "__main__":
    main()
