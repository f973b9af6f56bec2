"""Log-density of the unknowns of a fit: the likelihood of its samples, times priors.

Flat, improper priors are on the unknowns themselves, on the logarithm of what is estimated on a
logarithmic scale, and on the logarithm of standard deviations that are not known (Jeffreys): with
these the density of the unknowns of a linear model is the t distribution of its intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.estimation.likelihood import log_height
from kinesym.runtime.estimation.noise import first_std, groups_of, samples_of
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.log_density import LogDensity

#: log of sqrt(2 pi).
_ROOT = 0.5 * np.log(2.0 * np.pi)


class Sloped(NamedTuple):
    """Residuals (modelled - measured)/std (k,) of `samples`, and their derivatives (k, n); the
    squares of priors and their gradient (n,)."""

    residuals: Array
    slopes: Array
    samples: Samples
    priors: float
    slopes_of_priors: Array


@dataclass(frozen=True)
class Misfit:
    """Misfit as a function of the unknowns q (n,), as shooting or collocation brings it.

    names, best, bounds, logarithmic : of q. heights : log of the constants of priors, (k,). squares
    : J (M,) at points (M, n), infinite where trajectories do not reach their end, and its gradients
    (M, n) if asked for. sloped : at one point, None where trajectories do not reach their end.
    """

    names: Sequence[str]
    best: Array
    bounds: tuple[Array, Array]
    logarithmic: NDArray[np.bool_]
    heights: Array
    squares: Callable[[Array, bool], tuple[Array, Array]]
    sloped: Callable[[Array], Sloped | None]


def log_density(estimation: Estimation, misfit: Misfit, std: Mapping[str, float]) -> LogDensity:
    """Log-density of the unknowns of a misfit, and after them of standard deviations that are not
    known, by group; std : what was estimated of these. Raises `ValueError` for an objective that is
    no likelihood."""
    _check(estimation)
    known = first_std(estimation.trials) | {g: s for g, s in std.items() if np.isfinite(s)}
    groups, n = list(estimation.unknown), len(misfit.names)
    counts = np.array([len(samples_of(estimation.trials)[group]) for group in groups])
    log = np.concatenate([misfit.logarithmic, np.ones(len(groups), dtype=bool)])
    height = log_height(estimation.trials, estimation.loss)
    height += float(misfit.heights.sum())
    low, high = misfit.bounds
    total = _by_squares if not groups or estimation.pooled else _by_residuals

    def at(theta: Array, sloped: bool) -> tuple[Array, Array]:
        found, slopes = total(estimation, misfit, theta, sloped)
        values = height - 0.5 * found - np.log(theta[:, n:]) @ counts
        values -= np.log(theta[:, log]).sum(axis=1)
        slopes = -0.5 * slopes
        slopes[:, n:] -= counts / theta[:, n:]
        slopes[:, log] -= 1.0 / theta[:, log]
        good = np.isfinite(found)
        return np.where(good, values, -np.inf), np.where(good[:, None], slopes, np.nan)

    def each(theta: Array) -> tuple[Samples, Array]:
        return _of_samples(estimation, misfit, theta, groups)

    zero, wide = np.zeros(len(groups)), np.full(len(groups), np.inf)
    return LogDensity(
        names=[*misfit.names, *(f"std({group})" for group in groups)],
        best=np.concatenate([misfit.best, [known[group] for group in groups]]),
        support=(np.concatenate([low, zero]), np.concatenate([high, wide])),
        logarithmic=log,
        at=at,
        each=each,
    )


def _of_samples(
    estimation: Estimation, misfit: Misfit, theta: Array, groups: Sequence[str]
) -> tuple[Samples, Array]:
    """The samples, and log of the density of each at theta; NaN where there are no trajectories."""
    n = len(misfit.names)
    found = misfit.sloped(theta[:n]) or misfit.sloped(misfit.best)
    assert found is not None
    if any(trial.std_expressions or trial.limits for trial in estimation.trials):
        raise ValueError(
            "there is no density sample by sample where a std is an expression, or samples are "
            "censored; of all together there is"
        )
    here = np.isfinite(found.samples.time)
    samples = found.samples.taken(here)
    numbers = {key: groups.index(group) for key, group in groups_of(estimation.trials).items()}
    which, used = samples.groups(numbers), np.sqrt(samples.share / samples.weight)
    std = np.where(which < 0, used / np.sqrt(estimation.factor), np.append(theta[n:], 1.0)[which])
    e = found.residuals[here] / np.sqrt(samples.share) * used / std
    loss = estimation.loss
    height = -_ROOT if loss is None else loss.log_height
    return samples, height - 0.5 * _rho(e, loss) - np.log(std)


def _check(estimation: Estimation) -> None:
    what = ""
    if not estimation.factor:
        what = "the objective has no LeastSquares: measurements do not tell the unknowns"
    elif estimation.mixed:
        what = "the objective has other terms than LeastSquares, which are no likelihood"
    elif estimation.loss is not None and not estimation.loss.likelihood:
        what = f"the loss {estimation.loss.name} is no density of residuals; take 'student'"
    given = [name for t in estimation.trials for name in (*t.std_expressions, *t.limits)]
    if given and estimation.unknown:
        what = (
            f"std of {given[0]} is an expression, or of censored samples, and that of "
            f"{estimation.unknown[0]} is not given; make that a parameter, too"
        )
    if what:
        raise ValueError(f"there is no log-density: {what}")


def _by_squares(
    estimation: Estimation, misfit: Misfit, theta: Array, sloped: bool
) -> tuple[Array, Array]:
    """-2 log of likelihood and priors (M,), but for heights, with gradients (M, n), where one
    standard deviation, or none, is unknown: J then is in units of it."""
    n = len(misfit.names)
    J, gradient = misfit.squares(theta[:, :n], sloped)
    slopes, scale = np.full(theta.shape, np.nan), np.full(len(theta), 1.0 / estimation.factor)
    if estimation.pooled:
        scale = scale / theta[:, n] ** 2
        slopes[:, n] = -2.0 * scale * J / theta[:, n]
    if sloped:
        slopes[:, :n] = scale[:, None] * gradient
    return scale * J, slopes


def _by_residuals(
    estimation: Estimation, misfit: Misfit, theta: Array, sloped: bool
) -> tuple[Array, Array]:
    """The same where there are several, by residuals of all samples."""
    n = len(misfit.names)
    values, slopes = np.full(len(theta), np.inf), np.full(theta.shape, np.nan)
    groups = groups_of(estimation.trials)
    numbers = {key: estimation.unknown.index(group) for key, group in groups.items()}
    for k, row in enumerate(theta):
        found = misfit.sloped(row[:n])
        if found is None:
            continue
        which = found.samples.groups(numbers)
        share = found.samples.share
        used = np.sqrt(share / found.samples.weight)
        ratio = np.where(which < 0, 1.0, used / row[n:][which])
        e = ratio * found.residuals / np.sqrt(share)
        psi = share * (e if estimation.loss is None else estimation.loss.slope(e))
        values[k] = share @ _rho(e, estimation.loss) + found.priors
        slopes[k, :n] = 2.0 * (psi * ratio / np.sqrt(share)) @ found.slopes + found.slopes_of_priors
        known = which >= 0
        sums = np.bincount(which[known], (psi * e)[known], theta.shape[1] - n)
        slopes[k, n:] = -2.0 * sums / row[n:]
    return values, slopes


def _rho(e: Array, loss: RobustLoss | None) -> Array:
    return np.asarray(e**2 if loss is None else loss.root(e) ** 2)
