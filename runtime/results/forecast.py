"""Forecasts: the errors of estimates that an experiment will have, before there are data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from kinesym.base.checks import between
from kinesym.base.notebook import Displayed, html_table, with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.estimates import Estimate, Estimates, Uncertainty, estimates_of
from kinesym.runtime.results.inference import with_correlated_noise
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.precision import least_certain
from kinesym.runtime.results.profile import HeldQuantity
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.summary import aligned, in_errors, listed

if TYPE_CHECKING:
    import pandas as pd

#: Standard errors from the assumed value at which an interval is tried: about its 95 % ends.
_ENDS = 2.0
#: Factor by which the misfit may rise faster or slower there than a parabola, as its root: beyond,
#: an end of the interval moves by a quarter of its half width, and the scatter of estimates too.
_STRAIGHT = 1.25
#: What is said of a parameter without a standard error.
_NEVER = "cannot be known"
#: What the value of a variation says, by the argument that varies it.
_WORDS = {
    "seconds": "{:g} s",
    "rate": "{:g} Hz",
    "trials": "{} trials",
    "std": "std {}",
    "without": "without {}",
}
#: Axis of a figure for each.
_AXES = {"seconds": "duration [s]", "rate": "rate [Hz]", "trials": "trials"}


#: Name of a parameter, its row, and the parameter as a quantity that can be held.
_Known = tuple[str, Estimate, HeldQuantity]


@dataclass(frozen=True, eq=False)
class Varied:
    """Variation of an experiment: which argument of `forecast`, its value, and words for it."""

    by: str
    value: Any

    def __str__(self) -> str:
        value = self.value
        if self.by == "std":
            alike = len(set(value.values())) == 1 < len(value)
            each = (f"{name} {s:g}" for name, s in value.items())
            value = f"{next(iter(value.values())):g}" if alike else listed(each)
        elif self.by == "without":
            value = " and ".join(value)
        words = _WORDS[self.by].format(value)
        return words[:-1] if (self.by, value) == ("trials", 1) else words


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Displayed):
    """Forecast of an experiment: what its record will tell, at assumed values.

    `forecast.parameters` are the assumed values as a table with the standard errors and intervals
    that a fit of such a record will have: `forecast.parameters.table["k"].standard_error`. NaN
    marks what cannot be known. fit : the fit that the record without noise would give. variants :
    by variation of the experiment the same table. correlation : of noise in time [s], by channel.
    passed : sentences on limits that the assumed motion passes; notes : on what else was assumed.
    follows : whether noise follows the motion, so that the record without noise has no misfit to
    bend.
    """

    fit: Trials
    variants: Mapping[Varied, Estimates] = field(default_factory=dict)
    correlation: Mapping[str, float] = field(default_factory=dict)
    passed: Sequence[str] = ()
    notes: Sequence[str] = ()
    follows: bool = False

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Covariance of the estimates, and remarks on it."""
        [about] = self.fit.uncertainty
        if not self.correlation:
            return about
        return with_correlated_noise(about, self._inference(), self.correlation)

    def _inference(self) -> Any:
        assert self.fit.inference is not None
        return self.fit.inference()

    @cached_property
    def parameters(self) -> Estimates:
        """The assumed values, with standard errors and 95 % intervals."""
        return self.intervals()

    @property
    def trials(self) -> Sequence[Trajectory]:
        """The assumed trajectories, with the samples of a record without noise."""
        return self.fit.trials

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates, (n, n), in the order of `standard_errors()`."""
        return self.uncertainty.covariance

    def standard_errors(self) -> dict[str, float]:
        """Standard error of each estimate by name, of shooting of all unknowns; NaN for what cannot
        be known."""
        about = self.uncertainty
        return dict(zip(about.names, map(float, about.deviations()), strict=True))

    def intervals(self, level: float = 0.95) -> Estimates:
        """Table of the assumed values with intervals of this level."""
        level = between(level, 0.0, 1.0, "level")
        units = self.fit.parameters.units
        return estimates_of(dict(self.fit.parameters), self.uncertainty, level, units=units)

    def interval(self, expression: Any, level: float = 0.95, trial: int = 0) -> Estimate:
        """Interval of a combination of parameters, and of states at the ends, as of fits (see
        `Trials.interval`). Raises `ValueError` with correlated noise."""
        self._check_white("an interval of a combination")
        return self.fit.interval(expression, level, trial)

    def bands(self, names: Sequence[Any] | None = None) -> Bands:
        """Confidence bands of trajectories and outputs that the record will tell, as of fits (see
        `Trials.bands`). Raises `ValueError` with correlated noise."""
        self._check_white("a band")
        return self.fit.bands(names)

    def _check_white(self, what: str) -> None:
        if self.correlation:
            raise ValueError(f"{what} is known for white noise; leave correlation out")

    @cached_property
    def doubts(self) -> Sequence[str]:
        """Sentences on parameters whose standard errors do not tell how estimates will scatter: a
        bound is within two of them; or the model bends too much, as with the parameter held two
        standard errors to each side, all else following, the misfit rises otherwise than the
        parabola that standard errors are of. Of bends nothing is said where the motion passes
        limits, which would hold what follows, or the noise follows the motion."""
        known = list(self._known())
        straight = self.passed or self.follows
        return [*self._near_bounds(known), *([] if straight else self._bends(known))]

    def _near_bounds(self, known: Sequence[_Known]) -> Iterator[str]:
        errors = self.standard_errors()
        for name, row, quantity in known:
            own = quantity.own_error * errors[name] / row.standard_error  # of correlated noise
            off = np.abs(np.subtract(quantity.limits, quantity.best.value)) / own
            for limit, away in zip(quantity.limits, off.tolist(), strict=True):
                if away < _ENDS:
                    yield (
                        f"the bound {quantity.shown(limit):g} of {name} is "
                        f"{in_errors(f'{away:.2g}')} away: about "
                        f"{100.0 * float(ndtr(-away)):.2g} % of estimates will be at it"
                    )

    def _bends(self, known: Sequence[_Known]) -> Iterator[str]:
        variance = self.fit.uncertainty[0].variance
        for name, row, quantity in known if variance == 1.0 else ():
            bends = [quantity.bend(sign * _ENDS, variance) for sign in (-1.0, 1.0)]
            odd = [b for b in bends if b > 0.0 and not 1.0 / _STRAIGHT <= b <= _STRAIGHT]
            if odd:
                rises = [
                    f"{(b * _ENDS) ** 2:.2g}" if np.isfinite(b) else "endlessly" for b in bends
                ]
                sides = [
                    f"{rise} {side}"
                    for rise, side, bend in zip(rises, ("below", "above"), bends, strict=True)
                    if bend > 0.0
                ]
                yield (
                    f"+- {row.standard_error:.2g} of {name} is doubtful: {_ENDS:g} standard errors "
                    f"away the misfit rises by {' and '.join(sides)} it, not by {_ENDS**2:g}; "
                    "fits of simulated records tell how estimates will scatter"
                )

    def _known(self) -> Iterator[_Known]:
        """Parameters with standard errors of white noise."""
        held: Any = getattr(self._inference(), "held", None)
        for name, row in self.fit.parameters.table.items() if held else ():
            if row.standard_error > 0.0:
                try:
                    yield name, row, held(name)
                except ValueError:  # not asked of this kind of fit, as of several segments
                    return

    # -- variants ---------------------------------------------------------------------------

    def rows(self) -> list[tuple[str, ...]]:
        """Standard errors as text, a row for the experiment as it is and for each variation."""
        every = {"as it is": self.parameters, **{str(v): e for v, e in self.variants.items()}}
        names = [*self.parameters]  # repeats have more, of trials of their own
        return [(words, *(_error(e.table[n]) for n in names)) for words, e in every.items()]

    def to_pandas(self) -> pd.DataFrame:
        """Table of the standard errors, a row for the experiment as it is and for each variation, a
        column per parameter; NaN for what cannot be known."""
        import pandas as pd  # here: slow to import

        every = {"as it is": self.parameters, **{str(v): e for v, e in self.variants.items()}}
        rows = {words: each.standard_errors() for words, each in every.items()}
        table = pd.DataFrame.from_dict(rows, orient="index")[list(self.parameters)]
        return table.rename_axis(index="experiment")

    def sentences(self) -> list[str]:
        """Sentences on the variations: what they tell of the parameter that is known least."""
        return [
            words
            for by in dict.fromkeys(varied.by for varied in self.variants)
            for words in self._told({v: e for v, e in self.variants.items() if v.by == by})
        ]

    def _told(self, found: Mapping[Varied, Estimates]) -> list[str]:
        base, words = self.parameters, list[str]()
        if next(iter(found)).by == "without":
            for varied, each in found.items():
                lost = [n for n in _unknown(each) if n not in _unknown(base)]
                worse = _worst({n: each.table[n].standard_error for n in base}, base.table)
                if lost:
                    words.append(f"{varied} {_listed(lost)} {_NEVER}")
                elif worse:
                    now, was = each.table[worse], base.table[worse]
                    words.append(f"{varied}: {worse} {_error(now)} instead of {_error(was)}")
            return words
        lost_somewhere = {name for each in found.values() for name in _unknown(each)}
        known = {
            name: max(each.table[name].standard_error for each in found.values())
            for name in base
            if name not in lost_somewhere
        }
        least = _worst(known, base.table, relative=True)
        if least:
            first, *more = found.items()
            gives = "gives" if str(first[0]) == "1 trial" or first[0].by == "std" else "give"
            parts = [f"{first[0]} {gives} {least} {_error(first[1].table[least])}"]
            parts += [f"{varied} {_error(each.table[least])}" for varied, each in more]
            words.append(", ".join(parts))
        for varied, each in found.items():
            if lost := _unknown(each):
                words.append(f"with {varied} {_listed(lost)} {_NEVER}")
        return words

    def _remarks(self) -> list[str]:
        """Sentences on all of it."""
        about, values = self.uncertainty, self.parameters
        words = [*self.sentences(), *least_certain(values, about)]
        words += [*about.notes, *self.doubts, *self.passed, *self.notes]
        return list(dict.fromkeys(words))

    def __str__(self) -> str:
        lines = [f"{self.fit.model}: what this experiment will tell, {self.parameters.title}"]
        lines += [f"  {line}" for line in self.parameters.lines()]
        if self.variants:
            table = [("standard errors", *self.parameters), *self.rows()]
            lines += ["", *(f"  {line}" for line in aligned(table, [0])), ""]
        return "\n".join([*lines, *(f"  {words}" for words in self._remarks())])

    def __repr__(self) -> str:
        pairs = ((name, row) for name, row in self.parameters.table.items())
        return f"<forecast of {self.fit.model}; {listed(f'{n} {_error(row)}' for n, row in pairs)}>"

    def _repr_html_(self) -> str:
        """Tables for a notebook, and the sentences."""
        units = self.parameters.units
        head = ("standard errors", *(with_unit(name, units) for name in self.parameters))
        more = html_table("Other experiments", self.rows(), head) if self.variants else ""
        about = self._remarks()
        words = html_table("What it says", [(words,) for words in about]) if about else ""
        return self.parameters._repr_html_() + more + words

    def plot(self) -> Any:
        """Figure of the standard errors over durations, rates and numbers of trials, and by what
        else is varied, in % of the values (or in their unit, of values that are zero); what cannot
        be known is a cross above the frame. Without variations, of the experiment as it is."""
        kinds = list(dict.fromkeys(varied.by for varied in self.variants)) or ["as it is"]
        width = 3.4 * len(kinds) + 2.2
        figure, axes = subplots(1, len(kinds), squeeze=False, sharey=True, figsize=(width, 3.6))
        for axis, by in zip(axes[0], kinds, strict=True):
            mine = {v: e for v, e in self.variants.items() if v.by == by}
            if by in _AXES:
                self._lines(axis, {v.value: e for v, e in mine.items()}, _AXES[by])
            else:
                first = {"as it is": self.parameters}
                self._marks(axis, first | {str(v): e for v, e in mine.items()})
            axis.set_yscale("log", subs=[2, 5])
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            if any(_unknown(each) for each in mine.values()):
                axis.set_title(f"x {_NEVER}", loc="right", fontsize="small", pad=14.0)
        axes[0, 0].set_ylabel("standard error [% of the value]")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize="small")
        figure.suptitle(plain(f"{self.fit.model}: what will be known"), x=0.02, ha="left")
        return figure

    def _lines(self, axis: Any, found: Mapping[float, Estimates], label: str) -> None:
        values = sorted(found)
        self._draw(axis, np.array(values, dtype=float), [found[v] for v in values], "-o")
        axis.set_xscale("log")
        axis.set_xticks(values, [f"{v:g}" for v in values])
        axis.minorticks_off()
        axis.set_xlabel(label)

    def _marks(self, axis: Any, found: Mapping[str, Estimates]) -> None:
        self._draw(axis, np.arange(len(found), dtype=float), list(found.values()), "o")
        turned = {"rotation": 30, "ha": "right"} if len(found) > 2 else {}
        axis.set_xticks(range(len(found)), [plain(words) for words in found], **turned)
        axis.set_xlim(-0.5, len(found) - 0.5)

    def _draw(self, axis: Any, at: Array, found: Sequence[Estimates], style: str) -> None:
        """Standard errors of each parameter; crosses above the frame for those without."""
        for k, name in enumerate(self.parameters):
            rows, colour = [each.table[name] for each in found], f"C{k % 10}"
            size = np.array([_relative(row) for row in rows])
            axis.plot(at, size, style, ms=4.0, lw=1.2, color=colour, label=plain(name))
            lost = np.isnan(size)
            about = {"transform": axis.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            axis.plot(
                at[lost] + 0.08 * k, np.full(int(lost.sum()), 1.04), "x", color=colour, **about
            )


def _relative(row: Estimate) -> float:
    """Standard error in % of the value, of a value that is zero in its unit."""
    return 100.0 * row.standard_error / abs(row.value) if row.value else row.standard_error


def _error(row: Estimate) -> str:
    if np.isnan(row.standard_error):
        return _NEVER
    return f"+- {row.standard_error:.2g}" if row.standard_error > 0.0 else "at a bound"


def _unknown(each: Estimates) -> list[str]:
    return [name for name, row in each.table.items() if np.isnan(row.standard_error)]


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _worst(
    errors: Mapping[str, float], base: Mapping[str, Estimate], relative: bool = False
) -> str:
    """Name with the largest standard error, over that of the experiment as it is, or over its
    value; empty if none has one."""

    def size(name: str) -> float:
        by = abs(base[name].value) if relative else base[name].standard_error
        return errors[name] / by if by > 0.0 else 0.0

    known = [name for name, error in errors.items() if error > 0.0]
    return max(known, key=size, default="")
