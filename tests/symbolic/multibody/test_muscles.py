"""Muscles of De Groote et al. (2016): published values, closed forms, and integration by SciPy."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from test_osim import interpreted

import kinesym as ks
from kinesym.multibody import Body, Muscle, Prismatic, Revolute, Spherical, Tree, with_muscles
from kinesym.symbolic.multibody.muscles import (
    active_force,
    passive_force,
    tendon_force,
    tendon_length,
    velocity_force,
)


def test_curves_have_their_published_values():
    """Of the paper's supplement with two digits more, and of OpenSim's tests of its class."""
    assert float(active_force(1)) == pytest.approx(1.0, abs=1e-15)
    assert float(tendon_force(1)) == pytest.approx(0.0, abs=1e-15)
    assert float(tendon_force(1.049)) == pytest.approx(1.0, rel=1e-14)
    assert float(passive_force(1.6)) == pytest.approx(1.0, rel=1e-14)
    assert float(passive_force(0.2)) == pytest.approx(0.0, abs=1e-15)
    assert float(velocity_force(-1)) == pytest.approx(0.0, abs=1e-14)
    assert float(velocity_force(0)) == pytest.approx(1.0, abs=1e-14)
    assert float(velocity_force(1)) == pytest.approx(1.794, rel=1e-3)


def test_curves_are_those_of_the_paper_but_for_rounding():
    """Supplement of De Groote et al.: b, d, c as printed there (the tendon with kT = 35)."""
    x, v = np.linspace(0.4, 1.6, 13), np.linspace(-1, 1, 21)
    bells = [(0.815, 1.055, 0.162, 0.063), (0.433, 0.717, -0.030, 0.200), (0.1, 1, 0.354, 0)]
    active = sum(b1 * np.exp(-0.5 * ((x - b2) / (b3 + b4 * x)) ** 2) for b1, b2, b3, b4 in bells)
    passive = (np.exp(4 * (x - 1) / 0.6) - 1) / (np.exp(4) - 1)
    w = -8.149 * v - 0.374
    velocity = -0.318 * np.log(w + np.sqrt(w**2 + 1)) + 0.886
    z = sp.Symbol("z")
    ours = [sp.lambdify(z, f(z)) for f in (active_force, passive_force, velocity_force)]
    np.testing.assert_allclose(ours[0](x), active, atol=5e-3)
    np.testing.assert_allclose(ours[1](x), passive, atol=0.019)  # theirs is 0 at 1, ours at 0.2
    np.testing.assert_allclose(ours[2](v), velocity, atol=0.016)


def test_the_length_of_a_tendon_is_the_inverse():
    for strain in (0.033, 0.049, 0.1):
        for force in (0.0, 0.3, 1.0, 1.7):
            assert float(tendon_force(tendon_length(force, strain), strain)) == pytest.approx(force)
    assert float(tendon_length(1.0, 0.033)) == pytest.approx(1.033)


def test_a_muscle_at_its_optimum_pulls_as_its_pennation_says():
    a, length, rate = sp.symbols("a length rate")
    muscle = Muscle("m", length, 1000, 0.1, 0.25, pennation=0.3)
    at = {muscle.activation: a, length: 0.25 + 0.1 * np.cos(0.3)}
    force = muscle.force(rate).subs(at)
    expected = 1000 * np.cos(0.3) * (1.0 + float(passive_force(1)))
    assert float(force.subs({a: 1, rate: 0})) == pytest.approx(expected, rel=1e-12)
    # Fibres shorten at rate cos(pennation); at the largest velocity nothing is active
    slowest = -1.0 / np.cos(0.3)
    assert float(force.subs({a: 1, rate: slowest})) == pytest.approx(
        1000 * np.cos(0.3) * float(passive_force(1)), rel=1e-10
    )


def hanging(tendon, **changes):
    """A mass on a muscle that hangs from 0.5 m above it."""
    tree = Tree("weight", [Body("load", 20.0, joint=Prismatic("z"))], gravity=(0, 0, -9.81))
    (height,) = tree.coordinates.values()
    numbers = {"max_force": 900.0, "optimal_length": 0.12, "slack_length": 0.3, "pennation": 0.2}
    return tree, Muscle("lift", 0.44 - height, tendon=tendon, **{**numbers, **changes})


def by_scipy(time, start, excitation, compliant, damping=0.0):
    """In numbers, explicit for a compliant tendon."""
    kt = np.log(6.0) / 0.049
    d1, d2, d3, d4 = -0.3211346127989808, -8.149, -0.374, 0.8825327733249912
    curves = [sp.lambdify("x", f(sp.Symbol("x"))) for f in (active_force, passive_force)]
    thickness = 0.12 * np.sin(0.2)

    def rates(_, x):
        q, v, a, *f = x
        slack = 0.3 * (np.log((f[0] + 0.2) / 0.2) / kt + 1.0) if compliant else 0.3
        along = 0.44 - q - slack
        fibre = np.hypot(along, thickness)
        cosine = along / fibre
        active, passive = (curve(fibre / 0.12) for curve in curves)
        if compliant:
            factor = (f[0] / cosine - passive) / (a * active)
            speed = (np.sinh((factor - d4) / d1) - d3) / d2 * 1.2 / cosine
            more = [0.2 * kt * np.exp(kt * (slack / 0.3 - 1.0)) * (-v - speed) / 0.3]
            force = 900 * f[0]
        else:
            speed = -v * cosine / 1.2
            factor = d1 * np.arcsinh(d2 * speed + d3) + d4
            force, more = 900 * cosine * (a * active * factor + passive + damping * speed), []
        share, slow = 0.5 * np.tanh(0.1 * (excitation - a)), 0.5 + 1.5 * a
        times = (0.5 + share) / (0.015 * slow) + (0.5 - share) * slow / 0.06
        return [v, force / 20.0 - 9.81, times * (excitation - a), *more]

    found = solve_ivp(rates, time[[0, -1]], start, "LSODA", time, rtol=1e-10, atol=1e-12)
    return found.y


@pytest.mark.parametrize("tendon", ["rigid", "compliant"])
def test_a_weight_on_a_muscle_moves_as_by_scipy(tendon):
    compliant = tendon == "compliant"
    tree, muscle = hanging(tendon, damping=0 if compliant else 0.05)
    model = with_muscles(tree, [muscle])
    names = model.state_names
    assert names[2:] == ("lift_activation", "lift_tendon_force")[: 1 + compliant]
    assert model.input_names == ("lift_excitation",)
    time, start = np.linspace(0, 0.3, 61), [0.0, 0.0, 0.1, 0.1][: 3 + compliant]
    given = dict(zip(names, start, strict=True)), {"lift_excitation": 0.6}
    run = ks.simulate(model, time, given[0], inputs=given[1], method="radau-5", rtol=1e-9)
    expected = by_scipy(time, start, 0.6, compliant, 0.05)
    for name, row in zip(names, expected, strict=True):
        np.testing.assert_allclose(run[name], row, atol=1e-6 * max(1.0, np.abs(row).max()))
    assert np.ptp(run[names[0]]) > 0.01
    if compliant:
        np.testing.assert_allclose(run["lift_force"], 900 * run["lift_tendon_force"], rtol=1e-12)


def test_muscles_give_the_power_that_their_shortening_takes():
    """Across a ball joint, too, where speeds are no rates of coordinates."""
    tree = Tree(
        "arm",
        [
            Body("upper", 2, (0, 0, -0.15), (0.02, 0.02, 0.003), Spherical()),
            Body(
                "lower", 1, (0, 0, -0.1), (0.01, 0.01, 0.001), Revolute("y"), (0, 0, -0.3), "upper"
            ),
        ],
        gravity=(0, 0, -9.81),
    )
    x, y, z, elbow = tree.coordinates.values()
    length = 0.4 + 0.03 * sp.sin(x) + 0.02 * y * elbow + 0.01 * z**2 - 0.03 * elbow
    muscle = Muscle("m", length, 500, 0.15, 0.2)
    pulled, free = with_muscles(tree, [muscle]), tree.model()
    speeds = np.array([0.5, 1.0, -0.8, 0.9])
    here = dict(zip(tree.coordinates, (0.3, -0.2, 0.4, 0.7), strict=True))
    here |= dict(zip(tree.speeds, speeds, strict=True)) | {"m_activation": 0.5}
    n = len(speeds)
    rates = -interpreted(free, free.equations[:n], here)[:, 0]
    slopes = interpreted(free, [length.diff(q) for q in (x, y, z, elbow)], here)[:, 0]
    rows = [interpreted(m, m.equations[n : 2 * n], here)[:, 0] for m in (free, pulled)]
    force = interpreted(pulled, [pulled.outputs["m_force"]], here)[0, 0]
    power = (rows[0] - rows[1]) @ speeds
    assert np.abs(rates - speeds).max() > 0.1 and abs(power) > 1.0
    assert power == pytest.approx(-force * (slopes @ rates), rel=1e-10)


def test_numbers_may_be_parameters():
    tree, muscle = hanging("compliant", max_force=sp.Symbol("F"), slack_length=sp.Symbol("slack"))
    model = with_muscles(tree, [muscle], values={"F": 900.0})
    assert set(model.parameter_names) == {"F", "slack"} and model.values["F"] == 900.0


def test_what_is_refused():
    tree, muscle = hanging("rigid")
    with pytest.raises(ValueError, match="weight has two muscles lift; rename one"):
        with_muscles(tree, [muscle, muscle])
    with pytest.raises(ValueError, match="muscle m: knee is no coordinate of weight"):
        with_muscles(tree, [Muscle("m", ks.dynamicsymbols("knee"), 900, 0.1, 0.2)])
    with pytest.raises(ValueError, match="muscle m: max_force must be positive, got -1"):
        Muscle("m", 0.3, -1, 0.1, 0.2)
    with pytest.raises(ValueError, match="muscle m: pennation must be"):
        Muscle("m", 0.3, 900, 0.1, 0.2, pennation=2)
    with pytest.raises(ValueError, match="tendon"):
        Muscle("m", 0.3, 900, 0.1, 0.2, tendon="stiff")
