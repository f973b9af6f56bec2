"""Dependent constraints and kinks of a problem, found from derivatives at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.scaling import inverse
from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.summary import listed

#: Regularisation of dependent constraints, relative to independent ones.
_SOFT = 1e-12
#: Norm of a combination of gradients that cancels, at most.
_NOTHING = 1e-8
#: Least weight of a condition that takes part in it, of the largest one.
_PART = 1e-3
#: Step of finite differences, in sizes of the variables.
_STEP = 1e-6
#: Relative jump of a slope that is a kink.
_KINK = 1e-3
#: Conditions that are named.
_NAMED = 4
#: Random displacement to a generic point, in sizes of the variables.
_NEAR = 0.1
#: Iterations of refinement.
_ITERATIONS = 3


def dependent(
    problem: Discretisation,
    z: Array,
    jacobian: csr_array | None,
    size: Array,
    conditions: NDArray[np.intp],
) -> Iterator[str]:
    """Conditions that equations and other conditions determine already, or contradict: combinations
    of constraints whose slopes cancel, near z, or at z alone.

    jacobian : of the constraints at z, (m, n); None where a solve ended, as slopes of what cannot
    be met always cancel there. size : of the variables, (n,). conditions : numbers of the
    constraints that are no equations of the model; what these have among themselves is the model's
    own.
    """
    noise = _NEAR * size * np.random.default_rng(0).standard_normal(len(z))
    near = problem.constraint_jacobian(np.clip(z + noise, *problem.variable_bounds))
    if names := _cancelling(problem, near, conditions):
        verb, others, which = ("are", " and each other", "one") if names[1:] else ("is", "", "it")
        yield (
            f"{some(names)} {verb} not independent of the equations{others}: leave {which} out, "
            "or leave an input, a parameter or a state at an end free"
        )
    elif jacobian is not None and (names := _cancelling(problem, jacobian, conditions)):
        yield (
            f"at this point what is free cannot change {some(names)} independently, as a car that "
            "stands cannot be steered: begin where it can"
        )


def some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - _NAMED
    return f"{listed(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _cancelling(
    problem: Discretisation, jacobian: csr_array, conditions: NDArray[np.intp]
) -> list[str]:
    """Conditions that take part in a combination of equations and conditions of which no slope is
    left; none if they are independent. By inverse iteration with A A' + softness."""
    (low, high), (below, above) = problem.variable_bounds, problem.constraint_bounds
    scaled = jacobian.multiply((low < high) * inverse(_largest(jacobian, 0)))
    a = scaled.multiply(((below == above) * inverse(_largest(scaled, 1)))[:, None]).tocoo()
    if not (len(conditions) and np.isfinite(a.data).all()):
        return []
    (m, n), nothing = jacobian.shape, np.zeros(0, dtype=np.int32)
    rows, columns = (each.astype(np.int32) for each in a.coords)
    kkt = Kkt(
        hessian=(nothing, nothing, np.zeros(0)),
        jacobian=(rows, columns, a.data),
        stiffness=np.ones(n),
        softness=np.where(below == above, _SOFT, np.inf),
        stages=problem.layout.stages(),
    )
    if kkt.singular:
        return []
    y = (below == above) * np.random.default_rng(0).standard_normal(m)
    for _ in range(_ITERATIONS):
        side = np.concatenate([np.zeros(n), y / np.linalg.norm(y)])
        y = kkt.factorised().factors.solve(side[:, None])[n:, 0]
    y /= np.linalg.norm(y)
    if np.linalg.norm(a.T @ y) > _NOTHING:
        return []
    taking = conditions[np.abs(y[conditions]) > _PART * np.abs(y).max()]
    return list(dict.fromkeys(condition_name(problem, int(i)) for i in taking))


def _largest(matrix: csr_array, axis: int) -> Array:
    return np.asarray(abs(matrix).max(axis=axis).toarray().ravel())


def kinks(problem: Discretisation, z: Array, jacobian: csr_array, size: Array) -> Iterator[str]:
    """Equations, conditions and objectives whose slope jumps at z, as those of an absolute value at
    zero: what they change there and back along a course falls like its length, not its square."""
    course = size * np.random.default_rng(0).uniform(0.5, 1.0, len(z))
    slope, value = abs(jacobian) @ course, abs(problem.cost(z))
    with np.errstate(all="ignore"):
        sharp = _jumps(problem.constraints, z, course, _KINK * slope)
        steep = _jumps(problem.cost, z, course, 1e-9 * value / _STEP)
    found: dict[str, int] = {}
    for i in np.flatnonzero(sharp[: problem.layout.delay_offset]):
        found.setdefault(condition_name(problem, int(i)), int(i))
    for name, first in found.items():
        trial, family, _, point = problem.layout.locate_constraint(first)
        yield f"{name} has a kink at {problem.layout.where(trial, family, point)}{_SMOOTH}"
    if steep:
        yield f"the objective has a kink here{_SMOOTH}"


_SMOOTH = (
    ": solvers need slopes that do not jump. Smooth it, abs(v) as sqrt(v**2 + 0.01**2), or begin "
    "elsewhere"
)


def _jumps(function: Callable[[Array], Any], z: Array, course: Array, least: Any) -> Any:
    """Whether slopes along a course jump at z, by at least so much."""
    there, near = (
        np.abs(function(z + h * course) + function(z - h * course) - 2.0 * function(z)) / h
        for h in (_STEP, 0.1 * _STEP)
    )
    return (there > least) & (near > 0.5 * there)  # half a square would be 0.05


def condition_name(problem: Discretisation, i: int) -> str:
    """A constraint by what it says, one for all stages."""
    trial, family, label, _ = problem.layout.locate_constraint(i)
    many = f" of trial {trial}" if len(problem.layout.nodes) > 1 else ""
    return f"{problem.layout.labels[family][label].name}{many}"
