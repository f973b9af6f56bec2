"""Natural coordinates of the body of 18 segments against another implementation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinesym.gait.natural.body import VARIANTS, NaturalBody
from kinesym.gait.natural.constrained import reduction
from kinesym.models.whole_body import segments_of_body

DATA = Path(__file__).parents[2] / "data"
STATES = json.loads((DATA / "gait57_random_states.json").read_text())


@pytest.fixture(scope="module")
def body():
    return NaturalBody(segments_of_body(85.0, 1.82))


@pytest.fixture(scope="module", params=VARIANTS)
def constrained(request):
    return NaturalBody(segments_of_body(85.0, 1.82), variant=request.param)


def motion(keys=("z", "zd", "zdd")):
    return [np.array([state[key] for state in STATES]).T for key in keys]


def test_sizes_and_mass_matrix(body):
    M = body.mass_matrix
    assert body.size == 174 and len(body.points) == 22
    assert (body.n, body.g, body.m) == (228, 57, 171)
    assert np.count_nonzero(np.abs(M.toarray()) > 1e-13) == 384
    assert abs(M - M.T).max() < 1e-13
    modes = np.linalg.eigvalsh(M.toarray())
    assert modes[0] > -1e-12  # positive semidefinite
    shift = np.zeros(174)
    shift[:66:3] = 1.0  # all points along x: the whole mass moves
    np.testing.assert_allclose(shift @ M @ shift, 85.0, rtol=1e-12)
    np.testing.assert_allclose(body.weight[2:66:3].sum(), -9.81 * 85.0, rtol=1e-12)


def test_generalised_forces_and_energy(body):
    z, zd, zdd = motion()
    (expected,) = motion(("Q",))
    np.testing.assert_allclose(body.forces(z, zd, zdd), expected, atol=1e-9)
    natural = body.kinematics(z, zd, zdd)
    kinetic = np.einsum("in,in->n", natural.qd, body.mass_matrix @ natural.qd) / 2.0
    potential = -(body.weight @ natural.q)
    np.testing.assert_allclose(kinetic + potential, [s["energy"] for s in STATES], rtol=1e-11)


def test_forces_are_those_that_r_projects(body):
    """What is handed on from segment to segment is R' (M qdd - Q); R has 709 elements."""
    z, zd, zdd = motion()
    natural, forces = body.kinematics(z, zd, zdd), body.forces(z, zd, zdd)
    for k in range(len(STATES)):
        R = body.projection(z[:, k])
        assert R.shape == (174, 57) and np.linalg.matrix_rank(R) == 57
        assert np.count_nonzero(np.abs(R) > 1e-13) == 709
        needed = body.mass_matrix @ natural.qdd[:, k] - body.weight
        np.testing.assert_allclose(forces[:, k], R.T @ needed, atol=1e-10)


def test_rates(body):
    """qd = R zd, and the second derivatives are those of the first: by differences in time."""
    z, zd, zdd = motion()
    natural = body.kinematics(z, zd, zdd)
    for k in range(len(STATES)):
        np.testing.assert_allclose(
            body.projection(z[:, k]) @ zd[:, k], natural.qd[:, k], atol=1e-13
        )
        assert np.linalg.eigvalsh(body.reduced_mass_matrix(z[:, k]))[0] > 0.0
    h = 1e-4
    ahead, behind = (
        body.kinematics(z + s * h * zd + h * h / 2 * zdd, zd + s * h * zdd, zdd) for s in (1, -1)
    )
    np.testing.assert_allclose((ahead.q - behind.q) / (2 * h), natural.qd, atol=2e-5)
    np.testing.assert_allclose((ahead.qd - behind.qd) / (2 * h), natural.qdd, atol=2e-3)


def test_accelerations_invert_forces(body):
    z, zd, zdd = motion()
    found = body.accelerations(z, zd, body.forces(z, zd, zdd))
    np.testing.assert_allclose(found, zdd, atol=1e-9)


def test_rows_in_another_order(body):
    """The order of segments is only that of coordinates: left before right, legs before arms."""
    rows = list(segments_of_body())
    order = [0, *range(14, 18), *range(10, 14), 1, *range(7, 10), *range(4, 7), 2, 3]
    positions = np.r_[0:3, np.ravel([range(3 + 3 * k, 6 + 3 * k) for k in order])]
    z, zd, zdd = motion()
    other = NaturalBody([rows[k] for k in order])
    forces = other.forces(*(each[positions] for each in (z, zd, zdd)))
    np.testing.assert_allclose(forces, body.forces(z, zd, zdd)[positions], atol=1e-10)


