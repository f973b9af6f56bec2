"""How soon is a first solve there, and what do interpreted kernels cost, against CasADi's?

First solves: identifications of `solves.py` and optimal control of `optima.py` by processes of
their own, in which nothing is cached and nothing of the problem was computed before; *warm*, after
another, small problem, which loads the packages, from the model in memory to the solution; *whole*,
from the start of Python on. Peers get optimal control from our expressions, which takes no time of
theirs; the cart-pole is also written in CasADi by hand, from its equations as an SX function on.

Kernels: callbacks of `callbacks.py`, compiled and interpreted, and by CasADi's virtual machine for
SX functions, which maps them over the intervals; one thread.

    python benchmarks/start.py [--problems n_link_1:200 ...] [--links 2 10] [--nodes 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import callbacks
import numpy as np
import optima
import solves
from peers.programs import QAMD, STORY
from record import table
from report import in_process, leave, machine, number, parsed, ratio

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.library.tiers import COMPILED, INTERPRETED, TIER_VARIABLE

#: First solves: name, contender of `solves.py`, and the tier that is forced.
#: In `optima.py` CasADi's and opty's have other names.
IN_OPTIMA = {"kinesym": "kinesym", "casadi+qamd": "casadi+qamd", "opty+scaling": "opty"}
FIRST = {
    "kinesym": ("kinesym", ""),
    "kinesym, compiled": ("kinesym", COMPILED),
    "CasADi": ("casadi+qamd", ""),
    "CasADi by hand": ("casadi+qamd+blocks", ""),
    "opty": ("opty+scaling", ""),
}
PROBLEMS = (
    "n_link_1:200",
    "cart_pole:101",
    "standing:600",
    "standing:6000",
    "n_link_2:1000",
    "n_link_5:1000",
)
LIMIT = 120.0  # s for a process


# -- first solves ---------------------------------------------------------------------------------


def warm(contender: str, problem: str, folder: str) -> None:
    """A small problem, another one."""
    name = "n_link_1" if problem == "standing" else "standing"
    case = solves.make_case(name, solves.make_numbers(name, 50))
    solves.CONTENDERS[contender](case, 1, folder)[1]()


def one(contender: str, problem: str, data: str, is_warm: bool) -> dict[str, Any]:
    """Seconds from the model in memory to the solution, and parameters or objective."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        if problem in optima.PROBLEMS:
            return optimum(contender, problem, int(data), folder, is_warm)
        case = solves.make_case(problem, dict(np.load(data)))
        if is_warm:
            warm(contender, problem, folder)
        begin = time.perf_counter()
        _, solve = solves.CONTENDERS[contender](case, 1, folder)
        found = solve()
        took = time.perf_counter() - begin
    return {"seconds": took, "found": found.parameters, "failure": found.failure}


def optimum(contender: str, problem: str, nodes: int, folder: str, is_warm: bool) -> dict[str, Any]:
    """`one`, of optimal control. Our time to solve is that of all, from the model on."""
    if is_warm:
        warm(contender, problem, folder)
    if contender not in IN_OPTIMA:
        return by_hand(cart_pole(), nodes)
    _, build, solve = optima.CONTENDERS[IN_OPTIMA[contender]](problem, nodes, folder)
    found = solve()
    took = found.wall + (0.0 if contender == "kinesym" else build)
    return {"seconds": took, "found": [found.objective], "failure": found.failure}


def cart_pole() -> Any:
    """x' = f(x, u) of `optima.cart_pole` as a function of CasADi."""
    import casadi as ca

    x, u, m1, m2, length, g = ca.SX.sym("x", 4), ca.SX.sym("u"), 1.0, 0.3, 0.5, 9.81
    s, c, rate = ca.sin(x[1]), ca.cos(x[1]), x[3]
    push, below = length * m2 * s * rate**2 + u, m1 + m2 * s**2
    turn = -(c * push + (m1 + m2) * g * s) / (length * below)
    return ca.Function("f", [x, u], [ca.vertcat(x[2], rate, (push + m2 * g * c * s) / below, turn)])


def by_hand(f: Any, nodes: int) -> dict[str, Any]:
    """The program of `optima.cart_pole` as one would write it in CasADi, which differentiates."""
    import casadi as ca

    begin = time.perf_counter()
    step, line = 2.0 / (nodes - 1), np.linspace(0.0, 1.0, nodes)
    z = ca.MX.sym("z", 5, nodes)
    x, u = z[:4, :], z[4, :]
    rates = f.map(nodes)(x, u)
    defects = x[:, 1:] - x[:, :-1] - 0.5 * step * (rates[:, 1:] + rates[:, :-1])
    cost = 0.5 * step * (ca.sumsqr(u[1:]) + ca.sumsqr(u[:-1]))
    equations = ca.vertcat(ca.vec(defects), x[:, 0], x[:, -1] - ca.DM([1.0, np.pi, 0.0, 0.0]))
    settings = {f"ipopt.{name}": value for name, value in QAMD.items()}
    settings |= {"ipopt.tol": STORY["tol"], "ipopt.print_level": 0, "print_time": False}
    solver = ca.nlpsol("s", "ipopt", {"x": ca.vec(z), "f": cost, "g": equations}, settings)
    most = np.tile([2.0, np.inf, np.inf, np.inf, 20.0], nodes)
    guess = np.zeros((nodes, 5))
    guess[:, 0], guess[:, 1] = line, np.pi * line
    found = solver(x0=guess.ravel(), lbx=-most, ubx=most, lbg=0.0, ubg=0.0)
    took, stats = time.perf_counter() - begin, solver.stats()
    failure = "" if stats["success"] else stats["return_status"]
    return {"seconds": took, "found": [float(found["f"])], "failure": failure}


