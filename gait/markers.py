"""Markers of a motion capture system: positions over time, gaps, smoothing.

World axes everywhere: x forwards, y to the left, z up; readers turn those of a laboratory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base import checks
from kinesym.base.checks import Renamed, check_text, finite, suggest
from kinesym.base.notebook import Displayed
from kinesym.gait.axes import ASKEW, Laboratory, about_vertical, askew, sides_agree
from kinesym.gait.checks import warn
from kinesym.gait.frames import DataFrame, by_time
from kinesym.gait.gaps import by_clusters, by_splines, runs
from kinesym.gait.smoothing import Smoother, smoother_of
from kinesym.gait.tables import uniform, write_trc
from kinesym.runtime.arrays import AXES, Array, real_array
from kinesym.runtime.results.plot import subplots

LABELS = ("x forwards", "y left", "z up")
#: Coordinates beyond this are no metres [m].
FARTHEST = 50.0
#: Markers of a static trial move by less [m rms].
STILL = 0.02


@dataclass(frozen=True)
class Gap:
    """Missing samples of a marker, from the first at `begin` to the last at `end` [s]."""

    marker: str
    begin: float
    end: float
    samples: int

    def __str__(self) -> str:
        what = "sample" if self.samples == 1 else "samples"
        when = f"{self.begin:.2f} s" if self.samples == 1 else f"{self.begin:.2f}-{self.end:.2f} s"
        return f"marker {self.marker!r}: {self.samples} {what} missing at {when}"


@dataclass(frozen=True, eq=False, repr=False)
class Markers(Displayed, Renamed, renamed={"places": "positions"}):
    """Positions of markers over time.

    time : (N,) uniform instants [s]; the rounding of a file is taken out of them. One is enough for
        a posture, see `mean`.
    positions : by name of the marker (3, N) in world axes x, y, z [m], NaN where missing; a sample
        with one coordinate missing is missing.
    laboratory : axes and unit of the file they come from, if they do; `note` says them.

    `markers["R.Heel"]` is one of them. Raises `ValueError` for shapes, time that is not uniform,
    infinite values, and coordinates that look like millimetres.
    """

    time: Array
    positions: Mapping[str, Array]
    laboratory: Laboratory | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", uniform(self.time))
        if not checks.mapping(self.positions, "positions"):
            raise ValueError("there are no markers; give at least one as name: (3, N) [m]")
        positions = {name: self._checked(name, rows) for name, rows in self.positions.items()}
        object.__setattr__(self, "positions", checks.Named("marker", positions))
        check_size(positions.values())

    def _checked(self, name: str, position: ArrayLike) -> Array:
        check_text(name, "the name of a marker")
        rows = real_array(position, f"marker {name!r}", missing=True)
        if rows.shape != (3, len(self.time)):
            raise ValueError(
                f"marker {name!r} must be (3, {len(self.time)}), rows x, y, z, got {rows.shape}"
            )
        if np.isinf(rows).any():
            k = int(np.argmax(np.isinf(rows).any(axis=0)))
            raise ValueError(
                f"marker {name!r} is infinite at {self.time[k]:.6g} s; NaN marks a missing sample"
            )
        rows[:, np.isnan(rows).any(axis=0)] = np.nan
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the markers."""
        return tuple(self.positions)

    @property
    def rate(self) -> float:
        """Samples per second [Hz]; NaN of a single one."""
        if len(self.time) == 1:
            return float("nan")
        return float((len(self.time) - 1) / (self.time[-1] - self.time[0]))

    @property
    def note(self) -> str:
        """Note on axes and unit of the file and how they were found; whether the person looks
        elsewhere than forward, and whether markers of one side are on the other."""
        if self.laboratory is None:
            return ""
        said, angle = [self.laboratory.note], askew(self.positions)
        if abs(angle) > ASKEW:
            side, degrees = "left" if angle > 0.0 else "right", abs(np.degrees(angle))
            said.append(
                f"looks {degrees:.0f} degrees to the {side}, turned({-angle:.2f}) makes it forwards"
            )
        if not sides_agree(self.positions):
            said.append(
                "markers called right are to the left: names are exchanged, or axes left-handed"
            )
        return "; ".join(said)

    def __getitem__(self, name: str) -> Array:
        """Positions (3, N) of a marker [m]; `KeyError` suggests a name for an unknown one."""
        self._check_names([name])
        return self.positions[name]

    def __len__(self) -> int:
        """Number of samples N."""
        return len(self.time)

    def __contains__(self, name: object) -> bool:
        return name in self.positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.positions)

    def __repr__(self) -> str:
        many, begin = len(self), f"t = {self.time[0]:g}"
        span = f"{begin} ... {self.time[-1]:g} s at {self.rate:g} Hz" if many > 1 else f"{begin} s"
        samples, gaps = f"{many} sample{'s' * (many > 1)}", len(self.gaps())
        said = f"; in the file {self.note}" if self.note else ""
        return f"<{len(self.positions)} markers, {samples}, {span}, {gaps} gaps{said}>"

    # -- other markers made of them -------------------------------------------------------------

    def between(self, begin: float, end: float) -> Markers:
        """The part with begin <= t <= end [s]; raises `ValueError` if that is no two samples."""
        here = self._within(begin, end)
        if here.sum() < 2:
            raise ValueError(
                f"fewer than two samples are between {begin:g} and {end:g} s; the "
                f"markers cover {self.time[0]:g} ... {self.time[-1]:g} s"
            )
        part = {name: x[:, here] for name, x in self.positions.items()}
        return replace(self, time=self.time[here], positions=part)

    def without(self, *names: str) -> Markers:
        """Markers without these; raises `KeyError` for an unknown name."""
        self._check_names(names)
        kept = {name: position for name, position in self.positions.items() if name not in names}
        return replace(self, positions=kept)

    def renamed(self, mapping: Mapping[str, str]) -> Markers:
        """Rename markers by a mapping of old names to new, all at once, so that two may change
        places.

        Raises `KeyError` for an unknown name, `ValueError` if two markers get the same one.
        """
        self._check_names(checks.mapping(mapping, "new names"))
        positions: dict[str, Array] = {}
        for name, position in self.positions.items():
            new = mapping.get(name, name)
            if new in positions:
                raise ValueError(f"two markers would be called {new!r}; rename or leave out one")
            positions[new] = position
        return replace(self, positions=positions)

    def exchanged(self, first: str = "R.", second: str = "L.") -> Markers:
        """Exchange two prefixes of names, for instance if right and left were confused.

        Raises `ValueError` if no name begins with either.
        """
        for beginning in (first, second):
            check_text(beginning, "the beginning of names")
        mapping = {
            name: new + name.removeprefix(old)
            for old, new in ((first, second), (second, first))
            for name in self.positions
            if name.startswith(old)
        }
        if not mapping:
            raise ValueError(
                f"no marker begins with {first!r} or {second!r}; there are {', '.join(self.names)}"
            )
        return self.renamed(mapping)

    def turned(self, angle: float) -> Markers:
        """Turned about the vertical through the origin, to the left [rad].

        Forces of the same trial are turned alike by `Wrench.turned`.
        """
        turn = about_vertical(angle)
        return replace(self, positions={name: turn @ x for name, x in self.positions.items()})

    # -- gaps and noise -------------------------------------------------------------------------

    def gaps(self) -> tuple[Gap, ...]:
        """Gaps: runs of missing samples, by marker and time."""
        found = []
        for name, position in self.positions.items():
            for gap in runs(np.isnan(position[0])):
                begin, end = self.time[gap.start], self.time[gap.stop - 1]
                found.append(Gap(name, float(begin), float(end), gap.stop - gap.start))
        return tuple(found)

    def filled(self, longest: float, clusters: Iterable[Sequence[str]] = ()) -> Markers:
        """Fill gaps: by the rest of a cluster, and else by a cubic spline through what was
        measured.

        longest : duration of gaps that splines close, missing samples over rate [s]. Cut out of the
            heel of two walks, 0.1 s came back within 2 mm in the median and 10 mm at worst, 0.2 s
            within 12 and 48 mm.
        clusters : names of markers of one rigid body each. A gap of one of them is closed, however
            long, where three others were seen all through it, or two, less exactly: of 0.6 s cut
            out of clusters of three it came back within 14 mm in the median, 5 cm mostly.

        Warns of longer gaps, and of those at either end, as splines do not extrapolate: these stay.
        """
        clusters = list(clusters)
        found = closed(self, longest, clusters)
        stays, remedies = why_open(self, found, longest, clusters)
        if stays:
            names = ", ".join(repr(name) for name in dict.fromkeys(g.marker for g in found.gaps()))
            warn(f"{stays}; try {', or '.join([*remedies, f'without({names})'])}")
        return found

    def cut(self, name: str, begin: float, end: float) -> Markers:
        """Cut a marker out at begin <= t <= end [s], as missing, for instance because it fell off.

        Raises `KeyError` for an unknown name, `ValueError` if no sample is there.
        """
        position, here = self[name].copy(), self._within(begin, end)
        if not here.any():
            raise ValueError(
                f"no sample is between {begin:g} and {end:g} s; the markers cover "
                f"{self.time[0]:g} ... {self.time[-1]:g} s"
            )
        position[:, here] = np.nan
        return replace(self, positions={**self.positions, name: position})

    def _within(self, begin: float, end: float) -> NDArray[np.bool_]:
        begin, end = finite(begin, "begin"), finite(end, "end")
        slack = 1e-9 * (1.0 + abs(begin) + abs(end))  # rounding of grids
        return np.asarray((self.time >= begin - slack) & (self.time <= end + slack))

    def smoothed(self, smooth: float | Smoother) -> Markers:
        """Smooth every coordinate on its own.

        smooth : the cutoff of a `Butterworth` [Hz], or a function of series (3, N) and their rate
            [Hz], such as `GCVSpline()`; its method `marker(name)`, if it has one, gives the law of
            one marker.

        Raises `ValueError` if samples are missing.
        """
        smooth = smoother_of(smooth)
        self._check_names(getattr(smooth, "markers", ()))
        gaps = self.gaps()
        if gaps:
            more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
            raise ValueError(f"{gaps[0]}{more}; fill or exclude")
        law = getattr(smooth, "marker", lambda name: smooth)
        positions = {n: np.asarray(law(n)(x, self.rate)) for n, x in self.positions.items()}
        return replace(self, positions=positions)

    # -- other things made of them ----------------------------------------------------------------

    def mean(self) -> dict[str, Array]:
        """The mean position (3,) of every marker over the samples that are not missing [m], as of a
        static trial; markers that are missing throughout are left out.

        Warns of markers that move by more than 2 cm rms, since then the trial is not static.
        """
        seen = {name: x[:, ~np.isnan(x[0])] for name, x in self.positions.items()}
        means = {name: x.mean(axis=1) for name, x in seen.items() if x.size}
        found = checks.Named("marker", means)
        moves = {name: float(np.sqrt(seen[name].var(axis=1).sum())) for name in found}
        worst = max(moves, key=moves.__getitem__, default="")
        if worst and moves[worst] > STILL:
            warn(
                f"marker {worst!r} moves by {1e2 * moves[worst]:.1f} cm rms: this is no static "
                "trial; between() takes a part of it",
            )
        return found

    def to_trc(self, path: str | Path, unit: str = "mm", up: str = "y", forward: str = "x") -> None:
        """Write a TRC file in all digits, as OpenSim reads it; `read_trc` reads it again.

        unit : "m", "cm" or "mm". up, forward : axes of the file. Missing samples are empty cells.
        """
        write_trc(path, self.time, self.positions, self.rate, unit, up, forward)

    def to_pandas(self) -> DataFrame:
        """Positions by marker and axis, such as ("R.Heel", "x") [m], over time [s]."""
        pairs = [(name, axis) for name in self.positions for axis in AXES]
        columns = dict(zip(pairs, np.vstack(list(self.positions.values())), strict=True))
        return by_time(self.time, columns).rename_axis(columns=["marker", "axis"])

    def plot(self, names: Sequence[str] | None = None, before: Markers | None = None) -> Any:
        """A figure with x, y, z over time, one line per marker.

        names : of the markers to draw; default all. before : the same markers at an earlier stage,
            drawn in grey below, such as before smoothing.

        Raises `KeyError` for an unknown name.
        """
        shown = self.names if names is None else checks.listed(names, "names")
        self._check_names(shown)
        figure, axes = subplots(3, 1, sharex=True, figsize=(7.0, 5.6))
        for k, panel in enumerate(axes):
            for name in shown:
                if before is not None:
                    panel.plot(before.time, before[name][k], lw=2.0, color="0.7")
                panel.plot(self.time, self.positions[name][k], lw=1.0, label=name)
            panel.set_ylabel(f"{LABELS[k]} [m]")
        if len(shown) <= 10:
            axes[0].legend(loc="best", ncols=2, fontsize="small")
        figure.supxlabel("time [s]")
        return figure

    def _check_names(self, names: Sequence[str] | Mapping[str, str]) -> None:
        for name in names:
            if name not in list(self.positions):
                raise KeyError(f"there is no marker {name!r}; {suggest(name, self.positions)}")


