"""Generic states of a tree in a prime field or in float64, and what unit inertial parameters need.

Generalised forces are linear in mass, first moments and moments of inertia of each body. Their
coefficients at random states, computed modulo a prime, have the rank that they have for almost
all motions (see `kinesym.symbolic.prime_field`): sine and cosine of a coordinate are a random point
on the circle, independent of the coordinate, other functions than polynomials random values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any, Protocol

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.symbolic.multibody.base import FixedBase
from kinesym.symbolic.multibody.joints import unit
from kinesym.symbolic.multibody.links import Aim, Ball, Functional, Hinge, Link, Slide
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.vectors import AXES, vector
from kinesym.symbolic.names import name_of
from kinesym.symbolic.prime_field import inverse, residue
from kinesym.symbolic.table import NumericFunction

Array = NDArray[Any]
#: Names of the inertial parameters of a body: moments of inertia about its origin [kg m^2], first
#: moments [kg m], mass [kg].
INERTIAL = ("Jxx", "Jxy", "Jxz", "Jyy", "Jyz", "Jzz", "mcx", "mcy", "mcz", "m")
#: Largest distance of a number of a rotation (of a quaternion whose largest component is 1) from a
#: simple fraction that stands for it, as digits of files and rounding do not hit it.
NEAR = 1e-10
#: Largest denominator of such a fraction.
SIMPLE = 1000


class Field(Protocol):
    """Numbers that states are made of, in arrays."""

    def reduce(self, x: Array) -> Array:
        """The same numbers, small enough to be multiplied."""

    def inverse(self, x: Array) -> Array:
        """1 / x"""

    def number(self, x: Fraction) -> Any:
        """A rational number."""

    def random(self, *shape: int) -> Array:
        """Random numbers."""


@dataclass(frozen=True)
class Residues:
    """Numbers modulo a prime."""

    p: int
    generator: np.random.Generator

    def reduce(self, x: Array) -> Array:
        """x modulo p."""
        return x % self.p

    def inverse(self, x: Array) -> Array:
        """1 / x"""
        return np.array([inverse(int(value), self.p) for value in x.ravel()]).reshape(x.shape)

    def number(self, x: Fraction) -> int:
        """A rational number modulo p."""
        return residue(x, self.p)

    def random(self, *shape: int) -> Array:
        """Random residues."""
        return self.generator.integers(1, self.p, shape)


@dataclass(frozen=True)
class Reals:
    """Numbers in float64."""

    generator: np.random.Generator

    def reduce(self, x: Array) -> Array:
        """x itself."""
        return x

    def inverse(self, x: Array) -> Array:
        """1 / x"""
        return 1.0 / x

    def number(self, x: Fraction) -> float:
        """A rational number."""
        return float(x)

    def random(self, *shape: int) -> Array:
        """Numbers between -2 and 2."""
        return self.generator.uniform(-2.0, 2.0, shape)


# -- constants ------------------------------------------------------------------------------------


def fraction_of(number: Any) -> Fraction:
    """A number of an expression as a fraction: of floats, that of their shortest decimals."""
    if number.is_Rational:
        return Fraction(int(number.p), int(number.q))
    return Fraction(repr(float(number)))


def snapped(x: float) -> Fraction:
    """The simple fraction near a number, else the number itself."""
    simple = Fraction(x).limit_denominator(SIMPLE)
    return simple if abs(float(simple) - x) <= NEAR else Fraction(x)


def rational_rotation(rows: Any) -> tuple[list[list[Fraction]], bool]:
    """The rotation of rational numbers at a rotation matrix of floats (3, 3), exactly orthogonal,
    and whether it is one of simple fractions."""
    m = np.asarray(rows, dtype=float)
    skew = (m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])
    squares = np.zeros((4, 4))  # 4 x the outer product of the quaternion (w, x, y, z) with itself
    squares[0, 0] = 1.0 + np.trace(m)
    squares[0, 1:] = squares[1:, 0] = skew
    squares[1:, 1:] = m + m.T + (1.0 - np.trace(m)) * np.eye(3)
    k = int(np.argmax(np.diag(squares)))
    w, x, y, z = parts = [snapped(float(e)) for e in squares[k] / squares[k, k]]
    size = w * w + x * x + y * y + z * z
    turn = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return [[e / size for e in row] for row in turn], all(e.denominator <= SIMPLE for e in parts)


def rational_direction(direction: Sequence[float]) -> tuple[list[Fraction], bool]:
    """The rational unit vector at a direction (3,), by stereographic projection from its smallest
    component, and whether it is one of simple fractions."""
    d = np.asarray(direction, dtype=float)
    d = d / np.linalg.norm(d)
    k = int(np.argmax(np.abs(d)))
    sign = 1 if d[k] > 0.0 else -1
    i, j = (n for n in range(3) if n != k)
    a, b = (snapped(float(d[n] / (1.0 + abs(d[k])))) for n in (i, j))
    size = 1 + a * a + b * b
    found = [Fraction(0)] * 3
    found[i], found[j], found[k] = 2 * a / size, 2 * b / size, sign * (2 - size) / size
    return found, a.denominator <= SIMPLE and b.denominator <= SIMPLE


def circle_point(angle: float) -> tuple[list[Fraction], bool]:
    """Cosine and sine of a constant angle as rational numbers, and whether they are simple."""
    turn, simple = rational_rotation(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    return [turn[0][0], turn[1][0]], simple


# -- states ---------------------------------------------------------------------------------------


@dataclass
class State:
    """Random states of a tree, n at once, in a field.

    symbols : values of parameters in the field. values : those of the parameters that rotations
    hold, as floats. simple : whether all rotations so far are of simple fractions.
    """

    tree: Mechanism
    numbers: Field
    n: int
    symbols: dict[str, Any]
    values: Mapping[str, float]
    simple: bool = True
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether numbers are residues."""
        return isinstance(self.numbers, Residues)

    def once(self, key: Any, count: int | None = None) -> Array:
        """Random numbers (n,) that belong to a key."""
        if key not in self.known:
            self.known[key] = self.numbers.random(self.n if count is None else count)
        found: Array = self.known[key]
        return found

    def symbol(self, name: str) -> Any:
        """The value of a parameter."""
        if name not in self.symbols:
            self.symbols[name] = self.numbers.random(1)[0]
        return self.symbols[name]

    def constant(self, e: sp.Expr, what: str) -> float:
        """An expression of parameters with values as a float."""
        unknown = sorted({name_of(s) for s in e.free_symbols} - self.values.keys())
        if unknown:
            raise ValueError(f"{self.tree.name}: {what} holds {unknown[0]}; give values=")
        return float(e.subs({s: self.values[name_of(s)] for s in e.free_symbols}))

    def array(self, rows: Any) -> Array:
        """Rational numbers in an array with an axis for the states in front."""
        made = np.array(rows, dtype=object)
        flat = [self.numbers.number(x) for x in made.ravel()]
        return np.array(flat, dtype=np.int64 if self.exact else float).reshape(1, *made.shape)

    @property
    def zero(self) -> Array:
        """The vector zero (1, 3)."""
        return self.array([Fraction(0)] * 3)

    @property
    def identity(self) -> Array:
        """The matrix that changes nothing (1, 3, 3)."""
        return self.array([[Fraction(i == j) for j in range(3)] for i in range(3)])

    def times(self, a: Array, b: Array) -> Array:
        """a b, elements one by one."""
        return self.numbers.reduce(a * b)

    def apply(self, m: Array, v: Array) -> Array:
        """m v, of matrices (n, 3, 3) and columns (n, 3, ...)."""
        shape = (*m.shape, *(1,) * (v.ndim - 2))
        parts = self.times(m.reshape(shape), v[:, None])
        return self.numbers.reduce(parts.sum(axis=2))

    def back(self, m: Array, v: Array) -> Array:
        """The transposed m times v."""
        return self.apply(m.transpose(0, 2, 1), v)

    def cross(self, a: Array, b: Array) -> Array:
        """a x b, of vectors (n, 3) and columns (n, 3, ...)."""
        a = a.reshape(*a.shape, *(1,) * (b.ndim - 2))
        parts = (
            self.times(a[:, (k + 1) % 3], b[:, (k + 2) % 3])
            - self.times(a[:, (k + 2) % 3], b[:, (k + 1) % 3])
            for k in range(3)
        )
        return self.numbers.reduce(np.stack(list(parts), axis=1))

    # -- functions of coordinates -----------------------------------------------------------------

    def still(self, q: AppliedUndef) -> float | None:
        """The value of a coordinate that is locked, None of one that moves."""
        links = [link for link in self.tree.links if q in link.q]
        if all(name_of(u) in self.tree.locked for link in links for u in link.u):
            return float(self.values.get(name_of(q), 0.0))
        return None

    def coordinate(self, q: AppliedUndef) -> Array:
        """Values of a coordinate (n,)."""
        fixed = self.still(q)
        return self.once(q) if fixed is None else self.array([Fraction(repr(fixed))])[:, 0]

    def at(self, e: sp.Expr) -> Array:
        """An expression of coordinates and parameters, (n,) or (1,)."""
        if not self.exact:
            symbols = sorted(e.free_symbols | e.atoms(AppliedUndef), key=str)
            symbols = [s for s in symbols if str(s) != "t"]
            given = [
                self.coordinate(s) if isinstance(s, AppliedUndef) else self.symbol(name_of(s))
                for s in symbols
            ]
            return np.atleast_1d(np.asarray(NumericFunction(symbols, e)(*given), dtype=float))
        if e.is_Rational or e.is_Float:
            return self.array([fraction_of(e)])[:, 0]
        if isinstance(e, AppliedUndef):
            return self.coordinate(e)
        if e.is_Symbol:
            return np.array([self.symbol(name_of(e))])
        if e.is_Add:
            return self.numbers.reduce(sum(map(self.at, e.args)))
        if e.is_Mul or (e.is_Pow and e.exp.is_Integer):
            base = e.args if e.is_Mul else [e.base] * abs(int(e.exp))
            found = np.ones(1, dtype=np.int64)
            for part in base:
                found = self.times(found, self.at(part))
            return self.numbers.inverse(found) if e.is_Pow and e.exp < 0 else found
        if isinstance(e, (sp.sin, sp.cos)):
            return self.circle(e.args[0])[int(isinstance(e, sp.sin))]
        return self.once(e, None if e.atoms(AppliedUndef) else 1)

    def circle(self, angle: sp.Expr) -> tuple[Array, Array]:
        """Cosine and sine of an angle, (n,) or (1,) each. Those of sums of multiples of coordinates
        are powers of one point per coordinate."""
        if not self.exact:
            found = self.at(angle)
            return np.cos(found), np.sin(found)
        coordinates = sorted(angle.atoms(AppliedUndef), key=str)
        slopes = [angle.diff(q) for q in coordinates]
        rest = sp.expand(angle.xreplace(dict.fromkeys(coordinates, sp.S.Zero)))
        if any(not s.is_number for s in slopes):
            return self.on_circle(angle)
        if rest.is_number or {name_of(s) for s in rest.free_symbols} <= self.values.keys():
            found = self.fixed_circle(self.constant(rest, "an angle"))
        else:
            found = self.on_circle(rest, 1)
        for q, slope in zip(coordinates, slopes, strict=True):
            fixed = self.still(q)
            if fixed is not None:
                factor = self.fixed_circle(fixed * float(slope))
            else:
                power = fraction_of(slope) * self.divisor(q)
                factor = self.power(self.on_circle(q), int(power))
            found = self.turned(found, factor)
        return found

    def divisor(self, q: AppliedUndef) -> int:
        """The common denominator of the multiples of a coordinate that turn links."""
        angles = [
            angle
            for link in self.tree.links
            if isinstance(link.primitive, Functional)
            for _, angle in link.primitive.rotations
            if angle.has(q)
        ]
        slopes = [angle.diff(q) for angle in angles]
        return lcm(*(fraction_of(s).denominator for s in slopes if s.is_number))

    def on_circle(self, key: Any, count: int | None = None) -> tuple[Array, Array]:
        """A random point of the circle that belongs to a key."""
        half = self.once((key, "circle"), count)
        square = self.times(half, half)
        size = self.numbers.inverse(self.numbers.reduce(1 + square))
        return self.times(self.numbers.reduce(1 - square), size), self.times(2 * half, size)

    def fixed_circle(self, angle: float) -> tuple[Array, Array]:
        """Cosine and sine of a constant angle."""
        point, simple = circle_point(angle)
        self.simple &= simple
        cosine, sine = self.array(point).T
        return cosine, sine

    def turned(self, a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        """Cosine and sine of the sum of two angles."""
        return (
            self.numbers.reduce(self.times(a[0], b[0]) - self.times(a[1], b[1])),
            self.numbers.reduce(self.times(a[0], b[1]) + self.times(a[1], b[0])),
        )

    def power(self, a: tuple[Array, Array], times: int) -> tuple[Array, Array]:
        """Cosine and sine of a multiple of an angle."""
        if times < 0:
            return self.power((a[0], self.numbers.reduce(-a[1])), -times)
        if times == 0:
            return self.fixed_circle(0.0)
        half = self.power(a, times // 2)
        whole = self.turned(half, half)
        return self.turned(whole, a) if times % 2 else whole

    # -- rotations --------------------------------------------------------------------------------

    def rotation(self, rows: Any) -> Array:
        """A constant rotation (1, 3, 3)."""
        floats = [[self.constant(e, "a rotation") for e in row] for row in rows]
        if not self.exact:
            return np.array([floats])
        found, simple = rational_rotation(floats)
        self.simple &= simple
        return self.array(found)

    def direction(self, axis: Any) -> Array:
        """A constant unit vector (1, 3)."""
        floats = [self.constant(e, "an axis") for e in axis]
        if not self.exact:
            return np.array([floats]) / np.linalg.norm(floats)
        found, simple = rational_direction(floats)
        self.simple &= simple
        return self.array(found)

    def about(self, axis: Array, point: tuple[Array, Array]) -> Array:
        """The rotation about a unit vector (1, 3) by an angle, (n, 3, 3)."""
        cosine, sine = (e[:, None, None] for e in point)
        x, y, z = axis[0]
        outer = self.numbers.reduce(np.multiply.outer(axis[0], axis[0]))[None]
        zero = 0 * x
        skew = np.array([[[zero, -z, y], [z, zero, -x], [-y, x, zero]]])
        eye = np.eye(3, dtype=axis.dtype)[None]
        rest = self.numbers.reduce(eye - outer)
        return self.numbers.reduce(
            outer + self.times(cosine, rest) + self.times(sine, self.numbers.reduce(skew))
        )

    def points(self, e: Sequence[sp.Expr]) -> Array:
        """A vector of expressions, (n, 3) or (1, 3)."""
        return np.stack(np.broadcast_arrays(*map(self.at, e)), axis=1)

    def bryant(self, sequence: str, q: Sequence[AppliedUndef]) -> Array:
        """Rotation by Bryant angles."""
        found = self.identity
        for axis, angle in zip(sequence, q, strict=True):
            found = self.apply(found, self.about(self.direction(unit(axis)), self.circle(angle)))
        return found


@dataclass(frozen=True)
class Moved:
    """A link relative to the one before it, as `kinesym.symbolic.multibody.relative.Relative`, in
    numbers: to world axes if it is `Aim`ed."""

    rotation: Array
    offset: Array
    ways: list[tuple[Array, Array]]
    bias: tuple[Array, Array]


def moved(s: State, link: Link) -> Moved:
    """The motion of a link relative to the one before it."""
    zero = s.zero
    same = s.identity
    axes = [same[:, k] for k in range(3)]
    at, ways = s.points(link.at), list[tuple[Array, Array]]()
    match link.primitive:
        case Hinge(direction=direction):
            axis = s.direction(direction)
            rotation, ways = s.about(axis, s.circle(link.q[0])), [(axis, zero)]
        case Ball(sequence=sequence):
            rotation, ways = s.bryant(sequence, link.q), [(axis, zero) for axis in axes]
        case Aim(sequence=sequence):
            rotation = s.bryant(sequence, link.q)
            turned = sequence if len(sequence) == 1 else AXES
            ways = [(axes[AXES.index(axis)], zero) for axis in turned]
        case Slide(axes=names):
            rotation, ways = same, [(zero, axes[AXES.index(axis)]) for axis in names]
            for q, (_, way) in zip(link.q, ways, strict=True):
                at = s.numbers.reduce(at + s.times(s.coordinate(q)[:, None], way))
        case Functional():
            return moved_by_functions(s, link, link.primitive)
        case _:
            rotation = same
    return Moved(rotation, at, ways, (zero, zero))


def moved_by_functions(s: State, link: Link, motion: Functional) -> Moved:
    """Relative motion of a joint of functions, see `relative.moved_by_functions`."""
    zero = s.zero
    constant = s.rotation(motion.attitude)
    rotation = s.identity
    w, bias, turns = zero, zero, [zero for _ in link.q]
    rates = [speed(s, u) for u in link.u]
    axes = directions_of(s, motion, constant)
    for (_, angle), axis in zip(motion.rotations, axes, strict=True):
        slopes, curve = changes(s, angle, link)
        step = s.about(axis, s.circle(angle))
        rotation, carried = s.apply(rotation, step), s.back(step, w)
        rate = sum((s.times(a, u) for a, u in zip(slopes, rates, strict=True)), zero[:, 0])
        rate = s.numbers.reduce(rate)
        spin = s.times(rate[:, None], axis)
        w = s.numbers.reduce(carried + spin)
        bias = s.back(step, bias) + s.times(curve[:, None], axis) + s.cross(carried, spin)
        bias = s.numbers.reduce(bias)
        turns = [
            s.numbers.reduce(s.back(step, v) + s.times(slope[:, None], axis))
            for v, slope in zip(turns, slopes, strict=True)
        ]
    parts = [changes(s, e, link) for e in motion.shift]
    moves = [np.stack(np.broadcast_arrays(*(a[k] for a, _ in parts)), 1) for k in range(len(turns))]
    curves = np.stack(np.broadcast_arrays(*(c for _, c in parts)), axis=1)
    return Moved(
        s.apply(rotation, constant),
        s.points([a + b for a, b in zip(link.at, motion.shift, strict=True)]),
        [(s.back(constant, a), b) for a, b in zip(turns, moves, strict=True)],
        (s.back(constant, bias), curves),
    )


def directions_of(s: State, motion: Functional, constant: Array) -> list[Array]:
    """Axes of rotations; the last one is exactly a simple one of the body if it is near one."""
    found = [s.direction(axis) for axis, _ in motion.rotations]
    if s.exact and found:
        floats = np.array(sp.Matrix(motion.attitude).T * sp.Matrix(motion.rotations[-1][0]))
        own, simple = rational_direction([s.constant(e, "an axis") for e in floats.ravel()])
        if simple:
            found[-1] = s.apply(constant, s.array(own))
    return found


def changes(s: State, function: sp.Expr, link: Link) -> tuple[list[Array], Array]:
    """Slopes of a function for each coordinate, and its second derivative in time for constant
    speeds."""
    slopes = [function.diff(q) for q in link.q]
    curve = s.array([Fraction(0)])[:, 0]
    for slope, u in zip(slopes, link.u, strict=True):
        for q, v in zip(link.q, link.u, strict=True):
            if (second := slope.diff(q)) != 0:
                both = s.times(speed(s, u), speed(s, v))
                curve = s.numbers.reduce(curve + s.times(s.at(second), both))
    return [s.at(slope) for slope in slopes], curve


def speed(s: State, u: AppliedUndef, order: int = 0) -> Array:
    """Values of a speed, or of its rate (n,): zero if it is locked."""
    if name_of(u) in s.tree.locked:
        return s.array([Fraction(0)])[:, 0]
    return s.once((name_of(u), order))


# -- what unit parameters need --------------------------------------------------------------------


def regressor(s: State) -> tuple[dict[str, Array], Array]:
    """Coefficients of generalised forces by the name of their speed, (n, 10 N), and of the wrench
    of the base, force and moment (n, 6, 10 N); of the parameters `INERTIAL` of each of N bodies."""
    links, frames = s.tree.links, {-1: base_frame(s)}
    moves = [moved(s, link) for link in links]
    for k, link in enumerate(links):
        frames[k] = frame(s, frames[link.parent], link, moves[k])
    width, dtype = 10 * len(s.tree.bodies), np.int64 if s.exact else float
    numbers = {body.name: k for k, body in enumerate(s.tree.bodies)}
    total = {k: np.zeros((3, s.n, 3, width), dtype) for k in frames}
    rows = {name: np.zeros((s.n, width), dtype) for name in s.tree.speeds}
    for k in reversed(range(len(links))):
        link, move, (f, n, m) = links[k], moves[k], total.pop(k)
        if link.body is not None:
            begin = 10 * numbers[link.body.name]
            force, moment = unit_wrenches(s, frames[k])
            for whole, part in ((f, force), (n, moment), (m, moment)):
                whole[:, :, begin : begin + 10] += part
        f, n, m = (s.numbers.reduce(e) for e in (f, n, m))
        rotation = frames[k].rotation
        for u, (turned, slid) in zip(link.u, move.ways, strict=True):
            slid = s.back(rotation, slid)
            row = s.times(turned[:, :, None], m) + s.times(slid[:, :, None], f)
            name = name_of(u)
            rows[name] = s.numbers.reduce(rows[name] + row.sum(axis=1))
        f, n = s.apply(rotation, f), s.apply(rotation, n)
        m = 0 * n if isinstance(link.primitive, Aim) else s.apply(rotation, m)
        arm, outer = s.cross(move.offset, f), total[link.parent]
        for whole, part in zip(outer, (f, n + arm, m + arm), strict=True):
            whole += s.numbers.reduce(part)
    return rows, np.concatenate([s.numbers.reduce(e) for e in total[-1][:2]], axis=1)


@dataclass(frozen=True)
class Motion:
    """The motion of a link in its own axes, as `kinesym.symbolic.multibody.passes.Frame`."""

    rotation: Array
    w: Array
    dw: Array
    change: Array
    acceleration: Array
    attitude: Array


def base_frame(s: State) -> Motion:
    """The motion of the base: any, or none."""
    same = s.identity
    zero = s.zero
    if isinstance(s.tree.base, FixedBase):
        gravity = s.points(vector(s.tree.gravity))
        return Motion(same, zero, zero, 0 * same, s.numbers.reduce(-gravity), same)
    w, dw, a = (np.stack([s.once((kind, k)) for k in range(3)], 1) for kind in ("w", "dw", "a"))
    axes = [s.about(s.direction(unit(axis)), s.on_circle(axis)) for axis in AXES]
    attitude = s.apply(s.apply(axes[0], axes[1]), axes[2])
    return Motion(same, w, dw, change_of(s, w, dw), a, attitude)


def change_of(s: State, w: Array, dw: Array) -> Array:
    """The matrix of dw x r + w x (w x r)."""
    eye = np.eye(3, dtype=w.dtype)
    columns = [
        s.cross(w, s.cross(w, np.broadcast_to(e, w.shape)))
        + s.cross(dw, np.broadcast_to(e, w.shape))
        for e in eye
    ]
    return s.numbers.reduce(np.stack(columns, axis=2))


def frame(s: State, inner: Motion, link: Link, move: Moved) -> Motion:
    """The motion of a link from that of the one before it, see `passes.outwards`."""
    aimed = isinstance(link.primitive, Aim)
    rotation = s.back(inner.attitude, move.rotation) if aimed else move.rotation
    attitude = move.rotation if aimed else s.apply(inner.attitude, rotation)
    turning, sliding = along(s, link, move, 0)
    turning_rate, sliding_rate = along(s, link, move, 1)
    turning_rate = s.numbers.reduce(turning_rate + move.bias[0])
    sliding_rate = s.numbers.reduce(sliding_rate + move.bias[1])
    a = inner.acceleration + s.apply(inner.change, move.offset)
    a = a + sliding_rate + 2 * s.cross(inner.w, sliding)
    w, dw = s.back(rotation, inner.w), s.back(rotation, inner.dw)
    dw = s.numbers.reduce(dw + turning_rate + s.cross(w, turning))
    w = s.numbers.reduce(w + turning)
    if aimed:
        w, dw = turning, turning_rate
    a = s.back(rotation, s.numbers.reduce(a))
    w, dw, a, rotation = (np.broadcast_to(e, (s.n, *e.shape[1:])) for e in (w, dw, a, rotation))
    return Motion(rotation, w, dw, change_of(s, w, dw), a, attitude)


def along(s: State, link: Link, move: Moved, order: int) -> tuple[Array, Array]:
    """The motion along a joint with its speeds, or their rates."""
    turning = sliding = s.zero
    for u, (turned, slid) in zip(link.u, move.ways, strict=True):
        value = speed(s, u, order)[:, None]
        turning = s.numbers.reduce(turning + s.times(value, turned))
        sliding = s.numbers.reduce(sliding + s.times(value, slid))
    return turning, sliding


def unit_wrenches(s: State, motion: Motion) -> tuple[Array, Array]:
    """Forces and moments (n, 3, 10) about its origin that a body with one of the parameters
    `INERTIAL` alone needs, in its axes."""
    zero, eye = 0 * motion.w, np.eye(3, dtype=motion.w.dtype)
    forces, moments = [], []
    for i in range(3):
        for j in range(i, 3):
            spun, rate = zero.copy(), zero.copy()  # E w, E dw
            spun[:, i], spun[:, j] = motion.w[:, j], motion.w[:, i]
            rate[:, i], rate[:, j] = motion.dw[:, j], motion.dw[:, i]
            forces.append(zero)
            moments.append(s.numbers.reduce(rate + s.cross(motion.w, spun)))
    for k in range(3):
        forces.append(motion.change[:, :, k])
        moments.append(s.cross(np.broadcast_to(eye[k], zero.shape), motion.acceleration))
    forces.append(motion.acceleration)
    moments.append(zero)
    return np.stack(forces, axis=2), np.stack(moments, axis=2)
