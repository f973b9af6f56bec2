"""`ks.hybrid`: models with contacts, modes, events and stimulated muscles."""

from kinesym.phases import Phase, Phases
from kinesym.runtime.event_log import Happening, State
from kinesym.runtime.hybrid_sensitivity import Sensitivities
from kinesym.runtime.signals import SignalGradient
from kinesym.runtime.stimulation import Calcium, train
from kinesym.symbolic.hybrid import Contact, Event, FESMuscle, GroundPoint, Hybrid, on_ground

__all__ = [
    "Calcium",
    "Contact",
    "Event",
    "FESMuscle",
    "GroundPoint",
    "Happening",
    "Hybrid",
    "Phase",
    "Phases",
    "Sensitivities",
    "SignalGradient",
    "State",
    "on_ground",
    "train",
]
