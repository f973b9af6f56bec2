"""Rigid segments through measured points, against kinematics by SciPy's rotations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.sparse import block_array, csc_array, diags_array
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

from kinesym.gait.kinematics import angles_of, check_angles, pose
from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.relations import Landmarks
from kinesym.gait.segment_fit import (
    Target,
    fit,
    landmark_targets,
    segments_from_landmarks,
    start_of,
)
from kinesym.models.whole_body import segments_of_body

ROWS = segments_of_body(72.0, 1.75)
NAMES = [row.name for row in ROWS]
BODY = NaturalBody(ROWS)
#: Left before right, legs before arms.
ORDER = [0, *range(14, 18), *range(10, 14), 1, *range(7, 10), *range(4, 7), 2, 3]


def motion(count=6, seed=0, size=0.4):
    """z (57, N) of someone who walks and swings all that moves."""
    rng, t = np.random.default_rng(seed), np.linspace(0.0, 0.5, count)
    z = size * np.sin(rng.uniform(2, 8, (57, 1)) * t + rng.uniform(0, 6, (57, 1)))
    z[:3] += np.array([1.2, 0.0, 0.0])[:, None] * t + np.array([[0], [0], [1.05]])
    return z


def attitudes(z):
    """Of each segment, (S, N, 3, 3)."""
    angles = z[3:].reshape(-1, 3, z.shape[1])
    return np.array([Rotation.from_euler("YXZ", part[[1, 0, 2]].T).as_matrix() for part in angles])


def landmarks_of(z, rows=ROWS):
    """Where all points and axes are."""
    positions, axes = {"J1": z[:3]}, {}
    for row, A in zip(rows, attitudes(z), strict=True):
        axes[row.name] = A.transpose(1, 2, 0)
        for point, local in row.points.items():
            positions[point] = positions[row.proximal] + (A @ np.array(local)).T
    return Landmarks(positions, axes)


def noisy(found, size=0.01, seed=1):
    """With this much noise of points [m], and of axes by ten times as much [rad]."""
    rng = np.random.default_rng(seed)
    positions = {name: p + size * rng.normal(size=p.shape) for name, p in found.points.items()}
    axes = {}
    for name, A in found.axes.items():
        off = Rotation.from_rotvec(10.0 * size * rng.normal(size=(A.shape[2], 3))).as_matrix()
        axes[name] = np.einsum("ijn,njk->ikn", A, off)
    return Landmarks(positions, axes)


# -- what is exact ----------------------------------------------------------------------------


def test_segments_as_measured():
    """Points come back from any motion; masses stay, centres of mass and inertias scale with the
    distance of the basis point."""
    longer = [
        replace(row, points={p: tuple(1.1 * c for c in x) for p, x in row.points.items()})
        for row in ROWS
    ]
    for given_, factor in ((ROWS, 1.0), (longer, 1.1)):
        found = segments_from_landmarks(ROWS, landmarks_of(motion(), given_))
        for ours, row in zip(found, ROWS, strict=True):
            assert (ours.name, ours.mass, ours.proximal) == (row.name, row.mass, row.proximal)
            for point, position in row.points.items():
                np.testing.assert_allclose(
                    ours.points[point], factor * np.array(position), atol=1e-12
                )
            np.testing.assert_allclose(ours.com, factor * np.array(row.com), rtol=1e-12)
            np.testing.assert_allclose(ours.inertia, factor**2 * np.array(row.inertia), rtol=1e-12)


def test_points_that_are_not_measured():
    """They keep their position, scaled like their segment."""
    z, thighs = motion(), {"Rthigh", "Lthigh"}
    longer = [
        replace(row, points={p: tuple(1.2 * c for c in x) for p, x in row.points.items()})
        if row.name in thighs | {"Rhand"}
        else row
        for row in ROWS
    ]
    found = landmarks_of(z, longer)
    hidden = {"RHC", "LHC", "HG", "RFG", "LFG"}
    positions = {name: p for name, p in found.points.items() if name not in hidden}
    rows = {
        row.name: row for row in segments_from_landmarks(ROWS, Landmarks(positions, found.axes))
    }
    old = {row.name: row for row in ROWS}
    np.testing.assert_allclose(
        rows["Rthigh"].points["RK"], 1.2 * np.array(old["Rthigh"].points["RK"]), atol=1e-12
    )
    np.testing.assert_allclose(rows["Rhand"].points["RHC"], old["Rhand"].points["RHC"], atol=1e-15)
    assert rows["head"] == old["head"]


def test_exact_motion():
    """From far beside, too."""
    z = motion()
    found = landmarks_of(z)
    rows = segments_from_landmarks(ROWS, found)
    targets, body = landmark_targets(rows, found), NaturalBody(rows)
    assert len(targets) == 22 + 36
    np.testing.assert_allclose(start_of(rows, found), z, atol=1e-12)
    beside = z + 0.2 * np.random.default_rng(2).normal(size=z.shape)
    for start in (start_of(rows, found), beside):
        fitted = fit(body, targets, start)
        np.testing.assert_allclose(fitted.z, z, atol=1e-9)
        assert fitted.distances.shape == (58, z.shape[1]) and fitted.distances.max() < 1e-10
        assert fitted.is_point.sum() == 22 and fitted.rms.max() < 1e-10
        assert fitted.targets == tuple(t.name for t in targets)


def test_many_frames():
    """They are fitted in blocks; what is found at one does not depend on others."""
    z = np.tile(motion(3), 100)
    found = noisy(landmarks_of(z))
    targets, start = landmark_targets(ROWS, found), start_of(ROWS, found)
    rows = [0, 1, 2, 255, 256, 257, 299]
    parts = [replace(t, measured=t.measured[:, rows]) for t in targets]
    few = fit(BODY, parts, start[:, rows])
    all_ = fit(BODY, targets, start)
    np.testing.assert_allclose(all_.z[:, rows], few.z, atol=1e-9)
    np.testing.assert_allclose(all_.distances[:, rows], few.distances, atol=1e-9)


def test_markers_of_segments():
    """Markers anywhere on segments give motion and positions there back, also with weights."""
    z, rng = motion(5, seed=3), np.random.default_rng(4)
    found, A = landmarks_of(z), attitudes(z)
    local = {f"{name}{k}": rng.uniform(-0.1, 0.1, 3) for name in NAMES for k in range(3)}
    targets = []
    for marker, position in local.items():
        k = NAMES.index(marker[:-1])
        measured = found.points[ROWS[k].proximal] + (A[k] @ position).T
        weight = 5.0 if marker == "pelvis0" else 1.0
        targets.append(Target(marker, NAMES[k], tuple(position), measured, weight))
    fitted = fit(BODY, targets, z + 0.1 * rng.normal(size=z.shape))
    np.testing.assert_allclose(fitted.z, z, atol=1e-9)
    assert fitted.is_point.all()


# -- what is nearest --------------------------------------------------------------------------


def natural_targets(body, targets):
    """Measured natural coordinates q* (174, N), and their weights (174,); 0 where not measured."""
    q, weights = np.zeros((174, targets[0].measured.shape[1])), np.zeros(174)
    first = {name: 3 * k for name, k in body.points.items()}
    for k, row in enumerate(body.segments):
        for i, letter in enumerate(row.basis_vectors):
            first[f"{row.name} {letter}"] = 66 + 6 * k + 3 * i
    for target in targets:
        here = slice(first[target.name], first[target.name] + 3)
        q[here], weights[here] = target.measured, target.weight
    return q, weights


def project(body, q, weights, angles):
    """The nearest natural coordinates of rigid segments (174, N), as Pamies-Vila and Font-Llagunes
    2013 have it: (q - q*)' W (q - q*) / 2 least under the constraints of an orthonormal body, by
    sequential quadratic programming."""
    kept = np.array([".A" not in name for name in body.constraint_names])
    W = csc_array(diags_array(weights))
    result = body.kinematics(np.vstack([q[:3], angles])).q
    for k in range(q.shape[1]):
        x = result[:, k].copy()
        for _ in range(150):
            Phi = body.constraints(x, angles[:, k])[kept]
            J = csc_array(body.constraint_jacobian(x, angles[:, k])[kept, :174])
            matrix = csc_array(block_array([[W, J.T], [J, None]]))
            step = splu(matrix).solve(np.concatenate([-weights * (x - q[:, k]), -Phi]))[:174]
            x += step
            if max(np.abs(step).max(), np.abs(Phi).max()) < 1e-10:
                break
        else:
            raise AssertionError(f"frame {k}: residual {np.abs(Phi).max():.2g}")
        result[:, k] = x
    return result


@pytest.fixture(scope="module")
def nearest():
    """Noise of 10 mm: rows, measured, fitted in z, projected in q."""
    found = noisy(landmarks_of(motion(4)))
    rows = segments_from_landmarks(ROWS, found)
    targets, start = landmark_targets(rows, found), start_of(rows, found)
    body = NaturalBody(rows, variant="orthonormal")
    q, weights = natural_targets(body, targets)
    return body, targets, fit(body, targets, start), (q, weights), start


def test_two_ways_find_the_same(nearest):
    """Gauss-Newton in z and quadratic programming in q, from the same start and from that of
    the other one."""
    body, _, fitted, (q, weights), start = nearest
    assert q.shape == (174, 4) and set(weights) == {1.0, 0.1**2}
    still = np.zeros_like(fitted.z)
    expected = body.kinematics(fitted.z, still, still).q
    for angles in (start[3:], fitted.z[3:]):
        found = project(body, q, weights, angles)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert 0.005 < np.sqrt(np.mean((found[:66] - q[:66]) ** 2)) < 0.02


def test_segments_are_rigid(nearest):
    """Lengths and right angles, by the coordinates alone."""
    body, _, _, (q, weights), start = nearest
    found = project(body, q, weights, start[3:])
    for k, row in enumerate(body.segments):
        a, b = found[66 + 6 * k : 69 + 6 * k], found[69 + 6 * k : 72 + 6 * k]
        for one, other, expected in ((a, a, 1.0), (b, b, 1.0), (a, b, 0.0)):
            np.testing.assert_allclose(np.sum(one * other, axis=0), expected, atol=1e-10)
        at = found[3 * body.points[row.proximal] :][:3]
        i, j = ("uvw".index(letter) for letter in row.basis_vectors)
        for point, position in row.points.items():
            arm = found[3 * body.points[point] :][:3] - at
            np.testing.assert_allclose(
                np.linalg.norm(arm, axis=0), np.linalg.norm(position), atol=1e-10
            )
            np.testing.assert_allclose(
                [np.sum(arm * a, axis=0), np.sum(arm * b, axis=0)],
                np.outer([position[i], position[j]], np.ones(4)),
                atol=1e-10,
            )


@pytest.mark.study
def test_a_third_way(nearest):
    """SciPy's least squares with rotations of its own, at one instant."""
    body, targets, fitted, _, start = nearest

    def distances(z):
        positions = landmarks_of(z[:, None], body.segments)
        parts = []
        for target in targets:
            if target.direction:
                axis = "xyz"[int(np.argmax(target.local))]
                here = positions.axes[target.segment][:, "xyz".index(axis), 0]
            else:
                here = positions.points[target.name][:, 0]
            parts.append(np.sqrt(target.weight) * (here - target.measured[:, 0]))
        return np.concatenate(parts)

    found = least_squares(distances, start[:, 0], jac="3-point", xtol=1e-15, ftol=1e-15, gtol=1e-12)
    np.testing.assert_allclose(found.x, fitted.z[:, 0], atol=1e-7)
    np.testing.assert_allclose(2 * found.cost, np.sum(distances(fitted.z[:, 0]) ** 2), rtol=1e-12)
    sizes = distances(fitted.z[:, 0]).reshape(-1, 3)
    sizes /= np.sqrt([t.weight for t in targets])[:, None]
    np.testing.assert_allclose(np.linalg.norm(sizes, axis=1), fitted.distances[:, 0], atol=1e-9)
    points = sizes[[not t.direction for t in targets]]
    np.testing.assert_allclose(
        fitted.rms[0], np.sqrt(np.mean(np.sum(points**2, axis=1))), atol=1e-9
    )


