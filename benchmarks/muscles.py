"""How long do muscles of OpenSim models take: polynomials for paths, equations, evaluation?

All muscles of a file, with rigid tendons: fitted to 1 mm, the model of the tree with them built and
compiled, its rates x' evaluated at 4,096 samples, next to those of the tree with torques instead.
CPU times as in `osim.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from osim import MODELS, TOP, arguments, cpu, least, report_models

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.internal.problems.pipeline import realise
from kinesym.multibody import with_muscles
from kinesym.runtime.functions import Functions
from kinesym.symbolic.model import Model

#: A motion whose ranges stand in place of those of the file, +-120 degrees.
WALK = ("gait2354", TOP / "examples" / "data" / "opensim_subject01.mot.gz")


def ranges(name: str, tree: ks.osim.FileTree) -> dict[str, tuple[float, float]]:
    """Of coordinates, where those of the file say nothing."""
    return ks.osim.ranges_of(tree, ks.gait.read_mot(WALK[1])) if name == WALK[0] else {}


def rates(model: Model, limits: Mapping[str, tuple[float, float]], turns: int) -> tuple[int, float]:
    """Operations of x', and nanoseconds, with coordinates in these ranges."""
    program = model_functions(model)
    f = Functions(realise(program), lambda: None)
    _, x, u, p, t = arguments(f)
    x, rng = np.abs(x), np.random.default_rng(1)  # activations are not negative
    for row, key in zip(x, f.states, strict=True):
        if key in limits:
            row[:] = rng.uniform(*limits[key], len(row))
    return program.kernel("rhs").operations, least(lambda: f.rhs(x, u, p, t), turns)


def measured(name: str, turns: int) -> dict[str, Any]:
    tree = ks.osim.read(MODELS[name])
    begin = cpu()
    given = ranges(name, tree)
    muscles = ks.osim.fit_muscles(tree, ranges=given)
    fitted = cpu()
    model = with_muscles(tree, muscles.values())
    program = model_functions(model)
    realise(program)
    built = cpu()
    limits = {**tree.ranges, **given}
    operations, time = rates(model, limits, turns)
    _, alone = rates(tree.model(tree.torque_inputs()), limits, turns)
    errors = [1e3 * muscle.fit.worst for muscle in muscles.values()]
    return {
        "model": name,
        "muscles": len(muscles),
        "terms": sum(muscle.fit.terms for muscle in muscles.values()),
        "error": float(np.median(errors)),
        "largest": max(errors),
        "fit": fitted - begin,
        "build": built - fitted,
        "operations": operations,
        "x'": time,
        "torques": alone,
    }


def main() -> None:
    header = ["model", "muscles", "terms", "median error [mm]", "largest [mm]", "fit [s]"]
    header += ["model and build [s]", "operations of x'", "x' [ns]", "with torques instead [ns]"]
    report_models("muscles", (__doc__ or "").splitlines()[0], "2D_gait", measured, header)


if __name__ == "__main__":
    main()
