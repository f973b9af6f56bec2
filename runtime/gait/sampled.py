"""Simulation with a controller that acts at the nodes and holds what it does until the next one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.simulation import Outcome, Stepper, Task, bind

Array = NDArray[np.float64]


def simulate_sampled(
    stepper: Stepper, task: Task, control: Callable[[int, Array], Array]
) -> Outcome:
    """March one member node by node; Ctrl-C ends it with what has been computed.

    task : its inputs are parabolas on intervals, (1, 3 N - 2), and are not changed. control : takes
    the number of a node and the states there (n,) to what is added to all inputs until the next
    node (m,).
    """
    given = [samples.copy() for samples, _ in task.inputs]
    bound = Task(
        task.time,
        task.initial,
        task.parameters,
        [(row, kind) for row, (_, kind) in zip(given, task.inputs, strict=True)],
        task.substeps,
        task.tolerances,
    )
    N = len(task.time)
    states = np.full((len(stepper.states), 1, N), np.nan)
    values = np.full((len(stepper.outputs) + len(stepper.limits), 1, N), np.nan)
    run, outcome = bind(stepper, bound, states, values)
    with interruptible() as stop:
        for k in range(N - 1):
            added, here = control(k, states[:, 0, k]), slice(3 * k, 3 * k + 3)
            for row, (samples, _), more in zip(given, task.inputs, added, strict=True):
                row[0, here] = samples[0, here] + more
            outcome.interrupted[0] = not run.march(stepper.loop, k, k + 1, stop)
            if outcome.reached[0] < k + 2:
                break
    return outcome
