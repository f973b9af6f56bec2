"""How likely a record is with all trajectories that explain it counted in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import Kkt, KktFactors


def log_volume(kkt: Kkt, fixed: NDArray[np.intp], drawn: NDArray[np.intp], seen: Array) -> float:
    """log of the integral of exp(-(J - J*) / 2) over all that the constraints leave free, by the
    curvature at a solution (Laplace's method; exact where J is quadratic and the constraints
    linear).

    fixed : variables that are no part of it, parameters. drawn : those that J has a prior of, the
    noise. seen : the entries of the Hessian of J by the samples that measure all else.

    What is neither, such as states at the start, may be anywhere (diffuse), and its unit of volume
    is what moves the samples that are seen by one standard deviation (Francke, Koopman, de Vos
    2010, J. Time Series Analysis 31, 407-414: marginal likelihood). By its own unit the volume
    would depend on the parameters: on the coordinates of the model, and beyond all bounds where
    samples do not tell some combination of states from nothing.

    With constraints C, the matrix K of Karush, Kuhn and Tucker, and derivatives C_d with respect to
    as many variables as there are constraints, |det K| = det(C_d)^2 det(R), where R is the Hessian
    of J in the others: det(C_d) falls out between K and the matrix of the samples alone.

    Raises `ValueError` if a bound or an inequality holds, where J is no parabola, if the samples do
    not tell what may be anywhere, and if the curvature is not positive.
    """
    kkt = _without(kkt, fixed)
    stiffness, softness = kkt.stiffness, kkt.softness
    if _holds(stiffness) or _holds(softness):
        raise ValueError(
            "a bound or an inequality holds at the solution: what it cuts off cannot be integrated "
            "by the curvature there; leave it out"
        )
    rows, columns, _ = kkt.hessian
    alone = _without(replace(kkt, hessian=(rows, columns, seen), workspace=None), drawn)
    part, whole = _factors_of_samples(alone), kkt.factorised()
    if not whole.positive:
        raise ValueError("the curvature at the solution is not positive: this is no minimum")
    constraints = int((softness == 0.0).sum())
    free, open_ = (int((~np.isinf(k.stiffness)).sum()) - constraints for k in (kkt, alone))
    constants = free * np.log(4.0 * np.pi) - open_ * np.log(2.0)
    return float(0.5 * (constants - whole.log_determinant + part.log_determinant))


def _without(kkt: Kkt, gone: NDArray[np.intp]) -> Kkt:
    """The matrix with these variables fixed, too; itself, with its factors, if they are."""
    if np.isinf(kkt.stiffness[gone]).all():
        return kkt
    stiffness = kkt.stiffness.copy()
    stiffness[gone] = np.inf
    return replace(kkt, stiffness=stiffness)


def _holds(diagonal: Array) -> bool:
    return bool((np.isfinite(diagonal) & (diagonal > 0.0)).any())


def _factors_of_samples(kkt: Kkt) -> KktFactors:
    """The factors of the matrix with the noise left alone."""
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
