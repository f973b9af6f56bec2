"""The ready-made models against formulations that are written here independently."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import models
from kinesym.codegen.c import emit
from kinesym.codegen.transcribe import transcribe
from kinesym.runtime.library.manifest import CollocationManifest, load_manifest
from kinesym.runtime.nlp.collocation import make_layout
from kinesym.symbolic.objective import LeastSquares
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import SCHEMES


def assert_close(found, expected, tolerance=1e-10):
    """Relative to the largest number."""
    scale = np.max(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def defaults(model):
    """The values of the parameters, in their order."""
    return np.array([model.values[name] for name in model.parameter_names])


def least_squares_program(model, unknown):
    """Kernels of the identification of `unknown` from all states, not compiled."""
    measured = dict(zip(model.state_names, model.states, strict=True))
    return transcribe(
        Problem(
            model,
            SCHEMES["midpoint"],
            LeastSquares(),
            unknown,
            signals=model.inputs,
            measurements=measured,
        )
    )


def sizes(program, N):
    """Variables, constraints, and nonzeros of the Jacobian, for one trial of N nodes."""
    about = load_manifest(emit(program).manifest).of(CollocationManifest)
    layout = make_layout(about, [ks.Experiment(time=np.arange(float(N)))])
    per_interval = len(about.families["interval"].jacobian[0])
    return layout.n_variables, layout.n_constraints, per_interval * (N - 1)


@pytest.mark.parametrize(
    "make",
    [
        models.pendulum,
        models.cip,
        models.standing,
        models.standing_plant,
        lambda: models.n_link_pendulum_on_cart(4),
    ],
)
def test_every_parameter_has_a_value(make):
    """Models come with a value for each parameter and compile to an explicit right-hand side."""
    model = make()
    assert set(model.values) == set(model.parameter_names)
    assert ks.compile(model).is_explicit


# -- pendulum -------------------------------------------------------------------------------


def test_pendulum():
    """theta'' = -p sin theta; 9 nonzeros per interval; 10,001 variables of 5000 nodes."""
    model = models.pendulum()
    functions = ks.compile(model)
    theta, omega = x = np.random.default_rng(1).normal(size=(2, 7))
    expected = [omega, -10.0 * np.sin(theta)]
    assert_close(functions.rhs(x, [], [10.0]), expected, 1e-14)
    assert_close(functions.residual(expected, x, [], [10.0]), np.zeros((2, 7)), 1e-14)
    program = least_squares_program(model, model.parameters)
    assert sizes(program, 5000) == (10_001, 9_998, 9 * 4999)


# -- controlled inverted pendulum -----------------------------------------------------------


def cip_rates(x, noise, p):
    """Barauskas, Krusinskiene 2005, equations (2.1) to (2.3)."""
    u, v, z, Td = x
    KP, KI, KD, A, B, m, I, h, g = p  # noqa: E741
    Tc = KP * u + KI * z + KD * v
    return np.array([v, (m * g * h * u + Td - Tc) / I, u, (A * noise - Td) / B])


def test_cip_equations():
    """Rates of the four states, with the published values and with random ones."""
    model = models.cip()
    functions = ks.compile(model)
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=(4, 9)), rng.normal(size=(1, 9))
    for p in (defaults(model), rng.uniform(0.5, 2.0, 9)):
        expected = cip_rates(x, noise[0], p)
        assert_close(functions.rhs(x, noise, p), expected, 1e-13)
        assert_close(functions.residual(expected, x, noise, p), 0.0 * x, 1e-11)
    assert defaults(model).tolist() == [1470, 14.32, 200, 1000, 80, 60, 76, 1.13, 9.81]


def test_cip_output_identity():
    """u_COP = h u - I u''/(m g) equals (Tc - Td)/(m g)."""
    model = models.cip()
    functions = ks.compile(model)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 50)) * np.array([[0.02], [0.05], [0.3], [25.0]])
    noise, p = rng.normal(size=(1, 50)), defaults(model)
    KP, KI, KD, _, _, m, I, h, g = p  # noqa: E741
    u, v, z, Td = x
    rates = functions.rhs(x, noise, p)
    found = functions.outputs(rates, x, noise, p)[0]
    np.testing.assert_allclose(found, (KP * u + KI * z + KD * v - Td) / (m * g), 0, 1e-12)
    np.testing.assert_allclose(found, h * u - I * rates[1] / (m * g), 0, 1e-12)


def test_cip_structure():
    """Without the unit entries of x', 7 nonzeros for the states and 5 for KP, KI, KD, A, B."""
    functions = ks.compile(models.cip())
    x, p = np.full((4, 1), 0.5), np.linspace(1.0, 2.0, 9)
    states = functions.jacobian(x, x, [[1.0]], p, wrt="states")
    gains = functions.jacobian(x, x, [[1.0]], p, wrt="parameters")[:, :5]
    assert np.count_nonzero(states) == 7 and np.count_nonzero(gains) == 5


