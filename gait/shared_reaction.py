"""Ground reaction shared between the feet: wrenches by foot, measured plates, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.notebook import Displayed
from kinesym.gait.events import Phase, during
from kinesym.gait.wrench import Wrench
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.frames import DataFrame, by_foot
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.summary import samples


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
                what = f"rms {_rms(size[known]):.1f}, largest {size[known].max():.1f}, "
                what += f"{_rms(moment[known]):.0f} N m"
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


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
