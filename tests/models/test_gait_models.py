"""Models of gait against natural coordinates, instant by instant."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.gait.kinematics import Samples, angular_acceleration, in_turn, states
from kinesym.gait.natural.body import NaturalBody
from kinesym.models.gait import forward_dynamics, inverse_dynamics, turning
from kinesym.models.whole_body import segments_of_body, whole_body

#: A tree with branches at the root, at the torso and at the pelvis.
CHOSEN = ("pelvis", "torso", "neck", "Rarm", "Rthigh", "Rshank", "Lthigh")
ROWS = [row for row in segments_of_body(75.0, 1.7) if row.name in CHOSEN]
NAMES = [row.name for row in ROWS]
G = 3 + 3 * len(ROWS)
COORDINATES = [f"J1_p{axis}" for axis in "xyz"] + [f"{n}_{axis}" for n in NAMES for axis in "xyz"]
TREE = whole_body(ROWS)


@pytest.fixture(scope="module")
def functions():
    return ks.compile(forward_dynamics(TREE))


def motion(seed):
    """z, zd, zdd (g,) far from any reference; abduction well below 90 degrees."""
    rng = np.random.default_rng(seed)
    z, zd, zdd = (rng.uniform(-1, 1, G) * scale for scale in (3.0, 4.0, 30.0))
    z[3::3] /= 3.0
    return z, zd, zdd


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


def rates(functions, z, zd, force, torque, gains=None, Td=0.0, reference=None, change=None):
    """z' and z'' by the compiled model under a force on the root and torques from the world."""
    x, _ = states(Samples(np.zeros(1), z[:, None], zd[:, None], 0 * z[:, None]))
    given = dict(zip((f"J1_f{axis}" for axis in "xyz"), force, strict=True))
    given |= {
        f"{n}_m{axis}": value
        for n, row in zip(NAMES, torque, strict=True)
        for axis, value in zip("xyz", row, strict=True)
    }
    values = {**functions.values, "Td": Td}
    for k, name in enumerate(COORDINATES):
        given[f"{name}_ref"] = 0.0 if reference is None else reference[k]
        given[f"{name}_rate"] = 0.0 if change is None else change[k]
        values[f"Kp_{name}"] = 0.0 if gains is None else gains[k]
    found = functions.rhs(
        x[:, 0],
        [given[name] for name in functions.inputs],
        [values[name] for name in functions.parameters],
    )
    return in_turn(found[:G, None])[:, 0], found[G:]


def expected_speeds(z, zd, zdd):
    """Derivatives of the speeds: of the root, then of angular velocities in segment axes."""
    parts = [zdd[:3]]
    for k in range(3, G, 3):
        own = slice(k, k + 3)
        parts.append(angular_acceleration(z[own], zd[own], zdd[own]))
    return np.concatenate(parts)


def test_names(functions):
    """As they are documented; no control by default."""
    assert {f"Kp_{name}" for name in COORDINATES} | {"Td"} <= set(functions.parameters)
    expected = {f"J1_f{axis}" for axis in "xyz"} | {f"{n}_m{a}" for n in NAMES for a in "xyz"}
    expected |= {f"{name}_{kind}" for name in COORDINATES for kind in ("ref", "rate")}
    assert set(functions.inputs) == expected
    assert all(functions.values[f"Kp_{name}"] == 0.0 for name in COORDINATES)
    assert turning(TREE) == NAMES


@pytest.mark.parametrize("seed", range(4))
def test_accelerations(functions, seed):
    """Under a force on the root and torques from the world that nothing has to do with the motion,
    without gains: those of equation 16."""
    z, zd, _ = motion(seed)
    rng = np.random.default_rng(seed + 100)
    force, torque = rng.uniform(-500, 500, 3), rng.uniform(-20, 20, (len(ROWS), 3))
    Q = np.concatenate(
        [force, *(turns(z[3 * k + 3 : 3 * k + 6]).T @ row for k, row in enumerate(torque))]
    )
    zdd = NaturalBody(ROWS).accelerations(z[:, None], zd[:, None], Q[:, None])[:, 0]
    change, speeds = rates(functions, z, zd, force, torque)
    np.testing.assert_allclose(change, zd, atol=1e-12)
    expected = expected_speeds(z, zd, zdd)
    np.testing.assert_allclose(speeds, expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("seed", range(3))
def test_torques_that_a_motion_needs(functions, seed):
    """Forward dynamics with the forces of the natural coordinates gives the motion back."""
    z, zd, zdd = motion(seed)
    Q = NaturalBody(ROWS).forces(z[:, None], zd[:, None], zdd[:, None])[:, 0]
    torque = [np.linalg.solve(turns(z[k : k + 3]).T, Q[k : k + 3]) for k in range(3, G, 3)]
    _, speeds = rates(functions, z, zd, Q[:3], torque)
    np.testing.assert_allclose(speeds, expected_speeds(z, zd, zdd), atol=1e-8 * 100)


@pytest.mark.parametrize("Td", [0.0, 2.5e-5, 0.03])
def test_control(functions, Td):
    """Efforts Kp (e + Td e') are generalised forces along the coordinates."""
    z, zd, _ = motion(7)
    rng = np.random.default_rng(8)
    reference, change = z + rng.uniform(-0.1, 0.1, G), zd + rng.uniform(-1, 1, G)
    gains, torque = rng.uniform(0, 800, G), rng.uniform(-20, 20, (len(ROWS), 3))
    force = rng.uniform(-500, 500, 3)
    effort = gains * (reference - z + Td * (change - zd))
    Q = np.concatenate(
        [force, *(turns(z[3 * k + 3 : 3 * k + 6]).T @ row for k, row in enumerate(torque))]
    )
    zdd = NaturalBody(ROWS).accelerations(z[:, None], zd[:, None], (Q + effort)[:, None])[:, 0]
    _, speeds = rates(functions, z, zd, force, torque, gains, Td, reference, change)
    expected = expected_speeds(z, zd, zdd)
    np.testing.assert_allclose(speeds, expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


def test_masses_are_parameters():
    """The same model for another person is not built again: numbers do not occur in it."""
    tall = [row for row in segments_of_body(90.0, 1.95) if row.name in CHOSEN]
    one, other = (inverse_dynamics(whole_body(rows).parametrised()) for rows in (ROWS, tall))
    assert one.state_names == other.state_names and one.outputs == other.outputs
    assert one.parameter_names == other.parameter_names and one.values != other.values


def test_outputs_of_inverse_dynamics():
    """Each segment says what it and all that it carries need."""
    names = set(inverse_dynamics(TREE).outputs)
    expected = {f"total_{kind}_{axis}" for kind in ("force", "moment") for axis in "xyz"}
    for name in NAMES:
        expected |= {
            f"{name}_{kind}_{axis}" for kind in ("force", "moment", "place") for axis in "xyz"
        }
        expected |= {f"{name}_attitude_{a}{b}" for a in "xyz" for b in "xyz"}
    assert names == expected
