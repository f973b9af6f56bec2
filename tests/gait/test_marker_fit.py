"""Inverse kinematics by closed forms, by SciPy's least squares, and beside OpenSim's result."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import eigh
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.examples.studies import video_to_torques
from kinesym.gait import marker_steps
from kinesym.gait.marker_inputs import compiled, matched, measured_of, numbers_of
from kinesym.gait.marker_squares import Smoothness, Squares, weight_of_cutoff
from kinesym.gait.marker_steps import definite
from kinesym.models.scaling import factors_of, scaled
from kinesym.multibody import Body, FixedBase, Free, PrescribedBase, Prismatic, Revolute, Tree
from kinesym.runtime.losses import RobustLoss
from kinesym.symbolic.losses import Loss

OPENSIM = Path(__file__).parents[1] / "data" / "opensim"
EXAMPLES = Path(ks.__file__).parents[1] / "examples" / "data"
UPPER, LOWER = 0.4, 0.3


def arm():
    """Two links in the plane x z; angles turn about y."""
    length = sp.Symbol("length")
    bodies = [
        Body("upper", 2, (0, 0, -0.2), (0, 0.03, 0), Revolute("y")),
        Body("lower", 1, (0, 0, -0.1), (0, 0.01, 0), Revolute("y"), (0, 0, -length), "upper"),
    ]
    return Tree("arm", bodies, values={"length": UPPER, "g": 9.81})


ON_ARM = {
    "elbow": ("upper", (0.0, 0.0, -UPPER)),
    "upper": ("upper", (0.04, 0.02, -0.2)),
    "lower": ("lower", (-0.03, 0.01, -0.1)),
    "wrist": ("lower", (0.0, 0.0, -LOWER)),
}
NAMES = ("upper_y", "lower_y")


def places_on_arm(q):
    """Markers (3 T,) of the arm, by hand."""
    turns = Rotation.from_rotvec([[0, q[0], 0], [0, q[0] + q[1], 0]])
    elbow = turns[0].apply([0, 0, -UPPER])
    return np.concatenate(
        [
            turns[0].apply(at) if body == "upper" else elbow + turns[1].apply(at)
            for body, at in ON_ARM.values()
        ]
    )


def swing(count=60, noise=0.003, seed=0, spoil=0.0):
    """Time, coordinates (2, N), and markers with noise."""
    rng, t = np.random.default_rng(seed), np.arange(count) / 100.0
    q = np.array([0.5 * np.sin(5.0 * t), 0.4 + 0.6 * np.sin(7.0 * t + 1.0)])
    rows = np.array([places_on_arm(column) for column in q.T]).T
    rows = rows + noise * rng.normal(size=rows.shape)
    rows[9:, 20:28] += spoil
    return t, q, ks.gait.Markers(t, dict(zip(ON_ARM, rows.reshape(-1, 3, count), strict=True)))


# -- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_free_body_is_where_the_svd_puts_it(seed):
    """Kabsch (1976): the rotation of least squares, for any attitude, far from the guess."""
    rng = np.random.default_rng(seed)
    tree = Tree("box", [Body("box", 1, inertia=(1, 1, 1), joint=Free("xyz"))], gravity=(0, 0, 0))
    local = rng.normal(scale=0.2, size=(5, 3))
    turns = Rotation.from_rotvec(rng.uniform(-3.0, 3.0) * np.array([0.3, -0.2, 1.0]))
    placed = {f"m{k}": ("box", at) for k, at in enumerate(local)}
    t = np.linspace(0.0, 0.4, 9)
    wobble = Rotation.from_euler("xyz", 0.2 * np.sin(9.0 * t[:, None] + [0.0, 1.0, 2.0]))
    rows = np.array([(r * turns).apply(local) + [3.0, -2.0, 1.0] for r in wobble])
    rows += 0.01 * rng.normal(size=rows.shape)
    markers = ks.gait.Markers(t, {name: rows[:, k].T for k, name in enumerate(placed)})
    fit = ks.gait.fit_markers(tree, placed, markers)
    for k in range(len(t)):
        center = local.mean(axis=0), rows[k].mean(axis=0)
        U, _, V = np.linalg.svd((local - center[0]).T @ (rows[k] - center[1]))
        R = V.T @ np.diag([1.0, 1.0, np.linalg.det(V.T @ U.T)]) @ U.T
        angles = [fit[f"box_{axis}"][k] for axis in "xyz"]
        ours = Rotation.from_euler("XYZ", angles).as_matrix()
        assert np.abs(ours - R).max() < 1e-6
        off = np.linalg.norm((local - center[0]) @ R.T + center[1] - rows[k], axis=1)
        assert [d[k] for d in fit.distances.values()] == pytest.approx(off, abs=1e-7)
    assert np.all(np.abs(np.diff([fit[f"box_{axis}"] for axis in "xyz"])) < 1.0)  # no jumps


def test_standard_errors_of_a_pendulum():
    """One marker at the distance L: sigma/L, and the noise of two residuals of three."""
    rng, N = np.random.default_rng(3), 4000
    tree = Tree("rod", [Body("rod", 1, (0, 0, -0.5), (0, 0.1, 0), Revolute("y"))])
    t = np.arange(N) / 100.0
    q = 0.8 * np.sin(3.0 * t)
    rows = 0.5 * np.array([-np.sin(q), 0.0 * q, -np.cos(q)]) + 0.004 * rng.normal(size=(3, N))
    fit = ks.gait.fit_markers(
        tree, {"tip": ("rod", (0, 0, -0.5))}, ks.gait.Markers(t, {"tip": rows})
    )
    assert fit.noise == pytest.approx(0.004, rel=0.03)
    assert fit.std["rod_y"] == pytest.approx(0.008, rel=0.03)
    assert np.std(fit["rod_y"] - q) == pytest.approx(0.008, rel=0.05)
    assert fit["rod_y"] == pytest.approx(np.arctan2(-rows[0], -rows[2]), abs=1e-7)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_smooth_course_is_a_filter(order):
    """A slider is linear: (1 + w D'D)^-1 y, s^2 (1 + w D'D)^-1, 1/sqrt(2) at the cutoff, and at
    twice the frequency what Butterworth's filter leaves, to and fro."""
    tree = Tree("cart", [Body("cart", 1, joint=Prismatic("x"))])
    t, rng = np.arange(400) / 100.0, np.random.default_rng(0)
    y = 0.2 * np.sin(2.0 * np.pi * 5.0 * t) + 0.002 * rng.normal(size=400)
    rows = np.array([y, 0.001 * rng.normal(size=400), 0.001 * rng.normal(size=400)])
    placed = {"m": ("cart", (0, 0, 0))}
    markers = ks.gait.Markers(t, {"m": rows})
    law = ks.gait.Butterworth(5.0, order)
    fit = ks.gait.fit_markers(tree, placed, markers, smooth=law if order != 2 else 5.0)
    D = np.diff(np.eye(400), order, axis=0)
    H = np.eye(400) + weight_of_cutoff(5.0, 100.0, order) * D.T @ D
    assert fit["cart_px"] == pytest.approx(np.linalg.solve(H, y), abs=1e-8)
    assert fit.std["cart_px"] == pytest.approx(fit.noise * np.sqrt(np.diag(np.linalg.inv(H))))
    middle = slice(100, 300)
    ratio = np.ptp(fit["cart_px"][middle]) / np.ptp(0.2 * np.sin(2.0 * np.pi * 5.0 * t[middle]))
    assert ratio == pytest.approx(2.0**-0.5, abs=0.01)
    fast, low = np.sin(2.0 * np.pi * 10.0 * t), slice(150, 250)
    ours = np.ptp(np.linalg.solve(H, fast)[low])
    assert ours == pytest.approx(np.ptp(law(fast, 100.0)[low]), abs=0.04)


