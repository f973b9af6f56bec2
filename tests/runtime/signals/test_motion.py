"""The motion of a base against independent kinematics: complex step, scipy, a model of a tree."""

import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.multibody import Body, PrescribedBase, Tree
from kinesym.runtime.signals.motion import ACCELERATIONS, SEQUENCES, Motion, Recording

RNG = np.random.default_rng(7)
OMEGA = RNG.uniform(0.4, 2.5, (6, 4))
AMPLITUDE = RNG.uniform(0.05, 0.2, (6, 4))
PHASE = RNG.uniform(0.0, 2.0 * np.pi, (6, 4))
TIME = np.linspace(-3.0, 12.0, 61)
NAMES = [f"ship_{kind}{axis}" for kind in ("", "w", "dw", "a", "v", "p") for axis in "xyz"]
H = 1e-30  # of the complex step: no difference is taken, so it can be tiny


# -- a second formulation, for complex times ------------------------------------------------


def angles_and_place(t):
    """(2, 6, n): values and first derivatives, cosines as sines a quarter period ahead."""
    wave = AMPLITUDE[:, :, None] * np.sin(OMEGA[:, :, None] * t + PHASE[:, :, None])
    quarter = AMPLITUDE[:, :, None] * np.sin(OMEGA[:, :, None] * t + PHASE[:, :, None] + np.pi / 2)
    return np.array([wave.sum(axis=1), (OMEGA[:, :, None] * quarter).sum(axis=1)])


def skew(axis):
    return np.cross(np.eye(3)[axis], np.eye(3)).T


def attitude(t, sequence):
    """The attitude and its derivative, (n, 3, 3), by Rodrigues' formula and the product rule."""
    q, dq = angles_and_place(t)
    whole, slope = np.eye(3)[None], np.zeros((1, 3, 3))
    for axis in map("xyz".index, sequence):
        S, s, c = skew(axis), np.sin(q[axis])[:, None, None], np.cos(q[axis])[:, None, None]
        turn = np.eye(3) + s * S + (1.0 - c) * (S @ S)
        change = dq[axis][:, None, None] * (c * S + s * (S @ S))
        whole, slope = whole @ turn, slope @ turn + whole @ change
    return whole, slope


def axial(matrix):
    return np.array([matrix[:, 2, 1], matrix[:, 0, 2], matrix[:, 1, 0]])


def angular_velocity(t, sequence):
    whole, slope = attitude(t, sequence)
    return axial(np.swapaxes(whole, 1, 2) @ slope)


def slope_of(function, time, *arguments):
    return np.imag(function(time + 1j * H, *arguments)) / H


def turned(angles, sequence):
    """The attitude by scipy."""
    return Rotation.from_euler(sequence.upper(), angles[["xyz".index(a) for a in sequence]].T)


def ship(sequence="xyz"):
    return Motion.harmonics(OMEGA, AMPLITUDE, PHASE, sequence)


# -- kinematics -----------------------------------------------------------------------------


def test_harmonics_have_exact_derivatives():
    slopes = slope_of(angles_and_place, TIME)
    exact = [angles_and_place(TIME)[0], *slopes]
    np.testing.assert_allclose(ship().coordinates(TIME), exact, atol=1e-14)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_kinematics_against_complex_step(sequence):
    values = ship(sequence).kinematics(TIME)
    whole, slope = attitude(TIME, sequence)
    change = slope_of(lambda t: attitude(t, sequence)[0], TIME)
    np.testing.assert_allclose(slope, change, atol=1e-14)
    np.testing.assert_allclose(whole, turned(values[""], sequence).as_matrix(), atol=1e-14)
    np.testing.assert_allclose(values["w"], angular_velocity(TIME, sequence), atol=1e-14)
    change = slope_of(angular_velocity, TIME, sequence)
    np.testing.assert_allclose(values["dw"], change, atol=1e-13)
    speed, acceleration = slope_of(angles_and_place, TIME)[:, 3:]
    np.testing.assert_allclose(values["v"], np.einsum("nji,jn->in", whole, speed), atol=1e-14)
    seen = np.einsum("nji,jn->in", whole, acceleration)
    np.testing.assert_allclose(values["a"], seen, atol=1e-14)
    np.testing.assert_allclose(values["p"], angles_and_place(TIME)[0, 3:], atol=1e-14)


