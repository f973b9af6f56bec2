"""Hybrid models: events, contacts, muscles that switch, points of trees on the ground."""

from kinesym.symbolic.hybrid.contacts import (
    LAWS,
    MOST_CONTACTS,
    Contact,
    flags_of,
    forces_of,
    rows_of,
    with_friction,
)
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.ground import GroundPoint, on_ground
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.hybrid.muscle import FESMuscle

__all__ = [
    "LAWS",
    "MOST_CONTACTS",
    "Contact",
    "Event",
    "FESMuscle",
    "GroundPoint",
    "Hybrid",
    "flags_of",
    "forces_of",
    "on_ground",
    "rows_of",
    "with_friction",
]