def test_differences_as_bands():
    D = np.diff(np.eye(12), 3, axis=0)
    smooth = Smoothness(3, 0.7, np.eye(1))
    for k, band in enumerate(smooth.bands(12)):
        assert band == pytest.approx(np.diag(0.7 * D.T @ D, k))
    q = np.random.default_rng(0).normal(size=(1, 12))
    cost, slope = smooth.cost(q)
    assert cost == pytest.approx(0.7 * np.sum((q @ D.T) ** 2))
    assert slope == pytest.approx(0.7 * q @ D.T @ D)


# -- SciPy as an independent engine ---------------------------------------------------------------


@pytest.mark.parametrize("bounded", [False, True])
def test_as_scipy_does_it_frame_by_frame(bounded):
    t, _, markers = swing()
    markers.positions["wrist"][:, 5:9] = np.nan
    weights = {"elbow": 3.0, "lower": 0.5}
    limits = {"lower_y": (0.0, 0.8)} if bounded else None
    fit = ks.gait.fit_markers(arm(), ON_ARM, markers, weights=weights, limits=limits)
    root = np.repeat([np.sqrt(weights.get(name, 1.0)) for name in ON_ARM], 3)
    for k in range(0, len(t), 3):
        measured = np.concatenate([markers[name][:, k] for name in ON_ARM])

        def residuals(q, measured=measured):
            return np.nan_to_num(root * (places_on_arm(q) - measured))

        bounds = ([-np.inf, 0.0], [np.inf, 0.8]) if bounded else (-np.inf, np.inf)
        found = least_squares(residuals, [0.1, 0.4], bounds=bounds, xtol=1e-14, gtol=1e-14)
        at_bound = bounded and (found.x[1] < 1e-6 or found.x[1] > 0.8 - 1e-6)
        # SciPy stays inside bounds
        assert [fit[n][k] for n in NAMES] == pytest.approx(found.x, abs=2e-5 if at_bound else 2e-7)
        if at_bound:
            assert fit.std["lower_y"][k] == 0.0
    assert np.isnan(fit.distances["wrist"][5:9]).all()
    if bounded:
        assert fit["lower_y"].min() == 0.0 and fit["lower_y"].max() == 0.8


