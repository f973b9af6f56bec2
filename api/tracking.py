"""A walk simulated from the forces that it needs, beside its reference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.model_run import compiled_stepper
from kinesym.runtime.gait.control import PD
from kinesym.runtime.gait.course import Samples
from kinesym.runtime.gait.forward import Tracking
from kinesym.runtime.gait.inverse import InverseDynamics, coordinate_names
from kinesym.runtime.gait.rates import coordinates, in_turn, states, world_moments
from kinesym.runtime.gait.sampled import simulate_sampled
from kinesym.runtime.native import PARABOLA
from kinesym.runtime.signals import Signal
from kinesym.runtime.simulation import Task, failure
from kinesym.simulation import simulate
from kinesym.symbolic.model import Model

Array = NDArray[np.float64]

#: Tolerances of adaptive methods.
RTOL, ATOL = 1e-10, 1e-12


def track(
    model: Model,
    numbers: Mapping[str, float],
    needed: InverseDynamics,
    reference: Samples,
    control: PD | None,
    method: str,
) -> Tracking:
    """Simulate `model`, of `models.gait.forward_dynamics`, from the begin of a reference.

    numbers : parameters of the person. needed : at the nodes of the reference and between them. See
    `kinesym.gait.Body.forward`.
    """
    rows = needed.skeleton.rows
    gains = np.zeros(len(reference.z)) if control is None else control.gains(rows)
    step = float(reference.time[1] - reference.time[0])
    if control is not None and control.sampled:
        control.check_step(step)
        x, message = _sampled(model, numbers, needed, reference, control, gains, method)
    else:
        x, message = _continuous(model, numbers, needed, reference, control, gains, method)
    N = x.shape[1]
    z, zd = coordinates(x)
    done = Samples(
        *(part[..., :N] for part in (reference.time, reference.z, reference.zd, reference.zdd))
    )
    error, rate = done.z - z, done.zd - zd
    if control is not None and control.sampled:
        rate = np.diff(error, axis=1, prepend=error[:, :1]) / step
    effort = gains[:, None] * (error + (control.Td if control else 0.0) * rate)
    result = Tracking(rows, done, z, zd, gains, effort, method, step, message)
    return _said(result) if message else result


def _said(walk: Tracking) -> Tracking:
    """A walk that ended early, with a warning."""
    name, off = walk.worst()
    said = f"ended at t = {walk.time[-1]:.4g} s with {name} off by {np.degrees(off):.2g} deg"
    why = walk.message.split("; ")[0]  # what follows is advice for ks.simulate
    result = replace(walk, message=f"{said}; {why}")
    warnings.warn(result.message, stacklevel=5)
    return result


def _continuous(
    model: Model,
    numbers: Mapping[str, float],
    needed: InverseDynamics,
    reference: Samples,
    control: PD | None,
    gains: Array,
    method: str,
) -> tuple[Array, str]:
    """States with actuators that follow the motion, and why they end early."""
    names = [f"Kp_{name}" for name in coordinate_names(needed.skeleton.rows)]
    values = {
        **numbers,
        **dict(zip(names, gains, strict=True)),
        "Td": control.Td if control else 0.0,
    }
    start = dict(zip(model.state_names, states(reference)[0][:, 0], strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the message is passed on
        run = simulate(
            model,
            reference.time,
            start,
            values,
            _inputs(needed, reference.time),
            method=method,
            rtol=RTOL,
            atol=ATOL,
        )
    return np.array([run[name] for name in model.state_names]), run.message


def _sampled(
    model: Model,
    numbers: Mapping[str, float],
    needed: InverseDynamics,
    reference: Samples,
    control: PD,
    gains: Array,
    method: str,
) -> tuple[Array, str]:
    """The same with actuators that hold what they computed at the last node."""
    inputs, step = _inputs(needed, reference.time), float(reference.time[1] - reference.time[0])
    stepper = compiled_stepper(model, method, False, True)
    place = {name: k for k, name in enumerate(stepper.inputs)}
    driven = [place[name] for name in _forces(needed)]
    before = np.zeros(len(gains))

    def effort(k: int, x: Array) -> Array:
        nonlocal before
        error = reference.z[:, k] - in_turn(x[: len(gains)])
        held = gains * (error + control.Td * (error - before) / step)
        before, added = error, np.zeros(len(place))
        added[driven] = world_moments(reference.z[:, k] - error, held)
        return added

    free = {name: 0.0 for name in stepper.parameters if name.startswith("Kp_")} | {"Td": 0.0}
    values = {**model.values, **numbers, **free}
    task = Task(
        reference.time,
        states(reference)[0][:, :1],
        np.array([[values[name] for name in stepper.parameters]]),
        [(inputs[name].parabolas_on(reference.time)[None], PARABOLA) for name in stepper.inputs],
        tolerances=(RTOL, ATOL),
    )
    outcome = simulate_sampled(stepper, task, effort)
    reached = int(outcome.reached[0])
    message = "" if reached == len(reference.time) else failure(stepper, task, outcome, 0)
    return outcome.states[:, 0, :reached], message


def _forces(needed: InverseDynamics) -> dict[str, Array]:
    """Inputs that drive the body, in the order of the coordinates."""
    rows = needed.skeleton.rows
    names = [f"{rows[0].proximal}_f{axis}" for axis in "xyz"]
    names += [f"{row.name}_m{axis}" for row in rows for axis in "xyz"]
    values = np.concatenate([needed.total.force, *needed.torque])
    return dict(zip(names, values, strict=True))


def _inputs(needed: InverseDynamics, time: Array) -> dict[str, Signal]:
    """All inputs of the forward model, from inverse dynamics at the nodes (N,) and halfway."""
    found, course = _forces(needed), needed.course
    names = coordinate_names(needed.skeleton.rows)
    for name, z, zd in zip(names, course.z, course.zd, strict=True):
        found |= {f"{name}_ref": z, f"{name}_rate": zd}
    return {name: Signal.parabolas(time, row) for name, row in found.items()}