def first(problem: str, repeats: int, folder: str) -> dict[str, tuple[float, float]]:
    """Seconds of all contenders, warm and whole: the least of so many processes."""
    name, nodes = problem.split(":")
    data, times, known = nodes, {}, None
    if name not in optima.PROBLEMS:
        data = f"{folder}/{problem}.npz"
        np.savez(data, **solves.make_numbers(name, int(nodes)))
    for title, (contender, tier) in FIRST.items():
        found: list[list[float]] = [[], []]
        for _ in range(repeats):
            for seconds, kind in zip(found, ("warm", "whole"), strict=True):
                os.environ[TIER_VARIABLE] = tier
                command = [__file__, "--one", contender, name, data, kind]
                begin = time.perf_counter()
                said, failure = in_process(command, LIMIT, Path(folder))
                took = time.perf_counter() - begin
                del os.environ[TIER_VARIABLE]
                if failure or said["failure"]:
                    print(f"{problem}: {title}: {failure or said['failure']}")
                    continue
                known = known or said["found"]
                if not np.allclose(known, said["found"], rtol=1e-5):
                    print(f"{problem}: {title} found another solution")
                seconds.append(said["seconds"] if kind == "warm" else took)
        times[title] = (min(found[0], default=np.nan), min(found[1], default=np.nan))
    return times


# -- kernels --------------------------------------------------------------------------------------


def interpreted_casadi(case: callbacks.Case, threads: int, folder: str) -> callbacks.Side:
    """CasADi's functions as its virtual machine runs them."""
    try:
        import casadi as ca
    except ImportError:
        return callbacks.Side()
    begin = time.perf_counter()
    functions, places = callbacks.casadi_functions(ca, case, "serial")
    return callbacks.casadi_bound(functions, places, time.perf_counter() - begin, case)


def by_tier(tier: str, case: callbacks.Case, folder: str) -> callbacks.Side:
    """Our callbacks by one way, of a model that is not known yet."""
    os.environ[TIER_VARIABLE] = tier
    model = case.model.extended(outputs={f"of_{tier}": case.model.states[0]})
    side = callbacks.kinesym_side(replace(case, model=model), 1, folder)
    del os.environ[TIER_VARIABLE]
    return side


def kernels(links: Sequence[int], nodes: int, folder: str) -> list[list[str]]:
    """A line per model and callback: seconds to build, then ms, and ratios."""
    lines = []
    models = [ks.models.standing(), *map(ks.models.n_link_pendulum_on_cart, links)]
    for model in models:
        case = callbacks.make_case(model, nodes)
        sides: Mapping[str, callbacks.Side] = {
            "kinesym": by_tier(COMPILED, case, folder),
            "interpreted": by_tier(INTERPRETED, case, folder),
            "CasADi": interpreted_casadi(case, 1, folder),
        }
        print(f"{model.name}: {callbacks.verify(sides)}", flush=True)
        for row in callbacks.compare(sides, case, 1):
            ours, mine, casadi = row.times.values()
            words = [row.callback, number(ours), number(mine), ratio(mine, ours), number(casadi)]
            lines.append([model.name, *words, ratio(casadi, mine)])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME:NODES")
    parser.add_argument("--links", type=int, nargs="*", default=[1, 2, 5, 10])
    parser.add_argument("--nodes", type=int, default=10_000, help="of the kernels")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each first solve")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.one:
        contender, problem, data, kind = given.one
        print(json.dumps(one(contender, problem, data, kind == "warm")))
        return
    if given.quick:
        given.problems, given.links, given.nodes, given.repeats = ["n_link_1:100"], [1], 100, 1
    os.environ.setdefault("CFLAGS", "-O3 -march=native")
    words = machine("casadi", "opty")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        times = {problem: first(problem, given.repeats, folder) for problem in given.problems}
        lines = kernels(given.links, given.nodes, folder)
    header = ["problem", *(f"{t}: {k} [s]" for t in FIRST for k in ("warm", "whole"))]
    rows = [[p, *(number(s) for pair in row.values() for s in pair)] for p, row in times.items()]
    parts = [table(header, rows), f"{given.nodes} nodes:"]
    header = ["model", "callback", "compiled [ms]", "interpreted [ms]", "ratio", "CasADi [ms]"]
    parts.append(table([*header, "CasADi / interpreted"], lines))
    numbers = [
        {"problem": p, "contender": title, "warm": pair[0], "whole": pair[1]}
        for p, row in times.items()
        for title, pair in row.items()
    ]
    leave(given, "start", words, parts, numbers)


if __name__ == "__main__":
    sys.exit(main())
