"""Newton's method of implicit steps: it ends where there is a solution, and only there."""

import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
STAGES = ["radau-3", "gauss-4", "gauss-6", "lobatto-4", "lobatto-6"]


def rectifier(unit):
    """A voltage source with resistor and coil, a diode, a capacitor with a load; voltages and
    currents in units of `unit` V and A."""
    i, v, a, d, source = ks.dynamicsymbols("i v a d source")
    scaled = {z: z * unit for z in (i, v, a, d, source)}
    equations = [
        1e-3 * i.diff(t) + 5 * i - source + a,
        100e-6 * v.diff(t) - d + v / 200,
        i - d - a / 1e5,
    ]
    diode = d * unit - 1e-12 * (sp.exp((scaled[a] - scaled[v]) / 0.0259) - 1)
    return ks.Model("rectifier", [i, v, a, d], [source], [], [*equations, diode / unit])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("method", STAGES)
def test_a_diode_that_begins_to_conduct(method, unit):
    """The stages of a step lie on both sides of the bend: derivatives at one do not serve all."""
    model, time = rectifier(unit), np.linspace(0.0, 0.02, 401)
    source = ks.Signal(time, 10 / unit * np.sin(100 * np.pi * time), between="cubic")
    given = (dict.fromkeys(model.state_names, 0.0), None, {"source": source})
    exact = ks.simulate(model, time, *given, method="radau-5", rtol=1e-10, atol=1e-12 / unit)
    for substeps in range(1, 6):
        run = ks.simulate(model, time, *given, method=method, substeps=substeps)
        assert not run.message
        off = np.abs(run["v"] - exact["v"]).max() * unit
        assert off < 0.05 / substeps**2  # of 9 V


@pytest.mark.parametrize("method", STAGES)
def test_diodes_side_by_side(method):
    """Members that need derivatives at every stage beside others that do not."""
    model, time = rectifier(1.0), np.linspace(0.0, 0.008, 161)
    sizes = np.random.default_rng(3).uniform(0.1, 20.0, 9)
    given = {"method": method, "substeps": 2}
    start = dict.fromkeys(model.state_names, 0.0)
    rows = sizes[:, None] * np.sin(100 * np.pi * time)
    every = ks.simulate(model, time, start, inputs={"source": rows}, **given)
    assert not every.failures
    for k, row in enumerate(rows):
        one = ks.simulate(model, time, start, inputs={"source": row}, **given)
        for name in model.state_names:
            size = np.abs(one[name]).max()
            np.testing.assert_allclose(every[name][k], one[name], rtol=0, atol=1e-11 * size)


def slider_crank():
    """Two rods and a slider in Cartesian coordinates, constraints as accelerations."""
    names = ("x1 y1 a1 x2 y2 a2 s", "u1 v1 w1 u2 v2 w2 us", "l0 l1 l2 l3 l4 l5")
    q, u, force = (list(ks.dynamicsymbols(some)) for some in names)
    x1, y1, a1, x2, y2, a2, s = q
    masses, loads = [1, 1, 0.0075, 2, 2, 0.32 / 3, 3], [0, -9.81, 0, 0, -19.62, 0, 0]
    closed = [
        x1 - 0.15 * sp.cos(a1),
        y1 - 0.15 * sp.sin(a1),
        x2 - 0.4 * sp.cos(a2) - 0.3 * sp.cos(a1),
        y2 - 0.4 * sp.sin(a2) - 0.3 * sp.sin(a1),
        0.3 * sp.sin(a1) + 0.8 * sp.sin(a2),
        s - 0.3 * sp.cos(a1) - 0.8 * sp.cos(a2),
    ]
    pull = sp.Matrix(closed).jacobian(q).T * sp.Matrix(force)
    motion = [m * w.diff(t) - f + p for m, w, f, p in zip(masses, u, loads, pull, strict=True)]
    speeds = [a.diff(t) - b for a, b in zip(q, u, strict=True)]
    energy = sum(m * w**2 for m, w in zip(masses, u, strict=True)) / 2 + 9.81 * (y1 + 2 * y2)
    return ks.Model(
        "crank", q + u + force, [], [], speeds + motion + closed, outputs={"energy": energy}
    )


