"""Least standard errors: those of an efficient estimator (Cramer and Rao), from the truth.

Sensitivities are central differences of the reference simulation, by all that is unknown:
parameters, initial values, values of unknown inputs, and of measured ones, which are measurements
too. A standard deviation that is unknown does not change them. There is none under random inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .reference import Course, instants, samples
from .suite import (
    all_problems,
    initial_of,
    is_random,
    of_trial,
    simulator,
    true_courses,
)

#: Smallest eigenvalue of the scaled information, to the largest, of what can be known.
SMALLEST = 1e-11


def least_standard_errors(name: str) -> dict[str, float]:
    """Of the parameters by name; infinite for what cannot be known, none under random inputs."""
    problem = all_problems()[name]
    statement, truth = problem
    if is_random(statement):
        return {}
    names, count = statement["report"], len(statement["report"])
    shared = np.array([truth["parameters"][key] for key in names])
    information = np.zeros((count, count))
    for k in range(len(statement["trials"])):
        starts = list(truth["initial"][k])
        courses = true_courses(problem, k, 0)
        free = [key for key, row in statement["inputs"].items() if row["kind"] != "exact"]
        values = [shared, np.array([truth["initial"][k][s] for s in starts])]
        values += [courses[key].values for key in free]
        sizes = np.cumsum([0, *map(len, values)])
        rows = jacobian(
            shown(name, k, starts, free, courses),
            np.concatenate(values),
            scales(name, values, sizes),
        )
        weight = weights(name, k)
        rows = rows[weight > 0.0] * weight[weight > 0.0][:, None]
        for j, key in enumerate(free):
            if statement["inputs"][key]["kind"] == "measured":
                own = np.zeros((len(courses[key].values), rows.shape[1]))
                at = np.arange(sizes[2 + j], sizes[3 + j])
                own[np.arange(len(at)), at] = 1.0 / statement["inputs"][key]["std"]
                rows = np.vstack([rows, own])
        information += reduced(rows, count)
    size = np.sqrt(np.diag(information))
    size[size == 0.0] = 1e-30  # of what does not act
    scaled = information / np.outer(size, size)
    found, vectors = np.linalg.eigh(scaled)
    lost = found < SMALLEST * found[-1]
    variance = (vectors[:, ~lost] ** 2 / found[~lost]).sum(axis=1) / size**2
    open_ = (np.abs(vectors[:, lost]) > 1e-3).any(axis=1) | (size == 1e-30)
    return {
        key: float("inf") if far else float(f"{np.sqrt(v):.4g}")
        for key, v, far in zip(names, variance, open_, strict=True)
    }


def shown(
    name: str, k: int, starts: list[str], free: list[str], courses: dict[str, Course]
) -> Callable[[np.ndarray], np.ndarray]:
    """All samples of trial k, one after the other, as a function of all that is unknown."""
    statement = all_problems()[name].statement
    names = statement["report"]

    def function(values: np.ndarray) -> np.ndarray:
        here = of_trial(statement, k, dict(zip(names, values, strict=False)))
        rest = values[len(names) :]
        begun, rest = dict(zip(starts, rest, strict=False)), rest[len(starts) :]
        own = dict(courses)
        for key in free:
            length = len(courses[key].times)
            own[key], rest = courses[key]._replace(values=rest[:length]), rest[length:]
        motion = simulator(name)(here, initial_of(statement, k, here, begun), own)
        return np.concatenate(list(samples(statement, motion, here, own).values()))

    return function


def scales(name: str, values: list[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Steps of differences: 1e-4 of a parameter, of the largest value of an input."""
    found = np.concatenate(
        [np.full(len(v), 1e-4 * np.abs(v).max(initial=0.0)) for v in values[2:]] or [np.zeros(0)]
    )
    own = 1e-4 * np.abs(np.concatenate(values[:2]))
    return np.concatenate([np.where(own > 0.0, own, 1e-5), found])


def jacobian(
    function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    rows = []
    for k, step in enumerate(steps):
        move = step * np.eye(1, len(at), k)[0]
        rows.append((function(at + move) - function(at - move)) / (2.0 * step))
    return np.stack(rows, axis=1)


def weights(name: str, k: int) -> np.ndarray:
    """One over the standard deviation of each sample, 0 in gaps."""
    statement, truth = all_problems()[name]
    found = []
    for key, row in statement["measured"].items():
        times = instants(statement["clocks"][row["clock"]])
        weight = np.full(len(times), 1.0 / truth["std"][key])
        for low, high in row.get("gaps", []):
            weight[(times >= low) & (times < high)] = 0.0
        found.append(weight)
    return np.concatenate(found)


def reduced(rows: np.ndarray, count: int) -> np.ndarray:
    """Information on the first unknowns, with the others of the trial unknown too."""
    own, others = rows[:, :count], rows[:, count:]
    if others.shape[1]:
        others = others / (np.linalg.norm(others, axis=0) + 1e-300)
        u, s, _ = np.linalg.svd(others, full_matrices=False)
        u = u[:, s > 1e-9 * s[0]]
        own = own - u @ (u.T @ own)
    return own.T @ own
