"""Inputs of hybrid trials whose pieces may be expressions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.runtime.experiment import Experiment
from kinesym.runtime.signals import Signal, SignalGradient
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.given import shown
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of

Array = NDArray[np.float64]


class Course:
    """An input of a trial, whose pieces may be expressions of parameters.

    names : of these. pieces : begins, values and slopes, (3, B).

    Raises `ValueError` for shapes, and for entries that are not expressions of symbols.
    """

    def __init__(self, what: str, pieces: Sequence[Any]) -> None:
        rows = [list(row) for row in pieces]
        if len(rows) == 2:
            rows.append([0.0] * len(rows[0]))
        if len(rows) != 3 or len({len(row) for row in rows}) != 1:
            raise ValueError(
                f"{what}: expected (begins, values, slopes) of equal length, got "
                f"lengths {', '.join(str(len(row)) for row in rows)}"
            )
        entries = sp.Matrix([[real_expression(entry, what) for entry in row] for row in rows])
        if entries.atoms(AppliedUndef):
            raise ValueError(
                f"{what}: pieces are expressions of parameters, not of functions of time"
            )
        symbols = sorted(entries.free_symbols, key=name_of)
        self.names = [name_of(symbol) for symbol in symbols]
        self._pieces = sp.lambdify(symbols, entries, "numpy")
        self._slopes = {
            name: sp.lambdify(symbols, entries.diff(symbol), "numpy")
            for name, symbol in zip(self.names, symbols, strict=True)
        }

    def at(self, values: Mapping[str, float]) -> Signal:
        """The input for values of the parameters; raises `ValueError` for begins that do not
        increase."""
        return Signal.pieces(*self._rows(self._pieces, values))

    def by(self, name: str, values: Mapping[str, float]) -> SignalGradient:
        """How its pieces change with a parameter."""
        return SignalGradient(*self._rows(self._slopes[name], values))

    def _rows(self, function: Any, values: Mapping[str, float]) -> Array:
        given = (np.float64(values[name]) for name in self.names)
        with np.errstate(all="ignore"):  # Signal refuses what is not finite
            return np.array(function(*given), dtype=np.float64)


class Fixed:
    """An input of a trial that depends on nothing."""

    names: Sequence[str] = ()

    def __init__(self, course: Signal) -> None:
        self._course = course

    def at(self, values: Mapping[str, float]) -> Signal:
        """The input."""
        return self._course

    def by(self, name: str, values: Mapping[str, float]) -> SignalGradient:
        """Nothing changes it."""
        raise KeyError(name)


def trial_courses(
    hybrid: Hybrid, trial: Experiment, courses: Mapping[Any, Any], number: int
) -> dict[str, Course | Fixed]:
    """All given inputs of a trial."""
    given = by_name(courses, hybrid.given, f"courses of trial {number}")
    sampled = by_name(trial.signals, hybrid.given, f"inputs of trial {number}")
    found: dict[str, Course | Fixed] = {}
    for name in hybrid.given:
        if name in given and name in sampled:
            raise ValueError(f"trial {number}: input {name} has samples and a course; give one")
        if name not in given and name not in sampled:
            raise ValueError(
                f"input {name} has no data in trial {number}; give it in courses, or "
                f"inputs={{{name}: ...}} in the experiment"
            )
        if name in sampled:
            found[name] = Fixed(trial.signals[name])
        else:
            found[name] = _course(f"trial {number}, course of {name}", given[name])
    return found


def _course(what: str, given: Any) -> Course | Fixed:
    if isinstance(given, Signal):
        return Fixed(given)
    if isinstance(given, tuple | list):
        if not given or not all(isinstance(row, Sequence | np.ndarray) for row in given):
            raise ValueError(
                f"{what}: expected (begins, values, slopes), each a list; samples go "
                "into the inputs of the experiment"
            )
        return Course(what, given)
    if isinstance(given, sp.Expr) or np.ndim(given) == 0:
        return Course(what, ([0.0], [given]))
    raise ValueError(
        f"{what}: expected a Signal, a number or (begins, values, slopes), got "
        f"{type(given).__name__}"
    )


def per_trial(
    courses: Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | None, count: int
) -> list[Mapping[Any, Any]]:
    """The courses of every trial; raises `ValueError` if there is not one mapping for each."""
    if courses is None or isinstance(courses, Mapping):
        return [courses or {}] * count
    if not isinstance(courses, (list, tuple)) or not all(isinstance(c, Mapping) for c in courses):
        raise ValueError(
            f"courses must be a mapping, or a list with one for each trial, got {shown(courses)}"
        )
    if len(courses) != count:
        raise ValueError(
            f"courses has {len(courses)} mappings, expected one or one per trial ({count})"
        )
    return list(courses)


def new_names(model: Model, courses: Sequence[Mapping[str, Course | Fixed]]) -> list[str]:
    """Parameters of courses that the model does not have."""
    names = {p for row in courses for course in row.values() for p in course.names}
    new = sorted(names - set(model.parameter_names))
    for name in new:
        if name in (*model.state_names, *model.input_names):
            raise ValueError(
                f"a course depends on {name}, which is a state or an input of "
                f"{model.name}; call the parameter something else"
            )
    return new