def test_a_mechanism_for_a_minute():
    model, time = slider_crank(), np.linspace(0.0, 60.0, 6001)
    guess = {**dict.fromkeys(model.state_names, 0.0), "a1": 0.5, "w1": 4.0, "a2": -0.2}
    start = ks.consistent(
        model,
        time,
        {**guess, "x1": 0.1, "y1": 0.1, "x2": 0.5, "y2": 0.1, "s": 1.0},
        keep=["a1", "w1"],
    )
    reduced = model.reduced_index()
    run = ks.simulate(reduced, time, {n: start[n] for n in reduced.state_names}, method="radau-3")
    assert not run.message
    assert np.ptp(run["energy"]) < 0.05 * np.abs(run["energy"]).max()


@pytest.mark.parametrize("seed", range(3))
def test_a_chaotic_pendulum(seed):
    """Steps that are long for it, one of which would fail with derivatives at one stage."""
    a, b, u, v = ks.dynamicsymbols("a b u v")
    model = ks.Model(
        "double",
        [a, b, u, v],
        [],
        [],
        [
            a.diff(t) - u,
            b.diff(t) - v,
            2 * u.diff(t) + sp.cos(a - b) * v.diff(t) + sp.sin(a - b) * v**2 + 19.62 * sp.sin(a),
            v.diff(t) + sp.cos(a - b) * u.diff(t) - sp.sin(a - b) * u**2 + 9.81 * sp.sin(b),
        ],
        outputs={
            "energy": u**2 + v**2 / 2 + u * v * sp.cos(a - b) - 19.62 * sp.cos(a) - 9.81 * sp.cos(b)
        },
    )
    starts = np.random.default_rng(seed).uniform(1.5, 2.5, (2, 20))
    starts[:, 0] = 2.0, 1.0
    given = {a: starts[0], b: starts[1], u: 0.0, v: 0.0}
    runs = ks.simulate(model, np.linspace(0.0, 10.0, 2001), given, method="radau-3")
    assert not runs.failures
    assert np.ptp(runs["energy"], axis=1).max() < 0.1


@pytest.mark.parametrize("method", ["radau-1", "gauss-2", *STAGES])
def test_no_solution_is_said(method):
    """y^2 = 1 - x, and x passes 1; in units that make everything small or large."""
    x, y = ks.dynamicsymbols("x y")
    for unit in (1e-6, 1.0, 1e6):
        model = ks.Model("fold", [x, y], [], [], [x.diff(t) - unit, y**2 / unit - unit + x])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ks.simulate(model, np.linspace(0.0, 2.0, 41), {x: 0.0, y: unit}, method=method)
        assert "Newton's method failed between t = " in run.message
        assert 0.7 < run.time[-1] <= 1.0


@pytest.mark.parametrize(("place", "stiffness"), [(1e3, 1e8), (1e4, 1e8), (1e4, 1e10)])
def test_stiff_springs_far_from_zero(place, stiffness):
    """Rounding of the place moves the force of a spring: the trapezoidal rule between events ends
    where changes are as small as that."""
    x, v = ks.dynamicsymbols("x v")
    post = ks.Model(
        "post", [x, v], [], [], [x.diff(t) - v, v.diff(t) + stiffness * (x - place) + 10 * v]
    )
    for substeps in (1, 100):
        run = ks.simulate(
            kh.Hybrid(post),
            np.linspace(0.0, 0.1, 101),
            {x: place + 0.01, v: 0.0},
            method="trapezoid",
            substeps=substeps,
        )
        assert not run.message
        energy = run["v"] ** 2 + stiffness * (run["x"] - place) ** 2
        assert energy[-1] < 1.001 * energy[0]
