"""Units of a model: plots, tables and reports show them; nothing else knows of them."""

import pickle
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
k, m = sp.symbols("k m")
UNITS = {x: "m", v: "m/s", "u": "N", k: "N/m", "power": "W"}


def spring(**changes):
    given = {
        "name": "spring",
        "states": [x, v],
        "inputs": [u],
        "parameters": [k, m],
        "equations": [x.diff(ks.t) - v, m * v.diff(ks.t) + k * x - u],
        "outputs": {"power": u * v},
        "values": {k: 9.0, m: 1.0},
        "units": UNITS,
    }
    return ks.Model(**{**given, **changes})


BY_NAME = {"x": "m", "v": "m/s", "u": "N", "k": "N/m", "power": "W"}


def labels(figure):
    plt.close(figure)
    return [axis.get_ylabel() for axis in figure.axes]


@pytest.mark.parametrize(
    "units, words",
    [
        ({"z": "m"}, "units of model spring: z is unknown"),
        ({x: 1.0}, "model spring: the unit of x must be text that is not empty, got 1.0"),
        ({x: " "}, "model spring: the unit of x must be text"),
        ({x: "m\n"}, "contains the control character"),
        ({x: "m", "x": "m"}, "x is given twice"),
        (["m"], "units of model spring"),
    ],
)
def test_mistakes(units, words):
    with pytest.raises(ValueError, match=words):
        spring(units=units)


def test_models_made_of_it_keep_what_they_have():
    model = spring()
    assert model.units == pickle.loads(pickle.dumps(model)).units == BY_NAME
    assert replace(model, outputs={}).units == {n: s for n, s in BY_NAME.items() if n != "power"}
    fed = model.substitute({u: -v}, inputs=[])
    assert fed.units == {n: s for n, s in BY_NAME.items() if n != "u"}
    assert model.with_rates(u).units == BY_NAME
    assert replace(model, units={}).units == {}


def test_text():
    text = str(spring())
    assert "x [m], v [m/s]" in text and "k = 9 N/m, m = 1\n" in text and "power [W]" in text
    assert "k = 9 N/m" in spring()._repr_html_()


def test_results(tmp_path):
    time = np.linspace(0.0, 2.0, 41)
    model = spring()
    run = ks.simulate(model, time, {x: 1.0, v: 0.0}, inputs={u: 0.0})
    expected = ["x [m]", "v [m/s]", "u [N]", "power [W]"]
    assert labels(run.plot()) == expected and "v [m/s]" in run._repr_html_()
    many = ks.simulate(model, time, {x: [1.0, 2.0], v: 0.0}, inputs={u: 0.0})
    assert labels(many.plot()) == expected == labels(many.member(1).plot())
    bare = ks.simulate(replace(model, units={}), time, {x: 1.0, v: 0.0}, inputs={u: 0.0})
    np.testing.assert_array_equal(bare["x"], run["x"])
    noise = 1e-3 * np.random.default_rng(0).standard_normal(41)
    trial = ks.Experiment(time, {u: 0.0 * time}, measurements={x: run["x"] + noise})
    start = {"x": 1.0, "v": 0.0}
    for fit in (
        ks.Collocation(model, trial, unknown={k: (1.0, 20.0)}, known={m: 1.0}).solve(),
        ks.Shooting(model, trial, {k: (1.0, 20.0)}, {m: 1.0}, initial=start).solve({k: 8.0}),
    ):
        fit.save(tmp_path / "fit.nc")
        for each in (fit, type(fit).load(tmp_path / "fit.nc")):
            assert labels(each.plot())[:2] == ["x [m]", "v [m/s]"]
            assert "k [N/m]" in str(each) and "k [N/m]" in each.parameters._repr_html_()
            assert "k [N/m] = " in repr(each)
        assert "k [N/m]" in str(fit.intervals(0.9, "sandwich"))
        assert "<th>k [N/m]</th>" in fit.report(tmp_path / "fit.html").read_text()
        assert labels(fit.bands().plot())[0] == "x [m]"
        assert fit.profile("k").plot().axes[0].get_xlabel() == "k [N/m]"
    fit = ks.Collocation(model, trial, unknown={k: (1.0, 20.0)}, known={m: 1.0}).solve()
    assert labels(fit.grid_error().plot())[0] == "x [m]"


def test_owners():
    """Parameters of subjects have the unit of what they are."""
    time = np.linspace(0.0, 2.0, 41)
    run = ks.simulate(spring(), time, {x: 1.0, v: 0.0}, inputs={u: 0.0})
    trials = [
        ks.Experiment(time, {u: 0.0 * time}, measurements={x: run["x"]}, labels={"subject": name})
        for name in ("anna", "ben")
    ]
    unknown = {k: ks.per("subject", (1.0, 20.0))}
    fit = ks.Collocation(spring(), trials, unknown=unknown, known={m: 1.0}).solve()
    assert "k[anna] [N/m]" in str(fit.parameters)


def test_kane():
    from sympy.physics import mechanics as me

    q, w = me.dynamicsymbols("q w")
    frame, point = me.ReferenceFrame("N"), me.Point("O")
    point.set_vel(frame, w * frame.x)
    kane = me.KanesMethod(frame, [q], [w], [q.diff() - w])
    kane.kanes_equations([me.Particle("P", point, m)], [(point, -k * q * frame.x)])
    assert ks.Model.from_kane(kane, units={q: "m"}).units == {"q": "m"}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({}, []),
        ({"equations": [x.diff(ks.t) - v, v.diff(ks.t) + k * x / m - u]}, ["equation 1 adds or"]),
        ({"units": {**UNITS, m: "kg", x: "mm"}}, ["equation 0 adds", "equation 1 adds"]),
        ({"outputs": {"power": u * x}}, ["output power is in "]),
        ({"outputs": {"power": u * v * sp.sin(x)}}, ["output power takes sin of x"]),
        ({"outputs": {"power": u * v * 2**x}}, ["output power has in an exponent x"]),
        ({"outputs": {"power": sp.sqrt(u**2 * v**2) + 0.5 * x}}, []),
        ({"outputs": {"power": sp.Max(u, v) * x}}, ["output power adds or compares"]),
        ({"outputs": {"power": sp.atan2(x, k) * x}}, ["output power adds or compares"]),
        ({"units": {x: "m"}}, []),
    ],
)
def test_units_of_equations(changes, words):
    pytest.importorskip("pint")
    found = spring(**{"units": {**UNITS, m: "kg"}, **changes}).check_units()
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))


def test_units_of_angles_and_intermediates():
    """Radians are 1; an intermediate has the unit of what it stands for."""
    pytest.importorskip("pint")
    w, s = ks.dynamicsymbols("w"), sp.Symbol("s")
    units = {x: "rad", v: "rad/s", k: "1/s^2"}
    about = ("pendulum", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + s])
    good = ks.Model(*about, intermediates=[(s, k * sp.sin(x))], units=units)
    assert good.check_units() == [] and w not in good.symbols
    bad = ks.Model(*about, intermediates=[(s, k * sp.sin(x) * v)], units=units)
    [words] = bad.check_units()
    assert words.startswith("equation 1 adds or compares")
    with pytest.raises(ValueError, match="the unit of x, 'radish', is none that pint knows"):
        ks.Model(*about, intermediates=[(s, k * x)], units={x: "radish"}).check_units()


def test_without_pint(monkeypatch):
    monkeypatch.setitem(sys.modules, "pint", None)
    with pytest.raises(ImportError, match=r"pip install 'kinesym\[units\]'"):
        spring().check_units()
