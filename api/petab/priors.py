"""Priors of parameters in PEtab, on the scales and within the bounds that the format says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, inf, isfinite, log

from kinesym.internal.problems.parameters import Unknown
from kinesym.models.files.petab import Parameter
from kinesym.runtime.statistics.densities import Density, density

#: Natural logarithms of the bases of scales.
UNITS: Mapping[str, float] = {"log": 1.0, "log10": log(10.0)}
#: Names of version 1 that version 2 writes otherwise.
_NAMES = {"logNormal": "log-normal", "logLaplace": "log-laplace"}
_OF_SCALE = "parameterScale"


def density_of(parameter: Parameter) -> Density | None:
    """Density of a parameter p, or of p on its scale where the prior is that; None if there is
    none. Raises `ValueError` for numbers that are none of its distribution."""
    kind, numbers = parameter.prior
    if not kind:
        return None
    unit = UNITS.get(parameter.scale, 1.0)
    of_scale = kind.startswith(_OF_SCALE)
    name = kind.removeprefix(_OF_SCALE).lower() if of_scale else _NAMES.get(kind, kind)
    try:
        made = density(name, *numbers)
    except ValueError as error:
        raise ValueError(f"prior of parameter {parameter.name}: {error}") from error
    if not of_scale or parameter.scale == "lin":
        return made
    if name == "uniform":
        return replace(
            made, of_log=True, low=_power(made.low * unit), high=_power(made.high * unit)
        )
    # x on the scale is log p over the unit
    return replace(
        made, location=unit * made.location, scale=unit * made.scale, of_log=True, low=0.0
    )


def unknown_of(parameter: Parameter) -> Unknown:
    """Bounds, scale and prior of a parameter in the terms of `Shooting`."""
    low, high, is_log = parameter.low, parameter.high, parameter.scale in UNITS
    found = density_of(parameter)
    if found is not None:
        low, high = max(low, found.low), min(high, found.high)
    if low > high:
        raise ValueError(f"the prior of parameter {parameter.name} has no values in its bounds")
    told = found is not None and (isfinite(found.scale) or found.power or found.rate)
    return Unknown(max(low, 0.0) if is_log else low, high, is_log, found if told else None)


def log_prior_of(parameter: Parameter, value: float) -> float:
    """Log density of the prior of a parameter at a value; zero where there is none."""
    found = density_of(parameter)
    if found is None:
        return 0.0
    if not parameter.truncated:
        return found.log(value)
    if not parameter.low <= value <= parameter.high:
        return -inf
    return found.log(value) - log(found.share(parameter.low, parameter.high))


def _power(x: float) -> float:
    return exp(x) if x < 700.0 else inf
