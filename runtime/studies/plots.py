"""Figures of a study: a number of each task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from kinesym.runtime.results.plot import plain, subplots

#: Groups above which their names are turned by 90 degrees.
_NAMED = 12


def plot_by(table: pd.DataFrame, name: str, by: str) -> Any:
    """Figure of a number of each task, grouped by a label, with the median of each group; those
    with a standard error `NAME_se` have a bar of two. table : see `Study.table`."""
    figure, axis = subplots(figsize=(7.0, 4.0))
    groups = list(table.groupby(by, sort=False))
    for place, (_, rows) in enumerate(groups):
        values = rows[name].to_numpy(dtype=float)
        spread = 0.3 * (np.arange(len(values)) + 0.5) / len(values) - 0.15
        errors = rows[f"{name}_se"].to_numpy(dtype=float) if f"{name}_se" in rows else None
        color = f"C{place % 10}"
        bars = None if errors is None else 2.0 * np.nan_to_num(errors)
        axis.errorbar(place + spread, values, bars, fmt="o", ms=3, lw=0.8, color=color, alpha=0.7)
        if np.isfinite(values).any():
            axis.hlines(np.nanmedian(values), place - 0.3, place + 0.3, color=color, lw=2)
    names = [plain(str(label)) for label, _ in groups]
    axis.set_xticks(range(len(names)), names, rotation=90 if len(names) > _NAMED else 0)
    axis.set(xlabel=plain(by), ylabel=plain(name), xlim=(-0.6, len(names) - 0.4))
    axis.set_title("each task, and medians", fontsize="medium")
    return figure


def waterfall(table: pd.DataFrame, by: str) -> Any:
    """Figure of the objectives above the best of each label, in order (waterfall plot); if standard
    deviations are estimated, of -2 log L, see `Trials.merit`. Raises `ValueError` without
    objectives."""
    if "objective" not in table:
        raise ValueError("no task has an objective: name a number of the table, plot('NAME')")
    figure, axis = subplots(figsize=(7.0, 4.0))
    column = "merit" if "merit" in table else "objective"
    rises = []
    for number, (label, rows) in enumerate(table.groupby(by, sort=False)):
        values = np.sort(rows[column].dropna().to_numpy(dtype=float))
        rise = values - values.min(initial=np.inf) if len(values) else values
        rises.append(rise)
        title = plain(str(label)) if number < _NAMED else None
        axis.plot(1 + np.arange(len(rise)), rise, "o-", ms=3, lw=0.8, label=title)
    every = np.concatenate(rises)
    above = every[every > 1e-9 * max(float(table["objective"].abs().max()), 1e-300)]
    if len(above) and above.max() > 100.0 * above.min():
        axis.set_yscale("symlog", linthresh=float(above.min()))
    axis.xaxis.get_major_locator().set_params(integer=True)
    what = "-2 log L" if column == "merit" else column
    axis.set(xlabel=f"task, by its {what}", ylabel=f"{what} above the best")
    axis.legend(title=plain(by), fontsize="small")
    return figure
