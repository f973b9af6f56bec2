"""Sharing the ground reaction between the feet.

The motion determines the total wrench of the ground, but not the share of each foot in double
support. In single support the foot on the ground bears all; in double support a method decides,
with force plates or without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import sub

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import Named, check_kind, finite, mapping, not_negative, shown
from kinesym.gait.checks import warn_of
from kinesym.gait.events import (
    Contact,
    Phase,
    during,
    in_order,
    is_loaded,
    phases,
    whole_strides,
)
from kinesym.gait.gaps import runs
from kinesym.gait.plates import check_lag
from kinesym.gait.shared_reaction import Sharing, bearing, check_exchanged, check_sharing
from kinesym.gait.sharing_methods import OTHERS, CorrectedForcePlates, DoubleSupport, Method
from kinesym.gait.wrench import Wrench, between, check_reaction, same_grid
from kinesym.runtime.arrays import Array

#: Share of the body weight that the total may reach while no foot is on the ground.
FLIGHT = 0.1
#: Plates under both feet that lack half of the force for longer are not late, but lack it [s].
SUPPORTED = 0.3


def share(
    total: Wrench,
    contacts: Sequence[Contact],
    plates: Mapping[str, Wrench] | None = None,
    method: Method | None = None,
    weight: float | None = None,
    flight: float = FLIGHT,
) -> Sharing:
    """Share a total wrench, known from the motion, between the feet on the ground.

    contacts : of all feet, as in `events`, and of seats, which bear what the plates under the feet
    leave, `Sharing.seats`. plates : measured wrenches by foot; a foot may have
    none, or stand beside them: a contact counts as measured if its plate is loaded most of it. They
    are resampled onto the grid of the total. method : default `CorrectedForcePlates`.
    weight : of the body [N], for reports and limits; default the mean vertical force of the total
    over whole strides, or over all of it if it has none: then it is off where the body rises and
    falls, and the report says so.
    flight : share of the weight that the total may reach with no foot on the ground; it is assigned
    to neither foot.

    The force that a plate still shows at toe-off or heel strike, below the threshold of contacts,
    is faded out over the double support. The wrenches add up to the total while a foot is on the
    ground.

    Warns where the shared centre of pressure of a foot is centimetres from that of its plate, with
    the worst stretch and a remedy, of plates that are late or early against the motion, and of
    those that are loaded while the other foot stands alone. Contacts that were found from exchanged
    plates agree with them: then only `JointLoads` and `Reconstruction.check`, which know where the
    feet are, can tell.

    Raises `ValueError` naming the interval for contacts that cannot be (see `phases`), if no foot
    is on the ground but the motion needs a force, if a plate carries less than a fifth of what the
    motion needs in single support, or both less than half of it for long, if a foot is on no plate
    while a seat bears, if a plate gives loads instead of reactions or belongs to an unknown foot,
    and for data that the method lacks.
    """
    way = CorrectedForcePlates() if method is None else method
    if isinstance(way, type) or not hasattr(way, "leading"):
        raise ValueError(
            "method is CorrectedForcePlates(), SmoothTransition() or LeastCorrection(), got "
            f"{shown(method)}"
        )
    check_kind(total, Wrench, "kinesym.gait")
    not_negative(flight, "flight")
    ordered = [contact for contact in in_order(contacts) if not contact.seat]
    in_turn = phases(ordered)
    feet = sorted({contact.foot for contact in ordered})
    given = _on_grid(total, {} if plates is None else mapping(plates, "plates"), feet)
    warn_of(check_exchanged(total, in_turn, given))
    body, weighed = _weight(total, weight, ordered)
    measured = {
        foot: [c for c in ordered if c.foot == foot and is_loaded(plate, c)]
        for foot, plate in given.items()
    }
    limit = flight * body
    seated = [contact for contact in in_order(contacts) if contact.seat]
    seats = _on_seats(seated, total, in_turn, given, measured)
    on_feet = reduce(sub, seats.values(), total)

    def by(method: Method) -> Sharing:
        found = _shared(on_feet, ordered, feet, given, measured, method, body, limit)
        return replace(found, total=total, seats=Named("seat", seats))

    result = replace(by(way), weighed=weighed)
    full = mapping({} if plates is None else plates, "plates")  # on their own grids
    warn_of(check_lag(total.time, total.force, full, result.measured) if full else [])
    others = {name: one for name, one in OTHERS.items() if one != way}
    warn_of(check_sharing(result, others, by))
    return result


def _on_seats(
    contacts: Sequence[Contact],
    total: Wrench,
    in_turn: Sequence[Phase],
    plates: Mapping[str, Wrench],
    measured: Mapping[str, list[Contact]],
) -> dict[str, Wrench]:
    """Wrenches on the body of seats, by name: what plates under all feet leave while they are
    pressed, one at a time."""
    time, left = total.time, np.ones(len(total.time))
    found = {contact.foot: Wrench.zero(time) for contact in contacts}
    for contact in contacts:
        here = during(contact, time)
        when = f"from {contact.begin:.6g} to {contact.end:.6g} s"
        for phase in in_turn:
            over = phase.begin < contact.end and phase.end > contact.begin
            off = [f for f in phase.feet if over and not _plate_of(f, phase, plates, measured)]
            if off:
                raise ValueError(
                    f"the seat {contact.foot!r} bears {when}, where {off[0]!r} stands on no plate, "
                    "so that what it bears is not known; contact_forces(..., seats=) tells it from "
                    "where the body presses it"
                )
        if (here & (left == 0.0)).any():
            raise ValueError(f"the seat {contact.foot!r} bears {when}, another at the same time")
        left[here] = 0.0
        rest = reduce(sub, plates.values(), total).scaled(here.astype(np.float64))
        found[contact.foot] = found[contact.foot] + rest
    return found


def _shared(
    total: Wrench,
    ordered: Sequence[Contact],
    feet: Sequence[str],
    given: Mapping[str, Wrench],
    measured: Mapping[str, list[Contact]],
    way: Method,
    body: float,
    flight: float,
) -> Sharing:
    """Sharing by a method; arguments are checked."""
    time, rows, found = total.time, total.rows, phases(ordered)
    shared = {foot: np.zeros_like(rows) for foot in feet}
    seen, left = np.zeros(len(time), dtype=bool), np.ones(len(time), dtype=bool)
    slack = _slack(time)
    for phase in found:
        # The end belongs to a phase too: there both agree, and the record ends with one.
        within = np.flatnonzero(left & (time >= phase.begin - slack) & (time <= phase.end + slack))
        if not phase.feet or not len(within):
            continue
        left[within] = False
        known = [_plate_of(foot, phase, given, measured) for foot in phase.feet]
        seen[within] = all(plate is not None for plate in known)
        if phase.double:
            _check_borne(phase, total, known, within)
            double = _double_support(total, ordered, phase, within, known)
            leading = way.leading(double)
            shared[phase.feet[1]][:, within] = leading
            shared[phase.feet[0]][:, within] = rows[:, within] - leading
        else:
            if known[0] is not None:
                _check_plate(phase, total, given, within)
            shared[phase.feet[0]][:, within] = rows[:, within]
    _check_flight(total, left, flight)
    wrenches = {foot: Wrench(time, part[:3], part[3:]) for foot, part in shared.items()}
    named = Named("foot", wrenches), Named("plate under the foot", given)
    return Sharing(total, *named, seen, tuple(found), body)


def _weight(total: Wrench, given: float | None, contacts: Sequence[Contact]) -> tuple[float, str]:
    """Body weight [N], by default the mean vertical force of the longest part of whole strides, and
    how it is known."""
    time, vertical = total.time, total.force[2]
    if given is not None:
        weight, said = finite(given, "the weight of the body"), "as given"
    else:
        found = whole_strides(contacts, time[0], time[-1])
        span = max(found, key=lambda ends: ends[1] - ends[0], default=None)
        begin, end = span or (time[0], time[-1])
        what = "over whole strides" if span else "as no whole stride is in it"
        within = (time >= begin) & (time < end) if span else np.ones(len(time), dtype=bool)
        weight = float(vertical[within].mean())
        said = f"the mean vertical force from {begin:.3f} to {end:.3f} s, {what}"
    if not weight > 0.0:
        raise ValueError(
            f"the weight of the body must be positive, got {weight:.4g} N; the vertical force of "
            "the ground is upwards"
        )
    return weight, said


def _double_support(
    total: Wrench,
    contacts: Sequence[Contact],
    phase: Phase,
    within: NDArray[np.intp],
    known: Sequence[Wrench | None],
) -> DoubleSupport:
    """Input of a method, with plates that are zero where their foot is off the ground."""
    (begin, end), time = (phase.begin, phase.end), total.time
    part = np.clip((time[within] - begin) / (end - begin), 0.0, 1.0)
    slack = _slack(time)
    came = [c for c in contacts if c.begin == begin]
    went = [c for c in contacts if c.end == end]
    struck = begin >= time[0] - slack and all(c.struck for c in came)
    lifted = end <= time[-1] + slack and all(c.lifted for c in went)
    first = 0.0 if struck and len(came) == 1 else None
    last = float(went[0].foot == phase.feet[0]) if len(went) == 1 and went[0].lifted else None
    limits, seen = np.array([begin, end]), (struck, lifted)
    ends = between(limits, time, total.rows).T
    plates: list[Array | None] = [None, None]
    mismatch = [np.zeros(6), np.zeros(6)]
    for k, wrench in enumerate(known):
        if wrench is not None:
            # the leading foot comes from the air, one of them leaves at the end
            values = between(limits, wrench.time, wrench.rows).T
            air = np.array([k == 1, k == (last == 0.0)]) * seen  # not free where the record cuts
            fading = np.array([1.0 - part, part]) * air[:, None]
            plates[k] = wrench.rows[:, within] - values.T @ fading
            mismatch[k] = (ends[k] - values[k]) * seen[k]
    return DoubleSupport(
        phase=part,
        feet=(phase.feet[0], phase.feet[1]),
        total=total.rows[:, within],
        at_strike=ends[0],
        plates=(plates[0], plates[1]),
        mismatch=(mismatch[0], mismatch[1]),
        interval=(begin, end),
        ends=(first, last),
    )


def _on_grid(total: Wrench, plates: Mapping[str, Wrench], feet: Sequence[str]) -> dict[str, Wrench]:
    """Plates on the grid of the total, their signs and names checked."""
    found = {}
    for foot, plate in plates.items():
        if foot not in feet:
            raise ValueError(
                f"there is a plate for the foot {foot!r}, but contacts only of {', '.join(feet)}"
            )
        check_kind(plate, Wrench, "kinesym.gait")
        check_reaction(plate, f"the force plate of {foot!r}")
        found[foot] = plate if same_grid(plate.time, total.time) else plate.at(total.time)
    return found


def _plate_of(
    foot: str, phase: Phase, plates: Mapping[str, Wrench], measured: Mapping[str, list[Contact]]
) -> Wrench | None:
    """The plate under a foot during a phase, if there is one."""
    on_it = any(c.begin <= phase.begin and c.end >= phase.end for c in measured.get(foot, []))
    return plates[foot] if on_it else None


def _check_plate(
    phase: Phase, total: Wrench, plates: Mapping[str, Wrench], within: NDArray[np.intp]
) -> None:
    """Raise `ValueError` for a plate that carries too little in single support."""
    (foot,) = phase.feet
    shown, needed = (float(w.force[2, within].mean()) for w in (plates[foot], total))
    if shown < 0.2 * needed:
        other = bearing(plates, foot, within, needed)
        raise ValueError(
            f"the plate of {foot!r} shows Fz = {shown:.0f} N from {phase.begin:.6g} to "
            f"{phase.end:.6g} s, where it stands alone and the motion needs {needed:.0f} N: "
            + (
                f"that of {other!r} bears it, are they exchanged?"
                if other
                else "check units and axes"
            )
        )


def _check_borne(
    phase: Phase, total: Wrench, plates: Sequence[Wrench | None], within: NDArray[np.intp]
) -> None:
    """Raise `ValueError` for plates under both feet that carry too little for long."""
    shown = sum((w.force[2, within] for w in plates if w), np.zeros(len(within)))
    low = shown < 0.5 * total.force[2, within]
    for run in runs(low) if None not in plates else ():
        begin, end = total.time[within[[run.start, run.stop - 1]]]
        if end - begin > SUPPORTED:
            raise ValueError(
                f"plates under both feet show Fz = {shown[run].mean():.0f} N from {begin:.6g} to "
                f"{end:.6g} s, where the motion needs {total.force[2, within[run]].mean():.0f} N: "
                'if a chair or the like bears the rest, add Contact("chair", begin, end, seat=True)'
                "; else check units"
            )


def _check_flight(total: Wrench, left: NDArray[np.bool_], limit: float) -> None:
    """Raise `ValueError` for a force in flight that is more than noise."""
    over = left & (np.linalg.norm(total.force, axis=0) > limit)
    if over.any():
        k = np.flatnonzero(over)
        stop = k[np.argmax(np.diff(k, append=k[-1] + 2) > 1)]
        largest = k[0] + int(np.argmax(np.abs(total.force[2, k[0] : stop + 1])))
        begin, end = total.time[k[0]], total.time[stop]
        when = f"from {begin:.6g} to {end:.6g} s" if stop > k[0] else f"at t = {begin:.6g} s"
        raise ValueError(
            f"no foot is in contact {when} but "
            f"the motion needs F_z = {total.force[2, largest]:.0f} N; add the contact or cut the "
            "record there; in flights of a run, flight=0.5 of `share` allows what is left"
        )


def _slack(time: Array) -> float:
    """Tolerance of equal instants [s]."""
    return 1e-6 * float(np.diff(time).min())
