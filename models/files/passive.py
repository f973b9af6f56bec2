"""Springs, dampers and rotors of joints as generalised forces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.files.description import Passive
from kinesym.symbolic.names import name_of, t


def passive_forces(rows: Iterable[Passive], values: Mapping[str, sp.Expr]) -> dict[str, sp.Expr]:
    """Generalised forces by the name of their speed; values : all coordinates as expressions of
    those that move. Forces of rotors are minus inertia times rates of speeds."""
    found: dict[str, sp.Expr] = {}
    for row in rows:
        given = [values[name] for name in row.coordinates]
        forces = of_one(row, *given) if len(given) == 1 else of_rotation(row, given)
        for q, force in forces.items():
            name = name_of(speed(q))
            found[name] = found.get(name, sp.S.Zero) + force
    return {name: force for name, force in found.items() if force != 0}


def speed(q: AppliedUndef) -> AppliedUndef:
    """The rate of a coordinate of a custom joint, as `symbolic/multibody/links.py` names it."""
    return sp.Function(f"{name_of(q)}_speed")(t)


def of_one(row: Passive, e: sp.Expr) -> dict[AppliedUndef, sp.Expr]:
    """Generalised forces on the symbols q of a coordinate e: F = -k(e - rest) - d(e') - I e'' is
    felt by q as de/dq F."""
    slopes = {q: e.diff(q) for q in sorted(e.atoms(AppliedUndef), key=name_of)}
    rate = sp.Add(*(slope * speed(q) for q, slope in slopes.items()))
    growth = sp.Add(
        *(rate.diff(q) * speed(q) for q in slopes),
        *(slope * speed(q).diff(t) for q, slope in slopes.items()),
    )
    x = e - number(row.rest)
    force = sp.Add(
        *(-number(k) * x**n for n, k in enumerate(row.stiffness, 1)),
        *(-number(d) * rate * drag(rate, n) for n, d in enumerate(row.damping)),
        -number(row.armature) * growth,
    )
    return {q: slope * force for q, slope in slopes.items()}


def drag(rate: sp.Expr, power: int) -> sp.Expr:
    """|v|^n"""
    return rate**power if power % 2 == 0 else sp.Abs(rate) ** power


def of_rotation(row: Passive, values: Sequence[sp.Expr]) -> dict[AppliedUndef, sp.Expr]:
    """Generalised forces of a rotation by three angles a, b, c about x, y, z in turn: the square of
    the relative angular velocity is w^2 = a'^2 + b'^2 + c'^2 + 2 a' c' sin b, and forces follow
    from d w^2/2 and I w^2/2."""
    a, b, c = (speed(q) if isinstance(q, AppliedUndef) else sp.S.Zero for q in values)
    sine, cosine = sp.sin(values[1]), sp.cos(values[1])
    damping, inertia = number(sum(row.damping[:1])), number(row.armature)
    forces = (
        -damping * (a + sine * c) - inertia * (a.diff(t) + sine * c.diff(t) + cosine * b * c),
        -damping * b - inertia * (b.diff(t) - cosine * a * c),
        -damping * (c + sine * a) - inertia * (c.diff(t) + sine * a.diff(t) + cosine * a * b),
    )
    pairs = zip(values, forces, strict=True)
    return {q: force for q, force in pairs if isinstance(q, AppliedUndef)}


def number(value: float) -> sp.Expr:
    """Whole numbers as such, so that products with 0 and 1 vanish."""
    return sp.Integer(int(value)) if value == int(value) else sp.Float(value)
