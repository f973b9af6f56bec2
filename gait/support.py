"""Standing on a moving deck: centre of pressure, and when feet would slide or the body tip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import check_kind, not_negative, positive
from kinesym.runtime.arrays import Array, real_array, time_grid


@dataclass(frozen=True)
class Support:
    """Base of support, seen from the origin of the base (x forwards, y to the left).

    front, back, left, right : distances to the edges of the support [m].
    friction : coefficient of static friction [-].

    Raises `ValueError` for values that are not positive.
    """

    front: float
    back: float
    left: float
    right: float
    friction: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not np.inf:  # an edge that is never reached, feet that never slide
                positive(value, f"{name} of a support")


@dataclass(frozen=True)
class Interruption:
    """An interval in which the support is overloaded.

    kind : "sliding" or "tipping". begin, end : the first and the last sample of it [s].
    worst : the largest load as a fraction of the capacity of the support [-].
    """

    kind: str
    begin: float
    end: float
    worst: float


def center_of_pressure(force: ArrayLike, moment: ArrayLike) -> Array:
    """Centre of pressure of the ground reaction on the plane z = 0, (2, N) [m].

    force [N], moment about the origin [N m] : of the ground on the feet, (3, N).
    NaN where nothing presses on the ground.
    """
    f, n = _wrench(force, moment)
    pressing = np.where(f[2] > 0.0, f[2], np.nan)
    return np.array([-n[1], n[0]]) / pressing


def support_loads(force: ArrayLike, moment: ArrayLike, support: Support) -> dict[str, Array]:
    """Load of the support as a fraction of its capacity, by "sliding" and "tipping" (N,).

    Friction for sliding; for tipping the distance of the centre of pressure. Infinite where
    nothing presses on the ground. Shapes as in `center_of_pressure`.
    """
    check_kind(support, Support, "kinesym")
    f, n = _wrench(force, moment)
    x, y = center_of_pressure(f, n)
    normal = np.where(f[2] > 0.0, f[2], np.nan)
    parts = {
        "sliding": np.hypot(f[0], f[1]) / (support.friction * normal),
        "tipping": np.max(
            [x / support.front, -x / support.back, y / support.left, -y / support.right], axis=0
        ),
    }
    return {kind: np.where(np.isnan(load), np.inf, load) for kind, load in parts.items()}


def interruptions(
    time: ArrayLike, force: ArrayLike, moment: ArrayLike, support: Support, gap: float = 0.0
) -> list[Interruption]:
    """Motion-induced interruptions: when someone who stands so would slide or tip, in order.

    time : (N,) [s]. force, moment : see `center_of_pressure`. gap : events of a kind that are
    closer than this [s] count as one.

    After Graham (1990), Naval Engineers Journal 102(2):65. Raises `ValueError` for shapes that do
    not fit, numbers that are not finite, and times that do not increase.
    """
    times = time_grid(time)
    if times.shape != np.shape(force)[1:]:
        raise ValueError(f"time has shape {times.shape}, force {np.shape(force)}, expected (3, N)")
    not_negative(gap, "gap")
    found = []
    for kind, load in support_loads(force, moment, support).items():
        for begin, end in _runs(times, load > 1.0, gap):
            worst = float(load[begin : end + 1].max())
            found.append(Interruption(kind, float(times[begin]), float(times[end]), worst))
    return sorted(found, key=lambda event: (event.begin, event.kind))


def _runs(time: Array, over: NDArray[np.bool_], gap: float) -> Iterable[tuple[int, int]]:
    """First and last sample of the times when `over`, those that are closer than `gap` joined."""
    here = np.flatnonzero(over)
    if not len(here):
        return []
    apart = (np.diff(here) > 1) & (time[here[1:]] - time[here[:-1]] > gap)
    parts = np.split(here, np.flatnonzero(apart) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts]


def _wrench(force: ArrayLike, moment: ArrayLike) -> tuple[Array, Array]:
    f, n = real_array(force, "the force"), real_array(moment, "the moment")
    if f.ndim != 2 or len(f) != 3 or f.shape != n.shape:
        raise ValueError(f"force and moment must be (3, N), got {f.shape} and {n.shape}")
    for name, rows in (("force", f), ("moment", n)):
        if not np.isfinite(rows).all():
            k = int(np.argmax(~np.isfinite(rows).all(axis=0)))
            raise ValueError(f"the {name} is not finite, first at sample {k}")
    return f, n