def test_as_scipy_does_it_with_all_instants_and_limits():
    """Smoothness and limits at once: the same minimum as of a dense solver."""
    _, _, markers = swing(24)
    fit = ks.gait.fit_markers(arm(), ON_ARM, markers, smooth=8.0, limits={"upper_y": (-0.1, 0.4)})
    free = ks.gait.fit_markers(arm(), ON_ARM, markers, limits={"upper_y": (-0.1, 0.4)})
    measured = np.concatenate([markers[name] for name in ON_ARM])

    def jacobian(q, h=1e-6):
        steps = h * np.eye(2)
        return np.array([(places_on_arm(q + s) - places_on_arm(q - s)) / (2 * h) for s in steps]).T

    J = [jacobian(np.array([free[n][k] for n in NAMES])) for k in range(24)]
    M = np.mean([j.T @ j for j in J], axis=0)
    root = np.sqrt(weight_of_cutoff(8.0, 100.0, 2)) * np.linalg.cholesky(M).T

    def residuals(x):
        q = x.reshape(2, -1)
        gaps = [places_on_arm(column) - m for column, m in zip(q.T, measured.T, strict=True)]
        return np.concatenate([np.ravel(gaps), np.ravel(root @ np.diff(q, 2, axis=1))])

    lower = np.repeat([-0.1, -np.inf], 24)
    upper = np.repeat([0.4, np.inf], 24)
    x = np.clip(np.concatenate([fit[n] for n in NAMES]) + 0.01, lower + 1e-3, upper - 1e-3)
    found = least_squares(residuals, x, bounds=(lower, upper), xtol=1e-13, ftol=1e-14, gtol=1e-13)
    ours = np.concatenate([fit[n] for n in NAMES])
    assert ours == pytest.approx(found.x, abs=1e-4)
    assert np.sum(residuals(ours) ** 2) <= 2.0 * found.cost * (1.0 + 1e-7)
    assert fit["upper_y"].max() == 0.4


@pytest.mark.parametrize("loss", ["huber", "pseudo-huber", "student"])
def test_markers_that_jump_count_little(loss):
    _, q, markers = swing(spoil=0.12)
    with pytest.warns(UserWarning, match=r"cm off at .* is it on this body"):
        squares = ks.gait.fit_markers(arm(), ON_ARM, markers)
    with pytest.warns(UserWarning, match="'wrist' is .* cm off"):
        robust = ks.gait.fit_markers(arm(), ON_ARM, markers, loss=loss)
    off = [np.abs(fit["lower_y"] - q[1])[20:28].max() for fit in (squares, robust)]
    assert off[1] < 0.6 * off[0]
    assert robust.noise < 0.6 * squares.noise
    clean = swing()[2]
    fit = ks.gait.fit_markers(arm(), ON_ARM, clean, loss=loss)
    assert fit.noise == pytest.approx(0.003, rel=0.15)
    z = (fit["lower_y"] - q[1]) / fit.std["lower_y"]
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.3


# -- far off --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:(no )?marker")
@pytest.mark.parametrize("smooth", [None, 6.0])
def test_a_model_of_another_size_converges(smooth):
    """Markers 40 mm off: Gauss and Newton's steps overshoot for ever along two angles."""
    generic = ks.osim.read(OPENSIM / "gait2354_simbody.osim.gz")
    placed = ks.osim.read_markers(OPENSIM / "gait2354_Scale_MarkerSet.xml.gz")
    walk = ks.gait.read_csv(EXAMPLES / "gait_subject01_markers.csv.gz")
    walk = ks.gait.Markers(walk.time[:60], {k: v[:, :60] for k, v in walk.positions.items()})
    fit = ks.gait.fit_markers(
        generic, placed, walk, limits=generic.ranges, smooth=smooth, guess={"pelvis_ty": 0.9}
    )
    assert fit.converged and fit.iterations < 40
    if smooth is None:  # a minimum of the sum by itself, along every coordinate
        functions, numbers, measured = problem_of(generic, placed, walk)
        q = np.array([fit[name] for name in functions.states])
        low, high = np.array([generic.ranges[name] for name in functions.states]).T

        def sums(q):
            gaps = functions.outputs(0.0 * q, q, (), numbers, np.zeros(q.shape[1])) - measured
            return np.nansum(gaps**2, axis=0)

        for k in range(len(q)):
            for step in (-1e-3, 1e-3):
                there = q.copy()
                there[k] = np.clip(q[k] + step, low[k], high[k])
                assert np.all(sums(there) >= sums(q) - 1e-9)


