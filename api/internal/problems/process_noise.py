"""Process noise: white inputs of a known or unknown intensity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown
from kinesym.internal.problems.checked_trials import check_system
from kinesym.internal.problems.controls import held
from kinesym.internal.problems.parameters import Unknown, checked_unknowns, is_random, log_scale
from kinesym.runtime.arrays import one_number
from kinesym.runtime.nlp.bounds import HeldEnd
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, t
from kinesym.symbolic.objective import Integral, LeastSquares, Objective


class Driven(NamedTuple):
    """Arguments of `Collocation` in which process noise is an unknown input with a prior. noises :
    names of the noises by those of these inputs."""

    system: Model
    unknown: Mapping[Any, Any]
    known: Mapping[Any, Any]
    unknown_inputs: Mapping[Any, Any]
    objective: Objective
    noises: Mapping[str, str]


def driven(
    system: Any,
    noise: Mapping[Any, Any],
    unknown: Mapping[Any, Any] | None,
    known: Mapping[Any, Any] | None,
    unknown_inputs: Mapping[Any, Any] | None,
    objective: Objective | None,
) -> Driven:
    """The model with u = sigma_u white_u for each noise u: white_u is an unknown input of unit
    intensity, held between the nodes, sigma_u a parameter, and u an output. So sigma_u = 0 is
    nothing special, and the prior, Integral(white_u^2), has no parameters.

    Raises `ValueError` for what is no input, no intensity, and another objective.
    """
    check_system(system, (Model,), "; process noise is for a Model")
    if objective is not None and objective != LeastSquares():
        raise ValueError(
            "with process noise the objective is the likelihood of the measurements; leave "
            "objective out, and add no other terms"
        )
    model: Model = system
    inputs = {name_of(u): u for u in model.inputs}
    asked = by_name(noise, list(inputs), "noise")
    free = {} if unknown_inputs is None else unknown_inputs
    for name in by_name(free, list(inputs), "unknown_inputs"):
        if name in asked:
            raise ValueError(f"input {name} is process noise and in unknown_inputs; give it once")
    fixed = {name: _number(name, v) for name, v in asked.items() if _is_number(v)}
    found = {name: _intensity(name, v) for name, v in asked.items() if name not in fixed}
    starts = tuple((name, _start(p)) for name, p in found.items())
    made = _with_noise(model, tuple(asked), starts)
    return Driven(
        made,
        {**(unknown or {}), **{f"sigma_{name}": p for name, p in found.items()}},
        {**(known or {}), **{f"sigma_{name}": sigma for name, sigma in fixed.items()}},
        {**free, **{f"white_{name}": held() for name in asked}},
        LeastSquares() + Integral(sum(white_of(name) ** 2 for name in asked)),
        {name_of(white_of(name)): name for name in asked},
    )


def white_of(name: str) -> AppliedUndef:
    """The input of unit intensity behind a noise."""
    return sp.Function(f"white_{name}")(t)


@lru_cache(maxsize=16)
def _with_noise(
    model: Model, names: tuple[str, ...], starts: tuple[tuple[str, float], ...]
) -> Model:
    """The model driven by white noise of unit intensity; starts : of unknown intensities. Kept, as
    programs are for equal models."""
    sigma = {name: sp.Symbol(f"sigma_{name}") for name in names}
    of = {name_of(u): u for u in model.inputs}
    change = {of[name]: sigma[name] * white_of(name) for name in names}

    def changed(e: sp.Expr) -> sp.Expr:
        return e.xreplace(change)

    return replace(
        model,
        inputs=[white_of(name_of(u)) if u in change else u for u in model.inputs],
        parameters=[*model.parameters, *sigma.values()],
        equations=[changed(e) for e in model.equations],
        outputs={
            **{k: changed(e) for k, e in model.outputs.items()},
            **{name: change[of[name]] for name in names},
        },
        intermediates=[(s, changed(e)) for s, e in model.intermediates],
        values={**model.values, **{f"sigma_{name}": start for name, start in starts}},
        limits={k: changed(e) for k, e in model.limits.items()},
    )


def _is_number(given: Any) -> bool:
    return given is not None and not isinstance(given, (Unknown, tuple, list))


def _number(name: str, given: Any) -> float:
    sigma = one_number(given, f"the intensity of the noise {name}")
    if not sigma > 0.0:
        raise ValueError(f"the intensity of the noise {name} must be positive, got {shown(given)}")
    return sigma


def _intensity(name: str, given: Any) -> Unknown:
    """The record of an unknown intensity, on a logarithmic scale unless it has a normal prior."""
    [made] = checked_unknowns({name: given}, [name]).values()
    if made.high <= 0.0:
        raise ValueError(f"the intensity of the noise {name} must be positive: widen its bounds")
    if is_random(made):
        raise ValueError(f"the intensity of the noise {name} needs a known mean and sd")
    if made.prior and not made.log:
        return replace(made, low=max(made.low, 0.0))
    scaled = log_scale(made.low if made.low > 0.0 else None, made.high)
    return replace(made, low=scaled.low, high=scaled.high, log=True)


def _start(given: Unknown) -> float:
    """Initial guess of an intensity: the geometric mean of its bounds, or the value nearest to
    1."""
    if given.low > 0.0 and given.high < float("inf"):
        return float((given.low * given.high) ** 0.5)
    return min(max(1.0, given.low), given.high)


def check_last_samples(
    noises: Mapping[str, str],
    model: Model,
    ends: Mapping[tuple[int, str], HeldEnd],
    trials: Sequence[Experiment],
) -> None:
    """Raise `ValueError` if a sample at the last node depends on process noise, which ends
    there."""
    for (trial, name), end in ends.items():
        noise = noises.get(name)
        if end.used and noise in model.outputs:
            last = trials[trial].grid[-1]
            raise ValueError(
                f"the noise {noise} acts between nodes, so that at the last one, t = {last:g} s, "
                "it has no value: what is measured there, or asked of the end, depends on it; "
                "make the last sample NaN"
            )
