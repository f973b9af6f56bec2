"""Natural coordinates of the body in the sagittal plane: counts, formulas, other formulations."""

from dataclasses import replace

import numpy as np
import pytest

from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.natural.constrained import partition, reduction
from kinesym.gait.natural.planar import PlanarBody
from kinesym.models.planar_body import GROUPS, planar_segments
from kinesym.models.whole_body import segments_of_body


@pytest.fixture(scope="module", params=GROUPS)
def body(request):
    return PlanarBody(planar_segments(85.0, 1.82, request.param))


def states(body, seed=0, count=3):
    rng = np.random.default_rng(seed)
    return [rng.normal(0.0, scale, (body.g, count)) for scale in (1.5, 3.0, 20.0)]


def test_counts_of_seven_segments():
    body = PlanarBody(planar_segments(85.0, 1.82))
    assert (len(body.segments), len(body.points), body.size) == (7, 8, 16)
    assert (body.n, body.g, body.m) == (23, 9, 14)
    assert np.count_nonzero(np.abs(body.mass_matrix.toarray()) > 1e-13) == 52
    assert np.count_nonzero(np.abs(body.projection(states(body)[0][:, 0])) > 1e-13) == 42


def test_counts_of_eleven_segments():
    body = PlanarBody(planar_segments(85.0, 1.82, 11))
    assert (len(body.segments), len(body.points)) == (11, 12)
    assert (body.n, body.g, body.m) == (35, 13, 22)


def test_mass_matrix(body):
    M = body.mass_matrix
    np.testing.assert_allclose(M.toarray(), M.toarray().T, atol=1e-15)
    assert np.linalg.eigvalsh(M.toarray())[0] > -1e-13
    for axis in range(2):
        shift = np.zeros(body.size)
        shift[axis::2] = 1.0
        np.testing.assert_allclose(shift @ M @ shift, 85.0, rtol=1e-12)
    np.testing.assert_allclose(body.weight[1::2].sum(), -9.81 * 85.0, rtol=1e-12)
    np.testing.assert_allclose(body.weight[::2].sum(), 0.0, atol=1e-10)


def test_energies(body):
    """Of rigid bodies, m v^2 / 2 + I w^2 / 2 and m g z, from the positions of centres of mass."""
    z, zd, zdd = states(body)
    natural = body.kinematics(z, zd, zdd)
    T = np.einsum("in,in->n", natural.qd, body.mass_matrix @ natural.qd) / 2.0
    V = -(body.weight @ natural.q)
    kinetic, potential = np.zeros(3), np.zeros(3)
    for row, angle, rate in zip(body.segments, z[2:], zd[2:], strict=True):
        at = 2 * body.points[row.proximal]
        (x, up), c, s = row.com, np.cos(angle), np.sin(angle)
        position = np.array([c * x + s * up, c * up - s * x])
        velocity = natural.qd[at : at + 2] + rate * np.array([position[1], -position[0]])
        kinetic += row.mass / 2.0 * (velocity**2).sum(axis=0) + row.inertia / 2.0 * rate**2
        potential += row.mass * 9.81 * (natural.q[at + 1] + position[1])
    np.testing.assert_allclose(T, kinetic, rtol=1e-12)
    np.testing.assert_allclose(V, potential, atol=1e-10)


def test_rates_and_constraints(body):
    """Equations 8 to 13 with S and R solved from the constraints, and equation 4."""
    z, zd, zdd = states(body)
    natural, c = body.kinematics(z, zd, zdd), body.acceleration_terms(z, zd)
    forces, multipliers = body.forces(z, zd, zdd), body.multipliers(z, zd, zdd)
    assert len(body.constraint_names) == len(multipliers) == body.m
    for k in range(3):
        angles, R = z[2:, k], body.projection(z[:, k])
        jacobian = body.constraint_jacobian(natural.q[:, k], angles)
        np.testing.assert_allclose(body.constraints(natural.q[:, k], angles), 0.0, atol=1e-14)
        by = reduction(jacobian, body.partition)
        np.testing.assert_allclose(by.R[: body.size], R, atol=1e-13)
        np.testing.assert_allclose(R @ zd[:, k], natural.qd[:, k], atol=1e-12)
        accelerations = np.concatenate([natural.qdd[:, k], zdd[2:, k]])
        np.testing.assert_allclose(by.S @ c[:, k] + by.R @ zdd[:, k], accelerations, atol=1e-11)
        needed = body.mass_matrix @ natural.qdd[:, k] - body.weight
        np.testing.assert_allclose(R.T @ needed, forces[:, k], atol=1e-10)
        Q = np.concatenate([body.weight, np.zeros(len(body.segments))])
        Q[body.partition.independent] += forces[:, k]
        inertia = np.concatenate([body.mass_matrix @ natural.qdd[:, k], 0.0 * angles])
        np.testing.assert_allclose(inertia + jacobian.T @ multipliers[:, k], Q, atol=1e-9)
        assert len(partition(jacobian).dependent) == body.m  # of full rank
    found = body.accelerations(z, zd, forces)
    np.testing.assert_allclose(found, zdd, atol=1e-9)


