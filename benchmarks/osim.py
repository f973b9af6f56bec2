"""How soon are models of OpenSim there, and how long do inverse and forward dynamics take?

Files of either kind, from 2 to 33 coordinates: read, inverse dynamics built and evaluated at 4,096
samples, as `ks.inverse_dynamics` does, then the whole model with its rates x'. Built from nothing;
all numbers of bodies are parameters, so that a second person does not wait for the compiler. Times
are CPU times of one thread, the compiler's included; the least of several for evaluations.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from record import table
from report import leave, machine, number, parsed

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.internal.problems.pipeline import realise
from kinesym.inverse import functions_of
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.library.tiers import COMPILED, TIER_VARIABLE

TOP = Path(__file__).parents[1]
MODELS = {
    "arm26": TOP / "examples" / "data" / "opensim_arm26.osim.gz",
    "2D_gait": TOP / "tests" / "data" / "opensim" / "2D_gait.osim.gz",
    "gait10dof18musc": TOP / "tests" / "data" / "opensim" / "gait10dof18musc_subject01.osim.gz",
    "gait2354": TOP / "examples" / "data" / "opensim_subject01.osim.gz",
    "LaiUhlrich2022": TOP / "examples" / "data" / "opensim_LaiUhlrich2022.osim.gz",
}
SAMPLES = 4096


def cpu() -> float:
    """Seconds of this process and of compilers that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def least(call: Callable[[], Any], turns: int) -> float:
    """Nanoseconds per sample."""
    times = []
    for _ in range(turns):
        begin = cpu()
        call()
        times.append(cpu() - begin)
    return min(times) / SAMPLES * 1e9


def arguments(f: Functions) -> tuple[Any, ...]:
    """Random states, no inputs, the numbers of the model."""
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (2, len(f.states), SAMPLES))
    inputs = np.zeros((len(f.inputs), SAMPLES))
    return x[0], x[1], inputs, [f.values[name] for name in f.parameters], np.zeros(SAMPLES)


def measured(name: str, turns: int) -> dict[str, Any]:
    begin = cpu()
    tree = ks.osim.read(MODELS[name])
    read = cpu()
    f = functions_of(tree, ())
    inverse = cpu()
    model = tree.parametrised().model(tree.torque_inputs())
    program = model_functions(model)
    forward = Functions(realise(program), lambda: None)
    built = cpu()
    xdot, x, u, p, t = arguments(f)
    inputs = arguments(forward)
    return {
        "model": name,
        "coordinates": len(tree.coordinates),
        "read": read - begin,
        "inverse build": inverse - read,
        "inverse": least(lambda: f.outputs(xdot, x, u, p, t), turns),
        "build": built - inverse,
        "operations": program.kernel("rhs").operations,
        "x'": least(lambda: forward.rhs(*inputs[1:]), turns),
    }


def report_models(
    name: str,
    asks: str,
    quick: str,
    measure: Callable[[str, int], dict[str, Any]],
    header: Sequence[str],
) -> None:
    """The command line of a benchmark, and its table: a row of `measure` per model, with nothing
    kept. name : of its file. asks : its question. quick : the model of a quick look."""
    parser = argparse.ArgumentParser(description=asks)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given = parsed(parser)
    names, turns = ([quick], 3) if given.quick else (given.models, 50)
    warnings.simplefilter("ignore")  # of inertia that no body has, of polynomials that miss 1 mm
    words, rows = machine(), []
    os.environ[TIER_VARIABLE] = COMPILED
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for model in names:
            rows.append(measure(model, turns))
            print(rows[-1], flush=True)
    lines = [[row.pop("model"), *map(number, row.values())] for row in map(dict, rows)]
    leave(given, name, words, [table(header, lines)], rows)


def main() -> None:
    header = ["model", "coordinates", "read [s]", "build [s]", "inverse dynamics [ns]"]
    header += ["model and build [s]", "operations of x'", "x' [ns]"]
    report_models("osim", (__doc__ or "").splitlines()[0], "arm26", measured, header)


if __name__ == "__main__":
    main()
