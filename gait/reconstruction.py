"""Reconstruction of a motion from markers, with a report and figures of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import (
    Named,
    Renamed,
    check_choice,
    check_kind,
    check_known,
    listed_of,
    mapping,
)
from kinesym.base.notebook import Displayed
from kinesym.gait.check_markers import check_markers
from kinesym.gait.check_segments import check_lengths, check_segments
from kinesym.gait.checks import Check, warn, warn_of
from kinesym.gait.cutoffs import Residuals, low_pass_of, residual_analysis
from kinesym.gait.kinematics import Spline, check_angles
from kinesym.gait.markers import FARTHEST, Markers, closed, why_open
from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.plates import check_feet
from kinesym.gait.relations import (
    Landmarks,
    Relations,
    Trial,
    clusters_in,
    landmarks,
    names_in,
    names_seen,
)
from kinesym.gait.segment_fit import (
    Fitted,
    fit,
    landmark_targets,
    segments_from_landmarks,
    start_of,
)
from kinesym.gait.smoothing import Butterworth, Smoother, noise_of, smoother_of
from kinesym.gait.tables import check_seconds
from kinesym.gait.wrench import Wrench
from kinesym.runtime.arrays import Array, real_array, rms
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.summary import samples
from kinesym.symbolic.multibody.segments import Segment, owners

#: Longest gap of a marker that splines close [s].
BRIDGED = 0.1
#: Noise of markers below which there is no warning [m].
QUIET = 2e-4
#: Largest share of the noise that may remain after smoothing [-].
STAYS = 0.15
#: Mean rotation of a segment against the pelvis above which there is a warning [rad].
REVERSED = np.radians(120.0)


@dataclass(frozen=True, eq=False)
class Reconstruction(Displayed, Renamed, renamed={"course": "kinematics"}):
    """A measured motion as rigid segments, and how it was found.

    segments : with measured points. markers, smoothed : before and after smoothing. fitted :
    coordinates of the nearest rigid segments, and residual distances. kinematics : splines through
    these coordinates. smooth : the law that smoothed the markers. seen : findings of the checks of
    markers; see `check`.
    """

    segments: tuple[Segment, ...]
    markers: Markers
    smoothed: Markers
    fitted: Fitted
    kinematics: Spline
    smooth: Smoother
    seen: Check = field(default_factory=lambda: Check(()))

    def __repr__(self) -> str:
        return f"<motion of {len(self.segments)} segments: {samples(self.markers.time)}>"

    def report(self) -> str:
        """Report: the changes that each step made, as text."""
        moved = [self.smoothed[name] - self.markers[name] for name in self.markers.names]
        here = slice(self.kinematics.trim, -self.kinematics.trim)
        off = self.kinematics.sample(self.markers.time[here]).z - self.fitted.z[:, here]
        size = 1e3 * np.sqrt(np.mean(self.fitted.distances**2, axis=1))
        worst = [k for k in np.argsort(-size) if self.fitted.is_point[k]][:3]
        named = ", ".join(f"{self.fitted.targets[k]} {size[k]:.1f}" for k in worst)
        measured = self.fitted.targets
        kept = [p for row in self.segments for p in row.points if p not in measured]
        return "\n".join(
            [
                f"noise of markers          {1e3 * noise(self.markers):8.2f} mm, "
                f"{1e3 * noise(self.smoothed):.2f} after smoothing",
                f"smoothing of markers      {1e3 * rms(moved):8.2f} mm, by {self.smooth}",
                f"rigid segments            {1e3 * rms(self.fitted.rms):8.2f} mm, up to "
                f"{1e3 * self.fitted.rms.max():.1f}; most at {named}",
                f"smoothing of coordinates  {1e3 * rms(off[:3]):8.2f} mm, "
                f"{np.degrees(rms(off[3:])):.3f} deg",
                f"points from the table     {', '.join(kept) or 'none'}",
            ]
        )

    def check(
        self,
        plates: Mapping[str, Wrench] | None = None,
        shared: Mapping[str, Wrench] | None = None,
    ) -> Check:
        """Whether markers, and plates with them, can be right: a table and a picture.

        plates : measured wrenches by foot, such as `assign_plates` gives. shared : wrenches by foot
        that `share` made of it, `shared.wrenches`.

        Of markers: exchanged ones, jumps, those off their segment, clusters against the standing
        trial, sides exchanged throughout, segments that turn too fast, hang upside down or do not
        have the lengths of the table. Of
        plates: offsets, times, mass, the foot that stands on them. Raises `ValueError` for plates
        of unknown feet.
        """
        found = self.seen
        if plates is None and shared is None:
            return found
        more = check_feet(self.segments, self.kinematics, plates or {}, shared or {})
        return Check(found.findings + more.findings, found.panels + more.panels)

    def alike(self, plates: Mapping[str, Wrench]) -> dict[str, Wrench]:
        """Plates after the low-pass that smoothed the motion, so that neither is sharper.

        Plates that are not passed through here stay as measured. Find contacts before: a low-pass
        spreads them. Raises `ValueError` if the motion was not smoothed by a `Butterworth`, as no
        other law has a cutoff: `plate.smoothed(6.0)` takes one.
        """
        law = self.smooth
        if not isinstance(law, Butterworth):
            raise ValueError(
                f"the motion was smoothed by {law!r}, which has no cutoff for plates; "
                "plate.smoothed(6.0) low-passes one at 6 Hz"
            )
        given = mapping(plates, "plates")
        rows = {name: plate.smoothed(law.cutoff, law.order) for name, plate in given.items()}
        return Named("foot or plate", rows)

    def residuals(self) -> Residuals:
        """Residual analysis: what low-pass filters remove from the markers over their cutoff, and
        the one used."""
        used = {"used": self.smooth.cutoff} if isinstance(self.smooth, Butterworth) else {}
        return residual_analysis(self.markers, used=used)

    def plot(self) -> Any:
        """Distances between rigid segments and measured points over time, and by target."""
        figure, (over, by) = subplots(1, 2, figsize=(12.0, 4.6), width_ratios=(3, 2))
        over.plot(self.markers.time, 1e3 * self.fitted.rms, lw=1.2)
        over.set(xlabel="time [s]", ylabel="points to rigid segments, rms [mm]", ylim=(0, None))
        rows = np.flatnonzero(self.fitted.is_point)
        size = 1e3 * np.sqrt(np.mean(self.fitted.distances[rows] ** 2, axis=1))
        order = np.argsort(size)[-16:]
        by.barh([self.fitted.targets[rows[k]] for k in order], size[order], color="C0")
        by.set_xlabel("rms by point [mm]")
        return figure


def reconstruct(
    segments: Sequence[Segment],
    relations: Relations,
    markers: Markers,
    calibration: Mapping[str, ArrayLike] | None = None,
    smooth: float | Smoother | None = None,
    again: float | Smoother | None = None,
    root: str = "J1",
    repair: str | None = None,
) -> Reconstruction:
    """The motion of a body from markers (Pamies-Vila, Font-Llagunes 2013, section on the
    laboratory): smoothed, points and axes by relations, rigid segments, splines.

    segments : masses and inertias are theirs; the points are taken from the trial. calibration :
    positions of markers in a static trial, (3,) each [m]. smooth : of markers: the cutoff of a
    `Butterworth` [Hz], or a law such as `Butterworth(6.0, order=4)`, `GCVSpline()`, `SSA()`, any
    function of series (..., N) and their rate; by default a Butterworth low-pass at 2.5 times the
    rate of steps, at least 5 Hz. again : of the coordinates that were found, by default none.

    repair : "swaps" puts markers back that are exchanged for some samples, where the distances from
    others of their segments prove it, and says so in a warning; nothing else is changed.

    Warns of markers and segments that cannot be where they are said to be (see `check`), if much of
    the noise of the markers stays, which accelerations make large, and of segments whose axes look
    reversed. Gaps of markers that relations name are closed: by two or more others of the segment,
    or up to 0.1 s by splines. Raises `ValueError` for other gaps, missing markers, relations for
    points that do not exist, postures near a singularity of the angles, and frames that do not
    converge.
    """
    check_kind(relations, Relations, "kinesym.gait")
    check_kind(markers, Markers, "kinesym.gait")
    if len(markers) < 2:
        raise ValueError("a motion needs more than one sample; of a posture, take markers.mean()")
    smooth = None if smooth is None else smoother_of(smooth)
    again = None if again is None else smoother_of(again, "again")
    given = mapping({} if calibration is None else calibration, "calibration")
    still = {name: real_array(x, f"the calibration of {name!r}") for name, x in given.items()}
    _check_metres(still)
    check_seconds("the markers", markers.time)
    check_relations(relations, segments, root)
    if repair is not None:
        check_choice(repair, ("swaps",), "repair")
    whole = _without_gaps(markers, relations)
    clusters, repaired = clusters_in(relations), repair is not None
    findings, panels, mended = check_markers(whole, clusters, still, repaired)
    warn_of(findings)
    markers = mended if repaired else whole
    first = smooth or low_pass_of(markers)
    clean = markers.smoothed(first)
    _check_noise(markers, clean)
    _check_upright(still or {name: position[:, 0] for name, position in clean.positions.items()})
    measured = landmarks(relations, Trial(markers.positions, still))
    more, turning = check_segments(segments, relations, measured, markers.time)
    warn_of(more)
    found = landmarks(relations, Trial(clean.positions, still))
    rows = segments_from_landmarks(segments, found, root)
    lengths = check_lengths(segments, rows, markers.time)
    warn_of(lengths)
    body = NaturalBody(rows, root)
    fitted = fit(body, landmark_targets(rows, found, root), start_of(rows, found, root))
    check_angles(rows, fitted.z, clean.time)
    if not any(one.says for one in (*findings, *more) if one.kind in ("right and left", "upright")):
        _check_reversed(rows, found)
    z = fitted.z if again is None else np.asarray(again(fitted.z, clean.rate))
    kinematics = Spline.through(clean.time, z)
    seen = Check((*findings, *more, *lengths), (*panels, *turning))
    return Reconstruction(rows, markers, clean, fitted, kinematics, first, seen)


def _check_metres(still: Mapping[str, Array]) -> None:
    """Raise `ValueError` for a calibration in millimetres."""
    largest = max((float(np.abs(x).max(initial=0.0)) for x in still.values()), default=0.0)
    if largest > FARTHEST:
        raise ValueError(
            f"the calibration looks like millimetres (max {largest:.0f}); divide it by 1000, or "
            "read it with unit='mm'"
        )


def _without_gaps(markers: Markers, relations: Relations) -> Markers:
    """Markers whose gaps are closed, by the rest of their segment or short ones by splines; those
    with gaps that no relation names are left out, and labels without a sample of markers of the
    calibration alone. Warns of long gaps."""
    used, seen_too = names_in(relations), names_seen(relations)
    idle = {gap.marker for gap in markers.gaps() if gap.marker not in used}
    dead = (name for name, row in markers.positions.items() if np.isnan(row).all())
    idle |= {name for name in dead if name not in seen_too}
    seen = markers.without(*idle) if idle else markers
    gaps = seen.gaps()
    if not gaps:
        return seen
    clusters = clusters_in(relations)
    whole = closed(seen, BRIDGED, clusters)
    stays, remedies = why_open(seen, whole, BRIDGED, clusters)
    if stays:
        others = [f"markers.{each}" for each in remedies]
        raise ValueError(f"{stays}; try {', or '.join([*others, 'relations without it'])}")
    longest = max(gaps, key=lambda gap: gap.samples)
    if longest.samples > BRIDGED * seen.rate:
        many = f"{len(gaps)} gaps of markers are" if len(gaps) > 1 else "a gap of a marker is"
        warn(f"{many} closed by the rest of its segment: {longest}")
    return whole


def noise(markers: Markers) -> float:
    """The median deviation of the noise of all coordinates [m]."""
    rows = [position for position in markers.positions.values() if np.isfinite(position).all()]
    return float(np.median(noise_of(np.array(rows)))) if rows else 0.0


def check_relations(relations: Relations, segments: Sequence[Segment], root: str) -> None:
    """Raise `ValueError` for segments that make no tree, and for relations of points and axes that
    neither the segments nor other relations need."""
    points = owners(listed_of(segments, Segment, "segments"), root)
    used = names_in(relations)
    for kind, declared, known in (
        ("point", relations.points, [*points]),
        ("segment", relations.axes, [row.name for row in segments]),
    ):
        for name in declared:
            said = f"the relations say where {kind} {name!r} is, which the body does not have"
            check_known(name, [name] if name in used else known, said)


def _check_upright(positions: Mapping[str, Array]) -> None:
    """Warn if the markers are wider than high: two axes may be exchanged."""
    size = np.ptp(np.array(list(positions.values())), axis=0)
    if size[2] < max(size[0], size[1]):
        warn(
            f"markers span {size[0]:.2f} m forwards, {size[1]:.2f} m sideways, but only "
            f"{size[2]:.2f} m upwards: is the vertical of the file what up= says?",
        )


def _check_noise(markers: Markers, clean: Markers) -> None:
    before, after = noise(markers), noise(clean)
    if before > QUIET and after > STAYS * before:
        warn(
            f"markers have noise of about {1e3 * before:.2g} mm, {1e3 * after:.2g} mm after "
            "smoothing: forces will oscillate; use a lower cutoff, smooth=5.0",
        )


def _check_reversed(segments: Sequence[Segment], found: Landmarks) -> None:
    """Warn of segments that are upside down against the first one."""
    base = found.axes[segments[0].name]
    for row in segments[1:]:
        relative = np.einsum("jin,jkn->ik", base, found.axes[row.name]) / base.shape[2]
        angle = float(np.arccos(np.clip((np.trace(relative) - 1.0) / 2.0, -1.0, 1.0)))
        if angle > REVERSED:
            warn(
                f"segment {row.name!r} is turned by {np.degrees(angle):.0f} deg against "
                f"{segments[0].name!r} on average: are the ends of one of its axes exchanged?",
            )
