"""Description of a solved problem, in words, for the page that a report is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import written

#: Largest number of equations that are written out.
_EQUATIONS = 12
#: Largest number of operations of an equation that is written out.
_OPERATIONS = 40


def setting_of(
    model: Model, trials: Sequence[Experiment], owned: Owned, bounds: tuple[Array, Array]
) -> dict[str, Any]:
    """Equations of the model; the bounds of parameters, by name; the parameters of values that have
    an owner; subjects of the trials, if they have labels; method and steps are where they were
    chosen."""
    pairs = zip(owned.names, *bounds, strict=True)
    sides = {n: [float(a), float(b)] for n, a, b in pairs if np.isfinite([a, b]).any()}
    return {
        "equations": list(_equations(model)),
        "bounds": {name: f"{low:g} ... {high:g}" for name, (low, high) in sides.items()},
        "owned": {n: p for n, p in zip(owned.names, owned.members, strict=True) if n != p},
        "subjects": [", ".join(map(str, trial.labels.values())) for trial in trials],
    }


@lru_cache(maxsize=32)
def _equations(model: Model) -> Sequence[str]:
    """The first equations as text, and how many more there are; kept, as SymPy writes slowly."""
    equations = [f"0 = {written(e, _OPERATIONS)}" for e in model.equations[:_EQUATIONS]]
    more = len(model.equations) - len(equations)
    return [*equations, *([f"... and {more} more"] if more else [])]
