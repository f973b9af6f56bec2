"""Ensembles of hybrid runs, on several threads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.hybrid_run import task_of, trajectory_of
from kinesym.runtime import checks
from kinesym.runtime.hybrid_ensemble import HybridEnsemble
from kinesym.runtime.hybrid_simulation import HybridTask
from kinesym.runtime.hybrid_trajectory import HybridTrajectory, State
from kinesym.runtime.hybrid_troubles import marched
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.progress import node_bar
from kinesym.symbolic.hybrid import Hybrid


def ensemble(
    hybrid: Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, Any],
    parameters: Mapping[Any, Any] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> HybridEnsemble:
    """M runs of `simulate`, each with its own sequence of events.

    initial, parameters : numbers, or (M,). inputs : as of `simulate`, or a list of M of these.
    threads : OMP_NUM_THREADS or the number of processors by default. options : those of `simulate`.

    Members that end early say so in their `message`; Ctrl-C ends all that are left. Raises
    `ValueError` as `simulate`, naming the member, and if sizes differ.
    """
    if isinstance(initial, State):
        raise ValueError(
            "members begin with values of states by name; a state to go on from is for simulate"
        )
    workers = checks.threads(threads)
    groups = [
        dict(checks.mapping({} if given is None and what != "initial" else given, what))
        for given, what in ((initial, "initial"), (parameters, "parameters"), (inputs, "inputs"))
    ]
    members = _members(*groups)
    tasks: list[HybridTask] = []
    for k in range(members):
        start, values = (
            {key: value[k] if _is_many(value) else value for key, value in group.items()}
            for group in groups[:2]
        )
        courses = {
            key: value[k] if isinstance(value, list) else value for key, value in groups[2].items()
        }
        try:
            task = task_of(hybrid, time, start, values, courses, **options)
        except ValueError as error:
            raise ValueError(f"member {k}: {error}") from error
        tasks.append(replace(task, progress=False))

    stop = threading.Event()

    def run(k: int) -> HybridTrajectory:
        try:
            return trajectory_of(hybrid, tasks[k], marched(tasks[k], stop))
        except ValueError as error:
            raise ValueError(f"member {k}: {error}") from error

    with (
        interruptible(stop),
        ThreadPoolExecutor(workers) as pool,
        node_bar(members, progress) as advance,
    ):
        found = []
        for trajectory in pool.map(run, range(members)):
            found.append(trajectory)
            advance(1)
    if stop.is_set():
        ended = sum(bool(one.message) for one in found)
        warnings.warn(
            f"{found[0].run.model}: interrupted, {ended} of {members} members ended early",
            stacklevel=2,
        )
    return HybridEnsemble(found, np.asarray(tasks[0].time))


def _is_many(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _members(
    initial: Mapping[Any, Any], parameters: Mapping[Any, Any], inputs: Mapping[Any, Any]
) -> int:
    sizes = {
        str(key): len(value)
        for group in (initial, parameters)
        for key, value in group.items()
        if _is_many(value)
    }
    sizes |= {str(key): len(value) for key, value in inputs.items() if isinstance(value, list)}
    if not sizes:
        raise ValueError(
            "nothing differs between members; give initial values or parameters (M,), "
            "or lists of M inputs"
        )
    for group in (initial, parameters):
        for key, value in group.items():
            if np.ndim(value) > 1 or np.size(value) == 0:
                raise ValueError(f"{key} has shape {np.shape(value)}, expected a number or (M,)")
    if len(set(sizes.values())) > 1:
        raise ValueError(
            "members differ in number: "
            + ", ".join(f"{key} has {size}" for key, size in sizes.items())
        )
    return next(iter(sizes.values()))
