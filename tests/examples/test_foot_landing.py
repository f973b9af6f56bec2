"""A step of a foot: events against closed forms, a quadrature and accurate reduced equations."""

import numpy as np
import pytest
from scipy.integrate import quad

from kinesym.examples.studies import foot_landing as study

TIME = np.linspace(0.0, study.END, 651)
LAWS = tuple(study.TITLES)


@pytest.fixture(scope="module", params=LAWS)
def step(request):
    """The law, runs by way of release, and the reference."""
    law = request.param
    runs = {release: study.simulate(law, TIME, release) for release in ("force", "height")}
    return law, runs, study.reference(law)


def test_four_events_in_order(step):
    """Nothing else happens; the toe slides only just before toe off, and only with friction,
    which is seen by either way of release."""
    law, runs, _ = step
    order = ["impact heel", "close heel", "impact toe", "close toe", "release heel", "release toe"]
    for run in runs.values():
        logged = [f"{e.kind} {e.name}" for e in run.events if e.kind != "clock"]
        slides = ["slide toe"] if law == "coulomb" else []
        assert logged == [*order[:-1], *slides, order[-1]] and not run.message


def test_times_of_events(step):
    law, runs, told = step
    found = study.happened(runs["force"], law)
    for name, time in told.times.items():
        assert abs(found[name] - time) < 1e-10, name


def test_slides_by_height_begin_as_by_force(step):
    """How a point rubs does not depend on how contacts end, nor on last bits."""
    law, runs, told = step
    if law == "coulomb":
        assert abs(runs["height"].happened("slide")[0].time - told.times["toe slides"]) < 1e-10


def test_velocities_after_impacts(step):
    _, runs, told = step
    for name, after in told.after.items():
        np.testing.assert_allclose(study.velocities(runs["force"], name), after, atol=1e-10)


def test_states_and_forces_all_along(step):
    """States to 1e-9; normal forces of both points and their friction together to 1e-8 N."""
    _, runs, told = step
    states, forces = study.errors(runs["force"], told)
    assert states.max() < 1e-9 and forces.max() < 1e-8


def test_release_by_height_is_late_as_predicted(step):
    """By (6 sqrt(eps) / jerk)^(1/3), but for higher derivatives; the trajectory is the same. With
    friction the heel is at its limit of friction when its force ends, which is seen at once."""
    law, runs, told = step
    for name, (late, expected) in study.lags(runs["height"], told).items():
        if (law, name) == ("coulomb", "heel off"):
            assert late == pytest.approx(0.0, abs=1e-10)
            continue
        assert late > 1e-4 and late == pytest.approx(expected, rel=1e-3)
    for name in study.STATES:
        np.testing.assert_allclose(runs["height"][name], runs["force"][name], rtol=0, atol=1e-8)


def test_friction_stays_within_its_cone(step):
    law, runs, _ = step
    if law == "coulomb":
        for run in runs.values():
            for point in study.POINTS:
                bound = study.FRICTION * run[f"{point}_normal"]
                assert (abs(run[f"{point}_friction"]) <= bound + 1e-6).all(), point


def test_restitution_of_the_heel():
    """Impulse -(1 + e) n.v / (n M^-1 n) of a single point."""
    run = study.simulate("slip", np.linspace(0.0, 0.03, 4), restitution=0.5)
    told = study.reference("slip")
    end = told.times["heel strike"]
    before = told.phases[0].states(np.float64(end))
    after, (impulse, _) = study.strike(before, "heel", False, 0.5)
    np.testing.assert_allclose(
        study.velocities(run, "heel strike"), study.at_ankle(after)[3:], atol=1e-10
    )
    rx, _ = study.arm(study.POINTS["heel"], before[2])
    approach = before[4] - rx * before[5]
    assert after[4] - rx * after[5] == pytest.approx(-0.5 * approach, rel=1e-12)
    assert impulse > 0.0


def test_fall_onto_the_toe_without_load():
    """Energy is kept while the foot turns about its heel: the time it takes is a quadrature."""
    none = dict.fromkeys(study.inputs("slip"), 0.0)
    run = study.simulate("slip", np.linspace(0.0, 0.2, 21), load=none)
    strike, end = (run.happened(*study.EVENTS[f"{name} strike"])[0] for name in ("heel", "toe"))
    angle, rate = strike.after["foot_y"], strike.after["foot_wy"]

    def slowness(a):
        (rx, rz), (first, below) = (study.arm(study.POINTS["heel"], at) for at in (a, angle))
        inertia, before = (study.INERTIA + study.MASS * x**2 for x in (rx, first))
        gained = 2.0 * study.MASS * study.GRAVITY * (rz - below)
        return np.sqrt(inertia / (before * rate**2 + gained))

    duration, _ = quad(slowness, angle, 0.0, epsabs=1e-14, epsrel=1e-13)
    assert abs(end.time - strike.time - duration) < 1e-11


def test_another_start_is_refused_by_the_reference(monkeypatch):
    """The order of the phases is assumed, and checked."""
    monkeypatch.setattr(study, "SPEED", 3.0)
    with pytest.raises(ValueError, match="not true that the heel does not slide at its strike"):
        study.reference("coulomb")