@pytest.mark.parametrize("sequence", ["xyz", "zyx"])
def test_angular_velocity_is_the_limit_of_rotation_vectors(sequence):
    """The vector of R(t - h)^T R(t + h) divided by 2 h, extrapolated to h = 0."""

    def mean(h):
        before, after = (turned(ship(sequence).coordinates(TIME + d)[0], sequence) for d in (-h, h))
        return (before.inv() * after).as_rotvec().T / (2.0 * h)

    limit = (4.0 * mean(1e-3) - mean(2e-3)) / 3.0
    np.testing.assert_allclose(ship(sequence).kinematics(TIME)["w"], limit, atol=1e-10)


@pytest.mark.parametrize("sequence", ["xyz", "yzx"])
def test_another_point(sequence):
    arm = np.array([3.0, -2.0, 5.0])
    moved = ship(sequence).at(arm)
    value, first, second = moved.coordinates(TIME)

    def place(t):
        return angles_and_place(t)[0, 3:] + np.einsum("nij,j->in", attitude(t, sequence)[0], arm)

    def velocity(t):
        return angles_and_place(t)[1, 3:] + np.einsum("nij,j->in", attitude(t, sequence)[1], arm)

    np.testing.assert_allclose(value[3:], place(TIME), atol=1e-13)
    np.testing.assert_allclose(first[3:], slope_of(place, TIME), atol=1e-13)
    np.testing.assert_allclose(second[3:], slope_of(velocity, TIME), atol=1e-12)
    np.testing.assert_array_equal(moved.kinematics(TIME)["w"], ship(sequence).kinematics(TIME)["w"])
    back = moved.at(-arm).coordinates(TIME)
    np.testing.assert_allclose(back, ship(sequence).coordinates(TIME), atol=1e-12)


def test_froude_scaling():
    full = ship().scaled(25.0)
    model, large = ship().kinematics(TIME), full.kinematics(5.0 * TIME)
    factors = {"": 1.0, "w": 1 / 5, "dw": 1 / 25, "a": 1.0, "v": 5.0, "p": 25.0}
    for kind, factor in factors.items():
        np.testing.assert_allclose(large[kind], factor * model[kind], rtol=1e-12, atol=1e-14)
    assert Motion(ship().coordinates, (1.0, 4.0)).scaled(4.0).span == (2.0, 8.0)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_flipped_axes(sequence):
    down, up = ship(sequence), ship(sequence).flipped()
    signs = np.array([1.0, -1.0, -1.0])[:, None]
    given, found = down.kinematics(TIME), up.kinematics(TIME)
    for kind, rows in given.items():
        np.testing.assert_allclose(found[kind], signs * rows, atol=1e-15)
    before, after = (turned(rows[""], sequence).as_matrix() for rows in (given, found))
    reverse = np.diag(signs[:, 0])
    np.testing.assert_allclose(after, reverse @ before @ reverse, atol=1e-15)
    np.testing.assert_array_equal(up.flipped().coordinates(TIME), down.coordinates(TIME))


# -- samples --------------------------------------------------------------------------------


def sampled(step, cutoff=None, noise=0.0):
    time = np.arange(0.0, 40.0 + 0.5 * step, step)
    rows = ship().coordinates(time)[0]
    rows = rows + noise * np.random.default_rng(1).standard_normal(rows.shape)
    return Motion.samples(time, rows[:3], rows[3:], cutoff)


def errors(motion, margin, fine=np.linspace(0.0, 40.0, 4001)):  # noqa: B008
    """Largest errors of value, first and second derivative, relative to the largest of each."""
    time = fine[(fine >= margin) & (fine <= 40.0 - margin)]
    exact = ship().coordinates(time)
    return np.abs(motion.coordinates(time) - exact).max(axis=(1, 2)) / np.abs(exact).max(
        axis=(1, 2)
    )