def closed(markers: Markers, longest: float, clusters: Iterable[Sequence[str]] = ()) -> Markers:
    """Fill gaps as `Markers.filled`, without a warning of those that stay."""
    if not isinstance(longest, Real) or not longest >= 0.0:
        raise ValueError(f"longest must be a duration [s], got {longest!r}")
    carried = by_clusters(markers.positions, clusters)
    rate = markers.rate if len(markers) > 1 else 0.0  # a posture has no neighbours to fill from
    count = int(longest * rate * (1.0 + 1e-9))
    filled = {name: by_splines(markers.time, x, count) for name, x in carried.items()}
    return replace(markers, positions=filled)


def why_open(
    before: Markers, after: Markers, longest: float, clusters: Iterable[Sequence[str]] = ()
) -> tuple[str, list[str]]:
    """Gaps that `closed` has left in markers and why ("" if none), and remedies that close or avoid
    them."""
    left = after.gaps()
    if not left:
        return "", []
    ends = {float(after.time[0]), float(after.time[-1])}
    edge = [gap for gap in left if ends & {gap.begin, gap.end}]
    worst, clusters = max(edge or left, key=lambda gap: gap.samples), list(clusters)
    remedies = list[str]()
    if worst.samples == len(after):
        why = "throughout"
    elif edge:
        why = "at an end"
    else:
        why = f"longer than {longest:g} s"
        remedies = [f"filled(longest={np.ceil(1e3 * worst.samples / after.rate) / 1e3:g})"]
    more = f" (and {len(left) - 1} more gaps)" if len(left) > 1 else ""
    for record in (after, before):
        span = _longest_whole(record)
        if span and not closed(before.between(*span), longest, clusters).gaps():
            remedies.append(f"between({span[0]:.6g}, {span[1]:.6g})")
            break
    return f"{worst}, {why}, stays{more}", remedies


def _longest_whole(markers: Markers) -> tuple[float, float] | None:
    """Ends of the longest stretch in which no marker is missing; nothing if it is shorter than half
    a second."""
    missing = np.any([np.isnan(x[0]) for x in markers.positions.values()], axis=0)
    time = [markers.time[run] for run in runs(~missing)]
    span = max(time, key=len, default=markers.time[:1])
    return (float(span[0]), float(span[-1])) if span[-1] - span[0] > 0.5 else None


def check_size(positions: Iterable[Array], least: float = 0.0) -> None:
    """Raise `ValueError` for coordinates that look like millimetres, and where the largest is below
    `least` [m], as if they were scaled twice."""
    largest = max(float(np.nanmax(np.abs(rows), initial=0.0)) for rows in positions)
    if largest > FARTHEST:
        raise ValueError(
            f"marker coordinates look like millimetres (max {largest:.4g}); set unit='mm', or "
            "unit='cm'"
        )
    if 0.0 < largest < least:
        raise ValueError(
            f"no marker coordinate is beyond {largest:.2g} m, as if metres were taken for "
            "millimetres; set unit='m'"
        )
