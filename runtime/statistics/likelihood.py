"""Marginal likelihood of a record, with all trajectories integrated out (Laplace approximation)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import Kkt, KktFactors


def log_volume(kkt: Kkt, fixed: NDArray[np.intp], drawn: NDArray[np.intp], seen: Array) -> float:
    """Laplace approximation: log of the integral of exp(-(J - J*) / 2) over all free directions,
    from the curvature at a solution (exact if J is quadratic and the constraints are linear).

    fixed : variables that are not integrated over, parameters. drawn : variables with a prior in J,
    the noise. seen : entries of the Hessian of J from the samples alone, which determine all else.

    All other variables, such as states at the start, have a diffuse prior, whose unit of volume
    moves the samples by one standard deviation (Francke, Koopman, de Vos 2010, J. Time Series
    Analysis 31, 407-414: marginal likelihood). In units of the variables the volume would depend on
    the parameters and on the coordinates of the model, without limit if samples do not determine
    some combination of states.

    With constraints C, the KKT matrix K, and derivatives C_d with respect to as many variables as
    there are constraints, |det K| = det(C_d)^2 det(R), where R is the Hessian of J in the others:
    det(C_d) cancels between K and the matrix of the samples alone.

    Raises `ValueError` if a bound or an inequality is active, where J is no parabola, if the
    samples do not determine the variables with a diffuse prior, and if the curvature is not
    positive.
    """
    kkt = _without(kkt, fixed)
    stiffness, softness = kkt.stiffness, kkt.softness
    if _holds(stiffness) or _holds(softness):
        raise ValueError(
            "a bound or an inequality holds at the solution: what it cuts off cannot be integrated "
            "by the curvature there; leave it out"
        )
    rows, columns, _ = kkt.hessian
    alone = _without(replace(kkt, hessian=(rows, columns, seen)), drawn)
    part, whole = _factors_of_samples(alone), kkt.factorised()
    if not whole.positive:
        raise ValueError("the curvature at the solution is not positive: this is no minimum")
    constraints = int((softness == 0.0).sum())
    free, open_ = (int((~np.isinf(k.stiffness)).sum()) - constraints for k in (kkt, alone))
    constants = free * np.log(4.0 * np.pi) - open_ * np.log(2.0)
    return float(0.5 * (constants - whole.log_determinant + part.log_determinant))


def _without(kkt: Kkt, gone: NDArray[np.intp]) -> Kkt:
    """KKT matrix with these variables fixed, too; itself, with its factors, if they already are."""
    if np.isinf(kkt.stiffness[gone]).all():
        return kkt
    stiffness = kkt.stiffness.copy()
    stiffness[gone] = np.inf
    return replace(kkt, stiffness=stiffness)


def _holds(diagonal: Array) -> bool:
    return bool((np.isfinite(diagonal) & (diagonal > 0.0)).any())


def _factors_of_samples(kkt: Kkt) -> KktFactors:
    """Factors of the KKT matrix of the samples, the noise being fixed. Raises `ValueError` if the
    samples do not determine all other variables."""
    words = (
        "the samples do not tell the states at the start, or an unknown input without a prior, "
        "even without noise: hold these by boundary=[ks.at_start(x), ...], or measure them"
    )
    try:
        found = kkt.factorised()
    except ValueError as error:
        raise ValueError(words) from error
    if not found.positive:
        raise ValueError(words)
    return found
