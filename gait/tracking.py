"""Forward dynamics: a walk simulated from the forces of inverse dynamics, with PD tracking."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.angles import coordinates, in_turn, states, world_moments
from kinesym.gait.forward import PD, Tracking
from kinesym.gait.inverse import InverseDynamics, coordinate_names
from kinesym.gait.kinematics import Samples
from kinesym.internal.model_run import compiled_stepper
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.native import PARABOLA
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.stepping.simulation import IVP, RawTrajectories, Stepper, bind, failure
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
    """Simulate `model`, of `models.gait.forward_dynamics`, from the start of a reference.

    numbers : parameters of the person. needed : at the nodes of the reference and between them. See
    `kinesym.gait.Body.forward`.
    """
    rows = needed.skeleton.segments
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
    """Warn of a walk that ended early; the same with that message."""
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
    """States with continuous actuators, and why they end early."""
    names = [f"Kp_{name}" for name in coordinate_names(needed.skeleton.segments)]
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
    """States with sampled actuators, whose effort is held from node to node, and the reason."""
    inputs, step = _inputs(needed, reference.time), float(reference.time[1] - reference.time[0])
    stepper = compiled_stepper(model, method, False, True)
    index = {name: k for k, name in enumerate(stepper.about.inputs)}
    driven = [index[name] for name in _forces(needed)]
    before = np.zeros(len(gains))

    def effort(k: int, x: Array) -> Array:
        nonlocal before
        error = reference.z[:, k] - in_turn(x[: len(gains)])
        held = gains * (error + control.Td * (error - before) / step)
        before, added = error, np.zeros(len(index))
        added[driven] = world_moments(reference.z[:, k] - error, held)
        return added

    free = {name: 0.0 for name in stepper.about.parameters if name.startswith("Kp_")} | {"Td": 0.0}
    values = {**model.values, **numbers, **free}
    ivp = IVP(
        reference.time,
        states(reference)[0][:, :1],
        np.array([[values[name] for name in stepper.about.parameters]]),
        [
            (inputs[name].parabolas_on(reference.time)[None], PARABOLA)
            for name in stepper.about.inputs
        ],
        tolerances=(RTOL, ATOL),
    )
    raw = _simulate_sampled(stepper, ivp, effort)
    reached = int(raw.reached[0])
    message = "" if reached == len(reference.time) else failure(raw, 0)
    return raw.states[:, 0, :reached], message


def _simulate_sampled(
    stepper: Stepper, ivp: IVP, control: Callable[[int, Array], Array]
) -> RawTrajectories:
    """March one member node by node; Ctrl-C ends it with what has been computed.

    ivp : inputs are parabolas on intervals, (1, 3 N - 2), and are not changed. control : takes
    the number of a node and the states there (n,) to what is added to all inputs until the next
    node (m,).
    """
    given = [samples.copy() for samples, _ in ivp.inputs]
    inputs = [(row, kind) for row, (_, kind) in zip(given, ivp.inputs, strict=True)]
    bound = replace(ivp, inputs=inputs)
    N = len(ivp.time)
    states = np.full((len(stepper.about.states), 1, N), np.nan)
    run, raw = bind(stepper, bound, states)
    with interruptible() as stop:
        for k in range(N - 1):
            added, here = control(k, states[:, 0, k]), slice(3 * k, 3 * k + 3)
            for row, (samples, _), more in zip(given, ivp.inputs, added, strict=True):
                row[0, here] = samples[0, here] + more
            raw.interrupted[0] = not run.march(stepper.loop, k, k + 1, stop)
            if raw.reached[0] < k + 2:
                break
    return raw


def _forces(needed: InverseDynamics) -> dict[str, Array]:
    """Inputs that drive the body, in the order of the coordinates."""
    rows = needed.skeleton.segments
    names = [f"{rows[0].proximal}_f{axis}" for axis in "xyz"]
    names += [f"{row.name}_m{axis}" for row in rows for axis in "xyz"]
    values = np.concatenate([needed.total.force, *needed.torque])
    return dict(zip(names, values, strict=True))


def _inputs(needed: InverseDynamics, time: Array) -> dict[str, Signal]:
    """All inputs of the forward model, from inverse dynamics at the nodes (N,) and halfway."""
    found, kinematics = _forces(needed), needed.kinematics
    names = coordinate_names(needed.skeleton.segments)
    for name, z, zd in zip(names, kinematics.z, kinematics.zd, strict=True):
        found |= {f"{name}_ref": z, f"{name}_rate": zd}
    return {name: Signal.parabolas(time, row) for name, row in found.items()}
