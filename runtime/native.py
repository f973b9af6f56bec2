"""The compiled extensions, under a name that tools which only read Python can follow."""

from kinesym.runtime._ipopt import Ipopt, Problem, trial
from kinesym.runtime._native import (
    ABI,
    ADD,
    HALVES,
    HOLD,
    LATE,
    LINEAR,
    SET,
    SUM,
    Call,
    Chain,
    Library,
    Plan,
    Run,
)

__all__ = [
    "ABI",
    "ADD",
    "HALVES",
    "HOLD",
    "LATE",
    "LINEAR",
    "SET",
    "SUM",
    "Call",
    "Chain",
    "Ipopt",
    "Library",
    "Plan",
    "Problem",
    "Run",
    "trial",
]