def problem_of(tree, placed, markers):
    """Places as functions, their parameters, and what was measured."""
    found, _ = matched(tree, placed, [markers])
    functions = compiled(tree, tuple(body for body, _ in found.values()))
    numbers = numbers_of(functions, [at for _, at in found.values()])
    return functions, numbers, measured_of(tree, found, markers)


@pytest.mark.parametrize("loss", [None, "pseudo-huber"])
def test_second_derivatives_of_errors(loss):
    """Of a pendulum: the sum is L^2 + |m|^2 + 2 L (m_x sin q + m_z cos q) but for a constant, by
    hand; with a loss by central differences of sums."""
    tree = Tree("rod", [Body("rod", 1, (0, 0, -0.5), (0, 0.1, 0), Revolute("y"))])
    rng = np.random.default_rng(0)
    markers = ks.gait.Markers(np.arange(5.0), {"tip": rng.normal(size=(3, 5))})
    functions, numbers, measured = problem_of(tree, {"tip": ("rod", (0, 0, -0.5))}, markers)
    robust = None if loss is None else RobustLoss.of(Loss.named(loss))
    one = Squares(functions, numbers, measured, np.ones((1, 5)), *np.zeros((2, 1)), loss=robust)
    q = rng.uniform(-1.0, 1.0, (1, 5))
    state = one.state(q, one.prior)
    normal = one.normal(state)
    assert one.pull(q, one.prior) == pytest.approx(normal.g)
    found = (normal.A + one.curvature(state, normal.A))[:, 0, 0]
    if loss is None:
        exact = -0.5 * (measured[0] * np.sin(q[0]) + measured[2] * np.cos(q[0]))
        assert found == pytest.approx(exact, abs=1e-5)
    h = 1e-4
    before, here, after = (one.state(q + s, one.prior).costs for s in (-h, 0.0, h))
    assert found == pytest.approx(0.5 * (before - 2.0 * here + after) / h**2, abs=1e-4)


def test_what_makes_a_matrix_definite():
    rng = np.random.default_rng(0)
    J, C = rng.normal(size=(2, 7, 4, 4))
    A, C = J @ J.transpose(0, 2, 1) + np.eye(4), C + C.transpose(0, 2, 1)
    found = definite(A, C, 0.1)
    for a, c, d in zip(A, C, found, strict=True):
        values, V = eigh(a + c, a)
        assert eigh(a + d, a, eigvals_only=True) == pytest.approx(
            np.sort(np.maximum(np.abs(values), 0.1)), abs=1e-5
        )
        big = values > 0.1
        assert np.abs(V[:, big].T @ (d - c) @ V[:, big]).max() < 1e-5  # left as they are


def test_a_fit_that_stops_says_where(monkeypatch):
    monkeypatch.setattr(marker_steps.minimise, "__defaults__", (1e-4, 2))
    _, _, markers = swing(12, spoil=0.0)
    markers.positions["wrist"][:, 4] += 0.09
    with pytest.warns(UserWarning, match=r"after 2 iterations, at .* of 12 .*: (upper|lower)_y"):
        fit = ks.gait.fit_markers(arm(), ON_ARM, markers)
    assert not fit.converged and "where marker" in fit.message and fit.message in str(fit)


# -- what is missing, and how it begins -----------------------------------------------------------


def test_gaps_are_bridged_by_a_smooth_course():
    _, q, markers = swing()
    for name in ON_ARM:
        markers.positions[name][:, 30:36] = np.nan
    alone = ks.gait.fit_markers(arm(), ON_ARM, markers)
    assert np.isnan(alone.std["lower_y"][30:36]).all()
    assert np.isfinite(alone.std["lower_y"][:30]).all()
    assert "not shown by markers at 6 instants" in alone.report()
    for row in alone.std.values():
        row[:] = np.nan
    assert re.search(r"lower_y .* -  \[deg\], not shown by markers", alone.report())
    smooth = ks.gait.fit_markers(arm(), ON_ARM, markers, smooth=6.0)
    assert np.abs(smooth["lower_y"] - q[1])[30:36].max() < 0.03
    assert smooth.std["lower_y"][33] > 2.0 * smooth.std["lower_y"][10]


