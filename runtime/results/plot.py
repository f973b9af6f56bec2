"""Pictures of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinesym.runtime.signals.experiment import key_name

if TYPE_CHECKING:
    from kinesym.runtime.results.ensemble import Ensemble
    from kinesym.runtime.results.fit import Fit
    from kinesym.runtime.results.trajectory import Trajectory


#: More panels are no picture, and take minutes.
MOST_PANELS = 120


def plot_trial(trial: Trajectory, title: str = "", names: Sequence[Any] | None = None) -> Any:
    """One panel per trajectory over time; measured samples as dots under the line."""
    panels = {**trial.states, **trial.inputs, **trial.outputs}
    if names is not None:
        panels = {key_name(name): trial[name] for name in names}
    if len(panels) > MOST_PANELS:
        raise ValueError(
            f"{len(panels)} trajectories are too many for one figure; choose some by names=[...]"
        )
    figure, axes = _panels(len(panels))
    for axis, (name, values) in zip(axes.T.flat, panels.items(), strict=False):
        if name in trial.measurements:
            samples = trial.measurements[name]
            size = 2.0 if np.isfinite(samples).sum() > 300 else 5.0
            axis.plot(trial.time, samples, ".", ms=size, color="0.55", label="measured")
        kind = "C0" if name in trial.states else "C1" if name in trial.inputs else "C2"
        axis.plot(trial.time, values, lw=1.2, color=kind, label="model")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    handles = {
        label: line
        for axis in axes.flat
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if "measured" in handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=2)
    for event in (e for e in trial.events if e.kind != "close"):
        for axis in axes.T.flat[: len(panels)]:
            axis.axvline(event.time, color="0.6", lw=0.6, zorder=0)
    _finish(figure, axes, len(panels), title)
    return figure


def plot_ensemble(runs: Ensemble, title: str = "", shown: int = 30) -> Any:
    """One panel per trajectory over time: up to `shown` members, median and band of 90 %.

    Members that ended early are shown, but count only if all did.
    """
    whole = sorted(set(range(len(runs))) - {failure.member for failure in runs.failures})
    panels = {**runs.states, **runs.inputs, **runs.outputs}
    figure, axes = _panels(len(panels))
    members = np.unique(np.linspace(0, len(runs) - 1, min(shown, len(runs))).astype(int))
    for axis, (name, values) in zip(axes.T.flat, panels.items(), strict=False):
        kind = "C0" if name in runs.states else "C1" if name in runs.inputs else "C2"
        kept = values[whole] if len(whole) else np.where(np.isfinite(values), values, np.nan)
        some = np.isfinite(kept).any(axis=0)
        low, middle, high = np.nanpercentile(kept[:, some], (5, 50, 95), axis=0)
        axis.fill_between(runs.time[some], low, high, color=kind, alpha=0.2, lw=0)
        axis.plot(runs.time, values[members].T, lw=0.5, color=kind, alpha=0.4)
        axis.plot(runs.time[some], middle, lw=1.5, color=kind)
        if runs.failures:  # what diverges would hide the others
            bottom, top = np.nanmin(kept), np.nanmax(kept)
            margin = 0.05 * (top - bottom) or 1.0
            axis.set_ylim(bottom - margin, top + margin)
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    _finish(figure, axes, len(panels), title)
    return figure


def subplots(*shape: int, **options: Any) -> tuple[Any, Any]:
    """As that of pyplot, for a figure that is returned: a notebook shows it as the value of its
    cell, and would show it a second time as an open one."""
    import matplotlib.pyplot as plt  # here: slow to import, and not needed to compute

    figure, axes = plt.subplots(*shape, **options)
    if "inline" in plt.get_backend():
        plt.close(figure)
    return figure, axes


def _panels(count: int) -> tuple[Any, Any]:
    columns = 1 if count <= 5 else 2
    rows = -(-count // columns)
    return subplots(
        rows,
        columns,
        sharex=True,
        squeeze=False,
        layout="constrained",
        figsize=(7.0 * columns, 1.6 * rows + 0.8),
    )


def _finish(figure: Any, axes: Any, count: int, title: str) -> None:
    """Empty panels off, time under the lowest of each column."""
    for axis in axes.T.flat[count:]:
        axis.set_axis_off()
    for column in axes.T:
        lowest = [axis for axis in column if axis.axison][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("time [s]")
    figure.suptitle(title, x=0.02, ha="left")


def plot_history(fit: Fit) -> Any:
    """The objective, and the unknowns divided by their last values, over iterations."""
    figure, (top, bottom) = subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
    top.semilogy([step.objective for step in fit.history], "k.-", lw=1)
    top.set_ylabel("objective J")
    values = np.array([step.values for step in fit.history])
    scale = np.where(fit.values != 0.0, fit.values, 1.0)
    for k, name in enumerate(fit.names[:12]):
        bottom.plot(values[:, k] / scale[k], ".-", lw=1, label=name)
    bottom.legend(loc="best", ncols=3, fontsize="small")
    bottom.set_ylabel("value / last value")
    bottom.set_xlabel("iteration")
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
    figure.suptitle(f"{fit.model}: {fit.optimizer}", x=0.02, ha="left")
    return figure


def plot_modes(trial: Trajectory) -> Any:
    """A row per contact with bars while it presses and marks at impacts, a row per event with a
    mark whenever it happens."""
    events = list(dict.fromkeys(e.name for e in trial.events if e.kind == "event"))
    rows = [*trial.contacts, *events]
    figure, axis = subplots(figsize=(9.0, 1.2 + 0.4 * max(len(rows), 1)), layout="constrained")
    for row, name in enumerate(rows):
        times = [e.time for e in trial.events if e.name == name and e.kind in ("impact", "event")]
        colour = "C0" if name in trial.contacts else "C3"
        axis.plot(times, [row] * len(times), "|", ms=14.0, mew=1.5, color=colour)
        if name in trial.contacts:
            spans = [(begin, end - begin) for begin, end in trial.pressing(name)]
            axis.broken_barh(spans, (row - 0.25, 0.5), color="C0", alpha=0.5)
    axis.set_yticks(range(len(rows)), [name.split(":")[0] for name in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    if len(trial.time):
        axis.set_xlim(float(trial.time[0]), max(float(trial.time[-1]), trial.final.time))
    axis.set_xlabel("time [s]")
    axis.set_title(f"{trial.model}: contacts that press, impacts and events")
    axis.grid(axis="x", alpha=0.3)
    return figure
