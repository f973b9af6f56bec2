"""pyPESTO: the problem in PEtab with SBML, simulation and sensitivities by AMICI, fits by fides.

AMICI needs a C++ compiler, CMake, SWIG and BLAS; the first record of a problem compiles its model.
Everything by default but the number of steps.
"""

from __future__ import annotations

import ast
import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import libsbml
import numpy as np
import pandas as pd
import petab.v1 as petab
import pypesto.optimize
import pypesto.petab
from motionbench.adapters._common import bounds_of, errors_of, refuse, scoped, series
from motionbench.equations import checked, names_in
from motionbench.suite import Record, read_record
from petab.v1.models.sbml_model import SbmlModel

#: Steps that AMICI may take to a sample.
STEPS = 1_000_000
WORDS = {"sign": "piecewise(1, {0} > 0, -1, {0} < 0, 0)"}


@cache
def folder_of_models() -> str:
    """Where AMICI compiles, while this process lasts; programs of its environment come first."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def formula(text: Any) -> str:
    """An expression as SBML and PEtab write it; names begin with "n_", as some have a meaning."""

    def written(node: ast.AST) -> str:
        match node:
            case ast.Expression(body):
                return written(body)
            case ast.Constant(number):
                return repr(number)
            case ast.Name(name):
                return "time" if name == "t" else f"n_{name}"
            case ast.UnaryOp(_, of):
                return f"(-{written(of)})"
            case ast.BinOp(a, operator, b):
                signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
                return f"({written(a)} {signs[type(operator)]} {written(b)})"
            case ast.Call(ast.Name(name), given):
                row = [written(each) for each in given]
                return WORDS[name].format(*row) if name in WORDS else f"{name}({', '.join(row)})"
        raise ValueError(f"{text!r} has no word in SBML")

    return written(checked(str(text)))


def name_of(reported: str) -> str:
    """The name of a parameter of the report in PEtab."""
    return "n_" + reported.replace("[", "_of_").replace("]", "")


def model_of(statement: dict[str, Any]) -> SbmlModel:
    """States and modes as parameters with rate rules, abbreviations as assignment rules."""
    document = libsbml.SBMLDocument(3, 2)
    model = document.createModel()
    model.setId("model_of_" + statement["name"])

    def parameter(name: str, number: float = 0.0, constant: bool = False) -> None:
        each = model.createParameter()
        each.setId(name)
        each.setConstant(constant)
        each.setValue(number)

    def said(target: Any, variable: str, text: str) -> None:
        each = libsbml.parseL3Formula(text)
        if each is None:
            raise ValueError(f"{text}: {libsbml.getLastParseL3Error()}")
        target.setMath(each)
        if variable:
            setter = getattr(target, "setVariable", None) or target.setSymbol
            setter(variable)

    for name, row in statement["known"].items():
        parameter(f"n_{name}", row["value"], True)
    for name, row in statement["unknown"].items():
        parameter(f"n_{name}", row["guess"], True)
    for name, text in statement.get("let", {}).items():
        parameter(f"n_{name}")
        said(model.createAssignmentRule(), f"n_{name}", formula(text))
    for name, value in statement.get("modes", {}).items():
        parameter(f"n_{name}", value)
        said(model.createRateRule(), f"n_{name}", "0")
    for name, row in statement["states"].items():
        parameter(f"n_{name}")
        said(model.createRateRule(), f"n_{name}", formula(statement["rates"][name]))
        begin = row["initial"]
        if isinstance(begin, dict):
            parameter(f"start_{name}", begin["guess"], True)
        text = f"start_{name}" if isinstance(begin, dict) else formula(begin)
        said(model.createInitialAssignment(), f"n_{name}", text)
    for each in statement.get("events", []):
        event = model.createEvent()
        event.setId(f"event_{each['name']}")
        event.setUseValuesFromTriggerTime(True)
        trigger = event.createTrigger()
        trigger.setInitialValue(True)
        trigger.setPersistent(True)
        side = ">=" if each.get("direction", 0) > 0 else "<="
        said(trigger, "", f"{formula(each['guard'])} {side} 0")
        for name, text in {**each.get("reset", {}), **each.get("set", {})}.items():
            said(event.createEventAssignment(), f"n_{name}", formula(text))
    return SbmlModel(sbml_model=model, sbml_document=document)


def tables(statement: dict[str, Any], record: Record) -> dict[str, pd.DataFrame]:
    """Trials as conditions, channels as observables, unknown standard deviations as parameters."""
    names, low, high, guess = bounds_of(statement)
    rows = [(name_of(n), a, b, c) for n, a, b, c in zip(names, low, high, guess, strict=True)]
    seen, measured, conditions = [], [], []
    for key, row in statement["measured"].items():
        noise = row["std"]
        if noise is None:
            noise = f"std_{key}"
            spread = max(np.std(series(statement, record, 0, key)[1]), 1e-6)
            rows.append((noise, 1e-4 * spread, 10.0 * spread, spread))
        seen.append((f"seen_{key}", formula(row["expression"]), noise))
    for k, trial in enumerate(statement["trials"]):
        own: dict[str, Any] = {f"n_{n}": name_of(told) for n, told in scoped(statement, k).items()}
        own = {n: told for n, told in own.items() if n != told}
        own |= {f"n_{n}": value for n, value in trial.get("known", {}).items()}
        for name, row in statement["states"].items():
            begin = row["initial"]
            if isinstance(begin, dict):
                several = len(statement["trials"]) > 1
                told = f"start_{name}" + f"_of_{k}" * several
                rows.append((told, begin["low"], begin["high"], begin["guess"]))
                own |= {f"start_{name}": told} if several else {}
            elif name in trial.get("initial", {}):
                refuse(statement, starts_of_trials_that_are_given=True)
        conditions.append({"conditionId": f"trial_{k}", **own})
        for key in statement["measured"]:
            pairs = zip(*series(statement, record, k, key), strict=True)
            measured += [(f"seen_{key}", f"trial_{k}", t, y) for t, y in pairs]
    head = ["observableId", "simulationConditionId", "time", "measurement"]
    parameters = pd.DataFrame(
        rows, columns=["parameterId", "lowerBound", "upperBound", "nominalValue"]
    )
    observables = pd.DataFrame(seen, columns=["observableId", "observableFormula", "noiseFormula"])
    return {
        "measurement_df": pd.DataFrame(measured, columns=head),
        "condition_df": pd.DataFrame(conditions).set_index("conditionId"),
        "observable_df": observables.set_index("observableId"),
        "parameter_df": parameters.assign(parameterScale="lin", estimate=1).set_index(
            "parameterId"
        ),
    }


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One fit from the guess; errors from AMICI's residuals and their sensitivities."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    refuse(
        statement,
        inputs_from_files=bool(statement["inputs"]),
        delays=bool(statement.get("delays")),
        delays_of_sensors=any("delay" in row for row in statement["measured"].values()),
        time_in_observables=any(
            "t" in names_in(r["expression"]) for r in statement["measured"].values()
        ),
    )
    told = petab.Problem(model=model_of(statement), **tables(statement, read_record(folder)))
    name = f"motion_{statement['name']}"
    place = f"{folder_of_models()}/{name}"
    importer = pypesto.petab.PetabImporter(told, output_folder=place, model_name=name)
    problem = importer.create_problem(force_compile=not Path(place).exists(), verbose=False)
    objective = problem.objective
    objective.amici_solver.set_max_steps(STEPS)
    objective.amici_model.set_add_sigma_residuals(True)  # those of standard deviations
    start = np.clip(told.x_nominal_free_scaled, problem.lb, problem.ub)
    problem.set_x_guesses(start[None])
    found = pypesto.optimize.minimize(
        problem,
        pypesto.optimize.FidesOptimizer(verbose=logging.ERROR),
        n_starts=1,
        progress_bar=False,
        filename=None,
    ).optimize_result.list[0]
    if found.x is None or not np.isfinite(found.fval):
        raise RuntimeError(str(found.message))
    count = len(statement["report"])
    errors, lost = errors_of(sensitivities(objective, found.x), statement["report"])
    slack = 1e-6 * (problem.ub - problem.lb)
    inside = (found.x > problem.lb + slack) & (found.x < problem.ub - slack)
    free = [n for n, there in zip(statement["report"], inside, strict=False) if there]
    return {
        "parameters": dict(zip(statement["report"], found.x[:count].tolist(), strict=True)),
        "standard_errors": {n: errors[n] for n in free if n in errors},
        "cannot_be_known": lost,
    }


def sensitivities(objective: Any, x: np.ndarray) -> np.ndarray:
    """Rows whose squares sum to Fisher's information: those of residuals."""
    return objective(x, sensi_orders=(1,), mode="mode_res")
