"""Exported fits by simulation: C of cost, gradient and residuals equals that of `ks.Shooting`."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Event, Hybrid

t = ks.t
q, v, F = ks.dynamicsymbols("q v F")
k, c, s = sp.symbols("k c s", positive=True)
STRICT = "-std=c99 -O0 -fPIC -Wall -Wextra -Wconversion -Wshadow -Werror -pedantic"


def oscillator(table=False):
    bent = ks.table(q, [-2.0, 0.0, 1.0, 3.0], [-2.1, 0.1, 0.9, 3.2], kind="pchip") if table else q
    equations = [q.diff(t) - v, v.diff(t) + k * sp.sin(bent) + c * v - s * F]
    more = {"outputs": {"power": F * v}, "values": {c: 0.2}}
    return ks.Model("oscillator", [q, v], [F], [k, c, s], equations, **more)


def trials(inputs, **more):
    """Two with measurements that are missing at some nodes."""
    chance, made = np.random.default_rng(1), []
    for n in (9, 12):
        time = np.linspace(0.0, 1.5, n)
        samples = np.where(np.arange(n) % 5, chance.standard_normal(n), np.nan)
        made.append(ks.Experiment(time, inputs(time), {q: samples, "power": 0.1 * time}, **more))
    return made


def squares():
    """Parameters per trial and with a prior, unknown starts, parabolas between nodes, a table."""
    time = np.linspace(0.0, 1.5, 4)
    bends = ks.Signal.polynomials(time, [[1.0, 0.95, 0.9], [-0.3, 0.2, 1.0], [0.4, -0.6, 0.1]])
    return ks.Shooting(
        oscillator(True),
        trials(lambda time: {F: bends}, std={q: 0.1, "power": 0.3}),
        unknown={k: ks.per_trial(0.1, 9.0), c: ks.lognormal(0.3, 1.5)},
        known={s: 0.7},
        initial=[{q: None, v: 0.1}, {q: None, v: sp.exp(k * c) / 30}],
        objective=ks.LeastSquares(loss="pseudo-huber"),
        substeps=2,
    )


def controls():
    """Samples of an unknown input that is held, other terms than squares."""
    return ks.Shooting(
        oscillator(),
        ks.Experiment(np.linspace(0.0, 1.5, 9), parameters={k: 4.0, s: 1.0}),
        unknown={c: (0.0, 1.0)},
        initial={q: 0.3, v: 0.0},
        objective=ks.Integral(F**2 + sp.exp(q)) + ks.Terminal(q**3),
        unknown_inputs={F: ks.held(-1.0, 1.0)},
    )


def algebraic():
    """Implicit steps of a model with an algebraic state and an unknown straight input."""
    z = ks.dynamicsymbols("z")
    equations = [q.diff(t) - v, v.diff(t) + k * z + c * v - F, z + z**3 / 5 - q]
    return ks.Shooting(
        ks.Model("spring", [q, v, z], [F], [k, c], equations, values={c: 0.2}),
        ks.Experiment(np.linspace(0.0, 1.5, 9), measurements={q: np.cos(np.arange(9.0))}),
        unknown={k: (0.1, 9.0)},
        initial={q: 0.3, v: None, z: 0.2},
        unknown_inputs={F: (-1.0, 1.0)},
        method="radau-5",
        substeps=1,
    )


CASES = {"squares": squares, "controls": controls, "algebraic": algebraic}


class Compiled:
    """The functions of an exported fit."""

    def __init__(self, problem, folder):
        ks.export(problem, folder)
        sources = sorted(p.name for p in folder.glob("*.c") if p.name != "main.c")
        for compiler in ("clang", "gcc"):
            if shutil.which(compiler):
                line = [compiler, *STRICT.split(), "-shared", "-o", "made.so", *sources, "-lm"]
                subprocess.run(line, cwd=folder, check=True)
        self.prefix = f"{problem.model.name}_problem"
        self.library = ctypes.CDLL(str(folder / "made.so"))
        header = (folder / f"{self.prefix}.h").read_text()
        self.work = np.full(int(header.split("_N_WORK_JACOBIAN ")[1].split()[0]), np.nan)

    def __call__(self, what, x, *shapes):
        outs = [np.full(shape, np.nan, order="F") for shape in shapes]
        given = (a.ctypes.data_as(ctypes.c_void_p) for a in (x, self.work, *outs))
        assert getattr(self.library, f"{self.prefix}_{what}")(*given) == 0
        return outs[0] if len(outs) == 1 else outs


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.parametrize("case", CASES)
def test_equals_shooting(case, tmp_path):
    problem = CASES[case]()
    made, x = Compiled(problem, tmp_path / "c"), problem.pack()
    x += 0.1 * np.random.default_rng(2).random(len(x))
    n = len(x)
    agree(made("cost", x, 1), problem.cost(x))
    agree(made("gradient", x, n), problem.gradient(x))
    if case == "controls":
        assert not hasattr(made.library, f"{made.prefix}_residuals")
        return
    r = problem.residuals(x)
    agree(made("residuals", x, len(r)), r)
    J = made("residual_jacobian", x, (len(r), n))
    if case == "squares":  # of samples of inputs there is only the adjoint to compare with
        agree(J, problem.residual_jacobian(x))
    gradient, matrix = made("gauss_newton", x, n, (n, n))
    agree(gradient, problem.gradient(x))
    agree(matrix, 2 * J.T @ J)


def simple(**changed):
    """A fit with arguments in place of those that can be exported."""
    time = np.linspace(0.0, 1.0, 5)
    given = {
        "system": oscillator(),
        "trials": ks.Experiment(time, {F: 0.0 * time}, {q: time}, std={q: 0.1}),
        "unknown": {k: (0.1, 9.0)},
        "known": {c: 0.1, s: 1.0},
        "initial": {q: 0.1, v: 0.0},
    }
    return ks.Shooting(**{**given, **changed})


def test_program_prints_cost_and_gradient(tmp_path):
    """Of a fit with one unknown, without warnings."""
    problem = simple()
    folder = ks.export(problem, tmp_path / "c", guess={k: 0.5}).folder
    subprocess.run(["make", "-s", f"CFLAGS={STRICT}"], cwd=folder, check=True)
    said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    values = [float(line.split()[-1]) for line in said.splitlines()]
    agree(values, [problem.cost({k: 0.5}), *problem.gradient({k: 0.5})])
    assert "d cost / d k = " in said
    assert ks.export(problem, folder, guess={k: 0.5}).changed == ()


def two_noises():
    time = np.linspace(0.0, 1.0, 5)
    given = (time, {F: 0.0 * time}, {q: time})
    return [ks.Experiment(*given, std={q: 0.1}), ks.Experiment(*given)]


REFUSED = {
    "goes from event to event": lambda: {
        "system": Hybrid(oscillator(), events=[Event("stop", q + 1, resets={v: -v})])
    },
    "steps by trapezoid, .*use rk4 or radau-5": lambda: {"method": "trapezoid"},
    "radau-5 chooses anew .*, substeps": lambda: {"method": "radau-5"},
    "several segments.*segments=1": lambda: {"segments": 2},
    "unknown delays of sensors, late": lambda: {
        "sensors": {"late": ks.sensor(q, delay=s)},
        "trials": ks.Experiment(np.arange(5) / 4, {F: np.zeros(5)}, {"late": np.ones(5)}),
        "unknown": {s: (0.0, 0.1)},
        "known": {c: 0.1, k: 1.0},
    },
    "estimates standard deviations": lambda: {"trials": two_noises()},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_a_sentence(sentence, tmp_path):
    problem = simple(**REFUSED[sentence]())
    with pytest.raises(ValueError, match=f"the fit of oscillator .*{sentence}"):
        ks.export(problem, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_delays_are_refused(tmp_path):
    equations = [q.diff(t) + k * ks.delayed(q, 0.2)]
    late = ks.Model("late", [q], [], [k], equations)
    trial = ks.Experiment(np.linspace(0, 1, 6), {}, {q: np.zeros(6)}, history={q: 1.0})
    problem = ks.Shooting(late, trial, unknown={k: (0.0, 2.0)}, initial={q: 1.0})
    with pytest.raises(ValueError, match="the fit of late has delays"):
        ks.export(problem, tmp_path / "c")
