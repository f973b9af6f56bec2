"""Inputs that collocation has found, as signals."""

from __future__ import annotations

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.grid import TrialViews
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.schemes import CollocationScheme


def found_inputs(
    nlp: NLP, scheme: CollocationScheme, z: Array, trial: int, time: Array
) -> dict[str, Signal]:
    """The unknown inputs of a trial on its grid (N,) [s], exactly as the scheme sees them: held,
    linear, or on each interval the polynomial through its values at the stages."""
    views, found = TrialViews(nlp, z, trial), {}
    powers = np.arange(scheme.stages)
    inverse = np.linalg.inv(np.array(scheme.nodes)[:, None] ** powers)
    for name in nlp.layout.inputs:
        if views.is_linear(name):
            found[name] = Signal(time, views.at_nodes(name))
            continue
        terms = inverse @ np.array(views.values(name))
        coefficients = terms / np.diff(time) ** powers[:, None]
        found[name] = Signal.polynomials(time, coefficients)
    return found
