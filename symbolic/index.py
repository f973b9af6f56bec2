"""The index of a differential-algebraic model.

The structure comes first. It is confirmed where the Jacobian of what is highest has full rank, at
random points (Pryce 2001, BIT 41, 364-394, theorem 4.2); where it has not, or where fewer
derivatives may do (Reissig, Martinson and Barton 2000, SIAM J. Sci. Comput. 21, 1987-1990), the
array of the equations and their derivatives decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from kinesym.symbolic.combination import combined
from kinesym.symbolic.declared import Declared
from kinesym.symbolic.differentiated import Constraint, differentiated, time_derivation
from kinesym.symbolic.names import t
from kinesym.symbolic.structure import (
    equation_numbers,
    random_jacobian,
    rank,
    signature,
    structure_of,
    unmatched,
)

#: Number of derivatives that are tried for a model whose structure does not tell the index.
_MOST = 5

#: Rows of the array of derivatives that are formed, about, at most.
_LARGEST = 500

#: Number of hidden constraints that are shown.
_SHOWN = 4
#: Number of states that follow from others that are shown.
_SHOWN_STATES = 12


@dataclass(frozen=True)
class Index:
    """Differentiation index of a model as a differential-algebraic system, and its consequences.

    value : the differentiation index: 0 where the equations determine x', 1 where they determine x'
        and the algebraic states, more where the derivatives of some are needed to do so. None where
        no number of derivatives was found that does.
    algebraic : states that follow from the others at each time.
    constraints : hidden constraints: equations that must be differentiated, each with the order of
        the highest derivative, the longest first.
    dependent : states whose initial values follow from those of the others.
    freedom : number of initial values that can be chosen.
    reason : where value is None, why; where only combinations of equations count, which.

    It is that of almost all points: special values of parameters or states may have another.
    """

    value: int | None
    algebraic: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    dependent: tuple[str, ...] = ()
    freedom: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        rows = [f"index {'not found' if self.value is None else self.value}"]
        rows += [f"{self.freedom} initial values are free"] if self.freedom is not None else []
        if self.dependent:
            s, more = "s" * (len(self.dependent) == 1), len(self.dependent) - _SHOWN_STATES
            words = [*self.dependent[:_SHOWN_STATES], *[f"{more} more"] * (more > 0)]
            rows.append(f"{', '.join(words)} follow{s} from the others")
        if self.constraints:
            more = len(self.constraints) - _SHOWN
            words = [*map(str, self.constraints[:_SHOWN]), *[f"{more} more"] * (more > 0)]
            rows.append(f"hidden: {'; '.join(words)}")
        return "; ".join([*rows, self.reason] if self.reason else rows)


def index_of(model: Declared) -> Index:
    """The index of a model; see `Index`."""
    free = len(model.states)
    if model.explicit is not None:
        return Index(0, freedom=free)
    undetermined = unmatched(model, signature(model))
    if undetermined:
        return Index(None, reason=undetermined)
    structure = structure_of(model)
    if structure.regular:
        return _regular(model, "") if structure.index else Index(0, freedom=free)
    assert structure.jacobian is not None  # some of its entries cancel
    left = np.linalg.svd(structure.jacobian)[0][:, rank(structure.jacobian) :]
    lost = [i for i in range(free) if np.abs(left[i]).max() > 1e-8]
    found, s = equation_numbers(lost), "s" * (len(lost) == 1)
    reason, better = f"{found} determine{s} something only in combination", combined(model)
    if better is not None:
        return _regular(better, reason)
    value = _least(model, _MOST)
    if value is None:
        reason = f"{found} depend on one another, or contradict each other"
    return Index(value, reason=reason)


def _regular(model: Declared, reason: str) -> Index:
    """Index of a model of regular structure, with algebraic states, constraints and free initial
    values."""
    structure, form = structure_of(model), differentiated(model)
    value = structure.index
    if value > 1 and not structure.sharp:
        value = _least(model, value - 1) or value
    pairs = zip(model.state_names, structure.states, strict=True)
    algebraic = tuple(name for name, order in pairs if order == 0)
    orders = {row.equation: structure.equations[row.equation] for row in form.constraints}
    hidden = [Constraint(i, k, model.equations[i]) for i, k in orders.items() if k and value > 1]
    return Index(
        value,
        algebraic,
        tuple(sorted(hidden, key=lambda row: (-row.order, row.equation))),
        tuple(name for name in model.state_names if name in (*algebraic, *form.dependent)),
        structure.freedom,
        reason,
    )


def _least(model: Declared, most: int) -> int | None:
    """The least number of derivatives, at most so many, that determine x'; None if none does.

    The equations and their derivatives determine x' if the Jacobian by x' has full column rank, and
    none of its range is that of the higher derivatives (Brenan, Campbell and Petzold 1996,
    Numerical Solution of Initial-Value Problems in DAEs, section 2.2).
    """
    n, d_dt = len(model.states), time_derivation(model, {})
    rows = list(model.equations)
    latest = rows
    for k in range(1, min(most, max(_LARGEST // n, 1)) + 1):
        latest = [d_dt(e) for e in latest]
        rows += latest
        variables = [sp.Derivative(x, (t, j)) for j in range(1, k + 2) for x in model.states]
        array = random_jacobian(rows, d_dt.program, variables)
        if array is not None and rank(array) == n + rank(array[:, n:]):
            return k
    return None
