"""Time stepping with the compiled right-hand side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kinesym.runtime.experiment import Experiment
from kinesym.runtime.functions import Functions
from kinesym.runtime.trajectory import Trajectory


def run_rk4(
    functions: Functions,
    trial: Experiment,
    initial: Mapping[str, float],
    parameters: Mapping[str, float],
    substeps: int,
) -> Trajectory:
    """A trajectory by the classical Runge-Kutta method, `substeps` steps per interval.

    Raises `FloatingPointError` naming the time at which the states cease to be finite.
    """
    time = trial.grid
    x = np.zeros((len(functions.states), len(time)))
    x[:, 0] = [initial[name] for name in functions.states]
    u = np.array([trial.inputs[name] for name in functions.inputs]).reshape(-1, len(time))
    p = np.array([parameters[name] for name in functions.parameters])
    hold = np.array(
        [trial.hold.get(name) == "zero-order" for name in functions.inputs], dtype=np.uint8
    )
    reached = functions.library.rk4("rhs", time, substeps, u, hold, p, x)
    if reached < len(time):
        raise FloatingPointError(
            f"the simulation of {functions.name} diverged at t = {time[reached]:g} s; the step of "
            f"{(time[1] - time[0]) / substeps:g} s may be too long (raise substeps), or the model "
            "is unstable"
        )
    rates = functions.rhs(x, u, p, time)
    y = functions.outputs(rates, x, u, p, time)
    return Trajectory(
        time=time,
        states=dict(zip(functions.states, x, strict=True)),
        inputs=dict(zip(functions.inputs, u, strict=True)),
        outputs=dict(zip(functions.output_names, y, strict=True)),
        parameters=dict(parameters),
        model=functions.name,
    )
