"""The stimulated knee, its stop and the figures against numbers and statics."""

import json
from pathlib import Path

import numpy as np
import pytest

from kinesym.examples.studies import fes_knee as study

TOLD = json.loads((Path(__file__).parents[1] / "data" / "knee_20Hz.json").read_text())


@pytest.fixture(scope="module")
def free():
    return study.free_knee()


@pytest.fixture(scope="module")
def stopped():
    return study.stopped_knee()


def test_constants_are_those_of_the_other_implementation():
    names = {
        "ks": "TENDON_STIFFNESS",
        "Lc0": "ELEMENT_LENGTH",
        "F0": "LARGEST_FORCE",
        "k0": "LARGEST_STIFFNESS",
        "alpha": "RECRUITED",
        "Up": "ACTIVATION",
        "Um": "RELAXATION",
        "tau": "DELAY",
        "t1": "HIGH",
        "t2": "RAMP",
        "T": "PERIOD",
        "t0": "FIRST",
        "npulse": "IMPULSES",
        "m": "MASS",
        "lc": "CENTRE",
        "I": "INERTIA",
        "bv": "DAMPING",
        "r": "MOMENT_ARM",
        "g": "G",
    }
    for theirs, ours in names.items():
        assert getattr(study, ours) == TOLD["params"][theirs], ours


def test_the_free_knee(free):
    """Angle and force at their largest, breaks and switches."""
    assert study.peak(free, "theta") == (
        pytest.approx(0.951658, abs=2e-6),
        pytest.approx(0.813, abs=2e-3),
    )
    assert study.peak(free, "quad_F") == (
        pytest.approx(185.42, abs=0.02),
        pytest.approx(0.891, abs=2e-3),
    )
    np.testing.assert_allclose(
        [e.time for e in free.happened("clock")], TOLD["clock_break_times"], atol=1e-14
    )
    found = study.switches(free)
    assert len(found) == len(TOLD["mode_switches"]) == 32
    np.testing.assert_allclose(
        [e.time for e in found], [e["t"] for e in TOLD["mode_switches"]], atol=1e-9
    )
    for name, value in zip(("theta", "omega"), TOLD["final_state"], strict=False):
        assert free[name][-1] == pytest.approx(value, abs=1e-8)


def test_the_free_knee_at_the_instants_of_the_other_implementation():
    """Its record has a sample every 10 ms: 0.9516 rad and 185.2 N are largest among them."""
    run = study.free_knee(151)
    assert study.peak(run, "theta") == (pytest.approx(0.9516, abs=5e-5), pytest.approx(0.81))
    assert study.peak(run, "quad_F") == (pytest.approx(185.2, abs=0.05), pytest.approx(0.89))


def test_the_stop(stopped):
    """The angle does not exceed it; impacts return a fifth of the rate."""
    assert stopped["theta"].max() <= study.STOP + 1e-12 and not stopped.message
    impacts = stopped.happened("impact")
    assert len(impacts) == 5
    for e in impacts[:-1]:
        assert e.before["theta"] == pytest.approx(study.STOP, abs=1e-12)
        assert e.after["omega"] == pytest.approx(-study.RESTITUTION * e.before["omega"], rel=1e-9)
        assert e.after["quad_F"] == e.before["quad_F"]
    last = impacts[-1]
    assert study.RESTITUTION * last.before["omega"] < 1e-3 and abs(last.after["omega"]) < 1e-12


def test_rest_at_the_stop_is_statics(stopped):
    """Its torque is what muscle and weight leave over; it releases when that is nothing."""
    (closed,), (released,) = stopped.happened("close"), stopped.happened("release")
    resting = (stopped.time > closed.time) & (stopped.time < released.time)
    assert 0.45 < released.time - closed.time < 0.55
    expected = study.static_torque(stopped["quad_F"])
    np.testing.assert_allclose(stopped["stop_torque"][resting], expected[resting], atol=1e-9)
    assert (stopped["stop_torque"][resting] > 0.0).all()
    assert (stopped["stop_torque"][~resting] == 0.0).all()
    np.testing.assert_allclose(stopped["theta"][resting], study.STOP, atol=1e-12)
    assert abs(study.static_torque(released.after["quad_F"])) < 1e-9


def test_the_solver_finds_where_the_dynamics_cross_signorinis_graph():
    weight = study.BALL_MASS * study.G
    assert study.ball_on_floor(0.0) == pytest.approx((weight, 0.0))
    assert study.ball_on_floor(0.4 * weight) == pytest.approx((0.6 * weight, 0.0))
    assert study.ball_on_floor(1.5 * weight) == pytest.approx((0.0, 0.5 * study.G))


def test_equations_of_the_contractile_element_meet_where_the_run_is(free):
    """At every node; (9) rises and (10) falls, so that they meet nowhere else."""
    x = np.linspace(-5.0, 5.0, 101)
    for k in range(0, len(free.time), 10):
        now = free["quad_u"][k], free["quad_kc"][k], free["quad_F"][k]
        rate = -study.MOMENT_ARM * free["omega"][k]
        nine, ten = study.contractile_lines(free["quad_rate"][k], *now, rate)
        assert nine == pytest.approx(ten, abs=1e-6)
        nine, ten = study.contractile_lines(x, *now, rate)
        assert (np.diff(nine - ten) > 0.0).all()


def test_what_is_printed(free, stopped):
    said = study.summary(free)
    assert "largest knee angle 0.9517 rad at 0.81 s" in said
    assert "largest force 185.4 N at 0.891 s" in said
    assert "80 breaks of the clock, 32 switches" in said
    assert study.stop_summary(stopped).count("impact") == 5