def test_what_no_marker_shows_stays_and_is_said():
    _, _, markers = swing()
    placed = {name: ON_ARM[name] for name in ("elbow", "upper")}
    with pytest.warns(UserWarning, match="no marker shows lower_y, which stay"):
        fit = ks.gait.fit_markers(arm(), placed, markers, guess={"lower_y": 0.3})
    assert np.all(fit["lower_y"] == 0.3) and np.isnan(fit.std["lower_y"]).all()
    assert fit.unused == ["lower", "wrist"]


def test_gravity_says_what_is_up():
    """The same arm in axes with y up and z to the right, as of OpenSim."""
    _, _, markers = swing()
    bodies = [
        Body("upper", 2, (0, -0.2, 0), (0, 0, 0.03), Revolute("z")),
        Body("lower", 1, (0, -0.1, 0), (0, 0, 0.01), Revolute("z"), (0, -UPPER, 0), "upper"),
    ]
    other = Tree("arm", bodies, gravity=(0, -9.81, 0))
    placed = {name: (body, (x, z, -y)) for name, (body, (x, y, z)) in ON_ARM.items()}
    ours, theirs = (
        ks.gait.fit_markers(*given, markers) for given in ((arm(), ON_ARM), (other, placed))
    )
    assert theirs["lower_z"] == pytest.approx(-ours["lower_y"], abs=1e-9)


def test_a_walk_that_turns_round():
    """Angles follow the motion through more than a turn."""
    tree = Tree("box", [Body("box", 1, inertia=(1, 1, 1), joint=Free("zyx"))])
    t = np.arange(300) / 100.0
    local = np.array([[0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.3], [-0.1, -0.1, 0]])
    turns = Rotation.from_euler("z", 3.0 * t[:, None])
    placed = {f"m{k}": ("box", at) for k, at in enumerate(local)}
    positions = {f"m{k}": turns.apply(at).T for k, at in enumerate(local)}
    fit = ks.gait.fit_markers(tree, placed, ks.gait.Markers(t, positions))
    assert np.diff(fit["box_z"]) == pytest.approx(0.03, abs=1e-6)
    assert fit.total_rms < 1e-8


# -- beside OpenSim -------------------------------------------------------------------------------


def synthetic_markers():
    """Of OpenSim's example of inverse kinematics."""
    return ks.gait.read_trc(OPENSIM / "subject01_synthetic_marker_data.trc.gz")


@pytest.mark.filterwarnings("ignore:no marker shows mtp")
def test_inverse_kinematics_of_opensim():
    """Its own example, with its own result."""
    tree = ks.osim.read(OPENSIM / "subject01_simbody.osim.gz")
    fit = ks.gait.fit_markers(tree, None, synthetic_markers(), limits=tree.ranges)
    theirs = ks.gait.read_mot(OPENSIM / "std_subject01_walk1_ik.mot.gz")
    assert fit.total_rms < 5e-5 and fit.worst[2] < 1.5e-4
    for name in set(theirs.names) & set(fit):
        angle = name in fit.angles
        off = fit[name] - (np.deg2rad(theirs[name]) if angle else theirs[name])
        assert np.sqrt(np.mean(off**2)) < (np.deg2rad(0.01) if angle else 3e-5)


@pytest.mark.filterwarnings("ignore:no marker shows mtp")
def test_inverse_kinematics_of_a_measured_walk():
    """Markers are 19 mm off: the same minimum as OpenSim 4.6 finds, frame by frame."""
    tree = ks.osim.read(OPENSIM / "subject01_simbody.osim.gz")
    walk = ks.gait.read_csv(EXAMPLES / "gait_subject01_markers.csv.gz")
    fit = ks.gait.fit_markers(tree, None, walk)
    theirs = ks.gait.read_mot(OPENSIM / "subject01_InverseKinematics.mot.gz")
    assert fit.total_rms == pytest.approx(0.0194, abs=1e-4)
    for name in set(theirs.names) & set(fit):
        angle = name in fit.angles
        off = fit[name] - (theirs.radians(name) if angle else theirs[name])
        assert np.abs(off).max() < (np.deg2rad(0.002) if angle else 2e-6)


