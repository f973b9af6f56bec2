"""How long does inverse kinematics from markers take, next to OpenSim and to direct collocation?

A motion of sines, three markers on each body with a massive joint of its own, 5 mm of noise, 1,000
frames at 100 Hz: `ks.gait.fit_markers`, each frame on its own, smooth, robust, within limits.
Beside it OpenSim's solver (where `opensim` is installed), and `ks.Collocation` of the kinematic
model q' = v, v' = a with small costs of a. Times are CPU times of one thread; standard errors are
within.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, number, parsed

import kinesym as ks
from kinesym.gait.marker_inputs import compiled, numbers_of, turn_of
from kinesym.models.markers import marker_places
from kinesym.multibody import Tree
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.library.tiers import COMPILED, TIER_VARIABLE

TOP = Path(__file__).parents[1]
FILES = {
    "gait2354": TOP / "tests" / "data" / "opensim" / "subject01_simbody.osim.gz",
    "LaiUhlrich2022": TOP / "examples" / "data" / "opensim_LaiUhlrich2022.osim.gz",
}
MODELS = (*FILES, "whole body")
NOISE, RATE = 0.005, 100.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cpu() -> float:
    """Seconds of this process and of compilers that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass
class Task:
    """A motion of a tree, and markers with noise."""

    name: str
    tree: Tree
    placed: dict[str, tuple[str, list[float]]]
    motion: Mapping[str, np.ndarray]
    markers: ks.gait.Markers
    measured: np.ndarray


def task(name: str, frames: int) -> Task:
    rng = np.random.default_rng(1)
    tree = ks.osim.read(FILES[name]) if name in FILES else ks.gait.whole_body()
    small = ("patella", "talus")
    bodies = [b.name for b in tree.bodies if b.mass != 0 and not b.name.startswith(small)]
    placed = {
        f"{body}_{k}": (body, (0.1 * rng.normal(size=3)).tolist())
        for body in bodies
        for k in range(3)
    }
    t = np.arange(frames) / RATE
    motion = {
        q: 0.2 * np.sin(2.0 * np.pi * rng.uniform(0.5, 1.5) * t + rng.uniform(0.0, 6.0))
        for q in tree.coordinates
    }
    for q in motion:
        motion[q] += {"knee_angle_r": 0.6, "knee_angle_l": 0.6}.get(q, 0.0) * (
            -1.0 if name == "gait2354" else 1.0
        )
    f = compiled(tree, tuple(body for body, _ in placed.values()))
    numbers = numbers_of(f, [np.array(at) for _, at in placed.values()])
    x = np.array([motion[q] for q in f.states])
    y = f.outputs(0.0 * x, x, (), numbers, t)
    y += NOISE * rng.normal(size=y.shape)
    turn = turn_of(tree).T
    positions = {key: turn @ y[3 * k : 3 * k + 3] for k, key in enumerate(placed)}
    return Task(name, tree, placed, motion, ks.gait.Markers(t, positions), y)


def timed(call: Callable[[], Any], turns: int) -> tuple[float, Any]:
    """The least of some times, and what came out."""
    times = []
    for _ in range(turns):
        begin = cpu()
        result = call()
        times.append(cpu() - begin)
    return min(times), result


def error(task: Task, fit: Mapping[str, np.ndarray]) -> float:
    """Root mean square error of the angles [deg]."""
    parts = [fit[q] - row for q, row in task.motion.items() if not q.endswith(("tx", "ty", "tz"))]
    return float(np.degrees(np.sqrt(np.mean(np.square(parts)))))


def by_opensim(
    task: Task, folder: str, accuracy: float = 1e-5
) -> tuple[float, Mapping[str, np.ndarray]]:
    """The time of OpenSim's tool, and its coordinates."""
    import opensim

    opensim.Logger.setLevelString("error")
    opensim.Logger.removeFileSink()
    path = Path(folder) / "model.osim"
    path.write_bytes(gzip.decompress(FILES[task.name].read_bytes()))
    model = opensim.Model(str(path))
    coordinates = model.updCoordinateSet()
    for k in range(coordinates.getSize()):
        coordinates.get(k).setDefaultClamped(False)
    for key, (body, at) in task.placed.items():
        frame = model.getBodySet().get(body)
        model.addMarker(opensim.Marker(key, frame, opensim.Vec3(*at)))
    model.finalizeConnections()
    model.initSystem()
    names = list(task.placed)
    trc, out = Path(folder) / "walk.trc", Path(folder) / "out.mot"
    head = [
        "PathFileType\t4\t(X/Y/Z)\twalk.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
        f"100\t100\t{len(task.markers)}\t{len(names)}\tm\t100\t1\t{len(task.markers)}",
        "Frame#\tTime\t" + "\t\t\t".join(names) + "\t\t",
        "\t\t" + "\t".join(f"{a}{k + 1}" for k in range(len(names)) for a in "XYZ"),
        "",
    ]
    rows = [
        f"{k + 1}\t{t:.6f}\t" + "\t".join(f"{x:.9f}" for x in column)
        for k, (t, column) in enumerate(zip(task.markers.time, task.measured.T, strict=True))
    ]
    trc.write_text("\n".join([*head, *rows]) + "\n")
    tool, tasks = opensim.InverseKinematicsTool(), opensim.IKTaskSet()
    for key in names:
        one = opensim.IKMarkerTask()
        one.setName(key)
        one.setWeight(1.0)
        one.setApply(True)
        tasks.cloneAndAppend(one)
    tool.set_IKTaskSet(tasks)
    tool.setModel(model)
    tool.setMarkerDataFileName(str(trc))
    tool.setStartTime(task.markers.time[0])
    tool.setEndTime(task.markers.time[-1])
    tool.setOutputMotionFileName(str(out))
    tool.set_report_errors(False)
    tool.set_accuracy(accuracy)
    begin = cpu()
    tool.run()
    used = cpu() - begin
    found = ks.gait.read_mot(out)
    turning = ks.gait.fit_markers(task.tree, task.placed, task.markers).angles
    return used, {
        q: np.deg2rad(found[q]) if q in turning else found[q]
        for q in task.tree.coordinates
        if q in found
    }


