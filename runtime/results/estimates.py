"""Estimates with standard errors and confidence intervals, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.special import ndtri, stdtrit

from kinesym.base.notebook import Displayed, html_table, with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.trajectory import Values
from kinesym.runtime.summary import aligned, in_errors

if TYPE_CHECKING:
    import pandas as pd


#: Begin of a message on missing standard errors.
NO_ERRORS = "there are no standard errors"
#: Remark on an estimate without a standard error.
UNKNOWN = "not identifiable"


@dataclass(frozen=True, eq=False, kw_only=True)
class Uncertainty(Saved):
    """Uncertainty of estimates: their covariance, and remarks on it.

    names : of the unknowns (n,). covariance : (n, n), zero for unknowns at a bound, NaN for
    undetermined ones. held : names of unknowns at a bound. logarithmic : names of those that are
    estimated on a logarithmic scale.

    freedom : degrees of freedom of the variance of the samples, infinite if that is given.
    variance : of the samples in units of the weights of J, 1 if J is -2 log L.

    factors, random : names of factors, with intervals of log log, and of random effects, whose
    errors are those of their values given the estimates. freedoms : degrees of freedom of unknowns
    that have their own. notes : sentences on unknowns that are not identifiable. instead :
    identifiable combinations with these, by name.
    """

    names: Sequence[str]
    covariance: Annotated[Array, "unknown", "other"]
    held: Sequence[str] = ()
    logarithmic: Sequence[str] = ()
    freedom: float = np.inf
    variance: float = 1.0
    notes: Sequence[str] = ()
    factors: Sequence[str] = ()
    random: Sequence[str] = ()
    freedoms: Mapping[str, float] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)

    def quantile(self, level: float, name: str = "") -> float:
        """Half width of an interval [standard errors], by Student's t."""
        return quantile(level, self.freedoms.get(name, self.freedom))

    def deviations(self) -> Array:
        """Standard errors, the root of the diagonal of the covariance, (n,); NaN if that is not
        positive."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sqrt(np.diag(self.covariance)))


def nothing_known(names: Sequence[str] = ()) -> Uncertainty:
    """Uncertainty of unknowns of whose errors nothing is known."""
    return Uncertainty(names=names, covariance=np.full((len(names), len(names)), np.nan))


@dataclass(frozen=True)
class Noise:
    """Estimated standard deviation of a group of measurements, with the number of samples and the
    degrees of freedom of the residuals: the samples less the degrees of freedom that the unknowns
    take (the sum of the leverages). NaN if none is left; infinite freedom for the maximum
    likelihood."""

    group: str
    std: float
    samples: float
    freedom: float


def quantile(level: float, freedom: float) -> float:
    """Quantile of Student's t: half width of an interval with probability `level` [standard
    errors]."""
    share = 0.5 + 0.5 * level
    return float(ndtri(share) if np.isinf(freedom) else stdtrit(max(freedom, 0.0) or 1e-9, share))


@dataclass(frozen=True)
class Estimate(Displayed):
    """Estimate of an unknown: value, standard error, interval, and a remark. NaN marks unknown
    values.

    shift : correction of the discretisation error, to be added.
    """

    value: float
    standard_error: float = np.nan
    low: float = np.nan
    high: float = np.nan
    shift: float = np.nan
    remark: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """Interval (low, high)."""
        return self.low, self.high

    def __str__(self) -> str:
        value, error, interval, remark = self.cells()
        sure = f"{value} +- {error}" if error else value
        return "  ".join(filter(None, (sure, f"({interval})" * bool(interval and error), remark)))

    def cells(self) -> tuple[str, str, str, str]:
        """Value, standard error, interval and remark, as text; empty if not known."""
        sure = np.isfinite(self.standard_error) and self.standard_error > 0.0
        around = "" if np.isnan(self.low + self.high) else f"{self.low:.6g} ... {self.high:.6g}"
        error = f"{self.standard_error:.2g}" if sure else ""
        off = abs(self.shift) / self.standard_error if sure else 0.0
        grid = f"the grid shifts it by {in_errors(_rough(off))}" if off > 0.5 else ""
        return f"{self.value:.6g}", error, around, "; ".join(filter(None, (self.remark, grid)))


class Estimates(Values):
    """Estimates by name or symbol: `estimates["k"]` is a number; and a table of their uncertainty:
    `estimates.table["k"]` has standard error and interval.

    table : or a function that makes it, called when it is asked for. level, method : of the
    intervals. units : by name, if known.
    """

    #: Names of the columns of `rows`.
    HEAD = ("", "estimate", "std. error", "interval", "note")

    def __init__(
        self,
        values: Mapping[str, float],
        table: Mapping[str, Estimate] | Callable[[], Mapping[str, Estimate]] | None = None,
        level: float = 0.95,
        method: str = "t",
        units: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(values)
        self._known = {} if table is None else table
        self.level, self.method, self.units = level, method, units or {}

    @cached_property
    def table(self) -> dict[str, Estimate]:
        """Estimates by name, with what is known of their errors."""
        known = self._known() if callable(self._known) else self._known
        return {name: known.get(name, Estimate(value)) for name, value in self.items()}

    def with_units(self, units: Mapping[str, str]) -> Estimates:
        """Copy that is shown with these units, by name."""
        return Estimates(dict(self), self.table, self.level, self.method, units)

    def standard_errors(self) -> dict[str, float]:
        """Standard errors by name; 0 for parameters at a bound, NaN if not known."""
        return {name: row.standard_error for name, row in self.table.items()}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Intervals (low, high) by name; NaN if not known, infinite for an open side."""
        return {name: row.interval for name, row in self.table.items()}

    def to_pandas(self) -> pd.DataFrame:
        """Table with a row per estimate: value, standard error, interval, shift by the grid,
        remark."""
        import pandas as pd  # here: slow to import

        columns = {
            "estimate": lambda row: row.value,
            "standard_error": lambda row: row.standard_error,
            "low": lambda row: row.low,
            "high": lambda row: row.high,
            "grid_shift": lambda row: row.shift,
            "remark": lambda row: row.remark,
        }
        rows = {k: [of(row) for row in self.table.values()] for k, of in columns.items()}
        return pd.DataFrame(rows, index=pd.Index(list(self), name="parameter"))

    @property
    def title(self) -> str:
        """Title with level and method of the intervals."""
        return f"{100.0 * self.level:g} % intervals ({self.method})"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Name, value, standard error, interval and remark of each, as text."""
        table = self.table.items()
        return [(with_unit(name, self.units), *row.cells()) for name, row in table]

    def lines(self) -> list[str]:
        """Lines of the table with a head, in columns; empty columns are left out."""
        table = [self.HEAD, *self.rows()]
        used = [k for k, _ in enumerate(self.HEAD) if k < 2 or any(row[k] for row in table[1:])]
        left = [place for place, k in enumerate(used) if k in (0, 4)]
        return aligned([[row[k] for k in used] for row in table], left)

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.lines())])

    def _repr_html_(self) -> str:
        """Table for a notebook."""
        return html_table(self.title, self.rows(), self.HEAD)


def estimates_of(
    values: Mapping[str, float],
    about: Uncertainty | None,
    level: float = 0.95,
    shifts: Mapping[str, float] | None = None,
    units: Mapping[str, str] | None = None,
) -> Estimates:
    """Table of estimates with intervals by Student's t, for their logarithms if these are
    estimated.

    shifts : by the grid, by name. units : see `Estimates`.
    """
    if about is None:
        return Estimates(values, units=units)
    table = partial(_table, dict(values), about, level, {} if shifts is None else shifts)
    return Estimates(values, table, level, units=units)


def _table(
    values: Mapping[str, float], about: Uncertainty, level: float, shifts: Mapping[str, float]
) -> dict[str, Estimate]:
    """Estimates by name, see `estimates_of`."""
    errors = dict(zip(about.names, about.deviations().tolist(), strict=True))
    table = {}
    for name, value in values.items():
        error, wide = errors.get(name, np.nan), about.quantile(level, name)
        low, high = value - wide * error, value + wide * error
        if name in about.logarithmic:
            with np.errstate(over="ignore"):  # of an undetermined estimate
                factor = float(np.exp(wide * error / value))
            low, high = value / factor, value * factor
        if name in about.factors:
            power = float(np.exp(wide * error / (value * np.log(value))))
            low, high = value ** (1.0 / power), value**power
        remark = "at a bound" if name in about.held else ""
        remark = "random effect" if name in about.random else remark
        if name in about.held:
            error, low, high = 0.0, np.nan, np.nan
        elif name in about.instead:
            remark = about.instead[name]
        elif np.isnan(error):
            remark = UNKNOWN if about.notes else ""
        shift = float(shifts.get(name, np.nan))
        table[name] = Estimate(value, error, low, high, shift, remark)
    return table


def _rough(number: float) -> str:
    """Number with one digit as text, without long runs of zeros."""
    return f"{float(f'{number:.1g}'):g}"
