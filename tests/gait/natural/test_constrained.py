"""Rods in natural coordinates, a chain on a moving base and a closed loop, against derivations in
angles."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad, solve_ivp

from kinesym.gait.natural.constrained import (
    PIVOT,
    ConstrainedSystem,
    Partition,
    partition,
    pivot_ratio,
    reduction,
    refreshed,
)

GRAVITY = 9.81


def rods(masses, ends, count):
    """M of uniform rods between points in the plane, (2 count, 2 count)."""
    M = np.zeros((count, count))
    for mass, pair in zip(masses, ends, strict=True):
        M[np.ix_(pair, pair)] += mass / 6.0 * np.array([[2.0, 1.0], [1.0, 2.0]])
    return np.kron(M, np.eye(2))


def arm(q, pair):
    return q[2 * pair[1] : 2 * pair[1] + 2] - q[2 * pair[0] : 2 * pair[0] + 2]


def distances(q, ends, lengths):
    return np.array(
        [arm(q, pair) @ arm(q, pair) - L**2 for pair, L in zip(ends, lengths, strict=True)]
    )


def distance_rows(q, ends):
    result = np.zeros((len(ends), len(q)))
    for row, (i, j) in zip(result, ends, strict=True):
        row[2 * j : 2 * j + 2] = 2.0 * arm(q, (i, j))
        row[2 * i : 2 * i + 2] = -2.0 * arm(q, (i, j))
    return result


# -- a chain of two rods on a base that is moved, x0 = a sin(w t) ---------------------------------

MASSES, LENGTHS, ENDS = (2.0, 1.5), (0.8, 0.6), ((0, 1), (1, 2))
A, W = 0.3, 4.0
CHAIN = ConstrainedSystem(
    mass_matrix=rods(MASSES, ENDS, 3),
    forces=lambda q, qd, t: rods(MASSES, ENDS, 3) @ np.tile([0.0, -GRAVITY], 3),
    constraints=lambda q, t: np.concatenate(
        [q[:2] - [A * np.sin(W * t), 0.0], distances(q, ENDS, LENGTHS)]
    ),
    jacobian=lambda q, t: np.vstack([np.eye(2, 6), distance_rows(q, ENDS)]),
    velocity_terms=lambda q, t: np.array([A * W * np.cos(W * t), 0.0, 0.0, 0.0]),
    acceleration_terms=lambda q, qd, t: np.array(
        [-A * W**2 * np.sin(W * t), 0.0, *(-2.0 * arm(qd, pair) @ arm(qd, pair) for pair in ENDS)]
    ),
)


def lagrange():
    """theta'' of the chain by SymPy from its energies; angles from hanging down."""
    t, T, V = sp.Symbol("t"), 0, 0
    angles = [sp.Function(f"a{k}")(t) for k in range(2)]
    at = sp.Matrix([A * sp.sin(W * t), 0])
    for mass, length, angle in zip(MASSES, LENGTHS, angles, strict=True):
        along = length * sp.Matrix([sp.sin(angle), -sp.cos(angle)])
        velocity = (at + along / 2).diff(t)
        T += mass / 2 * velocity.dot(velocity) + mass * length**2 / 24 * angle.diff(t) ** 2
        V += mass * GRAVITY * (at + along / 2)[1]
        at = at + along
    equations = [(T - V).diff(x.diff(t)).diff(t) - (T - V).diff(x) for x in angles]
    mass = sp.Matrix(equations).jacobian([x.diff(t, 2) for x in angles])
    rest = sp.Matrix(equations).subs({x.diff(t, 2): 0 for x in angles})
    names = sp.symbols("p0 p1 w0 w1")
    replaced = {x.diff(t): w for x, w in zip(angles, names[2:], strict=True)}
    replaced |= dict(zip(angles, names[:2], strict=True))
    function = sp.lambdify([t, *names], [e.subs(replaced) for e in (mass, rest)])

    def accelerations(t, values):
        M, f = function(t, *values)
        return np.linalg.solve(M, -np.ravel(f))

    return accelerations


def chain_state(t, values):
    """q and qd of angles and their rates."""
    q, qd = [np.array([A * np.sin(W * t), 0.0])], [np.array([A * W * np.cos(W * t), 0.0])]
    for length, angle, rate in zip(LENGTHS, values[:2], values[2:], strict=True):
        q.append(q[-1] + length * np.array([np.sin(angle), -np.cos(angle)]))
        qd.append(qd[-1] + length * rate * np.array([np.cos(angle), np.sin(angle)]))
    return np.concatenate(q), np.concatenate(qd)


@pytest.mark.parametrize("seed", range(4))
def test_accelerations_of_a_moving_chain(seed):
    """Rheonomic: b and c with what depends on time; multipliers of the guide are its force."""
    rng, expected = np.random.default_rng(seed), lagrange()
    t, values = rng.uniform(0, 2), rng.uniform(-3, 3, 4)
    q, qd = chain_state(t, values)
    chosen = partition(CHAIN.jacobian(q, t))
    np.testing.assert_allclose(CHAIN.constraints(q, t), 0.0, atol=1e-15)
    rates = CHAIN.velocities(q, qd[chosen.independent], t, chosen)
    np.testing.assert_allclose(rates, qd, atol=1e-12)  # equation 8
    qdd = CHAIN.accelerations(q, qd, t, chosen)
    at, angular = -A * W**2 * np.sin(W * t) * np.array([1.0, 0.0]), expected(t, values)
    np.testing.assert_allclose(qdd[:2], at, atol=1e-12)
    force = np.zeros(2)
    for k, length in enumerate(LENGTHS):
        s, c = np.sin(values[k]), np.cos(values[k])
        move = length * (angular[k] * np.array([c, s]) + values[2 + k] ** 2 * np.array([-s, c]))
        force += MASSES[k] * (at + move / 2.0 + [0.0, GRAVITY])
        at = at + move
        np.testing.assert_allclose(qdd[2 * k + 2 : 2 * k + 4], at, atol=1e-9)
    multipliers = CHAIN.multipliers(q, qd, qdd, t, chosen)
    np.testing.assert_allclose(-multipliers[:2], force, atol=1e-9)
    left = CHAIN.mass_matrix @ qdd + CHAIN.jacobian(q, t).T @ multipliers
    np.testing.assert_allclose(left, CHAIN.forces(q, qd, t), atol=1e-9)
    np.testing.assert_allclose(CHAIN.inverse_dynamics(q, qd, qdd, t, chosen), 0.0, atol=1e-9)


@pytest.mark.study
def test_simulation_of_a_moving_chain():
    """A rod turns over; against an adaptive integration in angles. Of order 4."""
    start, expected = np.array([0.5, 1.0, 8.0, 8.0]), lagrange()
    time = np.linspace(0.0, 0.6, 4)
    answer = solve_ivp(
        lambda t, y: [*y[2:], *expected(t, y)],
        (0.0, 0.6),
        start,
        "DOP853",
        time,
        rtol=1e-13,
        atol=1e-13,
    )
    right = np.array([chain_state(t, y) for t, y in zip(time, answer.y.T, strict=True)])
    assert np.ptp(answer.y[:2], axis=1).max() > np.pi
    errors = []
    for substeps in (400, 800):
        found = CHAIN.simulate(time, *chain_state(0.0, start), substeps=substeps)
        errors.append(
            max(np.abs(found.q.T - right[:, 0]).max(), np.abs(found.qd.T - right[:, 1]).max())
        )
    assert errors[1] < 1e-9 and 12.0 < errors[0] / errors[1] < 20.0
    for k, t in enumerate(time):
        np.testing.assert_allclose(CHAIN.constraints(found.q[:, k], t), 0.0, atol=1e-13)
        rates = CHAIN.jacobian(found.q[:, k], t) @ found.qd[:, k]
        np.testing.assert_allclose(rates, CHAIN.velocity_terms(found.q[:, k], t), atol=1e-12)


# -- a closed loop of three rods: a crank that turns round and a rocker ---------------------------

LOOP = {"masses": (1.0, 3.0, 2.0), "lengths": (1.0, 3.5, 3.0)}
PIVOTS = np.array([0.0, 0.0, 4.0, 0.0])  # of crank and rocker
BARS = ((0, 1), (1, 2), (2, 3))  # crank, coupler, rocker; the points 1 and 2 move
FOURBAR = ConstrainedSystem(
    mass_matrix=rods(LOOP["masses"], BARS, 4)[2:6, 2:6],
    forces=lambda q, qd, t: (rods(LOOP["masses"], BARS, 4) @ np.tile([0.0, -GRAVITY], 4))[2:6],
    constraints=lambda q, t: distances(np.r_[PIVOTS[:2], q, PIVOTS[2:]], BARS, LOOP["lengths"]),
    jacobian=lambda q, t: distance_rows(np.r_[PIVOTS[:2], q, PIVOTS[2:]], BARS)[:, 2:6],
    velocity_terms=lambda q, t: np.zeros(3),
    acceleration_terms=lambda q, qd, t: np.array(
        [
            -2.0 * arm(np.r_[0, 0, qd, 0, 0], pair) @ arm(np.r_[0, 0, qd, 0, 0], pair)
            for pair in BARS
        ]
    ),
)


def loop(theta):
    """The two points that move, of the angle of the crank; complex as well."""
    crank, coupler, rocker = LOOP["lengths"]
    first = crank * np.array([np.cos(theta), np.sin(theta)])
    across = PIVOTS[2:] - first
    square = across @ across
    share = (coupler**2 - rocker**2 + square) / (2.0 * square)
    height = np.sqrt(coupler**2 / square - share**2)
    aside = height * np.array([-across[1], across[0]])
    return np.concatenate([first, first + share * across + aside])


def energies(theta):
    """Kinetic energy for a unit speed of the crank and potential energy, of the angle alone."""
    by_angle = loop(theta + 1e-30j).imag / 1e-30
    weight = FOURBAR.forces(None, None, 0.0)
    return by_angle @ FOURBAR.mass_matrix @ by_angle / 2.0, -(weight @ loop(theta).real)


def test_closed_loop():
    """One turn of the crank: its speed at each angle is that of energy, and so is the time."""
    theta, speed = 0.3, 6.0
    rate = speed * loop(theta + 1e-30j).imag / 1e-30
    T, V = energies(theta)
    energy = T * speed**2 + V
    time = np.linspace(0.0, 1.4, 15)
    found = FOURBAR.simulate(time, loop(theta), rate, substeps=100)
    angles = np.unwrap(np.arctan2(found.q[1], found.q[0]))
    assert angles[-1] > theta + 2.0 * np.pi
    choices = {tuple(partition(FOURBAR.jacobian(q, 0.0)).independent) for q in found.q.T}
    assert len(choices) > 1

    def speed_at(angle):
        T, V = energies(angle)
        return np.sqrt((energy - V) / T)

    for q, qd, angle in zip(found.q.T, found.qd.T, angles, strict=True):
        np.testing.assert_allclose(q, loop(angle), atol=1e-12)
        np.testing.assert_allclose(qd[0] * q[1] - qd[1] * q[0], -speed_at(angle), rtol=1e-7)
    taken, _ = quad(lambda angle: 1.0 / speed_at(angle), angles[0], angles[-1], epsabs=1e-12)
    np.testing.assert_allclose(taken, time[-1], rtol=1e-7)


def test_closed_loop_pointwise():
    """The acceleration of the crank is that of its speed at each angle, to 1e-9."""
    theta, speed, h = 2.1, 3.0, 1e-3
    q, qd = loop(theta), speed * loop(theta + 1e-30j).imag / 1e-30
    chosen = partition(FOURBAR.jacobian(q, 0.0))
    qdd = FOURBAR.accelerations(q, qd, 0.0, chosen)
    found = q[0] * qdd[1] - q[1] * qdd[0]
    nodes = np.array([-3, -2, -1, 1, 2, 3]) * h
    weights = np.array([-1, 9, -45, 45, -9, 1]) / (60.0 * h)
    slopes = weights @ [energies(theta + node) for node in nodes]
    expected = -(slopes[0] * speed**2 + slopes[1]) / (2.0 * energies(theta)[0])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# -- choices --------------------------------------------------------------------------------------


def test_partition():
    """The choice is kept until its pivot ratio is below 1e-8."""
    upright = partition([[0.0, 2.0]])  # a pendulum x^2 + z^2 = 1: its height follows from x
    assert (list(upright.dependent), list(upright.independent)) == ([1], [0])
    assert pivot_ratio([[2.0, 1e-3]], upright) == 5e-4
    assert refreshed([[2.0, 1e-3]], upright) is upright
    other = refreshed([[2.0, PIVOT]], upright)
    assert (list(other.dependent), list(other.independent)) == ([0], [1])
    np.testing.assert_allclose(reduction([[2.0, 1.0]], other).R, [[-0.5], [1.0]])
    np.testing.assert_allclose(reduction([[2.0, 1.0]], other).S, [[0.5], [0.0]])
    assert pivot_ratio([[0.0, 0.0]], upright) == 0.0


def test_no_constraints():
    """Free coordinates are all independent."""
    free = partition(np.zeros((0, 3)))
    assert list(free.independent) == [0, 1, 2] and pivot_ratio(np.zeros((0, 3)), free) == 1.0
    by = reduction(np.zeros((0, 3)), free)
    assert by.S.shape == (3, 0)
    np.testing.assert_array_equal(by.R, np.eye(3))


def test_refusals():
    with pytest.raises(ValueError, match="2 constraints have rank 1 here: drop redundant ones"):
        partition([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    q = np.array([0.0, 0.0, 0.8, 0.0, 5.0, 0.0])  # no point 2 has this x
    with pytest.raises(ValueError, match="no configuration near the given one satisfies"):
        CHAIN.assembled(q, 0.0, Partition(np.array([0, 1, 3, 5]), np.array([2, 4])))