# -- constraints ----------------------------------------------------------------------------------


def test_counts_of_constraints(constrained):
    """171 rows of full rank, with names. The explicit ones need least elements."""
    z, zd, zdd = motion()
    natural = constrained.kinematics(z, zd, zdd)
    assert len(set(constrained.constraint_names)) == 171
    for k in range(len(STATES)):
        jacobian = constrained.constraint_jacobian(natural.q[:, k], z[3:, k])
        assert jacobian.shape == (171, 228) and np.linalg.matrix_rank(jacobian) == 171
        elements = np.count_nonzero(np.abs(jacobian) > 1e-13)
        assert elements == {"explicit": 651, "orthonormal": 900}[constrained.variant]
        assert np.linalg.cond(jacobian[:, constrained.partition.dependent]) < 10.0


def test_names_of_constraints(body):
    names = dict(enumerate(body.constraint_names))
    other = replace(body, variant="orthonormal").constraint_names
    assert [names[k] for k in (0, 5, 6)] == ["pelvis: u x", "pelvis: v z", "pelvis: point RH x"]
    assert other[:6] == tuple(
        f"pelvis: {rest}" for rest in ("u.u", "v.v", "u.v", "u.Av", "u.Aw", "v.Aw")
    )
    assert other[-9:-3] == tuple(
        f"Lforefoot: {rest}" for rest in ("v.v", "w.w", "v.w", "v.Aw", "v.Au", "w.Au")
    )
    for name in names.values():
        assert not name.startswith("Lforefoot: u")


def test_jacobian_of_constraints(constrained):
    """Where constraints are violated, too: by differences along random directions, exact but for
    rounding as Phi is of second degree in q; in angles to second order."""
    rng = np.random.default_rng(3)
    q, angles = rng.normal(size=174), rng.uniform(-1, 1, 54)
    jacobian = constrained.constraint_jacobian(q, angles)
    h = 1e-5
    for way in rng.uniform(-1, 1, (20, 228)):
        step = h * way
        ahead, behind = (
            constrained.constraints(q + s * step[:174], angles + s * step[174:]) for s in (1, -1)
        )
        np.testing.assert_allclose((ahead - behind) / (2 * h), jacobian @ way, rtol=0, atol=1e-9)


def test_constraints_hold_on_the_motion(constrained):
    z, zd, zdd = motion()
    natural = constrained.kinematics(z, zd, zdd)
    for k in range(len(STATES)):
        found = constrained.constraints(natural.q[:, k], z[3:, k])
        np.testing.assert_allclose(found, 0.0, atol=1e-14)


def test_reduction(body, constrained):
    """S and R of equations 9 and 10, solved from the constraints: R is that of the recursion, and
    qd = R zd, qdd = S c + R zdd."""
    z, zd, zdd = motion()
    natural, c = constrained.kinematics(z, zd, zdd), constrained.acceleration_terms(z, zd)
    for k in range(len(STATES)):
        jacobian = constrained.constraint_jacobian(natural.q[:, k], z[3:, k])
        by = reduction(jacobian, constrained.partition)
        assert by.S.shape == (228, 171) and by.R.shape == (228, 57)
        np.testing.assert_allclose(by.R[:174], body.projection(z[:, k]), atol=1e-12)
        np.testing.assert_allclose(jacobian @ by.R, 0.0, atol=1e-13)
        np.testing.assert_allclose(jacobian @ by.S, np.eye(171), atol=1e-13)
        rates = np.concatenate([natural.qd[:, k], zd[3:, k]])
        np.testing.assert_allclose(by.R @ zd[:, k], rates, atol=1e-12)
        accelerations = np.concatenate([natural.qdd[:, k], zdd[3:, k]])
        np.testing.assert_allclose(by.S @ c[:, k] + by.R @ zdd[:, k], accelerations, atol=1e-11)
        np.testing.assert_allclose(jacobian @ accelerations, c[:, k], atol=1e-11)


def test_the_same_accelerations(body, constrained):
    """Equation 16 with S and R of either set of constraints."""
    z, zd, _ = motion()
    forces = np.random.default_rng(5).normal(0.0, 10.0, z.shape)
    expected, c = body.accelerations(z, zd, forces), constrained.acceleration_terms(z, zd)
    natural = constrained.kinematics(z)
    for k in range(len(STATES)):
        jacobian = constrained.constraint_jacobian(natural.q[:, k], z[3:, k])
        by = reduction(jacobian, constrained.partition)
        R, bias, M = by.R[:174], (by.S @ c[:, k])[:174], body.mass_matrix
        rest = forces[:, k] + R.T @ (body.weight - M @ bias)
        zdd = np.linalg.solve(R.T @ (M @ R), rest)
        scale = np.abs(zdd).max()
        np.testing.assert_allclose(zdd, expected[:, k], atol=1e-11 * scale)


