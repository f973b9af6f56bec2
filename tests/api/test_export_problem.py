"""Exported problems: C of cost, constraints and derivatives equals that of the compiled problem."""

import ctypes
import re
import subprocess
from pathlib import Path

import casadi
import numpy as np
import pytest
import sympy as sp
from scipy.sparse import coo_array

import kinesym as ks
from kinesym.runtime.library.build import find_compiler

t = ks.t
q, v, F = ks.dynamicsymbols("q v F")
k, c = sp.symbols("k c", positive=True)
STRICT = "-std=c99 -O0 -fPIC -Wall -Wextra -Wconversion -Wshadow -Werror -pedantic"


def oscillator(table=False):
    bent = ks.table(q, [-2.0, 0.0, 1.0, 3.0], [-2.1, 0.1, 0.9, 3.2]) if table else q
    equations = [q.diff(t) - v, v.diff(t) + k * sp.sin(bent) + c * v - F]
    return ks.Model("oscillator", [q, v], [F], [k, c], equations, outputs={"power": F * v})


def two_trials(table=False, **options):
    """Two trials with a known input, an unknown parameter, measured at most of the nodes."""
    chance = np.random.default_rng(1)
    trials = [
        ks.Experiment(
            np.linspace(0.0, 1.5, n),
            inputs={F: np.cos(np.linspace(0.0, 1.5, n))},
            measurements={q: np.where(np.arange(n) % 5, chance.standard_normal(n), np.nan)},
            std={q: 0.1},
            parameters={c: 0.3},
        )
        for n in (13, 17)
    ]
    return ks.Collocation(oscillator(table), trials, unknown={k: (0.1, 9.0)}, **options)


def fastest():
    """Free duration, an unknown input with bounds, conditions at the ends."""
    boundary = [ks.at_start(q), ks.at_start(v), ks.at_end(q) - 1, ks.at_end(v)]
    return ks.Collocation(
        oscillator(),
        ks.Experiment(nodes=21, duration=(0.5, 9.0), parameters={k: 0.5, c: 0.1}),
        objective=ks.Terminal(ks.t),
        boundary=boundary,
        unknown_inputs={F: (-1.0, 1.0)},
    )


class Compiled:
    """The functions of an exported problem."""

    def __init__(self, problem, folder):
        ks.export(problem, folder)
        self.prefix = "oscillator_problem"
        command = find_compiler().command
        sources = sorted(p.name for p in Path(folder).glob(f"{self.prefix}*.c"))
        line = [*command, *STRICT.split(), "-shared", "-o", "made.so", *sources, "-lm"]
        subprocess.run(line, cwd=folder, check=True)
        self.library = ctypes.CDLL(str(Path(folder) / "made.so"))
        self.header = (Path(folder) / f"{self.prefix}.h").read_text()

    def count(self, what):
        return int(re.search(rf"_N_{what} (\d+)", self.header)[1])

    def __call__(self, what, size, *given):
        out = np.full(size, np.nan)
        given = [g if isinstance(g, ctypes.c_double) else _pointer(g) for g in given]
        assert getattr(self.library, f"{self.prefix}_{what}")(*given, _pointer(out)) == 0
        return out

    def matrix(self, what, shape, *given):
        size = self.count(what.upper())
        row, column = np.zeros((2, size), np.int32)
        getattr(self.library, f"{self.prefix}_{what}_structure")(_pointer(row), _pointer(column))
        return coo_array((self(what, size, *given), (row, column)), shape=shape).toarray()

    def data(self, name, size):
        return np.array((ctypes.c_double * size).in_dll(self.library, f"{self.prefix}_{name}"))


def _pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


