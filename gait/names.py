"""What names of markers say: sides, heels, toes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: Parts of names that say right, with those that say left in the same place.
_SIDES = (
    (re.compile(r"right", re.IGNORECASE), {"right": "left", "Right": "Left", "RIGHT": "LEFT"}),
    (re.compile(r"^[Rr](?=[^a-z]|[a-z]{2})"), {"R": "L", "r": "l"}),
    (re.compile(r"(?<=[^A-Za-z])[Rr](?=[^A-Za-z]|$)"), {"R": "L", "r": "l"}),
    (re.compile(r"(?<=[a-z])R$"), {"R": "L"}),
)
_HEEL = re.compile(r"heel|hee$|calc|(?<![a-z])ca(?![a-z])|rca|lca", re.IGNORECASE)
_TOE = re.compile(r"toe|mt\d|meta|hallux|(?<![a-z])[fv]m(?![a-z])", re.IGNORECASE)


def pairs_of_sides(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names that are the same but for right and left, (right, left)."""
    known = list(names)
    found = []
    for name in known:
        for pattern, other in _SIDES:
            match = pattern.search(name)
            if match and match[0] in other:
                counterpart = name[: match.start()] + other[match[0]] + name[match.end() :]
                if counterpart in known:
                    found.append((name, counterpart))
                    break
    return found


def feet_in(names: Sequence[str]) -> list[tuple[str, str]]:
    """Names of heel and toe of each foot, every toe with the heel that has most of its name."""
    heels = [name for name in names if _HEEL.search(name)]
    toes = [name for name in names if _TOE.search(name)]
    sides = {side: k for k, pair in enumerate(pairs_of_sides(names)) for side in pair}
    rights = {right for right, _ in pairs_of_sides(names)}
    return [
        (heel, toe)
        for heel in heels
        for toe in toes
        if (heel in sides) == (toe in sides) and (heel in rights) == (toe in rights)
    ]