def test_second_derivatives(body):
    z, zd, zdd = states(body)
    natural, h = body.kinematics(z, zd, zdd), 1e-4
    ahead, behind = (
        body.kinematics(z + s * h * zd + h * h / 2 * zdd, zd + s * h * zdd, zdd) for s in (1, -1)
    )
    np.testing.assert_allclose((ahead.q - behind.q) / (2 * h), natural.qd, atol=1e-4)
    np.testing.assert_allclose((ahead.qd - behind.qd) / (2 * h), natural.qdd, atol=1e-2)


def test_same_forces_in_space(body):
    """Of the 18 segments that the ones of the plane are made of, moved as one: by virtual work."""
    z, zd, zdd = states(body)
    rows = segments_of_body(85.0, 1.82)
    upright = {"J1": np.zeros(3)}
    for row in rows:
        upright |= {p: upright[row.proximal] + position for p, position in row.points.items()}
    hip = (upright["RH"] + upright["LH"]) / 2.0
    groups = GROUPS[len(body.segments)]
    member = {name: k for k, group in enumerate(groups) for name in group.members}
    numbers = [member[row.name] for row in rows]
    # The lumbar joint is carried by the first segment: x = hip - A hip_0, with two derivatives.
    angle, rate, change = z[2], zd[2], zdd[2]
    back = -hip[[0, 2]]
    c, s = np.cos(angle), np.sin(angle)
    arm = np.array([c * back[0] + s * back[1], c * back[1] - s * back[0]])
    quarter = np.array([arm[1], -arm[0]])
    motion = []
    for given, moved in ((z, arm), (zd, rate * quarter), (zdd, change * quarter - rate**2 * arm)):
        full = np.zeros((57, z.shape[1]))
        full[[0, 2]] = given[:2] + moved
        full[4::3] = given[2:][numbers]
        motion.append(full)
    Q = NaturalBody(rows).forces(*motion)
    expected = np.zeros_like(z)
    expected[:2] = Q[[0, 2]]
    expected[2] = Q[0] * quarter[0] + Q[2] * quarter[1]
    np.add.at(expected, [2 + k for k in numbers], Q[4::3])
    np.testing.assert_allclose(body.forces(z, zd, zdd), expected, atol=1e-9)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"proximal": "X"}, "'Rshank': proximal point 'X' is not defined by any earlier segment"),
        ({"points": {"RK": (0.0, 1.0)}}, "'Rshank': point 'RK' belongs to two segments"),
        (
            {"points": {"RA": (0.0, 0.0)}},
            "'Rshank': its first point must lie apart from its proximal point 'RK'",
        ),
        ({"points": {}}, "'Rshank': its first point must lie apart"),
        ({"inertia": -0.1}, "'Rshank': inertia must not be negative, got -0.1"),
    ],
)
def test_bad_segments(changes, sentence):
    rows = planar_segments()
    with pytest.raises(ValueError, match=sentence):
        PlanarBody([*rows[:2], replace(rows[2], **changes)])


def test_bad_shapes():
    body = PlanarBody(planar_segments())
    with pytest.raises(ValueError, match=r"shape \(9, instants\), got \(9,\)"):
        body.forces(*3 * [np.zeros(9)])


def test_more_points():
    """A segment may carry more points than span it: the heel."""
    rows = list(planar_segments())
    rows[3] = replace(rows[3], points={**rows[3].points, "heel": (-0.05, -0.06)})
    body, plain = PlanarBody(rows), PlanarBody(planar_segments())
    assert (body.n, body.m, body.g) == (25, 16, 9)
    z, zd, zdd = states(plain)
    np.testing.assert_allclose(body.forces(z, zd, zdd), plain.forces(z, zd, zdd), atol=1e-10)
    number = body.constraint_names.index("Rfoot: point heel x")
    np.testing.assert_allclose(body.multipliers(z, zd, zdd)[number], 0.0, atol=1e-12)