CASES = {
    "radau-5": lambda: two_trials(scheme="radau-5"),
    "hermite-simpson, table": lambda: two_trials(True, scheme="hermite-simpson"),
    "duration": fastest,
}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_compiled_problem(case, tmp_path):
    problem = CASES[case]()
    made = Compiled(problem, tmp_path / "made")
    n, m = problem.n_variables, problem.n_constraints
    assert (made.count("VARIABLES"), made.count("CONSTRAINTS")) == (n, m)
    chance = np.random.default_rng(2)
    start = problem.pack()
    np.testing.assert_array_equal(made.data("start", n), start)
    for side, name in enumerate(("lower", "upper")):
        np.testing.assert_array_equal(made.data(name, n), problem.variable_bounds[side])
        bounds = problem.constraint_bounds[side]
        np.testing.assert_array_equal(made.data(f"constraints_{name}", m), bounds)
    z, multipliers = start + 0.1 * chance.random(n), chance.standard_normal(m)
    close = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(made("cost", 1, z)[0], problem.cost(z), **close)
    np.testing.assert_allclose(made("gradient", n, z), problem.cost_gradient(z), **close)
    np.testing.assert_allclose(made("constraints", m, z), problem.constraints(z), **close)
    jacobian = made.matrix("jacobian", (m, n), z)
    np.testing.assert_allclose(jacobian, problem.constraint_jacobian(z).toarray(), **close)
    given = (z, ctypes.c_double(0.7), multipliers)
    hessian = made.matrix("hessian", (n, n), *given)
    expected = problem.lagrangian_hessian(z, multipliers, 0.7).toarray()
    np.testing.assert_allclose(np.tril(hessian), hessian)
    np.testing.assert_allclose(hessian, np.tril(expected), **close)


def test_solved_in_c_by_ipopt(tmp_path):
    """The program that comes with it finds the solution that kinesym finds."""
    problem = fastest()
    ks.export(problem, tmp_path / "made")
    home = Path(casadi.__file__).parent
    library = next(home.glob("libipopt*"))
    options = [
        f"CC={' '.join(find_compiler().command)}",
        f"IPOPT_CFLAGS=-I{home}/include/coin-or",
        f"IPOPT_LIBS={library} -Wl,-rpath,{home}",
        "CFLAGS=-std=c99 -O0",
    ]
    subprocess.run(["make", "-s", "solve", "main", *options], cwd=tmp_path / "made", check=True)
    subprocess.run(["./main"], cwd=tmp_path / "made", check=True)
    done = subprocess.run(
        ["./solve"], cwd=tmp_path / "made", capture_output=True, text=True, check=True
    )
    z = np.array(done.stdout.split("cost ")[-1].split()[1:], dtype=float)
    expected = problem.solve()
    np.testing.assert_allclose(z, problem.pack(expected), atol=1e-5)


def test_refusals(tmp_path):
    tau = sp.Symbol("tau")
    equation = [q.diff(t) + k * ks.delayed(q, tau)]
    late = ks.Model("late", [q], [], [k, tau], equation)
    trial = ks.Experiment(np.linspace(0, 1, 11), {}, {q: np.zeros(11)}, parameters={tau: 0.1})
    problem = ks.Collocation(late, trial, unknown={k: (0.0, 2.0)})
    with pytest.raises(ValueError, match="the problem of late has delayed inputs"):
        ks.export(problem, tmp_path / "late")
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("target", ["c99", "casadi"])
def test_unknown_delays_of_sensors_are_refused(target, tmp_path):
    """Samples lie in other intervals as the delay moves."""
    tau, n = sp.Symbol("tau"), 21
    time = np.linspace(0.0, 1.0, n)
    model = ks.Model("shown", [q], [], [k, tau], [q.diff(t) + k * q], values={k: 1.0})
    problem = ks.Collocation(
        model,
        ks.Experiment(time, {}, {"late": np.exp(-time)}),
        unknown={tau: (0.0, 0.2)},
        known={k: 1.0},
        sensors={"late": ks.sensor(q, delay=tau)},
    )
    folder = tmp_path / "made" if target == "c99" else None
    with pytest.raises(ValueError, match="has unknown delays of sensors, tau, which move samples"):
        ks.export(problem, folder, target)


def test_start_for_casadi_is_that_of_the_guess():
    problem = fastest()
    given = ks.export(problem, target="casadi", guess={"duration": 3.0})["arguments"]["x0"]
    np.testing.assert_array_equal(given, problem.pack({"duration": 3.0}))
