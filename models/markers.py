"""Places of markers on the bodies of a tree."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.scaling import Factors, times
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import standing
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES, Vector
from kinesym.symbolic.names import name_of, t


def marker_names(number: int, what: str = "") -> list[str]:
    """`marker_0_x`, ... of a marker in world axes, with "at_" in those of its body."""
    return [f"marker_{number}_{what}{axis}" for axis in AXES]


def marker_places(tree: Tree, bodies: Sequence[str], factors: Factors | None = None) -> Model:
    """A model of places: coordinates as states, and as outputs a marker on each of these bodies,
    `marker_0_x`, ... in world axes [m]; `marker_0_at_x`, ... are its place in the axes of the body,
    before this is scaled by `factors`.

    Raises `ValueError` for an unknown body, closed loops, and places that depend on a moving base.
    """
    if tree.closures:
        raise ValueError(
            f"{tree.name} has closed loops, which markers are not fitted to; fit the open tree, "
            "of a file by read(path, without=[...])"
        )
    outputs: dict[str, sp.Expr] = {}
    for k, body in enumerate(bodies):
        at = Vector(sp.symbols(marker_names(k, "at_")))
        place = tree.place(body, at if factors is None else times(factors[body], at))
        outputs |= dict(zip(marker_names(k), place, strict=True))
    constant, still = standing(tree)
    outputs = {name: e.xreplace(still) for name, e in outputs.items()}
    program = [(s, e.xreplace(still)) for s, e in tree.poses.steps.needed(outputs.values())]
    used = [*outputs.values(), *(e for _, e in program)]
    states = [q for q in tree.coordinates.values() if q not in constant]
    if given := parts_of(AppliedUndef, *used) - set(states):
        raise ValueError(
            f"places of {tree.name} depend on {min(map(name_of, given))}, which is no coordinate; "
            "markers are fitted to trees on a base that stands still"
        )
    symbols = parts_of(sp.Symbol, *used) - {t, *(s for s, _ in program)}
    names = sorted(map(name_of, symbols))
    values = {**{name_of(q): 0.0 for q in constant.values()}, **tree.values}
    return Model(
        f"{tree.name}_markers",
        states,
        (),
        [sp.Symbol(name) for name in names],
        [q.diff(t) for q in states],
        outputs,
        program,
        values={name: value for name, value in values.items() if name in names},
    )
