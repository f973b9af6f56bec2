"""Records that are expected of a motion, and what limits take of their information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array

from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.bootstrap import noiseless, remeasured
from kinesym.runtime.results.series import series_of
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import with_deviations
from kinesym.runtime.statistics.censoring import deviations_within, information_lost

#: Difference of times [s] that is rounding.
_TOGETHER = 1e-9


def follow_motion(trials: Sequence[Experiment]) -> bool:
    """Whether the noise follows the motion."""
    return any(trial.std_expressions for trial in trials)


def expected_record(trials: Sequence[Experiment], runs: Sequence[Trajectory]) -> list[Experiment]:
    """The record that trajectories would leave without noise. Samples that may be censored have the
    standard deviation of those without limits that tell as much on average."""
    found = remeasured(trials, noiseless(runs))
    for s in series_of(runs):
        trial = found[s.trial]
        if s.channel in trial.ranges and s.channel in trial.std:
            std = trial.std[s.channel].copy()
            limits = trial.ranges[s.channel].at(s.time)
            std[s.index] = deviations_within(std[s.index], s.modelled, *limits)
            found[s.trial] = with_deviations(trial, {s.channel: std})
    return found


def lost_by_limits(
    slopes: csr_array, samples: Samples, trials: Sequence[Experiment], runs: Sequence[Trajectory]
) -> csr_array:
    """Information (n, n) that limits take on average from samples whose standard deviation is an
    expression; slopes : of the scores of `samples`, (k, n)."""
    (off, log), n = samples.pairs, slopes.shape[1]
    total, root = csr_array((n, n)), np.sqrt(0.5)
    for s in series_of(runs):
        trial = trials[s.trial]
        if s.channel not in trial.ranges or s.channel in trial.std:
            continue
        number = samples.channels.index(s.channel)
        mine = (samples.channel[off] == number) & (samples.trial[off] == s.trial)
        which = off[mine], log[mine]
        place = np.clip(
            np.searchsorted(s.time, samples.time[which[0]] - _TOGETHER), 0, len(s.time) - 1
        )
        low, high = trial.ranges[s.channel].at(s.time)
        below = information_lost((low - s.modelled) / s.std)
        above = information_lost((s.modelled - high) / s.std)
        mean, both, spread = below[0] + above[0], below[1] - above[1], below[2] + above[2]
        x, y = (slopes[rows] for rows in which)
        parts = ((x, x, mean), (y, y, 0.5 * spread), (x, y, root * both), (y, x, root * both))
        for first, second, share in parts:
            total = csr_array(total + first.T @ diags_array(share[place]) @ second)
    return total
