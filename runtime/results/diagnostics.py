"""Residual diagnostics of a fit: whiteness, normality, correlation with inputs, outliers.

The size of residuals against a given standard deviation is tested by the fit itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from kinesym.base.notebook import html_table
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.series import MET, Series, series_of
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.statistics.residuals import (
    autocorrelation,
    cross_correlation,
    jarque_bera,
    ljung_box,
    outliers,
    usual_lags,
)
from kinesym.runtime.summary import listed

if TYPE_CHECKING:
    import pandas as pd

#: Probability below which a test rejects.
SIGNIFICANT = 1e-3
#: Correlation up to which it is harmless, however significant.
_HARMLESS = 0.1
#: Variance accounted for [%] from which a channel is explained even if the rest is not white.
_ALL = 99.99
#: Variance accounted for [%] below which white residuals do not show that a channel is explained.
_HALF = 50.0


@dataclass(frozen=True)
class ChannelCheck:
    """Tests of the residuals of a channel in a trial.

    samples : their number. rms : root mean square, in the unit of the channel; std : given or
    estimated standard deviation. vaf : variance accounted for [%]. white, normal : probabilities of
    residuals as correlated, as far from normal, if the assumptions hold; NaN for too few samples.
    lag, correlation : of the largest autocorrelation.
    input, input_lag, input_correlation, unrelated : the input that the residuals follow most, lag
    and correlation, and the probability of that by chance. outliers : indices of nodes,
    outlier_times : [s].
    """

    channel: str
    trial: int
    samples: int
    rms: float
    std: float
    vaf: float
    white: float
    lag: int
    correlation: float
    normal: float
    input: str = ""
    input_lag: int = 0
    input_correlation: float = 0.0
    unrelated: float = 1.0
    outliers: Sequence[int] = ()
    outlier_times: Sequence[float] = ()

    @property
    def name(self) -> str:
        """Name of the channel, and the trial if it is not the first."""
        return self.channel + (f" of trial {self.trial}" if self.trial else "")

    @property
    def autocorrelated(self) -> bool:
        """Whether the residuals are correlated in time so that plain intervals are too narrow."""
        return _is_autocorrelated(self.white, self.correlation)

    @property
    def explained(self) -> bool:
        """Whether the model leaves only noise of the channel, or a negligible rest."""
        return _is_explained(self.vaf, self.white, self.correlation)

    def sentences(self) -> list[str]:
        """Violated assumptions, in sentences."""
        said = []
        if self.autocorrelated:
            said.append(
                f"residuals of {self.name} are not white: lag {self.lag}, "
                f"rho {self.correlation:.2f}; use intervals(method='sandwich')"
            )
        if self.unrelated < SIGNIFICANT and abs(self.input_correlation) > _HARMLESS:
            said.append(
                f"residuals of {self.name} follow the input {self.input}: lag {self.input_lag}, "
                f"rho {self.input_correlation:.2f}; the model leaves out a part of its effect"
            )
        if len(self.outliers):
            when = listed([f"{time:.4g} s" for time in self.outlier_times], 4)
            many = f"{len(self.outliers)} outlier{'s' * (len(self.outliers) > 1)}"
            said.append(
                f"{many} in {self.name} at t = {when}; influence() says what they do; leave them "
                "out (NaN), or use LeastSquares(loss='student')"
            )
        elif self.normal < SIGNIFICANT:
            said.append(f"residuals of {self.name} are not normal")
        return said


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Residual diagnostics of all channels of a fit; `str` is the verdict in sentences."""

    checks: Sequence[ChannelCheck]
    series: Sequence[Series] = field(repr=False)

    @property
    def sentences(self) -> list[str]:
        """Violated assumptions of all channels, in sentences."""
        return [sentence for check in self.checks for sentence in check.sentences()]

    def __str__(self) -> str:
        return "\n".join(self.sentences) or "the residuals are as they should be"

    def to_pandas(self) -> pd.DataFrame:
        """Table with a row per channel and trial, with the fields of `ChannelCheck`."""
        import pandas as pd  # here: slow to import

        return pd.DataFrame([vars(check) for check in self.checks])

    def rows(self) -> list[tuple[str, ...]]:
        """Rows of the table as text: channel, samples, VAF, rms, std, probabilities, outliers."""
        return [
            (
                c.name,
                str(c.samples),
                f"{c.vaf:.2f} %",
                f"{c.rms:.3g}",
                f"{c.std:.3g}",
                _probability(c.white),
                f"{c.correlation:.2f} (lag {c.lag})",
                _probability(c.normal),
                str(len(c.outliers)),
            )
            for c in self.checks
        ]

    #: The names of the columns of `rows`.
    HEAD = (
        "channel",
        "samples",
        "VAF",
        "rms",
        "std",
        "p (white)",
        "largest rho",
        "p (normal)",
        "outliers",
    )

    def _repr_html_(self) -> str:
        """Table for a notebook."""
        return html_table(str(self), self.rows(), self.HEAD)

    def plot(self, trial: int = 0, names: Sequence[str] | None = None) -> Any:
        """Figure of a trial: for each channel the residuals over time, their autocorrelation with
        the limits of white ones, and their distribution beside the normal one. names : of channels,
        all by default."""
        mine = [s for s in self.series if s.trial == trial]
        mine = [s for s in mine if names is None or s.channel in names]
        if not mine:
            raise ValueError(f"nothing is measured in trial {trial}")
        figure, axes = subplots(
            len(mine),
            3,
            squeeze=False,
            figsize=(12.0, 2.2 * len(mine) + 0.6),
            width_ratios=[3.0, 2.0, 1.2],
        )
        for row, series in zip(axes, mine, strict=True):
            _panels(row, series)
        for axis, title in zip(
            axes[0], ("residual / std", "autocorrelation", "quantiles"), strict=True
        ):
            axis.set_title(title)
        axes[-1][0].set_xlabel("time [s]")
        axes[-1][1].set_xlabel("lag [samples]")
        axes[-1][2].set_xlabel("normal")
        return figure


