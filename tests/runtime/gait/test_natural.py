"""Natural coordinates of the body of 18 segments against another implementation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinesym.models.whole_body import segments_of_body
from kinesym.runtime.gait.natural import NaturalBody

DATA = Path(__file__).parents[2] / "data"
STATES = json.loads((DATA / "gait57_random_states.json").read_text())


@pytest.fixture(scope="module")
def body():
    return NaturalBody(segments_of_body(85.0, 1.82))


def motion(keys=("z", "zd", "zdd")):
    return [np.array([state[key] for state in STATES]).T for key in keys]


def test_sizes_and_mass_matrix(body):
    M = body.mass_matrix
    assert body.size == 174 and len(body.points) == 22
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
    course = body.course(z, zd, zdd)
    kinetic = np.einsum("in,in->n", course.qd, body.mass_matrix @ course.qd) / 2.0
    potential = -(body.weight @ course.q)
    np.testing.assert_allclose(kinetic + potential, [s["energy"] for s in STATES], rtol=1e-11)


def test_rates(body):
    """qd = R zd, and the second derivatives are those of the first: by a complex step in time."""
    z, zd, zdd = motion()
    course = body.course(z, zd, zdd)
    for k in range(len(STATES)):
        R = body.projection(z[:, k])
        np.testing.assert_allclose(R @ zd[:, k], course.qd[:, k], atol=1e-13)
        assert R.shape == (174, 57) and np.linalg.matrix_rank(R) == 57
        mass = R.T @ body.mass_matrix @ R
        assert np.linalg.eigvalsh(mass)[0] > 0.0
    h = 1e-4
    ahead, behind = (body.course(z + s * h * zd + h * h / 2 * zdd, zd + s * h * zdd, zdd)
                     for s in (1, -1))  # fmt: skip
    np.testing.assert_allclose((ahead.q - behind.q) / (2 * h), course.qd, atol=2e-5)
    np.testing.assert_allclose((ahead.qd - behind.qd) / (2 * h), course.qdd, atol=2e-3)


def test_coplanar_basis():
    rows = list(segments_of_body())
    rows[-1] = replace(rows[-1], basis_vectors="uw")
    with pytest.raises(ValueError, match=r"'Lforefoot': point 'LFG' and vectors u, w are nearly"):
        NaturalBody(rows)


def test_constraints(body):
    """Counts of the paper; they hold on the motion, their Jacobian is that of R, and multipliers
    are the forces: of what is free, those that `forces` tells."""
    z, zd, zdd = motion()
    course, forces = body.course(z, zd, zdd), body.forces(z, zd, zdd)
    multipliers = body.multipliers(z, zd, zdd)
    for k in range(len(STATES)):
        angles = z[3:, k]
        jacobian = body.constraint_jacobian(angles)
        assert jacobian.shape == (171, 228) and np.linalg.matrix_rank(jacobian) == 171
        assert 0 < np.linalg.cond(jacobian[:, 3:174]) < 20.0
        np.testing.assert_allclose(body.constraints(course.q[:, k], angles), 0.0, atol=1e-14)
        rates = np.concatenate([course.qd[:, k], zd[3:, k]])
        np.testing.assert_allclose(jacobian @ rates, 0.0, atol=1e-12)
        R = np.vstack([body.projection(z[:, k]), np.eye(57)[3:]])
        np.testing.assert_allclose(jacobian @ R, 0.0, atol=1e-13)
        inertia = np.concatenate([body.mass_matrix @ course.qdd[:, k] - body.weight, np.zeros(54)])
        needed = inertia + jacobian.T @ multipliers[:, k]  # on the root and on the angles
        np.testing.assert_allclose(needed[3:174], 0.0, atol=1e-9)
        np.testing.assert_allclose(needed[[0, 1, 2, *range(174, 228)]], forces[:, k], atol=1e-9)
