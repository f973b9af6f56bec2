"""`ks.hybrid`: models with contacts, modes, events and stimulated muscles."""

from kinesym.hybrid_ensemble import ensemble
from kinesym.hybrid_phases import Phase, joined, phases
from kinesym.hybrid_run import sensitivities, simulate
from kinesym.hybrid_shooting import Shooting
from kinesym.runtime.hybrid_ensemble import HybridEnsemble
from kinesym.runtime.hybrid_sensitivity import Sensitivities
from kinesym.runtime.hybrid_trajectory import Happening, HybridTrajectory, State
from kinesym.runtime.piecewise import Piecewise, PiecewiseGradient
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
    "HybridEnsemble",
    "HybridTrajectory",
    "Phase",
    "Piecewise",
    "PiecewiseGradient",
    "Sensitivities",
    "Shooting",
    "State",
    "ensemble",
    "joined",
    "on_ground",
    "phases",
    "sensitivities",
    "simulate",
    "train",
]
