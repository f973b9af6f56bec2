"""Torques back to motion, with and without control: orders, efforts, and equations of motion in
natural coordinates under SciPy's integrator."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from kinesym.gait import PD, Body, NaturalBody, Samples, Spline, Tracking, segments_of_body

ROWS = [
    row
    for row in segments_of_body(80.0, 1.8)
    if row.name in ("pelvis", "torso", "Rthigh", "Rshank")
]
G = 15
END = 0.6


@pytest.fixture(scope="module")
def body():
    """Four segments are built sooner than eighteen."""
    return Body(ROWS)


def walk(seed=0):
    """Sines along all coordinates around standing upright."""
    rng, t = np.random.default_rng(seed), np.linspace(-0.1, END + 0.1, 161)
    size, rate, phase = (rng.uniform(*each, (G, 1)) for each in ((0.05, 0.3), (3, 9), (0, 6)))
    z = size * np.sin(rate * t + phase)
    z[2] += 1.0
    return Spline.through(t, z)


COURSE = walk()


def grid(step, end=END):
    return step * np.arange(round(end / step) + 1)


def run(body, step, end=END, **options):
    """Whatever ends early may do so silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return body.forward(COURSE, grid(step, end), **options)


# -- gains ------------------------------------------------------------------------------------


def test_gains():
    """400 times the mass of the segment, that of the pelvis for the position of the root."""
    rows = segments_of_body(100.0, 1.8)
    gains = PD().gains(rows)
    assert gains.shape == (57,)
    np.testing.assert_allclose(gains[:3], 400.0 * rows[0].mass, rtol=1e-14)
    for k, row in enumerate(rows):
        np.testing.assert_allclose(gains[3 + 3 * k : 6 + 3 * k], 400.0 * row.mass, rtol=1e-14)
    heavier = PD(10.0, root_mass=50.0).gains(rows)
    np.testing.assert_allclose(heavier[:3], 500.0)
    np.testing.assert_allclose(heavier[3:], gains[3:] / 40.0)
    own = np.arange(57.0)
    np.testing.assert_array_equal(PD(own).gains(rows), own)
    assert PD().Td == 2.5e-5 and not PD().sampled


def test_bad_gains(body):
    rows = segments_of_body()
    for wrong in (np.ones(3), np.ones((57, 1)), np.ones(56)):
        with pytest.raises(
            ValueError,
            match="needs one stiffness, or 57, one for each coordinate; "
            rf"got \({wrong.shape[0]},",
        ):
            PD(wrong).gains(rows)
    for wrong in (-1.0, np.r_[np.ones(56), -1.0], np.nan, np.inf):
        with pytest.raises(ValueError, match="gains of a PD controller must not be negative"):
            PD(wrong)
    for wrong in (-1e-3, np.inf, np.nan):
        with pytest.raises(ValueError, match="the derivative time must"):
            PD(Td=wrong)
    with pytest.raises(ValueError, match=r"or 15, one for each coordinate; got \(57,\)"):
        body.forward(COURSE, grid(0.01), PD(np.ones(57)))


