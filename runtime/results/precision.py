"""Precision of estimates in words and as a table: how well each is known, and which are told apart
badly."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from kinesym.base.notebook import with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.estimates import Estimates, Uncertainty
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.summary import listed

#: Relative standard error above which an estimate is not well known.
_VAGUE = 0.5
#: Correlation above which two estimates are badly distinguished.
_CORRELATED = 0.95
#: Share of the largest change in a combination, from which another is a part of it.
_PART = 0.3
#: Share of its standard error that an estimate has with all others known, below which it is told
#: apart from them badly.
_TANGLED = 1.0 / 3.0
#: Eigenvalues of correlations that are rounding, as a share of the largest.
_SINGULAR = 1e-13
#: Estimates that are listed at most.
_LISTED = 12
#: Sentences on badly known parameters at most.
_SAID = 5
#: Parameters up to which correlations are written into their figure.
_WRITTEN = 12


def known_to(
    estimates: Estimates, instead: Collection[str] = (), owned: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Sentences on the relative errors of parameters, except those with an identifiable combination
    instead; owned : parameters of values that have an owner, by name."""
    well: dict[str, list[tuple[float, str]]] = {}
    vague, not_known = list[tuple[float, str]](), dict[str, list[str]]()
    for name, row in estimates.table.items():
        if name in instead:
            continue
        if row.remark:
            not_known.setdefault(row.remark, []).append(name)
        elif not np.isfinite(row.standard_error) or row.value == 0.0:
            continue
        else:
            share = row.standard_error / abs(row.value)
            if share > _VAGUE:
                vague.append((share, f"{name} is known to {_percent(share)}"))
            else:
                well.setdefault((owned or {}).get(name, name), []).append((share, name))
    if well:
        known = [words for _, words in sorted(_known(p, rows) for p, rows in well.items())]
        more = f"; {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        yield "; ".join(known[:_LISTED]) + f"{more} (standard errors)."
    for _, words in sorted(vague)[:_SAID]:
        yield f"{words}: this record tells little about it."
    if len(vague) > _SAID:
        yield f"{len(vague) - _SAID} more parameters are known as badly; see the table."
    for remark, names in not_known.items():
        yield f"{listed(names)}: {remark}."


def precision(estimates: Estimates, about: Uncertainty) -> list[tuple[str, str, str]]:
    """Rows of names, relative standard errors, and those that there would be if all other
    parameters were known; the worst known ones first."""
    names, shape = _relative(estimates, about)
    error, alone = _errors(shape)
    return [
        (with_unit(names[k], estimates.units), _percent(error[k]), _percent(alone[k]))
        for k in np.argsort(-error, kind="stable")[:_LISTED]
    ]


def least_certain(estimates: Estimates, about: Uncertainty) -> Iterator[str]:
    """Sentence on the change of estimates together that a record shows least, in units of their
    standard errors; none if each is told from the others."""
    names, shape = _relative(estimates, about)
    error, alone = _errors(shape)
    if not len(names):
        return
    sizes, ways = np.linalg.eigh(shape / np.outer(error, error))
    way = ways[:, -1]
    large = (abs(way) > _PART * abs(way).max()) & (alone < _TANGLED * error)
    parts = [k for k in np.argsort(-error * abs(way), kind="stable") if large[k]]
    if len(parts) > 1:
        change = np.sqrt(sizes[-1]) * error * way * np.sign(way[parts[0]])
        each = [f"{names[k]} {'-+'[int(change[k] > 0.0)]}{_percent(abs(change[k]))}" for k in parts]
        yield f"Hardest to see is a common change, {listed(each, _SAID)} (one standard error)."


def _errors(shape: Array) -> tuple[Array, Array]:
    """Standard errors by a covariance (n, n), and those with all others known."""
    error = np.sqrt(np.diag(shape))
    rho = shape / np.outer(error, error)
    alone = error / np.sqrt(np.diag(np.linalg.pinv(rho, _SINGULAR, hermitian=True)))
    return error, alone


def _relative(estimates: Estimates, about: Uncertainty) -> tuple[list[str], Array]:
    """Names of estimates with a standard error and a value that is not zero, and their covariance
    (n, n) over these values. Random effects and their spreads are left out."""
    error = dict(zip(about.names, about.deviations().tolist(), strict=True))
    gone = {*about.held, *about.random, *about.factors}
    names = [n for n, value in estimates.items() if value and error.get(n, 0.0) > 0.0]
    names = [n for n in names if n not in gone and np.isfinite(error[n])]
    places = [list(about.names).index(n) for n in names]
    values = np.array([estimates[n] for n in names])
    shape = np.nan_to_num(about.covariance[np.ix_(places, places)])
    return names, shape / np.outer(values, values)


def correlated(names: Sequence[str], covariance: Array) -> Iterator[str]:
    """Sentences on strongly correlated estimates."""
    rho = np.nan_to_num(correlations(covariance))
    pairs = [pair for pair in combinations(range(len(names)), 2) if abs(rho[pair]) > _CORRELATED]
    for a, b in sorted(pairs, key=lambda pair: -abs(rho[pair]))[:_SAID]:
        what = "their difference" if rho[a, b] < 0.0 else "their sum"
        yield (
            f"{names[a]} and {names[b]} are told apart badly (correlation {rho[a, b]:.3f}): of "
            f"steps of one standard error each, {what} is least certain."
        )
    if len(pairs) > _SAID:
        yield f"{len(pairs) - _SAID} more pairs are correlated as much; see the picture."


def correlations(covariance: Array) -> Array:
    """Correlation matrix of a covariance (n, n); NaN if a variance is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(np.diag(covariance))
        rho = covariance / np.outer(deviation, deviation)
    rho[:, ~(deviation > 0.0)] = rho[~(deviation > 0.0)] = np.nan
    return np.asarray(rho)


def plot_correlations(names: Sequence[str], covariance: Array) -> Any:
    """Figure of the correlations of estimates."""
    rho = correlations(covariance)
    size = 2.2 + 0.42 * len(names)
    figure, axis = subplots(grid="", figsize=(size + 0.8, size))
    image = axis.imshow(rho, vmin=-1.0, vmax=1.0, cmap="RdBu_r")
    labels = [plain(name) for name in names]
    axis.set_xticks(range(len(names)), labels, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), labels)
    for a, b in np.ndindex(*rho.shape) if len(names) <= _WRITTEN else ():
        if np.isfinite(rho[a, b]):
            colour = "white" if abs(rho[a, b]) > 0.6 else "black"
            axis.text(b, a, f"{rho[a, b]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=axis, shrink=0.8)
    axis.set_title("Correlation of the estimates")
    return figure


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 1.0 else f"{100.0 * share:.0f} %"


def _known(parameter: str, rows: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Relative error of a parameter of one or several owners: the least one, and a sentence."""
    (least, first), (most, last) = min(rows), max(rows)
    if len(rows) == 1:
        return least, f"{first} is known to {_percent(least)}"
    ends = f"{_percent(least)} ({first}) to {_percent(most)} ({last})"
    return least, f"{parameter} of {len(rows)} owners is known to {ends}"
