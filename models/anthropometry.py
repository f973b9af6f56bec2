"""Segments of the body from mass and stature."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from kinesym.base.checks import finite

#: Mean stature and segment lengths [mm] of the people measured, de Leva 1996, table 4.
STATURE = {"F": 1735.0, "M": 1741.0}
LENGTHS = {
    "Head 2": {"F": 243.7, "M": 242.9},
    "Trunk 2": {"F": 614.8, "M": 603.3},
    "UpperArm": {"F": 275.1, "M": 281.7},
    "Forearm": {"F": 264.3, "M": 268.9},
    "Hand": {"F": 78.0, "M": 86.2},
    "Thigh": {"F": 368.5, "M": 422.2},
    "Shank 2": {"F": 432.3, "M": 434.0},
    "Foot": {"F": 228.3, "M": 258.1},
}


@dataclass(frozen=True)
class SegmentParameters:
    """Mass, length and inertia of a segment of one person.

    mass : [kg]. length : between the ends that its table names [m]. com : centre of mass from the
    upper or inner end [m]. inertia : principal moments about it [kg m^2]: about the axis forwards
    (sagittal), sideways (transverse) and along the segment.
    """

    mass: float
    length: float
    com: float
    inertia: tuple[float, float, float]


def segment(name: str, mass: float, stature: float, sex: str = "M") -> SegmentParameters:
    """A segment of a person of `mass` [kg] and `stature` [m], sex "F" or "M".

    name : a key of `LENGTHS`, as in the table; "Head 2" and "Trunk 2" meet at the seventh cervical
    vertebra, "Shank 2" ends at the lateral malleolus.

    Fractions of mass and length by de Leva (1996), J Biomech 29:1223, table 4; lengths scale with
    stature. Raises `ValueError` for an unknown name or sex and for what is not positive.
    """
    if not isinstance(name, str) or name not in LENGTHS:
        raise ValueError(f"there is no segment {name}; there are {', '.join(LENGTHS)}")
    if not isinstance(sex, str) or sex not in STATURE:
        raise ValueError(f"sex is 'F' or 'M' (the people of the table), got {sex!r}")
    mass, stature = person(mass, stature)
    row = table()[name, sex]
    length = LENGTHS[name][sex] / STATURE[sex] * stature
    own = row["mass_fraction"] * mass
    x, y, z = (
        own * (row[f"rg_{axis}_fraction"] * length) ** 2
        for axis in ("sagittal", "transverse", "longitudinal")
    )
    return SegmentParameters(own, length, row["com_fraction_of_length"] * length, (x, y, z))


def person(mass: float, stature: float) -> tuple[float, float]:
    """Mass [kg] and stature [m] of a person; raises `ValueError` for values that nobody has."""
    mass, stature = finite(mass, "mass"), finite(stature, "stature")
    if not (mass > 0.0 and stature > 0.0):
        raise ValueError(f"mass and stature must be positive, got {mass} kg and {stature} m")
    if stature > 3.0:
        raise ValueError(f"stature is in metres, got {stature}")
    return mass, stature


@lru_cache(maxsize=1)
def table() -> dict[tuple[str, str], dict[str, float]]:
    """The rows of the table by segment and sex."""
    text = files(__package__).joinpath("data/de_leva_1996.csv").read_text()
    return {
        (row["segment"], row["sex"]): {k: float(v) for k, v in row.items() if "fraction" in k}
        for row in csv.DictReader(text.splitlines())
    }