def test_warning_of_lag():
    """A sampled controller lags by half a step."""
    with pytest.warns(
        UserWarning,
        match="sampled every 0.001 s lags by 0.0005 s, more than its derivative time 2.5e-05 s",
    ):
        PD(sampled=True).check_step(1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PD(sampled=True, Td=1e-3).check_step(1e-3)
        PD().check_step(1e-3)


def test_forward_warns_of_lag(body):
    with pytest.warns(UserWarning, match="use sampled=False or shorter steps"):
        body.forward(COURSE, grid(1e-3, 0.01), PD(sampled=True), "rk4")


# -- orders -----------------------------------------------------------------------------------


def errors(body, method, steps, end):
    return [np.abs(run(body, h, end, method=method).error[:, -1]).max() for h in steps]


@pytest.mark.study
def test_order_of_the_trapezoid(body):
    found = errors(body, "trapezoid", (0.01, 0.005, 0.0025, 0.00125), 0.2)
    np.testing.assert_allclose(np.divide(found[:-1], found[1:]), 4.0, atol=0.1)


def test_order_of_runge_kutta(body):
    """Torques between nodes are those of inverse dynamics there: of order 4."""
    found = errors(body, "rk4", (0.005, 0.0025, 0.00125), 0.2)
    np.testing.assert_allclose(np.divide(found[:-1], found[1:]), 16.0, atol=1.5)


@pytest.mark.study
def test_runge_kutta_beats_the_trapezoid(body):
    """At four times the step."""
    for step in (0.001, 0.0025):
        ours = np.abs(run(body, 4 * step, method="rk4").error).max()
        assert ours < np.abs(run(body, step).error).max() / 3.0


# -- control ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["trapezoid", "rk4"])
def test_control_holds(body, method):
    """Steps of 1 ms with the published gains: micrometres and microradians, and less than
    without; the effort is Kp (e + Td e')."""
    held, free = run(body, 1e-3, control=PD(), method=method), run(body, 1e-3, method=method)
    assert not held.message and not free.message
    np.testing.assert_allclose(held.time, grid(1e-3), atol=1e-12)
    for part in (slice(0, 3), slice(3, G)):
        assert np.abs(held.error[part]).max() < 1e-5
    if method == "trapezoid":
        assert np.abs(held.error[3:]).max() < np.abs(free.error[3:]).max() / 5.0
    reference = COURSE.sample(held.time)
    expected = PD().gains(ROWS)[:, None] * (
        reference.z - held.z + 2.5e-5 * (reference.zd - held.zd)
    )
    np.testing.assert_allclose(held.effort, expected, atol=1e-12)
    assert not free.effort.any() and not free.gains.any()


class Pushed(Body):
    """Somebody pulls at the hips with 60 N, and a knee is driven by 5 N m more."""

    def inverse(self, kinematics):
        found = super().inverse(kinematics)
        push = np.array([[60.0], [0.0], [0.0]])
        moment = found.moment.copy()
        moment[-1, 1] += 5.0
        total = replace(found.total, force=found.total.force + push)
        return replace(found, total=total, moment=moment)


@pytest.fixture(scope="module")
def pushed():
    return Pushed(ROWS)


class Equations:
    """Accelerations in natural coordinates under the forces of the motion and what disturbs it."""

    def __init__(self):
        self.natural = NaturalBody(ROWS)
        self.gains = PD().gains(ROWS)

    def needed(self, t):
        """Force and torques from the world, with the push."""
        here = COURSE.sample(np.array([t]))
        Q = self.natural.forces(here.z, here.zd, here.zdd)[:, 0]
        force, torque = Q[:3] + [60.0, 0.0, 0.0], moments(here.z[:, 0], Q)
        torque[-2:, 1] += [-5.0, 5.0]
        return force, torque

    def generalised(self, z, force, torque):
        return np.concatenate(
            [force, *(turns(z[3 * k + 3 : 3 * k + 6]).T @ torque[k] for k in range(len(ROWS)))]
        )

    def rates(self, t, x, force, torque, effort):
        z, zd = x[:G], x[G:]
        Q = self.generalised(z, force, torque) + effort
        zdd = self.natural.accelerations(z[:, None], zd[:, None], Q[:, None])[:, 0]
        return np.concatenate([zd, zdd])


def turns(angles):
    """H of w = H angles', in world axes."""
    a, b, _ = angles
    return np.array(
        [
            [np.cos(b), 0.0, np.sin(b) * np.cos(a)],
            [0.0, 1.0, -np.sin(a)],
            [-np.sin(b), 0.0, np.cos(b) * np.cos(a)],
        ]
    )


def moments(z, Q):
    """Moments on segments in world axes from forces along the angles."""
    return np.array([np.linalg.solve(turns(z[i : i + 3]).T, Q[i : i + 3]) for i in range(3, G, 3)])


def start():
    first = COURSE.sample(np.array([0.0]))
    return np.concatenate([first.z[:, 0], first.zd[:, 0]])


def solved(rates, span, x):
    found = solve_ivp(rates, span, x, method="DOP853", rtol=1e-11, atol=1e-12)
    return found.y[:, -1]


@pytest.mark.study
def test_control_against_a_push(pushed):
    """PD efforts are generalised forces along the coordinates: of the equations of motion in
    natural coordinates the same motion follows."""
    equations, end = Equations(), 0.04

    def rates(t, x):
        here = COURSE.sample(np.array([t]))
        off, change = here.z[:, 0] - x[:G], here.zd[:, 0] - x[G:]
        effort = equations.gains * (off + 2.5e-5 * change)
        return equations.rates(t, x, *equations.needed(t), effort)

    expected = solved(rates, (0.0, end), start())
    found = run(pushed, 2e-4, end, control=PD(), method="rk4")
    np.testing.assert_allclose(found.z[:, -1], expected[:G], atol=1e-8)
    np.testing.assert_allclose(found.zd[:, -1], expected[G:], atol=1e-5)
    assert np.abs(found.error[:, -1]).max() > 1e-4
    found = run(pushed, 2e-4, end, control=PD())
    np.testing.assert_allclose(found.z[:, -1], expected[:G], atol=2e-5)


@pytest.mark.study
def test_sampled_control(pushed):
    """Held over each step: force and moments in the world of what was off at its begin."""
    equations, step = Equations(), 2e-3
    control = PD(Td=0.004, sampled=True)
    found = run(pushed, step, 0.02, control=control, method="rk4")
    x, before = start(), np.zeros(G)
    for k, t in enumerate(found.time[:-1]):
        off = COURSE.sample(np.array([t])).z[:, 0] - x[:G]
        effort = equations.gains * (off + control.Td * (off - before) / step)
        np.testing.assert_allclose(found.effort[:, k], effort, atol=2e-6)
        before, held = off, moments(x, effort)

        def rates(t, x, effort=effort, held=held):
            force, torque = equations.needed(t)
            return equations.rates(t, x, force + effort[:3], torque + held, 0.0)

        x = solved(rates, (t, t + step), x)
        np.testing.assert_allclose(found.z[:, k + 1], x[:G], atol=1e-8)
    assert np.abs(found.error[:, -1]).max() > 1e-4
    np.testing.assert_allclose(found.zd[:, -1], x[G:], atol=1e-6)


# -- what ends early --------------------------------------------------------------------------


def test_divergence(body):
    """A sampled controller that overshoots: the part computed is returned, with an instant and a
    segment."""
    with pytest.warns(UserWarning, match=r"ended at t = 0.0\d+ s with \w+ off by .* deg; diverged"):
        found = body.forward(COURSE, grid(1e-3), PD(1e9, Td=1e-3, sampled=True), "rk4")
    assert 1 < len(found.time) < 600 and found.z.shape == (G, len(found.time))
    assert found.effort.shape == found.error.shape == found.z.shape
    assert np.isfinite(found.z).all()
    np.testing.assert_allclose(found.time, grid(1e-3)[: len(found.time)], atol=1e-12)
    name, size = found.worst()
    assert found.message.startswith(f"ended at t = {found.time[-1]:.4g} s with {name} off by")
    assert name in {row.name for row in ROWS} and size > 0.0
    assert found.trajectory().message == found.message


@pytest.mark.study
def test_newton_that_fails(body):
    """Steps of 0.3 s are too long."""
    with pytest.warns(
        UserWarning,
        match=r"ended at t = 0.3 s with torso off by .* deg; Newton's "
        "method failed between t = 0.3 and 0.6 s",
    ):
        found = body.forward(COURSE, np.array([0.0, 0.3, 0.6]))
    assert len(found.time) == 2 and found.horizon(10.0) == pytest.approx(0.3)


@pytest.mark.study
def test_a_first_step_that_fails(body):
    """One step without control: what is left is the begin, and the message."""
    with pytest.warns(UserWarning, match="ended at t = 0 s"):
        found = body.forward(COURSE, np.array([0.0, 0.6]))
    assert len(found.time) == 1


def test_nodes_are_those_that_were_given(body):
    time = 0.003 * np.arange(100)
    np.testing.assert_allclose(body.forward(COURSE, time, method="rk4").time, time, atol=1e-12)


def test_a_course_may_be_a_function(body):
    time = grid(0.01, 0.1)
    one, two = (body.forward(course, time, method="rk4") for course in (COURSE, COURSE.sample))
    np.testing.assert_array_equal(one.z, two.z)
    with pytest.raises(ValueError, match="a Spline, or a function that gives Samples"):
        body.forward(3.0, time)


def test_bad_times(body):
    with pytest.raises(ValueError, match=r"times -0.09 .* are asked for, the spline is known for"):
        body.forward(COURSE, np.linspace(-0.09, 0.3, 40))
    with pytest.raises(ValueError, match="must be in equal steps"):
        body.forward(COURSE, [0.0, 0.001, 0.002, 0.1, 0.5])
    with pytest.raises(ValueError, match=r"method is one of .*, got 'euler'"):
        body.forward(COURSE, grid(0.01), method="euler")


# -- what is said of a walk -------------------------------------------------------------------


def tracking(error, effort=None, message=""):
    """A simulated motion that is off by this (15, N) at instants 2 s, 2.1 s, ..."""
    time, still = 2.0 + 0.1 * np.arange(error.shape[1]), np.zeros_like(error)
    return Tracking(
        ROWS,
        Samples(time, still, still, still),
        -error,
        still,
        np.zeros(G),
        still if effort is None else effort,
        "rk4",
        0.1,
        message,
    )


def test_horizon():
    """The first instant at which an angle beta is off by more than the limit, from the begin."""
    error = np.zeros((G, 8))
    error[3], error[5], error[2] = 9.0, 9.0, 9.0  # abduction, rotation, position
    assert tracking(error).horizon(1e-9) == np.inf
    error[4 + 3 * 2, 3:] = -0.2  # of the thigh
    error[4 + 3 * 1, 5:] = 0.5
    found = tracking(error)
    assert found.horizon(0.1) == pytest.approx(0.3)
    assert found.horizon(0.2) == pytest.approx(0.5)
    assert found.horizon(0.5) == np.inf
    assert tracking(error, message="ended").horizon(0.5) == pytest.approx(0.7)
    assert tracking(error, message="ended").horizon(0.1) == pytest.approx(0.3)


def test_worst():
    error = np.zeros((G, 2))
    error[0], error[9, -1], error[4, 0] = 5.0, -0.3, 2.0
    assert tracking(error).worst() == ("Rthigh", 0.3)


def test_peaks():
    effort = np.zeros((G, 5))
    effort[0, 2], effort[2, 4], effort[4 + 3 * 3, 1] = -3.0, 2.0, 7.0
    effort[3 + 3 * 3], effort[5 + 3 * 3] = 9.0, 9.0
    rows = tracking(0 * effort, effort).peaks(["Rshank", "pelvis"])
    assert [label for label, _, _ in rows] == ["F_x", "F_y", "F_z", "M_y Rshank", "M_y pelvis"]
    np.testing.assert_allclose([size for _, size, _ in rows], [3.0, 0.0, 2.0, 7.0, 0.0])
    np.testing.assert_allclose([when for _, _, when in rows], [2.2, 2.0, 2.4, 2.1, 2.0])
    with pytest.raises(ValueError, match="there is no segment 'shank'; did you mean Rshank"):
        tracking(effort).peaks(["shank"])


def test_table_of_a_walk(body):
    found = run(body, 0.01, 0.1, control=PD(), method="rk4")
    table = found.trajectory()
    np.testing.assert_array_equal(table["Rshank_y"], found.z[13])
    np.testing.assert_array_equal(table["Rshank_y_reference"], found.reference.z[13])
    np.testing.assert_array_equal(table["J1_pz_effort"], found.effort[2])
    kinematics = NaturalBody(ROWS).kinematics(found.z, found.zd, 0 * found.z)
    k = 3 * NaturalBody(ROWS).points["RA"]
    np.testing.assert_allclose(table.vector("RA"), kinematics.q[k : k + 3], atol=1e-14)
    A = found.attitude("Rshank", found.z)
    np.testing.assert_allclose(np.linalg.det(A.transpose(2, 0, 1)), 1.0, atol=1e-12)
    arm = kinematics.q[k : k + 3] - table.vector("RK")
    np.testing.assert_allclose(np.einsum("ijn,j->in", A, ROWS[-1].points["RA"]), arm, atol=1e-12)
