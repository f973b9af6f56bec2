"""Contacts of the feet with the ground, stairs and boxes, and of the body with seats: from a
motion, and in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_choice, naming
from kinesym.base.files import replacing
from kinesym.gait.checks import Finding
from kinesym.gait.events import (
    Contact,
    contacts_from_markers,
    contacts_from_wrench,
    distance_to_line,
    during,
    in_order,
    phases,
)
from kinesym.gait.gaps import runs
from kinesym.gait.pressure import PressureTransfer
from kinesym.gait.sharing import FLIGHT
from kinesym.gait.tables import File, check_columns, csv_cells, numbers_of
from kinesym.gait.wrench import PRESSING, Wrench, between
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.low_pass import low_pass

#: Time by which contacts from heels and toes are extended at either end [s].
WIDER = 0.03
#: Duration above which a swing must bring the foot farther, by `FARTHER` [s].
SWING = 0.8
#: Least displacement of the foot in a long swing, seen from the other foot [m].
FARTHER = 0.15
#: Least rise of the toe in a swing [m].
RISE = 0.04
#: Height above its lowest point below which a heel or toe may rest [m].
LOW = 0.03
#: Speed below which a heel or toe may rest [m/s].
SLOW = 0.3
#: Cutoff of the low-pass filter through which both are seen [Hz].
CUTOFF = 7.0
#: Shortest contact, and shortest gap between contacts, that counts [s].
SHORTEST = 0.1
#: Largest height difference of markers on two feet that stand, or lowest points of both [m].
ALIKE = 0.05
#: Least height of a stair or box [m].
STEP = 0.08
#: A foot that rests above the floor stands there if the centre of pressure comes this much nearer
#: to it than to the others [m], for `SHORTEST` at least: else it may be held up.
NEARER = 0.1
#: Least height by which who stands up leaves a seat [m].
RAISED = 0.15
#: Distance of the centre of pressure behind all heels, or before all toes, from which on something
#: else bears, too [m]. Of motions without markers on the trunk it is off by 0.1 m, in steps.
OFF = 0.12
#: Time for which it is so, of who stands on one foot, as in a step [s].
LONG = 0.5
#: The same of who stands on both feet, for longer than `LONG` [s].
SHORT = 0.15
#: Shortest flight after which someone lands on both feet, rather than runs [s].
FALL = 0.2
#: The same of a landing on one foot [s].
HOP = 0.3
#: Cutoff of the motion from which on it shows landings well [Hz].
SHARP = 10.0
#: How much a low-pass at f shortens a flight, times f [-].
SPREAD = 0.35
#: Time around a landing in which the force rises [s].
EARLY = 0.12


def flying(total: Wrench, weight: float) -> NDArray[np.bool_]:
    """Flight phases: samples at which no foot carries load."""
    return np.asarray(total.force[2] < FLIGHT * weight)


def contacts_of(total: Wrench, feet: PressureTransfer, weight: float) -> list[Contact]:
    """Contacts of feet with the ground, from the total that the motion needs and the feet.

    Where the total vanishes someone runs or jumps. Feet that rest at several heights, each while
    the load is over it, are on stairs. In walking they are found from heels and toes, see
    `contacts_from_markers`. Else, who stands, squats or lifts a foot for long, a foot is on the
    ground while its heel or toe rests as low as it comes. Raises `ValueError` if none ever does.
    """
    if flying(total, weight).any():
        return _in_flights(total, feet, weight)
    rows = _on_steps(total, feet) or _walking(feet)
    if rows is None:
        courses = {foot: _courses(foot, feet) for foot in feet.places}
        rests = {f: [_rests(feet.time, *one) for one in pair] for f, pair in courses.items()}
        rows = [c for f, down in rests.items() for c in _while(f, feet.time, np.any(down, axis=0))]
    if not rows:
        first, last = feet.time[[0, -1]]
        raise ValueError(
            f"no heel or toe rests on the ground from {first:.6g} to {last:.6g} s; check the "
            "markers of the feet, or say when each is on the ground: contacts="
        )
    return _joined(rows, *(float(end) for end in total.time[[0, -1]]))


def _in_flights(total: Wrench, feet: PressureTransfer, weight: float) -> list[Contact]:
    """Contacts where the total presses on the ground, of the foot that is lower, or of both."""
    found, courses = [], {foot: _courses(foot, feet) for foot in feet.places}
    for stance in contacts_from_wrench("either", total, FLIGHT * weight):
        here = during(stance, feet.time)
        here[np.abs(feet.time - stance.begin).argmin()] = True  # a record may end just then
        low = {f: np.minimum(*(p[2, here] for p in feet.places[f])).mean() for f in feet.places}
        down = [foot for foot in low if low[foot] < min(low.values()) + ALIKE]
        for foot in down:
            rise = float(min(course[2, here].min() - lowest for course, lowest in courses[foot]))
            height = rise if rise > STEP else 0.0
            found.append(replace(stance, foot=foot, measured=False, height=height))
    return found


def _courses(foot: str, feet: PressureTransfer) -> list[tuple[Array, float]]:
    """Smooth courses of heel and toe of a foot (3, N), and how low each comes, or that of the other
    foot if it comes much lower [m]."""
    found = []
    for pairs in zip(*feet.places.values(), strict=True):
        smooth = {
            name: low_pass(feet.time, at, CUTOFF)
            for name, at in zip(feet.places, pairs, strict=True)
        }
        lows = {name: float(np.percentile(course[2], 2.0)) for name, course in smooth.items()}
        floor = min(lows.values())
        found.append((smooth[foot], lows[foot] if lows[foot] < floor + ALIKE else floor))
    return found


def _on_steps(total: Wrench, feet: PressureTransfer) -> list[Contact]:
    """Contacts of feet that rest at several heights, nothing if none does but on one level. How
    high a foot stands its toe tells: on stairs its heel may hang over the edge."""
    time, found, apart = feet.time, list[Contact](), {}
    for foot in feet.places:
        (heel, _), (toe, low) = _courses(foot, feet)
        slow = np.any([_speed(time, course) < SLOW for course in (heel, toe)], axis=0)
        for one in _while(foot, time, slow):
            rise = float(np.median(toe[2, during(one, time)])) - low
            found.append(replace(one, height=rise if rise > STEP else 0.0))
        centre = between(time, total.time, np.nan_to_num(total.cop(float(np.mean(toe[2])))))
        apart[foot] = distance_to_line(centre[:2], *feet.places[foot])
    loaded = [c for c in found if not c.height or _is_loaded(c, time, apart)]
    cut = [c for c in found if c not in loaded and not (c.struck and c.lifted)]  # may be loaded yet
    return loaded + cut if any(c.height for c in loaded) else []


def _is_loaded(contact: Contact, time: Array, apart: Mapping[str, Array]) -> bool:
    """Whether the load is over a foot during a contact."""
    here = during(contact, time)
    others = [row for foot, row in apart.items() if foot != contact.foot] or [np.inf + time]
    over = here & (apart[contact.foot] + NEARER < np.min(others, axis=0))
    return any(time[k.stop - 1] - time[k.start] > SHORTEST for k in runs(over))


def _walking(feet: PressureTransfer) -> list[Contact] | None:
    """Contacts from heels and toes, None if this is no walk."""
    time, found = feet.time, []
    for foot, (heel, toe) in feet.places.items():
        if np.ptp(low_pass(time, toe[2:], CUTOFF)) < RISE:
            return None
        with suppress(ValueError):  # of feet that strike or leave twice, or make no step
            found.append(contacts_from_markers(foot, time, heel, toe))
    swings = [(row[0].foot, *gap) for row in found for gap in _gaps(row, time)]
    if len(found) < len(feet.places) or any(_is_lifted(*swing, feet) for swing in swings):
        return None
    return [contact for row in found for contact in row]


def _gaps(contacts: Sequence[Contact], time: Array) -> list[tuple[float, float]]:
    """Swing intervals (begin, end) of a foot [s]: between its contacts."""
    ends = [float(time[0]), *(c.end for c in contacts)]
    return list(zip(ends, [*(c.begin for c in contacts), float(time[-1])], strict=True))


def _is_lifted(foot: str, begin: float, end: float, feet: PressureTransfer) -> bool:
    """Whether a foot is held up, for long and without coming farther than the other one."""
    heels = {name: heel[:2] for name, (heel, _) in feet.places.items()}
    others = [heel for name, heel in heels.items() if name != foot] or [0.0 * heels[foot]]
    before, after = between(np.array([begin, end]), feet.time, heels[foot] - sum(others)).T
    return bool(end - begin > SWING and np.linalg.norm(after - before) < FARTHER)


def seated(name: str, time: Array, place: Array) -> list[Contact]:
    """Contacts of a seat with the body that presses it at `place` (3, N), which rests there as low
    as it comes. Raises `ValueError` if it is never left, or not to be seen when."""
    course = low_pass(time, place, CUTOFF)
    low = float(np.percentile(course[2], 2.0))
    if course[2].max() < low + RAISED:
        raise ValueError(
            f"the place on the seat {name!r} rises by {course[2].max() - low:.2f} m only from "
            f"{time[0]:.6g} to {time[-1]:.6g} s, which does not tell when it bears; say so: "
            f"contacts= with Contact({name!r}, begin, end, seat=True)"
        )
    return [replace(one, seat=True) for one in _while(name, time, _rests(time, course, low))]


def _rests(time: Array, course: Array, low: float) -> NDArray[np.bool_]:
    """Whether a course (3, N) rests as low as it comes, (N,)."""
    return np.asarray((course[2] < low + LOW) & (_speed(time, course) < SLOW))


def _speed(time: Array, course: Array) -> Array:
    """Speeds (N,) [m/s]."""
    return np.asarray(np.linalg.norm(np.gradient(course, time, axis=1), axis=0))


def _while(foot: str, time: Array, down: NDArray[np.bool_]) -> list[Contact]:
    """Contacts of a foot for the stretches where it is `down`, without short gaps, and short
    ones."""
    whole = down.copy()
    for gap in runs(~down):
        if time[min(gap.stop, len(time) - 1)] - time[max(gap.start - 1, 0)] < SHORTEST:
            whole[gap] = True
    ends = [(float(time[k.start]), float(time[k.stop - 1])) for k in runs(whole)]
    return [
        Contact(foot, begin, end, bool(begin > time[0]), bool(end < time[-1]))
        for begin, end in ends
        if end - begin > SHORTEST
    ]


def _joined(rows: Iterable[Contact], first: float, last: float) -> list[Contact]:
    """Contacts within a span; feet that seem to change in flight meet in the middle, and one that
    seems to hop stays."""
    found: list[Contact] = []
    for after in in_order(c for c in rows if c.end > first and c.begin < last):
        before = max(range(len(found)), key=lambda k: found[k].end, default=None)
        if before is not None and after.begin > found[before].end:
            one = found[before]
            if one.foot == after.foot and abs(one.height - after.height) < ALIKE:
                found[before] = replace(one, end=after.end, lifted=after.lifted)
                continue
            middle = 0.5 * (one.end + after.begin)
            found[before] = replace(one, end=middle)
            after = replace(after, begin=middle)
        found.append(after)
    return [_wider(c, first, last) for c in found]


def _wider(contact: Contact, first: float, last: float) -> Contact:
    """A little longer at ends that were seen: where the centre of pressure lies tells the rest. A
    contact that begins or ends with a span keeps that end."""
    begin, end = contact.begin - WIDER * contact.struck, contact.end + WIDER * contact.lifted
    begin = first if begin < first <= contact.begin + WIDER else begin
    end = last if contact.end - WIDER <= last < end else end
    return replace(contact, begin=begin, end=end)


# -- checks -----------------------------------------------------------------------------------


def check_seated(
    total: Wrench, contacts: Sequence[Contact], feet: PressureTransfer, weight: float
) -> None:
    """Raise `ValueError` where the total on the feet stays off them: something else bears, too."""
    time, centre = total.time, total.cop(feet.middle(feet.places, total.time))
    sure = total.force[2] > PRESSING * weight
    stays = bool((total.force[2] >= FLIGHT * weight).all())  # landings are smeared by a low-pass
    for contact in contacts:
        sure &= ~(contact.seat & during(contact, time))
    for phase in phases(contacts):
        within = sure & during(phase, time)
        if phase.feet and phase.end - phase.begin > LONG and within.any():
            places = [feet.places[foot] for foot in phase.feet]
            pairs = [[between(time, feet.time, at) for at in pair] for pair in places]
            off = np.where(within, _off(centre, pairs), 0.0)
            for run in runs(off > OFF):
                if time[run.stop - 1] - time[run.start] > (
                    SHORT if stays and phase.double else LONG
                ):
                    raise ValueError(_words(time[run], off[run]))


def _off(centre: Array, places: Sequence[Sequence[Array]]) -> Array:
    """Distances (N,) of centres of pressure (2, N) behind all heels or before all toes [m]."""
    along = sum(toe[:2] - heel[:2] for heel, toe in places)
    along = along / np.maximum(np.linalg.norm(along, axis=0), 1e-9)
    behind = np.min([(along * heel[:2]).sum(axis=0) for heel, _ in places], axis=0)
    ahead = np.max([(along * toe[:2]).sum(axis=0) for _, toe in places], axis=0)
    at = (along * centre[:2]).sum(axis=0)
    return np.asarray(np.maximum(behind - at, at - ahead))


def _words(time: Array, off: Array) -> str:
    """Refusal for a stretch in which the centre of pressure is so far off."""
    return (
        f"the motion needs a force {off.max():.2f} m off both ends of the feet from "
        f"{time[0]:.6g} to {time[-1]:.6g} s: a chair or the like bears it, not the feet; say "
        'where it is pressed, seats={"chair": place} of contact_forces, and when, if that is '
        'not while the place rests lowest, Contact("chair", begin, end, seat=True)'
    )


def check_landings(total: Wrench, contacts: Sequence[Contact], weight: float) -> list[Finding]:
    """Landings, on both feet or from higher than in a run, whose force rises no faster than that of
    a motion does which is smoothed at a cutoff below `SHARP`.

    After an ideal low-pass at f a force that is there at once rises by 2 f of it in a second, one
    that passes at once by 2.7 f; in two computed drop jumps smoothed at 4 to 10 Hz by 1.9 to 2.2 f.
    The flight is longer than it seems by `SPREAD` / f, there to 0.03 s.
    """
    time, vertical = total.time, total.force[2]
    stances, found = contacts_from_wrench("either", total, FLIGHT * weight), []
    ends = [time[0], *(c.end for c in stances)]
    for last, stance in zip(ends, stances, strict=False):
        near = (time > stance.begin - EARLY) & (time < stance.begin + EARLY)
        if not stance.struck or near.sum() < 3:
            continue
        slope = float(np.gradient(vertical[near], time[near]).max())
        cutoff = slope / (2.0 * float(vertical[near].max()))
        flight = stance.begin - last + SPREAD / cutoff
        landed = {c.foot for c in contacts if c.begin < stance.begin + EARLY < c.end}
        limit = FALL if len(landed) > 1 else HOP
        says = (
            f"the landing at {stance.begin:.2f} s, after {flight:.2f} s in the air, is as of a "
            f"motion smoothed at about {cutoff:.0f} Hz, which takes impacts: the force around it "
            "is off by a fifth of the weight or so; smooth markers of jumps at 20 Hz, or use plates"
        )
        if flight > limit:
            whole = (stance.begin, stance.end, stance.begin)
            fault = says if cutoff < SHARP else ""
            found.append(Finding("landing", (*landed,), *whole, flight, limit, "s", fault))
    return found


# -- in a table -------------------------------------------------------------------------------


def read_contacts(path: File) -> list[Contact]:
    """Read contacts from a CSV file with columns `foot`, `begin` and `end` [s], and if there are
    stairs, boxes or seats `height` [m] and `seat`, "yes" or "no"; see `Contact`.

    One line for each time that a foot is down, as for `contact_forces(..., contacts=)`; contacts
    that begin before or end after the record are only cut there. `write_contacts` writes such a
    file. Raises `ValueError` naming the file and line for columns that lack, and for values that
    make no `Contact`.
    """
    cells = csv_cells(path)
    check_columns(path, cells, ("foot", "begin", "end"))
    numbers = numbers_of(path, cells.part(["begin", "end"]))
    lines, feet = [*cells.rows], [foot for (foot,) in cells.part(["foot"]).rows.values()]
    heights, seats = np.zeros(len(feet)), ["no"] * len(feet)
    if "height" in cells.names:
        heights = np.nan_to_num(numbers_of(path, cells.part(["height"]))[0])  # empty: the floor
    if "seat" in cells.names:
        seats = [said.strip().lower() or "no" for (said,) in cells.part(["seat"]).rows.values()]
    found = []
    for line, foot, ends, height, seat in zip(lines, feet, numbers.T, heights, seats, strict=True):
        with naming(f"{path}, line {line}"):
            check_choice(seat, ("yes", "no"), "seat")
            begin, end, rise = (float(number) for number in (*ends, height))
            found.append(Contact(foot, begin, end, height=rise, seat=seat == "yes"))
    return found


def write_contacts(path: str | Path, contacts: Iterable[Contact]) -> None:
    """Contacts as a CSV file in all digits, in order, such as a start to be mended; see
    `read_contacts`. Whether they were struck and lifted is not in it: it follows from the
    record."""
    ordered = in_order(contacts)
    rows = [["foot", "begin", "end"]]
    rows += [[c.foot, repr(float(c.begin)), repr(float(c.end))] for c in ordered]
    if any(c.height or c.seat for c in ordered):  # else as files always were
        more = [[repr(float(c.height)), "yes" if c.seat else "no"] for c in ordered]
        rows = [row + added for row, added in zip(rows, [["height", "seat"], *more], strict=True)]
    with replacing(Path(path)) as part:
        part.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
