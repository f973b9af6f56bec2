"""Walks: a motion over time with contacts and heels, its strides and the numbers of walking."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import (
    Named,
    check_kind,
    check_known,
    check_text,
    finite,
    mapping,
    positive,
)
from kinesym.base.notebook import Displayed
from kinesym.base.quiet import quietly
from kinesym.gait.checks import warn
from kinesym.gait.events import (
    Contact,
    check_contacts,
    completed,
    contacts_from_markers,
    contacts_from_wrench,
    during,
    in_order,
    is_loaded,
)
from kinesym.gait.inverse import JointLoads
from kinesym.gait.motion_files import Table
from kinesym.gait.names import without_sides
from kinesym.gait.natural.body import G
from kinesym.gait.reconstruction import Reconstruction
from kinesym.gait.smoothing import Butterworth
from kinesym.gait.strides import PERCENT, Strides
from kinesym.gait.wrench import Wrench, between, vectors
from kinesym.runtime.arrays import AXES, Array, time_grid

#: Names of columns that depend on forces of the ground.
_LOADS = re.compile(r"torque|moment(?!_?arm)|force|power|_(Nm?|W)(_per_kg)?$", re.IGNORECASE)
#: Part of a stance in which the heel rests on the ground or belt [-].
RESTS = (0.15, 0.4)
#: Speed of heels that rest, below which there is no belt [m/s].
BELT = 0.15
#: Share of the larger component of a belt's velocity, below which the other is none [-].
ASIDE = 0.2
#: Shortest stride that shows the way of progression [m].
PROGRESS = 0.2
#: Share of the force that the motion needs in single support, below which a foot is half beside
#: its plate [-].
BORNE = 0.8


@dataclass(frozen=True, eq=False, repr=False)
class Walk(Displayed):
    """A walk or run, ready to be cut into strides; `Walk.of` makes it of markers and plates.

    table : columns over time (N,) by name: angles, torques, muscle lengths, whatever is known.
    Those of both sides are told apart by their names, such as `right_knee_angle` and
    `left_knee_angle`. contacts : of all feet, with `measured` where a force plate shows them. heels
    : by foot, positions of the heel (3, N) [m], for lengths of steps. mass [kg], leg_length [m] :
    of the person, for numbers per kg and per leg length. belt : speed of a treadmill [m/s], by
    default the speed of resting heels. labels : of all its strides, such as {"trial": "walk 1",
    "subject": "S07"}. grounded : names of columns that depend on forces of the ground, by default
    those of torques, moments, forces and powers, as their names tell.

    Raises `ValueError` for contacts of a foot that overlap, and for other shapes.
    """

    table: Table
    contacts: Sequence[Contact]
    heels: Mapping[str, ArrayLike] = field(default_factory=dict)
    mass: float | None = None
    leg_length: float | None = None
    belt: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    grounded: Collection[str] = ()

    def __post_init__(self) -> None:
        check_kind(self.table, Table, "kinesym.gait")
        time_grid(self.time)
        ordered = in_order(self.contacts)
        check_contacts(ordered)
        given = mapping(self.heels, "heels")
        heels = {foot: vectors(f"heel of {foot!r}", row, self.time) for foot, row in given.items()}
        for what, number in (("mass", self.mass), ("leg_length", self.leg_length)):
            if number is not None:
                positive(number, what)
        if self.belt is not None:
            finite(self.belt, "belt")
        for label, value in mapping(self.labels, "labels").items():
            check_text(value, f"the label {label!r} of a walk")
            if label == "side":
                raise ValueError("the label 'side' is that of the foot; choose another name")
        if not self.grounded:
            object.__setattr__(self, "grounded", _loads(self.table.columns))
        object.__setattr__(self, "contacts", tuple(ordered))
        object.__setattr__(self, "heels", Named("foot", heels))

    @classmethod
    def of(
        cls,
        motion: Reconstruction,
        plates: Mapping[str, Wrench],
        feet: Mapping[str, tuple[ArrayLike, ArrayLike]],
        contacts: Sequence[Contact] | None = None,
        leg_length: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Walk:
        """Walk of markers and force plates: inverse dynamics at the instants of the markers.

        plates : wrenches by foot, as of `assign_plates`; {} without plates. They get the low-pass
        of the motion, see `Reconstruction.alike`. feet : by name, positions of its heel and toe at
        the instants of the markers, (3, N) [m]. contacts : such as `read_c3d(path).contacts`; by
        default from the plates, completed by those from heels and toes. Columns are those of joints
        in `JointLoads.columns` (with `knee_extension`, as that is positive), forces of the ground
        by foot (forwards, towards the other foot, upwards) and smoothed markers.

        A contact is `measured` if its plate is loaded most of it; one of which the plates bear less
        than 80 % of what the motion needs in single support counts as beside them, with a warning.
        """
        from kinesym.gait.body import Body  # here: needs SymPy

        check_kind(motion, Reconstruction, "kinesym.gait")
        given, lines = mapping(plates, "plates"), mapping(feet, "feet")
        for foot in given:
            if foot not in lines:
                raise ValueError(f"plates of the foot {foot!r} need its heel and toe in feet")
        if contacts is None:
            contacts = _contacts(motion.markers.time, given, lines)
        here = _in_all(motion, given)
        time = motion.markers.time[here]
        under = motion.alike(given) if isinstance(motion.smooth, Butterworth) else given
        under = {foot: wrench.at(time) for foot, wrench in under.items()}
        needed = Body(motion.segments).inverse(motion.kinematics.sample(time))
        with quietly():  # feet beside plates leave a residual, and are told below
            columns, grounded = _joint_columns(needed.joints(under))
        for foot, wrench in under.items():
            inwards = -1.0 if _is_left(foot) else 1.0
            rows = zip(("forward", "medial", "up"), wrench.force, (1.0, inwards, 1.0), strict=True)
            forces = {f"{foot}_ground_force_{way}_N": sign * row for way, row, sign in rows}
            columns, grounded = columns | forces, grounded | forces.keys()
        for name, place in motion.smoothed.positions.items():
            columns |= {f"{name}_{a}_m": row[here] for a, row in zip(AXES, place, strict=True)}
        found = _measured(in_order(contacts), needed.total, under)
        heels = {foot: np.asarray(heel)[:, here] for foot, (heel, _) in lines.items()}
        table, mass = Table(time, columns), needed.skeleton.mass
        return cls(table, found, heels, mass, leg_length, labels=labels or {}, grounded=grounded)

    def __repr__(self) -> str:
        return f"<walk: {len(self.table.columns)} columns, {len(self.contacts)} contacts>"

    @property
    def time(self) -> Array:
        """Time (N,) [s]."""
        return self.table.time

    def with_columns(self, columns: Mapping[str, ArrayLike]) -> Walk:
        """Walk with more columns (N,) at its times, such as lengths of muscles."""
        more = {name: np.asarray(row, float) for name, row in mapping(columns, "columns").items()}
        table = replace(self.table, columns={**self.table.columns, **more})
        return replace(self, table=table, grounded={*self.grounded, *_loads(more)})

    @cached_property
    def belt_speed(self) -> float:
        """Speed of the belt of a treadmill [m/s], 0 overground: as given, or the median speed by
        which heels that rest in a stance move backwards, along the axis where that is larger."""
        if self.belt is not None:
            return float(self.belt)
        return float(self._belt[np.argmax(np.abs(self._belt))])

    @cached_property
    def _belt(self) -> Array:
        """Velocity (2,) of the walker on the belt, along x and y [m/s]: the median of that of heels
        that rest, of the speed that is given; along x where heels do not tell."""
        found = self._drift
        if self.belt is None:
            return found
        size = float(np.linalg.norm(found))
        return abs(self.belt) * found / size if size else np.array([self.belt, 0.0])

    @property
    def _drift(self) -> Array:
        """Velocity (2,) against which heels that rest move, zero without a belt; along an axis of
        the room if it nearly is."""
        speeds = [np.zeros((0, 2))]
        for contact in self.contacts:
            begin, end = (contact.begin + s * (contact.end - contact.begin) for s in RESTS)
            here = (self.time >= begin) & (self.time <= end)
            if contact.foot in self.heels and here.sum() > 2 and contact.struck:
                heel = np.asarray(self.heels[contact.foot])[:2, here]
                speeds.append(-np.polyfit(self.time[here] - begin, heel.T, 1)[:1])
        every = np.concatenate(speeds)
        found = np.median(every, axis=0) if len(every) else np.zeros(2)
        if np.linalg.norm(found) <= BELT:
            return np.zeros(2)
        return np.where(np.abs(found) > ASIDE * np.abs(found).max(), found, 0.0)

    # -- strides --------------------------------------------------------------------------------

    def strides(self, side: str | None = None, plates: bool = True) -> Strides:
        """Strides of a foot that are whole, by default of both, in the order of time, with their
        curves and numbers.

        Columns of the side of the foot lose the side in their name, `knee_moment` of
        `right_knee_moment`; others stay. Between samples there are straight lines.

        plates : whether columns of torques, moments, forces, powers are right only where force
        plates show the stance: they are NaN in other stances. False where the ground forces were
        computed, as by `share` or `contact_forces`.

        Numbers of a stride: its time, cadence (two steps a stride), stance, swing and double
        support [%]; with heels lengths, width and speed: the step is that from the strike of the
        other foot to the end of the stride, the width the distance of the other heel from the line
        of progression (Huxham et al. 2006); with the leg length lengths over it, and speed over
        sqrt(g length) (Hof 1996); of each power the positive and negative work, with the mass per
        kg. NaN where contacts of the other foot are not known.

        Warns of strides in which contacts are missing, which are left out. Raises `ValueError` if
        no stride is whole.
        """
        known = list(dict.fromkeys(c.foot for c in self.contacts))
        feet = known if side is None else [side]
        if side is not None:
            check_known(side, known, f"there are no contacts of {side!r}")
        rows = [
            Strides(
                ({"side": one.foot, **self.labels},),
                np.array([one.begin]),
                np.array([two.begin]),
                np.array([_whole(one)]),
                {name: row[None] for name, row in self._curves(one, two, plates).items()},
                {},
            )
            for one, two in sorted(self._spans(feet), key=lambda ends: ends[0].begin)
        ]
        if not rows:
            strikes = [c.begin for c in self.contacts if c.struck and c.foot in feet]
            said = ", ".join(f"{t:.6g}" for t in strikes[:8]) or "none"
            covered = f"{self.time[0]:.6g} to {self.time[-1]:.6g} s"
            raise ValueError(
                f"no stride of {', '.join(feet) or 'any foot'} is whole: heel strikes at {said} s, "
                f"the columns cover {covered}; a stride needs two strikes in them"
            )
        found = Strides.joined(rows)
        return replace(found, numbers=Named("number", self._numbers(found)))

    def _spans(self, feet: Sequence[str]) -> Iterator[tuple[Contact, Contact]]:
        """Contacts that begin and end each whole stride within the columns."""
        slack = 1e-6 * float(np.diff(self.time).min())
        for foot in feet:
            own = [c for c in self.contacts if c.foot == foot]
            for one, two in pairwise(own):
                inside = self.time[0] - slack <= one.begin and two.begin <= self.time[-1] + slack
                if not (inside and one.struck and two.struck):
                    continue
                others = [c for c in self.contacts if c.foot != foot]
                between_them = [c for c in others if one.begin < c.begin < two.begin]
                if others and len(between_them) != 1:
                    warn(
                        f"the stride of {foot!r} from {one.begin:.6g} to {two.begin:.6g} s is left "
                        f"out: the other foot strikes {len(between_them)} times in it; a contact "
                        "is missing or cut in two"
                    )
                else:
                    yield one, two

    def _curves(self, one: Contact, two: Contact, plates: bool) -> dict[str, Array]:
        """Curves (101,) of a stride."""
        at = one.begin + (two.begin - one.begin) * PERCENT / 100.0
        before = self.time <= two.begin
        found = {}
        for name, (columns, feet) in self._sides.items():
            column = columns[_is_left(one.foot)]
            row, time = self.table.columns[column], self.time
            if plates and column in self.grounded:
                row = np.where(self._unseen[one.foot if feet else ""], np.nan, row)
                if not two.measured:  # its first sample tells nothing of the swing before it
                    row, time = row[before], time[before]
            found[name] = np.interp(at, time, row)
        return found

    @cached_property
    def _sides(self) -> dict[str, tuple[tuple[str, str], bool]]:
        """Columns by their names without a side: of right and left, and whether there are two."""
        pairs = without_sides(self.table.columns)
        paired = {name for pair in pairs.values() for name in pair}
        alone = [name for name in self.table.columns if name not in paired]
        return {n: (pair, True) for n, pair in pairs.items()} | {n: ((n, n), False) for n in alone}

    @cached_property
    def _unseen(self) -> dict[str, NDArray[np.bool_]]:
        """Samples (N,) in stances that no plate shows, by foot, "" for any."""
        feet = {"", *(c.foot for c in self.contacts)}
        found = {foot: np.zeros(len(self.time), dtype=bool) for foot in feet}
        for c in self.contacts:
            for foot in ("", c.foot) if not c.measured else ():
                found[foot] |= during(c, self.time)
        return found

    # -- numbers --------------------------------------------------------------------------------

    def _numbers(self, strides: Strides) -> dict[str, Array]:
        rows = [
            self._steps(label["side"], begin, end)
            for label, begin, end in zip(strides.labels, strides.begin, strides.end, strict=True)
        ]
        found = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        if self.leg_length is not None and self.heels:
            for name in ("stride_length", "step_length", "step_width"):
                found[f"{name}_per_leg"] = found[f"{name}_m"] / self.leg_length
            found["speed_per_sqrt_g_leg"] = found["speed_m_per_s"] / np.sqrt(G * self.leg_length)
        duration = strides.end - strides.begin
        for name, curve in strides.curves.items():
            joint = re.sub(r"_?power(_W)?$", "", name)
            if joint == name:
                continue
            for sign, part in (("positive", np.maximum), ("negative", np.minimum)):
                work = np.trapezoid(part(curve, 0.0), PERCENT / 100.0, axis=1) * duration
                if self.mass is None:
                    found[f"{joint}_{sign}_work_J"] = work
                else:
                    found[f"{joint}_{sign}_work_J_per_kg"] = work / self.mass
        return found

    def _steps(self, foot: str, begin: float, end: float) -> dict[str, float]:
        """Numbers of times and lengths of a stride; see `strides`."""
        duration, others = end - begin, [c for c in self.contacts if c.foot != foot]
        own = next(c for c in self.contacts if c.foot == foot and c.begin == begin)
        strike = next((c for c in others if begin < c.begin < end), None)
        before = any(begin - duration < c.begin < begin for c in others)
        known = own.lifted and strike is not None and before
        both = sum(max(min(own.end, c.end) - max(begin, c.begin), 0.0) for c in others)
        stance = 100.0 * (own.end - begin) / duration if own.lifted else np.nan
        found = {
            "stride_time_s": duration,
            "step_time_s": end - strike.begin if strike else np.nan,
            "cadence_per_min": 120.0 / duration,
            "stance_percent": stance,
            "swing_percent": 100.0 - stance,
            "double_support_percent": 100.0 * both / duration if known else np.nan,
        }
        if not self.heels:
            return found
        names = ("speed_m_per_s", "stride_length_m", "step_length_m", "step_width_m")
        lengths = dict.fromkeys(names, np.nan)
        if foot in self.heels:
            first, last = self._heel(foot, begin), self._heel(foot, end)
            stride = last - first
            size = float(np.linalg.norm(stride))
            ahead = stride / size if size > PROGRESS else np.array([1.0, 0.0])
            lengths |= {"stride_length_m": size, "speed_m_per_s": size / duration}
            if strike is not None and strike.foot in self.heels:
                other = self._heel(strike.foot, strike.begin)
                aside = (other - first) @ np.array([-ahead[1], ahead[0]])
                lengths["step_length_m"] = float((last - other) @ ahead)
                lengths["step_width_m"] = abs(float(aside))
        return found | lengths

    def _heel(self, foot: str, instant: float) -> Array:
        """Place of a heel from above, (2,) [m], on the belt if there is one."""
        place = between(np.array([instant]), self.time, np.asarray(self.heels[foot])[:2])[:, 0]
        return place + self._belt * instant


def _in_all(motion: Reconstruction, plates: Mapping[str, Wrench]) -> NDArray[np.bool_]:
    """Samples of the markers (N,) at which the motion and all plates are known."""
    spans = [motion.kinematics.span, *((p.time[0], p.time[-1]) for p in plates.values())]
    begins, ends = zip(*spans, strict=True)
    found = (motion.markers.time >= max(begins)) & (motion.markers.time <= min(ends))
    if found.sum() < 2:
        raise ValueError("markers and plates share no time; are they of one trial?")
    return found


def _joint_columns(joints: JointLoads) -> tuple[dict[str, Array], set[str]]:
    """Columns of joints, and names of those that forces of the ground load."""
    skeleton = joints.inverse.skeleton
    columns = {
        name.replace("knee_flexion", "knee_extension"): row  # that is what is positive
        for name, row in joints.columns().items()
        if name.startswith(tuple(skeleton.joints))
    }
    legs = tuple(joint for joint in skeleton.joints if skeleton.bears(joint))
    return columns, {n for n in _loads(columns) if n.startswith(legs)}


def _is_left(foot: str) -> bool:
    return foot.lower().startswith("l")


def _whole(contact: Contact) -> bool:
    """Whether a plate shows a stance from heel strike to toe-off."""
    return contact.measured and contact.struck and contact.lifted


def _contacts(time: Array, plates: Mapping[str, Wrench], feet: Mapping[str, Any]) -> list[Contact]:
    """Contacts from plates, completed by those from heels and toes where these tell."""
    own = [c for foot, plate in plates.items() for c in contacts_from_wrench(foot, plate)]
    seen: list[Contact] = []
    for foot, pair in feet.items():
        try:
            seen += contacts_from_markers(foot, time, *pair)
        except ValueError as error:  # on stairs, of feet that stand
            if foot not in plates:
                raise
            warn(f"contacts of {foot!r} are those of plates alone: {error}")
    return completed(own, seen)


def _loads(names: Iterable[str]) -> frozenset[str]:
    """Names of columns that depend on forces of the ground, as they tell."""
    return frozenset(name for name in names if _LOADS.search(name))


def _measured(
    contacts: Sequence[Contact], total: Wrench, plates: Mapping[str, Wrench]
) -> list[Contact]:
    """Contacts, as measured where plates are loaded most of the time and bear what the motion needs
    in single support."""
    found = []
    for one in contacts:
        here, plate = during(one, total.time), plates.get(one.foot, total.scaled(0.0))
        loaded = is_loaded(plate, one) if here.any() else one.measured
        for other in contacts:
            if other.foot != one.foot:
                here &= (total.time < other.begin) | (total.time > other.end)
        share = (
            float(plate.force[2, here].sum() / total.force[2, here].sum()) if here.any() else 1.0
        )
        if loaded and share < BORNE:
            warn(
                f"the plates of {one.foot!r} bear {100.0 * share:.0f} % of what the motion needs "
                f"in its stance from {one.begin:.6g} to {one.end:.6g} s: it counts as beside "
                "them, its torques as unknown"
            )
        found.append(replace(one, measured=loaded and share >= BORNE))
    return found
