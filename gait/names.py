"""Names of markers and segments: the side and the part of the body that they denote."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Parts of names that say right.
_RIGHT = (
    re.compile(r"right", re.IGNORECASE),
    re.compile(r"^[Rr](?=[^a-z]|[a-z]{2})"),
    re.compile(r"(?<=[^A-Za-z])[Rr](?=[^A-Za-z]|$)"),
    re.compile(r"(?<=[a-z])R$"),
)
_LEFT = {"right": "left", "r": "l"}
#: What stays of two separators when the side between them is taken out.
_SEPARATED = re.compile(r"([._ -])[._ -]+")
_HEEL = re.compile(r"heel|hee$|calc|(?<![a-z]{2})cal?\d?(?![a-z])", re.IGNORECASE)
_TOE = re.compile(r"toe|hallux|mt[1-5]|meta(?!c)|(?<![a-z])[fv]m(?![a-z])", re.IGNORECASE)
_FOOT = re.compile(r"(?<!sh)ank|malleol|^[rl]?mt|foot", re.IGNORECASE)
_TRUNK = re.compile(
    r"asi|psi|sacr|iliac|pelv|hip|acr|shou|sho$|neck|head|hd$|c7|clav|ster|strn|jugul|nose|torso",
    re.IGNORECASE,
)
_BONE = re.compile(r"fib|fem|tib|cond|hum|uln|rad|thi|sha", re.IGNORECASE)


def is_heel(name: str) -> bool:
    """Whether a marker is on the heel."""
    return bool(_HEEL.search(name))


def is_toe(name: str) -> bool:
    """Whether a marker is on the toes or the heads of the metatarsals."""
    return bool(_TOE.search(name))


def is_foot(name: str) -> bool:
    """Whether a marker is on the foot or the ankle."""
    return is_heel(name) or is_toe(name) or bool(_FOOT.search(name))


def is_trunk(name: str) -> bool:
    """Whether a marker is on the pelvis, the trunk or the head."""
    return bool(_TRUNK.search(name)) and not is_foot(name) and not _BONE.search(name)


def side_of(segment: str) -> str:
    """The side of a segment, such as "left" of `Lthigh`; "" if it has none, as `Lumbar`."""
    side = {"R": "right", "L": "left"}.get(segment[:1], "")
    return side if segment[1:2].islower() and segment.lower() != "lumbar" else ""


def segments_of_foot(foot: str, segments: Iterable[str]) -> list[str]:
    """The segments of a foot, "right" or "left", in their order."""
    side = foot.lower() or "none"
    return [n for n in segments if "foot" in n.lower() and side_of(n).startswith(side)]


def pairs_of_sides(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names that are the same but for right and left, (right, left), whatever their case."""
    return list(without_sides(names).values())


def without_sides(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Names without their side, such as `knee_moment` of `right_knee_moment` and
    `left_knee_moment`, and both: (right, left)."""
    known = {name.lower(): name for name in names}
    found: dict[str, tuple[str, str]] = {}
    for name in known.values():
        for pattern in _RIGHT:
            match = pattern.search(name)
            if match:
                before, behind = name[: match.start()], name[match.end() :]
                left = known.get(f"{before}{_LEFT[match[0].lower()]}{behind}".lower())
                if left is not None:
                    common = _SEPARATED.sub(r"\1", before + behind).strip("._ -")
                    found[common if common and common not in found else name] = name, left
                    break
    return found
