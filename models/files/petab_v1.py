"""Tables of PEtab version 1 (https://petab.readthedocs.io/en/latest/v1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import sympy as sp

from kinesym.base.checks import check_choice
from kinesym.models.files.petab import (
    Observable,
    Parameter,
    Period,
    Tables,
    expression,
    files_of,
    measurements_of,
    unique,
)
from kinesym.models.files.tsv import Row, number_or_nan, rows_of

SCALES = ("lin", "log", "log10")
DISTRIBUTIONS = ("normal", "laplace")
#: Priors, of a parameter or of that on its scale.
PRIORS = (
    *("uniform", "normal", "laplace", "logNormal", "logLaplace"),
    *("parameterScaleUniform", "parameterScaleNormal", "parameterScaleLaplace"),
)
#: Columns of conditions that change nothing.
_WORDS = ("conditionId", "conditionName")


def tables_of(name: str, folder: Path, entries: Mapping[str, Any]) -> Tables:
    """The tables of a problem; entries : those of its YAML file."""
    problems = entries.get("problems", [])
    if not isinstance(problems, list) or len(problems) != 1:
        count = len(problems) if isinstance(problems, list) else "no list of"
        raise ValueError(f"it has {count} problems; one can be read")
    files = problems[0]

    def table(key: str, *needed: str) -> list[Row]:
        return rows_of(files_of(folder, files, key), needed)

    paths = files_of(folder, entries, "parameter_file")
    parameters = unique(
        rows_of(paths, ["parameterId", "parameterScale", "estimate"]), "parameterId"
    )
    conditions = unique(table("condition_files", "conditionId"), "conditionId")
    observables = table("observable_files", "observableId", "observableFormula", "noiseFormula")
    needed = ("observableId", "simulationConditionId", "measurement", "time")
    measured = table("measurement_files", *needed)
    experiments = [_experiment(row) for row in measured]
    models = files_of(folder, files, "sbml_files")
    if len(models) != 1:
        raise ValueError(f"it has {len(models)} models in SBML; one can be read")
    return Tables(
        name,
        models[0],
        {name: _parameter(row) for name, row in parameters.items()},
        {name: _observable(row) for name, row in unique(observables, "observableId").items()},
        _experiments(zip(experiments, measured, strict=True), conditions),
        measurements_of(measured, {k: " after ".join(ids) for k, ids in enumerate(experiments)}),
    )


def _parameter(row: Row) -> Parameter:
    scale = row.text("parameterScale", "lin")
    check_choice(scale, SCALES, f"{row.place}: parameterScale")
    estimated = row.flag("estimate")
    kind = row.text("objectivePriorType", " ").strip()
    if kind:
        check_choice(kind, PRIORS, f"{row.place}: objectivePriorType")
    numbers = tuple(map(number_or_nan, row.words("objectivePriorParameters")))
    low, high = (
        row.number(f"{side}Bound", side_) for side, side_ in (("lower", -inf), ("upper", inf))
    )
    nominal = row.number("nominalValue", nan)
    return Parameter(row.text("parameterId"), low, high, nominal, estimated, scale, (kind, numbers))


def _observable(row: Row) -> Observable:
    name = row.text("observableId")
    scale = row.text("observableTransformation", "lin")
    check_choice(scale, SCALES, f"{row.place}: observableTransformation")
    distribution = row.text("noiseDistribution", "normal")
    check_choice(distribution, DISTRIBUTIONS, f"{row.place}: noiseDistribution")
    found = expression(row.text("observableFormula"), row, "observableFormula")
    noise = expression(row.text("noiseFormula"), row, "noiseFormula")
    return Observable(
        name,
        found,
        noise,
        _placeholders((found, noise), "observable", name),
        _placeholders((noise,), "noise", name),
        distribution,
        scale,
    )


def _placeholders(formulas: Iterable[sp.Expr], kind: str, name: str) -> tuple[str, ...]:
    """Names such as `observableParameter1_NAME` in formulas, in the order of their numbers."""
    word = re.compile(rf"{kind}Parameter(\d+)_{re.escape(name)}")
    names = {str(s) for e in formulas for s in e.free_symbols}
    matches = (word.fullmatch(each) for each in names)
    numbers = sorted(int(match[1]) for match in matches if match)
    return tuple(f"{kind}Parameter{k}_{name}" for k in range(1, max(numbers, default=0) + 1))


def _experiment(row: Row) -> tuple[str, ...]:
    """Condition of a measurement, after the one of a steady state before, if there is one."""
    before = row.text("preequilibrationConditionId", " ").strip()
    return (row.text("simulationConditionId"), *([before] if before else []))


def _experiments(
    each: Iterable[tuple[tuple[str, ...], Row]], conditions: Mapping[str, Row]
) -> dict[str, Sequence[Period]]:
    found = dict[str, Sequence[Period]]()
    for ids, row in each:
        key = " after ".join(ids)
        if key in found:
            continue
        for name in ids:
            if name not in conditions:
                raise ValueError(f"{row.place}: there is no condition {name}")
        periods = [Period(0.0, _changes(conditions[ids[0]]))]
        if len(ids) > 1:
            periods.insert(0, Period(-inf, _changes(conditions[ids[1]])))
        found[key] = periods
    return found


def _changes(row: Row) -> dict[str, sp.Expr]:
    """Changes by a condition; NaN and empty cells leave what is there."""
    given = {k: v.strip() for k, v in row.cells.items() if k and k not in _WORDS}
    kept = {k: v for k, v in given.items() if v and v.lower() != "nan"}
    return {name: expression(said, row, name) for name, said in kept.items()}
