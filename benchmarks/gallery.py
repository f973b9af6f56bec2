"""How do the problems of opty's gallery fare here: optimum, total time, and lines to write?

Each problem of `examples/gallery/` is solved in a process of its own: CPU seconds from the start of
Python, with derivation and compilation, to the solution. The cache is empty before the first one;
what the others have in common with it, the loop over points, is compiled once. With the sources of
opty (`--opty FOLDER`, where setup.py is) its own scripts run in turn, likewise, without their
pictures and without the solutions that are kept beside them.

    python benchmarks/gallery.py [NAME ...] [--opty FOLDER]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import matplotlib.pyplot as plt
from record import table
from report import number, save

LINES = ("lines", "lines_opty")
#: Those whose way is drawn.
WAYS = (
    "car_around_pylons",
    "car_in_garage",
    "car_on_racecourse",
    "countersteer",
    "steamboat",
    "refraction",
    "brachistochrone",
    "particle_in_tube",
)
#: Longest run of a script [s].
LIMIT = 600.0
GALLERY = Path(__file__).parents[1] / "examples" / "gallery"


@dataclass(frozen=True)
class Peer:
    """A script of opty 1.5.0, how many lines it has, and its cost in the units of ours.

    cost : printed by the script, or of the solution beside it; None where the problem is another
    one. factor : from what it prints to that. solve : what ours solves, as arguments of the call.
    which : of its solves counts, with all before it.
    """

    script: str
    lines: int
    cost: float | None = None
    factor: float = 1.0
    solve: str = "solve()"
    which: int = -1


PEERS = {
    "betts_identification": Peer("beginner/plot_betts2003.py", 143),
    "pendulum_dae": Peer("beginner/plot_betts_10_103_104.py", 213, 12.043401729851333, which=0),
    "delay_chain": Peer("beginner/plot_betts_10_50.py", 181, 3.107279260585641),
    "hypersensitive": Peer(
        "beginner/plot_betts_10_7.py",
        134,
        6.733684151449378,
        solve="problem(10001, 8.0).solve()",
    ),
    "brachistochrone": Peer(
        "beginner/plot_brachistochrone.py", 297, 1.7906237647, 200, "problem().solve({'v': 5.0})"
    ),
    "hilly_race": Peer("beginner/plot_hilly_race.py", 243, 173.6048143926, 200),
    "refraction": Peer("beginner/plot_light_diffraction.py", 343, 6.2236806575, 500),
    "on_a_cylinder": Peer("beginner/plot_path_constraints.py", 119, 0.47923822654763565),
    "pendulum_swing_up": Peer(
        "beginner/plot_pendulum_swing_up_fixed_duration.py", 159, 15.641553623553355
    ),
    "pendulum_any_duration": Peer(
        "beginner/plot_pendulum_swing_up_variable_duration.py", 161, 23.016106927466925
    ),
    "sliding_block": Peer("beginner/plot_sliding_block.py", 334, 3.9512274180, 149, which=0),
    "bumpy_road": Peer("beginner/plot_wheel_on_bumpy_road.py", 434, 2393586.373873296),
    "goddard": Peer("intermediate/plot_betts_10_47.py", 416),
    "car_on_racecourse": Peer(
        "intermediate/plot_car_on_racecourse_smooth.py", 481, 15.0600927786, 600
    ),
    "countersteer": Peer("intermediate/plot_countersteer.py", 291, 1.3130285763, 200),
    "crane": Peer("intermediate/plot_crane_moving_a_load.py", 346, 5.894363625878, 149),
    "drone": Peer("intermediate/plot_drone.py", 316, 1015.406714758573),
    "steamboat": Peer("intermediate/plot_mississippi_steamboat.py", 495, 229633.05),
    "four_springs": Peer("intermediate/plot_non_contiguous_parameter_identification.py", 228),
    "parallel_park": Peer("intermediate/plot_parallel_park.py", 272, 320112.3735945696),
    "cart_double_pendulum": Peer(
        "intermediate/plot_two_link_pendulum_on_a_cart.py", 345, 2.924254701641, 299
    ),
    "ball_on_disc": Peer("advanced/plot_ball_rolling_on_spinning_disc.py", 613),
    "car_around_pylons": Peer("advanced/plot_car_around_pylons.py", 488, 7.4968449272, 400),
    "car_in_garage": Peer("advanced/plot_car_in_garage.py", 508, 82.4904937441896),
    "human_gait": Peer("advanced/plot_human_gait.py", 391),
    "one_legged_time_trial": Peer("advanced/plot_one_legged_time_trial.py", 874, 6.4963432763, 264),
    "particle_in_tube": Peer("advanced/plot_particle_in_tube.py", 622, 39069.748698964094),
    "sit_to_stand": Peer("advanced/plot_sit_to_stand.py", 341, 13614.927792),
}

#: What both processes end with: CPU seconds of themselves and of the compilers they called.
_SPENT = """
def told(cost, success):
    import json, resource
    spent = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(s.ru_utime + s.ru_stime for s in spent)
    print("TOLD", json.dumps([cost, seconds, bool(success)]), flush=True)
"""

_OURS = """
from kinesym.examples.gallery.{name} import *
solution = {solve}
told(float(solution.objective), solution.success)
"""

#: Runs a script of opty; each solve tells its cost, pictures are not drawn.
_THEIRS = """
import runpy, sys
from unittest.mock import MagicMock
import numpy as np, matplotlib
matplotlib.use("Agg")
from opty import direct_collocation
Problem = direct_collocation.Problem
original = Problem.solve
def solve(self, *given, **options):
    self.add_option("print_level", 0)
    solution, info = original(self, *given, **options)
    told(float(info["obj_val"]), info["status"] in (0, 1))
    return solution, info
