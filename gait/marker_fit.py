"""Inverse kinematics: the motion of a tree that comes nearest to markers on its bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import Named, check_kind
from kinesym.gait.checks import warn
from kinesym.gait.frames import DataFrame, by_time
from kinesym.gait.kinematics import Spline
from kinesym.gait.marker_inputs import (
    Placed,
    compiled,
    guess_of,
    matched,
    measured_of,
    root_turns,
    squares_of,
    targets_of,
)
from kinesym.gait.marker_squares import Smoothness, Squares, weight_of_cutoff
from kinesym.gait.marker_steps import HELD, MarkerMinimum, knowledge, median_noise, minimise, start
from kinesym.gait.markers import Markers
from kinesym.gait.motion_files import Table
from kinesym.gait.smoothing import Butterworth, smoother_of
from kinesym.runtime.arrays import Array, mean_of_known
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.trajectory import ByName, OverTime
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import listed, samples
from kinesym.symbolic.multibody.links import turning
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.names import check_known

#: Rounds, at most, in which the noise of a robust loss is estimated.
ROUNDS = 10
#: Relative change of that noise at which the rounds end [-].
SETTLED = 1e-3
#: Marker error beyond which there is a warning [m].
FAR = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class MarkerFit(ByName, Saved):
    """Coordinates of a tree over time that bring its markers nearest to measured ones.

    tree : its name. time : (N,) [s]. coordinates : by name (N,) [rad, m]. std : standard errors of
    these, 0 where a limit keeps them, NaN where no marker shows them. distances : by marker, from
    its measured to its fitted place (N,) [m], NaN where missing. noise : standard deviation of a
    marker of weight 1 in each direction [m], estimated. angles : names of coordinates in radians.
    unused : markers of the tree that the record has not, and of the record that no body has.
    converged, message, iterations : how it ended.

    `fit["knee_angle_r"]` is a coordinate; `fit.course()` its derivatives, too.
    """

    tree: str
    time: OverTime
    coordinates: Mapping[str, OverTime]
    std: Mapping[str, OverTime]
    distances: Mapping[str, OverTime]
    noise: float
    angles: Sequence[str] = ()
    unused: Sequence[str] = ()
    converged: bool = True
    message: str = ""
    iterations: int = 0

    def __post_init__(self) -> None:
        for what, fields in {
            "coordinate": ("coordinates", "std"),
            "marker of the fit": ("distances",),
        }.items():
            for name in fields:
                object.__setattr__(self, name, Named(what, getattr(self, name)))

    def __getitem__(self, key: object) -> Array:
        name = key_name(key)
        check_known(name, self.coordinates, f"{name} is no coordinate of {self.tree}")
        return self.coordinates[name]

    def keys(self) -> list[str]:
        """Names of the coordinates."""
        return list(self.coordinates)

    @property
    def rms(self) -> Array:
        """The root mean square of the marker errors of each instant (N,) [m]."""
        return np.asarray(np.sqrt(mean_of_known(self._squares, axis=0)))

    @property
    def total_rms(self) -> float:
        """The root mean square of all marker errors [m]."""
        return float(np.sqrt(np.nanmean(self._squares)))

    @property
    def _squares(self) -> Array:
        return np.array(list(self.distances.values())) ** 2

    @property
    def marker_rms(self) -> dict[str, float]:
        """The root mean square error of each marker over time [m], the largest first."""
        found = {name: float(np.sqrt(np.nanmean(d**2))) for name, d in self.distances.items()}
        return Named("marker of the fit", sorted(found.items(), key=lambda pair: -pair[1]))

    @property
    def worst(self) -> tuple[str, float, float]:
        """The marker with the largest error, the instant [s], and the error [m]."""
        rows = np.nan_to_num(np.array(list(self.distances.values())), nan=-1.0)
        i, k = np.unravel_index(int(rows.argmax()), rows.shape)
        return list(self.distances)[int(i)], float(self.time[k]), float(rows[i, k])

    @property
    def table(self) -> Table:
        """Coordinates over time in radians and metres, as of `read_mot`, for
        `ks.inverse_dynamics`."""
        return Table(self.time, dict(self.coordinates))

    def course(self, degree: int = 5, trim: int = 0) -> Spline:
        """Splines through the coordinates in their order, which can be sampled with derivatives;
        see `Spline.through`."""
        return Spline.through(self.time, np.array([*self.coordinates.values()]), degree, trim)

    def __str__(self) -> str:
        name, when, error = self.worst
        ended = "" if self.converged else f"\n{self.message}"
        return (
            f"{self.tree} fitted to {len(self.distances)} markers: {samples(self.time)}\n"
            f"marker errors  {1e3 * self.total_rms:.1f} mm rms, "
            f"{1e3 * error:.1f} mm at worst ({name}, {when:g} s){ended}"
        )

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0]}, {1e3 * self.total_rms:.1f} mm rms>"

    def report(self) -> str:
        """Report of marker errors, ranges and standard errors of coordinates, and markers that were
        left out."""
        lines = [str(self), "", f"{'marker':<24}{'rms':>8}{'worst':>8}  [mm]"]
        for name, rms in self.marker_rms.items():
            lines.append(f"{name:<24}{1e3 * rms:8.1f}{1e3 * np.nanmax(self.distances[name]):8.1f}")
        lines += ["", f"{'coordinate':<24}{'least':>9}{'most':>9}{'error':>8}"]
        for name, row in self.coordinates.items():
            unit, factor = ("deg", np.degrees(1.0)) if name in self.angles else ("mm", 1e3)
            low, high = (round(factor * end, 1) + 0.0 for end in (row.min(), row.max()))
            error, unseen = self.std[name], int(np.isnan(self.std[name]).sum())
            size = "-"
            if unseen < len(error):
                size = f"{factor * np.sqrt(np.nanmean(error**2)):.2f}"
            said = f", not shown by markers at {unseen} instants" if unseen else ""
            lines.append(f"{name:<24}{low:9.1f}{high:9.1f}{size:>8}  [{unit}]{said}")
        if self.unused:
            lines += ["", f"not used: {listed(self.unused, 99)}"]
        return "\n".join(lines)

    def to_pandas(self) -> DataFrame:
        """Coordinates, their standard errors (`std_...`) and marker errors (`error_...`) over
        time."""
        columns = dict(self.coordinates)
        columns |= {f"std_{name}": row for name, row in self.std.items()}
        columns |= {f"error_{name}": row for name, row in self.distances.items()}
        return by_time(self.time, columns)

    def plot(self, names: Iterable[Any] | None = None) -> Any:
        """Marker errors over time and by marker; or these coordinates with bands of two standard
        errors."""
        if names is not None:
            return self._plot_coordinates([key_name(name) for name in names])
        figure, (over, by) = subplots(1, 2, figsize=(12.0, 4.6), width_ratios=(3, 2))
        over.plot(self.time, 1e3 * self.rms, lw=1.2)
        over.set(xlabel="time [s]", ylabel="marker errors, rms [mm]", ylim=(0, None))
        worst = list(self.marker_rms.items())[:16][::-1]
        by.barh([name for name, _ in worst], [1e3 * rms for _, rms in worst], color="C0")
        by.set_xlabel("rms by marker [mm]")
        return figure

    def _plot_coordinates(self, names: Sequence[str]) -> Any:
        figure, axes = subplots(
            len(names), 1, sharex=True, squeeze=False,
            figsize=(7.0, 1.0 + 1.6 * len(names)),
        )  # fmt: skip
        for axis, name in zip(axes[:, 0], names, strict=True):
            unit, factor = ("deg", np.degrees(1.0)) if name in self.angles else ("m", 1.0)
            row, error = factor * self[name], 2.0 * factor * self.std[name]
            axis.plot(self.time, row, lw=1.2)
            axis.fill_between(self.time, row - error, row + error, alpha=0.3, lw=0)
            axis.set_ylabel(f"{name} [{unit}]")
        axes[-1, 0].set_xlabel("time [s]")
        return figure


def fit_markers(
    tree: Tree,
    placed: Placed | None,
    markers: Markers,
    *,
    weights: Mapping[str, float] | None = None,
    targets: Mapping[Any, tuple[ArrayLike, float]] | None = None,
    limits: Mapping[Any, tuple[float, float]] | None = None,
    loss: str | None = None,
    smooth: float | Butterworth | None = None,
    guess: Mapping[Any, float] | None = None,
) -> MarkerFit:
    """Inverse kinematics: the coordinates of least weighted squared distances between markers on
    bodies and measured ones, at all instants at once.

    Parameters
    ----------
    tree : any open tree on a base that stands still; its parameters have their `values`. Markers
        are turned to its axes if its gravity says that z is not up, as of models of OpenSim.
    placed : body and place in its axes [m] by the name of the marker; None for those of the file of
        the tree. Markers that the record lacks are left out.
    markers : measured; missing samples (NaN) are left out, and directions in which nothing moves,
        as across the plane of a planar tree.
    weights : of squared distances by marker, 1 for those not named, 0 leaves one out.
    targets : values that coordinates are drawn to and weights of squared distances from them, by
        name: {"subtalar_angle_r": (0.0, 10.0)}, (N,) values of all instants if they change [rad,
        m]. A weight of 1 is that of a marker, of a radian as of a metre.
    limits : bounds of coordinates by name [rad, m], such as `tree.ranges` of `ks.osim.read`.
    loss : "huber", "pseudo-huber" or "student" for markers that jump, of the root mean square of
        the components of an error over the noise, which is estimated by the median; None for
        squares.
    smooth : `Butterworth(6.0)`, or its cutoff alone [Hz]: courses of coordinates are damped as by
        this filter, to 1/sqrt(2) there, but within the fit, so that neighbours count more where
        markers are missing, and standard errors are those of a course that is so smooth. None
        leaves instants on their own. For another law smooth the markers, `markers.smoothed(SSA())`.
    guess : coordinates of an instant to begin with [rad, m]; those of the file, else 0. Quarter
        turns of the first body are tried, too.

    Returns
    -------
    A `MarkerFit`: coordinates with standard errors, marker errors, `report()`, `plot()`.

    Levenberg's method on exact derivatives (Lu, O'Connor 1999, Journal of Biomechanics 32, pose
    this problem instant by instant); standard errors take errors of markers for independent, of
    one size over the roots of the weights.

    Raises `ValueError` for names of bodies, markers and coordinates that do not exist, markers that
    are all missing, and limits that leave nothing. Warns if it does not converge, if markers stay
    far off, and of coordinates that no marker shows.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    check_kind(markers, Markers, "kinesym.gait")
    law = None if smooth is None else low_pass(smooth, markers.rate)
    found, unused = matched(tree, placed, [markers])
    functions = compiled(tree, tuple(body for body, _ in found.values()))
    measured = measured_of(tree, found, markers)
    problem = squares_of(functions, found, unused, measured, weights, limits, loss)
    drawn, pulls = targets_of(functions.states, len(markers), targets)
    problem = replace(problem, targets=drawn, pulls=pulls)
    first = guess_of(tree, functions.states, guess)
    q = start(problem, first, root_turns(tree, functions.states), markers.time)
    problem, minimum = fitted(problem, q, law, markers.rate)
    states, state, known = functions.states, minimum.state, knowledge(problem, minimum)
    gaps = np.sqrt(np.sum(state.gaps**2, axis=0))
    distances = np.where(np.isfinite(measured[::3]), gaps, np.nan)
    turns, names = turning(tree.links), list(found)
    said = "" if minimum.converged else trouble(minimum, states, names, markers.time)
    result = MarkerFit(
        tree.name,
        markers.time,
        dict(zip(states, state.q, strict=True)),
        dict(zip(states, known.std, strict=True)),
        dict(zip(names, distances, strict=True)),
        known.noise,
        [name for name in states if name in turns],
        list(unused),
        minimum.converged,
        said,
        minimum.iterations,
    )
    check_fit(result)
    return result


