"""MuJoCo's toolbox sysid: a model in MJCF, least squares by differences of its simulations.

MODELS are written by hand, for problems whose equations are those of a body on a hinge with springs
and dampers that are linear. MuJoCo's own contacts, joint limits and dry friction have other
equations than the suite's, and control laws with unknown gains have no word in MJCF.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
from motionbench.adapters._common import bounds_of, errors_of, refuse, series
from motionbench.equations import OF_ARRAYS, OF_NUMBERS, value
from motionbench.suite import Record, initial_of, of_trial, read_record, stop_of
from mujoco import sysid
from scipy.interpolate import CubicSpline

#: Steps of Runge-Kutta's method of order 4 [s].
STEP = 0.005


def hinge(
    inertia: float = 0.0,
    mass: float = 1.0,
    arm: float = 1.0,
    damping: float = 0.0,
    spring: float = 0.0,
    rest: float = 0.0,
    gravity: float = 9.81,
    gear: float = 0.0,
) -> str:
    """A body on a hinge in MJCF; inertia : beside mass arm^2. rest : angle of the spring. gear :
    torque per unit of the input."""
    return f"""<mujoco><compiler angle="radian"/>
    <option integrator="RK4" timestep="{STEP}" gravity="0 0 {-gravity!r}"/>
    <worldbody><body>
      <joint name="theta" type="hinge" axis="0 1 0" armature="{inertia!r}" damping="{damping!r}"
        stiffness="{spring!r}" springref="{rest!r}"/>
      <inertial pos="0 0 {-arm!r}" mass="{mass!r}" diaginertia="1e-9 1e-9 1e-9"/>
    </body></worldbody>
    <actuator><motor name="input" joint="theta" gear="{gear!r}"/></actuator>
    <sensor><jointpos name="place" joint="theta"/></sensor></mujoco>"""


#: Models of problems, of their parameters.
MODELS: dict[str, Callable[[Any], str]] = {
    "knee_swing": lambda p: hinge(p.J - p.m * p.l**2, p.m, p.l, p.b, p.k, p.theta_0, p.g),
    "arm_masses": lambda p: hinge(p.J, p.m, p.l, p.c, gravity=p.g, gear=1.0),
    "strength_and_arm": lambda p: hinge(
        p.J - p.m * p.l**2, p.m, p.l, p.b, gravity=p.g, gear=p.F * p.r
    ),
    "pendulum_bad_guess": lambda p: hinge(gravity=p.p),
    "marker_gaps": lambda p: hinge(damping=p.d, gravity=p.p, gear=1.0),
    "gyro_bias": lambda p: hinge(damping=p.d, gravity=p.p),
    "camera_latency": lambda p: hinge(damping=p.d, gravity=p.p),
}


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Least squares from the guess; intervals by its own `calculate_intervals`."""
    logging.disable(logging.WARNING)
    refuse(statement, no_model_in_MJCF=statement["name"] not in MODELS)
    names, *sides = bounds_of(statement)
    starts = {
        k: r["initial"] for k, r in statement["states"].items() if isinstance(r["initial"], dict)
    }
    every = [*names, *(f"start of {k}" for k in starts)]
    low, high, guess = (
        np.append(own, [row[key] for row in starts.values()])
        for own, key in zip(sides, ("low", "high", "guess"), strict=True)
    )
    asked = sysid.ParameterDict()
    for name, a, b, c in zip(every, low, high, guess, strict=True):
        asked.add(sysid.Parameter(name, c, a, b))
    task = Task(statement, read_record(folder), names, list(starts))
    residual = task.residual(guess)
    found, result = sysid.optimize(asked, residual, verbose=False, max_iters=200)
    q, jacobian = found.as_vector(), np.asarray(result.jac)
    _, lost = errors_of(jacobian, every)
    _, half = sysid.calculate_intervals(residual(q, found)[0], jacobian)
    slack = 1e-6 * (high - low)
    sure = (q > low + slack) & (q < high - slack) & np.isfinite(half)
    rows = zip(names, q.tolist(), half.tolist(), sure, strict=False)
    return {
        "parameters": dict(zip(names, q.tolist(), strict=False)),
        "intervals": {n: [v - h, v + h] for n, v, h, s in rows if s and n not in lost},
        "cannot_be_known": [name for name in lost if name in names],
    }