def test_cip_stability():
    """Routh: the loop with the published values is stable; with KP below m g h it is not."""
    model = models.cip()
    functions = ks.compile(model)
    for KP, stable in ((1470.0, True), (60.0, False)):
        p = np.r_[KP, defaults(model)[1:]]
        eigenvalues = np.linalg.eigvals(system_matrix(functions, p)[:3, :3])
        assert (eigenvalues.real.max() < 0) == stable


def system_matrix(functions, p):
    """A of x' = A x at the origin, from the Jacobians of the implicit residual."""
    zero, u = np.zeros(len(functions.states)), np.zeros(len(functions.inputs))
    mass = functions.jacobian(zero, zero, u, p, wrt="derivatives")
    stiffness = functions.jacobian(zero, zero, u, p, wrt="states")
    return -np.linalg.solve(mass, stiffness)


# -- standing -------------------------------------------------------------------------------


def standing_mass_and_load(x, inputs, p):
    """Moore, van den Bogert 2015, the two-link plant: mass matrix (2, 2, n), right side (2, n)."""
    th_a, th_h, w_a, w_h = x
    a, T_a, T_h = inputs
    l_L, d_L, m_L, I_L, d_T, m_T, I_T, g = p
    phi = th_a + th_h
    a11 = m_L * d_L**2 + m_T * l_L**2 + I_L
    a22 = m_T * d_T**2 + I_T + 0 * phi
    a12 = m_T * l_L * d_T * np.cos(th_h)
    b = m_T * l_L * d_T * np.sin(th_a - phi)
    Qa = (m_L * d_L + m_T * l_L) * (g * np.sin(th_a) + a * np.cos(th_a)) + T_a - T_h
    Qa -= b * (w_a + w_h) ** 2
    Qp = m_T * d_T * (g * np.sin(phi) + a * np.cos(phi)) + T_h + b * w_a**2
    mass = np.array([[a11 + 2 * a12 + a22, a12 + a22], [a12 + a22, a22]])
    return mass, np.array([Qa + Qp, Qp])


def standing_rates(x, inputs, p):
    mass, load = standing_mass_and_load(x, inputs, p)
    accelerations = np.linalg.solve(np.moveaxis(mass, 2, 0), load.T[:, :, None])[:, :, 0].T
    return np.array([x[2], x[3], *accelerations])


@pytest.mark.parametrize(
    "p", [tuple(defaults(models.standing_plant())), (1.1, 0.4, 3.0, 0.7, 0.6, 2.0, 0.3, 9.0)]
)
def test_standing_plant(p):
    """Accelerations that solve the 2x2 system make the residual of Kane's method zero."""
    functions = ks.compile(models.standing_plant())
    rng = np.random.default_rng(4)
    x, inputs = rng.normal(size=(4, 20)), rng.normal(size=(3, 20)) * [[2.0], [50.0], [50.0]]
    rates = standing_rates(x, inputs, p)
    scale = np.abs(functions.residual(0 * rates, x, inputs, p)).max()
    np.testing.assert_allclose(functions.residual(rates, x, inputs, p), 0, atol=1e-13 * scale)
    assert_close(functions.rhs(x, inputs, p), rates, 1e-12)
    mass, _ = standing_mass_and_load(x, inputs, p)
    block = functions.jacobian(rates, x, inputs, p, wrt="derivatives")[2:, 2:]
    sign = np.sign(block[0, 0, 0])
    assert_close(sign * block, mass, 1e-12)


