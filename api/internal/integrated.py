"""Collocation with trajectories and random effects integrated out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitted import Fitted
from kinesym.internal.likelihood import first_samples, log_likelihood
from kinesym.internal.marginal import Marginal
from kinesym.internal.pipeline import with_data
from kinesym.internal.population import Numbers
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.signals.experiment import Experiment


class Integrated(Fitted):
    """A nonlinear program whose parameters may be those of the largest marginal likelihood."""

    def log_likelihood(self, solution: Solution) -> float:
        """log of the likelihood of the parameters of a solution, all trajectories counted in.

        Unknown inputs with a prior, `Integral(u**2/sigma**2)`, are process noise: white, of the
        intensity sigma^2, held between the nodes. The objective alone tells how likely the best
        trajectories are, together with the samples, and prefers parameters with which these are
        likely, such as a noise that is zero; the likelihood tells how likely the samples are, and
        is what parameters and sigma are to be chosen by (marginal likelihood). It is that of the
        Kalman filter where the model is linear, else by Laplace's method: of the curvature at the
        solution. States at the start that no condition tells, and unknown inputs without a prior,
        may be anywhere: it is that of a Kalman filter with a diffuse start (Durbin, Koopman 2012,
        Time Series Analysis by State Space Methods, chapter 5), times sqrt(det X'X), where X is how
        the first 5 % of the samples, in units of their std, depends on the start. Without it the
        likelihood would depend on the coordinates of the model, and have peaks where parameters
        hide a part of the start (Francke, Koopman, de Vos 2010, J. Time Series Analysis 31, 407).

        Raises `ValueError` for other objectives, for process noise that is not held, if the
        solution has not converged, if a bound or an inequality holds there, and if the samples do
        not tell the start.
        """
        problem, known = self._converged(solution, "likelihood")
        made = (problem.nlp, problem.trials, problem._interior(known))
        values = [run.parameters for run in known.trials]
        seen = self.on_grid_of(solution)._seen(known.free_vector)
        return log_likelihood(self.symbolic, *made, known.objective, values, seen, problem._drawn)

    def _seen(self, z: Array) -> Array:
        """The Hessian of the first samples, by which the start is measured; see `log_volume`."""
        return self._of_first_samples.hessian(z, np.zeros(self.n_constraints), 1.0)

    @cached_property
    def _of_first_samples(self) -> NLP:
        return self._nlp(self._built, first_samples(self.symbolic, self.layout, self.trials))

    @property
    def _drawn(self) -> tuple[NDArray[np.bool_], float]:
        """Which parameter values are random effects, and -2 log of the heights of their densities
        with the distributions that this problem has."""
        some = self._population
        return some.random, some.heights(some.entries(self._priors))

    def _marginal(
        self,
        std: Mapping[str, float],
        limits: tuple[Array, Array],
        chosen: SolverOptions,
        report: Callable[[Iteration], None],
    ) -> Marginal:
        """The likelihood with process noise or random effects as a function of parameters; std : a
        guess. limits : of what is unknown of distributions."""

        def on(nlp: NLP, trials: Sequence[Experiment], numbers: Numbers) -> NLP:
            return with_data(nlp, trials, self._known, {**self._priors, **numbers})

        trials = [trial.with_std(std) for trial in self.trials] if std else self.trials
        return Marginal(
            symbolic=self.symbolic,
            nlp=self._nlp(self._built, trials) if std else self.nlp,
            problem=self._ipopt(self.nlp),
            trials=self.trials,
            groups=list(std),
            on=on,
            population=self._population,
            limits=limits,
            seen=self._seen,
            idle=[end.place for end in self._ends.values() if not end.determined],
            chosen=chosen,
            report=report,
        )

    def _errors(self, z: Array, known: Solution | None) -> Array:
        """Standard errors of the parameters in z, (r,), NaN where not known."""
        found = dict[str, float]()
        for about in known.uncertainty if known is not None else ():
            found |= zip(about.names, about.deviations().tolist(), strict=True)
        names = self.layout.parameters
        return np.array([found.get(n, np.nan) for n in names]) / self.layout.parameter_slopes(z)
