"""Figures of walks over the gait cycle, 0 % at a heel strike, 100 % at the next of that foot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_kind, mapping
from kinesym.gait.events import Cycle
from kinesym.gait.forward import Tracking
from kinesym.gait.gaps import runs
from kinesym.gait.inverse import JointLoads, flexion_angle
from kinesym.gait.natural.body import G
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import subplots

#: Joints of the leg, and what is positive.
LEG = (("ankle", "dorsiflexion"), ("knee", "extension"), ("hip", "flexion"))
SIDES = ("right", "left")


def joint_torques(
    loads: Mapping[str, JointLoads], cycle: Cycle, norms: Mapping[str, Array] | None = None
) -> Any:
    """Sagittal torques of ankle, knee and hip over the body mass, both legs.

    loads : one curve for each, by label; NaN where a foot stands in the cycle and no wrench presses
    under it, as beside force plates. norms : by joint, rows of percent, lower and upper bound
    [N m/kg] of a band, such as from a textbook.

    Raises `ValueError` for other objects.
    """
    for one in mapping(loads, "loads").values():
        check_kind(one, JointLoads, "kinesym.gait")
    figure, axes = _panels(cycle, "N m/kg")
    for k, (joint, _) in enumerate(LEG):
        for panel, side in zip(axes[k], SIDES, strict=True):
            for label, one in loads.items():
                torque = one.flexion(f"{side}_{joint}") / one.inverse.skeleton.mass
                torque = np.where(_unloaded(one, cycle, side), np.nan, torque)
                panel.plot(cycle.percent(one.time), torque, lw=1.4, label=label)
            if norms and joint in norms:
                panel.fill_between(*norms[joint], color="0.5", alpha=0.3, lw=0, label="norm")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


#: A foot that stands bears more in the mean over a stance [of the weight].
BEARS = 0.05


def _unloaded(loads: JointLoads, cycle: Cycle, side: str) -> NDArray[np.bool_]:
    """Samples (N,) of a cycle at which a foot stands but no wrench is measured under it."""
    skeleton, time = loads.inverse.skeleton, loads.time
    found = np.zeros(len(time), dtype=bool)
    if side not in skeleton.feet:
        return found
    under = [loads.loads[name].force[2] for name in skeleton.feet[side] if name in loads.loads]
    load = np.sum([np.zeros(len(time)), *under], axis=0)
    for run in runs(np.array([side in phase.feet for phase in cycle.phases])):
        first, last = cycle.phases[run.start], cycle.phases[run.stop - 1]
        here = (time >= first.begin) & (time <= last.end)
        if here.any() and load[here].mean() < BEARS * skeleton.mass * G:
            found |= here
    return found


def flexion_angles(
    walks: Mapping[str, Tracking], cycle: Cycle, joints: Mapping[str, tuple[str, str]]
) -> Any:
    """Angles of ankle, knee and hip: the reference in blue, then the simulations.

    joints : name such as "right_knee" -> segments before and beyond it.

    Raises `ValueError` for other objects, and for a joint of the legs that is missing.
    """
    if not mapping(walks, "walks"):
        raise ValueError("give at least one walk")
    for walk in walks.values():
        check_kind(walk, Tracking, "kinesym.gait")
    for name in (f"{side}_{joint}" for joint, _ in LEG for side in SIDES):
        if name not in mapping(joints, "joints"):
            raise ValueError(f"joints lacks {name!r}; give its segments before and beyond it")
    figure, axes = _panels(cycle, "deg")
    first = next(iter(walks.values()))
    for k, (joint, _) in enumerate(LEG):
        for panel, side in zip(axes[k], SIDES, strict=True):
            parent, child = joints[f"{side}_{joint}"]
            z = first.reference.z
            angle = np.degrees(flexion_angle(first.attitude(parent, z), first.attitude(child, z)))
            panel.plot(cycle.percent(first.time), angle, "b", lw=2.2, alpha=0.5, label="measured")
            low, high = angle.min(), angle.max()
            panel.set_ylim(low - 0.3 * (high - low), high + 0.3 * (high - low))
            for color, (label, walk) in zip(("r", "C2", "C4", "C5"), walks.items(), strict=False):
                angle = flexion_angle(walk.attitude(parent, walk.z), walk.attitude(child, walk.z))
                panel.plot(cycle.percent(walk.time), np.degrees(angle), color, lw=1.2, label=label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=5)
    return figure


def tracking_errors(walk: Tracking, cycle: Cycle, segments: Sequence[str]) -> Any:
    """Error of the position of the root, and of the sagittal angle of segments, right and left.

    segments : names without the letter of the side, such as "thigh".
    """
    check_kind(walk, Tracking, "kinesym.gait")
    figure, axes = subplots(3, 1, sharex=True, figsize=(9.0, 8.0))
    percent, error = cycle.percent(walk.time), walk.error
    for k, axis in enumerate("XYZ"):
        axes[0].plot(percent, error[k], lw=1.2, label=axis)
    axes[0].set_ylabel("error of the root [m]")
    for panel, side in zip(axes[1:], SIDES, strict=True):
        for name in segments:
            row = walk.angle(side[0].upper() + name).start + 1
            panel.plot(percent, error[row], lw=1.2, label=name)
        panel.set_ylabel(f"error of beta, {side} [rad]")
    for panel in axes:
        _shade(panel, cycle)
        panel.legend(loc="upper right", ncols=4, fontsize="small")
    axes[-1].set_xlabel("gait cycle [%]")
    return figure


def _panels(cycle: Cycle, unit: str) -> tuple[Any, Any]:
    """Ankle, knee and hip of both sides."""
    check_kind(cycle, Cycle, "kinesym.gait")
    figure, axes = subplots(3, 2, sharex=True, sharey="row", figsize=(11.0, 8.0))
    for k, (joint, sense) in enumerate(LEG):
        axes[k, 0].set_ylabel(f"{joint}, {sense} [{unit}]")
        for panel in axes[k]:
            _shade(panel, cycle)
    for panel, side in zip(axes[0], SIDES, strict=True):
        panel.set_title(side, fontsize="medium")
    for panel in axes[-1]:
        panel.set_xlabel("gait cycle [%]")
    return figure, axes


def _shade(panel: Any, cycle: Cycle) -> None:
    """Double supports in grey."""
    for phase in cycle.double_supports:
        panel.axvspan(*cycle.percent(np.array([phase.begin, phase.end])), color="0.88", lw=0)
    panel.axhline(0.0, color="k", lw=0.6)
    panel.set_xlim(0.0, float(cycle.percent(np.array([cycle.end]))[0]))
