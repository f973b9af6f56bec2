"""Comparison of fits of the same data, by likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc

from kinesym.base.checks import check_choice, mapping
from kinesym.base.notebook import Displayed, html_table
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.likelihood import MARGINAL, POSTERIOR, Likelihood
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.summary import aligned

if TYPE_CHECKING:
    import pandas as pd

#: Decrease of twice log L that counts as none: a spread that is nearly, but not quite, zero.
_ROUNDING = 1e-2


@dataclass(frozen=True)
class Compared(Likelihood):
    """Row of a comparison: a fit by name, and its likelihood."""

    name: str = ""


@dataclass(frozen=True)
class LikelihoodRatio(Displayed):
    """Likelihood ratio test of a model that is contained in a larger one.

    statistic : twice the difference of log L. freedom : difference in the number of unknowns.
    probability : of a statistic as large, if the smaller model is true. notes : assumptions, in
    sentences.
    """

    small: str
    large: str
    statistic: float
    freedom: float
    probability: float
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        p = self.probability
        head = (
            f"{self.large} against {self.small}: 2 log(L/L) = {self.statistic:.5g} with "
            f"{self.freedom:g} more unknowns, p = {p:.3g}"
        )
        return "\n".join([head, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(Saved):
    """Comparison of fits by name, the best one by Akaike's criterion first; see `compare`.

    fits : a row of each. notes : sentences on differences that limit the comparison.
    """

    fits: Sequence[Compared]
    notes: Sequence[str] = ()

    #: Names of the columns of `rows`.
    HEAD = ("", "log L", "unknowns", "freedom", "AIC", "difference", "weight", "AICc", "BIC")

    @property
    def best(self) -> str:
        """Name of the fit with the least AIC."""
        return self.fits[0].name

    def differences(self) -> dict[str, float]:
        """Differences of AIC to the best fit, by name: more than 10 is hardly supported (Burnham,
        Anderson 2002, section 2.6)."""
        return {row.name: row.aic - self.fits[0].aic for row in self.fits}

    def weights(self) -> dict[str, float]:
        """Akaike's weights, exp(-difference/2) over their sum (section 2.9 there)."""
        raw = {name: float(np.exp(-0.5 * d)) for name, d in self.differences().items()}
        return {name: share / sum(raw.values()) for name, share in raw.items()}

    def test(self, small: str, large: str) -> LikelihoodRatio:
        """Likelihood ratio test of two of the fits. The larger model must contain the smaller one,
        which is not checked.

        If the smaller one is true, twice the difference of log L has a chi-square distribution with
        as many degrees of freedom as there are more unknowns (Wilks 1938). An additional standard
        deviation is zero then, at the edge of its range, so that half of the probability is at one
        degree less (Self, Liang 1987, Journal of the American Statistical Association 82, 605, case
        5). Raises `ValueError` for unknown names, for fits with priors, and for equal numbers of
        unknowns.
        """
        rows = {row.name: row for row in self.fits}
        for name, what in ((small, "the smaller fit"), (large, "the larger fit")):
            check_choice(name, rows, what)
            if rows[name].kind == POSTERIOR:
                raise ValueError(
                    f"{name} has priors, so that its likelihood is not the largest one; the test "
                    "is of fits without priors"
                )
        one, other = rows[small], rows[large]
        freedom = other.unknowns - one.unknowns
        if freedom <= 0:
            raise ValueError(
                f"{large} has {other.unknowns:g} unknowns and {small} {one.unknowns:g}: the larger "
                "model needs more"
            )
        statistic = 2.0 * (other.log_likelihood - one.log_likelihood)
        known = one.edges.splitlines()
        more = [name for name in other.edges.splitlines() if name not in known]
        notes, p = list[str](), float(chdtrc(freedom, max(statistic, 0.0)))
        if len(more) == 1:
            less = float(chdtrc(freedom - 1, statistic)) if freedom > 1 else 0.0
            p = 0.5 * (p + (less if statistic > 0.0 else 1.0))
            notes.append(f"{more[0]} is zero in {small}, at its edge, which p takes into account")
        elif more:
            words = " and ".join(more)
            notes.append(f"{words} are zero in {small}, at their edges: p is less than this")
        if statistic < -_ROUNDING:
            notes.append(
                f"{large} explains less than {small}: it does not contain it, or its fit ended in "
                "a local minimum"
            )
        return LikelihoodRatio(small, large, statistic, freedom, p, notes)

    def to_pandas(self) -> pd.DataFrame:
        """Table with a row per fit: log L, unknowns, samples, degrees of freedom, AIC, its
        difference and weight, AICc, BIC, kind of likelihood."""
        import pandas as pd  # here: slow to import

        rows = {
            "log_likelihood": [row.log_likelihood for row in self.fits],
            "unknowns": [row.unknowns for row in self.fits],
            "samples": [row.samples for row in self.fits],
            "freedom": [row.freedom for row in self.fits],
            "aic": [row.aic for row in self.fits],
            "difference": [*self.differences().values()],
            "weight": [*self.weights().values()],
            "aicc": [row.aicc for row in self.fits],
            "bic": [row.bic for row in self.fits],
            "kind": [row.kind for row in self.fits],
        }
        return pd.DataFrame(rows, index=pd.Index([row.name for row in self.fits], name="fit"))

    def rows(self) -> list[tuple[str, ...]]:
        """Rows of the table, as text."""
        extra = zip(self.differences().values(), self.weights().values(), strict=True)
        return [
            (
                row.name,
                f"{row.log_likelihood:.6g}",
                f"{row.unknowns:g}",
                f"{row.freedom:g}",
                f"{row.aic:.6g}",
                f"{more:.4g}",
                f"{weight:.3g}",
                f"{row.aicc:.6g}",
                f"{row.bic:.6g}",
            )
            for row, (more, weight) in zip(self.fits, extra, strict=True)
        ]

    def __str__(self) -> str:
        lines = aligned([self.HEAD, *self.rows()], left=[0])
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<comparison of {len(self.fits)} fits; {self.best} has the least AIC>"

    def _repr_html_(self) -> str:
        """Table for a notebook."""
        return html_table("; ".join(self.notes), self.rows(), self.HEAD)

    def plot(self) -> Any:
        """Figure of the differences of AIC and BIC to their least values."""
        names = [row.name for row in self.fits]
        figure, axis = subplots(grid="x", figsize=(6.0, 1.2 + 0.5 * len(names)))
        for shift, criterion in ((-0.2, "aic"), (0.2, "bic")):
            values = np.array([getattr(row, criterion) for row in self.fits])
            places = np.arange(len(names)) + shift
            axis.barh(places, values - values.min(), 0.4, label=criterion.upper())
        axis.set_yticks(range(len(names)), [plain(name) for name in names])
        axis.invert_yaxis()
        axis.set_xlabel("difference to the least value")
        axis.legend()
        return figure


