"""Checks that a motion stays on one solution of its algebraic equations and constraints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.simulation.stepper import Stepper, mapped

#: Entries of matrices that are evaluated at once, which bounds memory (16 MB).
_ENTRIES_AT_ONCE = 2_000_000
#: Step of the finite differences of constraints; signs alone matter, so that accuracy does not.
_STEP = 1e-6
#: Parts of the path between two nodes, so short that no mechanism turns by a right angle in one.
_PARTS = 64


def change_of_root(
    stepper: Stepper, time: Array, states: Array, inputs: Array, parameters: Array
) -> int:
    """First node (1 ... N - 1) at which a motion of a model of index 1 has left its branch: it is
    on another solution of the algebraic equations than at the start, or has passed a singularity of
    them; N if there is none that can be seen.

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
    rates = np.hstack([rates[:, :1], rates])
    points = _points(stepper, rates, states, inputs, parameters, time)
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


def dependent_constraints(
    stepper: Stepper,
    time: Array,
    states: Array,
    inputs: Array,
    parameters: Array,
    constraints: Sequence[int],
) -> int:
    """First node (1 ... N - 1) before which a motion passes a singular configuration, in which its
    constraints depend on each other and no longer determine its continuation; N if there is none.

    With J the derivatives of the constraints by the states, det(J_k J_k+1') is the scalar product
    of the minors of J at two nodes (Cauchy and Binet): where the minors go through zero between
    them, it is negative. It is also negative where a mechanism turns by more than a right angle
    between nodes, but then not between small parts of the path. constraints : their rows among the
    outputs. Other arguments as of `change_of_root`.
    """
    N = len(time)
    if not constraints or N < 2:
        return N
    share = np.linspace(0.0, 1.0, _PARTS + 1)
    turns = _turns(stepper, constraints, time, states, inputs, parameters)
    for k in np.flatnonzero(turns < 0.0).tolist():
        t, x, u = (
            row[..., [k]] + share * (row[..., [k + 1]] - row[..., [k]])
            for row in (time, states, inputs)
        )
        if (_turns(stepper, constraints, t, x, u, parameters) < 0.0).any():
            return int(k) + 1
    return N


def _turns(
    stepper: Stepper,
    constraints: Sequence[int],
    time: Array,
    states: Array,
    inputs: Array,
    parameters: Array,
) -> Array:
    """Determinants det(J_k J_k+1') of neighbouring nodes, (N - 1,), the rows of J scaled to 1."""
    n, N = states.shape
    J = np.empty((N, len(constraints), n))
    rates, count = np.zeros((n, N)), len(stepper.about.outputs) + len(stepper.about.limits)

    def gaps(x: Array) -> Array:
        points = _points(stepper, rates, x, inputs, parameters, time)
        return mapped(stepper.library, "outputs", points, count)[constraints]

    here = gaps(states)
    for j, step in enumerate(_STEP * np.maximum(1.0, np.abs(states).max(axis=1))):
        moved = np.array(states)
        moved[j] += step
        J[:, :, j] = (gaps(moved) - here).T / step
    size = np.linalg.norm(J, axis=2, keepdims=True)
    J /= np.where(size > 0.0, size, 1.0)
    return np.asarray(np.linalg.det(J[:-1] @ J[1:].swapaxes(1, 2)))


def _points(
    stepper: Stepper, rates: Array, states: Array, inputs: Array, parameters: Array, time: Array
) -> list[Array]:
    """Arguments of kernels at all nodes."""
    p = stepper.with_tables(parameters[None]).T
    if stepper.about.varying:
        p = np.repeat(p, len(time), axis=1)
    return [rates, states, inputs, p, time[None], *stepper.apart]


def said_of_roots(stepper: Stepper, time: Array, node: int) -> str:
    """Message of `change_of_root` for a node."""
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