def test_standing_feedback():
    """The closed loop is the plant with T = -K x; the torques are outputs."""
    model = models.standing()
    functions = ks.compile(model)
    rng = np.random.default_rng(5)
    x, a = 0.1 * rng.normal(size=(4, 20)), rng.normal(size=(1, 20))
    p = defaults(model)
    gains = np.array([[950.0, 175.0, 185.0, 50.0], [45.0, 290.0, 60.0, 26.0]])
    torques = -gains @ x
    assert_close(functions.rhs(x, a, p), standing_rates(x, [a[0], *torques], p[8:]), 1e-12)
    assert functions.output_names == ("T_a", "T_h")
    assert_close(functions.outputs(0 * x, x, a, p), torques, 1e-14)


def test_standing_eigenvalues():
    """Reference: an independent implementation of the equations, linearised by hand; 8 decimals."""
    plant, closed = models.standing_plant(), models.standing()
    found = np.linalg.eigvals(system_matrix(ks.compile(plant), defaults(plant)))
    expected = [-7.49836081, -2.96341115, 2.96341115, 7.49836081]
    np.testing.assert_allclose(np.sort(found.real), expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.imag, 0, atol=1e-7)
    found = np.linalg.eigvals(system_matrix(ks.compile(closed), defaults(closed)))
    pairs = [-2.27577655 + 8.56298125j, -1.14712902 + 0.88682171j]
    expected = [*pairs, *np.conj(pairs)]
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(expected), 0, 1e-7)


def test_standing_sizes():
    """8 unknown gains, 6000 nodes: the published sizes, and 32 nonzeros per interval."""
    model = models.standing()
    gains = model.parameters[:8]
    assert sizes(least_squares_program(model, gains), 6000) == (24_008, 23_996, 191_968)
    trial = ks.Experiment(
        time=np.arange(6000) / 100,
        inputs={"a": np.zeros(6000)},
        measurements={x: np.zeros(6000) for x in model.states},
    )
    problem = ks.Collocation(model, trial, unknown=dict.fromkeys(gains), scheme="midpoint")
    assert (problem.n_variables, problem.n_constraints) == (24_008, 23_996)
    rows, columns = problem.nlp.jacobian_structure.arrays()
    assert len(rows) == 191_968 == 32 * 5999
    assert len(np.unique(rows * np.int64(24_008) + columns)) == 191_968


# -- n links --------------------------------------------------------------------------------


