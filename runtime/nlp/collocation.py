"""Numbers of a collocation problem: known data by kernel argument, and first guesses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.library.manifest import CollocationManifest, TimedManifest
from kinesym.runtime.nlp.bounds import middle
from kinesym.runtime.nlp.courses import at_place
from kinesym.runtime.nlp.layout import FAMILIES, Block, Layout
from kinesym.runtime.nlp.nlp import TrialData
from kinesym.runtime.nlp.owned import check_positive, owned_parameters
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal, held_to_the_end
from kinesym.runtime.signals.timed import slots


def make_layout(
    about: CollocationManifest, trials: Sequence[Experiment], delayed: Sequence[str] = ()
) -> Layout:
    """Layout of z and of the constraints for these trials; delayed : inputs that are delayed
    signals."""
    return Layout(
        blocks=tuple(Block(a.name, a.members, a.place) for a in about.arrays),
        states=about.states,
        inputs=about.unknown_inputs,
        held=frozenset(about.held),
        owned=owned_parameters(
            about.unknown_parameters, dict(about.owners), trials, about.log_scale
        ),
        labels={f: about.families[f].constraints for f in FAMILIES},
        grids=tuple(trial.grid for trial in trials),
        free_duration=about.free_duration,
        delayed=tuple(delayed),
    )


def trial_data(
    about: CollocationManifest,
    trial: Experiment,
    known: Mapping[str, float],
    following: Experiment | None = None,
    tables: ArrayLike = (),
) -> TrialData:
    """Known numbers of a trial, and at its link to the `following` one. `known` has the values of
    the known parameters, which the numbers of `tables` follow."""
    N, grid = trial.n_nodes, trial.grid
    steps = np.diff(grid)
    stacked = np.concatenate([np.zeros(0), *(trial.inputs[name] for name in about.signals)])
    within = {
        f"si{k}": (signals_within(trial, about.signals, place), 0, N - 1)
        for k, place in enumerate(about.signal_places, start=1)
    }
    values = np.append([known[name] for name in about.known_parameters], tables)
    one, last = int(bool(about.signals)), (N - 1) * bool(about.signals)
    y, w = _measured(about.node_measurements, trial)
    samples, weights = _measured(about.interval_measurements, trial)
    for k, (place, share) in enumerate(about.measured_places, start=1):
        within[f"y{k}"] = (at_place(samples, place).ravel(), 0, N - 1)
        within[f"w{k}"] = (share * at_place(weights, place).ravel(), 0, N - 1)
    for c, channel in enumerate(about.timed):
        rows = _timed(channel, trial).items()
        within |= {f"{what}{c}": (row.ravel(), 0, N - 1) for what, row in rows}
    begins, ends = np.append(-np.inf, grid[1:-1]), np.append(grid[1:-1], np.inf)
    within["edges"] = (np.concatenate([begins, ends]), 0, N - 1)
    q0, q1 = about.quadrature
    quadrature = np.zeros(N)
    quadrature[:-1] += q0 * steps
    quadrature[1:] += q1 * steps
    arrays = {
        ("interval", "s0"): (stacked, 0, N),
        ("interval", "s1"): (stacked, one, N),
        ("interval", "h"): (steps, 0, N - 1),
        ("interval", "t"): (grid, 0, N),
        **{("interval", name): array for name, array in within.items()},
        ("node", "s"): (stacked, 0, N),
        ("node", "q"): (quadrature, 0, N),
        ("node", "t"): (grid, 0, N),
        ("node", "y"): (y.ravel(), 0, N),
        ("node", "w"): (w.ravel(), 0, N),
        ("ends", "s0"): (stacked, 0, N),
        ("ends", "s1"): (stacked, last, N),
        ("ends", "t0"): (grid, 0, N),
        ("ends", "t1"): (grid, N - 1, N),
    }
    later = trial if following is None else following
    after = np.array([later.inputs[name][0] for name in about.signals])
    for family in ("link", "cycle"):
        arrays[family, "s0"] = (stacked, last, N)
        arrays[family, "s1"] = (after, 0, 1)
        arrays[family, "t0"] = (grid, N - 1, N)
        arrays[family, "t1"] = (later.grid, 0, later.n_nodes)
    arrays.update({(family, "k"): (values, 0, 1) for family in FAMILIES})
    return arrays


def signals_within(trial: Experiment, names: Sequence[str], place: float) -> Array:
    """Signals at a place of each interval, (n_signals (N - 1),); a held one has the value of the
    node before, one with jumps that of the interval."""
    grid, signals = trial.grid, trial.signals
    rows = [
        trial.inputs[name][:-1] if name in trial.held else signals[name].within(grid, place)
        for name in names
    ]
    return np.concatenate([np.zeros(0), *rows])


def _measured(names: Sequence[str], trial: Experiment) -> tuple[Array, Array]:
    """Samples and weights 1/std^2, (n_measurements, N). A missing sample has weight 0 and a value
    interpolated between its neighbours, which matters where two nodes share a term."""
    y = np.zeros((len(names), trial.n_nodes))
    w = np.zeros_like(y)
    for k, name in enumerate(names):
        if name in trial.measurements:
            present = ~np.isnan(trial.measurements[name])
            y[k] = filled(trial.measurements[name], trial.grid)
            w[k, present] = trial.divisor(name)[present] ** -2.0
    return y, w


def _timed(channel: TimedManifest, trial: Experiment) -> dict[str, Array]:
    """Data of a measurement at times of its own, in slots (slots, N - 1), named as in
    `codegen.slots`: shares "at" of the interval, samples "ya" and weights 1/std^2 "wa", with the
    weight 0 in empty slots; signals "sa", (signals, slots, N - 1); and sampling times "time". If
    the delay is unknown, shares are those without it, and "da" is the decrease of a share with
    it."""
    shape = (channel.slots, trial.n_nodes - 1)
    shares, y, w, falls, taken = np.zeros((5, *shape))
    signals = np.zeros((len(channel.signals), *shape))
    own = trial.timed_samples(channel.name)
    if own is not None:
        interval, share = own.places(trial.grid)
        here = slots(interval), interval
        if (most := 1 + int(here[0].max(initial=0))) > channel.slots:
            raise ValueError(
                f"measurement {channel.name} has {most} samples in an interval of this grid, more "
                f"than the {channel.slots} of the grid that the problem was made for; make another "
                "problem on this grid"
            )
        shares[here], y[here], taken[here] = share, own.values[own.present], own.times[own.present]
        w[here] = trial.divisor(channel.name)[own.present] ** -2.0
    grid = trial.grid
    times = np.clip((1.0 - shares) * grid[:-1] + shares * grid[1:], grid[0], grid[-1])
    for row, name in zip(signals, channel.signals, strict=True):
        if name in trial.held:
            row[:] = trial.inputs[name][:-1]
        else:
            row[:] = trial.signals[name](times.ravel()).reshape(shape)
    if own is not None and channel.delay:
        falls[here] = 1.0 / np.diff(grid)[interval]
        shares += own.delay * falls
    return {"at": shares, "ya": y, "wa": w, "sa": signals, "da": falls, "time": taken}


# -- guesses --------------------------------------------------------------------------------


def filled(samples: Array, time: Array) -> Array:
    """`samples` with missing ones (NaN) interpolated linearly in time."""
    present = ~np.isnan(samples)
    if not present.any():
        return np.zeros(len(samples))
    return np.interp(time, time[present], samples[present])


def first_guess(
    layout: Layout,
    trials: Sequence[Experiment],
    given: Mapping[str, Any],
    defaults: Mapping[str, float],
    rates: Mapping[str, str],
    lines: Sequence[Mapping[str, Array]] = (),
) -> tuple[Array, NDArray[np.bool_]]:
    """First guess of the free vector, and the entries that were given: the others are measured,
    else the slope of what is given or measured, else of `lines` or their slope, else the value of
    the model, NaN for a parameter without one, else zero.

    given : values by name; numbers, (N,), or one such, or a signal, per trial in a list.
    defaults : values of the unknown parameters. rates : state by the state whose derivative it is.
    lines : trajectories (N,) by name, per trial.
    Raises `ValueError` naming an array of a wrong size or with values that are not finite.
    """
    z = np.zeros(layout.n_variables)
    fixed = np.zeros(layout.n_variables, dtype=bool)
    durations = _durations(trials, given) if layout.free_duration else np.ones(len(trials))
    for number, trial in enumerate(trials):
        drawn = lines[number] if lines else {}
        courses = {
            name: _given_course(name, given[name], number, trials, name in layout.held)
            if name in given
            else Signal(
                trial.grid, _made_up(name, trials, given, drawn, rates, number, durations[number])
            )
            for name in (*layout.states, *layout.inputs)
        }
        layout.put(z, number, courses)
        for block, rows in layout.rows(fixed, number):
            rows.T[:] = [name in given for name in block.members]
    owned = layout.owned
    guessed = owned.guessed(given)
    for k, (name, p) in enumerate(zip(owned.names, owned.members, strict=True)):
        j = layout.parameter_offset + k
        z[j] = guessed.get(name, defaults.get(p, np.nan))
        fixed[j] = name in guessed
    check_positive(owned, layout.parameter_values(z))
    layout.parameter_values(z)[:] = owned.entries(layout.parameter_values(z))
    if layout.free_duration:
        layout.durations(z)[:] = durations
        layout.durations(fixed)[:] = "duration" in given
    return z, fixed


def within(
    z: Array,
    bounds: tuple[Array, Array],
    given: NDArray[np.bool_],
    named: Callable[[int], str],
    natural: Callable[[Array], Array] = np.asarray,
    stacklevel: int = 4,
) -> Array:
    """Move z into its bounds, with a warning if given values were outside; NaN becomes the middle
    of the bounds, or the value next to zero.

    named : a function that names an entry. natural : values from entries of z, for messages. Raises
    `ValueError` for a given entry that is not finite.
    """
    low, high = bounds
    odd = given & ~np.isfinite(z)
    if odd.any():
        j = int(np.flatnonzero(odd)[0])
        raise ValueError(f"the guess of {named(j)} is {natural(z)[j]:g}, not a finite number")
    z = z.copy()
    for k in np.flatnonzero(np.isnan(z)):
        z[k] = middle(low[k], high[k])
    # IPOPT goes 1e-8 beyond bounds, and equal ones leave no choice
    beyond = np.maximum(
        low - 2e-8 * np.maximum(1.0, np.abs(low)) - z,
        z - high - 2e-8 * np.maximum(1.0, np.abs(high)),
    )
    outside = np.flatnonzero(given & (beyond > 0.0) & (low < high))
    if len(outside):
        j = int(outside[0])
        more = f" and {len(outside) - 1} more such values are" if len(outside) > 1 else " is"
        value, below, above = (float(natural(row)[j]) for row in (z, low, high))
        warnings.warn(
            f"the guess of {named(j)}, {value:g}, is outside its bounds ({below:g}, {above:g}); "
            f"it{more} moved inside",
            stacklevel=stacklevel,
        )
    return np.clip(z, low, high)


#: Share of the largest duration below which a smallest one stands for zero.
_NO_TIME = 1e-6


def _durations(trials: Sequence[Experiment], given: Mapping[str, Any]) -> Array:
    """Durations of all trials: given, else the geometric means of their bounds, which often are
    powers of ten around it; not of a lower one that stands for zero."""
    bounds = [t.duration for t in trials if t.duration]
    means = [float(np.sqrt(max(low, _NO_TIME * high) * high)) for low, high in bounds]
    values = real_array(given.get("duration", means), "the guess of duration")
    if values.shape not in ((), (1,), (len(trials),)) or not np.isfinite(values).all():
        raise ValueError(
            f"the guess of duration must be one finite number or {len(trials)}, got {values}"
        )
    return np.broadcast_to(values, (len(trials),))


def _given_course(
    name: str, value: Any, number: int, trials: Sequence[Experiment], held: bool
) -> Signal:
    """Guess of a trajectory of a trial, over its grid."""
    if isinstance(value, list) and value and isinstance(value[0], Signal):
        return value[number]
    return Signal(trials[number].grid, _given_row(name, value, number, trials, held))


def _given_row(
    name: str, value: Any, number: int, trials: Sequence[Experiment], held: bool = False
) -> Array:
    """Guess of a trajectory at the nodes: a number or (N,), or one of these per trial; of an input
    that is held the last value may be NaN, as in solutions."""
    what, many, N = f"the guess of {name}", len(trials), trials[number].n_nodes
    if isinstance(value, (list, tuple)) and len(value) and np.ndim(value[0]) == 1:
        if len(value) != many:
            raise ValueError(f"{what} has {len(value)} rows, expected one per trial ({many})")
        value = value[number]
    array = real_array(value, what)
    if array.shape == (many,) and many != N:
        array = array[number]
    if array.shape not in ((), (N,)):
        per_trial = f", or one number per trial ({many})" if many > 1 else ""
        raise ValueError(
            f"{what} has shape {array.shape}, expected one number or {N} values{per_trial}"
        )
    array = held_to_the_end(array) if held else array
    if not np.isfinite(array).all():
        raise ValueError(f"{what} is not finite")
    return np.broadcast_to(array, (N,))


def _made_up(
    name: str,
    trials: Sequence[Experiment],
    given: Mapping[str, Any],
    drawn: Mapping[str, Array],
    rates: Mapping[str, str],
    number: int,
    duration: float,
) -> Array:
    """Default guess of a trajectory: measured values, else the slope of given or measured ones,
    else drawn or the slope of that; a grid of unknown duration is relative to it."""
    trial = trials[number]
    if name in trial.measured:
        return trial.course_of(name)
    source = rates.get(name, "")
    if source in given:
        row = _given_row(source, given[source], number, trials)
    elif source in trial.measured:
        row = trial.course_of(source)
    elif name in drawn:
        return drawn[name]
    elif source in drawn:
        row = drawn[source]
    else:
        return np.zeros(trial.n_nodes)
    return np.gradient(row - row[0], trial.grid * duration)  # of a constant exactly zero