def test_scaling_finds_the_lengths_of_opensim():
    """Markers of its scaled model, from the unscaled one: thighs are 1.14724 times as long, shanks
    0.988523 times, the pelvis is 1.0246 times as large."""
    generic = ks.osim.read(OPENSIM / "gait2354_simbody.osim.gz")
    placed = ks.osim.read_markers(OPENSIM / "gait2354_Scale_MarkerSet.xml.gz")
    groups = {
        "trunk": "torso",
        "hips": "pelvis",
        "thigh": ("femur_r", "femur_l"),
        "shank": ("tibia_r", "tibia_l", "talus_r", "talus_l"),
        "foot": ("calcn_r", "calcn_l", "toes_r", "toes_l"),
    }
    markers = synthetic_markers()
    made = ks.gait.scale(generic, placed, markers, groups, frames=25)
    true = {"hips": 1.0246, "thigh": 1.14724, "shank": 0.988523}
    for name, value in true.items():
        assert abs(made.factors[name] - value) < 3.0 * made.std[name] < 0.15
    assert made.std["thigh"] < 0.02
    tree = made.applied(generic, mass=72.6)
    assert sum(float(body.mass) for body in tree.bodies) == pytest.approx(72.6)
    before, after = (
        next(body for body in t.bodies if body.name == "tibia_r") for t in (generic, tree)
    )
    assert float(after.com[1]) == pytest.approx(made.factors["shank"] * float(before.com[1]))
    with pytest.warns(UserWarning, match="no marker shows mtp"):
        fit = ks.gait.fit_markers(tree, made.placed, markers)
    assert fit.total_rms < 1e-3
    subject = ks.osim.read(OPENSIM / "subject01_simbody.osim.gz")
    again = ks.gait.scale(subject, None, markers, groups, frames=2).applied(subject)
    assert set(again.placed) == set(subject.placed)
    assert again.placed["R.Knee.Lat"] != subject.placed["R.Knee.Lat"]  # not measured, yet scaled
    theirs = ks.gait.read_mot(OPENSIM / "std_subject01_walk1_ik.mot.gz")
    knee = np.degrees(fit["knee_angle_r"]) - theirs["knee_angle_r"]
    assert np.std(knee) < 1.0


# -- scaling --------------------------------------------------------------------------------------