def test_multipliers(constrained):
    """M qdd + Phi_q' lambda = Q, with Q of weight on q and of forces on z."""
    z, zd, zdd = motion()
    natural, forces = constrained.kinematics(z, zd, zdd), constrained.forces(z, zd, zdd)
    multipliers = constrained.multipliers(z, zd, zdd)
    assert multipliers.shape == (171, len(STATES))
    for k in range(len(STATES)):
        jacobian = constrained.constraint_jacobian(natural.q[:, k], z[3:, k])
        Q = np.concatenate([constrained.weight, np.zeros(54)])
        Q[constrained.partition.independent] += forces[:, k]
        inertia = np.concatenate([constrained.mass_matrix @ natural.qdd[:, k], np.zeros(54)])
        np.testing.assert_allclose(inertia + jacobian.T @ multipliers[:, k], Q, atol=1e-9)


def test_multipliers_are_forces_at_joints(body):
    """At a point that does not span its segment, with which what hangs there pulls: the left hip,
    of whose leg the forces of inertia are differentiated in the test."""
    z, zd, zdd = motion()
    rows = list(segments_of_body())
    names = [row.name for row in rows]
    number = body.constraint_names.index("pelvis: point LH x")
    found = body.multipliers(z, zd, zdd)[number : number + 3]
    natural, expected = body.kinematics(z, zd, zdd), np.zeros((3, len(STATES)))
    for name in ("Lthigh", "Lshank", "Lhindfoot", "Lforefoot"):
        row, k = rows[names.index(name)], names.index(name)
        X = np.column_stack(
            [row.points[row.basis_point], *(np.eye(3)["uvw".index(e)] for e in row.basis_vectors)]
        )
        at, to = (3 * body.points[p] for p in (row.proximal, row.basis_point))
        first = 66 + 6 * k
        basis = np.array(
            [
                natural.qdd[to : to + 3] - natural.qdd[at : at + 3],
                natural.qdd[first : first + 3],
                natural.qdd[first + 3 : first + 6],
            ]
        )
        centre = np.linalg.solve(X, row.com)
        acceleration = natural.qdd[at : at + 3] + np.einsum("c,cin->in", centre, basis)
        expected += row.mass * (np.array([[0], [0], [-9.81]]) - acceleration)
    np.testing.assert_allclose(found, expected, atol=1e-9)


# -- bad input ------------------------------------------------------------------------------------


def test_coplanar_basis():
    rows = list(segments_of_body())
    rows[-1] = replace(rows[-1], basis_vectors="uw")
    with pytest.raises(ValueError, match=r"'Lforefoot': point 'LFG' and vectors u, w are nearly"):
        NaturalBody(rows)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"proximal": "X"}, "'torso': proximal point 'X' is not defined by any earlier segment"),
        ({"proximal": "NK"}, "'torso': proximal point 'NK' is not defined by any earlier segment"),
        ({"points": {"RH": (0.0, 0.0, 1.0)}}, "'torso': point 'RH' belongs to two segments"),
        (
            {"inertia": (0.1, 0.2, 0.4)},
            "'torso': no body has principal moments of inertia 0.1, 0.2, 0.4; each is at most the "
            "sum of the others",
        ),
        ({"inertia": (0.1, -0.2, 0.1)}, "'torso': no body has .* 0.1, -0.2, 0.1; each is at most"),
        ({"basis_point": "K"}, "'torso': basis point 'K' is none of its points NK, RS, LS"),
        ({"basis_vectors": "vu"}, "'torso': basis vectors are uv, vw or uw, got 'vu'"),
    ],
)
def test_bad_segments(changes, sentence):
    rows = list(segments_of_body())
    with pytest.raises(ValueError, match=sentence):
        NaturalBody([rows[0], replace(rows[1], **changes), *rows[2:]])


def test_bad_arguments(body):
    with pytest.raises(ValueError, match="variant is one of explicit, orthonormal, got 'other'"):
        replace(body, variant="other")
    with pytest.raises(ValueError, match=r"shape \(57, instants\), got \(57,\)"):
        body.forces(*3 * [np.zeros(57)])
    with pytest.raises(ValueError, match=r"got \(57, 2\), \(57, 3\)"):
        body.accelerations(np.zeros((57, 2)), np.zeros((57, 3)), np.zeros((57, 2)))
