"""Pictures of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class _Trial(Protocol):
    @property
    def time(self) -> Array: ...
    @property
    def states(self) -> Mapping[str, Array]: ...
    @property
    def inputs(self) -> Mapping[str, Array]: ...
    @property
    def outputs(self) -> Mapping[str, Array]: ...
    @property
    def measurements(self) -> Mapping[str, Array]: ...


def plot_trial(trial: _Trial, title: str = "") -> Any:
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
            axis.plot(trial.time, trial.measurements[name], ".", ms=2, color="0.65",
                      label="measured")  # fmt: skip
        kind = "C0" if name in trial.states else "C1" if name in trial.inputs else "C2"
        axis.plot(trial.time, values, lw=1.2, color=kind, label="model")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
        if name in trial.measurements:
            axis.legend(loc="upper right", fontsize="small")
    for axis in axes.T.flat[len(panels) :]:
        axis.set_axis_off()
    for column in axes.T:
        lowest = [axis for axis in column if axis.axison][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("time [s]")
    figure.suptitle(title)
    return figure
