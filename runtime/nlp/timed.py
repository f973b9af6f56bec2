"""Measurements at times of their own, with the model's values there."""

from __future__ import annotations

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.timed import slots


def compared(nlp: NLP, trial: Experiment, number: int, z: Array) -> dict[str, Array]:
    """Measured and modelled values at z of all measurements of a trial with times of their own, as
    `Trajectory.samples` has them, at the times that the samples show."""
    layout, values = nlp.layout, nlp.timed(z, number)
    first, parts = 0, list[tuple[Array, ...]]()
    length = layout.durations(z)[number] if layout.free_duration else 1.0
    for channel in nlp.about.timed:
        mine, own = values[first : first + channel.slots], trial.timed_samples(channel.name)
        spreads = values[first + channel.slots : first + 2 * channel.slots]
        first += channel.slots * (1 + channel.spread)
        if own is None:
            continue
        (interval, _), here = own.places(trial.grid), own.present
        time = length * own.shown
        if channel.delay:
            late = layout.parameters_of(z, number)[layout.owned.parameters.index(channel.delay)]
            time = length * own.times[here] - late
        where = slots(interval), interval
        modelled = mine[where]
        if channel.spread:
            std = spreads[where]
        else:
            std = trial.std.get(channel.name, np.full(len(own.values), np.nan))[here]
        name = np.full(len(modelled), channel.name)
        parts.append((name, time, own.values[here], modelled, std))
    names = ("channel", "time", "measured", "modelled", "std")
    columns = zip(*parts, strict=True)
    return {n: np.concatenate(c) for n, c in zip(names, columns, strict=bool(parts))}