def _panels(row: Any, series: Series) -> None:
    """Residuals over time, autocorrelation, quantiles."""
    over_time, lagged, quantiles = row
    e = series.standardised
    over_time.plot(series.time, e, ".", ms=2.5 if len(e) > 300 else 5.0, color="C0")
    over_time.axhline(0.0, color="0.5", lw=0.8)
    over_time.set_ylabel(plain(series.channel))
    lags = usual_lags(len(e))
    if lags:
        within = ndtri(0.975) / np.sqrt(len(e))
        lagged.axhspan(-within, within, color="0.85")
        lagged.vlines(np.arange(1, lags + 1), 0.0, autocorrelation(e, lags), color="C0")
        lagged.axhline(0.0, color="0.5", lw=0.8)
    probability = (np.arange(len(e)) + 0.5) / len(e)
    normal = ndtri(probability)
    quantiles.plot(normal, normal, color="0.5", lw=0.8)
    quantiles.plot(normal, np.sort(e), ".", ms=2.5, color="C0")


def diagnostics(trials: Sequence[Trajectory]) -> Diagnostics:
    """Checks of all channels of trials."""
    series = series_of(trials)
    return Diagnostics([_check(s, s.inputs(trials[s.trial])) for s in series], series)


def explained(trials: Sequence[Trajectory]) -> bool:
    """Whether all channels of trials are explained, see `ChannelCheck`."""
    for series in series_of(trials):
        vaf, whiteness = series.variance_accounted_for, _whiteness(series)
        if not _is_explained(vaf, whiteness.probability, whiteness.correlation):
            return False
    return True


def _is_autocorrelated(white: float, correlation: float) -> bool:
    """See `ChannelCheck`."""
    return white < SIGNIFICANT and abs(correlation) > _HARMLESS


def _is_explained(vaf: float, white: float, correlation: float) -> bool:
    """See `ChannelCheck`."""
    noise = np.isfinite(white) and not _is_autocorrelated(white, correlation)
    return bool(vaf >= (_HALF if noise else _ALL))


class _Whiteness(NamedTuple):
    """Whiteness of residuals: the probability of such correlation if they are white, NaN for too
    few samples or residuals that are rounding; lag and value of the largest autocorrelation."""

    probability: float = np.nan
    lag: int = 0
    correlation: float = 0.0


def _is_rounding(series: Series) -> bool:
    """Whether the samples are met but for rounding."""
    return bool(series.rms <= MET * series.size)


def _whiteness(series: Series) -> _Whiteness:
    e, lags = series.standardised, usual_lags(len(series.time))
    if not (lags and np.std(e) > 0.0) or _is_rounding(series):
        return _Whiteness()  # rounding is neither white nor normal
    rho = autocorrelation(e, lags)
    lag = int(np.argmax(np.abs(rho))) + 1
    return _Whiteness(ljung_box(rho, len(e)), lag, float(rho[lag - 1]))


def _check(series: Series, inputs: Mapping[str, Array]) -> ChannelCheck:
    e, K, whiteness = series.standardised, len(series.time), _whiteness(series)
    lags, told = usual_lags(K), whiteness.lag > 0
    followed = [
        (name, *cross_correlation(e, u, lags))
        for name, u in inputs.items()
        if told and np.isfinite(u).all()
    ]
    most = min(followed, key=lambda found: found[3], default=("", 0, 0.0, 1.0))
    outside = outliers(np.zeros(K) if _is_rounding(series) else e)
    return ChannelCheck(
        channel=series.channel,
        trial=series.trial,
        samples=K,
        rms=series.rms,
        std=float(np.median(series.std)),
        vaf=series.variance_accounted_for,
        white=whiteness.probability,
        lag=whiteness.lag,
        correlation=whiteness.correlation,
        normal=jarque_bera(e) if told else np.nan,
        input=most[0],
        input_lag=most[1],
        input_correlation=most[2],
        unrelated=most[3],
        outliers=[int(k) for k in series.index[outside]],
        outlier_times=[float(time) for time in series.time[outside]],
    )


def _probability(p: float) -> str:
    return "" if np.isnan(p) else f"{p:.1g}" if p < 0.1 else f"{p:.2f}"
