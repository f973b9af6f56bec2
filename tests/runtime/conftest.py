"""One small result of every kind that can be saved."""

from dataclasses import replace

import numpy as np
import pytest

from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.bands import Band, Bands
from kinesym.runtime.results.ensemble import Ensemble, Failure
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.estimates import Noise, Uncertainty
from kinesym.runtime.results.event_log import EventLog, EventRecord, HybridState
from kinesym.runtime.results.fit import Fit, Step
from kinesym.runtime.results.influence import InfluenceMeasures
from kinesym.runtime.results.left_out import LeftOut
from kinesym.runtime.results.likelihood import Likelihood
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.status import Solve

TIME = np.linspace(0.0, 1.0, 11)


def trajectory():
    return Trajectory(
        TIME,
        {"x": np.sin(TIME), "v": np.cos(TIME)},
        {"u": TIME**2},
        {"hip_x": TIME, "hip_y": TIME / 3.0},
        {"k": 2.0},
        "swing",
        {"x": np.where(TIME < 0.5, np.sin(TIME), np.nan)},
        {"x": np.full(11, 0.1)},
        samples={"channel": np.array(["gyro", "v"]), "measured": np.array([0.5, np.nan])}
        | {name: np.array([0.1, 0.23]) for name in ("time", "modelled", "std")},
    )


def solution():
    return Solution(
        message="stopped at the limit of iterations",
        status=Solve.ITERATION_LIMIT,
        objective=1.5,
        parameters={"k": 2.0},
        known={"m": 1.0},
        trials=[trajectory(), trajectory()],
        free_vector=TIME,
        multipliers=TIME,
        lower_multipliers=TIME,
        upper_multipliers=TIME,
        history=[Iteration(0, 2.0, 1.0, 0.5)],
        timings={"total": 0.1},
        linear_solver="time-structured",
        factorisations=5,
        notes=["a note"],
        model="swing",
        problem={"nodes": [11, 11]},
        log="log",
    )


def fit():
    return Fit(
        status=Solve.CONVERGED,
        message="converged",
        objective=2.0,
        parameters={"k": 2.0},
        known={"m": 1.0},
        initial={"x": 0.5},
        trials=[trajectory()],
        names=["k", "x(0)"],
        free_vector=np.array([2.0, 0.5]),
        gradient=np.zeros(2),
        history=[Step(2.0, np.array([2.0, 0.5]))],
        condition=10.0,
        uncertainty=[
            Uncertainty(names=["k", "x(0)"], covariance=np.eye(2), held=["k"], freedom=19.0)
        ],
        noise=[Noise("x", 0.1, 20.0, 19.0)],
        likelihood=[Likelihood(-3.5, 2.0, 20.0, edges="sd(b)")],
        notes=["a note"],
        timings={"total": 0.1},
        optimizer="least-squares",
        model="swing",
        grid=[
            EstimateError(
                method="rk4",
                steps="steps halved",
                order=4,
                substeps=1,
                higher="gauss-6",
                shifts={"k": 3.0, "x(0)": -0.1},
                deviations={"k": 1.0},
                sizes={"k": 2.0, "x(0)": 0.5},
            )
        ],
    )


def hybrid():
    rows = np.array([[0.1, -1.0], [0.1, 1.0]])
    log = [
        EventRecord(0.1 * k, kind, name, ["x", "v"], rows)
        for k, (kind, name) in enumerate(
            [("clock", ""), ("impact", "floor"), ("event", "peak"), ("clock", "")]
        )
    ]
    whole = np.zeros(1, dtype=np.intc)
    final = HybridState(1.0, np.array([0.1, 0.2]), np.zeros(1), whole, whole, whole)
    events = EventLog(tuple(log), final, ("floor",), (), ("peak", "never"), (9, 1, 50))
    return replace(trajectory(), event_log=events)


def ensemble():
    rows = np.array([np.sin(TIME), np.cos(TIME), np.where(TIME < 0.5, TIME, np.nan)])
    return Ensemble(
        TIME,
        {"x": rows},
        {"u": rows},
        {"y": 2.0 * rows},
        {"k": np.arange(3.0)},
        "swing",
        [Failure(2, 0.5, "diverged")],
    )


def bands():
    rows = dict(trajectory())
    of_one = Band(
        time=TIME,
        mean=rows,
        deviation={name: np.where(TIME < 0.5, 0.1, np.nan) for name in rows},
        measurements=trajectory().measurements,
    )
    return Bands(trials=[of_one, of_one], model="swing")


def influence():
    two = np.array([1.0, 0.1])
    without = LeftOut(
        kind="trial",
        what="trial 1",
        samples=11,
        names=["k", "b"],
        values=np.array([2.0, np.nan]),
        errors=two,
        before=two,
        errors_before=two,
        covariance=np.diag(two),
        cook=0.3,
    )
    return InfluenceMeasures(
        model="swing",
        names=["k", "b"],
        errors=two,
        channels=["x"],
        channel=np.zeros(11, dtype=int),
        trial=np.ones(11, dtype=int),
        index=np.arange(11),
        time=TIME,
        residual=np.sin(TIME),
        leverage=TIME / 11.0,
        cook=TIME,
        change=np.outer(TIME, two),
        log_density=np.where(TIME < 0.5, TIME, np.nan),
        groups=[without],
        notes=["a note"],
    )


def of_gait():
    from kinesym.gait.marker_fit import MarkerFit
    from kinesym.gait.marker_scale import Scaling

    rows = {"knee": np.sin(TIME), "hip": np.cos(TIME)}
    error = np.where(TIME < 0.5, 1e-3, np.nan)
    std = dict.fromkeys(rows, error)
    yield MarkerFit("leg", TIME, rows, std, {"R.Knee": error}, 2e-3, ["knee"], ["R.Heel"])
    yield Scaling(
        tree="leg",
        stretched={"femur_r": "thigh", "femur_l": "thigh"},
        factors={"thigh": 1.1},
        std={"thigh": 0.02},
        bodies={"R.Knee": "femur_r"},
        places={"R.Knee": np.array([0.0, -0.4, 0.05])},
        moved={"R.Knee": 0.01},
        place_std={"R.Knee": np.array([0.01, 0.01, 0.0])},
        marker_rms={"R.Knee": 5e-3},
        noise=6e-3,
    )


@pytest.fixture(scope="session")
def results():
    """By the name of the class."""
    made = (hybrid(), solution(), fit(), ensemble(), bands())
    return {type(result).__name__: result for result in made}


@pytest.fixture(scope="session")
def every(results, pytestconfig):
    """Those that are no trajectories, too; those of gait, but for the tests of the core."""
    results = results | {"InfluenceMeasures": influence()}
    if pytestconfig.getoption("core"):
        return results
    return results | {type(result).__name__: result for result in of_gait()}


@pytest.fixture(scope="session")
def saved(every, tmp_path_factory):
    """What their files hold, by the name of the class."""
    path = tmp_path_factory.mktemp("results") / "run.nc"
    content = {}
    for kind, result in every.items():
        result.save(path)
        content[kind] = path.read_bytes()
    return content
