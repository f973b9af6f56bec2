"""Plain C of models with constant delays: functions of delayed values, and steps that keep the past
in room of the caller, against `ks.simulate`."""

import ctypes
import subprocess

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

STRICT = "-std=c99 -O1 -fPIC -Wall -Wextra -Wconversion -Wshadow -Werror -pedantic".split()
t = ks.t
u, v, T = ks.dynamicsymbols("u v T")
P, D, tau = sp.symbols("P D tau")


def standing():
    """A controlled inverted pendulum with late torques, and a disturbance that acts late, too."""
    control = ks.delayed(P * u + D * v, tau)
    equations = [u.diff(t) - v, v.diff(t) - 9 * sp.sin(u) + control - T - ks.delayed(T, 0.05) / 2]
    values = {P: 14.0, D: 4.0, tau: 0.12}
    return ks.Model("standing", [u, v], [T], [P, D, tau], equations, values=values)


class Past(ctypes.Structure):
    """As the header has it."""

    _fields_ = [
        ("room", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("steps", "count", "last", "lost")),
    ]


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


class Plain:
    """An exported model, and its past with room for so many steps."""

    def __init__(self, model, folder, compiler="gcc"):
        ks.export(model, folder)
        sources = [p.name for p in sorted(folder.glob("*.c")) if p.name != "main.c"]
        line = [compiler, *STRICT, "-shared", "-o", "made.so", *sources, "-lm"]
        subprocess.run(line, cwd=folder, check=True)
        self.name, self.library = model.name, ctypes.CDLL(str(folder / "made.so"))
        self.p = np.array([*model.values.values()])

    def __call__(self, function, shape, *given):
        out = np.full(shape, np.nan, order="F")
        passed = [ctypes.c_double(g) if np.isscalar(g) else pointer(np.array(g)) for g in given]
        assert getattr(self.library, f"{self.name}_{function}")(*passed, pointer(out)) == 0
        return out

    def begin(self, steps):
        self.room, self.past = np.full(steps * 14, np.nan), Past()
        self.library.standing_past_begin(ctypes.byref(self.past), pointer(self.room), steps)

    def history(self, x, dx, T, begin, h):
        given = (pointer(np.array(row, float)) for row in (x, dx, [T]))
        time = (ctypes.c_double(begin), ctypes.c_double(h))
        self.library.standing_past_put(ctypes.byref(self.past), *given, *time)

    def step(self, x, T, begin, h):
        after, given = np.empty(2), (pointer(x), pointer(np.array([T])), pointer(self.p))
        time = (ctypes.c_double(begin), ctypes.c_double(h))
        past = ctypes.byref(self.past)
        return self.library.standing_step_rk4(*given, *time, past, pointer(after)), after


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Plain(standing(), tmp_path_factory.mktemp("delays") / "c")


def test_functions_of_delayed_values(plain):
    model, chance = standing(), np.random.default_rng(1)
    f = ks.compile(model)
    xdot, x, inputs = chance.normal(size=2), chance.normal(size=2), chance.normal(size=4)
    given = (x, inputs[:1], inputs[1:], plain.p, 0.3)
    assert [d.name for d in model.delays] == [*model.input_names[1:]]
    np.testing.assert_allclose(plain("delays", 3, plain.p), [0.12, 0.12, 0.05])
    np.testing.assert_allclose(plain("rhs", 2, *given), f.rhs(x, inputs, plain.p), atol=1e-14)
    expected = f.jacobian(xdot, x, inputs, plain.p, wrt="inputs")
    for wrt, columns in (("inputs", expected[:, :1]), ("delayed", expected[:, 1:])):
        found = plain(f"residual_jacobian_{wrt}_dense", columns.shape, xdot, *given)
        np.testing.assert_allclose(found, columns, rtol=1e-14)
        slopes = plain(f"rhs_jacobian_{wrt}_dense", columns.shape, *given)
        np.testing.assert_allclose(slopes, -columns, rtol=1e-14)  # x' = -(the rest)
    of = (ctypes.c_int * 3).in_dll(plain.library, "standing_delayed_of")
    assert [*of] == [0, 1, 2]


def test_steps_follow_a_simulation(plain):
    """With order 4, from a history of straight lines, by a torque that is held."""
    begin, line, end = np.array([0.05, -0.1]), np.array([0.2, 0.1]), 1.2
    torque = ks.Signal.pieces([0.0, 0.3, 0.6], [0.5, -0.2, 0.3])
    history = {
        x: ks.Signal([-1.0, 0.0], [a - b, a])
        for x, a, b in zip(("u", "v"), begin, line, strict=True)
    }
    run = ks.simulate(
        standing(),
        np.linspace(0.0, end, 601),
        dict(zip(("u", "v"), begin, strict=True)),
        inputs={T: torque},
        history={**history, T: 0.1},
    )
    expected = np.array([run["u"][-1], run["v"][-1]])
    errors = []
    for h in (0.01, 0.005):  # late jumps are at ends of steps
        plain.begin(int(0.12 / h) + 2)
        plain.history(begin - line, line, 0.1, -1.0, 1.0)
        x = begin
        for k in range(round(end / h)):
            now = float(torque.sided(np.array([k * h + 1e-9]), 1.0)[0])
            status, x = plain.step(x, now, k * h, h)
            assert status == 0
        errors.append(np.abs(x - expected).max())
    assert errors[1] < 1e-8 and errors[1] < errors[0] / 12


def test_a_step_is_taken_again(plain):
    """In place of one that was longer."""
    plain.begin(9)
    x = np.array([0.1, 0.0])
    _, first = plain.step(x, 0.2, 0.0, 0.02)
    plain.step(first, -3.0, 0.02, 0.04)
    again = plain.step(first, 0.1, 0.02, 0.02)[1]
    plain.begin(9)
    plain.step(x, 0.2, 0.0, 0.02)
    np.testing.assert_array_equal(plain.step(first, 0.1, 0.02, 0.02)[1], again)


def test_steps_that_cannot_be(plain):
    x = np.array([0.1, 0.0])
    plain.begin(9)
    assert plain.step(x, 0.0, 0.0, 0.06)[0] == 4  # longer than the delay of T
    plain.begin(3)
    found = [plain.step(x, 0.0, 0.02 * k, 0.02)[0] for k in range(8)]
    assert found[:5] == [0, 0, 0, 0, 5]


def test_program_runs(plain, tmp_path):
    folder = ks.export(standing(), tmp_path / "c").folder
    subprocess.run(["make", "-s", "CFLAGS=-std=c99 -O0"], cwd=folder, check=True)
    said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    run = ks.simulate(standing(), np.linspace(0, 1, 1001), {u: 0.1, v: 0.1}, inputs={T: 0.0})
    assert np.isclose(float(said.split()[4]), run["u"][-1], rtol=1e-7)


def test_events_beside_delays_are_refused(tmp_path):
    from kinesym.hybrid import Event, Hybrid

    stop = Hybrid(standing(), events=[Event("stop", u - 1, resets={v: -v})])
    for target in ("c99", "fmu"):
        with pytest.raises(ValueError, match="delays"):
            ks.export(stop, tmp_path / "c", target)
    with pytest.raises(ValueError, match=r"has delays, .* whose past an FMU does not keep"):
        ks.export(standing(), tmp_path / "c", "fmu")
    assert not (tmp_path / "c").exists()
