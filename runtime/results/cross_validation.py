"""Cross-validation: errors of prediction for data that are left out of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinesym.base.notebook import html_table
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.summary import aligned

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Score:
    """Predictive log density of the samples that were left out, given the others."""

    name: str
    samples: float
    log_density: float


@dataclass(frozen=True)
class Foretold:
    """Prediction error of a channel that was left out: root mean square of its residuals, in its
    unit, and that in the fit of all data."""

    name: str
    channel: str
    samples: float
    rms: float
    fitted: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CrossValidation(Saved):
    """Cross-validation of a fit: refits without some of the trials each, and their predictions of
    these; see `cross_validate`.

    by : the label whose values were left out one by one, "trial" for single trials. errors : by
    left-out part and channel. scores : by left-out part. refitted, predicted : parameters that only
    left-out trials have, fitted to their samples, or put at the means of their distributions.
    notes : sentences on parts that were not predicted.
    """

    by: str
    errors: Sequence[Foretold]
    scores: Sequence[Score]
    refitted: Sequence[str] = ()
    predicted: Sequence[str] = ()
    notes: Sequence[str] = ()

    #: Names of the columns of `rows`.
    HEAD = ("left out", "channel", "samples", "rms", "rms in the fit")

    @property
    def log_density(self) -> float:
        """Predictive log density of all left-out samples; the larger, the better the model
        predicts."""
        return float(sum(score.log_density for score in self.scores))

    @property
    def rms(self) -> dict[str, float]:
        """Root mean square prediction error of each channel over all left-out samples."""
        return _together(self.errors, "rms")

    def to_pandas(self) -> pd.DataFrame:
        """Table with a row per left-out part and channel."""
        import pandas as pd  # here: slow to import

        names = ("name", "channel", "samples", "rms", "fitted")
        rows = {name: [getattr(row, name) for row in self.errors] for name in names}
        return pd.DataFrame(rows).set_index(["name", "channel"])

    def rows(self) -> list[tuple[str, ...]]:
        """Rows of the table, as text."""
        return [
            (row.name, row.channel, f"{row.samples:g}", f"{row.rms:.4g}", f"{row.fitted:.4g}")
            for row in self.errors
        ]

    @property
    def _heading(self) -> str:
        fitted = _together(self.errors, "fitted")
        words = [f"{c}: rms {rms:.4g}, {fitted[c]:.4g} in the fit" for c, rms in self.rms.items()]
        density = f"log density {self.log_density:.6g}"
        return "; ".join([f"each {self.by} left out in turn", *words, density])

    def __str__(self) -> str:
        table = aligned([self.HEAD, *self.rows()], left=range(len(self.HEAD)))
        lines = [*table, *(f"note: {note}" for note in self.notes)]
        return "\n".join([self._heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        return f"<cross-validation: {self._heading}>"

    def _repr_html_(self) -> str:
        """Table for a notebook."""
        return html_table(self._heading, self.rows(), self.HEAD)

    def plot(self) -> Any:
        """Figure of the root mean squares of each channel, left out and in the fit."""
        channels = list(self.rms)
        figure, axes = subplots(
            len(channels),
            1,
            grid="y",
            figsize=(6.0, 2.4 * len(channels)),
            squeeze=False,
        )
        for axis, channel in zip(axes[:, 0], channels, strict=True):
            rows = [row for row in self.errors if row.channel == channel]
            places = np.arange(len(rows))
            axis.bar(places - 0.2, [row.rms for row in rows], 0.4, label="left out")
            axis.bar(places + 0.2, [row.fitted for row in rows], 0.4, label="in the fit")
            axis.set_xticks(places, [plain(row.name) for row in rows])
            axis.set_ylabel(plain(f"rms of {channel}"))
        axes[0, 0].legend()
        axes[-1, 0].set_xlabel(plain(self.by))
        return figure


def _together(rows: Sequence[Foretold], what: str) -> dict[str, float]:
    """Root mean square over all left-out parts, by channel; what : "rms" or "fitted"."""
    found = dict[str, float]()
    for channel in dict.fromkeys(row.channel for row in rows):
        mine = [row for row in rows if row.channel == channel]
        squares = sum(row.samples * getattr(row, what) ** 2 for row in mine)
        found[channel] = float(np.sqrt(squares / sum(row.samples for row in mine)))
    return found
