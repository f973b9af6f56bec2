"""pyPESTO with AMICI and fides on a problem in PEtab, in an environment of its own.

A script for the interpreter of an environment with pypesto, amici and fides (AMICI needs a C++
compiler, CMake, SWIG and BLAS). Its input is a task as JSON, the last line of its output what it
found; it imports neither kinesym nor the other benchmarks. By default in all but absolute
tolerances: forward sensitivities, fides with Fisher's information.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import petab.v1 as petab
import pypesto.optimize
import pypesto.petab
import yaml
from petab.v1.parameters import scale

#: Relative and absolute tolerances of AMICI's steps, those of kinesym's fits (AMICI's default of
#: 1e-16 ends some gradients), and of its most accurate ones.
STEPS, FINEST = (1e-8, 1e-12), (1e-12, 1e-16)


def seconds() -> float:
    """CPU time of this process and of compilers that it has waited for."""
    return sum(os.times()[:4])


def problem_of(path: Path) -> Any:
    """A problem in PEtab, without the pictures that its file may name."""
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    for each in whole["problems"]:
        each.pop("visualization_files", None)
    plain = path.with_name("without_pictures.yaml")
    plain.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return petab.Problem.from_yaml(str(plain))


def least(function: Any, runs: int) -> float:
    """CPU seconds of the fastest of these calls."""
    found = []
    for _ in range(runs):
        begin = time.process_time()
        function()
        found.append(time.process_time() - begin)
    return min(found)


def exact(whole: Any, x: np.ndarray) -> float:
    """The objective at x with steps that are as accurate as can be, else as it is."""
    step_by(whole, FINEST)
    value = float(whole(x))
    step_by(whole, STEPS)
    return value if np.isfinite(value) else float(whole(x))


def step_by(whole: Any, tolerances: tuple[float, float]) -> None:
    """Sets the tolerances of AMICI."""
    solver = likelihood_of(whole).amici_solver
    solver.set_relative_tolerance(tolerances[0])
    solver.set_absolute_tolerance(tolerances[1])


def likelihood_of(whole: Any) -> Any:
    """The part of an objective that is no prior."""
    return getattr(whole, "_objectives", [whole])[0]


def fitted(problem: Any, x: np.ndarray, limit: int) -> dict[str, float]:
    """A fit from x, all free parameters on the scales of the tables."""
    start = np.clip(x, problem.lb, problem.ub)
    optimizer = pypesto.optimize.FidesOptimizer(verbose=logging.ERROR, options={"maxiter": limit})
    begin = time.process_time()
    problem.set_x_guesses(problem.get_full_vector(start, problem.x_fixed_vals)[None])
    found = pypesto.optimize.minimize(
        problem, optimizer, n_starts=1, progress_bar=False, filename=None
    ).optimize_result.list[0]
    cpu = time.process_time() - begin
    value = np.nan if found.x is None else exact(problem.objective, found.x[problem.x_free_indices])
    return {"objective": value, "cpu": cpu}


def main() -> None:
    """Answer the task: problem, folder, runs of what is timed, limit of iterations, starts (values
    by name), and patience, CPU seconds after which no more starts are begun."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    task = json.load(sys.stdin)
    begin = seconds()
    told = problem_of(Path(task["problem"]))
    importer = pypesto.petab.PetabImporter(told, output_folder=task["folder"])
    problem = importer.create_problem()
    step_by(problem.objective, STEPS)
    nominal, names = np.array(told.x_nominal_free_scaled), told.x_free_ids
    whole = problem.objective
    whole(nominal)
    first = seconds() - begin
    scales = [told.parameter_df.loc[name, "parameterScale"] for name in names]
    starts = [
        np.array([scale(row[name], kind) for name, kind in zip(names, scales, strict=True)])
        for row in task["starts"]
    ]
    found = {
        "nominal": -exact(likelihood_of(whole), nominal),
        "objective": exact(whole, nominal),
        "first": first,
        "value": least(lambda: whole(nominal), task["runs"]),
        "gradient": least(lambda: whole(nominal, sensi_orders=(0, 1)), task["runs"]),
        "fits": [fitted(problem, nominal, task["limit"])],
    }
    begin = time.process_time()
    for x in starts:
        if time.process_time() - begin < task["patience"]:
            found["fits"].append(fitted(problem, x, task["limit"]))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
