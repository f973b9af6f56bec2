"""Forward dynamics: a walk simulated from the forces of inverse dynamics, with PD tracking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kinesym.base.quiet import quietly
from kinesym.gait.checks import warn
from kinesym.gait.forward import PD, Tracking
from kinesym.gait.inverse import InverseDynamics, coordinate_names
from kinesym.gait.kinematics import Samples, coordinates, in_turn, states, world_moments
from kinesym.internal.problems.step_options import chooses_steps
from kinesym.internal.running.model_run import compiled_stepper
from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.native import PARABOLA
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.simulation.stepper import IVP, bind, failure
from kinesym.simulation import simulate
from kinesym.symbolic.model import Model

#: Relative tolerance of adaptive methods [-].
RTOL = 1e-10
#: Absolute tolerance of adaptive methods, in the units of the states.
ATOL = 1e-12


def track(
    model: Model,
    numbers: Mapping[str, float],
    needed: InverseDynamics,
    reference: Samples,
    control: PD | None,
    method: str,
) -> Tracking:
    """Simulate `model`, of `models.gait.forward_dynamics`, from the start of a reference.

    numbers : parameters of the person. needed : at the nodes of the reference and between them. See
    `kinesym.gait.Body.forward`.
    """
    rows, time = needed.skeleton.segments, reference.time
    gains = np.zeros(len(reference.z)) if control is None else control.gains(rows)
    step, Td = float(time[1] - time[0]), control.Td if control else 0.0
    inputs = _inputs(needed, time)
    feedback = {f"Kp_{name}": Kp for name, Kp in zip(coordinate_names(rows), gains, strict=True)}
    if control is not None and control.sampled:
        control.check_step(step)
        values = {**numbers, **dict.fromkeys([*feedback, "Td"], 0.0)}
        x, message = _sampled(
            model, values, inputs, list(_forces(needed)), reference, gains, Td, method
        )
    else:
        values = {**numbers, **feedback, "Td": Td}
        tight = partial(simulate, rtol=RTOL, atol=ATOL)
        steps = tight if chooses_steps(method) else simulate
        start = dict(zip(model.state_names, states(reference)[0][:, 0], strict=True))
        with quietly():  # the message is passed on
            run = steps(model, time, start, values, inputs, method=method)
        x, message = np.array([run[name] for name in model.state_names]), run.message
    z, zd = coordinates(x)
    N = x.shape[1]
    done = Samples(time[:N], *(part[:, :N] for part in (reference.z, reference.zd, reference.zdd)))
    error, rate = done.z - z, done.zd - zd
    if control is not None and control.sampled:
        rate = np.diff(error, axis=1, prepend=error[:, :1]) / step
    effort = gains[:, None] * (error + Td * rate)
    result = Tracking(rows, done, z, zd, gains, effort, method, step, message)
    if message:
        name, off = result.worst()
        said = f"ended at t = {time[N - 1]:.4g} s with {name} off by {np.degrees(off):.2g} deg"
        result = replace(result, message=f"{said}; {message}")
        warn(result.message)
    return result


def _sampled(
    model: Model,
    values: Mapping[str, float],
    inputs: Mapping[str, Signal],
    driven: Sequence[str],
    reference: Samples,
    gains: Array,
    Td: float,
    method: str,
) -> tuple[Array, str]:
    """States with sampled actuators, whose effort on the `driven` inputs is held from node to node,
    and why they end early; Ctrl-C ends them with what has been computed."""
    time, g = reference.time, len(gains)
    step = float(time[1] - time[0])
    stepper = compiled_stepper(model, method, False, True)
    given = {
        name: np.array(inputs[name].parabolas_on(time), ndmin=2) for name in stepper.about.inputs
    }
    values = {**model.values, **values}
    ivp = IVP(
        time,
        states(reference)[0][:, :1],
        np.array([[values[name] for name in stepper.about.parameters]]),
        [(samples, PARABOLA) for samples in given.values()],
        tolerances=(RTOL, ATOL),
    )
    x = np.full((len(stepper.about.states), 1, len(time)), np.nan)
    run, raw = bind(stepper, ivp, x)
    before = np.zeros(g)
    with interruptible() as stop:
        for k in range(len(time) - 1):
            error = reference.z[:, k] - in_turn(x[:g, 0, k])
            held = gains * (error + Td * (error - before) / step)
            before = error
            added = world_moments(reference.z[:, k] - error, held)
            for name, more in zip(driven, added, strict=True):
                given[name][0, 3 * k : 3 * k + 3] += more
            raw.interrupted[0] = not run.march(stepper.loop, k, k + 1, stop)
            if raw.reached[0] < k + 2:
                break
    reached = int(raw.reached[0])
    return x[:, 0, :reached], "" if reached == len(time) else failure(raw, 0)


def _forces(needed: InverseDynamics) -> dict[str, Array]:
    """Inputs that drive the body, in the order of the coordinates."""
    rows = needed.skeleton.segments
    names = [f"{rows[0].proximal}_f{axis}" for axis in "xyz"]
    names += [f"{row.name}_m{axis}" for row in rows for axis in "xyz"]
    values = np.concatenate([needed.total.force, *needed.torque])
    return dict(zip(names, values, strict=True))


def _inputs(needed: InverseDynamics, time: Array) -> dict[str, Signal]:
    """Inputs of the forward model, from inverse dynamics at the nodes (N,) and halfway."""
    found, kinematics = _forces(needed), needed.kinematics
    names = coordinate_names(needed.skeleton.segments)
    for name, z, zd in zip(names, kinematics.z, kinematics.zd, strict=True):
        found |= {f"{name}_ref": z, f"{name}_rate": zd}
    return {name: Signal.parabolas(time, row) for name, row in found.items()}
