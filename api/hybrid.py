"""`ks.hybrid`: models with contacts, modes, events and stimulated muscles."""

from kinesym.internal.problems.phases import Phase, Phases
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.results.event_log import EventRecord, HybridState
from kinesym.runtime.signals.signal import SignalGradient
from kinesym.runtime.signals.stimulation import Calcium, train
from kinesym.symbolic.hybrid import Contact, Event, FESMuscle, GroundPoint, Hybrid, on_ground

__all__ = [
    "Calcium",
    "Contact",
    "Event",
    "EventRecord",
    "FESMuscle",
    "GroundPoint",
    "Hybrid",
    "HybridState",
    "Phase",
    "Phases",
    "Sensitivities",
    "SignalGradient",
    "on_ground",
    "train",
]