def test_what_is_not_measured_has_no_weight():
    """Both ways agree without the points in hands, feet and head."""
    found = noisy(landmarks_of(motion(2)), seed=5)
    hidden = {"RHC", "LHC", "HG", "RFG", "LFG"}
    seen = {name: p for name, p in found.points.items() if name not in hidden}
    found = Landmarks(seen, found.axes)
    body = NaturalBody(segments_from_landmarks(ROWS, found), variant="orthonormal")
    targets, start = landmark_targets(body.segments, found), start_of(body.segments, found)
    q, weights = natural_targets(body, targets)
    assert (weights == 0.0).sum() == 15
    fitted = fit(body, targets, start)
    expected = body.kinematics(fitted.z, 0 * start, 0 * start).q
    np.testing.assert_allclose(project(body, q, weights, start[3:]), expected, atol=1e-9)


def test_rows_in_another_order():
    """The order of the table is only that of coordinates."""
    found = noisy(landmarks_of(motion(3)))
    positions = np.r_[0:3, np.ravel([range(3 + 3 * k, 6 + 3 * k) for k in ORDER])]
    fits = []
    for order in (range(18), ORDER):
        rows = segments_from_landmarks([ROWS[k] for k in order], found)
        fits.append(
            (rows, fit(NaturalBody(rows), landmark_targets(rows, found), start_of(rows, found)))
        )
    (rows, one), (others, other) = fits
    assert [rows[k] for k in ORDER] == list(others)
    np.testing.assert_allclose(other.z, one.z[positions], atol=1e-9)
    np.testing.assert_allclose(other.rms, one.rms, atol=1e-12)
    by_name = dict(zip(other.targets, other.distances, strict=True))
    for name, row in zip(one.targets, one.distances, strict=True):
        np.testing.assert_allclose(by_name[name], row, atol=1e-9)


