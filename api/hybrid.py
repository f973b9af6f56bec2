"""`ks.hybrid`: models with contacts, modes, events and stimulated muscles."""

from kinesym.hybrid_ensemble import ensemble
from kinesym.hybrid_run import sensitivities, simulate
from kinesym.hybrid_shooting import Shooting
from kinesym.phases import Phase, Phases
from kinesym.runtime.hybrid_ensemble import HybridEnsemble
from kinesym.runtime.hybrid_sensitivity import Sensitivities
from kinesym.runtime.hybrid_trajectory import Happening, HybridTrajectory, State
from kinesym.runtime.piecewise import Piecewise, PiecewiseGradient
from kinesym.runtime.stimulation import Calcium, train
from kinesym.symbolic.ground import GroundPoint, on_ground
from kinesym.symbolic.hybrid import Contact, Event, Hybrid
from kinesym.symbolic.muscle import FESMuscle

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
    "Phases",
    "Piecewise",
    "PiecewiseGradient",
    "Sensitivities",
    "Shooting",
    "State",
    "ensemble",
    "on_ground",
    "sensitivities",
    "simulate",
    "train",
]
