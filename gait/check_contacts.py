"""Checks of contacts: who sits or leans on what is not said, and landings whose impacts a low-pass
has taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinesym.gait.checks import Finding
from kinesym.gait.events import Contact, contacts_from_wrench, phases
from kinesym.gait.gaps import runs
from kinesym.gait.pressure import PressureTransfer
from kinesym.gait.sharing import FLIGHT
from kinesym.gait.wrench import PRESSING, Wrench, between
from kinesym.runtime.arrays import Array

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


def check_seated(
    total: Wrench, contacts: Sequence[Contact], feet: PressureTransfer, weight: float
) -> None:
    """Raise `ValueError` where the total on the feet stays off them: something else bears, too."""
    time, centre = total.time, total.cop(feet.middle(feet.places, total.time))
    sure = total.force[2] > PRESSING * weight
    stays = bool((total.force[2] >= FLIGHT * weight).all())  # landings are smeared by a low-pass
    for contact in contacts:
        sure &= (not contact.seat) | (time < contact.begin) | (time > contact.end)
    for phase in phases(contacts):
        within = sure & (time >= phase.begin) & (time <= phase.end)
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
