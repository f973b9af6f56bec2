"""Figures of results: panels over time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from kinesym.base.checks import listed as all_of
from kinesym.base.checks import shown
from kinesym.base.notebook import with_unit
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import listed

#: Panels of a figure at most; more are unreadable, and take minutes.
MOST_PANELS = 120


def subplots(*shape: int, grid: str = "both", **options: Any) -> tuple[Any, Any]:
    """Subplots of pyplot with the frame of all figures; grid : axis with grid lines, "x", "y",
    "both", or "" for none.

    The figure is returned: a notebook shows it as the value of its cell, and would show it a second
    time as an open one."""
    import matplotlib.pyplot as plt  # here: slow to import, and not needed to compute

    figure, axes = plt.subplots(*shape, layout="constrained", **options)
    for axis in np.ravel(axes) if grid else ():
        axis.grid(axis=grid, alpha=0.3)
    if "inline" in plt.get_backend():
        plt.close(figure)
    return figure, axes


def plain(text: str) -> str:
    """Text for a figure: a formula between dollars if it is one, else with escaped dollars, which
    would stop the drawing."""
    return "\n".join(map(_plain_line, text.split("\n")))


def _plain_line(text: str) -> str:
    if "$" not in text:
        return text
    from matplotlib.mathtext import MathTextParser  # here: slow to import

    try:
        MathTextParser("path").parse(text)
    except (ValueError, RecursionError):
        return text.replace("$", r"\$")
    return text


def close(figures: Iterable[Any]) -> None:
    """Close figures that are not needed any more."""
    import matplotlib.pyplot as plt  # here: slow to import

    for figure in figures:
        plt.close(figure)


def chosen(names: Sequence[Any] | None, known: Collection[str]) -> list[str]:
    """Names of trajectories from symbols or strings, None for all; raises `ValueError` for unknown
    names."""
    if names is None:
        return list(known)
    given = [names] if isinstance(names, str) else all_of(names, "names of trajectories")
    if not given:
        raise ValueError("names of trajectories: none is given; leave names out for all of them")
    wanted = [key_name(name) for name in given]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no trajectory {name!r}; there are {listed(known, 12)}")
    return wanted


def chosen_trial(trial: Any, count: int) -> int:
    """Number of a trial; raises `ValueError` if there is no such trial."""
    if not isinstance(trial, Real) or trial not in range(count):
        raise ValueError(f"trial must be a number from 0 to {count - 1}, got {shown(trial)}")
    return int(float(trial))


def in_order(figure: Any) -> list[Any]:
    """Axes of a figure of `panels`, in the order of their names: down the columns."""
    grid = figure.axes[0].get_gridspec()
    return [*np.reshape(figure.axes[: grid.nrows * grid.ncols], (grid.nrows, grid.ncols)).T.flat]


def panels(
    names: Sequence[str], title: str, units: Mapping[str, str] | None = None
) -> tuple[Any, list[Any]]:
    """Figure with one panel over time per name, and its axes; raises `ValueError` for too many."""
    count = len(names)
    if count > MOST_PANELS:
        raise ValueError(
            f"{count} trajectories are too many for one figure; choose some by names=[...]"
        )
    columns = 1 if count <= 5 else 2
    rows = -(-count // columns)
    figure, axes = subplots(
        rows,
        columns,
        sharex=True,
        squeeze=False,
        figsize=(7.0 * columns, 1.6 * rows + 0.8),
    )
    used, empty = axes.T.flat[:count], axes.T.flat[count:]
    for axis, name in zip(used, names, strict=True):
        axis.set_ylabel(plain(with_unit(name, units or {})))
    for axis in empty:
        axis.set_axis_off()
    for column in axes.T:
        lowest = [axis for axis in column if axis.axison][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("time [s]")
    figure.suptitle(plain(title), x=0.02, ha="left")
    return figure, list(used)


def convergence(steps: Sequence[Any], title: str) -> Any:
    """Figure of iterations, each with `number`, `objective`, `infeasibility`, `optimality`."""
    figure, (top, bottom) = subplots(2, 1, sharex=True, figsize=(7.0, 5.5))
    numbers = [step.number for step in steps]
    top.plot(numbers, [step.objective for step in steps], ".-", lw=1.0)
    top.set_ylabel("objective")
    top.set_title(plain(title))
    bottom.plot(numbers, [step.infeasibility for step in steps], ".-", lw=1.0, label="violation")
    bottom.plot(numbers, [step.optimality for step in steps], ".-", lw=1.0, label="optimality")
    bottom.set_yscale("log")
    bottom.set_xlabel("iteration")
    bottom.legend()
    return figure
