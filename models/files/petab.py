"""Tables of identification problems in PEtab, versions 1 and 2.

The format: https://petab.readthedocs.io. Both versions are read into the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import sympy as sp

from kinesym.models.files.sbml_math import formula
from kinesym.models.files.tsv import Row


@dataclass(frozen=True)
class Parameter:
    """Unknown or known parameter of a problem. scale : "lin", "log" or "log10", on which it is
    estimated. prior : distribution and its numbers, ("", ()) for none."""

    name: str
    low: float
    high: float
    nominal: float
    estimated: bool
    scale: str
    prior: tuple[str, tuple[float, ...]]


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
        told = tables.observables[one.observable]
        for names, given, column in (
            (told.placeholders, one.replaced, "observableParameters"),
            (told.noise_placeholders, one.noise_replaced, "noiseParameters"),
        ):
            if len(names) != len(given):
                raise ValueError(
                    f"{one.place}: column {column} has {len(given)} values for the {len(names)} "
                    f"placeholders of {one.observable}"
                )


def unique(rows: Sequence[Row], column: str) -> dict[str, Row]:
    """Rows by a column. Raises `ValueError` for a name that is there twice."""
    found = dict[str, Row]()
    for row in rows:
        name = row.text(column)
        if name in found:
            raise ValueError(f"{row.place}: {name} is there twice, first in {found[name].place}")
        found[name] = row
    return found
