"""Why there is no solution: seeded mistakes, each named in the first three lines."""

import re

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v, F, theta, omega, T = ks.dynamicsymbols("x v F theta omega T")
m, k, L = sp.symbols("m k L")
TIME = np.linspace(0.0, 1.0, 41)
CART = ks.Model("cart", [x, v], [F], [m], [x.diff(t) - v, m * v.diff(t) - F], values={m: 1.0})
SWING = ks.Model(
    "swing",
    [theta, omega],
    [T],
    [L],
    [theta.diff(t) - omega, omega.diff(t) + 9.81 / L * sp.sin(theta) - T],
    values={L: 1.0},
)
REST = [ks.at_start(x), ks.at_start(v)]


def moved(boundary, **more):
    """A cart of 1 kg that a force of at most 1 N moves within 1 s: at most 0.25 m from rest to
    rest."""
    given = {"objective": ks.Integral(F**2), "unknown_inputs": {F: (-1, 1)}, **more}
    return ks.Collocation(CART, ks.Experiment(TIME), boundary=[*REST, *boundary], **given)


def swung(boundary, **more):
    given = {"objective": ks.Integral(T**2), "unknown_inputs": {T: (-5, 5)}, **more}
    return ks.Collocation(SWING, ks.Experiment(TIME), boundary=boundary, **given)


END = ks.at_end
MISTAKES = {
    "too far": (
        lambda: moved([END(x) - 5, END(v)]),
        r"at_end\(x\) - 5\) cannot be met .* at least 4.75",
    ),
    "said twice": (
        lambda: moved([END(x) - 0.1, END(v), 3 * END(x) - 0.3]),
        r"3\*at_end\(x\) - 0.3\) says the same as .*at_end\(x\) - 0.1\)",
    ),
    "two values": (
        lambda: moved([END(x) - 0.1, END(v), END(x) - 0.2]),
        r"at_end\(x\) - 0.2\) contradicts .*at_end\(x\) - 0.1\): they differ by 0.1",
    ),
    "a sum of others": (
        lambda: moved([END(x) - 0.1, END(v), END(x) + END(v) - 0.5]),
        r"contradicts .*at_end\(x\) - 0.1\).*at_end\(v\)\): they differ by 0.4",
    ),
    "a bound off by 10": (
        lambda: moved([END(x) - 0.1, END(v)], bounds={x: (-0.01, 0.01)}),
        r"asks for 0.1, outside the bounds \(-0.01, 0.01\) of x at node 40",
    ),
    "wrong sign of a bound": (
        lambda: moved([END(x) + 0.1, END(v)], bounds={x: (0, 1)}),
        r"asks for -0.1, outside the bounds \(0, 1\) of x",
    ),
    "millimetres": (
        lambda: moved([END(x) - 100, END(v)]),
        r"at_end\(x\) - 100\) cannot be met .* at least 99.75",
    ),
    "a weak motor": (
        lambda: moved([END(x) - 0.2, END(v)], unknown_inputs={F: (-0.1, 0.1)}),
        "upper bound 0.1 of F holds it",
    ),
    "pushes one way only": (
        lambda: moved([END(x) - 0.2, END(v)], unknown_inputs={F: (0, 1)}),
        "lower bound 0 of F holds it",
    ),
    "a limit of speed": (
        lambda: moved([END(x) - 0.2, END(v)], path=[(v, -0.1, 0.1)]),
        r"path condition 0 \(v\).* cannot be met|at_end\(x\) - 0.2\) cannot be met",
    ),
    "degrees": (
        lambda: swung([ks.at_start(theta), ks.at_start(omega), END(theta) - 180, END(omega)]),
        r"at_end\(theta\) - 180\) cannot be met",
    ),
    "a state fixed against its bound": (
        lambda: swung([ks.at_start(theta) - 2, END(theta)], bounds={theta: (-1, 1)}),
        r"at_start\(theta\) - 2\) asks for 2, outside the bounds \(-1, 1\) of theta",
    ),
    "too short a time": (
        lambda: ks.Collocation(
            CART,
            ks.Experiment(nodes=41, duration=(0.1, 0.5)),
            boundary=[*REST, END(x) - 1, END(v)],
            objective=ks.Integral(F**2),
            unknown_inputs={F: (-1, 1)},
        ),
        r"upper bound 0.5 s of the duration holds it|at_end\(x\) - 1\) cannot be met",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_in_three_lines(mistake):
    make, words = MISTAKES[mistake]
    problem = make()
    solution = problem.solve(max_iterations=200)
    assert mistake == "said twice" or not solution.success
    found = solution.why()
    assert found and str(found).startswith(problem.model.name)
    assert any(re.search(words, cause) for cause in found.causes[:3]), str(found)
    assert len(str(found).splitlines()) < 25
    assert problem.why()  # before a solve, too


def test_the_nearest_point_is_a_guess():
    """Of a problem that can be met, from a point at which its conditions are met."""
    problem = moved([END(x) - 0.1, END(v)])
    found = problem.why()
    assert found.causes[0].startswith("all conditions can be met together")
    z = problem.pack(found.nearest)
    assert problem.violations(z).largest < 1e-6
    assert problem.solve(guess=found.nearest).success


def test_parameters_without_influence():
    problem = ks.Collocation(
        ks.Model("two", [x], [], [m, k], [x.diff(t) + m * x + 0 * k]),
        ks.Experiment(TIME, measurements={x: np.exp(-TIME)}),
        {m: None, k: (0, 1)},
    )
    words = problem.why({m: 1.0, k: 0.5}).causes
    assert any("nothing depends on the unknown parameter k" in cause for cause in words)


def test_pictures_and_files(tmp_path):
    solution = moved([END(x) - 5, END(v)]).solve()
    figure = solution.plot_convergence()
    assert [axis.get_ylabel() for axis in figure.axes] == ["objective", ""]
    assert "see solution.why()" in str(solution)
    solution.save(tmp_path / "lost.nc")
    loaded = ks.Solution.load(tmp_path / "lost.nc")
    with pytest.raises(ValueError, match=r"use problem.why\(solution\)"):
        loaded.why()
    again = moved([END(x) - 5, END(v)]).why(loaded)
    assert "at least 4.75" in again.causes[0]