def compare(fits: Mapping[str, Trials]) -> Comparison:
    """Compare fits of the same samples, by collocation or shooting, by AIC, BIC and likelihood
    ratio: `ks.compare({"one mass": fit, "two masses": other})`.

    The likelihood is that of the estimates. Standard deviations that are not given are at their
    maximum likelihood, the root of the mean square of residuals; those that fits report are larger,
    since they count degrees of freedom. Raises `ValueError` for fits without likelihood (not
    converged, an objective that is no likelihood, a part that nothing determines), for fits of
    different samples, and if unknowns are integrated out in one fit and estimated in another.
    """
    given = mapping(fits, "the fits to compare", "{name: fit}")
    for name, fit in given.items():
        if not isinstance(name, str) or not isinstance(fit, Trials):
            raise ValueError(f"compare takes names and results of solve, got {name!r}: {fit!r}")
        if not fit.likelihood:
            raise ValueError(f"{name} has no likelihood: {_why_not(fit)}")
    if len(given) < 2:
        raise ValueError("compare needs two fits at least: {name: fit, other name: other fit}")
    (first, one), *others = given.items()
    for name, other in others:
        _check_same(first, one, name, other)
    rows = [Compared(**vars(fit.likelihood[0]), name=name) for name, fit in given.items()]
    _check_integrated(rows)
    return Comparison(fits=sorted(rows, key=lambda row: row.aic), notes=list(_notes(rows)))


def _why_not(fit: Trials) -> str:
    if not fit.success:
        return fit.message
    return (
        "its objective has more than LeastSquares, or a loss that is no likelihood, or nothing "
        "determines a part of it"
    )


def _check_same(first: str, one: Trials, name: str, other: Trials) -> None:
    """Raise `ValueError` for fits of different samples."""
    ours, theirs = _samples(one.trials), _samples(other.trials)
    remedy = "compare fits of the same samples"
    for key in {**ours, **theirs}:
        channel, trial = key
        there = [len(found[key][0]) if key in found else 0 for found in (ours, theirs)]
        if there[0] != there[1]:
            raise ValueError(
                f"{first} and {name} are fits of different data: {channel} of trial {trial} has "
                f"{there[0]} and {there[1]} samples; {remedy}"
            )
        if not all(_close(a, b) for a, b in zip(ours[key], theirs[key], strict=True)):
            raise ValueError(
                f"{first} and {name} are fits of different data: samples of {channel} of trial "
                f"{trial} differ; {remedy}"
            )


def _close(ours: Array, theirs: Array) -> bool:
    """Whether numbers are the same up to rounding."""
    largest = float(np.abs(ours).max(initial=0.0))
    return bool(np.abs(ours - theirs).max(initial=0.0) <= 1e-9 * largest)


def _samples(runs: Sequence[Trajectory]) -> dict[tuple[str, int], tuple[Array, Array]]:
    """Times and values of the samples by channel and trial."""
    found = dict[tuple[str, int], tuple[Array, Array]]()
    for trial, run in enumerate(runs):
        rows = {name: (run.time, y) for name, y in run.measurements.items()}
        rows |= {name: (own.time, own.measured) for name, own in run.timed.items()}
        for name, (time, y) in rows.items():
            here = np.flatnonzero(np.isfinite(y))
            here = here[np.argsort(time[here], kind="stable")]
            found[name, trial] = time[here], y[here]
    return found


def _check_integrated(rows: Sequence[Compared]) -> None:
    """Raise `ValueError` if unknowns are integrated out in one fit and estimated in another."""
    counts = {row.integrated for row in rows}
    if len(counts) > 1:
        most, least = max(rows, key=lambda r: r.integrated), min(rows, key=lambda r: r.integrated)
        raise ValueError(
            f"{most.name} has integrated out {most.integrated:g} unknown starts or inputs of which "
            f"nothing is known beforehand, {least.name} {least.integrated:g}: their likelihoods "
            "have different units; give the starts by boundary conditions in both"
        )


def _notes(rows: Sequence[Compared]) -> list[str]:
    """Sentences on differences of the fits that limit the comparison."""
    found = [
        f"{row.name} has priors: its estimates are those of the highest posterior density, and its "
        "likelihood is less than the largest; AIC and BIC are none but roughly"
        for row in rows
        if row.kind == POSTERIOR
    ]
    mixed = [row.name for row in rows if row.kind == MARGINAL]
    if mixed and len(mixed) < len(rows):
        found.append(f"that of {' and '.join(mixed)} is a marginal likelihood, by Laplace's method")
    return found