class Task:
    """Residuals of a statement and a record. names, starts : of parameters, and of states that
    begin at unknown values."""

    def __init__(
        self, statement: dict[str, Any], record: Record, names: Sequence[str], starts: Sequence[str]
    ) -> None:
        self.statement, self.record, self.names, self.starts = statement, record, names, starts
        self.samples = {key: series(statement, record, 0, key) for key in statement["measured"]}

    def parameters(self, q: np.ndarray) -> dict[str, float]:
        """By the names of the equations."""
        return of_trial(self.statement, 0, dict(zip(self.names, q.tolist(), strict=False)))

    def initial(self, q: np.ndarray) -> np.ndarray:
        """Angle and speed at the start."""
        begun = dict(zip(self.starts, q[len(self.names) :].tolist(), strict=True))
        return np.array([*initial_of(self.statement, 0, self.parameters(q), begun).values()])

    def state(self, model: Any, q: np.ndarray) -> np.ndarray:
        """The same as MuJoCo has it."""
        return sysid.create_initial_state(model, *self.initial(q)[:, None])

    def spec(self, q: np.ndarray) -> Any:
        """Its model."""
        text = MODELS[self.statement["name"]](SimpleNamespace(**self.parameters(q)))
        return mujoco.MjSpec.from_string(text)

    def residual(self, guess: np.ndarray) -> Callable[..., Any]:
        """Its residuals in terms of the toolbox. Controls are held over a step, so that they have
        their values in its middle."""
        spec = self.spec(guess)
        model = spec.compile()
        times = STEP * np.arange(round(stop_of(self.statement) / STEP) + 2)
        force = np.zeros((len(times), 1))
        for name in self.statement["inputs"]:
            knots = self.record[f"input_{name}.0.csv"]
            force[:, 0] = np.interp(times + 0.5 * STEP, knots["t"], knots[name])
        given = sysid.ModelSequences(
            self.statement["name"],
            spec,
            "record",
            self.state(model, guess),
            sysid.TimeSeries.from_control_names(times, force, model),
            sysid.TimeSeries.from_names(times, 0.0 * force, model),
        )
        return sysid.build_residual_fn(
            models_sequences=[given],
            build_model=lambda p, _: self.spec(p.as_vector()).compile(),
            custom_rollout=self.rollout,
            modify_residual=self.compared,
            resample_true=False,
            n_threads=1,
        )

    def rollout(self, *, models: Any, param_dicts: Any, initial_states: Any, **more: Any) -> Any:
        """The toolbox's, from starts that are parameters."""
        pairs = zip(models, param_dicts, strict=True)
        begun = [self.state(model, each.as_vector()) for model, each in pairs]
        return sysid.sysid_rollout(models=models, initial_states=begun, **more)

    def compared(self, given: Any, _: Any, seen: Any, *__: Any, state: np.ndarray) -> Any:
        """Residuals of all channels over their standard deviations."""
        q = given.as_vector()
        here, times = self.parameters(q), np.append(0.0, state[:, 0])
        courses = np.vstack([self.initial(q), state[:, 1:3]])
        motion = CubicSpline(times, courses)
        found = []
        for key, row in self.statement["measured"].items():
            instants, samples = self.samples[key]
            then = instants - value(row.get("delay", 0.0), here, OF_NUMBERS)
            now = dict(zip(self.statement["states"], motion(np.maximum(then, 0.0)).T, strict=True))
            shown = value(row["expression"], {**here, **now}, OF_ARRAYS)
            found.append((shown - samples) / row["std"])
        return np.concatenate(found), seen, seen
