"""Gait events: heel strikes, toe-offs, phases of the cycle.

World axes everywhere: x forwards, y to the left, z up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import find_peaks

from kinesym.base.checks import (
    check_kind,
    check_text,
    finite,
    listed_of,
    mapping,
    pair,
    positive,
    shown,
)
from kinesym.gait.checks import warn
from kinesym.gait.gaps import runs
from kinesym.gait.wrench import THRESHOLD, Wrench, check_reaction, vectors
from kinesym.runtime.arrays import Array, real_array, time_grid
from kinesym.runtime.signals.low_pass import low_pass

#: Contacts, and gaps between them, that are shorter count as chatter [s].
SHORTEST = 0.05
#: Heel and toe of feet by name, (3, N) each [m].
Feet: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True)
class Contact:
    """A stance phase of a foot, from heel strike to toe-off [s], or of a seat.

    struck, lifted : False if the record begins (ends) during the stance, so that `begin` (`end`)
    is only where the record does. measured : whether a force plate shows it. height : of what the
    foot stands on above the floor, as a stair or box [m]. seat : whether the body is borne by
    something under no foot, as a chair, whose name is given for that of the foot.

    Raises `ValueError` if it does not end after it begins, and for a height that is no number.
    """

    foot: str
    begin: float
    end: float
    struck: bool = True
    lifted: bool = True
    measured: bool = field(default=False, compare=False)
    height: float = 0.0
    seat: bool = False

    def __post_init__(self) -> None:
        check_text(self.foot, "the foot of a contact")
        finite(self.height, f"the height of a contact of {self.foot!r}")
        numbers = isinstance(self.begin, Real) and isinstance(self.end, Real)
        if not numbers or not -np.inf < self.begin < self.end < np.inf:
            raise ValueError(
                f"a contact must end after it begins, {self.foot!r} is given from "
                f"{self.begin!r} to {self.end!r} s"
            )


@dataclass(frozen=True)
class Phase:
    """An interval [s] in which the same feet are on the ground.

    feet : () in flight, (foot,) in single support, (trailing, leading) in double support: in the
    order in which they came to the ground. off : those that no force plate shows.
    """

    begin: float
    end: float
    feet: tuple[str, ...]
    off: tuple[str, ...] = field(default=(), compare=False)

    @property
    def double(self) -> bool:
        """Whether both feet are on the ground."""
        return len(self.feet) == 2


@dataclass(frozen=True)
class Cycle:
    """A gait cycle: from a heel strike to the next of the same foot, and on to a toe-off.

    begin, stride, end : instants of 0 %, of 100 %, and of the other foot's next toe-off, usually
    near 116 % [s]. phases : from begin to end, in order.
    """

    begin: float
    stride: float
    end: float
    phases: tuple[Phase, ...]

    def percent(self, time: ArrayLike) -> Array:
        """Instants [s] in per cent of the cycle."""
        return 100.0 * (real_array(time, "instants") - self.begin) / self.duration

    def instant(self, percent: ArrayLike) -> Array:
        """Per cent of the cycle as instants [s]."""
        return self.begin + self.duration * real_array(percent, "per cent") / 100.0

    @property
    def duration(self) -> float:
        """Duration of the stride [s]."""
        return self.stride - self.begin

    @property
    def double_supports(self) -> tuple[Phase, ...]:
        """Phases with both feet on the ground."""
        return tuple(phase for phase in self.phases if phase.double)


def during(one: Contact | Phase, time: Array) -> NDArray[np.bool_]:
    """Samples at times (N,) of a contact or phase."""
    return np.asarray((time >= one.begin) & (time <= one.end))


def is_loaded(plate: Wrench, contact: Contact) -> bool:
    """Whether a plate is loaded most of a contact."""
    here = during(contact, plate.time)
    return bool(here.any() and np.mean(plate.force[2, here] > THRESHOLD) > 0.5)


# -- contacts ---------------------------------------------------------------------------------


def contacts_from_wrench(
    foot: str, wrench: Wrench, threshold: float = THRESHOLD, shortest: float = SHORTEST
) -> list[Contact]:
    """Stances from the vertical force: where it exceeds `threshold` [N], between samples.

    Hysteresis: a stance lasts while the force stays above half the threshold; its ends are the
    first and last crossing of the threshold itself. Stances shorter than `shortest` [s] are dropped
    unless the record cuts them; shorter gaps are closed.

    Raises `ValueError` if the plate gives the load instead of the reaction.
    """
    check_text(foot, "the foot of a contact")
    check_kind(wrench, Wrench, "kinesym.gait")
    positive(threshold, "the threshold of a contact")
    finite(shortest, "shortest")
    check_reaction(wrench, f"the force plate of {foot!r}", threshold)
    time, vertical = wrench.time, wrench.force[2]
    found: list[Contact] = []
    for run in runs(vertical > 0.5 * threshold):
        above = np.flatnonzero(vertical[run] > threshold) + run.start
        if len(above):
            contact = _between_crossings(foot, time, vertical, threshold, above[0], above[-1])
            if found and contact.begin - found[-1].end < shortest:
                found[-1] = replace(found[-1], end=contact.end, lifted=contact.lifted)
            else:
                found.append(contact)
    return [
        contact
        for contact in found
        if contact.end - contact.begin >= shortest or not (contact.struck and contact.lifted)
    ]


def contacts_from_markers(
    foot: str, time: ArrayLike, heel: ArrayLike, toe: ArrayLike, cutoff: float = 7.0
) -> list[Contact]:
    """Stances in level walking, overground or on a treadmill, from two markers of a foot.

    time : (N,) uniform [s]. heel, toe : positions of the markers (3, N) [m], gaps filled. Of the
    middle between them the vertical velocity, low-passed at `cutoff` [Hz], is lowest when the foot
    strikes and highest when it leaves: the foot velocity algorithm (O'Connor et al. 2007, Gait &
    Posture 25:469). Strikes count while the heel is below 35 % of its range, toe-offs above.
    Extremes are placed between samples by a parabola.

    Force plates are better: in two walks strikes came 16 ms before to 35 ms after a plate's
    threshold of 20 N, toe-offs 11 ms before to 27 ms after.

    Raises `ValueError` for shapes, values that are not finite, if no step can be seen, and if a
    foot strikes or leaves twice in a row.
    """
    grid = time_grid(time)
    back, front = vectors("heel", heel, grid), vectors("toe", toe, grid)
    height, middle = low_pass(grid, np.array([back[2], 0.5 * (back + front)[2]]), cutoff)
    if np.ptp(height) < 0.05:  # a heel that steps rises by 0.2 m
        raise ValueError(
            f"the foot {foot!r} makes no step from {grid[0]:.6g} to {grid[-1]:.6g} s: "
            f"its heel rises by {np.ptp(height):.3f} m only"
        )
    velocity = np.gradient(middle, grid)
    high = height > height.min() + 0.35 * np.ptp(height)
    events = sorted(
        [(t, True) for t in _peaks(grid, -velocity, 0.25, ~high)]
        + [(t, False) for t in _peaks(grid, velocity, 0.5, high)]
    )
    standing = not events[0][1] if events else bool(not high[0])
    ends = float(grid[0]), float(grid[-1])
    return contacts_in_turn(foot, events, ends, standing, "check its markers there")


def contacts_in_turn(
    foot: str,
    events: Iterable[tuple[float, bool]],
    ends: tuple[float, float],
    standing: bool,
    remedy: str,
) -> list[Contact]:
    """Contacts of a foot from its events in order: instants [s], and whether it strikes or leaves.

    ends : of the record. standing : whether it is on the ground at its begin. Raises `ValueError`
    if the foot strikes or leaves twice in a row.
    """
    found = []
    begin, struck = ends[0], False
    for instant, strike in events:
        if strike == standing:
            what = "strikes twice without leaving" if strike else "leaves twice without striking"
            raise ValueError(
                f"foot {foot!r} {what} at {instant:.6g} s; {remedy}, or say when it is on the "
                "ground: contacts="
            )
        if strike:
            begin, struck = instant, True
        elif instant > begin:
            found.append(Contact(foot, begin, instant, struck))
        standing = strike
    if standing and begin < ends[1]:
        found.append(Contact(foot, begin, ends[1], struck, lifted=False))
    return found


def completed(contacts: Sequence[Contact], others: Iterable[Contact]) -> list[Contact]:
    """Contacts, and those of the other list that overlap none of the same foot, sorted by time.

    Such as contacts from plates, with contacts from markers where a foot steps beside them.
    """
    contacts = listed_of(contacts, Contact, "contacts")
    others = listed_of(others, Contact, "other contacts")

    def free(one: Contact) -> bool:
        own = (c for c in contacts if c.foot == one.foot)
        return all(one.begin >= c.end or c.begin >= one.end for c in own)

    return in_order([*contacts, *(one for one in others if free(one))])


def in_order(contacts: Iterable[Contact]) -> list[Contact]:
    """Contacts by their begin; raises `ValueError` for anything else."""
    rows = listed_of(contacts, Contact, "contacts")
    return sorted(rows, key=lambda contact: (contact.begin, contact.end))


# -- phases -----------------------------------------------------------------------------------


def phases(contacts: Iterable[Contact]) -> list[Phase]:
    """Flight, single and double supports of feet in order, from the first contact to the last.

    Raises `ValueError` naming the interval if contacts of one foot overlap, and if more than two
    feet are on the ground at once.
    """
    ordered = [contact for contact in in_order(contacts) if not contact.seat]
    if not ordered:
        raise ValueError("there is no contact: nothing stands on the ground")
    check_contacts(ordered)
    instants = sorted({c.begin for c in ordered} | {c.end for c in ordered})
    found = []
    for begin, end in pairwise(instants):
        here = [c for c in ordered if c.begin <= begin and c.end >= end]
        standing = tuple(c.foot for c in here)
        if len(standing) > 2:
            raise ValueError(
                f"{len(standing)} feet are on the ground from {begin:.6g} to "
                f"{end:.6g} s: {', '.join(standing)}"
            )
        off = tuple(c.foot for c in here if not c.measured)
        found.append(Phase(begin, end, standing, off))
    return found


def whole_strides(
    contacts: Iterable[Contact], begin: float, end: float
) -> list[tuple[float, float]]:
    """Spans of whole strides between two instants [s]: for each foot from its first strike to its
    last, and from its first toe-off to its last, after which the motion repeats."""
    inside = [c for c in contacts if c.end >= begin and c.begin <= end]
    found = []
    for foot in sorted({c.foot for c in inside}):
        strikes = [c.begin for c in inside if c.foot == foot and c.struck and c.begin >= begin]
        leaves = [c.end for c in inside if c.foot == foot and c.lifted and c.end <= end]
        found += [(min(row), max(row)) for row in (strikes, leaves) if len(row) > 1]
    return found


def gait_cycle(contacts: Iterable[Contact], foot: str = "right", begin: float = -np.inf) -> Cycle:
    """A whole cycle at or after `begin` [s]: two heel strikes of `foot` and on.

    It ends when the other foot leaves after the second of them, near 116 % when walking. It is the
    first one; where plates show some contacts and others are `completed` from markers, the first
    with fewest that no plate shows, of which it warns: torques are unknown there.

    Raises `ValueError` if there is none in the record, and if one of its steps has no double
    support, naming the interval.
    """
    ordered = [contact for contact in in_order(contacts) if not contact.seat]
    if not isinstance(begin, Real):
        raise ValueError(f"begin must be a number, got {shown(begin)}")
    strikes = [c.begin for c in ordered if c.foot == foot and c.struck and c.begin >= begin]
    leaves = [c for c in ordered if c.foot != foot and c.lifted]
    spans = [
        (start, stride, ends[0])
        for start, stride in pairwise(strikes)
        if (ends := [c.end for c in leaves if c.end > stride])
    ]
    if not spans:
        seen = ", ".join(f"{t:.6g}" for t in strikes) or "none"
        last = f"{max(c.end for c in leaves):.6g} s" if leaves else "none"
        raise ValueError(
            f"a cycle needs two heel strikes of {foot!r} and a toe-off of the other foot after the "
            f"second; heel strikes: {seen}, last toe-off of the other foot: {last}"
        )
    off = [c for c in ordered if not c.measured] if any(c.measured for c in ordered) else []

    beside = {s: [c for c in off if c.begin < s[2] and c.end > s[0]] for s in spans}
    best = min(spans, key=lambda s: (sum(c.begin < s[1] for c in beside[s]), len(beside[s])))
    (start, stride, end), rows = best, beside[best]
    if rows:
        said = ", ".join(f"{c.foot!r} from {c.begin:.6g} to {c.end:.6g} s" for c in rows)
        warn(
            f"no force plate shows {said}, in the cycle of {foot!r} from {start:.6g} to "
            f"{stride:.6g} s, and no other cycle has fewer: torques of that leg are unknown there"
        )
    inside = [
        replace(p, begin=max(p.begin, start), end=min(p.end, end))
        for p in phases(ordered)
        if p.end > start and p.begin < end
    ]
    for phase in inside:
        if not phase.feet:
            raise ValueError(
                f"no double support: no foot is in contact from {phase.begin:.6g} to "
                f"{phase.end:.6g} s; the cycle of walking needs one in every step"
            )
    return Cycle(start, stride, end, tuple(inside))


# -- places of feet ---------------------------------------------------------------------------


def heels_and_toes(feet: Feet, time: Array) -> dict[str, tuple[Array, Array]]:
    """Positions (3, N) of heel and toe of feet by name, checked."""
    found = {}
    for foot, ends in mapping(feet, "feet").items():
        heel, toe = pair(ends, f"foot {foot!r} is given by its heel and toe, each (3, N)")
        rows = vectors(f"heel of {foot!r}", heel, time), vectors(f"toe of {foot!r}", toe, time)
        found[foot] = rows
    return found


def distance_to_line(centre: Array, heel: Array, toe: Array) -> Array:
    """Distances seen from above of points (2, n) from the lines from heel to toe (3, n)."""
    return np.asarray(np.hypot(*(centre - nearest_on_line(centre, heel[:2], toe[:2]))))


def nearest_on_line(centre: Array, heel: Array, toe: Array) -> Array:
    """Nearest points on the lines from heel to toe to given points, all (2, n)."""
    along = toe - heel
    part = ((centre - heel) * along).sum(axis=0) / np.maximum((along**2).sum(axis=0), 1e-12)
    return np.asarray(heel + np.clip(part, 0.0, 1.0) * along)


def check_contacts(ordered: Sequence[Contact]) -> None:
    """Raise `ValueError` for contacts of one foot that overlap."""
    for k, one in enumerate(ordered):
        for two in ordered[k + 1 :]:
            if one.foot == two.foot and two.begin < one.end:
                raise ValueError(
                    f"contacts of {one.foot!r} overlap from {two.begin:.6g} to "
                    f"{min(one.end, two.end):.6g} s"
                )


def _between_crossings(
    foot: str, time: Array, vertical: Array, threshold: float, first: int, last: int
) -> Contact:
    """Contact between threshold crossings: from where the force rises through it, before the first
    sample, to where it falls."""

    def crossing(out: int, inside: int) -> float:
        share = (threshold - vertical[out]) / (vertical[inside] - vertical[out])
        return float(time[out] + share * (time[inside] - time[out]))

    struck, lifted = bool(first > 0), bool(last < len(time) - 1)
    begin = crossing(first - 1, first) if struck else float(time[0])
    end = crossing(last + 1, last) if lifted else float(time[-1])
    return Contact(foot, begin, end, struck, lifted, measured=True)


def _peaks(time: Array, values: Array, share: float, where: NDArray[np.bool_]) -> list[float]:
    """Instants of the maxima above a share of the largest, by parabolas through three samples."""
    found = []
    for k in find_peaks(values, height=share * float(values.max()))[0]:
        if where[k]:
            before, here, after = values[k - 1 : k + 2]
            bend = before - 2.0 * here + after
            shift = 0.5 * (before - after) / bend if bend < 0.0 else 0.0
            found.append(float(time[k] + shift * 0.5 * (time[k + 1] - time[k - 1])))
    return found
