"""Trials with force plates that come along, and one that is computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

import kinesym as ks
from kinesym.examples import gait_plates
from kinesym.examples.studies import gait
from kinesym.gait import Markers, Relations, Segment, Wrench
from kinesym.gait.reconstruction import Smoother

Array = NDArray[np.float64]
G = 9.81
#: Samples at the ends of a record that are not judged.
EDGE = 6


@dataclass(frozen=True)
class Motion:
    """smoothed : markers. needed : the wrench of the ground at instants, in world axes."""

    smoothed: Markers
    needed: Callable[[Array], Wrench]


#: From markers, smoothed by a law, and coordinates, smoothed by another one, to the motion.
Mover = Callable[[Markers, Smoother | None, Smoother | None], Motion]


@dataclass(frozen=True)
class Record:
    """A trial and what judges it.

    weight : of the body, by its plates [N]. span : instants that are judged [s]. feet : names of
    the markers of heel and toe by foot. plates : by foot, about the origin; none of what is
    computed, of which `force` is known. alone : instants at which every foot is on its own plate,
    or in the air, if that is not the span [s].
    """

    words: str
    markers: Markers
    move: Mover
    weight: float
    span: tuple[float, float]
    feet: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    plates: Mapping[str, Wrench] = field(default_factory=dict)
    computed: Callable[[Array], Array] | None = None
    alone: tuple[float, float] | None = None

    def time(self) -> Array:
        """Instants that are judged [s]."""
        t = self.markers.time[EDGE:-EDGE]
        return np.asarray(t[(t >= self.span[0]) & (t <= self.span[1])])

    def force(self, t: Array) -> Array:
        """The sum of the plates, not filtered, or what is known (3, N) [N]."""
        if self.computed is not None:
            return self.computed(t)
        return np.asarray(sum(plate.at(t).force for plate in self.plates.values()))

    def motion(self, smooth: Smoother | None = None, again: Smoother | None = None) -> Motion:
        """By laws for markers and for coordinates."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise that a weak filter leaves
            return self.move(self.markers, smooth, again)

    def off(self, smooth: Smoother | None = None, again: Smoother | None = None) -> Array:
        """Needed minus measured force, rms of x, y, z [N]."""
        t = self.time()
        needed = self.motion(smooth, again).needed(t).force
        return np.asarray(np.sqrt(np.mean((needed - self.force(t)) ** 2, axis=1)))

    def other(self, noise: float = 0.0, every: int = 1, seed: int = 1) -> Record:
        """With white noise added [m], and fewer samples."""
        rng, m = np.random.default_rng(seed), self.markers
        positions = {
            name: (p + noise * rng.normal(size=p.shape))[:, ::every]
            for name, p in m.positions.items()
        }
        return replace(self, markers=Markers(m.time[::every], positions))


def by_relations(
    segments: Sequence[Segment],
    relations: Relations,
    mass: float,
    standing: Mapping[str, Array] | None = None,
) -> Mover:
    """As `ks.gait.reconstruct` finds motions."""

    def move(markers: Markers, smooth: Smoother | None, again: Smoother | None) -> Motion:
        walk = ks.gait.reconstruct(segments, relations, markers, standing, smooth, again)
        body = ks.gait.Body(walk.segments, mass)
        return Motion(walk.smoothed, lambda t: body.inverse(walk.kinematics.sample(t)).total)

    return move


def subject01() -> Record:
    """The whole body at 60 Hz, in place as on a treadmill."""
    standing = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    return Record(
        "walk, 60 Hz, whole body",
        ks.gait.read_csv(gait.data("gait_subject01_markers.csv.gz")),
        by_relations(gait.subject(), gait.relations(), gait.MASS, standing),
        gait.MASS * G,
        (0.2, 2.3),
        {foot: (f"{foot[0].upper()}.Heel", f"{foot[0].upper()}.Toe.Tip") for foot in gait.FEET},
        ks.gait.read_forces(gait.data("gait_subject01_forces.csv.gz")),
    )


def overground() -> Record:
    """Pelvis and legs at 150 Hz, over four plates."""
    markers, plates = gait_plates.record()
    under, _ = ks.gait.assign_plates(plates, markers.time, gait_plates.feet_of(markers))
    contacts = [c for f in gait_plates.FEET for c in ks.gait.contacts_from_wrench(f, under[f])]
    cycle = ks.gait.gait_cycle(contacts, "left")
    fine = under["right"].time
    whole = (fine >= cycle.begin) & (fine <= cycle.stride)
    weight = float(sum(under[f].force[2, whole] for f in gait_plates.FEET).mean())
    segments = ks.gait.segments_of_body(weight / G, gait_plates.STATURE)
    return Record(
        "walk, 150 Hz, pelvis and legs",
        markers,
        by_relations(segments, gait_plates.relations(), weight / G),
        weight,
        (cycle.begin - 0.02, cycle.end + 0.02),
        {foot: (f"{foot[0].upper()}.Heel", f"{foot[0].upper()}.MT2") for foot in gait.FEET},
        under,
        alone=(0.76, 1.95),
    )


def computed() -> Record:
    """A rigid person on the course of a run of 2.8 steps a second, 100 Hz, noise of 0.5 mm. Stance
    takes 0.7 of a step; the force upwards is half a sine with an impact of one body weight and
    30 ms, the one forwards brakes and drives. No skin moves: an upper bound of cutoffs.
    """
    base, rate, steps = subject01(), 100.0, 2.8
    phase = np.arange(4096) / 4096.0
    stance = np.where(phase < 0.7, np.sin(np.pi * phase / 0.7), 0.0)
    impact = np.exp(-0.5 * ((phase / steps - 0.025) / 0.012) ** 2)
    drive = np.where(phase < 0.7, -np.sin(2.0 * np.pi * phase / 0.7), 0.0)
    up = stance * (1.0 - impact.mean()) / stance.mean() + impact
    spectra = {0: np.fft.rfft(0.25 * drive), 2: np.fft.rfft(up)}

    def series(axis: int, t: Array, order: int) -> Array:
        """Force over weight minus its mean, or twice its integral over G."""
        k = np.arange(1, 41)
        w = 2.0 * np.pi * steps * k
        c = 2.0 * spectra[axis][1:41] / 4096.0 * (1j * w) ** -order
        return np.asarray(np.real(np.exp(1j * np.outer(t, w)) @ c))

    t = np.arange(250) / rate
    course = np.array([G * series(0, t, 2), np.zeros_like(t), G * series(2, t, 2)])
    still = {n: base.markers[n][:, :1] + course for n in base.markers.names}
    weight = base.weight

    def force(t: Array) -> Array:
        return weight * np.array([series(0, t, 0), np.zeros_like(t), 1.0 + series(2, t, 0)])

    words = "run, computed, 100 Hz"
    found = replace(base, words=words, markers=Markers(t, still), plates={}, computed=force)
    return found.other(5e-4)


#: Those that come along.
RECORDS: dict[str, Callable[[], Record]] = {
    "subject01": subject01,
    "overground": overground,
    "computed": computed,
}
