"""Beyond inverse dynamics: joint torques of measured walking by dynamically consistent tracking."""

import csv
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.gait import Body
from kinesym.models.planar_body import PlanarSegment, planar_body
from kinesym.models.whole_body import Segment, segments_of_body, segments_with
from kinesym.multibody import Load
from kinesym.runtime.gait.consistency import fit, landmark_targets, measured_segments, start_of
from kinesym.runtime.gait.course import Spline
from kinesym.runtime.gait.events import contacts_from_wrench
from kinesym.runtime.gait.natural import NaturalBody
from kinesym.runtime.gait.readers import read_csv, read_forces, read_places, read_table
from kinesym.runtime.gait.relations import (
    Axes,
    Carried,
    Like,
    Midpoint,
    Relations,
    Shifted,
    Trial,
    landmarks,
)
from kinesym.runtime.gait.sharing import share
from kinesym.runtime.gait.ssa import SSA

DATA = Path(__file__).parent / "data"
MASS, STATURE = 72.6, 1.8034  # of the subject [kg, m]
FEET = ("right", "left")
JOINTS = {"hip": "hip_flexion", "knee": "knee_angle", "ankle": "ankle_angle"}

# -- the subject and the trial --------------------------------------------------------------------


def leg(side):
    """Relations of one leg, "R" or "L": places and axes."""
    thigh, shank = ([f"{side}.{part}.{k}" for k in ("Upper", "Front", "Rear")]
                    for part in ("Thigh", "Shank"))  # fmt: skip
    foot = [f"{side}.Heel", f"{side}.Midfoot.Sup", f"{side}.Midfoot.Lat"]
    toes = [f"{side}.Toe.{k}" for k in ("Lat", "Med", "Tip")]
    knee, ankle = ((f"{side}.{joint}.Lat", f"{side}.{joint}.Med") for joint in ("Knee", "Ankle"))
    if side == "L":
        knee, ankle = knee[::-1], ankle[::-1]
    ball = Midpoint(toes[:2])
    level = Axes("z", z="up", x=(f"{side}.Heel", ball))
    outwards = [tuple(Carried(end, cluster) for end in ends)
                for ends, cluster in ((knee, thigh), (ankle, shank))]  # fmt: skip
    centre = {f"{side}K": Midpoint([Carried(Midpoint(knee), thigh), Carried(Midpoint(knee), shank)]),
              f"{side}A": Midpoint([Carried(Midpoint(ankle), shank), Carried(Midpoint(ankle), foot)]),
              f"{side}M": ball}  # fmt: skip
    return centre, {
        f"{side}thigh": Axes("z", z=(f"{side}K", f"{side}H"), y=outwards[0]),
        f"{side}shank": Axes("z", z=(f"{side}A", f"{side}K"), y=outwards[1]),
        f"{side}hindfoot": Carried(level, foot),
        f"{side}forefoot": Carried(level, toes),
    }
