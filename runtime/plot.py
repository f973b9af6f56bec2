"""Pictures of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kinesym.runtime.trajectory import Trajectory


def plot_trial(trial: Trajectory, title: str = "") -> Any:
    """One panel per trajectory over time; measured samples as dots under the line."""
    import matplotlib.pyplot as plt  # here: slow to import, and not needed to compute

    panels = {**trial.states, **trial.inputs, **trial.outputs}
    columns = 1 if len(panels) <= 5 else 2
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, sharex=True, squeeze=False, layout="constrained",
        figsize=(7.0 * columns, 1.6 * rows + 0.8),
    )  # fmt: skip
    for axis, (name, values) in zip(axes.T.flat, panels.items(), strict=False):
        if name in trial.measurements:
            samples = trial.measurements[name]
            size = 2.0 if np.isfinite(samples).sum() > 300 else 5.0
            axis.plot(trial.time, samples, ".", ms=size, color="0.55", label="measured")
        kind = "C0" if name in trial.states else "C1" if name in trial.inputs else "C2"
        axis.plot(trial.time, values, lw=1.2, color=kind, label="model")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    handles = {label: line for axis in axes.flat for line, label in
               zip(*axis.get_legend_handles_labels(), strict=True)}  # fmt: skip
    if "measured" in handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=2)
    for axis in axes.T.flat[len(panels) :]:
        axis.set_axis_off()
    for column in axes.T:
        lowest = [axis for axis in column if axis.axison][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("time [s]")
    figure.suptitle(title, x=0.02, ha="left")
    return figure
