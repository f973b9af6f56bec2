"""Second solutions: other values of unknowns with the same outputs, found, named and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp

from kinesym.symbolic.identifiability.expanded import outputs_at
from kinesym.symbolic.identifiability.fibre import Fibre, Numbers, Root, fibre_of, moved
from kinesym.symbolic.identifiability.null import Asked, Silent, some_points
from kinesym.symbolic.identifiability.points import changed
from kinesym.symbolic.identifiability.real import Reals
from kinesym.symbolic.names import name_of
from kinesym.symbolic.prime_field import Residues, inverse

#: Points around one at which a relation is sought.
_POINTS = 90
#: Symbols that a relation may depend on, at most.
_MOST = 6
#: Degree of the polynomials that are tried.
_DEGREE = 2
#: Degree where there are few symbols.
_DEGREE_OF_FEW = 3
#: Symbols that are few.
_FEW = 5
#: Largest numerator or denominator of a factor.
_LARGEST = 12
#: Largest exponent.
_EXPONENT = 4
#: Largest error of a factor or exponent.
_NEAR = 1e-4
#: Largest relative error of values that a relation is fitted to.
_FITS = 1e-8
#: Residual and Newton step of a solution that has no name, at most; it must stand at points around.
_SURE = 1e-7
#: Iterations to solutions at points around.
_TURNS = 12

#: Values of all symbols, as a function of others.
Image = Callable[[Reals], Reals]


@dataclass(frozen=True)
class SecondSolution:
    """Parameters and starts that are others and have the same outputs at all times.

    changes : by name, the other value as an expression of parameters and starts, None where no
    expression was found; what is not named stays. example : by name, values of all of them and of
    known parameters, and the other ones. excluded : names of what
    must be positive and would not be.
    """

    changes: Mapping[str, sp.Expr | None]
    example: Mapping[str, tuple[float, float]]
    excluded: tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """Second solutions that were found, and how many points and starts were tried. why_not : why
    none were, in words."""

    solutions: tuple[SecondSolution, ...] = ()
    tries: int = 0
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Sought:
    """Unknowns of which second solutions are sought: the question, their directions without effect,
    symbols of them and of known parameters, how many are parameters, numbers of those that can be
    known up to finitely many values, and of those that must be positive."""

    asked: Asked
    silent: Silent
    symbols: Sequence[sp.Expr]
    parameters: int
    known: frozenset[int]
    positive: frozenset[int]


@np.errstate(all="ignore")  # many starts lead nowhere
def searched(sought: Sought) -> Search:
    """Second solutions in which something differs that can be known up to finitely many values."""
    if not sought.known:
        return Search()
    if sought.asked.unknowns.inputs:
        return Search(why_not="inputs are unknown")
    generator = np.random.default_rng(1)
    fibre, fresh = (
        fibre_of(sought.asked, sought.silent, sought.parameters, generator) for _ in range(2)
    )
    if not fibre.usable or not fresh.usable:
        return Search(why_not="the outputs have no real values at random points")
    roots, tries = fibre.roots()
    found, images = list[tuple[dict[int, sp.Expr | None], Root]](), list[Image]()
    for root in sorted(roots, key=lambda root: (len(root.moves) == 0, len(root.moves))):
        if _met(root, found, images, fibre, sought):
            continue
        changes = _named(root, fibre, sought)
        if not sought.known & changes.keys() or _contains(changes, [c for c, _ in found]):
            continue
        complete = {k: e for k, e in changes.items() if e is not None}
        if len(complete) == len(changes):
            sure = _holds(complete, sought, fresh)
        else:
            sure = root.left < _SURE and _stands(root, fibre)
        if sure:
            found.append((changes, root))
            images += [_image(complete, sought)] if len(complete) == len(changes) else []
    return Search(tuple(_solution(c, root, fibre, fresh, sought) for c, root in found), tries)


def _met(
    root: Root,
    found: Sequence[tuple[dict[int, sp.Expr | None], Root]],
    images: Sequence[Image],
    fibre: Fibre,
    sought: Sought,
) -> bool:
    """Whether a solution is one of those found, at its base point; or one after another, where
    something is not positive that must be."""
    values = np.array([v[root.base] for v in _every(fibre, sought)])
    n = len(root.values)
    once = [image(values) for image in images]
    excluded = any(root.values[k] <= 0 for k in sought.positive)
    twice = [image(one) for one in once for image in images] if excluded else []
    there = [one.values for _, one in found if one.base == root.base]
    every = (*once, *there, *twice)
    return any(np.allclose(one[:n], root.values, rtol=1e-3) for one in every)


def _image(changes: Mapping[int, sp.Expr], sought: Sought) -> Image:
    """Values of all symbols after changes, as a function of their values."""
    others = sp.lambdify(sought.symbols, [*changes.values()], "numpy")

    def image(values: Reals) -> Reals:
        found = values.copy()
        found[[*changes]] = others(*values)
        return found

    return image


def _contains(
    changes: Mapping[int, sp.Expr | None], found: Iterable[Mapping[int, sp.Expr | None]]
) -> bool:
    """Whether changes are some that were found and more, or have no names, as some that were."""
    for other in found:
        if None in other.values() and other.keys() == changes.keys():
            return True
        if None not in other.values() and other.items() <= changes.items():
            return True
    return False


# -- names ---------------------------------------------------------------------------------------


def _named(root: Root, fibre: Fibre, sought: Sought) -> dict[int, sp.Expr | None]:
    """Expressions of the unknowns that differ, None where none was found."""
    n = len(fibre.places)
    if root.moves:
        symbols = moved(np.array(sought.symbols[:n], dtype=object), root.moves)
        return {k: e for k, e in enumerate(symbols) if e != sought.symbols[k]}
    before = fibre.values[root.base]
    differing = [k for k in fibre.free if abs(root.values[k] - before[k]) > 1e-5 * abs(before[k])]
    every = sought.asked.places
    slopes = _slopes(root, fibre, every)
    values = np.array([fibre.base[place][root.base] for place in every])
    found: dict[int, sp.Expr | None] = {}
    samples: tuple[Fibre, Reals] | None = None
    for k in differing:
        row = slopes[list(fibre.free).index(k)]
        found[k] = _simple(root.values[k], row, values, sought.symbols)
        if found[k] is None:
            some = np.flatnonzero(abs(row * values) > 1e-5 * abs(root.values[k]))
            if 0 < len(some) <= _MOST:
                samples = samples or _around(root, fibre, slopes, every)
                found[k] = _fraction(k, some, samples, every, sought.symbols)
    return found


def _slopes(root: Root, fibre: Fibre, every: Sequence[int]) -> Reals:
    """Derivatives of the free unknowns of a solution by all values at its base point."""
    which, order = [root.base], fibre.order + 1
    here = fibre.at(which, fibre.values[which], every, order)[0, :, 1:]
    there = fibre.at(which, root.values[None], every, order)[0, :, 1:]
    free = list(fibre.free)
    change = here.copy()
    held = [k for k in range(len(every)) if k not in free]
    change[:, held] -= there[:, held]
    sizes = np.linalg.norm(here, axis=1) + np.linalg.norm(there, axis=1)
    weights = 1 / np.where(sizes > 1e-12, sizes, 1.0)[:, None]
    columns = abs(root.values[free])
    inner = np.linalg.lstsq(there[:, free] * columns * weights, change * weights, rcond=1e-13)[0]
    return np.asarray(columns[:, None] * inner)


def _simple(
    value: float, slopes: Reals, values: Reals, symbols: Sequence[sp.Expr]
) -> sp.Expr | None:
    """A product of powers, or a sum, with these derivatives."""
    powers = _rationals(slopes * values / value)
    if powers is not None and all(e.denominator <= 2 and abs(e) <= _EXPONENT for e in powers):
        factor = value / np.prod([v ** float(e) for v, e in zip(values, powers, strict=True)])
        found = _rationals([factor])
        if found and found[0]:
            pairs = zip(symbols, powers, strict=True)
            product = sp.Mul(*(x ** _number(e) for x, e in pairs if e))
            return _number(found[0]) * product
    factors = _rationals(slopes)
    if factors is not None:
        rest = _rationals([value - float(np.dot([float(f) for f in factors], values))])
        if rest:
            terms = (_number(f) * x for f, x in zip(factors, symbols, strict=True) if f)
            return sp.Add(*terms, _number(rest[0]))
    return None


def _rationals(values: Iterable[float]) -> list[Fraction] | None:
    """Simple rationals near all values."""
    found = list[Fraction]()
    for value in values:
        near = Fraction(float(value)).limit_denominator(_LARGEST) if np.isfinite(value) else None
        if near is None or abs(near) > _LARGEST or abs(float(near) - value) > _NEAR:
            return None
        found.append(near)
    return found


def _number(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


def _around(root: Root, fibre: Fibre, slopes: Reals, every: Sequence[int]) -> tuple[Fibre, Reals]:
    """Points around a base point, and the second solutions there, (P, n); not finite where none."""
    near = fibre.near(root.base, _POINTS, every)
    steps = np.stack([near.base[p] - fibre.base[p][root.base] for p in every], axis=1)
    values = near.values.copy()
    free = list(near.free)
    start = (root.values[free] + steps @ slopes.T) / values[:, free]
    rows = np.arange(_POINTS)
    solved, left = near.solved(rows, start, _TURNS)
    solved[left > _SURE] = np.nan
    values[:, free] *= solved
    return near, values


def _stands(root: Root, fibre: Fibre) -> bool:
    """Whether there is a solution such as this one at points around, too."""
    every = fibre.asked.places
    near, values = _around(root, fibre, _slopes(root, fibre, every), every)
    good = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(good) < _POINTS // 3:
        return False
    return bool((near.error(good, values[good]) < _FITS).sum() > _POINTS // 3)


def _fraction(
    k: int,
    some: Numbers,
    samples: tuple[Fibre, Reals],
    every: Sequence[int],
    symbols: Sequence[sp.Expr],
) -> sp.Expr | None:
    """A polynomial of some symbols over a product of some or over another polynomial."""
    near, values = samples
    good = np.isfinite(values).all(axis=1)
    x = np.stack([near.base[every[j]] for j in some], axis=1)[good]
    y = values[good, k]
    mine = [symbols[j] for j in some]
    degree = _DEGREE_OF_FEW if len(some) <= _FEW else _DEGREE
    terms = [
        c for d in range(degree + 1) for c in combinations_with_replacement(range(len(some)), d)
    ]
    if len(y) < len(terms) + 5:
        return None
    matrix = np.stack([np.prod(x[:, list(c)], axis=1) for c in terms], axis=1)
    words = [sp.Mul(*(mine[j] for j in c)) for c in terms]
    for under in (c for d in range(3) for c in combinations_with_replacement(range(len(some)), d)):
        right = y * np.prod(x[:, list(under)], axis=1)
        factors, left = _fitted(matrix, right)
        if factors is not None and left < _FITS:
            above = sp.Add(*(_number(f) * w for f, w in zip(factors, words, strict=True)))
            return above / sp.Mul(*(mine[j] for j in under))
    for degree in range(1, _DEGREE + 1):
        few = [j for j, c in enumerate(terms) if len(c) <= degree]
        if 2 * len(few) + 5 <= len(y):
            found = _quotient(matrix[:, few], y, [words[j] for j in few])
            if found is not None:
                return found
    return None


def _fitted(matrix: Reals, right: Reals) -> tuple[list[Fraction] | None, float]:
    """Simple factors of columns whose sum is a vector, and the largest relative error."""
    solved = np.linalg.lstsq(matrix, right, rcond=1e-14)[0]
    factors = _rationals(solved)
    if factors is None:
        return None, np.inf
    error = abs(matrix @ np.array([float(f) for f in factors]) - right).max()
    return factors, float(error / abs(right).max())


def _quotient(matrix: Reals, y: Reals, words: Sequence[sp.Expr]) -> sp.Expr | None:
    """Quotient of two sums of columns that a vector is, if there is one."""
    both = np.hstack([matrix, -y[:, None] * matrix])
    sizes = np.linalg.norm(both, axis=0)
    _, s, v = np.linalg.svd(both / sizes, full_matrices=False)
    if s[-1] > 1e-11 * s[0] or s[-2] < 1e2 * s[-1]:
        return None
    vector = v[-1] / sizes
    for one in np.argsort(-abs(vector))[:4]:
        factors = _rationals(vector / vector[one])
        if factors is not None:
            n = len(words)
            above, below = (
                sp.Add(*(_number(f) * w for f, w in zip(part, words, strict=True)))
                for part in (factors[:n], factors[n:])
            )
            return above / below if below != 0 else None
    return None


# -- verification --------------------------------------------------------------------------------


def _holds(changes: Mapping[int, sp.Expr], sought: Sought, fresh: Fibre) -> bool:
    """Whether outputs stay the same: exactly, modulo a prime; at other points in floating point
    where there are roots, or functions whose values modulo a prime are random."""
    rational = all(e.is_rational_function(*sought.symbols) for e in changes.values())
    if not rational or any(step.kind == "chain" for step in sought.asked.system.steps):
        values = fresh.values.copy()
        for k, value in _values(changes, sought.symbols, _every(fresh, sought)).items():
            values[:, k] = value
        errors = fresh.error(fresh.usable, values[fresh.usable])
        finite = errors[np.isfinite(errors)]
        return bool(len(finite)) and bool((finite < _FITS).all())
    asked = sought.asked
    points = some_points(asked, 2, np.random.default_rng(2))
    p = points.draws.field.p
    known = [points.values[place].tolist() for place in asked.places]
    other: dict[int, Residues] = {}
    for k, e in changes.items():
        parts = [sp.lambdify(sought.symbols, part, []) for part in sp.fraction(sp.together(e))]
        pairs = [[int(part(*at)) % p for part in parts] for at in zip(*known, strict=True)]
        if not all(below for _, below in pairs):
            return False
        residues = [above * inverse(below, p) % p for above, below in pairs]
        other[asked.places[k]] = np.array(residues, dtype=np.int64)
    there = changed(asked.system, points, other)
    if there is None:
        return False
    order = 2 * fresh.order + 3
    before, after = (outputs_at(asked.system, one, order) for one in (points, there))
    return bool(np.array_equal(before, after))


def _every(fibre: Fibre, sought: Sought) -> list[Reals]:
    """Values of all symbols at base points."""
    return [fibre.base[place] for place in sought.asked.places]


def _values(
    changes: Mapping[int, sp.Expr | None], symbols: Sequence[sp.Expr], values: Sequence[Reals]
) -> dict[int, Reals]:
    found = {}
    for k, e in changes.items():
        if e is not None:
            value = sp.lambdify(symbols, e, "numpy")(*values)
            found[k] = np.broadcast_to(np.asarray(value, dtype=float), np.shape(values[0]))
    return found


def _solution(
    changes: Mapping[int, sp.Expr | None], root: Root, fibre: Fibre, fresh: Fibre, sought: Sought
) -> SecondSolution:
    names = {k: name_of(sought.symbols[k]) for k in changes}
    several = _values(changes, sought.symbols, _every(fresh, sought))
    before = fibre.values[root.base]
    excluded = [
        names[k]
        for k in changes
        if k in sought.positive
        and root.values[k] <= 0
        and (k not in several or (several[k] <= 0).all())
    ]
    others = list(root.values) + [
        fibre.base[p][root.base] for p in sought.asked.places[len(before) :]
    ]
    pairs = zip(_every(fibre, sought), others, strict=True)
    example = {
        name_of(x): (float(values[root.base]), float(other))
        for x, (values, other) in zip(sought.symbols, pairs, strict=True)
    }
    return SecondSolution(
        {names[k]: e if e is None else sp.factor_terms(sp.together(e)) for k, e in changes.items()},
        example,
        tuple(excluded),
    )