# -- angles -----------------------------------------------------------------------------------


@given(alpha=st.floats(-1.5, 1.5), beta=st.floats(-3.1, 3.1), gamma=st.floats(-3.1, 3.1))
@settings(max_examples=100, deadline=None)
def test_angles_of_attitudes(alpha, beta, gamma):
    angles = np.array([[alpha], [beta], [gamma]])
    A = pose(angles, 0 * angles, 0 * angles).A.transpose(1, 2, 0)
    expected = Rotation.from_euler("YXZ", [beta, alpha, gamma]).as_matrix()
    np.testing.assert_allclose(A[:, :, 0], expected, atol=1e-14)
    np.testing.assert_allclose(angles_of(A), angles, atol=1e-12)


def test_angles_are_unwrapped():
    """Somebody who turns around twice."""
    turn = np.linspace(0.0, 4 * np.pi, 60)
    angles = np.array([0.3 * np.sin(turn), turn, 0.5 - turn])
    A = Rotation.from_euler("YXZ", angles[[1, 0, 2]].T).as_matrix().transpose(1, 2, 0)
    np.testing.assert_allclose(angles_of(A), angles, atol=1e-12)


# -- bad input --------------------------------------------------------------------------------


def test_singular_postures():
    time = np.linspace(2.0, 3.0, 5)
    z = np.zeros((57, 5))
    z[3 + 3 * NAMES.index("Larm"), 3] = np.radians(-84.9)
    check_angles(ROWS, z, time)
    z[3 + 3 * NAMES.index("Larm"), 3] = np.radians(-87.0)
    with pytest.raises(
        ValueError,
        match=r"segment 'Larm': alpha reaches 87 deg at t = 2.75 s, .*; "
        "choose axes that",
    ):
        check_angles(ROWS, z, time)
    z[3 + 3 * NAMES.index("Larm") + 1] = 3.0  # flexion is not limited
    z[3 + 3 * NAMES.index("Larm"), 3] = 0.0
    check_angles(ROWS, z, time)