def test_samples_reproduce_derivatives():
    """At 10 Hz, 25 samples of the shortest period; largest errors at the ends and inside."""
    assert (errors(sampled(0.1), 0.0) < [3e-6, 2e-4, 3e-3]).all()
    assert (errors(sampled(0.1), 1.0) < [2e-8, 2e-7, 5e-6]).all()


def test_samples_converge():
    """Orders 6, 5 and 4 of value and derivatives, inside and up to the ends."""
    found = np.array([errors(sampled(step), 0.0) for step in (0.2, 0.1, 0.05)])
    orders = np.log2(found[:-1] / found[1:])
    assert (orders.min(axis=0) > [5.0, 4.3, 3.4]).all()
    inside = np.array([errors(sampled(step), 6.0) for step in (0.4, 0.2, 0.1)])
    assert (np.log2(inside[:-1] / inside[1:]).min(axis=0) > [5.5, 5.0, 3.8]).all()


def test_uneven_samples():
    time = np.cumsum(np.random.default_rng(2).uniform(0.05, 0.1, 600))
    rows = ship().coordinates(time)[0]
    motion = Motion.samples(time, rows[:3], rows[3:])
    inside = np.linspace(time[20], time[-20], 999)
    np.testing.assert_allclose(motion.coordinates(inside), ship().coordinates(inside), atol=1e-5)
    assert motion.span == (time[0], time[-1])
    assert not Motion.samples(time, rows[:3]).kinematics(inside)["p"].any()


@pytest.mark.parametrize("frequency", [0.5, 1.0, 2.0, 3.0])
def test_gain_of_the_low_pass(frequency):
    """1/sqrt(2) at the cutoff of 2 Hz, no lag; the bilinear transform bends other frequencies."""
    time, omega = np.arange(0.0, 40.0, 0.02), 2.0 * np.pi * frequency
    rows = 0.1 * np.sin(omega * time)
    smooth = Motion.samples(time, [rows, rows, rows], cutoff=2.0).coordinates(time)[0, 0]
    inside = slice(500, 1500)  # whole periods
    parts = np.array([np.sin(omega * time), np.cos(omega * time)])[:, inside]
    along, across = parts @ smooth[inside] / 500.0 / 0.1
    bent = np.tan(np.pi * frequency * 0.02) / np.tan(np.pi * 2.0 * 0.02)
    assert along == pytest.approx(1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * bent**4), abs=1e-9)
    assert abs(across) < 1e-9


def test_smoothing_makes_noise_bearable():
    """Noise of 1 mm and 1 mrad at 50 Hz makes accelerations of 10 m/s^2, smoothed at 2 Hz 0.04."""
    rough, smooth = sampled(0.02, noise=1e-3), sampled(0.02, 2.0, noise=1e-3)
    inside = np.linspace(2.0, 38.0, 2001)
    found = [
        np.std((m.coordinates(inside) - ship().coordinates(inside))[2]) for m in (rough, smooth)
    ]
    assert 5.0 < found[0] < 20.0 and found[1] < 0.05


def test_smoothing_at_the_ends():
    """A tenth of the largest acceleration at worst; reflected padding is wrong by all of it."""
    assert errors(sampled(0.05, 2.0), 0.0)[2] < 0.1
    assert errors(sampled(0.05, 2.0), 1.0)[2] < 0.02


# -- inputs of models -----------------------------------------------------------------------


def between(time, inputs):
    """Inputs at nodes and halfway."""
    fine = np.interp(np.arange(2 * len(time) - 1) / 2, np.arange(len(time)), time)
    return {name: signal(fine) for name, signal in inputs.items()}


