"""Problems whose nonlinear program is the same functions at every point, as exports need it."""

from __future__ import annotations

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.symbolic.names import name_of


def check_fixed(problem: Discretisation) -> None:
    """Raise `ValueError` for delayed inputs, whose rows no kernel computes, and for unknown delays
    of sensors, which move samples between intervals."""
    name = problem.model.name
    if problem.nlp.lags is not None:
        raise ValueError(
            f"the problem of {name} has delayed inputs, whose values between nodes no functions "
            "of single points give; write it without `delayed`, as by states of a lag"
        )
    if delays := problem.symbolic.delays:
        raise ValueError(
            f"the problem of {name} has unknown delays of sensors, "
            f"{', '.join(map(name_of, delays.values()))}, which move samples between intervals; "
            "give them as known"
        )