def low_pass(smooth: Any, rate: float) -> Butterworth:
    """The law of courses; raises `ValueError` for another one, and a cutoff beyond the rate."""
    law = smoother_of(smooth)
    if not isinstance(law, Butterworth):
        raise ValueError(
            f"fit_markers smooths within the fit, as Butterworth does, got {law!r}; another law is "
            "for the markers before: markers.smoothed(law)"
        )
    if law.markers:
        raise ValueError("fit_markers smooths coordinates, of which no marker has a cutoff")
    if not law.cutoff < 0.5 * rate:
        raise ValueError(
            f"smooth is a frequency between 0 and half the rate, {0.5 * rate:g} Hz, got "
            f"{law.cutoff:g}"
        )
    return law


def fitted(
    problem: Squares, q: Array, law: Butterworth | None, rate: float
) -> tuple[Squares, MarkerMinimum]:
    """The minimum from coordinates (n, N), with the noise that a loss needs, first of each instant
    on its own, then of a smooth course; and the problem that it is of."""
    loss = problem.loss
    minimum = minimise(replace(problem, loss=None), q, problem.prior)
    for _ in range(ROUNDS if loss is not None else 0):
        freedom = float(problem.counts.sum() - q.size)
        noise = median_noise(problem, minimum.state, freedom)
        before, problem = problem.noise, replace(problem, noise=noise)
        minimum = minimise(problem, minimum.state.q, problem.prior)
        if abs(problem.noise / before - 1.0) < SETTLED:
            break
    if law is None:
        return problem, minimum
    A = problem.normal(minimum.state).A.mean(axis=0)
    A += HELD * np.trace(A) / len(A) * np.eye(len(A))
    smoothness = Smoothness(law.order, weight_of_cutoff(law.cutoff, rate, law.order), A)
    problem = replace(problem, smoothness=smoothness)
    return problem, minimise(problem, minimum.state.q, problem.prior)


