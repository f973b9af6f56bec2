"""Base parameters of a tree: the combinations of inertial parameters that forces depend on.

Generalised forces are linear in masses, first moments and moments of inertia about the origins of
bodies, the standard parameters. Columns of their coefficients that depend on others, along all
motions, are regrouped with these (Gautier 1991, Journal of Robotic Systems 8, 485-506, by exact
instead of numerical rank).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.base.notebook import Displayed
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import coordinate_rates, settled
from kinesym.symbolic.multibody.bodies import Body, inertia_matrix, mass_of
from kinesym.symbolic.multibody.fields import Reals, Residues
from kinesym.symbolic.multibody.generic import State
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.outputs import Outputs, components
from kinesym.symbolic.multibody.passes import Frame, Wrench, along_joint, inwards
from kinesym.symbolic.multibody.unit_forces import INERTIAL, unit_forces
from kinesym.symbolic.multibody.vectors import IDENTITY, Steps, Vector, matrix, vector
from kinesym.symbolic.names import check_known, name_of, names_of, t
from kinesym.symbolic.prime_field import echelon, random_prime, rational

#: What `measured` calls the wrench of the base on the tree.
WRENCH = "base_wrench"
#: Degree of the polynomials of lengths that factors of combinations are.
DEGREE = 2
#: Most primes that rational factors are found with; that is for factors of 30 digits.
PRIMES = 5
#: Letters of a combination that are shown.
WIDTH = 160
#: Share of a factor by which it may be off a simple fraction of which it has the rounding.
ROUNDING = 1e-11


@dataclass(frozen=True, repr=False, eq=False)
class BaseParameters(Displayed):
    """Combinations of inertial parameters that forces of a tree depend on, as few as there are.

    tree : whose parameters they are. measured : speeds whose generalised forces count, and
    "base_wrench". standard : names of the inertial parameters of all bodies, in columns of
    `matrix`: `upper_Jxx`, ... about the origin of the body, which is its joint, in its axes
    [kg m^2], first moments `upper_mcx`, ... [kg m], mass `upper_m` [kg]. names : of the
    combinations, each by the first parameter in it, which is in no other. unseen : of inertial
    parameters that change no force. form : what all this follows from.
    """

    tree: Mechanism
    measured: tuple[str, ...]
    standard: tuple[str, ...]
    names: tuple[str, ...]
    unseen: tuple[str, ...]
    form: Reduced

    @cached_property
    def combinations(self) -> dict[str, sp.Expr]:
        """The combinations by name: expressions of `standard` and of lengths that are symbols, with
        factors that are exact where all lengths are symbols or rational numbers."""
        found = {name: [sp.Symbol(name)] for name in self.names}
        for (name, other), factor in self._factors.items():
            found[name].append(factor * sp.Symbol(other))
        return {name: sp.Add(*terms) for name, terms in found.items()}

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Base parameters by standard ones (b, 10 N), with the lengths in the values of the tree.

        Raises `ValueError` for a length without a value.
        """
        made = np.zeros((len(self.names), len(self.standard)))
        rows, columns = ({n: k for k, n in enumerate(g)} for g in (self.names, self.standard))
        for name, row in rows.items():
            made[row, columns[name]] = 1.0
        found = in_floats(self.tree, self.measured, self.form)
        for (name, other), factor in zip(self._places, found, strict=True):
            made[rows[name], columns[other]] = float(factor)
        return made

    @cached_property
    def values(self) -> dict[str, float]:
        """Numbers of the combinations, by name, of the masses, centres and inertias of the tree.

        Raises `ValueError` for a parameter without a value.
        """
        numbers = np.array([*standard_values(self.tree).values()])
        return dict(zip(self.names, map(float, self.matrix @ numbers), strict=True))

    @cached_property
    def model(self) -> Model:
        """The generalised forces that a motion needs, as outputs, linear in the base parameters:
        those of bodies alone, without loads and passive forces. Their derivatives are the
        regressor; `ks.regressor` compiles it."""
        return force_model(self.tree, self.measured, self.names)

    @property
    def _places(self) -> list[tuple[str, str]]:
        """Names of base parameters and of standard ones that are regrouped with them."""
        ordered = [self.standard[k] for k in column_order(self.tree)]
        first = [ordered[k] for k in self.form.pivots]
        return [(first[row], ordered[column]) for row, column in self.form.places]

    @cached_property
    def _factors(self) -> dict[tuple[str, str], sp.Expr]:
        """Factors of what is regrouped, by `_places`."""
        found = factors(self.tree, self.measured, self.form)
        return dict(zip(self._places, found, strict=True))

    def __repr__(self) -> str:
        return f"<base parameters of {self.tree.name}: {len(self.names)}>"

    def __str__(self) -> str:
        forces, bodies = sum(m != WRENCH for m in self.measured), len(self.tree.bodies)
        what = [f"forces of {counted(forces, 'speed')}"] * bool(forces)
        what += ["the wrench of the base"] * (WRENCH in self.measured)
        title = (
            f"{self.tree.name}: {' and '.join(what)} depend{'s' * (not forces)} on "
            f"{counted(len(self.names), 'combination')} of the {len(self.standard)} inertial "
            f"parameters of {counted(bodies, 'body', 'bodies')}"
        )
        rows = [(name, self._sum(name)) for name in self.names]
        rows += [("nothing", f"depends on {cut(', '.join(self.unseen))}")] * bool(self.unseen)
        width = max(len(name) for name, _ in rows)
        return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def _sum(self, name: str) -> str:
        """A combination as text, parameters with the same factor together."""
        groups: dict[sp.Expr, list[str]] = {}
        for (base, other), factor in self._factors.items():
            if base == name:
                groups.setdefault(factor, []).append(other)
        text = name
        for factor, others in groups.items():
            minus = factor.could_extract_minus_sign()
            size = -factor if minus else factor
            size = size.xreplace({x: sp.Float(x, 5) for x in size.atoms(sp.Float)})
            total = " + ".join(others)
            if size == 1:
                total = (" - " if minus else " + ").join(others)
            else:
                whole = f"({total})" if len(others) > 1 else total
                total = f"({size})*{whole}" if size.is_Add else f"{size}*{whole}"
            text += f" {'-' if minus else '+'} {total}"
        return cut(text)


