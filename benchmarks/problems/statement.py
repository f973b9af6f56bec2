"""What a published problem is: its statement and what its source says of the solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

import kinesym as ks

Array = NDArray[np.float64]
Values = Mapping[AppliedUndef, Any]

DATA = Path(__file__).parents[1] / "data"

COPS = "Dolan, Moré, Munson 2004 (COPS 3), trapezoidal rule"
COPS_GAUSS = "Dolan, Moré, Munson 2004 (COPS 3), Gauss collocation"
OPTY = "Moore, van den Bogert 2018 (opty, example gallery), backward Euler"
PSOPT = "Becerra 2010 (PSOPT), pseudospectral"
BETTS = "Betts 2020 (Practical Methods for Optimal Control, third edition)"
BOCOP = "Bocop, OptimalControlProblems.jl 2025"
PROPT = "Rutquist, Edvall 2010 (PROPT), pseudospectral"
#: Of values that were written from memory, and not found again in their source.
RECALLED = "value not looked up"


@dataclass(frozen=True)
class Published:
    """A problem and what its source says about the solution.

    posed : makes the problem, by the scheme of its source or `posed(scheme=...)`.
    source : authors, year, and how it discretised.
    value : published objective, as a minimum (of -h to maximise h); None if there is none.
    tolerance : relative difference from `value` that discretisation (ours, with the default number
        of nodes, or the published one) and printed digits explain; absolute if `value` is 0.
    guess : where to start; it also selects one of several local minima.
    parameters : published parameters by name, each with its tolerance.
    missed : why we do not end at the published value, where we do not.
    """

    posed: Callable[..., ks.Collocation]
    source: str
    value: float | None = None
    tolerance: float = 0.0
    guess: Mapping[Any, Any] = field(default_factory=dict)
    parameters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    missed: str = ""

    def difference(self, objective: float) -> float:
        """(objective - published)/|published|, of a published 0 the objective; NaN without one."""
        return np.nan if self.value is None else (objective - self.value) / (abs(self.value) or 1.0)

    @cached_property
    def problem(self) -> ks.Collocation:
        """By the scheme of its source."""
        return self.posed()


# -- notation --------------------------------------------------------------------------------------


def explicit(
    name: str, rates: Values, inputs: Sequence[AppliedUndef] = (), **more: Any
) -> ks.Model:
    """The model x' = f for rates = {x: f}."""
    equations = [x.diff(ks.t) - f for x, f in rates.items()]
    return ks.Model(name, list(rates), list(inputs), more.pop("parameters", []), equations, **more)


def ends(start: Values, end: Values) -> list[sp.Expr]:
    """Boundary conditions from values at the start and at the end."""
    first = [ks.at_start(x) - value for x, value in start.items()]
    return first + [ks.at_end(x) - value for x, value in end.items()]


def table(name: str) -> Array:
    """Columns of a file of measurements."""
    return np.loadtxt(DATA / name, delimiter=",", skiprows=1, unpack=True)


def sampled(time: Array, measurements: Mapping[Any, Array], nodes: int) -> ks.Experiment:
    """A trial with about `nodes` nodes, among them all instants of the samples, of equal weight."""
    parts = max(1, round((nodes - 1) / (len(time) - 1)))
    alike = dict.fromkeys(measurements, "all")
    return ks.Experiment(time, measurements=measurements, std=alike).refined(parts)


def graded(duration: float, nodes: int) -> Array:
    """A grid whose steps grow in proportion to the time from the nearer end, from about 0.01 s."""
    growth = np.log(duration)
    half = np.expm1(growth * np.linspace(0.0, 1.0, nodes // 2 + 1)) / np.expm1(growth)
    return np.concatenate([half, 2.0 - half[-2::-1]]) * duration / 2.0


def fixed(nodes: int, end: float) -> ks.Experiment:
    """A uniform grid from 0 to `end`."""
    return ks.Experiment(np.linspace(0.0, end, nodes))


def free(nodes: int, shortest: float, longest: float) -> ks.Experiment:
    """A uniform grid of unknown duration."""
    return ks.Experiment(nodes=nodes, duration=(shortest, longest))


def line(start: float, end: float, nodes: int) -> Array:
    """A straight line, as a guess."""
    return np.linspace(start, end, nodes)


def starts(values: Values) -> list[sp.Expr]:
    """Conditions at the start."""
    return ends(values, {})


def stated(
    model: Any,
    trial: Any,
    source: str,
    value: float | None,
    tolerance: float,
    guess: Mapping[Any, Any] | None = None,
    missed: str = "",
    **question: Any,
) -> Published:
    """A problem with its question to `ks.Collocation`, whose scheme is the default."""
    posed = partial(ks.Collocation, model, trial, **question)
    return Published(posed, source, value, tolerance, guess or {}, missed=missed)