def trouble(
    minimum: MarkerMinimum, states: Sequence[str], names: Sequence[str], time: Array | None = None
) -> str:
    """Message on a fit that did not converge: the coordinate that still moves most, when, and the
    marker with the largest error there."""
    size = np.abs(minimum.left)
    if not size.any():
        return f"stopped after {minimum.iterations} iterations"
    i, k = np.unravel_index(int(size.argmax()), size.shape)
    gaps = np.linalg.norm(minimum.state.gaps[:, :, k], axis=0)
    when = "" if time is None else f" at {time[k]:g} s"
    many = int(np.count_nonzero(size.any(axis=0)))
    return (
        f"stopped after {minimum.iterations} iterations, at {many} of {size.shape[1]} instants: "
        f"{states[int(i)]} still moves by {size[i, k]:.1g}{when}, where marker "
        f"{names[int(gaps.argmax())]!r} is {100 * gaps.max():.1f} cm off"
    )


def check_fit(fit: MarkerFit) -> None:
    """Warn of a fit that looks wrong."""
    if not fit.converged:
        warn(f"{fit.message}: the coordinates are not those of least squares")
    blind = [name for name, error in fit.std.items() if np.isnan(error).all()]
    if blind:
        warn(
            f"no marker shows {listed(blind)}, which stay where they began; lock them, or place "
            "more markers",
        )
    name, when, error = fit.worst
    if error > FAR:
        warn(
            f"marker {name!r} is {100 * error:.0f} cm off at {when:g} s: is it on this body, and "
            'are markers exchanged? loss="huber" makes it count less',
        )
