"""Least effort of six muscles that move an arm: a model of OpenSim with muscles of De Groote et al.

The arm (two coordinates) reaches from rest to rest in 0.6 s. Paths of muscles go over bones; their
lengths and moment arms are polynomials of the coordinates, whose errors the picture shows.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.multibody import with_muscles

#: Where the arm moves [rad]: narrower than in the file, so polynomials are closer to the paths.
RANGES = {"r_shoulder_elev": (-0.8, 1.6), "r_elbow_flex": (0.0, 2.2)}
START, END = (0.0, 0.4), (0.5, 1.6)
#: Activation at the start, and the least one.
REST, LEAST = 0.05, 0.01


def reach(arm, muscles, nodes=61, duration=0.6):
    """min integral of squared excitations."""
    model = with_muscles(arm, muscles.values(), outputs=["places"])
    joints = list(arm.coordinates.values())
    start = [ks.at_start(q - value) for q, value in zip(joints, START, strict=True)]
    end = [ks.at_end(q - value) for q, value in zip(joints, END, strict=True)]
    for u in arm.speeds.values():
        start, end = [*start, ks.at_start(u)], [*end, ks.at_end(u)]
    start += [ks.at_start(m.activation - REST) for m in muscles.values()]
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, duration, nodes)),
        objective=ks.Integral(sum(m.excitation**2 for m in muscles.values())),
        scheme="radau-5",
        boundary=start + end,
        bounds={m.activation: (LEAST, 1.0) for m in muscles.values()} | RANGES,
        unknown_inputs={m.excitation: (0.0, 1.0) for m in muscles.values()},
    )
    s = np.linspace(0.0, 1.0, nodes)
    guess = {q: a + (b - a) * s for q, a, b in zip(joints, START, END, strict=True)}
    for m in muscles.values():
        guess |= {m.activation: REST, m.excitation: REST}
    return problem.solve(guess=guess)


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Solve, and draw moment arms, angles and excitations."""
    arm = ks.osim.read(data("opensim_arm26.osim.gz"))
    muscles = ks.osim.fit_muscles(arm, tolerance=5e-4, ranges=RANGES)
    for muscle in muscles.values():
        print(muscle)
    solution = reach(arm, muscles, nodes or 61)
    print(f"{solution.message}\n  objective {solution.objective:.6g}")
    return [_draw(arm, muscles, solution, out / "arm_reach.png")]


def _draw(arm, muscles, solution, path):
    fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    q = dict.fromkeys(RANGES, np.linspace(*RANGES["r_elbow_flex"], 101))
    q["r_shoulder_elev"] = np.zeros(101)
    for k, (name, muscle) in enumerate(muscles.items()):
        for source, style in ((arm.muscles[name], "-"), (muscle.fit, ":")):
            arms = 1e3 * source.moment_arms(q)["r_elbow_flex"]
            axes[0].plot(np.rad2deg(q["r_elbow_flex"]), arms, f"C{k}{style}")
    axes[0].set(xlabel="elbow [deg]", ylabel="moment arm [mm] (dotted: polynomial)")
    for name in arm.coordinates:
        axes[1].plot(solution.time, np.rad2deg(solution[name]), label=name)
    axes[1].set(xlabel="time [s]", ylabel="angle [deg]")
    axes[1].legend()
    for k, name in enumerate(muscles):
        axes[2].plot(solution.time, solution[f"{name}_activation"], color=f"C{k}", label=name)
    axes[2].set(xlabel="time [s]", ylabel="activation")
    axes[2].legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return path
