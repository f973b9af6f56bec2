"""Tables of identification problems in PEtab, versions 1 and 2.

The format: https://petab.readthedocs.io. Both versions are read into the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

import sympy as sp

from kinesym.base.checks import shown
from kinesym.models.files.petab_math import formula
from kinesym.models.files.sbml_math import TAKEN
from kinesym.models.files.tsv import Row
from kinesym.symbolic.model import Model


@dataclass(frozen=True)
class Parameter:
    """Unknown or known parameter of a problem. scale : "lin", "log" or "log10", on which it is
    estimated. prior : distribution and its numbers, ("", ()) for none. truncated : whether it is
    that within the bounds alone."""

    name: str
    low: float
    high: float
    nominal: float
    estimated: bool
    scale: str
    prior: tuple[str, tuple[float, ...]]
    truncated: bool = False


@dataclass(frozen=True)
class Observable:
    """Observable: its formula and that of its noise; `placeholders` of them have values for each
    measurement. distribution : "normal" or "laplace", of what `scale`, "lin", "log" or
    "log10", makes of formula and measurement."""

    name: str
    formula: sp.Expr
    noise: sp.Expr
    placeholders: tuple[str, ...]
    noise_placeholders: tuple[str, ...]
    distribution: str
    scale: str


@dataclass(frozen=True)
class Period:
    """Period of an experiment: from a time on (-inf: in a steady state before), parameters, states
    and sizes have other values."""

    time: float
    changes: Mapping[str, sp.Expr]


@dataclass(frozen=True)
class Measurement:
    """A measured value, of an experiment, at a time (inf: in the steady state after it)."""

    observable: str
    experiment: str
    time: float
    value: float
    replaced: tuple[sp.Expr, ...]
    noise_replaced: tuple[sp.Expr, ...]
    place: str


@dataclass(frozen=True)
class Tables:
    """A problem: where its model is, and its tables by name. experiments : periods of each."""

    name: str
    model: Path
    parameters: Mapping[str, Parameter]
    observables: Mapping[str, Observable]
    experiments: Mapping[str, Sequence[Period]]
    measurements: Sequence[Measurement]


def files_of(folder: Path, entries: Any, key: str) -> list[Path]:
    """Files that an entry of the YAML file names, in its folder or below. Raises `ValueError`."""
    if not isinstance(entries, Mapping):
        raise ValueError(f"a problem has entries by name, such as {key}, got {shown(entries)}")
    given = entries.get(key) or []
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is a list of names of files, got {shown(given)}")
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{key}: {name} is not in the folder of the problem")
    return [folder / name for name in names]


def expression(said: str, row: Row, column: str) -> sp.Expr:
    """The formula in a cell; raises `ValueError` that names the cell."""
    try:
        return formula(said)
    except ValueError as error:
        raise ValueError(f"{row.place}, column {column}: {error}") from error


def measurements_of(rows: Sequence[Row], experiment_of: Mapping[int, str]) -> list[Measurement]:
    """Measurements of both versions; experiment_of : the experiment of each row."""
    return [
        Measurement(
            row.text("observableId"),
            experiment_of[number],
            row.number("time"),
            row.number("measurement"),
            tuple(
                expression(w, row, "observableParameters")
                for w in row.words("observableParameters")
            ),
            tuple(expression(w, row, "noiseParameters") for w in row.words("noiseParameters")),
            row.place,
        )
        for number, row in enumerate(rows)
    ]


def check_measurements(tables: Tables) -> None:
    """Raise `ValueError` for measurements of what there is not, and for other numbers of values
    than placeholders."""
    for one in tables.measurements:
        if one.observable not in tables.observables:
            raise ValueError(f"{one.place}: there is no observable {one.observable}")
        if one.time == -inf:
            raise ValueError(
                f"{one.place}: a measurement at time -inf; write inf for a steady state"
            )
        begins = [p.time for p in tables.experiments[one.experiment] if p.time > -inf]
        if one.time < min(begins, default=0.0):
            raise ValueError(f"{one.place}: a measurement at {one.time:g}, before the experiment")
        told = tables.observables[one.observable]
        if not isfinite(one.value):
            raise ValueError(f"{one.place}: column measurement is finite, got {one.value:g}")
        if told.scale != "lin" and one.value <= 0.0:
            raise ValueError(f"{one.place}: the measurement {one.value:g} has no logarithm")
        for names, given, column in (
            (told.placeholders, one.replaced, "observableParameters"),
            (told.noise_placeholders, one.noise_replaced, "noiseParameters"),
        ):
            if len(names) != len(given):
                raise ValueError(
                    f"{one.place}: column {column} has {len(given)} values for the {len(names)} "
                    f"placeholders of {one.observable}"
                )


def check_names(tables: Tables, model: Model) -> None:
    """Raise `ValueError` for what parameters and changes of the tables cannot set."""
    states, known, used = {*model.state_names}, {*model.parameter_names}, set[str]()
    for told in tables.observables.values():
        used |= {str(s) for s in told.formula.free_symbols | told.noise.free_symbols}
    for name, row in tables.parameters.items():
        if row.low > row.high:
            raise ValueError(f"parameter {name}: bounds {row.low:g} and {row.high:g}")
        if name in states or name in model.outputs or name in TAKEN:
            raise ValueError(f"parameter {name} is no parameter of the model, which is not read")
    for experiment, periods in tables.experiments.items():
        what = f"experiment {experiment}: " if experiment else ""
        for name in {name for period in periods for name in period.changes}:
            if name in model.outputs or name in TAKEN:
                raise ValueError(f"{what}{name} follows from a formula; to set it is not read")
            if name in tables.parameters and tables.parameters[name].estimated:
                raise ValueError(f"{what}{name} is to be estimated, and set; it is either")
            if name not in states | known | used | tables.parameters.keys():
                raise ValueError(f"{what}there is no {name} to be set")


def unique(rows: Sequence[Row], column: str) -> dict[str, Row]:
    """Rows by a column. Raises `ValueError` for a name that is there twice."""
    found = dict[str, Row]()
    for row in rows:
        name = row.text(column)
        if name in found:
            raise ValueError(f"{row.place}: {name} is there twice, first in {found[name].place}")
        found[name] = row
    return found