def counted(n: int, one: str, many: str = "") -> str:
    """A number and what is counted."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def cut(text: str) -> str:
    """A text that is long without its end."""
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} ..."


def base_parameters(tree: Mechanism, measured: Iterable[str] | str | None = None) -> BaseParameters:
    """Base parameters, see `Tree.base_parameters`."""
    chosen = checked_measured(tree, measured)
    form, order = independent(tree, chosen), np.array(column_order(tree))
    seen = form.rows.any(axis=0)
    standard = [f"{body.name}_{kind}" for body in tree.bodies for kind in INERTIAL]
    names, unseen = (
        tuple(standard[k] for k in sorted(order[group].tolist()))
        for group in ([*form.pivots], ~seen)
    )
    return BaseParameters(tree, chosen, tuple(standard), names, unseen, form)


def checked_measured(tree: Mechanism, measured: Iterable[str] | str | None) -> tuple[str, ...]:
    """Names of the speeds whose forces are measured, and `WRENCH`."""
    if tree.closures:
        raise ValueError(
            f"{tree.name} has closed loops ({tree.closures[0].name}): a motion does not determine "
            "forces in them; take the open tree"
        )
    given = [measured] if isinstance(measured, str) else measured
    names = [*tree.speeds] if given is None else names_of(given, f"measured by {tree.name}")
    joints = [name for name in names if name != WRENCH]
    known = [*tree.speeds, *(body.name for body in tree.bodies), WRENCH]
    for name in joints:
        check_known(name, known, f"measured: {name} is no joint and no speed of {tree.name}")
    found = set(tree.speeds_of(*joints)) if joints else set()
    chosen = [name for name in tree.speeds if name in found - tree.locked]
    chosen += [WRENCH] * (WRENCH in names)
    if not chosen:
        raise ValueError(
            f"measured: {tree.name} has no speed there; give names of joints or speeds, or "
            f"{WRENCH!r}"
        )
    return tuple(chosen)


def standard_parameters(body: Body) -> dict[str, sp.Expr]:
    """Inertial parameters of a body by name, as expressions of its mass, centre and inertia."""
    m, c = mass_of(body), vector(body.com)
    outer = matrix([[a * b for b in c] for a in c])
    moved = inertia_matrix(body) + m * ((c @ c) * IDENTITY + sp.S.NegativeOne * outer)
    moments = [moved[i][j] for i in range(3) for j in range(i, 3)]
    every = [*moments, *(m * e for e in c), m]
    return {f"{body.name}_{kind}": e for kind, e in zip(INERTIAL, every, strict=True)}


def standard_values(tree: Mechanism) -> dict[str, float]:
    """Numbers of the inertial parameters of all bodies, by name."""
    return {
        name: number_of(tree, e, name)
        for body in tree.bodies
        for name, e in standard_parameters(body).items()
    }


def number_of(tree: Mechanism, e: sp.Expr, what: str) -> float:
    """An expression of parameters with the values of a tree."""
    for name in sorted(map(name_of, e.free_symbols)):
        check_known(name, tree.values, f"{tree.name}: {what} holds {name}; give it a value")
    return float(e.subs({s: tree.values[name_of(s)] for s in e.free_symbols}))


# -- exact rank -----------------------------------------------------------------------------------


def column_order(tree: Mechanism) -> list[int]:
    """Columns in the order in which they are kept: moments of inertia, first moments and masses,
    inner bodies first. So what is regrouped goes inwards, by polynomials of lengths."""
    kinds = [range(6), range(6, 9), range(9, 10)]
    bodies = range(len(tree.bodies))
    return [10 * body + k for kind in kinds for body in bodies for k in kind]


def coefficients(state: State, measured: Sequence[str]) -> NDArray[np.int64]:
    """Rows of measured forces at all states, columns in order."""
    rows, wrench = unit_forces(state)
    parts = [rows[name] for name in measured if name != WRENCH]
    parts += [wrench[:, k] for k in range(6)] if WRENCH in measured else []
    return np.concatenate(parts)[:, column_order(state.tree)]


@dataclass(frozen=True)
class Reduced:
    """The reduced row echelon form modulo a prime of the coefficients along any motion.

    rows : (rank, 10 N), columns in order. pivots : of the columns. simple : whether all rotations
    are of simple fractions.
    """

    rows: NDArray[np.int64]
    pivots: tuple[int, ...]
    simple: bool

    @property
    def places(self) -> list[tuple[int, int]]:
        """Entries that are not zero, besides the pivots."""
        found = np.argwhere(self.rows).tolist()
        return [(row, column) for row, column in found if column not in self.pivots]


def reduced(
    tree: Mechanism,
    measured: Sequence[str],
    generator: np.random.Generator,
    p: int,
    symbols: Mapping[str, int],
    rank: int = -1,
) -> Reduced:
    """The reduced form modulo p, with lengths that are symbols. States are added until they add
    nothing, or the rank is reached."""
    width = 10 * len(tree.bodies)
    n = width // (len(measured) + 5 * (WRENCH in measured)) + 3
    rows, own = np.zeros((0, width), np.int64), dict(symbols)
    while True:
        state = State(tree, Residues(p, generator), n, own, tree.values)
        found, pivots = echelon(np.concatenate([rows, coefficients(state, measured)]), p)
        if len(found) in (len(rows), rank):
            return Reduced(found, pivots, state.simple)
        rows = found


def independent(tree: Mechanism, measured: Sequence[str]) -> Reduced:
    """The reduced form by two primes, of which the higher rank is right, as a prime can only lose
    some."""
    generator = np.random.default_rng(0)
    found = [reduced(tree, measured, generator, random_prime(generator), {}) for _ in range(2)]
    return max(found, key=lambda one: len(one.pivots))


# -- factors --------------------------------------------------------------------------------------


def factors(tree: Mechanism, measured: Sequence[str], form: Reduced) -> list[sp.Expr]:
    """Factors of what is regrouped, the entries of the reduced form: exact ones of symbols and
    rational numbers, else in float64."""
    lengths = lengths_of(tree)
    symbols = symbols_of(lengths)
    exact = form.simple and (symbols or not any(e.atoms(sp.Float) for e in lengths))
    found = polynomials(tree, measured, form, symbols) if exact else None
    return in_floats(tree, measured, form) if found is None else found


def lengths_of(tree: Mechanism) -> list[sp.Expr]:
    """Expressions that offsets of joints are of."""
    every = [e for link in tree.links for e in link.at]
    return every + [e for link in tree.links for e in getattr(link.primitive, "shift", ())]


def polynomials(
    tree: Mechanism,
    measured: Sequence[str],
    form: Reduced,
    symbols: Sequence[str],
) -> list[sp.Expr] | None:
    """Entries of the reduced form as polynomials of lengths with rational factors; None if they are
    none. Found modulo more and more primes, of which the last one confirms them."""
    powers = [c for d in range(DEGREE + 1) for c in combinations_with_replacement(symbols, d)]
    primes, found, generator = list[int](), list[list[int]](), np.random.default_rng(1)
    while len(primes) < PRIMES:
        p, rows = random_prime(generator), list[list[int]]()
        for _ in range(len(powers) + 2 * bool(symbols)):
            values = {s: int(generator.integers(1, p)) for s in symbols}
            terms = [product(p, [values[s] for s in power]) for power in powers]
            entries = reduced(tree, measured, generator, p, values, len(form.rows)).rows
            rows.append([*terms, *(int(entries[place]) for place in form.places)])
        solved, pivots = echelon(np.array(rows), p)
        if pivots != tuple(range(len(powers))):
            return None
        primes.append(p)
        found.append(solved[:, len(powers) :].ravel().tolist())
        numbers = [fraction(values, primes) for values in zip(*found, strict=True)]
        if len(primes) > 1 and None not in numbers:
            break
    else:
        return None
    table = np.array(numbers, dtype=object).reshape(len(powers), len(form.places))
    monomials = [sp.Mul(*map(sp.Symbol, power)) for power in powers]
    return [
        sp.Add(*(sp.Rational(str(x)) * e for x, e in zip(column, monomials, strict=True)))
        for column in table.T
    ]


def product(p: int, numbers: Iterable[int]) -> int:
    """A product modulo p."""
    found = 1
    for x in numbers:
        found = found * x % p
    return found


def fraction(values: Sequence[int], primes: Sequence[int]) -> Fraction | None:
    """The rational number with these residues, of which the last one confirms it."""
    whole, modulus = 0, 1
    for value, p in zip(values[:-1], primes[:-1], strict=True):
        whole += modulus * ((value - whole) * pow(modulus, -1, p) % p)
        modulus *= p
    found, p = rational(whole, modulus), primes[-1]
    if found is None or (found.numerator - values[-1] * found.denominator) % p:
        return None
    return found


def in_floats(tree: Mechanism, measured: Sequence[str], form: Reduced) -> list[sp.Expr]:
    """Entries of the reduced form in float64, with the pivots and zeros known, by least squares."""
    n = 3 * (10 * len(tree.bodies) // len(measured) + 3)
    angles = [e for link in tree.links for _, e in getattr(link.primitive, "rotations", ())]
    names = symbols_of([*lengths_of(tree), *angles])
    values = {name: number_of(tree, sp.Symbol(name), "a joint") for name in names}
    rows = coefficients(
        State(tree, Reals(np.random.default_rng(1)), n, values, tree.values), measured
    )
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0.0] = 1.0
    kept = [*form.pivots]
    found = np.linalg.lstsq((rows / scale)[:, kept], rows, rcond=None)[0]
    found /= scale[kept, None]
    return [near(float(found[place])) for place in form.places]


def symbols_of(expressions: Iterable[sp.Expr]) -> list[str]:
    """Names of the parameters in expressions."""
    return sorted({name_of(s) for e in expressions for s in e.free_symbols - {t}})


def near(x: float) -> sp.Expr:
    """The simple fraction that a number has the rounding of, else the number."""
    simple = Fraction(x).limit_denominator(100)
    return sp.Rational(str(simple)) if abs(float(simple) - x) <= ROUNDING * abs(x) else sp.Float(x)


# -- the forces as a model ------------------------------------------------------------------------


def force_model(tree: Mechanism, measured: Sequence[str], names: Sequence[str]) -> Model:
    """The forces that a motion needs, as outputs, linear in inertial parameters of these names; all
    others are zero."""
    none = (0, 0, 0)
    bodies = [replace(body, mass=0, com=none, inertia=none) for body in tree.bodies]
    bare = replace(tree, bodies=bodies, loads=(), passive={}, imus=())
    vars(bare).update(poses=tree.poses, motion=tree.motion)
    steps, frames = tree.motion.steps.copy(), tree.motion.frames
    own = {
        k: linear_wrench(steps, frames[k], link.body, set(names))
        for k, link in enumerate(bare.moving)
        if link.body is not None
    }
    reaching, following = inwards(steps, bare.moving, frames, own)
    needed = dict.fromkeys(tree.speeds, sp.S.Zero)
    for k, link in enumerate(bare.links):
        for u, force in zip(link.u, along_joint(frames[k], following[k]), strict=True):
            needed[name_of(u)] += force
    outputs = {tree.inputs[name]: needed[name] for name in measured if name != WRENCH}
    if WRENCH in measured:
        force, moment = reaching[-1]
        outputs |= {**components("base_force", force), **components("base_moment", moment)}
    rows = [q.diff(t) - rate for q, rate in coordinate_rates(bare, steps).items()]
    rows += [force for name, force in needed.items() if name not in tree.locked]
    return settled(bare, steps, rows, Outputs(outputs), tree.values)


def linear_wrench(steps: Steps, frame: Frame, body: Body, names: set[str]) -> Wrench:
    """Force and moment about its origin that a body needs, linear in its inertial parameters."""

    def parameter(kind: str) -> sp.Expr:
        name = f"{body.name}_{kind}"
        return sp.Symbol(name) if name in names else sp.S.Zero

    m, h = parameter("m"), Vector(parameter(f"mc{axis}") for axis in "xyz")
    J = matrix([parameter("J" + "".join(sorted(i + j))) for j in "xyz"] for i in "xyz")
    force = m * frame.acceleration + frame.change @ h
    momentum = steps.vector(f"L.{body.name}", J @ frame.angular)
    moment = J @ frame.angular_rate + frame.angular.cross(momentum) + h.cross(frame.acceleration)
    return steps.vector(f"F.{body.name}", force), moment
