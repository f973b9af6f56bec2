"""Ground reaction shared between the feet: wrenches by foot, measured plates, reports; and checks
of centres of pressure that leave those of the plates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.notebook import Displayed
from kinesym.gait.checks import Finding, judged
from kinesym.gait.events import Phase, during
from kinesym.gait.frames import DataFrame, by_foot
from kinesym.gait.sharing_methods import Method
from kinesym.gait.wrench import PRESSING, Wrench
from kinesym.runtime.arrays import Array, rms
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.summary import samples

#: Distance of a shared centre of pressure from that of the plate [m].
APART = 0.05
#: A foot that stands alone for less is within the error of events [s].
ALONE = 0.1
#: Another method helps if no more than this share of the distance is left.
HELPS = 0.6

AS_MEASURED = "use the plates as measured, joints({foot: plates[foot].at(time) for foot in plates})"


@dataclass(frozen=True, eq=False, repr=False)
class Sharing(Displayed):
    """A total wrench shared between the feet.

    total : the sum. wrenches : by foot, on the grid of the total; zero while it is in the air.
    plates : measured wrenches by foot, on the same grid. measured : (N,), whether all feet on the
    ground, at least one, stood on plates. phases : in order. weight : of the body [N]; weighed :
    how it is known. seats : what plates leave of the total while a seat bears, by name.
    """

    total: Wrench
    wrenches: Mapping[str, Wrench]
    plates: Mapping[str, Wrench]
    measured: NDArray[np.bool_]
    phases: tuple[Phase, ...]
    weight: float
    weighed: str = "as given"
    seats: Mapping[str, Wrench] = field(default_factory=dict)

    def __getitem__(self, foot: str) -> Wrench:
        """The wrench on a foot; `KeyError` suggests a name for an unknown one."""
        return self.wrenches[foot]

    def __repr__(self) -> str:
        feet, span = ", ".join(self.wrenches), samples(self.total.time)
        return f"<ground reaction shared by {feet}: {span}, {len(self.phases)} phases>"

    @property
    def correction(self) -> Wrench:
        """Mismatch of the plates, total minus all plates and seats; zero where not all feet were
        measured."""
        lacks = reduce(sub, [*self.plates.values(), *self.seats.values()], self.total)
        return lacks.scaled(self.measured.astype(np.float64))

    def to_pandas(self) -> DataFrame:
        """Force [N] and moment about the origin [N m] by foot, such as ("right", "force_x"), by
        time [s]."""
        frames = {foot: wrench.to_pandas() for foot, wrench in self.wrenches.items()}
        return by_foot(frames)

    def shares(self) -> Array:
        """The force of the correction as a share of the body weight, (3, N); NaN where not all
        feet were measured."""
        return np.where(self.measured, self.correction.force / self.weight, np.nan)

    def report(self) -> str:
        """Report, one line per phase: mismatch of the plates in per cent of body weight, root mean
        square and largest, and the moment about the centre of pressure of the total."""
        lines = [
            f"body weight {self.weight:.1f} N, {self.weighed}; mismatch of the plates: force in % "
            "of it, moment about the centre of pressure"
        ]
        size = 100.0 * np.linalg.norm(self.shares(), axis=0)
        moment = np.linalg.norm(self.correction.about(np.nan_to_num(self.total.cop())), axis=0)
        for phase in self.phases:
            here = during(phase, self.total.time)
            if not here.any():
                continue
            known = here & self.measured
            what = "not measured"
            if known.any():
                what = f"rms {rms(size[known]):.1f}, largest {size[known].max():.1f}, "
                what += f"{rms(moment[known]):.0f} N m"
            feet = " to ".join(phase.feet) or "flight"
            lines.append(f"{phase.begin:8.3f} ... {phase.end:.3f} s  {feet:16s}{what}")
        return "\n".join(lines)

    def plot(self) -> Any:
        """Figure over time: force on the left, moment about the origin on the right; measured
        plates as dots, double supports shaded."""
        figure, axes = subplots(3, 2, sharex=True, figsize=(14.0, 5.6))
        time = self.total.time
        for row, panel in enumerate(axes.T.flat):
            panel.plot(time, self.total.rows[row], lw=1.0, color="0.5", label="total")
            for k, (foot, wrench) in enumerate(self.wrenches.items()):
                panel.plot(time, wrench.rows[row], lw=1.4, color=f"C{k}", label=foot)
                if foot in self.plates:
                    measured, label = self.plates[foot].rows[row], f"{foot}, plate"
                    panel.plot(time, measured, ".", ms=2.0, color=f"C{k}", label=label)
            for phase in self.phases:
                if phase.double:
                    panel.axvspan(phase.begin, phase.end, color="0.9", lw=0)
            panel.set_ylabel(
                f"{('force', 'moment')[row // 3]} {'xyz'[row % 3]} [{('N', 'N m')[row // 3]}]"
            )
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=5)
        figure.supxlabel("time [s]")
        return figure


# -- checks -----------------------------------------------------------------------------------


def check_sharing(
    shared: Sharing, others: Mapping[str, Method], again: Callable[[Method], Sharing]
) -> list[Finding]:
    """Check the shared centre of pressure of a foot against that of its plate, and name the method
    that helps.

    others : other methods by how they are written; again : shares by one of them.
    """
    rows = _apart(shared)
    kind, time = "shared centre of pressure", shared.total.time
    found = judged(kind, time, rows, APART, "m", lambda one: "far") if rows else []
    if not any(one.says for one in found):
        return found
    left = {}
    for name, method in others.items():
        with suppress(ValueError):  # of what that method lacks
            rest = _apart(again(method)).values()
            left[name] = max((float(np.nanmax(row)) for row in rest), default=np.inf)
    best = min(left, key=lambda name: left[name]) if left else ""
    helps = AS_MEASURED
    if best and left[best] < HELPS * max(one.size for one in found):
        helps = f"method={best} leaves {left[best]:.2f} m, or {AS_MEASURED}"
    return [replace(one, says=_sentence(shared, one, rows[one.names[0]], helps)) for one in found]


def check_exchanged(
    total: Wrench, phases: Sequence[Phase], plates: Mapping[str, Wrench]
) -> list[Finding]:
    """Whether the plate of one foot is loaded where the other stands alone, as if both were
    exchanged: for how long."""
    time, found = total.time, []
    for phase in phases:
        here = np.flatnonzero(during(phase, time))
        if len(phase.feet) != 1 or len(here) < 2:
            continue
        needed = float(total.force[2, here].mean())
        other = bearing(plates, phase.feet[0], here, needed)
        if other:
            says = (
                f"{phase.feet[0]!r} stands alone from {phase.begin:.3f} to {phase.end:.3f} s, but "
                f"the plate of {other!r} bears the weight: are plates exchanged? assign_plates "
                "finds the foot on each plate"
            )
            ends, size = (phase.begin, phase.end, phase.begin), phase.end - phase.begin
            found.append(Finding("plates exchanged", (other,), *ends, size, ALONE, "s", says))
    return [one for one in found if one.size > ALONE]


def bearing(
    plates: Mapping[str, Wrench], foot: str, within: NDArray[np.intp], needed: float
) -> str:
    """The foot whose plate bears most of a force [N] in some samples, while that of another one,
    which stands alone, does not; "" if there is none."""
    means = {name: float(plate.force[2, within].mean()) for name, plate in plates.items()}
    if means.pop(foot, 0.0) > 0.5 * needed or not means:
        return ""
    most = max(means, key=lambda name: means[name])
    return most if means[most] > 0.5 * needed else ""


def _sentence(shared: Sharing, one: Finding, row: Array, helps: str) -> str:
    """About the stretch around the worst instant in which the centre is too far away."""
    time, foot = shared.total.time, one.names[0]
    worst = int(np.nan_to_num(row).argmax())
    near = np.flatnonzero(~(row > APART))
    first, last = near[near < worst], near[near > worst]
    begin = time[first[-1] + 1 if len(first) else 0]
    end = time[last[0] - 1 if len(last) else -1]
    correction = shared.correction
    force = np.linalg.norm(correction.force[:, worst]) / shared.weight
    moment = np.linalg.norm(correction.about(np.nan_to_num(shared.plates[foot].cop()))[:, worst])
    return (
        f"from {begin:.3f} to {end:.3f} s the shared centre of pressure of {foot!r} is up to "
        f"{one.size:.2f} m from that of its plate, at {one.worst:.3f} s, where motion and plates "
        f"differ by {100.0 * force:.0f} % of the weight and {moment:.0f} N m; {helps}"
    )


def _apart(shared: Sharing) -> dict[str, Array]:
    """Distances between both centres of pressure by foot (N,), NaN where one is unreliable."""
    rows = {}
    for foot, plate in shared.plates.items():
        ours, low = shared.wrenches[foot], PRESSING * shared.weight
        known = shared.measured & (ours.force[2] > low) & (plate.force[2] > low)
        apart = np.linalg.norm((ours.cop() - plate.cop())[:2], axis=0)
        rows[foot] = np.where(known, apart, np.nan)
    return {foot: row for foot, row in rows.items() if np.isfinite(row).any()}
