"""Schemes are data: methods of more stages than the library has step, shoot and collocate."""

from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.special import roots_jacobi, roots_legendre

import kinesym as ks
from kinesym.runtime.library.manifest import TableauManifest
from kinesym.runtime.simulation.stages import loop_numbers
from kinesym.symbolic import schemes
from kinesym.symbolic.schemes.scheme import MOST_STAGES, CollocationScheme


def scheme(name, nodes, order):
    """The collocation method of these nodes, in numbers of NumPy."""
    c = np.sort(nodes)
    powers = np.arange(1, len(c) + 1)
    inverse = np.linalg.inv(np.vander(c, increasing=True))
    matrix = (c[:, None] ** powers / powers) @ inverse
    return CollocationScheme(name, "", c, matrix, (1 / powers) @ inverse, np.int64(order), "Hairer")


MORE = {
    "gauss-8": (0.5 + 0.5 * roots_legendre(4)[0], 8),
    "gauss-10": (0.5 + 0.5 * roots_legendre(5)[0], 10),
    "radau-7": (np.append(0.5 + 0.5 * roots_jacobi(3, 1, 0)[0], 1.0), 7),
    "radau-9": (np.append(0.5 + 0.5 * roots_jacobi(4, 1, 0)[0], 1.0), 9),
    "two real": (np.array([0.06, 0.42, 0.83, 0.91]), 4),  # and a pair
}
q, v = ks.dynamicsymbols("q v")
k = sp.Symbol("k")
SPRING = ks.Model("spring", [q, v], [], [k], [q.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(q)])


@pytest.fixture(autouse=True)
def added(monkeypatch):
    for name, (nodes, order) in MORE.items():
        monkeypatch.setitem(schemes.SCHEMES, name, scheme(name, nodes, order))


@pytest.fixture(scope="module")
def exact():
    """States of the spring at whole seconds, by a method of another kind with short steps."""
    run = ks.simulate(
        SPRING,
        np.arange(5.0),
        {q: 1.0, v: 0.0},
        {k: 4.0},
        method="dormand-prince",
        rtol=1e-13,
        atol=1e-14,
    )
    return np.array([run["q"], run["v"]])


@pytest.mark.parametrize("name", MORE)
def test_order_of_steps(name, exact):
    """Order of convergence of one run, and an ensemble, whose members go side by side."""
    errors = []
    steps = (2, 3) if MORE[name][1] > 8 else (4, 6)
    for substeps in steps:
        run = ks.simulate(
            SPRING, np.arange(5.0), {q: 1.0, v: 0.0}, {k: 4.0}, method=name, substeps=substeps
        )
        many = ks.simulate(
            SPRING,
            np.arange(5.0),
            {q: np.array([1.0, 0.5, 1.0]), v: 0.0},
            {k: 4.0},
            method=name,
            substeps=substeps,
        )
        np.testing.assert_allclose(many["q"][2], run["q"], 1e-11, 1e-12)
        errors.append(np.abs(np.array([run["q"], run["v"]]) - exact).max())
    order = np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0])
    assert abs(order - MORE[name][1]) < 1.0, (errors, order)


@pytest.mark.parametrize("name", ["gauss-8", "radau-7"])
def test_algebraic_states(name):
    """A model of index 1, with a state that has no rate."""
    load = ks.dynamicsymbols("load")
    model = ks.Model(
        "dae",
        [q, load],
        [],
        [],
        [q.diff(ks.t) + load, load**3 + load - 2 * q],
    )
    time = np.linspace(0.0, 1.0, 5)
    runs = [
        ks.simulate(model, time, {q: 1.0, load: 1.0}, method=m, substeps=s)
        for m, s in ((name, 2), ("radau-5", 1))
    ]
    np.testing.assert_allclose(runs[0]["q"], runs[1]["q"], 1e-7)
    np.testing.assert_allclose(runs[0]["load"], runs[1]["load"], 1e-6)


@pytest.mark.parametrize("name", ["gauss-8", "radau-7"])
def test_shooting_and_collocation(name, exact):
    """Gradients of shooting are those of differences; both ways find the stiffness."""
    trial = ks.Experiment(np.arange(5.0), measurements={q: exact[0]}, std={q: 1e-3})
    start = {q: 1.0, v: 0.0}
    shooting = ks.Shooting(
        SPRING, trial, unknown={k: (0.1, 50)}, initial=start, method=name, substeps=3
    )
    gradient = shooting.gradient({k: 4.1})
    ends = [shooting.cost({k: 4.1 + h}) for h in (1e-5, -1e-5)]
    assert np.ravel(gradient)[0] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)
    assert shooting.solve({k: 3.9}, progress=False).parameters["k"] == pytest.approx(4.0, abs=1e-4)
    problem = ks.Collocation(SPRING, trial, unknown={k: (0.1, 50)}, scheme=name)
    assert problem.solve({k: 3.9}, progress=False).parameters["k"] == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("name", MORE)
def test_blocks(name):
    """T^-1 A^-1 T has the blocks that are said, real ones first."""
    made = schemes.SCHEMES[name]
    numbers = loop_numbers(
        TableauManifest(
            **{
                key: tuple(map(tuple, value))
                if key == "a"
                else tuple(value)
                if isinstance(value, list)
                else value
                for key, value in made.tableau.items()
            }
        )
    )
    count = made.stages
    expected = np.zeros((count, count))
    np.fill_diagonal(expected, numbers["eigen"][:, 0])
    found = numbers["from"] @ numbers["inverse"] @ numbers["to"]
    reals = int(np.sum(numbers["eigen"][:, 1] == 0.0))
    for row in range(reals, count, 2):
        beta = numbers["eigen"][row, 1]
        expected[row, row + 1], expected[row + 1, row] = -beta, beta
    np.testing.assert_allclose(found, expected, 1e-9, 1e-9 * np.abs(expected).max())
    assert (numbers["eigen"][:reals, 1] == 0.0).all()


def test_numbers_of_numpy():
    """They are plain numbers from then on, which programs can be written of."""
    made = scheme("gauss-8", *MORE["gauss-8"])
    assert all(type(x) is float for row in (made.nodes, made.weights, *made.matrix) for x in row)
    assert type(made.order) is int and hash(made) == hash(scheme("gauss-8", *MORE["gauss-8"]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": (0.5, 0.2)}, "scheme odd: the nodes must increase"),
        ({"nodes": "c"}, "scheme odd: the nodes must be numbers"),
        ({"matrix": ((0.5, 0.5),)}, "scheme odd: the matrix must be 2 rows of 2 numbers"),
        ({"weights": (0.5,)}, "scheme odd: the weights must be 2 numbers"),
        ({"order": 2.5}, "scheme odd: the order must be at least 1 and whole"),
    ],
)
def test_refused(change, words):
    good = {
        "name": "odd",
        "alias": "",
        "nodes": schemes.SCHEMES["gauss-4"].nodes,
        "matrix": schemes.SCHEMES["gauss-4"].matrix,
        "weights": schemes.SCHEMES["gauss-4"].weights,
        "order": 4,
        "reference": "none",
    }
    with pytest.raises(ValueError, match=words):
        CollocationScheme(**{**good, **change})


def test_too_many_stages():
    header = Path(schemes.__file__).parents[2] / "runtime/native/c/include/kinesym.h"
    assert f"#define KS_UNKNOWN_MOST {MOST_STAGES} " in header.read_text()
    nodes = roots_legendre(9)[0] * 0.5 + 0.5
    with pytest.raises(
        ValueError, match="scheme gauss-18 has 9 stages; steps are made of at most 8"
    ):
        scheme("gauss-18", nodes, 18)
