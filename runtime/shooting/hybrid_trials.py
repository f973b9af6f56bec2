"""Trials of a hybrid model as functions of few unknowns; derivatives across events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples, stacked
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.priors import Priors
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


class HybridTrials(Simulated):
    """Trials of a hybrid model, see `Simulated`; J is `factor` times the least squares of their
    measurements.

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
        r = self._residuals(q)
        return float(r @ r)

    def _residuals(self, q: Array) -> Array:
        """Residuals (simulated - measured) / std of all samples that are not missing, by trial,
        then by measurement."""
        parts = [
            ((made.run[name] - measured) / trial.divisors[name])[~np.isnan(measured)]
            for made, trial in zip(self.simulate(q), self.trials, strict=True)
            for name, measured in trial.measurements.items()
        ]
        e = np.concatenate(parts)
        return np.asarray(np.sqrt(self.factor) * (self.loss.root(e) if self.loss else e))

    def samples(self) -> Samples:
        names = list(dict.fromkeys(n for trial in self.trials for n in trial.measurements))
        rows = [
            (names.index(name), k, trial.grid[here], trial.divisors[name][here] ** -2.0)
            for k, trial in enumerate(self.trials)
            for name, measured in trial.measurements.items()
            for here in [~np.isnan(measured)]
        ]
        return stacked(tuple(names), rows)

    def trajectories(self, q: Array) -> list[Trajectory]:
        return [
            replace(made.run, measurements=dict(trial.measurements), std=dict(trial.std))
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
        result, unknowns = np.zeros(q.size), self.unknowns
        for k, (made, trial) in enumerate(zip(self.simulate(q), self.trials, strict=True)):
            values = self.values(q, k)
            weights = {
                name: np.nan_to_num(
                    2.0 * self.factor * self._slope(made.run[name] - measured, std) / std
                )
                for name, measured in trial.measurements.items()
                for std in [trial.divisors[name]]
            }
            slopes = made.gradient(weights)
            result[unknowns.starts(k)] = [slopes.initial[x] for x in unknowns.initial]
            for j, p in zip(unknowns.owned.places(k), unknowns.owned.parameters, strict=True):
                result[j] += slopes.parameters.get(p, 0.0)
                for u, change in self._changes(k, p, values).items():
                    mine = zip(slopes.inputs[u].parts, change.parts, strict=True)
                    result[j] += sum(float(a @ b) for a, b in mine)
        return result

    def _slope(self, difference: Array, std: Array) -> Array:
        """Half the derivative of the loss of a residual."""
        e = difference / std
        return e if self.loss is None else self.loss.slope(e)

    def _forward_gradient(self, q: Array) -> Array:
        return np.asarray(2.0 * self._residuals(q) @ self._jacobian(q))

    def _jacobian(self, q: Array) -> csr_array:
        """Jacobian d r/d q; entries that are zero here are kept: elsewhere they may not be."""
        values, rows, columns, begin = list[Array](), list[Array](), list[Array](), 0
        for k, trial in enumerate(self.trials):
            mine, along = self._along(q, k)
            for name, measured in trial.measurements.items():
                here = np.flatnonzero(~np.isnan(measured))
                part = along[name][:, here] / trial.divisors[name][here]
                values.append(part.ravel())
                rows.append(np.tile(begin + np.arange(len(here)), len(mine)))
                columns.append(np.repeat(mine, len(here)))
                begin += len(here)
        places = (np.concatenate(rows), np.concatenate(columns))
        entries = np.sqrt(self.factor) * np.concatenate(values)
        slopes = coo_array((entries, places), shape=(begin, q.size)).tocsr()
        if self.loss is None:
            return slopes
        e = self.loss.unrooted(self._residuals(q) / np.sqrt(self.factor))
        return csr_array(diags_array(self.loss.root_slope(e)) @ slopes)

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
