"""How well what is left out of a fit is foretold by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinesym.base.notebook import html_table
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Score:
    """log of the density of the samples that were left out, by what was learnt from the others."""

    name: str
    samples: float
    log_density: float


@dataclass(frozen=True)
class Foretold:
    """The root mean square of the residuals of a channel that was left out, in its unit, and that
    in the fit of all data."""

    name: str
    channel: str
    samples: float
    rms: float
    fitted: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CrossValidation(Saved):
    """Fits without some of the trials each, and how they foretell these; see `cross_validate`.

    by : the label whose values were left out one by one, "trial" for single trials. errors : by
    what was left out and channel. scores : by what was left out. refitted, predicted : parameters
    of what was left out that were fitted to its samples, or put at the means of their
    distributions. notes : sentences on what was not foretold.
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
        """Of all that was left out; the larger, the better a model foretells."""
        return float(sum(score.log_density for score in self.scores))

    @property
    def rms(self) -> dict[str, float]:
        """Of each channel over all that was left out."""
        return _together(self.errors, "rms")

    def to_pandas(self) -> pd.DataFrame:
        """A row per channel of what was left out."""
        import pandas as pd  # here: slow to import

        names = ("name", "channel", "samples", "rms", "fitted")
        rows = {name: [getattr(row, name) for row in self.errors] for name in names}
        return pd.DataFrame(rows).set_index(["name", "channel"])

    def rows(self) -> list[tuple[str, ...]]:
        """The table, as text."""
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
        table = [self.HEAD, *self.rows()]
        widths = [max(len(row[k]) for row in table) for k in range(len(self.HEAD))]
        lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([self._heading, *lines, *(f"  note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<cross-validation: {self._heading}>"

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        return html_table(self._heading, self.rows(), self.HEAD)

    def plot(self) -> Any:
        """A figure of the root mean squares of each channel, left out and in the fit."""
        channels = list(self.rms)
        figure, axes = subplots(
            len(channels),
            1,
            figsize=(6.0, 2.4 * len(channels)),
            squeeze=False,
            layout="constrained",
        )
        for axis, channel in zip(axes[:, 0], channels, strict=True):
            rows = [row for row in self.errors if row.channel == channel]
            places = np.arange(len(rows))
            axis.bar(places - 0.2, [row.rms for row in rows], 0.4, label="left out")
            axis.bar(places + 0.2, [row.fitted for row in rows], 0.4, label="in the fit")
            axis.set_xticks(places, [plain(row.name) for row in rows])
            axis.set_ylabel(plain(f"rms of {channel}"))
            axis.grid(axis="y", alpha=0.3)
        axes[0, 0].legend()
        axes[-1, 0].set_xlabel(plain(self.by))
        return figure


def _together(rows: Sequence[Foretold], what: str) -> dict[str, float]:
    """The root mean square over what was left out, by channel."""
    found = dict[str, float]()
    for channel in dict.fromkeys(row.channel for row in rows):
        mine = [row for row in rows if row.channel == channel]
        squares = sum(row.samples * getattr(row, what) ** 2 for row in mine)
        found[channel] = float(np.sqrt(squares / sum(row.samples for row in mine)))
    return found
