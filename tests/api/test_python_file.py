"""A model as one file of NumPy: it runs by itself, with the numbers of the compiled functions."""

import contextlib
import io
import runpy

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.numpy_text import FUNCTIONS_OF_NUMPY
from kinesym.codegen.operations import OPERATIONS
from kinesym.internal.exporting.python_file import python_files
from kinesym.models import cartesian_pendulum, n_link_pendulum_on_cart, pendulum, standing

x, v, F = ks.dynamicsymbols("x v F")


def with_everything():
    """Names that Python has taken, and all kinds of functions."""
    a, b = ks.dynamicsymbols("lambda np")
    p, q = sp.symbols("points p")
    points = np.linspace(-1.0, 2.0, 6)
    table = ks.table(a, points, np.sin(np.arange(6.0)), outside="constant")
    plane = ks.table((a, b), (points, points), np.sin(np.arange(36.0)).reshape(6, 6))
    chosen = sp.Piecewise((sp.sqrt(a), a > 0), (-sp.sqrt(-a), True))
    functions = sp.erf(a) + sp.gamma(b + 2) + sp.besselj(1, a) + sp.Mod(b, p) + sp.acosh(b + 2)
    powers = -(a**2) + (a + b) ** 3 / p**2 - sp.Max(a, b, q) + 2 ** (-b) + sp.Heaviside(b, 0.5)
    rates = [a.diff(ks.t) - b * p, b.diff(ks.t) - F * table - plane - chosen - functions - powers]
    outputs = {"None": a.diff(ks.t) * b, "one": sp.Float(1)}
    return ks.Model("with everything", [a, b], [F], [p, q], rates, outputs, values={p: 0.7, q: -1})


def with_numbers_from_tables():
    """Entries of tables that depend on no argument, and one that does."""
    i, j = sp.symbols("i j")
    law = ks.table(i, [0, 1, 2, 3], [5.0, 6.0, 7.5, 8.0])
    other = ks.table(j, [0, 1, 2, 3], [1.0, 3.0, 2.0, 4.0])
    more = {"o": law + x + F, "moved": ks.table(x, [0, 1, 2, 3], [1.0, 0.0, 1.0, 2.0])}
    known = [(i, sp.Float(0.7)), (j, sp.Float(1.6))]
    rate = x.diff(ks.t) + law * other * x + other
    return ks.Model("numbers", [x], [F], [], [rate], more, known)


MODELS = {
    "numbers": with_numbers_from_tables,
    "pendulum": pendulum,
    "links": lambda: n_link_pendulum_on_cart(6),
    "standing": standing,
    "everything": with_everything,
    "algebraic": lambda: cartesian_pendulum().reduced_index(),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_functions_are_those_of_compile(name, tmp_path):
    model = MODELS[name]()
    [(file, text)] = python_files(model).items()
    assert file.isascii() and file.endswith(".py") and text == python_files(model)[file]
    (tmp_path / file).write_bytes(text)
    found = runpy.run_path(str(tmp_path / file))
    assert found["STATES"] == model.state_names and found["OUTPUTS"] == tuple(model.outputs)
    functions, rng = ks.compile(model), np.random.default_rng(4)
    n, m = len(model.states), len(model.inputs)
    p = np.array([found["PARAMETERS"][name] for name in model.parameter_names])
    at = rng.normal(size=(n, 5)), rng.uniform(-0.8, 0.8, (n, 5)), rng.normal(size=(m, 5)), p, 0.3
    single = [e if np.ndim(e) < 2 else e[:, 2] for e in at]
    pairs = [("residual", at, functions.residual(*at))]
    if functions.is_explicit:
        pairs.append(("rhs", at[1:], functions.rhs(*at[1:])))
    if model.outputs:
        pairs.append(("outputs", at, functions.outputs(*at)))
    for of in ("residual", "outputs"):
        for wrt in ("derivatives", "states", "inputs", "parameters"):
            if f"{of}_{wrt}" in found:
                pairs.append((f"{of}_{wrt}", at, functions.jacobian(*at, of=of, wrt=wrt)))
    assert len(pairs) >= 4
    for name, given, expected in pairs:
        size = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(found[name](*given), expected, 0, 1e-13 * size, err_msg=name)
        alone = found[name](*single[len(single) - len(given) :])
        np.testing.assert_allclose(alone, expected[..., 2], 0, 1e-13 * size)


def test_a_root_of_a_negative_time_is_not_complex():
    model = ks.Model("root", [x], [], [], [x.diff(ks.t) - (ks.t - 1) ** sp.Rational(3, 2) * x])
    [text] = python_files(model).values()
    found = {}
    exec(text, found)
    with np.errstate(invalid="ignore"):
        assert np.isnan(found["rhs"]([1.0], [], [], 0.5)).all()


def test_entries_of_tables_are_stored_once_in_c():
    text = str(ks.show(with_numbers_from_tables(), "residual"))
    assert text.count("out[0] =") == 1 and "out[1]" not in text


@pytest.mark.parametrize("name", ["pendulum", "algebraic"])
def test_it_runs_by_itself(name, tmp_path):
    """It prints steps of RK4, or of backward Euler, which solve its equations."""
    model = MODELS[name]()
    [(file, text)] = python_files(model).items()
    (tmp_path / file).write_bytes(text)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        found = runpy.run_path(str(tmp_path / file), run_name="__main__")
    lines = printed.getvalue().splitlines()
    assert lines[0] == f"t {' '.join(model.state_names)}" and len(lines) == 7
    last = [float(word) for word in lines[-1].split()[1:]]
    if name == "pendulum":
        start = dict.fromkeys(model.state_names, 0.1)
        run = ks.simulate(model, np.linspace(0, 1, 101), start, method="rk4")
        np.testing.assert_allclose(last, [run[x][-1] for x in model.state_names], rtol=1e-5)
    else:
        p = [*found["PARAMETERS"].values()]
        motion = found["simulate"]([0.1] * len(last), [], p, end=0.5, steps=50)
        rates = np.diff(motion, axis=1) / 0.01
        times = np.linspace(0.01, 0.5, 50)
        assert np.abs(found["residual"](rates, motion[:, 1:], [], p, times)).max() < 1e-7


def test_every_operation_has_a_text():
    """C's own is that of Python, but for some."""
    other = {"select", "pow", "lt", "le", "eq", "locate", "entry"}
    assert {name for name, row in OPERATIONS.items() if not row.text} - other == {
        *FUNCTIONS_OF_NUMPY
    }


def test_models_with_delays_are_refused():
    late = ks.Model("late", [x], [], [], [x.diff(ks.t) + ks.delayed(x, 0.1)])
    with pytest.raises(ValueError, match=r"has delays, x\(t - 0.1\)"):
        python_files(late)
