"""Ground forces under each foot from the motion alone, without force plates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import sub
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import Named, check_kind, finite, mapping
from kinesym.base.notebook import Displayed
from kinesym.gait.checks import warn_of
from kinesym.gait.contacts import check_landings, check_seated, contacts_of, flying, seated
from kinesym.gait.events import Contact, Feet, distance_to_line, during, in_order, nearest_on_line
from kinesym.gait.frames import DataFrame, by_foot
from kinesym.gait.pressure import HEEL, STANDING, PressureTransfer, point_forces, upwards
from kinesym.gait.shared_reaction import Sharing
from kinesym.gait.sharing import FLIGHT, share
from kinesym.gait.sharing_methods import Method
from kinesym.gait.wrench import Wrench, between, vectors
from kinesym.runtime.arrays import AXES, Array, check_span
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.summary import samples

#: Lever that converts an error of the total's moment to one of the force [m]: about the height of
#: the mass centre.
LEVER = 1.0
#: Standard deviation of events from markers [s].
TIMING = 0.016
#: Standard deviation of the share of a foot in the middle of a double support [-].
SHARE = 0.1
#: Default error of the centre of pressure in double support, without single support to estimate it
#: from, as in walks from a video [m].
ASIDE = 0.06
#: Standard deviation of the horizontal force of a seat, taken for none, over the vertical one [-].
FRICTION = 0.05
#: Largest distance of the centre of pressure from the line from heel to toe [m].
REACH = 0.03
#: Largest force that may remain in a flight, as a share of the weight [-].
LEFT = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class ContactForces(Displayed):
    """Forces of the ground on each foot that a motion needs, with standard errors.

    wrenches : by foot, about the origin of the world; their centres of pressure are under the foot.
    sharing : how the total, without what seats bear, is shared before they are put there.
    contacts : of the feet with the ground, and of seats. std : of the force on each foot and seat,
    (3, N) [N]. astray : how far the centre of pressure of the total lies off the foot that stands
    alone, root mean square [m]: how much the motion can be trusted. seats : wrenches of chairs and
    the like on the body, by name.
    """

    wrenches: Mapping[str, Wrench]
    sharing: Sharing
    contacts: tuple[Contact, ...]
    std: Mapping[str, Array]
    astray: float
    seats: Mapping[str, Wrench]

    def __getitem__(self, foot: str) -> Wrench:
        """The wrench of a foot or seat; `KeyError` suggests a name for an unknown one."""
        return self.seats[foot] if foot in self.seats else self.wrenches[foot]

    @property
    def time(self) -> Array:
        """Instants (N,) [s]."""
        return self.sharing.total.time

    def __repr__(self) -> str:
        return f"<contact forces of {', '.join(self.wrenches)}: {samples(self.time)}>"

    def __str__(self) -> str:
        weight, together = self.sharing.weight, {**self.wrenches, **self.seats}
        total = sum(float(wrench.force[2].mean()) for wrench in together.values())
        lines = [
            f"{self!r}",
            f"body weight {weight:.0f} N, mean vertical force {total:.0f} N",
            f"centre of pressure {1e3 * self.astray:.0f} mm off the foot that stands alone (rms)"
            if np.isfinite(self.astray)
            else "no foot stands alone, which would tell how far the motion can be trusted",
        ]
        for foot, wrench in together.items():
            peak = int(wrench.force[2].argmax())
            where = "pressed" if foot in self.seats else "on the ground"
            down = [f"{c.begin:.2f} ... {c.end:.2f}" for c in self.contacts if c.foot == foot]
            lines.append(
                f"{foot:8} vertical force up to {wrench.force[2, peak]:.0f} ± "
                f"{2.0 * self.std[foot][2, peak]:.0f} N; {where} "
                + (f"{', '.join(down)} s" if down else "never")
            )
            steps = sorted({round(c.height, 2) for c in self.contacts if c.foot == foot} - {0.0})
            lines[-1] += f", at heights of {', '.join(map(str, steps))} m" if steps else ""
        return "\n".join(lines)

    def to_pandas(self) -> DataFrame:
        """Force [N] and moment about the origin [N m] by foot, with standard errors of the force
        (`std_x`, ...), by time [s]."""
        found = by_foot({foot: self[foot].to_pandas() for foot in self.std})
        for foot, rows in self.std.items():
            for axis, row in zip(AXES, rows, strict=True):
                found[foot, f"std_{axis}"] = row
        return found

    def plot(self, measured: Mapping[str, Wrench] | None = None) -> Any:
        """Force forwards, to the left and upwards by foot, with bands of two standard errors, but
        that the ground does not pull; measured : plates that were held back, by foot."""
        figure, axes = subplots(
            3, len(self.std), sharex=True, sharey="row", squeeze=False,
            figsize=(5.5 * len(self.std), 6.6),
        )  # fmt: skip
        for k, (foot, column) in enumerate(zip(self.std, axes.T, strict=True)):
            for row, panel in enumerate(column):
                force, band = self[foot].force[row], 2.0 * self.std[foot][row]
                panel.plot(self.time, force, color=f"C{k}", lw=1.4, label="from motion")
                low = np.maximum(force - band, 0.0 if AXES[row] == "z" else -np.inf)
                panel.fill_between(self.time, low, force + band, color=f"C{k}", alpha=0.25, lw=0)
                if measured is not None and foot in measured:
                    plate = measured[foot]
                    here = (plate.time >= self.time[0]) & (plate.time <= self.time[-1])
                    panel.plot(
                        plate.time[here], plate.force[row, here], "k:", lw=1.2, label="plate"
                    )
                panel.set_ylabel(f"force {AXES[row]} [N]")
            column[0].set_title(foot, fontsize="medium")
            column[0].legend(fontsize="small")
        figure.supxlabel("time [s]")
        return figure


def contact_forces(
    total: Wrench,
    time: ArrayLike,
    feet: Feet,
    *,
    contacts: Sequence[Contact] | None = None,
    method: Method | None = None,
    weight: float | None = None,
    height: float = 0.0,
    mass_std: float = 0.02,
    seats: Mapping[str, ArrayLike] | None = None,
) -> ContactForces:
    """Ground forces under each foot from the motion alone, walking or running.

    Parameters
    ----------
    total : the wrench that the motion needs (N,), such as `needed.total` of `Body.inverse`, or
        `ks.ground_reaction` of a tree.
    time, feet : instants (M,) [s] of places of heel and toe by foot, (3, M) each [m], as measured,
        gaps filled: smoothed markers strike late. Best over a little more than the total.
    contacts : of the feet and seats, by default from the motion. Where the total vanishes the
        person runs or jumps: forces above a tenth of the weight are contacts of the foot that is
        lower, or of both that are equally low. Feet that rest at several heights, more than 8 cm
        apart, are on stairs or a box if the centre of pressure goes over to each, above its lowest
        point by as much as its toe. Feet that strike and leave by turns walk, unless one is up for
        more than 0.8 s and comes down where it was, seen from the other: from heels and toes, see
        `contacts_from_markers`. Else, in standing, squats, on one leg, a foot is down while its
        heel or toe rests within 3 cm of the lowest that it, or the other foot, comes to: on level
        ground. `read_contacts` reads a table of them.
    method : of sharing in double support. By default points under the feet push over all of the
        record, only up and only in contact, with forces that change no faster than the total and
        its centre of pressure need; horizontal forces are then those of `PressureTransfer`.
    weight : of the body [N], default the mean vertical force. height : of the floor [m].
    mass_std : standard deviation of the mass, as a share of it.
    seats : by the name of a chair, where the body presses it (3, M) [m], such as the middle of the
        hips. It bears while this place rests within 3 cm of its lowest, or as contacts with
        `seat=True` say, straight upwards, as far as the centre of pressure of the total lies off
        the feet.

    Returns
    -------
    A `ContactForces`; a foot without contact bears nothing. Forces of feet and seats add up to that
    of the total. Their moments do not quite, as centres of pressure that lie more than 3 cm beside
    the line from heel to toe are moved there: the remainder that the motion needs is left at the
    pelvis, `JointLoads.residual`, with what seats bear unless `joints` has it, too.

    Warns of landings whose impacts a low-pass of the motion has taken.

    Standard errors add squares of four: the motion, from how far the centre of pressure of the
    total lies off the foot that stands alone (over a lever of 1 m), the mass, events that are 16 ms
    early or late, and a tenth of the vertical force in the middle of a double support; of who
    stands on both feet the error of the centre of pressure over the distance of these, if more, and
    likewise of who sits. `benchmarks/contact_forces.py` judges them by plates.

    Raises `ValueError` for shapes, times of the total outside those of the feet, feet that never
    rest on the ground, contacts of feet or seats that are not given, who sits or leans on what is
    not said: the centre of pressure lies off the feet for long, and as `share` does.
    """
    check_kind(total, Wrench, "kinesym.gait")
    way = PressureTransfer(time, feet, height)
    check_span(total.time, (way.time[0], way.time[-1]), "the feet")
    body = float(total.force[2].mean()) if weight is None else finite(weight, "the weight")
    runs = bool(flying(total, body).any())
    spread = finite(mass_std, "mass_std")
    places = {
        name: vectors(f"the place on the seat {name!r}", place, way.time)
        for name, place in mapping(seats or {}, "seats").items()
    }
    if contacts is None:
        contacts = contacts_of(total, way, body)
        contacts += [c for name, place in places.items() for c in seated(name, way.time, place)]
    contacts = _with_seats(contacts, places)
    way = PressureTransfer(time, feet, height, contacts=contacts)
    pressed = {name: between(total.time, way.time, place) for name, place in places.items()}
    points = point_forces(total, contacts, way, body, pressed)
    pushes = {name: upwards(body * points.borne[name]) for name in pressed}
    held = {
        name: Wrench(total.time, push, np.cross(pressed[name], push, axis=0))
        for name, push in pushes.items()
    }
    on_feet = reduce(sub, held.values(), total)
    check_seated(on_feet, contacts, way, body)
    shared = share(
        on_feet,
        [contact for contact in contacts if not contact.seat],
        method=points if method is None else method,
        weight=body,
        flight=LEFT if runs else FLIGHT,
    )
    if runs:
        warn_of(check_landings(total, contacts, body))
    astray = _astray(shared, way)
    lean = {
        name: body * _lean(place, way, total.time, astray) * (points.borne[name] > 0.0)
        for name, place in pressed.items()
    }
    std = _stds(shared, way, astray, spread, lean, total)
    std |= {name: _std_of_seat(held[name], part, spread) for name, part in lean.items()}
    wrenches = dict.fromkeys(way.places, Wrench.zero(total.time))
    wrenches |= {foot: _under(foot, wrench, way) for foot, wrench in shared.wrenches.items()}
    named = Named("foot", wrenches), shared, tuple(in_order(contacts)), Named("foot", std)
    return ContactForces(*named, astray, Named("seat", held))


def _with_seats(contacts: Sequence[Contact], places: Mapping[str, Array]) -> list[Contact]:
    """Contacts, those of seats marked as such. Raises `ValueError` for seats that press nowhere, or
    never."""
    rows = [replace(c, seat=True) if c.foot in places else c for c in in_order(contacts)]
    for one in rows:
        if one.seat and one.foot not in places:
            raise ValueError(
                f"the contact of the seat {one.foot!r} from {one.begin:.6g} to {one.end:.6g} s "
                f"lacks the place where the body presses it, such as the middle of the hips: "
                f"seats={{{one.foot!r}: place}}"
            )
    for name in places:
        if not any(c.foot == name for c in rows):
            raise ValueError(f"there is a place on the seat {name!r}, but no contact of it")
    return rows


def _under(foot: str, wrench: Wrench, feet: PressureTransfer) -> Wrench:
    """Wrench with the same force, its centre of pressure moved to within reach of the foot."""
    centre = wrench.cop(feet.surface(foot, wrench.time))[:2]
    heel, toe = (between(wrench.time, feet.time, place)[:2] for place in feet.places[foot])
    heel = heel + HEEL * (toe - heel)
    nearest = nearest_on_line(centre, heel, toe)
    off = np.hypot(*(centre - nearest))
    shift = (np.minimum(1.0, REACH / np.maximum(off, REACH)) - 1.0) * (centre - nearest)
    shift = np.vstack([np.nan_to_num(shift), np.zeros(len(wrench.time))])
    return replace(wrench, moment=wrench.moment + np.cross(shift, wrench.force, axis=0))


# -- errors -----------------------------------------------------------------------------------


def _astray(shared: Sharing, feet: PressureTransfer) -> float:
    """Distance of centres of pressure from the foot in single support, root mean square [m]."""
    time, squares = shared.total.time, [np.zeros(0)]
    for phase in shared.phases:
        if len(phase.feet) != 1:
            continue
        centre = shared.total.cop(feet.surface(phase.feet[0], time))
        alone = during(phase, time) & np.isfinite(centre[0])
        alone &= shared.total.force[2] > 0.5 * shared.weight
        if alone.any():
            heel, toe = (between(time[alone], feet.time, p) for p in feet.places[phase.feet[0]])
            squares.append(distance_to_line(centre[:2, alone], heel, toe) ** 2)
    joined = np.concatenate(squares)
    return float(np.sqrt(joined.mean())) if joined.size else np.nan


def _unsure(shared: Sharing, feet: PressureTransfer, astray: float) -> Array:
    """Standard errors of the share in the middle of double supports (N,). Of who stands on both
    feet the centre of pressure tells it, the less the nearer they are."""
    time, found = shared.total.time, np.full(len(shared.total.time), SHARE)
    off = _error(astray)
    for phase in shared.phases:
        here = during(phase, time)
        if phase.double and phase.end - phase.begin > STANDING and here.any():
            middles = (np.mean(feet.places[foot], axis=0)[:2] for foot in phase.feet)
            one, other = (between(time[here], feet.time, middle) for middle in middles)
            found[here] = np.maximum(SHARE, off / np.maximum(np.hypot(*(one - other)), off))
    return found


def _error(astray: float) -> float:
    """Error of the centre of pressure [m]."""
    return astray if np.isfinite(astray) else ASIDE


def _lean(place: Array, feet: PressureTransfer, time: Array, astray: float) -> Array:
    """Standard error of the force on a seat pressed at a place (3, N), over the weight (N,): how
    far an error of the centre of pressure goes from there to the feet."""
    middle = np.mean([np.mean(pair, axis=0) for pair in feet.places.values()], axis=0)
    apart = np.hypot(*(place - between(time, feet.time, middle))[:2])
    return _error(astray) / np.maximum(apart, _error(astray))


def _late(time: Array, force: Array) -> Array:
    """Change of a force (3, N) by events that are early or late."""
    moved = [between(np.clip(time + dt, *time[[0, -1]]), time, force) for dt in (-TIMING, TIMING)]
    return np.asarray(np.max(np.abs(np.array(moved) - force), axis=0))


def _std_of_seat(wrench: Wrench, lean: Array, mass_std: float) -> Array:
    """Standard errors of the force of a seat, (3, N); lean : that of the vertical [N]."""
    squares = _late(wrench.time, wrench.force) ** 2 + (mass_std * wrench.force) ** 2
    rubbing = FRICTION * wrench.force[2]
    return np.asarray(np.sqrt(squares + np.array([rubbing, rubbing, lean]) ** 2))


def _stds(
    shared: Sharing,
    feet: PressureTransfer,
    astray: float,
    mass_std: float,
    lean: Mapping[str, Array],
    total: Wrench,
) -> dict[str, Array]:
    """Standard errors of the force on each foot, (3, N); lean : those of seats (N,) [N]. An error
    of the centre of pressure of the whole `total` counts the more the less of it feet bear."""
    unsure = _unsure(shared, feet, astray)
    unsure = unsure * np.maximum(total.force[2] / np.maximum(shared.total.force[2], 1.0), 1.0)
    moved = np.sqrt(sum((part**2 for part in lean.values()), np.zeros(len(shared.total.time))))
    time, total_force = shared.total.time, np.abs(shared.total.force[2])
    found = {foot: np.zeros_like(shared.total.force) for foot in feet.places}  # without any contact
    for foot, wrench in shared.wrenches.items():
        near, down = np.zeros(len(time), bool), np.zeros(len(time), bool)
        for phase in shared.phases:
            around = (time >= phase.begin - TIMING) & (time <= phase.end + TIMING)
            down |= around & (foot in phase.feet)
            near |= around & (len(phase.feet) != 1)
        force = wrench.force
        part = np.clip(force[2] / np.maximum(total_force, 1.0), 0.0, 1.0)
        anything = np.sqrt(1.0 / 12.0 + (part - 0.5) ** 2)  # all shares from 0 to 1 are as likely
        usual = 4.0 * SHARE * part * (1 - part)
        spread = np.where(unsure > SHARE, np.minimum(unsure, anything), usual)
        double, late = spread * total_force * near, _late(time, force) * near
        # in runs above the weight
        borne = np.sqrt(np.mean(total_force[down] ** 2)) if down.any() else 0.0
        motion = np.nan_to_num(astray, nan=0.1) / LEVER * borne * down
        sideways = np.array([[0.3], [0.1], [1.0]])  # forces along x and y are that much smaller
        squares = motion**2 + (mass_std * force) ** 2 + late**2 + (sideways * double) ** 2
        found[foot] = np.asarray(np.sqrt(squares + upwards(part * moved) ** 2))
    return found
