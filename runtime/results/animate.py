"""Animation of stick figures of trajectories."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from kinesym.base.files import replacing
from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import node_bar
from kinesym.runtime.results.plot import plain

#: Axes forwards, to the left and upwards with their signs, by the axis that points up.
_VIEWS = {"z": {"x": 1.0, "y": 1.0, "z": 1.0}, "y": {"x": 1.0, "z": -1.0, "y": 1.0}}


def animate(run: Any, path: Path, fps: float, speed: float, up: str) -> Path:
    """Write an animation of the stick figure of a trajectory to `path` and return it: a .gif with
    side and front view, or an .html page on which it can be turned.

    fps : frames per second. speed : seconds of motion per second of film. up : "z" or "y"; a motion
        in a plane is shown as it is.

    Raises `ValueError` if the trajectory has no stick figure, or an argument is invalid.
    """
    if path.suffix not in (".gif", ".html"):
        raise ValueError(f"an animation is a .gif or .html file, got {path.name}")
    if not (fps > 0.0 and speed > 0.0) or up not in _VIEWS:
        raise ValueError(
            f"fps and speed must be positive and up 'z' or 'y', got {fps}, {speed} and {up!r}"
        )
    if not run.drawing:
        raise ValueError(
            f"the model {run.model} has no stick figure; a tree has one with outputs=['places'], "
            "any other model with drawing=[...] that names points which its outputs place"
        )
    times = np.arange(run.time[0], run.time[-1] + 1e-9, speed / fps)
    names = dict.fromkeys(name for line in run.drawing for name in line)
    points = {name: coordinates(run, name, times, up) for name in names}
    for name, p in points.items():
        if len(p) != len(next(iter(points.values()))):
            raise ValueError(
                f"some points of the drawing are in space, others in a plane: {name} "
                "has another number of coordinates than the first one"
            )
    with replacing(path) as beside:
        if path.suffix == ".html":
            beside.write_text(page(run, times, points, fps), encoding="utf-8")
        else:
            write_gif(run, beside, times, points, fps)
    return path


def coordinates(run: Any, point: str, times: Array, up: str) -> Array:
    """Position of a point [m]: forwards, to the left, upwards (3, K); forwards and upwards in a
    plane (2, K)."""
    rows = [
        sign * np.interp(times, run.time, run.outputs[f"{point}_{axis}"])
        for axis, sign in _VIEWS[up].items()
        if f"{point}_{axis}" in run.outputs
    ]
    return np.array(rows)


def span(points: Mapping[str, Array]) -> tuple[Array, float]:
    """Centre of all positions and half the size of a cube around them [m]."""
    everything = np.concatenate(list(points.values()), axis=1)
    low, high = everything.min(axis=1), everything.max(axis=1)
    return (low + high) / 2.0, 0.55 * max(float((high - low).max()), 1e-9)


def page(run: Any, times: Array, points: Mapping[str, Array], fps: float) -> str:
    """HTML page with the animation and its data."""
    middle, reach = span(points)
    flat = len(middle) == 2
    insert = (lambda p: np.insert(p, 1, 0.0, axis=0)) if flat else (lambda p: p)
    number = {name: k for k, name in enumerate(points)}
    film = {
        "times": times.round(6).tolist(),
        "points": [insert(p).T.round(5).tolist() for p in points.values()],
        "lines": [[number[name] for name in line] for line in run.drawing],
        "middle": insert(middle).tolist(),
        "reach": reach,
        "fps": fps,
        "flat": flat,
    }
    template = files(__package__).joinpath("animate.html").read_text(encoding="utf-8")
    insert_of = {"title": html.escape(run.model), "film": json.dumps(film)}
    return re.sub(r"{{(\w+)}}", lambda found: insert_of[found[1]], template)


def write_gif(run: Any, path: Path, times: Array, points: Mapping[str, Array], fps: float) -> None:
    """Write a .gif with side and front view, or the plane of the motion, over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: slow to import
    from matplotlib.figure import Figure
    from PIL import Image

    middle, reach = span(points)
    views = [(0, 1)] if len(middle) == 2 else [(0, 2), (1, 2)]
    figure = Figure(figsize=(4.0 * len(views), 4.4), dpi=80)
    canvas, axes = FigureCanvasAgg(figure), figure.subplots(1, len(views), squeeze=False)
    sticks = []
    for axis, view in zip(axes.flat, views, strict=True):
        for name, k in zip("xy", view, strict=True):
            getattr(axis, f"set_{name}lim")(middle[k] - reach, middle[k] + reach)
        axis.set_aspect("equal")
        axis.set_xlabel(("forwards [m]", "to the left [m]")[view[0]])
        axis.set_ylabel("upwards [m]")
        axis.grid(alpha=0.3)
        for line in run.drawing:
            (stick,) = axis.plot([], [], "o-", lw=3, ms=5, animated=True)
            sticks.append((axis, stick, line, view))
    figure.suptitle(plain(run.model), x=0.02, ha="left")
    label = figure.text(0.98, 0.97, "", ha="right", va="top", animated=True)
    figure.tight_layout()
    canvas.draw()
    still, frames = canvas.copy_from_bbox(figure.bbox), []
    with node_bar(len(times), None) as advance:
        for k, now in enumerate(times):
            canvas.restore_region(still)
            for axis, stick, line, view in sticks:
                stick.set_data(*(np.array([points[name][i, k] for name in line]) for i in view))
                axis.draw_artist(stick)
            label.set_text(f"{now:.1f} s")
            figure.draw_artist(label)
            frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("P"))
            advance(1)
    ticks = np.round(np.arange(len(times) + 1) * 100.0 / fps)  # a .gif counts hundredths
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        loop=0,
        duration=(10.0 * np.diff(ticks)).tolist(),
    )
