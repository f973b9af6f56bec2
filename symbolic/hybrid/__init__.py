"""Hybrid models: events, contacts, muscles that switch, points of trees on the ground."""

from kinesym.symbolic.hybrid.contacts import Contact, flags_of, holds_of
from kinesym.symbolic.hybrid.events import Event, line_in_time
from kinesym.symbolic.hybrid.ground import GroundPoint, on_ground
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.hybrid.muscle import FESMuscle

__all__ = [
    "Contact",
    "Event",
    "FESMuscle",
    "GroundPoint",
    "Hybrid",
    "flags_of",
    "holds_of",
    "line_in_time",
    "on_ground",
]
