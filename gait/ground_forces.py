"""Ground forces under each foot from the motion alone, without force plates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import Named, check_kind, finite
from kinesym.base.notebook import Displayed
from kinesym.gait.contacts import contacts_of, flying
from kinesym.gait.events import Contact, distance_to_line, in_order, nearest_on_line
from kinesym.gait.point_forces import STANDING, point_forces
from kinesym.gait.pressure import HEEL, PressureTransfer
from kinesym.gait.shared_reaction import Sharing
from kinesym.gait.sharing import FLIGHT, share
from kinesym.gait.sharing_methods import Method
from kinesym.gait.wrench import Wrench, between
from kinesym.runtime.arrays import AXES, Array, check_span
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.summary import samples

if TYPE_CHECKING:
    import pandas as pd

#: Heel and toe of feet by name, (3, N) each [m].
Feet = Mapping[str, tuple[ArrayLike, ArrayLike]]

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
#: Largest distance of the centre of pressure from the line from heel to toe [m].
REACH = 0.03
#: Largest force that may remain in a flight, as a share of the weight [-].
LEFT = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class ContactForces(Displayed):
    """Forces of the ground on each foot that a motion needs, with standard errors.

    wrenches : by foot, about the origin of the world; their centres of pressure are under the foot.
    sharing : how the total is shared before they are put there. contacts : of the feet with the
    ground. std : of the force on each foot, (3, N) [N]. astray : how far the centre of pressure of
    the total lies off the foot that stands alone, root mean square [m]: how much the motion can be
    trusted.
    """

    wrenches: Mapping[str, Wrench]
    sharing: Sharing
    contacts: tuple[Contact, ...]
    std: Mapping[str, Array]
    astray: float

    def __getitem__(self, foot: str) -> Wrench:
        """The wrench on a foot; `KeyError` suggests a name for an unknown one."""
        return self.wrenches[foot]

    @property
    def time(self) -> Array:
        """Instants (N,) [s]."""
        return self.sharing.total.time

    def __repr__(self) -> str:
        return f"<contact forces of {', '.join(self.wrenches)}: {samples(self.time)}>"

    def __str__(self) -> str:
        weight, total = self.sharing.weight, self.sharing.total.force[2]
        lines = [
            f"{self!r}",
            f"body weight {weight:.0f} N, mean vertical force {total.mean():.0f} N",
            f"centre of pressure {1e3 * self.astray:.0f} mm off the foot that stands alone (rms)"
            if np.isfinite(self.astray)
            else "no foot stands alone, which would tell how far the motion can be trusted",
        ]
        for foot, wrench in self.wrenches.items():
            peak = int(wrench.force[2].argmax())
            down = [f"{c.begin:.2f} ... {c.end:.2f}" for c in self.contacts if c.foot == foot]
            lines.append(
                f"{foot:8} vertical force up to {wrench.force[2, peak]:.0f} ± "
                f"{2.0 * self.std[foot][2, peak]:.0f} N; on the ground "
                + (f"{', '.join(down)} s" if down else "never")
            )
        return "\n".join(lines)

    def to_pandas(self) -> pd.DataFrame:
        """Force [N] and moment about the origin [N m] by foot, with standard errors of the force
        (`std_x`, ...), by time [s]."""
        import pandas as pd  # here: slow to import

        frames = {foot: wrench.to_pandas() for foot, wrench in self.wrenches.items()}
        found = pd.concat(frames, axis=1, names=["foot", "part"])
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
) -> ContactForces:
    """Ground forces under each foot from the motion alone, walking or running.

    Parameters
    ----------
    total : the wrench that the motion needs (N,), such as `needed.total` of `Body.inverse`, or
        `ks.ground_reaction` of a tree.
    time, feet : instants (M,) [s] of places of heel and toe by foot, (3, M) each [m], as measured,
        gaps filled: smoothed markers strike late. Best over a little more than the total.
    contacts : of the feet, by default from the motion. Where the total vanishes the person runs or
        jumps: forces above a tenth of the weight are contacts of the foot that is lower, or of both
        that are equally low. Feet that strike and leave by turns walk, unless one is up for more
        than 0.8 s and comes down where it was, seen from the other: from heels and toes, see
        `contacts_from_markers`. Else, in standing, squats, on one leg, a foot is down while its
        heel or toe rests within 3 cm of the lowest that it, or the other foot, comes to: on level
        ground. `read_contacts` reads a table of them.
    method : of sharing in double support. By default points under the feet push over all of the
        record, only up and only in contact, with forces that change no faster than the total and
        its centre of pressure need; horizontal forces are then those of `PressureTransfer`.
    weight : of the body [N], default the mean vertical force. height : of the floor [m].
    mass_std : standard deviation of the mass, as a share of it.

    Returns
    -------
    A `ContactForces`; a foot without contact bears nothing. Forces of the feet add up to that of
    the total. Their moments do not quite, as centres of pressure that lie more than 3 cm beside the
    line from heel to toe are moved there: the remainder that the motion needs is left at the
    pelvis, `JointLoads.residual`.

    Standard errors add squares of four: the motion, from how far the centre of pressure of the
    total lies off the foot that stands alone (over a lever of 1 m), the mass, events that are 16 ms
    early or late, and a tenth of the vertical force in the middle of a double support; of who
    stands on both feet the error of the centre of pressure over the distance of these, if more.
    `benchmarks/contact_forces.py` judges them by plates.

    Raises `ValueError` for shapes, times of the total outside those of the feet, feet that never
    rest on the ground, contacts of feet that are not given, and as `share` does.
    """
    check_kind(total, Wrench, "kinesym.gait")
    way = PressureTransfer(time, feet, height)
    check_span(total.time, (way.time[0], way.time[-1]), "the feet")
    body = float(total.force[2].mean()) if weight is None else finite(weight, "the weight")
    runs = bool(flying(total, body).any())
    if contacts is None:
        contacts = contacts_of(total, way, body)
    if method is None:
        method = point_forces(total, contacts, way, body)
    shared = share(total, contacts, None, method, body, LEFT if runs else FLIGHT)
    astray = _astray(shared, way)
    spread = finite(mass_std, "mass_std")
    std = {foot: np.zeros_like(total.force) for foot in way.places}  # and so without any contact
    unsure = _unsure(shared, way, astray)
    std |= {foot: _std(shared, foot, astray, unsure, spread) for foot in shared.wrenches}
    wrenches = dict.fromkeys(way.places, Wrench.zero(total.time))
    wrenches |= {foot: _under(foot, wrench, way) for foot, wrench in shared.wrenches.items()}
    named = Named("foot", wrenches), shared, tuple(in_order(contacts)), Named("foot", std)
    return ContactForces(*named, astray)


def _under(foot: str, wrench: Wrench, feet: PressureTransfer) -> Wrench:
    """Wrench with the same force, its centre of pressure moved to within reach of the foot."""
    centre = wrench.cop(feet.height)[:2]
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
    time, centre = shared.total.time, shared.total.cop(feet.height)
    squares = [np.zeros(0)]
    for phase in shared.phases:
        alone = (time >= phase.begin) & (time <= phase.end) & np.isfinite(centre[0])
        alone &= shared.total.force[2] > 0.5 * shared.weight
        if len(phase.feet) == 1 and alone.any():
            heel, toe = (between(time[alone], feet.time, p) for p in feet.places[phase.feet[0]])
            squares.append(distance_to_line(centre[:2, alone], heel, toe) ** 2)
    joined = np.concatenate(squares)
    return float(np.sqrt(joined.mean())) if joined.size else np.nan


def _unsure(shared: Sharing, feet: PressureTransfer, astray: float) -> Array:
    """Standard errors of the share in the middle of double supports (N,). Of who stands on both
    feet the centre of pressure tells it, the less the nearer they are."""
    time, found = shared.total.time, np.full(len(shared.total.time), SHARE)
    off = astray if np.isfinite(astray) else ASIDE
    for phase in shared.phases:
        within = (time >= phase.begin) & (time <= phase.end)
        if phase.double and phase.end - phase.begin > STANDING and within.any():
            middles = (np.mean(feet.places[foot], axis=0)[:2] for foot in phase.feet)
            one, other = (between(time[within], feet.time, middle) for middle in middles)
            found[within] = np.maximum(SHARE, off / np.maximum(np.hypot(*(one - other)), off))
    return found


def _std(shared: Sharing, foot: str, astray: float, unsure: Array, mass_std: float) -> Array:
    """Standard errors of the force on a foot, (3, N)."""
    time, force = shared.total.time, shared[foot].force
    near, down = np.zeros(len(time), bool), np.zeros(len(time), bool)
    for phase in shared.phases:
        within = (time >= phase.begin - TIMING) & (time <= phase.end + TIMING)
        down |= within & (foot in phase.feet)
        if len(phase.feet) != 1:
            near |= within
    total = np.abs(shared.total.force[2])
    part = np.clip(force[2] / np.maximum(total, 1.0), 0.0, 1.0)
    anything = np.sqrt(1.0 / 12.0 + (part - 0.5) ** 2)  # all shares from 0 to 1 are as likely
    spread = np.where(unsure > SHARE, np.minimum(unsure, anything), 4.0 * SHARE * part * (1 - part))
    double = spread * total * near
    moved = [between(np.clip(time + dt, *time[[0, -1]]), time, force) for dt in (-TIMING, TIMING)]
    late = np.max(np.abs(np.array(moved) - force), axis=0) * near
    borne = np.sqrt(np.mean(total[down] ** 2)) if down.any() else 0.0  # in runs above the weight
    motion = np.nan_to_num(astray, nan=0.1) / LEVER * borne * down
    sideways = np.array([[0.3], [0.1], [1.0]])  # forces along x and y are that much smaller
    squares = motion**2 + (mass_std * force) ** 2 + late**2 + (sideways * double) ** 2
    return np.asarray(np.sqrt(squares))
