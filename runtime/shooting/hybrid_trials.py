"""Trials of a hybrid model as functions of few unknowns; derivatives across events."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.priors import Priors
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import LOG_STD, Samples, stacked
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.scores import Scores
from kinesym.runtime.shooting.trials import Simulated, System, unstable
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import ParametricSignal, Signal, SignalGradient
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Diverged
from kinesym.runtime.status import Switching

#: From a trial's number, start, parameters and inputs to a run; raises `ValueError`.
Runner = Callable[
    [int, Mapping[str, float], Mapping[str, float], Mapping[str, Signal]], Sensitivities
]


class _Off(NamedTuple):
    """Residuals of the samples of a measurement in a trial over their standard deviations `std`;
    own : the output that is these, if they are an expression. name : what is measured, here : at
    these nodes."""

    residual: Array
    std: Array
    own: str
    name: str
    here: NDArray[np.intp]


#: Derivatives of rows by some unknowns, and these.
_Block = tuple[Array, list[int]]


class HybridTrials(Simulated):
    """Trials of a hybrid model, see `Simulated`; J is `factor` times the least squares of their
    measurements, or their likelihood where standard deviations are expressions.

    Parameters
    ----------
    run : simulates a trial, with derivatives of all that is measured. system : names. trials : with
    measurements. initial : per trial the initial values by state, NaN where unknown, and whether
    contacts press. inputs : per trial, by name. loss : of residuals, if not their squares.
    """

    def __init__(
        self,
        run: Runner,
        system: System,
        trials: Sequence[Experiment],
        initial: Sequence[Mapping[str, float]],
        inputs: Sequence[Mapping[str, Signal | ParametricSignal]],
        unknowns: Unknowns,
        priors: Priors,
        following: Sequence[Following | None],
        factor: float = 1.0,
        loss: RobustLoss | None = None,
    ) -> None:
        super().__init__(unknowns, system, trials, priors, following)
        self._follows = following
        self._run_trial, self._initial, self._inputs = run, initial, inputs
        self.factor, self.loss = factor, loss
        moving = any(trial.std_outputs for trial in trials)
        self.scored = moving or self.kinked or not priors.squares

    # -- values -----------------------------------------------------------------------------

    def _simulated(self, q: Array) -> list[Sensitivities]:
        return [self._run(q, k) for k in range(len(self.trials))]

    def _run(self, q: Array, number: int) -> Sensitivities:
        unknowns, values = self.unknowns, self.values(q, number)
        unknown = zip(unknowns.initial, q[unknowns.starts(number)].tolist(), strict=True)
        start = {**self._initial[number], **dict(unknown), **self.followed(q, number)}
        numbers = {name: values[name] for name in self.system.parameters}
        of = self._title(number)
        try:
            inputs = {
                u: given if isinstance(given, Signal) else given.at(values)
                for u, given in self._inputs[number].items()
            }
            made = self._run_trial(number, start, numbers, inputs)
        except ValueError as error:  # a start that cannot be, breaks that do not increase
            raise Diverged(f"{of}{error}") from error
        if made.raw.status is Switching.INTERRUPTED:
            raise KeyboardInterrupt
        if made.run.message:
            raise Diverged(f"{of}{made.run.message}")
        return replace(made, following=self._follows[number])

    def _cost(self, q: Array) -> float:
        every = self._off(q)
        with np.errstate(all="ignore"):  # of what is not positive
            logs = sum(float(np.log(std).sum()) for _, std, own, *_ in every if own)
        e = np.concatenate([each[0] for each in every])
        rho = e**2 if self.loss is None else self.loss.root(e) ** 2
        return self.factor * float(rho.sum() + 2.0 * logs)

    def _off(self, q: Array) -> list[_Off]:
        """Residuals of all samples that are not missing, by trial, then by measurement."""
        found = []
        for made, trial in zip(self.simulate(q), self.trials, strict=True):
            for name, measured in trial.measurements.items():
                here, own = np.flatnonzero(~np.isnan(measured)), trial.std_outputs.get(name, "")
                std = made.run[own][here] if own else trial.divisor(name)[here]
                e = (made.run[name][here] - measured[here]) / std
                found.append(_Off(e, std, own, name, here))
        return found

    def _stacked(self, every: Sequence[_Off]) -> Array:
        """Residuals, then sqrt(2) log std of those that are expressions."""
        logs = [np.sqrt(2.0) * np.log(each.std) for each in every if each.own]
        rows = []
        for each in every:
            plain = each.own or self.loss is None or self.kinked
            rows.append(each.residual if plain else self.loss.root(each.residual))  # type: ignore
        return np.asarray(np.sqrt(self.factor) * np.concatenate([*rows, *logs]))

    def _scores(self, every: Sequence[_Off]) -> Scores:
        ends = np.cumsum([len(each.std) for each in every])
        own = np.concatenate([np.full(len(each.std), bool(each.own)) for each in every])
        log, none = ends[-1] + np.arange(own.sum()), np.zeros(0, dtype=np.intp)
        there = np.ones(len(own) + len(log), dtype=bool)
        root = float(np.sqrt(self.factor))
        return Scores(np.flatnonzero(own), log, none, there, root, self.loss)

    def _rows(self, q: Array) -> tuple[Array, Scores | None]:
        """Rows (simulated - measured) / std, by trial, then by measurement; then those of the
        logarithms of standard deviations that are expressions."""
        every = self._off(q)
        return self._stacked(every), self._scores(every)

    def samples(self) -> Samples:
        names = list(dict.fromkeys(n for trial in self.trials for n in trial.measurements))
        rows, logs, channels = [], [], [*names]
        for k, trial in enumerate(self.trials):
            for name, measured in trial.measurements.items():
                here = ~np.isnan(measured)
                about = (k, trial.grid[here], trial.divisor(name)[here] ** -2.0)
                rows.append((names.index(name), *about))
                if name in trial.std_outputs:
                    log = f"{LOG_STD}{name}"
                    channels += [] if log in channels else [log]
                    logs.append((channels.index(log), *about))
        found = stacked(tuple(channels), [*rows, *logs])
        return replace(found, counts=np.where(found.channel < len(names), found.counts, 0.0))

    def trajectories(self, q: Array) -> list[Trajectory]:
        return [
            replace(
                made.run,
                measurements=dict(trial.measurements),
                std={**trial.std, **{n: made.run[s] for n, s in trial.std_outputs.items()}},
            )
            for made, trial in zip(self.simulate(q), self.trials, strict=True)
        ]

    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        names = self.unknowns.states
        return [
            (np.array([np.abs(made.run[x]).max() for x in names]), np.zeros(0))
            for made in self.simulate(q)
        ]

    def instability(self, q: Array) -> str:
        """Message if the model is unstable from a start to the first event, else empty."""
        n = len(self.unknowns.states)
        for k, made in enumerate(self.simulate(q)):
            start = np.array([[made.run[x][0]] for x in self.unknowns.states])
            slope = made.sweep.observed(made.run.time[:1].copy(), start)[0, :, :n]
            first = min((e.time for e in made.run.events), default=made.run.time[-1])
            longest = float(first - made.run.time[0])
            words = unstable(k, np.linalg.eigvals(slope), longest, "or shorter trials")
            if words:
                return words
        return ""

    # -- derivatives ------------------------------------------------------------------------

    def _gradient(self, q: Array) -> Array:
        result, unknowns, every = np.zeros(q.size), self.unknowns, iter(self._off(q))
        for k, (made, trial) in enumerate(zip(self.simulate(q), self.trials, strict=True)):
            values = self.values(q, k)
            weights = dict[str, Array]()
            for each in itertools.islice(every, len(trial.measurements)):
                psi = each.residual if self.loss is None else self.loss.slope(each.residual)
                pulls = {each.name: psi} | (
                    {each.own: 1.0 - each.residual * psi} if each.own else {}
                )
                for name, pull in pulls.items():
                    row = weights.setdefault(name, np.zeros(trial.n_nodes))
                    row[each.here] += 2.0 * self.factor * pull / each.std
            slopes = made.gradient(weights)
            result[unknowns.starts(k)] = [slopes.initial[x] for x in unknowns.initial]
            for j, p in zip(unknowns.owned.places(k), unknowns.owned.parameters, strict=True):
                result[j] += slopes.parameters.get(p, 0.0)
                for u, change in self._changes(k, p, values).items():
                    mine = zip(slopes.inputs[u].parts, change.parts, strict=True)
                    result[j] += sum(float(a @ b) for a, b in mine)
        return result

    def _forward_gradient(self, q: Array) -> Array:
        rows, scores = self._rows(q)
        pull = rows if scores is None else scores.values(rows)
        if self.kinked:
            plain = np.concatenate([np.full(len(each.std), not each.own) for each in self._off(q)])
            which = np.flatnonzero(plain)
            pull[which] = np.sqrt(self.factor) * np.sign(pull[which])
        return np.asarray(2.0 * pull @ self._jacobian(q))

    def _jacobian(self, q: Array) -> csr_array:
        """Jacobian d r/d q; entries that are zero here are kept: elsewhere they may not be."""
        every = self._off(q)
        left, parts, logs = iter(every), list[_Block](), list[_Block]()
        for k, trial in enumerate(self.trials):
            mine, along = self._along(q, k)
            for each in itertools.islice(left, len(trial.measurements)):
                by = along[each.name][:, each.here] / each.std
                if each.own:
                    of_log = along[each.own][:, each.here] / each.std
                    by = by - each.residual * of_log
                    logs.append((np.sqrt(2.0) * of_log, mine))
                elif self.loss is not None and not self.kinked:
                    by = by * self.loss.root_slope(each.residual)
                parts.append((by, mine))
        begin, rows, columns = 0, list[Array](), list[Array]()
        for by, mine in (*parts, *logs):
            rows.append(np.tile(begin + np.arange(by.shape[1]), len(mine)))
            columns.append(np.repeat(mine, by.shape[1]))
            begin += by.shape[1]
        entries = np.sqrt(self.factor) * np.concatenate([by.ravel() for by, _ in (*parts, *logs)])
        places = (np.concatenate(rows), np.concatenate(columns))
        slopes = coo_array((entries, places), shape=(begin, q.size)).tocsr()
        return self._scores(every).slopes(self._stacked(every), slopes) if logs else slopes

    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        mine, along = self._along(q, trial)
        found = {}
        for name in names:
            if name in along:
                rows = np.repeat(np.arange(along[name].shape[1]), len(mine))
                places = (rows, np.tile(mine, along[name].shape[1]))
                shape = (along[name].shape[1], q.size)
                found[name] = coo_array((along[name].T.ravel(), places), shape=shape).tocsr()
        return found

    def _along(self, q: Array, trial: int) -> tuple[list[int], Mapping[str, Array]]:
        """Unknowns that a trial depends on, and derivatives of the measured signals by these; a
        parameter of the model and of inputs occurs twice."""
        unknowns, values = self.unknowns, self.values(q, trial)
        places = dict(zip(unknowns.owned.parameters, unknowns.owned.places(trial), strict=True))
        own = [p for p in places if p in self.system.parameters]
        changes = {p: self._changes(trial, p, values) for p in places}
        moved = [p for p, change in changes.items() if change]
        variations = {f"variation {p}": changes[p] for p in moved}
        along = self.simulate(q)[trial].forward([*own, *unknowns.initial], variations)
        starts = range(q.size)[unknowns.starts(trial)]
        return [*(places[p] for p in own), *starts, *(places[p] for p in moved)], along

    def _changes(
        self, trial: int, name: str, values: Mapping[str, float]
    ) -> dict[str, SignalGradient]:
        """Derivatives of the inputs of a trial that depend on a parameter, with respect to it."""
        return {
            u: signal.by(name, values)
            for u, signal in self._inputs[trial].items()
            if not isinstance(signal, Signal) and name in signal.names
        }
