"""Influence of samples, trials and channels on the estimates of a fit: what decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import count
from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.inference import Inference, Pulls
from kinesym.runtime.results.left_out import (
    LeftOut,
    counted,
    groups_of,
    largest,
    left_out,
    most_changed,
    named,
    over_errors,
)
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.series import Series
from kinesym.runtime.results.trajectory import Values
from kinesym.runtime.statistics.deletion import Rows, cook_distances, deleted, log_densities
from kinesym.runtime.summary import listed

if TYPE_CHECKING:
    import pandas as pd

#: Change [standard errors] from which a sample or a group decides.
DECIDES = 1.0
#: Tail index of importance weights above which a prediction without the sample is a guess; see
#: `InfluenceMeasures.k`.
_HEAVY = 0.7
#: Time of a residual that counts as that of a sample, as a share of the span of its trial.
_SAME = 1e-9
#: Samples, and groups of a kind, that are listed in words.
_LISTED = 5
#: Channels with a panel of their own, the most influential ones.
_PANELS = 6
#: Samples that are ringed in figures.
_RINGED = 10
#: Groups and parameters of a figure, at most.
_CELLS = 40


@dataclass(frozen=True)
class InfluentialSample(Displayed):
    """A sample and what is different without it. time : [s]. index : its number among the nodes, or
    among the samples of its channel. residual : measured - modelled. change, in_errors : of each
    estimate if it is left out, in its unit and in standard errors."""

    channel: str
    trial: int
    index: int
    time: float
    residual: float
    leverage: float
    cook: float
    change: Mapping[str, float]
    in_errors: Mapping[str, float]

    def __str__(self) -> str:
        return (
            f"{self.name}: {most_changed(self.in_errors)}; residual {self.residual:.3g}, leverage "
            f"{self.leverage:.2g}, Cook's distance {self.cook:.2g}"
        )

    @property
    def name(self) -> str:
        """Name: channel, trial and time."""
        of = f" of trial {self.trial}" * bool(self.trial)
        return f"{self.channel}{of} at {self.time:.6g} s"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class InfluenceMeasures(Saved):
    """Influence measures of a fit: what is different without each sample, trial, channel and value
    of a label.

    names : of the parameters (r,); errors : their standard errors. channels : names. Of each of n
    samples: its channel, trial, index (see `InfluentialSample`), time [s], residual (measured -
    modelled), leverage, Cook's distance, the change (n, r) of all estimates if it is left out, and
    the log-density of what was measured as the others predict it, NaN where nothing is said. groups
    : trials, channels and labels, where there are several. notes : on what is not said.
    """

    model: str
    names: Sequence[str]
    errors: Annotated[Array, "parameter"]
    channels: Sequence[str]
    channel: Annotated[NDArray[np.intp], "sample"]
    trial: Annotated[NDArray[np.intp], "sample"]
    index: Annotated[NDArray[np.intp], "sample"]
    time: Annotated[Array, "sample"]
    residual: Annotated[Array, "sample"]
    leverage: Annotated[Array, "sample"]
    cook: Annotated[Array, "sample"]
    change: Annotated[Array, "sample", "parameter"]
    log_density: Annotated[Array, "sample"]
    groups: Sequence[LeftOut] = ()
    notes: Sequence[str] = field(default_factory=list)

    @property
    def in_errors(self) -> Array:
        """Changes (n, r) in standard errors; zero for what is at a bound."""
        return over_errors(self.change, self.errors)

    @property
    def order(self) -> NDArray[np.intp]:
        """Samples by Cook's distance, the largest first; those that decide something alone lead."""
        size = np.where(np.isnan(self.cook) & ~np.isnan(self.leverage), np.inf, self.cook)
        return np.argsort(-np.nan_to_num(size, nan=-1.0, posinf=np.inf), kind="stable")

    def most(self, n: int = 10) -> list[InfluentialSample]:
        """The n most influential samples, by Cook's distance."""
        first = self.order[: count(n, "n", least=0)]
        return [self._sample(int(k)) for k in first]

    def _sample(self, k: int) -> InfluentialSample:
        return InfluentialSample(
            self.channels[self.channel[k]],
            int(self.trial[k]),
            int(self.index[k]),
            float(self.time[k]),
            float(self.residual[k]),
            float(self.leverage[k]),
            float(self.cook[k]),
            Values(named(self.names, self.change[k])),
            Values(named(self.names, self.in_errors[k])),
        )

    @property
    def k(self) -> Array:
        """Tail index k (n,) of the Pareto distribution that importance weights 1/p(sample) of
        draws from the posterior have: the leverage, in a linear model whose standard deviations
        are known. Weights have no variance from 0.5 on (Peruggia 1997, Journal of the American
        Statistical Association 92, 199) and tell nothing above 0.7 (Vehtari, Gelman, Gabry 2017,
        Statistics and Computing 27, 1413). `log_density` needs no draws, but its linearisation is
        doubtful there, too."""
        return self.leverage

    @property
    def log_score(self) -> float:
        """Sum of `log_density` over all samples: how well each is predicted by the others; the
        larger, the better. NaN if one has none."""
        return float(self.log_density.sum())

    def to_pandas(self, of: str = "samples") -> pd.DataFrame:
        """Table with a row per sample, the most influential first, or with `of="groups"` per trial,
        channel and label: Cook's distance, and changes of all estimates in standard errors."""
        import pandas as pd  # here: slow to import

        if of == "groups":
            rows = [
                {"kind": g.kind, "left out": g.what, "samples": g.samples, "cook": g.cook}
                | dict(g.in_errors)
                for g in self.groups
            ]
            return pd.DataFrame(rows)
        if of != "samples":
            raise ValueError(f'of must be "samples" or "groups", got {of!r}')
        columns = {
            "channel": np.array(self.channels)[self.channel],
            **{n: getattr(self, n) for n in ("trial", "index", "time", "residual", "leverage")},
            **{n: getattr(self, n) for n in ("cook", "log_density")},
            **dict(zip(self.names, self.in_errors.T, strict=True)),
        }
        return pd.DataFrame(columns).iloc[self.order].reset_index(drop=True)

    # -- in words ------------------------------------------------------------------------------

    @property
    def sentences(self) -> list[str]:
        """Sentences on what decides: the most influential sample, and group of each kind."""
        first = self.most(1)
        if not first:
            return ["no sample tells the estimates"]
        off = largest(first[0].in_errors)
        if np.isnan(first[0].cook):
            said = f"{first[0].name} alone decides a parameter: nothing else tells it"
        elif off >= DECIDES:
            said = (
                f"one sample decides: without {first[0].name}, {most_changed(first[0].in_errors)}"
            )
        else:
            said = (
                f"no single one of {len(self.cook)} samples decides: the most influential is "
                f"{first[0].name}, without which {most_changed(first[0].in_errors)}"
            )
        return [said, *(s for kind in self._kinds for s in [self._strongest(kind)] if s)]

    @property
    def _kinds(self) -> list[str]:
        return list(dict.fromkeys(group.kind for group in self.groups))

    def _strongest(self, kind: str) -> str:
        """Sentence on the group of a kind that changes most."""
        told = [g for g in self.groups if g.kind == kind and not g.note]
        lost = [g for g in told if g.lost_of_others]
        if lost:
            return "; ".join(
                f"without {g.what}, {listed(g.lost)} would not be determined"
                for g in lost[:_LISTED]
            )
        known = [g for g in told if np.isfinite(g.cook)]
        if not known:
            return ""
        most = max(known, key=lambda g: largest(g.in_errors))
        return f"of the {len(known)} {kind}s, {most.what} decides most: without it, {most.verdict}"

    def __str__(self) -> str:
        what = f"{len(self.cook)} samples of {listed(self.channels)}"
        lines = [f"{self.model}: what decides, of {what}", *(f"  {s}" for s in self.sentences)]
        lines += [f"  {number + 1}. {each}" for number, each in enumerate(self.most(_LISTED))]
        if np.isfinite(self.log_score):
            heavy = int((self.k > _HEAVY).sum())
            doubt = f"; unless linear, to be doubted for {heavy} samples with k > {_HEAVY:g}"
            doubt *= bool(heavy)
            lines.append(
                f"  leave-one-out log score {self.log_score:.6g}, largest k "
                f"{np.nanmax(self.k):.2g}{doubt}"
            )
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<influence: {self.sentences[0]}>"

    # -- pictures ------------------------------------------------------------------------------

    def plot(self) -> Any:
        """Figure: Cook's distance of all samples over time, one panel per channel, the ten most
        influential ringed; below it how far each estimate moves without each group."""
        peak = [
            np.nanmax(self.cook[self.channel == c], initial=0.0) for c in range(len(self.channels))
        ]
        shown = sorted(np.argsort(-np.array(peak), kind="stable")[:_PANELS])
        groups = [g for g in self.groups if not g.note][:_CELLS]
        tall = 0.8 + 0.3 * len(groups) if groups else 0.0
        heights = [1.7] * len(shown) + [tall] * bool(groups)
        size = (8.0, sum(heights) + 0.6)
        figure, axes = subplots(
            len(heights), 1, grid="", figsize=size, squeeze=False, height_ratios=heights
        )
        top = 1.08 * max(peak, default=1.0) or 1.0
        ringed = self.order[:_RINGED]
        for axis, c in zip(axes[:, 0], shown, strict=False):
            self._over_time(axis, int(c), ringed)
            axis.set_ylim(0.0, top)
            axis.sharex(axes[0, 0])
            axis.tick_params(labelbottom=bool(c == shown[-1]))
        axes[len(shown) - 1, 0].set_xlabel("time [s]")
        axes[0, 0].set_title("Cook's distance of each sample", loc="left", fontsize="medium")
        if groups:
            self._of_groups(figure, axes[-1, 0], groups)
        return figure

    def _over_time(self, axis: Any, channel: int, ringed: NDArray[np.intp]) -> None:
        """Cook's distances of a channel, trials in colours."""
        mine = self.channel == channel
        trials = np.unique(self.trial[mine])
        for k in trials:
            here = mine & (self.trial == k)
            axis.vlines(self.time[here], 0.0, self.cook[here], color=f"C{k % 10}", lw=0.8)
            label = f"trial {k}" if 1 < len(trials) <= 10 else None
            axis.plot(
                self.time[here], self.cook[here], ".", ms=2.5, color=f"C{k % 10}", label=label
            )
        some = ringed[self.channel[ringed] == channel]
        axis.plot(self.time[some], self.cook[some], "o", ms=8, mfc="none", mec="C3")
        axis.set_ylabel(plain(self.channels[channel]))
        axis.grid(alpha=0.3)
        if 1 < len(trials) <= 10:
            axis.legend(fontsize="x-small", ncols=5, loc="upper left")

    def _of_groups(self, figure: Any, axis: Any, groups: Sequence[LeftOut]) -> None:
        """Changes of estimates without each group, as coloured cells."""
        names = list(self.names)[:_CELLS]
        cells = np.array([[g.in_errors[n] for n in names] for g in groups])
        most = max(float(np.nanmax(np.abs(cells), initial=0.0)), DECIDES)
        image = axis.imshow(cells, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        axis.set_yticks(range(len(groups)), [plain(g.what) for g in groups])
        axis.set_xticks(range(len(names)), [plain(n) for n in names], rotation=30, ha="right")
        for (a, b), value in np.ndenumerate(cells):
            words = "lost" if names[b] in groups[a].lost else f"{value:+.1f}"
            colour = "white" if abs(value) > 0.6 * most else "black"
            if cells.size <= 400 and (np.isfinite(value) or words == "lost"):
                axis.text(b, a, words, ha="center", va="center", color=colour, fontsize=8)
        title = "Change of each estimate without a group [standard errors]"
        axis.set_title(title, loc="left", fontsize="medium")
        figure.colorbar(image, ax=axis)


def influence(
    of: Inference,
    about: Uncertainty,
    values: Mapping[str, float],
    series: Sequence[Series],
    labels: Sequence[str],
    model: str,
) -> InfluenceMeasures:
    """Influence of all samples and groups on the estimates. labels : of each trial, in words."""
    names, r = list(values), len(values)
    pulls = of.pulls().of_first(r)
    covariance = about.covariance[:r, :r]
    errors = about.deviations()[:r]
    rows = _rows(pulls, series)
    root = np.sqrt(pulls.samples.share) * (pulls.samples.counts > 0.0)
    found = deleted(rows, pulls.residual, pulls.bends, pulls.pull, root, pulls.hat)
    there = np.isfinite(found.leverage)
    change = np.where(np.isnan(errors), np.nan, np.where(errors == 0.0, 0.0, found.change))
    std = np.concatenate([s.std for s in series])
    noise = (pulls.variance, pulls.freedom, pulls.loss)
    density = log_densities(found.residual, found.spread, *noise) - np.log(std)
    scored = np.isin(np.arange(rows.samples), rows.sample[pulls.scored[rows.row]])
    density[scored] = np.nan
    channels = list(dict.fromkeys(s.channel for s in series))
    each = [np.full(len(s.time), channels.index(s.channel)) for s in series]
    groups, notes = groups_of(series, labels)
    if (~there).any():
        notes.append(f"no weight in this scheme: {counted(int((~there).sum()), 'sample')}")
    if scored.any():
        notes.append(
            "no log-density of samples that are censored, or have a std that is an expression"
        )
    columns = {
        "channel": np.concatenate(each),
        "trial": np.concatenate([np.full(len(s.time), s.trial) for s in series]),
        "index": np.concatenate([s.index for s in series]),
        "time": np.concatenate([s.time for s in series]),
        "residual": np.concatenate([s.residuals for s in series]),
        "leverage": found.leverage,
        "cook": cook_distances(change, covariance),
        "change": change,
        "log_density": density,
    }
    return InfluenceMeasures(
        model=model,
        names=names,
        errors=errors,
        channels=channels,
        **{name: column[there] for name, column in columns.items()},
        groups=[left_out(of, about, values, series, group) for group in groups],
        notes=notes,
    )


def _rows(pulls: Pulls, series: Sequence[Series]) -> Rows:
    """The residuals of each sample; means of neighbours are residuals of both, and two belong to a
    sample whose standard deviation is an expression."""
    samples, found, begin = pulls.samples, [], 0
    for s in series:
        channel = samples.channels.index(s.channel) if s.channel in samples.channels else -2
        here = np.flatnonzero((samples.trial == s.trial) & (samples.channel == channel))
        here = here[np.isfinite(samples.time[here])]
        times, n = samples.time[here], len(s.time)
        log = pulls.bends.partner[here]
        if len(here) == n and (not s.at_nodes or (log >= 0).any()):
            order = np.argsort(times, kind="stable")
            for each in (here, log)[: 1 + bool((log >= 0).all())]:
                found.append((begin + np.arange(n), each[order], np.ones(n), np.zeros(n)))
        elif (log >= 0).any():
            raise ValueError(
                f"there are no influence measures of {s.channel}, whose std is an expression, by a "
                'scheme that compares means of its samples with the model; use scheme="radau-3"'
            )
        elif len(here):
            after = np.clip(np.searchsorted(s.time, times), 0, n - 1)
            before = np.clip(after - 1, 0, n - 1)
            gap = s.time[after] - s.time[before]
            share = np.where(
                gap > 0.0, (times - s.time[before]) / np.where(gap > 0.0, gap, 1.0), 1.0
            )
            near = _SAME * max(float(np.ptp(s.time)), np.abs(s.time).max())
            share[np.abs(times - s.time[after]) <= near] = 1.0
            share[np.abs(times - s.time[before]) <= near] = 0.0
            off = _interpolated(s) - s.measured
            for place, part in ((before, 1.0 - share), (after, share)):
                used = part > 0.0
                moved = -part * off[place] * np.sqrt(samples.weight[here])
                found.append((begin + place[used], here[used], part[used], moved[used]))
        begin += n
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    sample, row = (column.astype(np.intp) for column in columns[:2])
    return Rows(sample, row, columns[2], columns[3], begin)


def _interpolated(s: Series) -> Array:
    """Samples (K,) from lines between their neighbours, as if each was missing; at the ends that of
    the neighbour."""
    t, y = s.time, s.measured
    if len(t) < 2:
        return y
    width = t[2:] - t[:-2]
    after = np.divide(t[1:-1] - t[:-2], width, out=np.ones(len(width)), where=width > 0.0)
    return np.concatenate([y[1:2], (1.0 - after) * y[:-2] + after * y[2:], y[-2:-1]])