def by_collocation(task: Task) -> tuple[float, float, Mapping[str, np.ndarray], str]:
    """Time to build and to solve, coordinates, and how it ended; from the mean posture."""
    places = marker_places(task.tree, [body for body, _ in task.placed.values()])
    q = list(places.states)
    v = [sp.Function(f"v_{x.func.__name__}")(ks.t) for x in q]
    a = [sp.Function(f"a_{x.func.__name__}")(ks.t) for x in q]
    equations = [x.diff(ks.t) - y for x, y in zip([*q, *v], [*v, *a], strict=True)]
    values = dict(places.values)
    for k, (_, at) in enumerate(task.placed.values()):
        values |= {f"marker_{k}_at_{axis}": x for axis, x in zip("xyz", at, strict=True)}
    model = ks.Model(
        "kinematic",
        [*q, *v],
        a,
        places.parameters,
        equations,
        places.outputs,
        places.intermediates,
        values=values,
    )
    begin = cpu()
    names = [f"marker_{k}_{axis}" for k in range(len(task.placed)) for axis in "xyz"]
    trial = ks.Experiment(
        task.markers.time,
        measurements=dict(zip(names, task.measured, strict=True)),
        std=dict.fromkeys(names, NOISE),
    )
    problem = ks.Collocation(
        model,
        trial,
        unknown_inputs={x: ks.held() for x in a},
        scheme="backward-euler",
        objective=ks.LeastSquares() + 1e-6 * ks.Integral(sp.Add(*(x**2 for x in a))),
        threads=1,
    )
    built = cpu()
    t = task.markers.time
    guess = {x.func.__name__: np.mean(task.motion[x.func.__name__]) + 0.0 * t for x in q}
    solution = problem.solve(guess=guess, progress=False)
    solved = cpu()
    run = solution.trials[0]
    return built - begin, solved - built, run, f"{len(solution.history)} iterations"


def measured(name: str, frames: int, turns: int, others: bool) -> list[dict[str, Any]]:
    begin = cpu()
    given = task(name, frames)
    tree, placed, markers = given.tree, given.placed, given.markers
    ks.gait.fit_markers(tree, placed, markers)
    rows = [{"how": "build and first fit", "time": cpu() - begin}]
    wide = {
        q: (float(row.min()) - 0.02, float(np.quantile(row, 0.98)))
        for q, row in given.motion.items()
    }
    ways: dict[str, dict[str, Any]] = {
        "each frame on its own": {},
        "smooth, 6 Hz": {"smooth": 6.0},
        "Huber's loss": {"loss": "huber"},
        "within limits that bind": {"limits": wide},
        "smooth, within limits that bind": {"limits": wide, "smooth": 6.0},
    }
    for how, options in ways.items():
        seconds, fit = timed(
            lambda o=options: ks.gait.fit_markers(tree, placed, markers, **o), turns
        )
        row = {"how": how, "time": seconds, "iterations": str(fit.iterations)}
        rows.append(row | {"rms": 1e3 * fit.total_rms, "error": error(given, fit.coordinates)})
    if others and name in FILES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                seconds, found = by_opensim(given, folder)
            off = error(given, {**given.motion, **found})
            rows.append({"how": "OpenSim", "time": seconds, "error": off})
        except ImportError:
            print("opensim is not installed: pip install opensim", flush=True)
    if others and name == "gait2354":
        build, solve, run, ended = by_collocation(given)
        rows.append({"how": "Collocation, build", "time": build})
        off = error(given, {q: run[q] for q in given.motion})
        rows.append({"how": "Collocation, solve", "time": solve, "iterations": ended, "error": off})
    head = {"model": name, "coordinates": len(tree.coordinates), "markers": len(placed)}
    return [head | row for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--alone", action="store_true", help="without OpenSim and collocation")
    given = parsed(parser)
    if not ONE_THREAD.items() <= os.environ.items():  # BLAS reads them when it is loaded
        command = [sys.executable, __file__, *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, **ONE_THREAD}).returncode)
    names, frames, turns = given.models, given.frames, 3
    if given.quick:
        names, frames, turns = ["gait2354"], 50, 1
    warnings.simplefilter("ignore")  # of what files have, of frames far off
    words, rows = machine(), []
    os.environ[TIER_VARIABLE] = COMPILED
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for name in names:
            for row in measured(name, frames, turns, not given.alone and not given.quick):
                rows.append(row)
                print(row, flush=True)
    header = ["model", "coordinates", "markers", "how", "time [s]", "iterations"]
    header += ["marker errors [mm]", "error of angles [deg]"]
    lines = [
        [
            row["model"],
            str(row["coordinates"]),
            str(row["markers"]),
            row["how"],
            number(row["time"]),
            row.get("iterations", "-"),
            number(row.get("rms")),
            number(row.get("error")),
        ]
        for row in rows
    ]
    leave(given, "markers", words, [table(header, lines)], rows)


if __name__ == "__main__":
    main()