def test_relations_that_are_missing():
    found = landmarks_of(motion())
    axes = {name: A for name, A in found.axes.items() if name != "neck"}
    with pytest.raises(ValueError, match="lack axes of segments: 'neck'"):
        segments_from_landmarks(ROWS, Landmarks(found.points, axes))
    positions = {name: p for name, p in found.points.items() if name != "J1"}
    with pytest.raises(ValueError, match="do not say where point 'J1' is"):
        segments_from_landmarks(ROWS, Landmarks(positions, found.axes))


@pytest.mark.study
def test_frames_that_cannot_be_fitted():
    """What is no number at one instant: it is named."""
    z = motion(4)
    found = landmarks_of(z)
    targets = landmark_targets(ROWS, found)
    bad = [replace(t, measured=t.measured.copy()) for t in targets]
    for target in bad:
        target.measured[:, 2] = np.nan
    with pytest.raises(ValueError, match="frame 2 cannot be fitted"):
        fit(BODY, bad, z)


def test_targets_have_units():
    """A weight of 4 counts as much as the same target four times."""
    z = motion(2)
    found = noisy(landmarks_of(z))
    targets, start = landmark_targets(ROWS, found), start_of(ROWS, found)
    once = [replace(t, weight=4.0) if t.name == "RK" else t for t in targets]
    extra = next(t for t in targets if t.name == "RK")
    assert isinstance(extra, Target)
    four = [*targets, extra, extra, extra]
    np.testing.assert_allclose(fit(BODY, once, start).z, fit(BODY, four, start).z, atol=1e-9)


@pytest.mark.parametrize("count", [0, 1])
def test_segments_that_nothing_holds(count):
    """A hand with too few markers may turn as it likes: it must be named."""
    z, rng = motion(2), np.random.default_rng(7)
    found, A, targets = landmarks_of(z), attitudes(z), []
    for k, row in enumerate(ROWS):
        for _ in range(count if row.name == "Rhand" else 3):
            local = rng.uniform(-0.1, 0.1, 3)
            measured = found.points[row.proximal] + (A[k] @ local).T
            targets.append(Target(row.name, row.name, tuple(local), measured))
    start = z + 0.05 * rng.normal(size=z.shape)
    with pytest.raises(ValueError, match="Rhand"):
        fit(BODY, targets, start)


@pytest.mark.study
@pytest.mark.parametrize("seed", range(4))
def test_noise_of_four_centimetres(seed):
    """And a start that is off by it: no step that goes up is taken."""
    found = noisy(landmarks_of(motion(20)), 0.04, seed)
    result = fit(BODY, landmark_targets(ROWS, found), start_of(ROWS, found))
    assert np.isfinite(result.z).all() and result.rms.max() < 0.1
