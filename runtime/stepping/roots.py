"""Whether algebraic states stay on one solution of their equations."""

from __future__ import annotations

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.stepping.simulation import Stepper, mapped

#: Entries of matrices at once.
_ENTRIES_AT_ONCE = 2_000_000


def change_of_root(
    stepper: Stepper, time: Array, states: Array, inputs: Array, parameters: Array
) -> int:
    """The first node (1 ... N - 1) behind which a motion of a model of index 1 is on another
    solution of the algebraic equations than at the start, or has passed a singularity of them; N
    if there is none that can be seen.

    The derivatives of the equations with respect to x' and algebraic states are regular along a
    motion, so that their determinant keeps its sign (implicit function theorem). time : (N,).
    states, inputs : (n, N), (m, N). parameters : (r,), without the numbers of tables.
    """
    rows, columns = stepper.pattern
    n, N = states.shape
    moves = np.isin(np.arange(n), columns[columns < n])
    if stepper.about.index != 1 or moves.all() or N < 2:
        return N
    rates = np.diff(states, axis=1) / np.diff(time)
    known = stepper.with_tables(parameters[None]).T
    points = [np.hstack([rates[:, :1], rates]), states, inputs, known, time[None]]
    if stepper.about.varying:
        points[3] = np.repeat(points[3], N, axis=1)
    entries = mapped(stepper.library, "slopes", points, len(rows))
    used = (columns < n) | ~moves[columns % n]
    signs = np.empty(N)
    for begin in range(0, N, max(1, _ENTRIES_AT_ONCE // n**2)):
        part = slice(begin, begin + max(1, _ENTRIES_AT_ONCE // n**2))
        matrix = np.zeros((len(signs[part]), n, n))
        for row, column, value in zip(rows[used], columns[used] % n, entries[used], strict=True):
            matrix[:, row, column] += value[part]
        signs[part] = np.linalg.slogdet(matrix)[0]
    other = np.flatnonzero(signs * signs[0] < 0.0)
    return int(other[0]) if len(other) else N


def said_of_roots(stepper: Stepper, time: Array, node: int) -> str:
    """The same in words."""
    _, columns = stepper.pattern
    names = stepper.about.states
    algebraic = [name for k, name in enumerate(names) if k not in columns]
    more = f" and {len(algebraic) - 5} more" if len(algebraic) > 5 else ""
    return (
        f"not to be trusted from t = {time[node - 1]:g} s on: before t = {time[node]:g} s the run "
        "with finer steps goes over to another solution of the equations of "
        f"{', '.join(algebraic[:5])}{more}, or through a singularity of them; method='radau-5' "
        "with a small atol may stay on the first"
    )