#: Of a runner as a foot comes down [deg].
BENT = {
    "pelvis_tilt": -9, "pelvis_rotation": -10, "lumbar_rotation": -15, "hip_flexion_r": 39,
    "hip_adduction_r": 11, "hip_flexion_l": -11, "hip_rotation_l": -11, "knee_angle_r": 26,
    "knee_angle_l": 86, "ankle_angle_r": 22, "subtalar_angle_r": 14, "arm_flex_r": -45,
    "arm_add_r": -26, "arm_flex_l": -26, "arm_add_l": -17, "elbow_flex_r": 90, "elbow_flex_l": 130,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:marker .* cm off", "ignore:no marker shows elbow")
@pytest.mark.parametrize("seed", [6, 8, 9])
def test_a_record_that_begins_with_bent_limbs(seed):
    """From straight limbs its first instant ends in a false minimum: a foot that is turned round.
    Others do not, so that it is the fit that a guess nearby gives."""
    rng, tree = np.random.default_rng(seed), video_to_torques.model()
    joints = ("knee", "ankle", "HJC", "sh3", "thigh2", "wrist")  # not every marker set has them
    everything = video_to_torques.both_sides(video_to_torques.AUGMENTED)
    placed = {n: p for n, p in everything.items() if not any(part in n for part in joints)}
    f = compiled(tree, tuple(body for body, _ in placed.values()))
    pose = {name: np.radians(angle) for name, angle in BENT.items()} | {"pelvis_ty": 0.95}
    share = np.linspace(1.0, 0.2, 40)
    q = np.array([pose.get(name, 0.0) * (share if name in BENT else share**0) for name in f.states])
    there = [np.array(at) + 0.03 * rng.normal(size=3) for _, at in placed.values()]
    nowhere, once = np.zeros((3 * len(placed), 40)), np.ones((len(placed), 40))
    free = np.full(len(q), np.inf)
    problem = Squares(f, numbers_of(f, there), nowhere, once, -free, free)
    gaps = problem.state(q, problem.prior).gaps  # places, as nowhere is the origin
    up = ks.gait.rotation("y", "x")
    seen = {name: up @ gaps[:, k] for k, name in enumerate(placed)}
    markers = ks.gait.Markers(np.arange(40) / 100.0, seen)
    near = {name: 0.6 * value if name in BENT else value for name, value in pose.items()}
    expected = ks.gait.fit_markers(tree, placed, markers, guess=near)
    found = ks.gait.fit_markers(tree, placed, markers)
    assert found.total_rms == pytest.approx(expected.total_rms, rel=1e-3)


def test_lengths_and_places_from_movement():
    """An arm whose upper link is 20 % longer, with markers elsewhere; errors are what they are said
    to be, and what a marker that is known says counts."""
    z = []
    factors = {"upper_length": "upper", "lower_length": ("lower",)}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        t, q, _ = swing(80, seed=seed)
        shift = {name: rng.normal(scale=0.02, size=3) for name in ON_ARM}
        long = {"upper": 1.0 + 0.1 * rng.normal(), "lower": 1.0 + 0.1 * rng.normal()}
        rows = {}
        for name, (body, at) in ON_ARM.items():
            turn = Rotation.from_rotvec(
                np.outer(q[0] + (q[1] if body == "lower" else 0), [0, 1, 0])
            )
            base = np.zeros((80, 3))
            if body == "lower":
                first = Rotation.from_rotvec(np.outer(q[0], [0, 1, 0]))
                base = first.apply([0, 0, -UPPER * long["upper"]])
            there = long[body] * (np.array(at) + shift[name])
            rows[name] = (base + turn.apply(there) + 0.003 * rng.normal(size=(80, 3))).T
        made = ks.gait.scale(arm(), ON_ARM, [ks.gait.Markers(t, rows)], factors, frames=80)
        z += [(made.factors[f"{b}_length"] - long[b]) / made.std[f"{b}_length"] for b in long]
        assert made.converged and made.noise == pytest.approx(0.003, rel=0.3)
        assert made.std["upper_length"] < 0.1
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.5


def test_known_places_and_factors():
    _, _, markers = swing(40, noise=0.001)
    static = {name: row[:, 0] for name, row in markers.positions.items()}
    made = ks.gait.scale(
        arm(), ON_ARM, [static, markers], {"long": ("upper.z", "lower.z")}, place_std=0.0
    )
    assert made.factors["long"] == pytest.approx(1.0, abs=4.0 * made.std["long"])
    assert set(made.place_std["wrist"]) == {0.0} and made.moved["wrist"] < 1e-2
    assert "upper.z, lower.z" in str(made) and "moved" in made.report()
    assert list(made.to_pandas().columns) == ["factor", "std"]
    with pytest.raises(ValueError, match="all factors and places are known"):
        ks.gait.scale(arm(), ON_ARM, [markers], {}, place_std=0.0)


def test_stretched_bodies():
    """A body of point masses, stretched along its axes, has the inertia of the stretched points."""
    rng = np.random.default_rng(0)
    points, masses = rng.normal(size=(9, 3)), rng.uniform(0.1, 1.0, 9)

    def inertia(r):
        return sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, r, strict=True))

    com = masses @ points / masses.sum()
    body = Body("b", masses.sum(), com, inertia(points - com).tolist(), Free("xyz"), end=(1, 1, 1))
    tree = Tree("one", [body])
    rows = factors_of(tree, {"x": "b.x", "yz": ["b.yz"]})
    numbers = {sp.Symbol("x"): 1.3, sp.Symbol("yz"): 0.8}
    rows = {name: type(row)(e.xreplace(numbers) for e in row) for name, row in rows.items()}
    (made,) = scaled(tree, rows, mass=2.0 * masses.sum()).bodies
    stretch = np.array([1.3, 0.8, 0.8])
    assert np.array(made.com, float) == pytest.approx(stretch * com)
    assert np.array(made.inertia, float) == pytest.approx(2.0 * inertia(stretch * (points - com)))


# -- results and refusals -------------------------------------------------------------------------