def test_inputs_have_midpoints_and_names():
    time = np.array([0.0, 0.1, 0.3, 1.0])
    inputs = between(time, ship().inputs("ship", time, ["T", *NAMES, "ship_roll", "shipyard_x"]))
    assert list(inputs) == NAMES
    grid = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.65, 1.0])
    values = ship().kinematics(grid)
    np.testing.assert_allclose(inputs["ship_dwy"], values["dw"][1], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(inputs["ship_pz"], values["p"][2], rtol=1e-14, atol=1e-14)
    assert list(ship().inputs("ship", time, [ks.dynamicsymbols("ship_wz")])) == ["ship_wz"]


def test_kinds_of_acceleration():
    time = np.linspace(0.0, 5.0, 11)
    fine = np.linspace(0.0, 5.0, 21)  # and midpoints
    names = [f"ship_{kind}{a}" for kind in ACCELERATIONS.values() for a in "xyz"]
    given = between(time, ship("zyx").inputs("ship", time, names))
    rows = {
        how: np.array([given[f"ship_{kind}{a}"] for a in "xyz"])
        for how, kind in ACCELERATIONS.items()
    }

    def velocity(t):  # components in base axes
        whole, _ = attitude(t, "zyx")
        return np.einsum("nji,jn->in", whole, angles_and_place(t)[1, 3:])

    np.testing.assert_allclose(rows["derivative"], slope_of(velocity, fine), atol=1e-14)
    whole, _ = attitude(fine, "zyx")
    np.testing.assert_allclose(rows["imu"] - rows["kinematic"], 9.81 * whole[:, 2].T, atol=1e-14)
    still = Motion.harmonics(1.0, np.zeros((6, 1)), 0.0)
    felt = still.inputs("ship", time, ["ship_imuz"], gravity=(0, 0, 9.81))  # z down
    felt = between(time, felt)
    np.testing.assert_allclose(felt["ship_imuz"], np.full(21, -9.81), rtol=1e-15)


@pytest.mark.parametrize("acceleration", ACCELERATIONS)
def test_force_on_a_body_of_a_model(acceleration):
    """m (acceleration of its centre of mass - g), which `at` knows, whatever the input means."""
    body = Body("man", 70.0, (0.1, -0.2, 0.9), (12.0, 11.0, 2.0), at=(1.0, 2.0, 3.0))
    tree = Tree("t", [body], PrescribedBase("ship", "zyx", acceleration), (0, 0, -9.81)).lock("man")
    model = tree.model({}, dict(zip(["Fx", "Fy", "Fz"], tree.wrench()[0], strict=True)))
    time, motion = np.linspace(0.0, 5.0, 26), ship("zyx")
    given = between(time, motion.inputs("ship", time, model.input_names))
    none = np.zeros((0, 51))
    rows = np.array([given[name] for name in model.input_names])
    still = np.zeros(len(model.parameter_names))  # angles of the joint
    found = ks.compile(model).outputs(none, none, rows, still, np.linspace(0.0, 5.0, 51))
    names = [f"ship_imu{a}" for a in "xyz"]
    felt = between(time, motion.at((1.1, 1.8, 3.9)).inputs("ship", time, names))
    np.testing.assert_allclose(found, [70.0 * felt[name] for name in names], atol=1e-9)


def test_simulation_takes_the_samples():
    """A mass on a spring that is shaken; midpoints make RK4 ten times as exact as nodes do."""
    x, v, a = ks.dynamicsymbols("x v ship_ax")
    model = ks.Model("shaken", [x, v], [a], [], [x.diff(ks.t) - v, v.diff(ks.t) + 4 * x + a])
    motion = Motion.harmonics(1.5, [[0.0]] * 3 + [[0.2]] + [[0.0]] * 2, 0.0)
    time = np.linspace(0.0, 10.0, 201)
    inputs = motion.inputs("ship", time, model.input_names)
    run = ks.simulate(model, time, {x: 0.0, v: 0.0}, inputs=inputs)
    force = 0.2 * 1.5**2 / (4.0 - 1.5**2)
    exact = force * (np.sin(1.5 * time) - 0.75 * np.sin(2.0 * time))
    np.testing.assert_allclose(run["x"], exact, atol=1e-5)


# -- recordings -----------------------------------------------------------------------------

SAMPLES = 0.005 * np.arange(6001)


def recording(**changes):
    values = ship("zyx").kinematics(SAMPLES)
    given = {
        "time": SAMPLES,
        "angles": values[""],
        "rates": values["w"],
        "angular_accelerations": values["dw"],
        "accelerations": values["a"],
        "acceleration": "kinematic",
        "velocities": values["v"],
        "sequence": "zyx",
    }
    return Recording(**{**given, **changes})


def test_recorded_samples_are_handed_on():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = recording()
    time = np.linspace(2.0, 30.0, 2801)  # midpoints are samples of the record
    inputs = between(time, record.inputs("ship", time, NAMES[:15]))
    values = ship("zyx").kinematics(SAMPLES[400:])
    np.testing.assert_allclose(inputs["ship_z"], values[""][2], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(inputs["ship_wx"], values["w"][0], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(inputs["ship_ay"], values["a"][1], rtol=1e-14, atol=1e-14)
    uneven = np.array([0.0, 0.01, 0.05, 0.06])
    row = between(uneven, record.inputs("ship", uneven, ["ship_vx"]))["ship_vx"]
    samples = recording().velocities[0][[0, 1, 2, 6, 10, 11, 12]]
    np.testing.assert_allclose(row, samples, rtol=1e-14, atol=1e-14)


def test_recorded_samples_are_interpolated_only_if_asked():
    record, time = recording(), np.linspace(0.0, 30.0, 6001)
    with pytest.raises(
        ValueError,
        match=r"half steps are missing: the record has 0\.005 s between "
        r"samples, the run needs 0\.0025 s; interpolate=True",
    ):
        record.inputs("ship", time, NAMES[:12])
    inputs = between(time, record.inputs("ship", time, NAMES[:12], interpolate=True))
    exact = between(time, ship("zyx").inputs("ship", time, NAMES[:12]))
    for name in NAMES[:12]:
        np.testing.assert_allclose(inputs[name], exact[name], atol=1e-7)
    np.testing.assert_allclose(inputs["ship_wx"][::2], record.rates[0], atol=1e-15)
    with pytest.raises(ValueError, match=r"no sample at 0\.003 s; interpolate=True"):
        record.inputs("ship", [0.0, 0.006, 0.01], NAMES[:3])


def test_a_recording_that_is_too_short():
    with pytest.raises(ValueError, match=r"needs 40 s, the record ends at 30 s"):
        recording().inputs("ship", np.linspace(0.0, 40.0, 4001), NAMES[:3])
    with pytest.raises(ValueError, match=r"needs -1 s, the record begins at 0 s"):
        recording().inputs("ship", np.linspace(-1.0, 4.0, 501), NAMES[:3])


def test_what_was_not_recorded():
    place = recording().inputs("ship", SAMPLES[::2], NAMES)["ship_px"]
    assert not place(SAMPLES).any()  # it is for pictures only
    with pytest.raises(ValueError, match=r"needs ship_vx, which was not recorded: .* energy"):
        recording(velocities=None).inputs("ship", SAMPLES[::2], NAMES)
    with pytest.raises(ValueError, match="need velocities="):
        recording(velocities=None, acceleration="derivative")
    with pytest.raises(ValueError, match="say what the accelerations are: acceleration="):
        Recording(SAMPLES, *np.zeros((4, 3, 6001)))


@pytest.mark.parametrize(
    "change",
    [
        lambda v: {"rates": np.degrees(v["w"])},
        lambda v: {"rates": v["w"] * [[1.0], [-1.0], [1.0]]},
        lambda v: {"rates": v["w"][[1, 0, 2]]},
        lambda v: {"rates": ship("zyx").coordinates(SAMPLES)[1, :3]},  # rates of the angles
        lambda v: {"rates": v["w"] + 0.2},
        lambda v: {"sequence": "xyz"},
    ],
    ids=["degrees", "sign", "axes", "rates of angles", "offset", "sequence"],
)
def test_a_wrong_angular_velocity_is_noticed(change):
    values = ship("zyx").kinematics(SAMPLES)
    words = (
        r"differs from that of the angles by .* of its root mean square, most about [xyz] at .* s: "
        r".*, not .* rad/s; check units"
    )
    with pytest.warns(UserWarning, match=words):
        recording(**change(values))


def test_small_errors_are_tolerated():
    values = ship("zyx").kinematics(SAMPLES)
    noise = np.random.default_rng(3).standard_normal(values["w"].shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording(rates=values["w"] + 0.005 + 0.01 * noise)
        recording(angles=values[""] + 3e-4 * noise)  # derivatives with noise of 0.07 rad/s
        recording(angles=np.zeros((3, 6001)) + 0.3, rates=np.zeros((3, 6001)))


# -- what does not fit ----------------------------------------------------------------------


def test_a_run_outside_the_span():
    motion = sampled(0.1)
    motion.inputs("ship", np.linspace(0.0, 40.0, 40001), NAMES)  # rounding of the grid is no matter
    with pytest.raises(ValueError, match=r"known for 0 \.\.\. 40 s, but needed for 0 \.\.\. 41 s"):
        motion.inputs("ship", np.linspace(0.0, 41.0, 42), NAMES)
    with pytest.raises(ValueError, match=r"needed for -1 \.\.\. 3 s"):
        motion.kinematics([3.0, -1.0])


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: ship("xyx"), "sequence is one of xyz, xzy"),
        (lambda: Motion(ship().coordinates, (1.0, 1.0)), "span"),
        (
            lambda: ship().inputs("boat", [0, 1], ["ship_x"]),
            "ship_x belongs to a base 'boat', such as",
        ),
        (lambda: ship().inputs("ship", [0, 1], []), "there are none"),
        (lambda: ship().inputs("ship", [0, 1], NAMES, 9.81), "three finite components"),
        (lambda: ship().kinematics([0.0, np.nan]), "finite"),
        (lambda: ship().kinematics(1.0), "times must be"),
        (lambda: ship().at((1, 2)), "three finite"),
        (lambda: ship().scaled(-1.0), "scale of lengths"),
        (lambda: Motion(lambda t: np.zeros((3, 6))).kinematics([0.0]), r"return \(3, 6, 1\), got"),
        (lambda: Motion.harmonics(1.0, np.ones(6), 0.0), r"must be \(6, K\)"),
        (lambda: Motion.harmonics(np.ones(3), np.ones((6, 4)), 0.0), r"must be \(6, K\)"),
        (lambda: Motion.harmonics([1, np.inf], np.ones((6, 2)), 0.0), "omega of row 0, harmonic 1"),
        (lambda: recording(acceleration="raw"), "acceleration is one of"),
        (lambda: recording(accelerations=np.zeros((3, 5))), r"accelerations must be \(3, 6001\)"),
        (
            lambda: recording(angles=np.full((3, 6001), np.nan)),
            "angles: 18003 values are not finite",
        ),
    ],
)
def test_bad_motions(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_bad_samples():
    time, angles = 0.1 * np.arange(100), np.zeros((3, 100))
    broken = angles.copy()
    broken[1, 40:42] = np.nan
    wrapped = angles + np.where(time > 5.0, -3.0, 3.0)
    cases = [
        ((time, broken), {}, r"angles: 2 values are not finite, the first for axis y at index 40"),
        ((time, wrapped), {}, r"about x jumps from 3 to -3 rad at 5 s; numpy\.unwrap"),
        ((-time, angles), {}, "time must increase"),
        ((time, angles.T), {}, r"angles must be \(3, 100\), rows x, y, z, got \(100, 3\)"),
        ((time, angles, angles[0]), {}, r"place must be \(3, 100\)"),
        ((time[:5], angles[:, :5]), {}, "at least 6 samples"),
        ((time, angles), {"cutoff": 6.0}, r"between 0\.2 Hz, two periods in the record, and 5 Hz"),
        ((time, angles), {"cutoff": 0.1}, "half the sampling rate, got 0.1"),
        ((time**1.1, angles), {"cutoff": 2.0}, "needs uniform samples; step 0 is"),
    ]
    for given, named, match in cases:
        with pytest.raises(ValueError, match=match):
            Motion.samples(*given, **named)


def test_degrees_are_noticed():
    time = 0.1 * np.arange(100)
    angles = 7.5 * np.sin([time, time, time])
    with pytest.warns(UserWarning, match="look like degrees") as caught:
        Motion.samples(time, angles)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning) as caught:
        recording(angles=40.0 * ship().coordinates(SAMPLES)[0, :3])
    assert [w.filename for w in caught] == [__file__, __file__]
