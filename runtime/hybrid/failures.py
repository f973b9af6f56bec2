"""Messages on hybrid runs that cannot begin, or ended early."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.hybrid.simulation import (
    HybridIVP,
    RawTrajectory,
    points,
    simulate,
)
from kinesym.runtime.results.event_log import EventRecord, HybridState
from kinesym.runtime.simulation.stepper import growth, mapped
from kinesym.runtime.status import Switching

#: Height up to which a contact is at the ground [m]: the root of the machine epsilon.
HYSTERESIS = 2.0**-26
#: Interval between events that is more than rounding, as a share of their time.
SEEN = 1e-10
#: Interval between events that happen at one time, as a share of it.
TOGETHER = 1e-13
#: Last intervals that may be dominated by rounding all the same.
_NOISY = 12
#: Time since the last entry of the log after which located events have changed nothing [s].
QUIET = 1e-9


def integrated(ivp: HybridIVP, stop: threading.Event | None = None) -> RawTrajectory:
    """Simulate as `simulate`; raises `ValueError` if an expression is not finite at the start."""
    found = simulate(ivp, stop)
    if found.status is Switching.NO_NUMBER and found.final.time == ivp.start.time:
        strange = no_numbers(ivp, ivp.start)
        if strange:
            raise ValueError(
                f"no finite number at the start, t = {ivp.start.time:g} s: {', '.join(strange)}"
            )
    return found


def explain(run: RawTrajectory) -> str:
    """Message on a run that ended early or grew beyond any plausible size; empty if it did not."""
    ivp, final, status = run.ivp, run.final, run.status
    at = f"at t = {final.time:.9g} s"
    happened = run.happened
    if status is Switching.DONE:
        _, words = growth(ivp.about.states, run.states, ivp.time)
        return Switching.GREW.said(growth=words) if words else _unseen(run)
    before = run.happened[-1].rows[0] if _reset(run) else final.x
    there = ", ".join(
        f"{name} = {value:.6g}" for name, value in zip(ivp.about.states, before, strict=True)
    )
    if status in (Switching.NO_NUMBER, Switching.STEP, Switching.NEWTON):
        names = _reset(run) or no_numbers(ivp, final) or _soon(ivp, final)
        if status is Switching.NO_NUMBER or names:
            told = ", ".join(names) or "something within the next step"
            return Switching.NO_NUMBER.said(at=at, names=told, there=there)
    last = "; ".join(str(e) for e in happened[-20:])
    if status in (Switching.CHATTER, Switching.STUCK) and ivp.about.contacts:
        buried = _buried(ivp, final)
        if buried:
            contact, depth = buried
            return Switching.BURIED.said(contact=contact, depth=depth, at=at, last=last)
        quiet = not (happened and happened[-1].time >= final.time - QUIET)
        if quiet or status is Switching.STUCK:  # the located events changed nothing
            return stuck(ivp, final, at)
    events = [e for e in happened if e.kind == "event"]
    if status in (Switching.CHATTER, Switching.SLIDES) and events:
        who = ", ".join(dict.fromkeys(e.name for e in events[-20:]))
        found = accumulation(np.array([e.time for e in events]))
        if found:
            limit, ratio = found
            return Switching.ACCUMULATES.said(names=who, ratio=ratio, limit=limit, there=there)
        if status is Switching.SLIDES:
            return status.said(names=who, at=at, there=there)
    event = happened[-1].name if happened else "an event"
    remedy = _remedy(happened, ivp.per_second)
    return status.said(at=at, there=there, event=event, remedy=remedy, last=last)


def _unseen(run: RawTrajectory) -> str:
    """Message on zeros of guards that may have been missed between samples, or that events left
    from the start on; empty if there are none."""
    passed, when = run.run.passed
    if passed >= 0:
        return Switching.PASSED.said(event=run.ivp.about.events[passed].name, when=when)
    beyond, when, number = run.run.unseen
    if not beyond:
        return ""
    event = run.ivp.about.events[number].name
    return Switching.UNSEEN.said(event=event, when=when, beyond=beyond)


def accumulation(times: Array) -> tuple[float, float] | None:
    """Accumulation point of events (Zeno behaviour): its time, and the ratio of an interval to the
    one before, the mean over a cycle of up to four; None if intervals do not shrink so."""
    times = times[np.append(True, np.diff(times) > TOGETHER * np.abs(times[1:]))]
    gaps = np.diff(times)
    seen = np.flatnonzero(gaps > SEEN * np.abs(times[1:]))
    for end in seen[: -_NOISY - 1 : -1] + 1:  # the last ones may be rounding
        for cycle in range(1, 5):
            recent = gaps[max(end - 2 * cycle - 3, 0) : end]
            if len(recent) < 2 * cycle + 3 or not recent.all():
                break
            ratios = recent[cycle:] / recent[:-cycle]
            if ratios.max() < 1.0 - 1e-4 and np.ptp(ratios) < 0.02 * ratios.max():
                ratio = float(ratios.mean())
                rest = float(recent[-cycle:].sum()) * ratio / (1.0 - ratio)
                return float(times[end]) + rest, ratio ** (1.0 / cycle)
    return None


def _reset(run: RawTrajectory) -> list[str]:
    """Names of states and modes that the last event has set to a value that is not finite."""
    found = []
    for event in (e for e in run.happened[-1:] if e.kind == "event"):
        lost = np.isfinite(event.rows[0]) & ~np.isfinite(event.rows[1])
        found += [name for name, gone in zip(event.states, lost, strict=True) if gone]
        found += [
            name
            for name, value in zip(run.ivp.about.modes, run.final.modes, strict=True)
            if not np.isfinite(value)
        ]
        found = [f"the value to which {event.name} sets {name}" for name in found]
    return found


def _soon(ivp: HybridIVP, state: HybridState) -> list[str]:
    """Names of expressions that are not finite a little later on a straight line, as in the failed
    step."""
    rate = mapped(ivp.library, "smooth", _point(ivp, state), len(state.x))[:, 0]
    for h in (ivp.time[-1] - ivp.time[0]) * 2.0 ** np.arange(-50.0, 0.0):
        later = replace(state, time=state.time + h, x=state.x + h * rate)
        names = no_numbers(ivp, later)
        if names:
            return [f"{name} within the next step" for name in names]
    return []


def _buried(ivp: HybridIVP, state: HybridState) -> tuple[str, float] | None:
    """Contact that a reset or a mode has put below the ground, and its depth [m]."""
    heights, _ = contact_numbers(ivp, state)
    for contact, height, how in zip(ivp.about.contacts, heights, state.contacts, strict=True):
        if how != 1 and height < -1e3 * HYSTERESIS:
            return contact.name, -float(height)
    return None


def _remedy(happened: Sequence[EventRecord], per_second: int) -> str:
    """Remedy against chattering of contacts, or of events."""
    if any(event.kind == "event" for event in happened[-2:]):
        return (
            "give events that switch back and forth a larger scale, or guards further apart; "
            "if they are meant to be so frequent, raise per_second of the Hybrid, which is "
            f"{per_second}"
        )
    return "raise v_stop, or set restitution 0"


def stuck(ivp: HybridIVP, final: HybridState, at: str) -> str:
    """Message on contacts at the ground for which no forces are consistent."""
    contacts = ivp.about.contacts
    here = np.flatnonzero((contact_numbers(ivp, final)[0] <= HYSTERESIS) | (final.contacts == 1))
    laws = {contacts[k].law for k in here}
    status = (
        Switching.NO_STICKING
        if "stick" in laws
        else Switching.NO_FRICTION
        if "coulomb" in laws
        else Switching.STUCK
    )
    return status.said(contacts=", ".join(contacts[k].name for k in here), at=at)


def _point(ivp: HybridIVP, state: HybridState) -> list[Array]:
    """Arguments of the kernels at a state, without contact forces."""
    given = [signal([state.time])[0] for signal in ivp.inputs.values()]
    u = np.concatenate([given, state.modes, np.zeros(ivp.rows)])
    return points(ivp, state.x[:, None], u[:, None], np.array([state.time]))


def no_numbers(ivp: HybridIVP, state: HybridState) -> list[str]:
    """Names of expressions that are not finite at a state."""
    about, point = ivp.about, _point(ivp, state)
    kernels = {
        "smooth": [f"the rate of {x}" for x in about.states],
        "guards": [f"the guard of {e.name}" for e in about.events],
        "contact": [f"the height of {c.name}" for c in about.contacts],
    }
    found = []
    for kernel, names in kernels.items():
        if names:
            total = about.sizes[kernel]
            values = mapped(ivp.library, kernel, point, total)[: len(names), 0]
            found += [
                name for name, value in zip(names, values, strict=True) if not np.isfinite(value)
            ]
    return found


def contact_numbers(ivp: HybridIVP, state: HybridState) -> tuple[Array, Array]:
    """Heights [m] of contacts and their rates [m/s]."""
    count = len(ivp.about.contacts)
    if not count:
        return np.empty(0), np.empty(0)
    out = mapped(ivp.library, "contact", _point(ivp, state), ivp.about.sizes["contact"])
    return out[:count, 0], out[count : 2 * count, 0]


def check_start(ivp: HybridIVP) -> None:
    """Raise `ValueError` for contacts that are inconsistent at the start, naming them."""
    if not ivp.about.contacts:
        return
    heights, _ = contact_numbers(ivp, ivp.start)
    for contact, height, state in zip(ivp.about.contacts, heights, ivp.start.contacts, strict=True):
        if height < -HYSTERESIS * (2.0 if state == 2 else 1.0):
            raise ValueError(f"contact {contact.name!r} starts {-height:.3g} m below the ground")
        if state == 1 and height > HYSTERESIS:
            raise ValueError(
                f"contact {contact.name!r} is declared active but is {height:.3g} "
                "m above the ground"
            )
