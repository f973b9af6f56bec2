"""Arguments of `fit_markers` and `scale`, checked, as arrays in the axes of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import finite, mapping, not_negative, pair, shown
from kinesym.codegen.evaluate import model_jacobians, model_outputs
from kinesym.gait.axes import rotation
from kinesym.gait.checks import warn
from kinesym.gait.marker_squares import Squares
from kinesym.gait.markers import Markers
from kinesym.internal.problems.pipeline import realise
from kinesym.models.markers import marker_names, marker_places
from kinesym.runtime.arrays import AXES, Array, real_array
from kinesym.runtime.functions import Functions
from kinesym.runtime.losses import RobustLoss
from kinesym.symbolic.losses import Loss
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.links import Aim, turning
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.names import by_name, check_known, name_of

#: Markers by name: the body, and the place in its axes [m].
Placed: TypeAlias = Mapping[str, tuple[str, Sequence[float]]]

#: Names of markers so alike are one that was misspelt.
ALIKE = 0.8


def matched(
    tree: Tree, placed: Placed | None, records: Sequence[Markers]
) -> tuple[dict[str, tuple[str, Array]], list[str]]:
    """Markers on bodies that were measured in one of the records at least, and names of others.

    Raises `ValueError` for other objects than places on a body, and if no marker was measured;
    warns of names that look misspelt.
    """
    given = checked_places(tree, placed)
    measured = {name for record in records for name in record if np.isfinite(record[name]).any()}
    found = {name: place for name, place in given.items() if name in measured}
    absent = [name for name in given if name not in measured]
    extra = sorted(measured - set(given))
    if not found:
        missing = [n for n in given if any(n in record for record in records)]
        why = (
            f"{missing[0]!r} and all others are missing throughout"
            if missing
            else (f"there is {', '.join(map(repr, extra[:4]))} ...; rename them by Markers.renamed")
        )
        raise ValueError(f"none of the markers of {tree.name} is measured: {why}")
    for name in absent:
        if like := get_close_matches(name, extra, 1, ALIKE):
            warn(
                f"marker {name!r} of {tree.name} is not measured, but {like[0]!r} is, which no "
                "body has; if they are the same, rename one",
            )
    return found, [*absent, *extra]


def checked_places(tree: Tree, placed: Placed | None) -> dict[str, tuple[str, Array]]:
    """Bodies and places by the name of the marker; those of the file of the tree by default."""
    if placed is None:
        placed = getattr(tree, "placed", {})
        if not placed:
            raise ValueError(
                f"{tree.name} has no markers of its own; give placed, {{name: (body, (x, y, z))}}"
            )
    bodies, found = [body.name for body in tree.bodies], {}
    for name, place in mapping(placed, "placed", "{name: (body, (x, y, z))}").items():
        body, where = pair(place, f"marker {name!r} is placed by (body, (x, y, z))")
        check_known(body, bodies, f"marker {name!r}: {body!r} is no body of {tree.name}")
        at = real_array(where, f"the place of marker {name!r}")
        if at.shape != (3,) or not np.isfinite(at).all():
            raise ValueError(f"marker {name!r} is at three finite numbers, got {shown(where)}")
        found[str(name)] = (str(body), at)
    return found


@lru_cache(maxsize=8)
def compiled(tree: Tree, bodies: tuple[str, ...]) -> Functions:
    """Places of markers on these bodies and their derivatives, compiled."""
    return functions_of(marker_places(tree, bodies))


def functions_of(model: Model) -> Functions:
    """The compiled outputs of a model and their derivatives."""
    return Functions(realise(model_outputs(model)), lambda: realise(model_jacobians(model)))


def numbers_of(functions: Functions, places: Iterable[Array]) -> Array:
    """Parameter vector: values of the tree, and markers at these places."""
    values = dict(functions.values)
    for k, at in enumerate(places):
        values |= dict(zip(marker_names(k, "at_"), at.tolist(), strict=True))
    if missing := [name for name in functions.parameters if name not in values]:
        raise ValueError(
            f"parameter {missing[0]} of the tree has no value; give Tree(..., values=)"
        )
    return np.array([values[name] for name in functions.parameters])


def turn_of(tree: Tree) -> Array:
    """Rotation (3, 3) from world axes, z up, to those of the tree, whose gravity defines its
    vertical."""
    for axis, pull in zip(AXES, tree.gravity, strict=True):
        if axis != "z" and getattr(pull, "is_number", True) and abs(float(pull)) > 0.0:
            up = axis if float(pull) < 0.0 else f"-{axis}"
            return rotation(up, "x" if axis == "y" else "y").T
    return np.eye(3)


def measured_of(tree: Tree, names: Iterable[str], markers: Markers) -> Array:
    """Places (3 T, N) in axes of the tree, NaN where missing."""
    turn, nothing = turn_of(tree), np.full((3, len(markers)), np.nan)
    return np.concatenate([turn @ markers.positions.get(name, nothing) for name in names])


def weights_of(
    names: Sequence[str], measured: Array, given: Mapping[str, float] | None, known: Iterable[str]
) -> Array:
    """Weights (T, N), 0 where missing. known : names that may have one."""
    row = dict.fromkeys(names, 1.0)
    for name, weight in mapping({} if given is None else given, "weights").items():
        check_known(name, list(known), f"weights: there is no marker {name!r}")
        value = not_negative(weight, f"the weight of {name!r}")
        row |= {name: value} if name in row else {}
    if not any(row.values()):
        raise ValueError("all markers have weight 0; nothing is left to fit")
    present = np.isfinite(measured[::3])
    return np.asarray(present * np.array(list(row.values()))[:, None])


def squares_of(
    functions: Functions,
    found: Mapping[str, tuple[str, Array]],
    unused: Sequence[str],
    measured: Array,
    weights: Mapping[str, float] | None,
    limits: Mapping[Any, tuple[float, float]] | None,
    loss: str | None,
) -> Squares:
    """The sum of squares of markers (3 T, N) at places on bodies."""
    return Squares(
        functions,
        numbers_of(functions, [at for _, at in found.values()]),
        measured,
        weights_of(list(found), measured, weights, [*found, *unused]),
        *bounds_of(functions.states, limits),
        loss=None if loss is None else RobustLoss.of(Loss.named(loss)),
    )


def bounds_of(
    states: Sequence[str], limits: Mapping[Any, tuple[float, float]] | None
) -> tuple[Array, Array]:
    """Lower and upper bounds of the coordinates."""
    lower, upper = np.full(len(states), -np.inf), np.full(len(states), np.inf)
    for name, ends in by_name({} if limits is None else limits, None, "limits").items():
        check_known(name, list(states), f"limits: {name} is no coordinate")
        low, high = pair(ends, f"limits of {name} are (lowest, highest)")
        if not low < high:
            raise ValueError(f"limits of {name} are (lowest, highest), got {shown(ends)}")
        k = list(states).index(name)
        lower[k], upper[k] = float(low), float(high)
    return lower, upper


def targets_of(
    states: Sequence[str], count: int, given: Mapping[Any, tuple[Any, float]] | None
) -> tuple[Array, Array]:
    """Values that coordinates are drawn to (n, N), and weights (n,); empty if there are none."""
    if not given:
        return np.zeros((0, 0)), np.zeros(0)
    targets, pulls = np.zeros((len(states), count)), np.zeros(len(states))
    for name, entry in by_name(mapping(given, "targets"), None, "targets").items():
        check_known(name, list(states), f"targets: {name} is no coordinate")
        value, weight = pair(entry, f"the target of {name} is (value, weight)")
        row = real_array(value, f"the target of {name}")
        if row.shape not in ((), (count,)) or not np.isfinite(row).all():
            raise ValueError(
                f"the target of {name} is a finite number or one of each of {count} instants, got "
                f"{shown(value)}"
            )
        k = list(states).index(name)
        targets[k], pulls[k] = row, not_negative(weight, f"the weight of the target of {name}")
    return targets, pulls


def guess_of(tree: Tree, states: Sequence[str], given: Mapping[Any, float] | None) -> Array:
    """Coordinates to begin with (n,)."""
    values = {**dict.fromkeys(states, 0.0), **getattr(tree, "defaults", {})}
    for name, value in by_name({} if given is None else given, None, "guess").items():
        check_known(name, list(states), f"guess: {name} is no coordinate of {tree.name}")
        values[name] = finite(value, f"the guess of {name}")
    return np.array([values[name] for name in states])


def root_turns(tree: Tree, states: Sequence[str]) -> list[NDArray[np.intp]]:
    """Places among the states of the coordinates that turn the first body with coordinates, each
    with those that turn with it: of bodies whose attitude is given from the world."""
    turns = turning(tree.links)
    for body in tree.bodies:
        links = tree.joint_of(body.name)
        names = [name_of(q) for link in links for q in link.q]
        groups = [[name] for name in names if name in turns and name in states][:3]
        if groups and isinstance(links[-1].primitive, Aim):
            alike = [link for link in tree.links if link.primitive == links[-1].primitive]
            groups = [list(map(name_of, q)) for q in zip(*(link.q for link in alike), strict=True)]
        if groups:
            return [np.array([states.index(n) for n in g if n in states]) for g in groups]
    return []
