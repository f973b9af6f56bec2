"""A nonlinear program of ours in the words of another package: what it is asked, and how it is
told from another program."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

import kinesym as ks

Array = NDArray[np.float64]

NAN = float("nan")
#: Largest difference of values, of the largest of their entries, of those of z, and of 1.
SAME = 1e-11
#: Largest difference of derivatives, of the largest entry.
SAME_SLOPES = 1e-9
#: Callbacks of the nonlinear program; the Hessian is that of the Lagrangian.
CALLBACKS = ("cost", "gradient", "constraints", "jacobian", "hessian")
#: Those that are no derivatives.
VALUES = ("cost", "constraints")

#: Factor of the cost in the Hessians that are compared.
FACTOR = 0.7

#: Options of IPOPT for all peers: its story goes into a file, where kinesym reads it, too.
STORY = {
    "tol": 1e-8,
    "linear_solver": "mumps",
    "sb": "yes",
    "print_level": 0,
    "file_print_level": 5,
    "print_timing_statistics": "yes",
}
QAMD = {"mumps_pivot_order": 6}  # the ordering that treats dense columns, our parameters, apart


@dataclass(frozen=True)
class Solve:
    """One solve. Times in seconds; linear : in linear algebra, as IPOPT counts it. z : where it
    ended."""

    wall: float
    cpu: float
    linear: float
    iterations: int
    objective: float
    z: Array
    failure: str = ""
    note: str = ""


class Callback(NamedTuple):
    """run : evaluates, as the optimiser does. theirs : the value, an array or a sparse matrix.
    ours : what it has to be."""

    run: Callable[[], object]
    theirs: Callable[[], Any]
    ours: Callable[[], Any]


class Peer(NamedTuple):
    """A nonlinear program in the words of a package.

    build : seconds. solve : from a free vector of ours. callbacks : those that it has, at a free
    vector of ours, with multipliers of our constraints, by name.
    """

    build: float
    solve: Callable[[Array], Solve]
    callbacks: Callable[[Array, Array], Mapping[str, Callback]]


def points(problem: ks.Collocation, z: Array) -> Iterator[tuple[Array, Array]]:
    """The guess and a place beside it, within the bounds, with random multipliers: where programs
    are compared."""
    rng = np.random.default_rng(0)
    multipliers = rng.standard_normal(problem.n_constraints)
    yield z, multipliers
    beside = np.clip(z + 0.01 * rng.random(z.size), *problem.variable_bounds)
    if np.isfinite(problem.constraints(beside)).all():
        yield beside, multipliers


def ours_at(problem: ks.Collocation, z: Array, multipliers: Array) -> dict[str, Callable[[], Any]]:
    """Values of our callbacks, by name."""
    return {
        "cost": lambda: np.array([problem.cost(z)]),
        "gradient": lambda: problem.cost_gradient(z),
        "constraints": lambda: problem.constraints(z),
        "jacobian": lambda: problem.constraint_jacobian(z),
        "hessian": lambda: problem.lagrangian_hessian(z, multipliers, FACTOR),
    }


def differences(
    problem: ks.Collocation, peer: Peer, z: Array, names: Sequence[str] = CALLBACKS
) -> dict[str, float]:
    """Largest relative difference of callbacks of a peer from ours, of those that it has."""
    found: dict[str, float] = {}
    for at, multipliers in points(problem, z):
        callbacks, size = peer.callbacks(at, multipliers), max(1.0, float(np.max(np.abs(at))))
        for name in [name for name in names if name in callbacks]:
            scale = size if name in VALUES else 0.0
            error = difference(callbacks[name].theirs(), callbacks[name].ours(), scale)
            found[name] = max(found.get(name, 0.0), error)
    return found


def difference(theirs: Any, ours: Any, scale: float = 0.0) -> float:
    """Largest difference of entries, of the largest of `ours` or of `scale`; infinite between
    other shapes and between numbers that are not finite."""
    if np.shape(theirs) != np.shape(ours):
        return np.inf
    if 0 in np.shape(ours):
        return 0.0
    error, size = float(abs(theirs - ours).max()), max(float(abs(ours).max()), scale)
    if np.isnan(error):
        return np.inf
    return error / size if size else error


def check_same(
    problem: ks.Collocation, peer: Peer, z: Array, names: Sequence[str] = CALLBACKS
) -> dict[str, float]:
    """The differences of a peer. Raises `ValueError` for another nonlinear program than ours."""
    found = differences(problem, peer, z, names)
    for name, error in found.items():
        if not error <= (SAME if name in VALUES else SAME_SLOPES):
            raise ValueError(f"another program: its {name} differs from kinesym's by {error:.1e}")
    return found


def solved(
    problem: ks.Collocation, guess: Any, linear_solver: str = "auto", driver: str = "auto"
) -> Solve:
    """Our own solve."""
    clock, cpu = time.perf_counter(), time.process_time()
    found = problem.solve(
        guess, tolerance=STORY["tol"], linear_solver=linear_solver, driver=driver, progress=False
    )
    return Solve(
        time.perf_counter() - clock,
        time.process_time() - cpu,
        found.timings.get("linear solver", NAN),
        found.iterations,
        found.objective,
        found.free_vector,
        "" if found.success else found.message,
        found.linear_solver if "gave up" in found.linear_solver else "",
    )


def flat_equations(model: ks.Model) -> sp.ImmutableMatrix:
    """The equations with all intermediates substituted."""
    table: dict[sp.Basic, sp.Basic] = {}
    for symbol, expression in model.intermediates:
        table[symbol] = expression.xreplace(table)
    return sp.ImmutableMatrix([e.xreplace(table) for e in model.equations])


def read_story(path: Path) -> tuple[float, int]:
    """Seconds in linear algebra and number of iterations, from the last solve in IPOPT's story."""
    text = path.read_text(errors="replace")
    path.write_text("")  # IPOPT keeps the file open or opens it again; either way it appends
    seconds = re.findall(r"StdAugSystemSolverMultiSolve.*wall:\s*([\d.eE+-]+)", text)
    counts = re.findall(r"Number of Iterations\.*:\s*(\d+)", text)
    return sum(map(float, seconds)) if seconds else NAN, int(counts[-1]) if counts else -1
