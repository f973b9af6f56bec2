"""How long do functions from data take, and how does that grow with points, against CasADi?

A mass on a spring whose force is a cubic spline through n points: constraints of the midpoint rule,
their Jacobian, and the Hessian of the Lagrangian, of a trajectory that runs through all points to
and fro. Both packages get the same points and must return the same numbers before any is timed.
CasADi's spline is its `interpolant` "bspline"; its functions are mapped over intervals, written as
C and compiled like kinesym's. Its entries are not put into one matrix, kinesym's are. Beside
them, an ensemble of 1,000 springs of different stiffness, 500 steps of rk4. Times are CPU times of
one thread, the least of many in turns.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from record import table
from report import leave, machine, number, parsed

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE

Array = NDArray[np.float64]

CALLBACKS = ("constraints", "jacobian", "hessian")
TOLERANCE = 1e-9  # of the largest number


class Side(NamedTuple):
    """A package: seconds of CPU to build, callbacks, and one number that each must have."""

    build: float
    calls: Mapping[str, Callable[[], Any]]
    sums: Mapping[str, float]


def curve(points: Array) -> Array:
    return np.tanh(points) + 0.1 * points**3


def course(nodes: int) -> tuple[Array, Array, Array]:
    """Times, positions and speeds."""
    t = np.linspace(0.0, 60.0, nodes)
    return t, 1.9 * np.cos(t), 2.0 * np.sin(1.3 * t)


def kinesym_side(n: int, nodes: int) -> Side:
    """Built from nothing."""
    begin = cpu()
    x, v = ks.dynamicsymbols("x v")
    points = np.linspace(-2.0, 2.0, n)
    force = ks.table(x, points, curve(points))
    model = ks.Model("spring", [x, v], [], [], [x.diff(ks.t) - v, v.diff(ks.t) + force])
    t, position, speed = course(nodes)
    trial = ks.Experiment(t, measurements={x: position})
    nlp = ks.Collocation(model, trial, scheme="midpoint", threads=1).nlp
    z, w = np.concatenate([position, speed]), np.ones(nlp.n_constraints)
    calls = {
        "constraints": lambda: nlp.constraints(z),
        "jacobian": lambda: nlp.jacobian(z),
        "hessian": lambda: nlp.hessian(z, w, 0.0),
    }
    build = cpu() - begin
    rows, columns = nlp.hessian_structure.arrays()
    diagonal = rows == columns
    sums = {
        "constraints": float(np.abs(calls["constraints"]()).sum()),
        "jacobian": float(calls["jacobian"]().sum()),
        "hessian": float(calls["hessian"]() @ np.where(diagonal, 1.0, 2.0)),
    }
    calls["ensemble"] = ensemble(x, v, force)
    return Side(build, calls, sums)


def ensemble(x: Any, v: Any, force: Any) -> Callable[[], Any]:
    """500 steps of rk4 of 1,000 springs of different stiffness."""
    k = sp.Symbol("k")
    model = ks.Model("springs", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * force])
    time, stiffness = np.linspace(0.0, 10.0, 501), {k: np.linspace(1.0, 5.0, 1000)}
    return lambda: ks.simulate(model, time, {x: 1.0, v: 0.0}, stiffness, threads=1)


def casadi_side(n: int, nodes: int, folder: str) -> Side:
    """As C if CasADi writes it; raises `ImportError` without CasADi."""
    import casadi as ca

    begin = cpu()
    points = np.linspace(-2.0, 2.0, n)
    force = ca.interpolant("force", "bspline", [points.tolist()], curve(points).tolist())
    t, position, speed = course(nodes)
    h = float(t[1] - t[0])
    y, w = ca.MX.sym("y", 4), ca.MX.sym("w", 2)
    rows = ca.vertcat(
        (y[2] - y[0]) / h - (y[1] + y[3]) / 2, (y[3] - y[1]) / h + force((y[0] + y[2]) / 2)
    )
    jacobian, hessian = ca.jacobian(rows, y), ca.hessian(ca.dot(w, rows), y)[0]
    made = {
        "constraints": ca.Function("constraints", [y, w], [rows]),
        "jacobian": ca.Function("jacobian", [y, w], [jacobian.nz[:]]),
        "hessian": ca.Function("hessian", [y, w], [hessian.nz[:]]),
    }
    names = {name: f.map(nodes - 1, "serial") for name, f in made.items()}
    compiled = _as_c(names, folder, f"table_{n}")
    at = np.stack([position[:-1], speed[:-1], position[1:], speed[1:]])
    ones = np.ones((2, nodes - 1))
    calls, sums = {}, {}
    for name, f in compiled.items():
        buffer, call = f.buffer()
        out = np.zeros((f.size2_out(0), f.size1_out(0)))
        held = np.ascontiguousarray(at.T), np.ascontiguousarray(ones.T), out
        buffer.set_arg(0, memoryview(held[0]))
        buffer.set_arg(1, memoryview(held[1]))
        buffer.set_res(0, memoryview(held[2]))
        calls[name] = lambda call=call, held=held, buffer=buffer: call()
        calls[name]()
        sums[name] = float((np.abs(out) if name == "constraints" else out).sum())
    return Side(cpu() - begin, calls, sums)


def _as_c(functions: Mapping[str, Any], folder: str, name: str) -> dict[str, Any]:
    """The same from compiled C."""
    import casadi as ca

    generator = ca.CodeGenerator(f"{name}.c")
    for f in functions.values():
        generator.add(f)
    generator.generate(f"{folder}/")
    target = Path(folder, f"{name}.so")
    command = f"cc -O3 -march=native -ffast-math -shared -fPIC {name}.c -o {target} -lm"
    subprocess.run(shlex.split(command), cwd=folder, check=True)
    return {key: ca.external(f.name(), str(target)) for key, f in functions.items()}


def cpu() -> float:
    """Seconds of this process and of those that it has run."""
    return sum(os.times()[:4])


def least(calls: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """The least CPU time of each [ms], in turns."""
    best = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
    for _ in range(turns):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            best[name] = min(best[name], 1e3 * (time.process_time() - begin))
    return best


def measured(n: int, nodes: int, turns: int, folder: str) -> list[dict[str, Any]]:
    """One row per callback, and one for the time of building."""
    sides = {"kinesym": kinesym_side(n, nodes)}
    try:
        sides["CasADi"] = casadi_side(n, nodes, folder)
    except ImportError as error:
        print(f"left out: {error}")
    for name in CALLBACKS if len(sides) > 1 else ():
        ours, theirs = (side.sums[name] for side in sides.values())
        if not abs(ours - theirs) <= TOLERANCE * max(abs(theirs), nodes):
            raise ValueError(f"{name} of {n} points: kinesym sums up to {ours}, CasADi to {theirs}")
    every = {(p, name): call for p, side in sides.items() for name, call in side.calls.items()}
    found = least(every, turns)
    names = (*CALLBACKS, "ensemble")
    rows = [
        {"points": n, "what": name, **{p: found.get((p, name)) for p in sides}} for name in names
    ]
    build = {p: side.build for p, side in sides.items()}
    return [*rows, {"points": n, "what": "build [s]", **build}]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[10, 100, 1000, 10000])
    parser.add_argument("--nodes", type=int, default=6001)
    given = parsed(parser)
    points, nodes, turns = ([10, 100], 101, 3) if given.quick else (given.points, given.nodes, 60)
    words, rows = machine("casadi"), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for n in points:
            rows += measured(n, nodes, turns, folder)
            print(rows[-5:], flush=True)
    lines = [
        [str(row["points"]), row["what"], *(number(row.get(p)) for p in ("kinesym", "CasADi"))]
        for row in rows
    ]
    made = table(["points", "callback", "kinesym [ms]", "CasADi [ms]"], lines)
    leave(given, "interpolants", words, [made, f"{nodes - 1} intervals."], rows)


if __name__ == "__main__":
    main()
