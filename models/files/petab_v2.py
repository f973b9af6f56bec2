"""Tables of PEtab version 2 (https://petab.readthedocs.io/en/latest/v2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import sympy as sp

from kinesym.base.checks import check_choice, shown
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

#: Distribution and scale by the name of the format.
DISTRIBUTIONS = {
    "normal": ("normal", "lin"),
    "laplace": ("laplace", "lin"),
    "log-normal": ("normal", "log"),
    "log-laplace": ("laplace", "log"),
}
#: Distributions of priors.
PRIORS = (
    *("uniform", "normal", "laplace", "cauchy", "chisquare", "exponential", "gamma", "rayleigh"),
    *("log-uniform", "log-normal", "log-laplace"),
)


def tables_of(name: str, folder: Path, entries: Mapping[str, Any]) -> Tables:
    """The tables of a problem; entries : those of its YAML file."""
    if entries.get("extensions"):
        names = shown(entries["extensions"])
        raise ValueError(f"it needs the extensions {names} of PEtab, which are not read")

    def table(key: str, *needed: str) -> list[Row]:
        return rows_of(files_of(folder, entries, key), needed)

    parameters = unique(table("parameter_files", "parameterId", "estimate"), "parameterId")
    observables = table("observable_files", "observableId", "observableFormula", "noiseFormula")
    measured = table("measurement_files", "observableId", "time", "measurement")
    conditions = _conditions(table("condition_files", "conditionId", "targetId", "targetValue"))
    experiments = table("experiment_files", "experimentId", "time", "conditionId")
    told = entries.get("model_files")
    models = list(told.values()) if isinstance(told, Mapping) else []
    if len(models) != 1 or not isinstance(models[0], Mapping):
        raise ValueError(f"it has {len(models)} models by name; one can be read")
    if models[0].get("language") != "sbml":
        raise ValueError(f"its model is in {models[0].get('language')}; SBML can be read")
    locations = files_of(folder, models[0], "location")
    if len(locations) != 1:
        raise ValueError(f"its model has {len(locations)} locations; one can be read")
    _check_mapping(table("mapping_files", "petabEntityId", "modelEntityId"))
    return Tables(
        name,
        locations[0],
        {name: _parameter(row) for name, row in parameters.items()},
        {name: _observable(row) for name, row in unique(observables, "observableId").items()},
        _experiments(experiments, conditions, measured),
        measurements_of(
            measured, {k: row.text("experimentId", " ").strip() for k, row in enumerate(measured)}
        ),
    )


def _parameter(row: Row) -> Parameter:
    low, high = row.number("lowerBound", -inf), row.number("upperBound", inf)
    kind = row.text("priorDistribution", " ").strip()
    if kind:
        check_choice(kind, PRIORS, f"{row.place}: priorDistribution")
    numbers = tuple(map(number_or_nan, row.words("priorParameters")))
    if not kind and low < high and isfinite(high - low):
        kind, numbers = "uniform", (low, high)
    return Parameter(
        row.text("parameterId"),
        low,
        high,
        row.number("nominalValue", nan),
        row.flag("estimate"),
        "lin",
        (kind, numbers),
        truncated=True,
    )


def _observable(row: Row) -> Observable:
    said = row.text("noiseDistribution", "normal")
    check_choice(said, tuple(DISTRIBUTIONS), f"{row.place}: noiseDistribution")
    return Observable(
        row.text("observableId"),
        expression(row.text("observableFormula"), row, "observableFormula"),
        expression(row.text("noiseFormula"), row, "noiseFormula"),
        row.words("observablePlaceholders"),
        row.words("noisePlaceholders"),
        *DISTRIBUTIONS[said],
    )


def _conditions(rows: Sequence[Row]) -> dict[str, dict[str, sp.Expr]]:
    found = dict[str, dict[str, sp.Expr]]()
    for row in rows:
        changes, target = found.setdefault(row.text("conditionId"), {}), row.text("targetId")
        if target in changes:
            raise ValueError(f"{row.place}: {target} is changed twice by one condition")
        changes[target] = expression(row.text("targetValue"), row, "targetValue")
    return found


def _experiments(
    rows: Sequence[Row], conditions: Mapping[str, Mapping[str, sp.Expr]], measured: Sequence[Row]
) -> dict[str, Sequence[Period]]:
    """Periods by experiment; measurements without one are of the model as it is, from 0 s on."""
    found = dict[str, dict[float, dict[str, sp.Expr]]]()
    for row in rows:
        time, name = row.number("time"), row.text("conditionId", " ").strip()
        if name and name not in conditions:
            raise ValueError(f"{row.place}: there is no condition {name}")
        if not (isfinite(time) or time == -inf):
            raise ValueError(f"{row.place}: a period begins at a time or -inf, got {time:g}")
        changes = found.setdefault(row.text("experimentId"), {}).setdefault(time, {})
        for target, value in conditions.get(name, {}).items():
            if target in changes:
                raise ValueError(f"{row.place}: {target} is changed by two conditions at once")
            changes[target] = value
    for row in measured:
        name = row.text("experimentId", " ").strip()
        if name and name not in found:
            raise ValueError(f"{row.place}: there is no experiment {name}")
    if not all(row.text("experimentId", " ").strip() for row in measured):
        found[""] = {0.0: {}}
    return {
        name: [Period(time, changes) for time, changes in sorted(periods.items())]
        for name, periods in found.items()
    }


def _check_mapping(rows: Sequence[Row]) -> None:
    for row in rows:
        own, there = row.text("petabEntityId"), row.text("modelEntityId", " ").strip()
        if there and own != there:
            raise ValueError(f"{row.place}: {own} is another name of {there}, which is not read")