def test_what_a_fit_says():
    t, _, markers = swing()
    fit = ks.gait.fit_markers(arm(), ON_ARM, markers)
    name, when, error = fit.worst
    assert error == max(d.max() for d in fit.distances.values())
    assert fit.distances[name][round(when * 100)] == error
    assert fit.rms[3] ** 2 == pytest.approx(np.mean([d[3] ** 2 for d in fit.distances.values()]))
    assert f"{1e3 * fit.total_rms:.1f} mm rms" in str(fit)
    assert {"upper_y", "std_upper_y", "error_wrist"} <= set(fit.to_pandas().columns)
    course = fit.course()
    assert course.sample(t[3:-3]).z == pytest.approx(np.array([fit[n] for n in NAMES])[:, 3:-3])
    torque = ks.inverse_dynamics(arm(), fit.table)
    assert set(torque.names) == {"upper_ty", "lower_ty"} or len(torque.names) == 2
    assert len(fit.plot().axes) == 2 and len(fit.plot(["upper_y"]).axes) == 1
    with pytest.raises(ValueError, match=r"uper_y is no coordinate of arm.*upper_y"):
        fit["uper_y"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"placed": {"wrist": ("hand", (0, 0, 0))}}, r"marker 'wrist': 'hand' is no body of arm"),
        ({"placed": {"wrist": ("lower", (0, 0))}}, r"marker 'wrist' is at three finite numbers"),
        ({"placed": {"wrist": "lower"}}, r"marker 'wrist' is placed by \(body, \(x, y, z\)\)"),
        ({"placed": {"R.Wrist": ("lower", (0, 0, 0))}}, r"none of the markers of arm is measured"),
        ({"placed": None}, r"arm has no markers of its own; give placed"),
        ({"weights": {"rist": 2.0}}, r"weights: there is no marker 'rist'.*wrist"),
        ({"weights": {"wrist": -1.0}}, r"weight of 'wrist' must not be negative"),
        ({"weights": dict.fromkeys(ON_ARM, 0.0)}, r"all markers have weight 0"),
        ({"limits": {"elbow": (0, 1)}}, r"limits: elbow is no coordinate"),
        ({"limits": {"lower_y": (1, 0)}}, r"limits of lower_y are \(lowest, highest\)"),
        ({"guess": {"elbow": 0.1}}, r"guess: elbow is no coordinate of arm"),
        ({"smooth": 60.0}, r"smooth is a frequency between 0 and half the rate, 50 Hz, got 60"),
        ({"smooth": ks.gait.SSA()}, r"as Butterworth does, got SSA.*: markers.smoothed\(law\)"),
        ({"smooth": ks.gait.Butterworth(5.0, markers={"wrist": 9.0})}, r"no marker has a cutoff"),
        ({"smooth": "6"}, r"smooth is a cutoff \[Hz\] or a function .*, got '6'"),
        ({"smooth": -6.0}, r"cutoff of Butterworth"),
        ({"loss": "cauchy"}, r"cauchy"),
        ({"markers": 3}, r"Markers"),
        ({"tree": "arm"}, r"Tree"),
    ],
)
def test_refusals(change, message):
    given = {"tree": arm(), "placed": ON_ARM, "markers": swing(8)[2], **change}
    with pytest.raises(ValueError, match=message):
        ks.gait.fit_markers(**given)


def test_refusals_of_trees():
    _, _, markers = swing(8)
    gone = ks.gait.Markers(markers.time, {"wrist": np.full((3, 8), np.nan)})
    with pytest.raises(ValueError, match=r"none .* 'wrist' and all others are missing throughout"):
        ks.gait.fit_markers(arm(), {"wrist": ON_ARM["wrist"]}, gone)
    bodies = arm().bodies
    solid = [replace(body, inertia=(0.03, 0.03, 0.03)) for body in bodies]
    moving = Tree("arm", solid, base=PrescribedBase("ship"), values={"length": UPPER})
    with pytest.raises(ValueError, match=r"which is no coordinate; .* a base that stands still"):
        ks.gait.fit_markers(moving, ON_ARM, markers)
    loose = Tree("arm", bodies, base=FixedBase())
    with pytest.raises(ValueError, match=r"parameter length of the tree has no value"):
        ks.gait.fit_markers(loose, ON_ARM, markers)
    closed = arm().close("lower", at=(0, 0, -LOWER), to=(0.1, 0, -0.5))
    with pytest.raises(ValueError, match=r"closed loops"):
        ks.gait.fit_markers(closed, ON_ARM, markers)
    renamed = markers.renamed({"wrist": "Wrist"})
    with pytest.warns(UserWarning, match=r"marker 'wrist' of arm is not measured, but 'Wrist' is"):
        ks.gait.fit_markers(arm(), ON_ARM, renamed)


@pytest.mark.parametrize(
    "factors, more, message",
    [
        ({"long": ("hand",)}, {}, r"factor long: 'hand' is no body of arm"),
        ({"long": ("lower.w",)}, {}, r"factor long: axes are some of x, y, z, got 'w'"),
        ({"a": "lower.yz", "b": "lower.z"}, {}, r"body lower has two factors along z"),
        ({"long": "lower"}, {"place_std": {"hand": 0.1}}, r"place_std: 'hand' is not among"),
        ({"long": "lower"}, {"factor_std": -0.1}, r"factor_std of long must not be negative"),
        ({"long": "lower"}, {"frames": 0}, r"frames"),
    ],
)
def test_refusals_of_scaling(factors, more, message):
    with pytest.raises(ValueError, match=message):
        ks.gait.scale(arm(), ON_ARM, [swing(8)[2]], factors, **more)
