"""Values of unknowns that give the same outputs, sought in floating point from many starts.

The coefficients of the power series of the outputs at a random base point are given; signs and
exchanges of unknowns are tried as they are, then Levenberg-Marquardt's method goes from some of
them and from random starts to the same coefficients. Residuals are multiplied by the inverse of
their derivatives at the base point, so that steps are as good near images of the base point by
signs and exchanges as near itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.symbolic.identifiability.alike import exchanges
from kinesym.symbolic.identifiability.null import Asked, Silent
from kinesym.symbolic.identifiability.real import Reals, coefficients
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.prime_field import echelon

#: Base points.
_BASES = 6
#: Starts for each unknown.
_STARTS = 60
#: Images by two signs or exchanges that are tried as they are, at most.
_IMAGES = 2000
#: Steps to where conditions hold.
_STEPS = 12
#: Numbers that may be computed, about a second's worth: fewer starts of large models.
_WORK = 1e8
#: Iterations.
_TURNS = 45
#: Logarithm of the largest ratio of a random value to 1.
_SPREAD = 0.8
#: Standard deviation of the logarithm of ratios of random starts to base points.
_SCATTER = 0.7
#: Share of negative random starts.
_NEGATIVE = 0.15
#: First damping, relative to the largest singular value: from, to, so that starts differ.
_DAMPING = 1e-3, 1.0
#: Largest residual and Newton step, relative to values, of a solution.
_CONVERGED = 1e-4
#: Least relative change of another solution.
_OTHER = 1e-3
#: Largest difference of coefficients of higher orders, relative to what unknowns change.
_AGREE = 1e-6
#: Derivatives below are used.
_HUGE = 1e100
#: Logarithm of the largest ratio of a value near a base point to that there.
_NEAR = 0.1

#: A sign of one unknown, or an exchange of two.
Move = tuple[int, ...]
#: Numbers of points.
Numbers = Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Root:
    """Values of the unknowns that give the same outputs as others: at a base point, by number.

    left : what is left of residual and Newton step. moves : signs and exchanges that lead there, if
    it was found by these.
    """

    base: int
    values: Reals
    left: float
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, eq=False)
class Fibre:
    """Solutions that share their outputs with base points.

    free : numbers of unknowns that are solved for: all but as many as there are directions without
    effect. places : of all unknowns. parameters : how many of these are. inputs : coefficients.
    base : values of all variables by place, (bases,). order : of the series that are equal.
    """

    asked: Asked
    free: Sequence[int]
    places: Sequence[int]
    parameters: int
    inputs: Reals
    base: Mapping[int, Reals]
    order: int
    generator: np.random.Generator

    @property
    def count(self) -> int:
        """Number of base points."""
        return len(next(iter(self.base.values())))

    @cached_property
    def values(self) -> Reals:
        """Values of the unknowns at the base points, (bases, n)."""
        return np.stack([self.base[place] for place in self.places], axis=1)

    def at(self, which: Numbers, values: Reals, by: Sequence[int], order: int) -> Reals:
        """Coefficients where the unknowns have other values (P, n) than at these base points, with
        derivatives by some places."""
        rows = np.asarray(which)
        moved = {place: v[rows] for place, v in self.base.items()}
        moved |= dict(zip(self.places, values.T, strict=True))
        return coefficients(self.asked.system, moved, by, self.inputs, order)

    @cached_property
    def _long(self) -> tuple[Reals, Reals]:
        """Coefficients at the base points to a higher order, and their sizes."""
        by = [self.places[k] for k in self.free]
        found = self.at(range(self.count), self.values, by, 2 * self.order + 3)
        sizes = np.linalg.norm(found[:, :, 1:] * self.values[:, None, self.free], axis=2)
        given = found[:, :, 0]
        return given, np.where(sizes > 1e-12, sizes, np.maximum(abs(given), 1.0))

    def error(self, which: Numbers, values: Reals) -> Reals:
        """Largest difference of coefficients from those at base points, to a higher order than was
        solved for, relative to what unknowns change them by."""
        given, sizes = self._long
        found = self.at(which, values, (), 2 * self.order + 3)[:, :, 0]
        error = (abs(found - given[which]) / sizes[which]).max(axis=1, initial=0.0)
        return np.where(np.isfinite(error), error, np.inf)

    @property
    def usable(self) -> list[int]:
        """Base points at which the outputs have series."""
        return [b for b in range(self.count) if np.isfinite(self._long[0][b]).all()]

    def near(self, base: int, count: int, vary: Sequence[int]) -> Fibre:
        """Points around a base point, where some places vary."""
        found = {place: np.repeat(v[base], count) for place, v in self.base.items()}
        for place in vary:
            found[place] = found[place] * np.exp(self.generator.uniform(-_NEAR, _NEAR, count))
        return replace(self, base=_on_conditions(self.asked.system, found, self.inputs))

    def roots(self) -> tuple[list[Root], int]:
        """Solutions that are others, images by signs and exchanges first, then what starts lead to;
        and how many points were tried."""
        usable = self.usable
        if not self.free:
            return [], 0
        images, some = self._images(usable[0])
        others, more = self._from_starts(usable)
        return [*images, *others], some + more

    # -- signs and exchanges ---------------------------------------------------------------------

    def _moves(self) -> list[Move]:
        """Signs, and exchanges of two parameters or two starts."""
        n = len(self.places)
        pairs = [(a, b) for a, b in combinations(range(n), 2) if self._alike(a, b)]
        return [*((k,) for k in range(n)), *pairs]

    def _alike(self, a: int, b: int) -> bool:
        return (a < self.parameters) == (b < self.parameters)

    def _images(self, base: int) -> tuple[list[Root], int]:
        moves = self._moves()
        several: list[tuple[Move, ...]] = [(move,) for move in moves]
        several += [(a, b) for a, b in combinations(moves, 2) if not set(a) & set(b)]
        if len(several) > _IMAGES:
            chosen = self.generator.permutation(len(several) - len(moves)) + len(moves)
            kept = [*range(len(moves)), *chosen[: max(_IMAGES - len(moves), 0)]]
            several = [several[k] for k in kept]
        several += self._exchanges()
        values = np.array([moved(self.values[base], some) for some in several])
        found = list[Root]()
        size = len(self.asked.system.steps) * (2 * self.order + 4)
        part = max(int(1e7 / size), 1)
        for first in range(0, len(several), part):
            rows = values[first : first + part]
            errors = self.error(np.full(len(rows), base), rows)
            for k in np.flatnonzero(errors < 1e-9):
                found.append(Root(base, rows[k], 0.0, several[first + k]))
        return found, len(several)

    def _exchanges(self) -> list[tuple[Move, ...]]:
        """Exchanges of states whose equations are alike, with what goes with them."""
        number = {place: k for k, place in enumerate(self.places)}
        found = list[tuple[Move, ...]]()
        for places in exchanges(self.asked.system):
            pairs = ((number.get(a, -1), number.get(b, -1)) for a, b in places.items())
            found.append(tuple(pair for pair in pairs if -1 < pair[0] < pair[1]))
        return [moves for moves in dict.fromkeys(found) if moves]

    # -- starts ----------------------------------------------------------------------------------

    def _starts(self, bases: Sequence[int]) -> tuple[NDArray[Any], Reals]:
        """Base points and relative values of free unknowns: signs, exchanges, random values."""
        draw, m = self.generator, len(self.free)
        each = _TURNS * len(self.asked.system.steps) * (self.order + 2) * (m + 1)
        count = int(np.clip(_WORK / each, 2 * len(bases), _STARTS * m))
        rows = np.resize(bases, count)
        starts = np.exp(draw.normal(size=(count, m)) * _SCATTER)
        starts *= np.where(draw.random((count, m)) < _NEGATIVE, -1.0, 1.0)
        moves = [move for move in self._moves() if set(move) <= set(self.free)]
        some = draw.permutation(np.resize(np.arange(len(moves)), count // 2))
        for k, which in enumerate(some):
            before = self.values[rows[k]]
            starts[k] = (moved(before, [moves[which]]) / before)[self.free]
        mixed = draw.permutation(count)
        return rows[mixed], starts[mixed]

    def _from_starts(self, bases: Sequence[int]) -> tuple[list[Root], int]:
        rows, start = self._starts(bases)
        start, left = self.solved(rows, start, _TURNS)
        values = self.values[rows].copy()
        values[:, self.free] *= start
        other = (abs(start - 1.0) > _OTHER).any(axis=1) & (left < _CONVERGED)
        found = np.flatnonzero(other)
        if not len(found):
            return [], len(rows)
        errors = self.error(rows[found], values[found])
        good = found[errors < _AGREE]
        return [Root(int(rows[k]), values[k], left[k]) for k in good], len(rows)

    def solved(self, rows: Numbers, start: Reals, turns: int) -> tuple[Reals, Reals]:
        """Relative values (P, m) of free unknowns after iterations, and what is left of the larger
        of residual and Newton step; rows : the base points."""
        return _solved(self._whitened(np.asarray(rows)), start, turns)

    def _whitened(self, rows: NDArray[Any]) -> Callable[[Reals, NDArray[Any]], tuple[Reals, Reals]]:
        """Residuals and derivatives by relative values of free unknowns, in units in which these
        are 1 at the base points."""
        order, by = self.order + 1, [self.places[k] for k in self.free]
        bases = self.at(range(self.count), self.values, by, order)
        scale = self.values[:, self.free]
        given = bases[:, :, 0]
        whitenings = np.stack([
            _whitening(j * s) for j, s in zip(bases[:, :, 1:], scale, strict=True)
        ])  # fmt: skip

        def residuals(z: Reals, which: NDArray[Any]) -> tuple[Reals, Reals]:
            b = rows[which]
            values = self.values[b].copy()
            values[:, self.free] *= z
            found = self.at(b, values, by, order)
            left = found[:, :, 0] - given[b]
            slopes = whitenings[b] @ (found[:, :, 1:] * scale[b][:, None, :])
            return np.einsum("pij,pj->pi", whitenings[b], left), slopes

        return residuals


def fibre_of(
    asked: Asked, silent: Silent, parameters: int, generator: np.random.Generator
) -> Fibre:
    """Random base points. silent : directions of the unknowns asked for."""
    system, n = asked.system, silent.basis.shape[1]
    fixed = set(echelon(silent.basis, silent.p)[1])
    inputs = generator.normal(size=(2 * silent.order + 4, len(system.inputs)))
    groups = ([*system.parameters.values()], system.states, system.rates, system.times)
    every = [place for group in groups for place in group]
    base = {place: np.exp(generator.uniform(-_SPREAD, _SPREAD, _BASES)) for place in every}
    base |= {u: np.full(_BASES, inputs[0, j]) for j, u in enumerate(system.inputs)}
    base = _on_conditions(system, base, inputs)
    free = [k for k in range(n) if k not in fixed]
    return Fibre(asked, free, asked.places[:n], parameters, inputs, base, silent.order, generator)


def _on_conditions(system: System, base: Mapping[int, Reals], inputs: Reals) -> dict[int, Reals]:
    """Points moved to where conditions on states hold, by Gauss-Newton steps of least size."""
    given = {system.states[j] for j in system.starts}
    states = [place for place in system.states if place not in given]
    found, n = dict(base), len(system.conditions)
    for _ in range(_STEPS if n else 0):
        rows = coefficients(system, found, states, inputs, 0)[:, :n]
        rows[~np.isfinite(rows).all(axis=(1, 2))] = 0.0
        steps = np.linalg.pinv(rows[:, :, 1:], rcond=1e-12) @ rows[:, :, :1]
        for j, place in enumerate(states):
            found[place] = found[place] - steps[:, j, 0]
    return found


def moved(values: Reals, moves: Sequence[Move]) -> Reals:
    """Values after signs and exchanges."""
    found = values.copy()
    for move in moves:
        if len(move) == 1:
            found[move[0]] *= -1
        else:
            found[[*move]] = found[[*reversed(move)]]
    return found


def _whitening(jacobian: Reals) -> Reals:
    """Matrix by which a Jacobian becomes the unit matrix, and zeros."""
    if not np.isfinite(jacobian).all():
        return np.zeros((sum(jacobian.shape), len(jacobian)))
    sizes = np.linalg.norm(jacobian, axis=1)
    weights = 1 / np.where(sizes > 1e-12, sizes, 1.0)
    u, s, v = np.linalg.svd(jacobian * weights[:, None], full_matrices=False)
    inner = (v.T / np.maximum(s, 1e-11 * s[0])) @ u.T
    return np.vstack([inner, np.eye(len(u)) - u @ u.T]) * weights


def _solved(
    residuals: Callable[[Reals, NDArray[Any]], tuple[Reals, Reals]], start: Reals, turns: int
) -> tuple[Reals, Reals]:
    """Levenberg-Marquardt's method for many starts at once; sizes of the last Newton steps."""
    z, every = start.copy(), np.arange(len(start))
    left, slopes = residuals(z, every)
    bad = ~((abs(left) < _HUGE).all(axis=1) & (abs(slopes) < _HUGE).all(axis=(1, 2)))
    left[bad], slopes[bad] = 0.0, 0.0
    cost = np.where(bad, np.inf, (left**2).sum(axis=1))
    damping, steps = np.geomspace(*_DAMPING, len(z)), np.full(len(z), np.inf)
    done = bad.copy()
    for _ in range(turns):
        todo = np.flatnonzero(~done)
        if not len(todo):
            break
        u, s, v = np.linalg.svd(slopes[todo], full_matrices=False)
        along = np.einsum("pij,pi->pj", u, left[todo])
        s = np.maximum(s, 1e-14 * s[:, :1] + 1e-300)
        newton = np.where(s > 1e-12 * s[:, :1], along / s, 0.0)
        steps[todo] = np.linalg.norm(newton, axis=1) / (1e-3 + abs(z[todo]).min(axis=1))
        damped = 1e-300 + (damping[todo] * s[:, 0])[:, None]
        step = np.einsum("pij,pi->pj", v, s / np.hypot(s, damped) ** 2 * along)
        tried, slope = residuals(z[todo] - step, todo)
        total = (tried**2).sum(axis=1)
        better = (abs(slope) < _HUGE).all(axis=(1, 2)) & (total < cost[todo])
        good = todo[better]
        z[good] -= step[better]
        left[good], slopes[good], cost[good] = tried[better], slope[better], total[better]
        damping[good] *= 0.2
        damping[todo[~better]] *= 4.0
        done |= (steps < 1e-13) | (damping > 1e12)
    return z, np.maximum(steps, np.sqrt(cost))
