"""Findings of checks of recorded data: a table, a picture, and sentences for warnings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.base import quiet
from kinesym.base.notebook import Displayed
from kinesym.gait.frames import DataFrame
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import subplots

#: Names of series of one panel that a picture tells apart; the others are grey.
COLOURED = 6


@dataclass(frozen=True)
class Finding:
    """Finding of a check: the worst of one quantity, and whether it can be right.

    kind : of the check. names : markers, segments, plates or feet concerned. begin, end, worst :
    first and last instant concerned, and that of the largest value [s]. size, limit : measured and
    allowed, in `unit`. says : fault and remedy; empty if there is none. mended : whether it was put
    right.
    """

    kind: str
    names: tuple[str, ...]
    begin: float
    end: float
    worst: float
    size: float
    limit: float
    unit: str
    says: str = ""
    mended: bool = False

    @property
    def verdict(self) -> str:
        """Verdict in one word: ok, wrong or mended."""
        return "mended" if self.mended else "wrong" if self.says else "ok"

    def __str__(self) -> str:
        return self.says or f"{self.kind}: {self.size:.3g} {self.unit} of {self.limit:g}"


@dataclass(frozen=True, eq=False)
class Panel:
    """Series over time of some checks: by name (N,), and the limit of all of them, if there is.
    kinds : of findings that are shaded in it."""

    title: str
    time: Array
    rows: Mapping[str, Array]
    limit: float | None = None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Check(Displayed):
    """Result of `Reconstruction.check`: whether data can be right.

    findings : in order of the checks; for each the faults, or else the worst that was seen.
    panels : the series behind them.
    """

    findings: tuple[Finding, ...]
    panels: tuple[Panel, ...] = ()

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Findings that cannot be right and were not mended."""
        return tuple(one for one in self.findings if one.verdict == "wrong")

    def __bool__(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def __str__(self) -> str:
        count = len(self.wrong)
        title = (
            f"{count} of {len(self.findings)} findings cannot be right"
            if count
            else (f"nothing wrong in {len(self.findings)} findings")
        )
        lines = [
            f"{one.verdict:8}{one.kind:24}{f'{one.size:.3g} {one.unit}':>12}  "
            f"limit {f'{one.limit:g}':6}  at {one.worst:7.3f} s  {', '.join(one.names)}"
            for one in self.findings
        ]
        return "\n".join([title, *lines])

    def __repr__(self) -> str:
        return f"<check of data: {len(self.findings)} findings, {len(self.wrong)} wrong>"

    def to_pandas(self) -> DataFrame:
        """A row per finding; needs the package pandas."""
        import pandas

        rows = [
            (one.verdict, one.kind, ", ".join(one.names), one.begin, one.end, one.worst)
            + (one.size, one.limit, one.unit, one.says)
            for one in self.findings
        ]
        names = "verdict kind names begin_s end_s worst_s size limit unit says"
        return pandas.DataFrame(rows, columns=names.split())

    def plot(self) -> Any:
        """Figure of every series that was checked, over time: limits dashed, values beyond them in
        colour, the instants of faults shaded."""
        count = max(len(self.panels), 1)
        figure, axes = subplots(count, 1, sharex=True, squeeze=False, figsize=(9.0, 2.3 * count))
        for axis, panel in zip(axes[:, 0], self.panels, strict=False):
            _draw(axis, panel)
            for one in self.wrong:
                if one.kind in panel.kinds and one.end - one.begin < 0.9 * np.ptp(panel.time):
                    axis.axvspan(one.begin, one.end, color="C3", alpha=0.15, lw=0)
        figure.supxlabel("time [s]")
        return figure


def _draw(axis: Any, panel: Panel) -> None:
    """The largest series in colour, the others in grey."""
    size = {name: float(np.nanmax(np.abs(row), initial=0.0)) for name, row in panel.rows.items()}
    shown = sorted(size, key=lambda name: -size[name])
    if panel.limit is not None and len(shown) > COLOURED:
        shown = [name for name in shown if size[name] > panel.limit] or shown[:1]
    for name, row in panel.rows.items():
        if name not in shown[:COLOURED]:
            axis.plot(panel.time, row, color="0.75", lw=0.7)
    for k, name in enumerate(shown[:COLOURED]):
        axis.plot(panel.time, panel.rows[name], color=f"C{k}", lw=1.2, label=name)
    if panel.limit is not None:
        axis.axhline(panel.limit, color="k", lw=0.8, ls="--")
    axis.set_ylabel(panel.title)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def warn(message: str) -> None:
    """Warn at the line that called into `kinesym.gait`, however deep this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("kinesym.gait."):
        level, frame = level + 1, frame.f_back
    quiet.warn(message, stacklevel=level)


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn once for each kind of fault, by its worst finding."""
    kinds: dict[str, list[Finding]] = {}
    for one in findings:
        if one.says:
            kinds.setdefault(one.kind, []).append(one)
    for found in kinds.values():
        worst = max(found, key=lambda one: (not one.mended, one.size / one.limit))
        more = f"; {len(found) - 1} more of the kind" if len(found) > 1 else ""
        warn(f"{worst.says}{more}")


def judged(
    kind: str,
    time: Array,
    rows: Mapping[str, Array],
    limits: float | Mapping[str, float],
    unit: str,
    say: Callable[[Finding], str],
) -> list[Finding]:
    """A finding for each series (N,) that is beyond its limit somewhere, largest first; if there is
    none, that of the largest, which says nothing."""
    found = []
    for name, row in rows.items():
        size = np.nan_to_num(np.abs(row))
        limit = limits[name] if isinstance(limits, Mapping) else limits
        worst, over = int(size.argmax()), np.flatnonzero(size > limit)
        ends = (over[0], over[-1]) if len(over) else (worst, worst)
        begin, end, at = (float(time[k]) for k in (*ends, worst))
        one = Finding(kind, (name,), begin, end, at, float(size[worst]), limit, unit)
        found.append(replace(one, says=say(one)) if len(over) else one)
    found.sort(key=lambda one: -one.size)
    return [one for one in found if one.says] or found[:1]