Problem.solve = solve
for name in dir(Problem):
    if name.startswith("plot"):
        setattr(Problem, name, MagicMock())
np.random.seed(0)
sys.path.insert(0, ".")
runpy.run_path({script!r}, run_name="__main__")
"""


def told(
    code: str, folder: Path, which: int = -1, **variables: str
) -> tuple[float, float, bool] | None:
    """Cost, CPU seconds and success of a solve of a process; None if it took too long."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    # An installed package has its bytecode, which a variable like this would keep from a checkout.
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        process = subprocess.run(
            [sys.executable, "-c", _SPENT + code],
            cwd=folder,
            env={**here, **single, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line[5:] for line in process.stdout.splitlines() if line.startswith("TOLD ")]
    if not lines:
        print(process.stderr[-2000:], file=sys.stderr)
        return None
    cost, seconds, success = json.loads(lines[which])
    return cost, seconds, success


def ours(name: str, cache: str) -> tuple[float, float, bool] | None:
    """One of ours, with the libraries in the folder `cache`."""
    code = _OURS.format(name=name, solve=PEERS[name].solve)
    return told(code, Path.cwd(), KINESYM_CACHE=cache)


def theirs(name: str, sources: Path) -> tuple[float, float, bool] | None:
    """The same of opty, without solutions from before."""
    script = PEERS[name].script
    with tempfile.TemporaryDirectory() as folder:
        gallery = Path(folder) / "gallery"
        copytree(sources / "examples-gallery", gallery)
        for kept in gallery.glob("*/*_solution.csv"):
            kept.unlink()
        code = _THEIRS.format(script=Path(script).name)
        path = os.pathsep.join([str(sources), os.environ.get("PYTHONPATH", "")])
        here = gallery / Path(script).parent
        found = told(code, here, PEERS[name].which, PYTHONPATH=path)
    return found and (found[0] * PEERS[name].factor, *found[1:])


def row(name: str, sources: Path | None, cache: str) -> dict[str, Any]:
    """What is compared for one problem."""
    lines = len((GALLERY / f"{name}.py").read_text(encoding="utf-8").splitlines())
    found: dict[str, Any] = {"problem": name, "lines": lines, "lines_opty": PEERS[name].lines}
    runs = {"": ours(name, cache)} | ({"_opty": theirs(name, sources)} if sources else {})
    for who, run in runs.items():
        cost, seconds, success = run or (None, None, False)
        found |= {f"cost{who}": cost, f"seconds{who}": seconds, f"solved{who}": success}
    return found


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of what was measured; costs of opty are those of its own scripts and files."""
    header = ["problem", "cost", "opty's", "CPU s", "opty's", "lines", "opty's"]
    lines = []
    for found in rows:
        best = PEERS[found["problem"]].cost
        costs = [found["cost"], best and found.get("cost_opty", best)]
        times = [
            number(found[key]) if found.get(key) else "-" for key in ("seconds", "seconds_opty")
        ]
        shown = ["-" if cost is None else f"{cost:.8g}" for cost in costs]
        lines.append([found["problem"], *shown, *times, *(str(found[k]) for k in LINES)])
    return str(table(header, lines))


def sums(rows: Sequence[Mapping[str, Any]]) -> str:
    """Time of all of ours, and of those that opty's scripts came to the end of beside theirs."""
    text = f"sum of {len(rows)}: {sum(found['seconds'] or 0.0 for found in rows):.0f} s"
    both = [found for found in rows if found["seconds"] and found.get("seconds_opty")]
    if both:
        mine, other = (sum(found[key] for found in both) for key in ("seconds", "seconds_opty"))
        text += f"; of {len(both)} of both: {mine:.0f} s, opty {other:.0f} s"
    return text


def picture(path: Path) -> None:
    """Ways in the plane of some solutions."""
    figure, axes = plt.subplots(2, 4, figsize=(11.0, 5.2), layout="constrained")
    for axis, name in zip(axes.flat, WAYS, strict=True):
        solution = importlib.import_module(f"kinesym.examples.gallery.{name}").solve()
        axis.plot(solution["x"], solution["y"], lw=1.5)
        axis.plot(solution["x"][[0, -1]], solution["y"][[0, -1]], "o", ms=4, color="C3")
        axis.set_title(name, fontsize=9)
        axis.set_aspect("equal", adjustable="datalim")
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    figure.supxlabel("x [m]", fontsize=9)
    figure.supylabel("y [m]", fontsize=9)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def as_good(found: Mapping[str, Any]) -> bool:
    """Whether ours was solved, and costs no more than opty's kept solution, nearly."""
    best = PEERS[found["problem"]].cost
    return found["solved"] and (best is None or found["cost"] <= best + 1e-3 * abs(best))


def main(arguments: list[str] | None = None) -> int:
    """Print and save a table; 1 if one of ours ends without a solution, or at a worse one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--opty", type=Path, metavar="FOLDER", help="sources of opty")
    parser.add_argument("--quick", action="store_true", help="only two of them")
    parser.add_argument("--report", metavar="FOLDER", help="leave text and numbers there")
    options = parser.parse_args(arguments)
    names = options.names or list(PEERS)[: 2 if options.quick else None]
    for name in names:
        if name not in PEERS:
            parser.error(f"there is no problem {name}; there are {', '.join(PEERS)}")
    sources = options.opty.resolve() if options.opty else None
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in names:
            rows.append(row(name, sources, cache))
            print(as_text(rows[-1:]).splitlines()[-1], flush=True)
    print(sums(rows))
    if options.report:
        picture(save(options.report, "gallery", as_text(rows), rows))
    return 0 if all(map(as_good, rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
