"""Laplace approximation of the marginal likelihood, with process noise (unknown inputs that have a
prior) or random effects (parameters that have one)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.equation_delays import following
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import first_std
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.likelihood import LogVolume, log_volume
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem

_TAU = 2.0 * np.pi
#: Share of the samples of a trial by which its start is measured.
_FIRST = 0.05
#: Least number of these samples per state.
_PER_STATE = 3


def volume(
    layout: Layout, noises: Collection[str], random: NDArray[np.bool_], kkt: Kkt, seen: Array
) -> LogVolume:
    """Log of the volume of what is integrated out at a solution, by Laplace approximation: all but
    the parameters that are no random effects.

    noises : names of process noise. random : which parameter values are random effects, (r,). kkt :
    the matrix there. seen : see `log_volume`.
    """
    fixed, effect = (layout.parameter_offset + np.flatnonzero(k) for k in (~random, random))
    return log_volume(kkt, fixed, np.append(_noise(layout, noises), effect), seen)


def heights(
    nlp: NLP,
    trials: Sequence[Experiment],
    prior: Mapping[str, sp.Expr],
    values: Sequence[Mapping[str, float]],
) -> float:
    """-2 log of the heights of the densities of all samples and of all process noise; values : of
    all parameters in each trial."""
    return heights_of_samples(nlp, trials) + _of_prior(prior, trials, values)


def check_terms(problem: Problem) -> None:
    """Raise `ValueError` for an objective that is no likelihood, or unknown durations."""
    aim = problem.objective
    if aim.least_squares != 1.0 or aim.terminal != 0 or aim.loss is not None:
        raise ValueError(
            "the likelihood needs the objective LeastSquares() + Integral(u**2/sigma**2 + ...): "
            "LeastSquares without a factor or a loss, no Terminal"
        )
    if problem.free_duration:
        raise ValueError("the likelihood of a record needs known durations")


def priors_of_inputs(problem: Problem) -> dict[str, sp.Expr]:
    """1/sigma^2 of each unknown input that has a prior."""
    integrand, found = sp.expand(problem.objective.integrand), dict[str, sp.Expr]()
    for u in problem.unknown_inputs:
        weight = integrand.coeff(u, 2)
        if weight != 0:
            found[name_of(u)] = weight
            integrand = sp.expand(integrand - weight * u**2)
    parameters = {*problem.unknown_parameters, *problem.known_parameters}
    loose = [w for w in found.values() if w.free_symbols - parameters or w.atoms(AppliedUndef)]
    if integrand != 0 or loose:
        raise ValueError(
            "the likelihood needs integrals of the form Integral(u**2/sigma**2), u an unknown "
            f"input and sigma of parameters; this is none: {integrand or loose[0]}"
        )
    between = [name for name in found if name not in problem.held]
    if between:
        raise ValueError(
            f"the unknown input {between[0]} is process noise, with a prior: it must be held "
            "between the nodes; write ks.held() for it"
        )
    return found


def first_samples(
    problem: Problem, layout: Layout, trials: Sequence[Experiment]
) -> list[Experiment]:
    """The trials with the samples by which states at the start are measured; see `log_volume`.

    With process noise the first ones: later ones tell nothing of the start, and would make much of
    one that lasts, and so favour little damping. Else, and of unknown inputs without a prior, all.
    Standard deviations that are not known are those of the samples: the unit of volume must not
    depend on what is to be found.
    """
    std, least = first_std(trials), _PER_STATE * len(layout.states)
    free = {*map(name_of, problem.unknown_inputs)} - following(problem.model)
    share = _FIRST if free and free == priors_of_inputs(problem).keys() else 1.0
    return [trial.with_std(std).begun(share, least) for trial in trials]


def _noise(layout: Layout, noises: Collection[str]) -> NDArray[np.intp]:
    """Numbers in z of the values of process noise, each of which acts on an interval."""
    found = [np.zeros(0, dtype=np.intp)]
    for begin, N in zip(layout.offsets, layout.nodes, strict=False):
        for name in noises:
            found.append(begin + layout.at_nodes.index(name) * N + np.arange(N - 1))
    return np.concatenate(found)


def heights_of_samples(nlp: NLP, trials: Sequence[Experiment]) -> float:
    """-2 log of the heights of the densities of all samples."""
    about = nlp.about
    names = [*about.node_measurements, *about.interval_measurements]
    names += [channel.name for channel in about.timed]
    return sum(
        float(np.log(_TAU * trial.std[name][~np.isnan(trial.measured[name])] ** 2).sum())
        for trial in trials
        for name in names
        if name in trial.measured
    )


def _of_prior(
    prior: Mapping[str, sp.Expr],
    trials: Sequence[Experiment],
    values: Sequence[Mapping[str, float]],
) -> float:
    """-2 log of the heights of the densities of all values of inputs: with the weight 1/sigma^2,
    one that is held for h has the variance sigma^2/h. values : of all parameters in each trial."""
    total = 0.0
    for name, weight in prior.items():
        for trial, known in zip(trials, values, strict=True):
            number = float(weight.subs({s: known[name_of(s)] for s in weight.free_symbols}))
            if not number > 0.0:
                raise ValueError(f"the prior of the unknown input {name} has the weight {number:g}")
            total += float(np.log(_TAU / (number * np.diff(trial.grid))).sum())
    return total