def n_link_equations(x, force, p, n):
    """M(q) (n + 1, n + 1, N) and Q (n + 1, N), in closed form."""
    q, u = x[: n + 1], x[n + 1 :]
    m, length, g = p[: n + 1], np.r_[np.nan, p[n + 1 : -1]], p[-1]
    mu = np.cumsum(m[::-1])[::-1]
    M, Q = np.zeros((n + 1, n + 1, q.shape[1])), np.zeros_like(q)
    M[0, 0], Q[0] = mu[0], force
    for i in range(1, n + 1):
        M[0, i] = M[i, 0] = -length[i] * mu[i] * np.cos(q[i])
        Q[0] -= mu[i] * length[i] * np.sin(q[i]) * u[i] ** 2
        Q[i] += g * mu[i] * length[i] * np.sin(q[i])
        for j in range(1, n + 1):
            both = length[i] * length[j] * mu[max(i, j)]
            M[i, j] = both * np.cos(q[i] - q[j])
            Q[i] -= both * np.sin(q[i] - q[j]) * u[j] ** 2
    return M, Q


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_n_link_closed_form(n):
    """The recursive residual is [q' - u, M u' - Q] with the closed form of M and Q."""
    functions = ks.compile(models.n_link_pendulum_on_cart(n))
    rng = np.random.default_rng(n)
    x, rates = rng.normal(size=(2, 2 * n + 2, 11))
    force, p = rng.normal(size=(1, 11)), rng.uniform(0.5, 2.0, 2 * n + 2)
    M, Q = n_link_equations(x, force[0], p, n)
    dynamic = np.einsum("ijk,jk->ik", M, rates[n + 1 :]) - Q
    expected = np.concatenate([rates[: n + 1] - x[n + 1 :], dynamic])
    assert_close(functions.residual(rates, x, force, p), expected, 1e-13)
    accelerations = np.linalg.solve(np.moveaxis(M, 2, 0), Q.T[:, :, None])[:, :, 0].T
    found = functions.rhs(x, force, p)
    assert_close(found, np.concatenate([x[n + 1 :], accelerations]), 1e-10)


def test_two_links_by_euler_lagrange():
    """Two links: Lagrange's equations from the positions of the masses, by SymPy."""
    t = ks.t
    q = ks.dynamicsymbols("q_:3")
    m, length, g, force = sp.symbols("m_:3"), sp.symbols("l_1:3"), sp.Symbol("g"), sp.Symbol("F")
    x, y = [q[0]], [sp.S.Zero]
    for i in (1, 2):
        x.append(x[-1] - length[i - 1] * sp.sin(q[i]))
        y.append(y[-1] + length[i - 1] * sp.cos(q[i]))
    kinetic = sum(
        w * (a.diff(t) ** 2 + b.diff(t) ** 2) / 2 for w, a, b in zip(m, x, y, strict=True)
    )
    lagrangian = kinetic - sum(w * g * b for w, b in zip(m, y, strict=True))
    equations = [lagrangian.diff(s.diff(t)).diff(t) - lagrangian.diff(s) for s in q]
    equations[0] -= force
    order = [*(s.diff(t, 2) for s in q), *(s.diff(t) for s in q), *q, force, *m, *length, g]
    plain = sp.symbols(f"v:{len(order)}")
    reference = sp.lambdify(
        plain, [e.subs(list(zip(order, plain, strict=True))) for e in equations]
    )
    rng = np.random.default_rng(8)
    angles, speeds, accelerations = rng.normal(size=(3, 3, 15))
    input_, p = rng.normal(size=(1, 15)), rng.uniform(0.5, 2.0, 6)
    expected = np.array(reference(*accelerations, *speeds, *angles, input_[0], *p))
    functions = ks.compile(models.n_link_pendulum_on_cart(2))
    found = functions.residual(
        np.concatenate([speeds, accelerations]), np.concatenate([angles, speeds]), input_, p
    )
    assert_close(found[3:], expected, 1e-12)
    assert_close(found[:3], 0 * speeds, 1e-14)


def test_ten_links_sizes():
    """Published benchmark: 22 unknown parameters, 10,000 nodes, 692 nonzeros per interval."""
    model = models.n_link_pendulum_on_cart(10)
    program = least_squares_program(model, model.parameters)
    assert sizes(program, 10_000) == (220_022, 219_978, 692 * 9_999)


@pytest.mark.parametrize("n", [0, -1, 2.0, "2"])
def test_number_of_links(n):
    """The number of links must be a positive integer."""
    with pytest.raises(ValueError, match="positive integer, got"):
        models.n_link_pendulum_on_cart(n)


def test_operations_grow_linearly():
    """Residual of 40 links: four times the operations of 10 links, not sixteen times."""
    from kinesym.codegen.evaluate import model_functions

    counts = []
    for n in (10, 20, 40):
        kernel = model_functions(models.n_link_pendulum_on_cart(n)).kernel("residual")
        counts.append(kernel.operations)
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
