"""Subsets of the trials of a problem, with parameters and distributions learnt from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.problems.parameters import Prior, Unknown
from kinesym.internal.problems.random_effects import Numbers, Population
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import Owned, owned_parameters
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import TRIAL, Experiment


class Taught(NamedTuple):
    """Learnt values of parameters (r,), NaN of those that are to be fitted; names of these, and of
    those at the mean of their distribution."""

    values: Array
    refitted: list[str]
    predicted: list[str]


def part_of(
    problem: Discretisation, numbers: Sequence[int], learnt: Trials | None = None
) -> Discretisation:
    """The problem, and library, of some of its trials; learnt : a fit of the others, from which
    distributions and standard deviations are known. Raises `ValueError` for linked trials."""
    if problem.symbolic.links or problem.symbolic.cycle:
        raise ValueError("trials that are linked cannot be left out one by one")
    part = problem.some(numbers)
    if learnt is None:
        return part
    some = problem.population
    found = some.numbers(some.from_natural(learnt.parameters))
    part = part.with_unknown(with_distributions(problem.unknown, found))
    return part.on(with_std(part.trials, learnt))


def arguments_of(
    given: ShootingArguments, numbers: Sequence[int], learnt: Trials | None = None
) -> ShootingArguments:
    """Arguments of shooting for a subset of the trials, by number."""
    old, trials = given.unknowns, [given.trials[k] for k in numbers]
    labels = {name: p.label for name, p in given.unknown.items() if p.label}
    fine = [given.fine[k] for k in numbers]
    unknowns = replace(
        old,
        owned=owned_parameters(old.owned.parameters, labels, trials, old.owned.log_scale),
        segments=tuple(old.segments[k] for k in numbers),
        nodes=tuple(old.nodes[k] for k in numbers),
    )
    places = np.zeros(unknowns.size, dtype=np.intp)
    for j, k in enumerate(numbers):
        places[unknowns.owned.places(j)] = old.owned.places(k)
        for part in ("starts", "boundaries", "samples"):
            new = getattr(unknowns, part)(j)
            places[new] = np.arange(old.size)[getattr(old, part)(k)]
    low, high = given.bounds
    return replace(
        given,
        trials=trials if learnt is None else with_std(trials, learnt),
        fine=fine if learnt is None else with_std(fine, learnt),
        unknowns=unknowns,
        bounds=(low[places], high[places]),
        known=[given.known[k] for k in numbers],
        starts=[given.starts[k] for k in numbers],
        signals=[given.signals[k] for k in numbers],
        following=[given.following[k] for k in numbers],
        resets=[given.resets[k] for k in numbers],
        assignments=given.assignments and given.assignments.some(numbers),
    )


def taught(owned: Owned, unknown: Mapping[str, Unknown], learnt: Mapping[str, float]) -> Taught:
    """Parameters learnt from a fit of other trials: values that these share, else means or medians
    of distributions."""
    values, refitted, predicted = np.full(len(owned.names), np.nan), list[str](), list[str]()
    for k, (name, p) in enumerate(zip(owned.names, owned.members, strict=True)):
        prior = unknown[p].prior
        if name in learnt and unknown[p].label != TRIAL:
            values[k] = learnt[name]
        elif isinstance(prior, Prior):
            values[k] = np.exp(prior.mean[0]) if unknown[p].log else prior.mean[0]
            predicted.append(p)
        else:
            refitted.append(p)
    return Taught(values, list(dict.fromkeys(refitted)), list(dict.fromkeys(predicted)))


def with_std(trials: Sequence[Experiment], learnt: Trials) -> list[Experiment]:
    """Trials with the standard deviations that other trials tell. Raises `ValueError` where they
    tell none."""
    known = learnt.estimated_std
    for trial in trials:
        for group in trial.unknown_std.values():
            if group not in known:
                raise ValueError(
                    f"std of {group} is not given, and nothing else that is measured tells it; "
                    "give std"
                )
    return [trial.with_std(known) if trial.unknown_std else trial for trial in trials]


def with_distributions(unknown: Mapping[str, Unknown], found: Numbers) -> dict[str, Unknown]:
    """Parameters with distributions that were unknown."""
    return {
        name: replace(p, prior=Prior((found[name][0],) * 2, (found[name][1],) * 2))
        if name in found
        else p
        for name, p in unknown.items()
    }


def drawn_from(some: Population, unknown: Mapping[str, Unknown], owned: Owned) -> Population:
    """The random effects of other owners, whose distributions are known."""
    members, effects = np.array(owned.members), list()
    for effect in some.effects:
        prior = unknown[effect.name].prior
        assert isinstance(prior, Prior)
        places = np.flatnonzero(members == effect.name)
        effects.append(replace(effect, prior=prior, places=places))
    return Population(tuple(effects), len(owned.names))
