"""Muscles of a file with polynomials of the coordinates as lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinesym.base.checks import Named, listed
from kinesym.base.quiet import warn
from kinesym.models.files.paths import TOLERANCE, FittedMuscle
from kinesym.models.files.trees import FileTree
from kinesym.symbolic.names import check_known, names_of


def fit_muscles(
    tree: FileTree,
    names: Iterable[str] | None = None,
    tolerance: float = TOLERANCE,
    degree: int | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    **changes: Any,
) -> dict[str, FittedMuscle]:
    """Muscles of a file with polynomials of the coordinates as lengths, for `with_muscles`.

    Parameters
    ----------
    names : of muscles; all by default.
    tolerance : of lengths [m] and moment arms [m], root mean squares over the ranges.
    degree : of the polynomials, at most; by default 12 for paths of one or two coordinates, 8 for
        three, 6 for more.
    ranges : of coordinates [rad, m] in place of those of the file, as of `ks.osim.ranges_of` a
        motion: narrower ones take fewer terms and are met more closely, as paths may jump or bend
        where points or surfaces come and go, or where they pass a joint.
    changes : of all muscles, such as `tendon="compliant"`; see `ks.multibody.Muscle`.

    Returns
    -------
    Muscles by name; `fit` of each states its errors, in other poses than it was fitted to.

    Muscles of other kinds, as Millard's or Thelen's, get the curves of De Groote et al. with the
    numbers of the file: forces, lengths, angles, velocities, times and strains. Warns of muscles
    beyond twice the tolerance. Raises `ValueError` for unknown names and coordinates without range.
    """
    paths = tree.muscles
    chosen = list(paths) if names is None else names_of(listed(names, "names"), "names")
    for name in chosen:
        check_known(name, paths, f"{name} is no muscle of {tree.name}")
    for name in ranges or {}:
        check_known(name, tree.coordinates, f"ranges: {name} is no coordinate of {tree.name}")
    fits = {name: paths[name].fit(tolerance, degree, ranges, **changes) for name in chosen}
    found = Named("muscle", fits)
    poor = {
        name: worst
        for name, muscle in found.items()
        if (worst := muscle.fit.worst) > 2.0 * tolerance
    }
    if poor:
        first = sorted(poor, key=lambda name: -poor[name])[:3]
        shown = ", ".join(f"{name} by {1e3 * poor[name]:.2g} mm" for name in first)
        warn(
            f"{tree.name}: polynomials miss {1e3 * tolerance:g} mm over the ranges of coordinates "
            f"for {len(poor)} of {len(found)} muscles, most {shown}; give the ranges of your "
            "motion, ranges=ks.osim.ranges_of(tree, motion), or narrower ones",
            stacklevel=2,
        )
    return found
