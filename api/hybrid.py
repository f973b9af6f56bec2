"""`ks.hybrid`: models with contacts, modes, events and stimulated muscles."""

from kinesym.internal.phases import Phase, Phases
from kinesym.runtime.results.event_log import Happening, State
from kinesym.runtime.signals.signal import SignalGradient
from kinesym.runtime.signals.stimulation import Calcium, train
from kinesym.runtime.stepping.hybrid_sensitivity import Sensitivities
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
