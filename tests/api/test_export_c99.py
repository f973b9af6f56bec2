"""Plain C of models: compiled by several compilers, called through ctypes, against the functions
that `ks.compile` and `ks.simulate` run."""

import ctypes
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.exported import exported_functions
from kinesym.codegen.interpret import interpret
from kinesym.models.whole_body import whole_body

STRICT = "-std=c99 -O2 -Wall -Wextra -Wconversion -Wshadow -Werror -pedantic".split()
#: Compilers of other processors; those that are not installed are left out.
COMPILERS = {
    "gcc": [],
    "clang": [],
    "aarch64-linux-gnu-gcc": [],
    "arm-none-eabi-gcc": ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft"],
}
DATA = Path(__file__).parents[1] / "data"
GROUPS = ("derivatives", "states", "inputs", "parameters")

t = ks.t


def sources(folder):
    """Without programs and gateways."""
    every = sorted(folder.glob("*.c"))
    return [p for p in every if p.name != "main.c" and not p.stem.endswith(("_mex", "_sfun"))]


class Plain:
    """An exported model, called with arrays."""

    def __init__(self, model, folder, precision="double"):
        ks.export(model, folder, precision=precision)
        (header,) = folder.glob("*.h")
        self.name, self.folder = header.stem, folder
        self.kind, scalar = {
            "double": (np.float64, ctypes.c_double),
            "single": (np.float32, ctypes.c_float),
        }[precision]
        self.scalar = scalar
        made = folder.parent / f"{folder.name}.so"
        flags = ["-O1", "-shared", "-fPIC", "-o", made, *sources(folder), "-lm"]
        done = subprocess.run(["gcc", *STRICT, *flags], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(made))

    def has(self, function):
        return hasattr(self.library, f"{self.name}_{function}")

    def __call__(self, function, size, *given):
        """Status and result."""
        out = np.full(size, np.nan, self.kind)
        arrays = [v if np.isscalar(v) else np.ascontiguousarray(v, self.kind) for v in given]
        passed = [
            self.scalar(v) if np.isscalar(v) else v.ctypes.data_as(ctypes.c_void_p) for v in arrays
        ]
        outs = [out.ctypes.data_as(ctypes.c_void_p)]
        status = getattr(self.library, f"{self.name}_{function}")(*passed, *outs)
        assert status == 0, f"{function}: {status}"
        return out.astype(float)

    def step(self, function, size, *given):
        """The next state and, of functions that have them, its derivatives."""
        n, q = size
        arrays = [v if np.isscalar(v) else np.ascontiguousarray(v, self.kind) for v in given]
        passed = [
            self.scalar(v) if np.isscalar(v) else v.ctypes.data_as(ctypes.c_void_p) for v in arrays
        ]
        after, by = np.empty(n, self.kind), np.empty((q, n), self.kind)
        outs = [a.ctypes.data_as(ctypes.c_void_p) for a in (after, by)]
        outs = outs if function.endswith("sensitivities") else outs[:1]
        status = getattr(self.library, f"{self.name}_{function}")(*passed, *outs)
        assert status == 0, f"{function}: {status}"
        return after.astype(float), by.T.astype(float)

    def matrix(self, function, shape, *given):
        """A matrix by its dense function, which agrees with the sparse one."""
        m, n = shape
        if not self.has(function):
            return np.zeros(shape)
        whole = self(f"{function}_dense", m * n, *given).reshape(n, m).T
        begin = (ctypes.c_int * (n + 1)).in_dll(self.library, f"{self.name}_{function}_begin")
        row = (ctypes.c_int * begin[n]).in_dll(self.library, f"{self.name}_{function}_row")
        values, sparse = self(function, begin[n], *given), np.zeros(shape)
        for j in range(n):
            for k in range(begin[j], begin[j + 1]):
                sparse[row[k], j] = values[k]
        assert np.array_equal(whole, sparse)
        return whole


def point(model, seed=0):
    """Derivatives, states, inputs, parameters, time."""
    rng = np.random.default_rng(seed)
    n, m = len(model.states), len(model.inputs)
    p = np.array([model.values.get(name, 0.7) for name in model.parameter_names])
    return rng.normal(size=n), rng.normal(0, 0.3, n), rng.normal(size=m), p, 0.4


def agree(found, expected, within=1e-14):
    """To a part of the largest number."""
    size = np.max(np.abs(expected), initial=0.0)
    assert np.max(np.abs(found - expected), initial=0.0) <= within * size


def check_functions(model, folder, precision="double", within=2e-14, rates=1e-12):
    """Values and all first derivatives; rates : of x' and its derivatives, which are solutions."""
    f, c = ks.compile(model), Plain(model, folder, precision)
    given = point(model)
    xdot, n, m, r = given[0], *map(len, given[1:4])
    agree(c("residual", n, *given), f.residual(*given), within)
    if model.outputs:
        agree(c("outputs", len(model.outputs), *given), f.outputs(*given), within)
    sizes = dict(zip(GROUPS, (n, n, m, r), strict=True))
    by = {}
    for of, count in (("residual", n), ("outputs", len(model.outputs))):
        for wrt, size in sizes.items():
            by[of, wrt] = f.jacobian(*given, of=of, wrt=wrt)
            if size and count:
                found = c.matrix(f"{of}_jacobian_{wrt}", (count, size), *given)
                agree(found, by[of, wrt], within)
    if c.has("mass_matrix"):
        M, forcing = c.matrix("mass_matrix", (n, n), *given[1:]), c("forcing", n, *given[1:])
        agree(M @ xdot - forcing, f.residual(*given), 10 * within)
    if f.is_explicit:
        rate = f.rhs(*given[1:])
        agree(c("rhs", n, *given[1:]), rate, rates)
        mass = f.jacobian(rate, *given[1:], wrt="derivatives")
        for wrt in GROUPS[1:]:
            if sizes[wrt]:
                found = c.matrix(f"rhs_jacobian_{wrt}", (n, sizes[wrt]), *given[1:])
                agree(mass @ found, -f.jacobian(rate, *given[1:], wrt=wrt), rates)
    return c


def check_second_derivatives(model, c):
    """By complex steps of the gradient, in the reference interpreter."""
    rng = np.random.default_rng(1)
    given = dict(zip(("xdot", "x", "u", "p", "t"), point(model), strict=True))
    for f in exported_functions(model):
        if not f.kernel.name.endswith("_hessian_product"):
            continue
        names = [a.name for a in f.kernel.arguments]
        moving = [a for a in ("xdot", "x", "u", "p") if a in names]
        weights = rng.normal(size=len(model.states))
        direction = rng.normal(size=sum(given[a].size for a in moving))
        parts = np.split(direction, np.cumsum([given[a].size for a in moving])[:-1])
        bent = {a: given[a] + 1e-30j * part for a, part in zip(moving, parts, strict=True)}
        arrays = {**given, "t": [given["t"]], **bent, "weights": weights}
        arrays["p"] = np.append(arrays["p"], model.tables.values)
        (values,) = interpret(f.kernel, {**arrays, "direction": direction}, 1).T
        gradient = values[: direction.size]
        plain = [given[a] for a in names if a in given]
        found = c(f.kernel.name, 2 * direction.size, *plain, weights, direction)
        agree(found[: direction.size], gradient.real, 1e-12)
        agree(found[direction.size :], gradient.imag / 1e-30, 1e-11)


def functions_of(path):
    """Numbers of statements of the functions of a file."""
    bodies = re.findall(r"\) \{\n(.*?)^\}", path.read_text(), re.DOTALL | re.MULTILINE)
    return [body.count(";") for body in bodies]


@pytest.mark.parametrize("name", ["pendulum", "standing"])
def test_values_and_derivatives(name, tmp_path):
    model = getattr(ks.models, name)()
    c = check_functions(model, tmp_path / "c")
    check_second_derivatives(model, c)


LARGE = {
    "cip": ks.models.cip,
    "ten links": lambda: ks.models.n_link_pendulum_on_cart(10),
    "whole body": lambda: whole_body().model(),
    "URDF": lambda: ks.urdf.read(DATA / "arm.urdf", "free").model(),
    "OpenSim": lambda: ks.osim.read(DATA / "opensim" / "2D_gait.osim.gz").model(),
}


@pytest.mark.study
@pytest.mark.domain
@pytest.mark.parametrize("name", LARGE)
def test_values_and_derivatives_of_larger_models(name, tmp_path):
    """And no function is long."""
    model = LARGE[name]()
    c = check_functions(model, tmp_path / "c", within=1e-13, rates=1e-10)
    check_second_derivatives(model, c)
    assert max(chain.from_iterable(map(functions_of, sources(c.folder)))) < 2000


def test_single_precision(tmp_path):
    check_functions(ks.models.standing(), tmp_path / "c", "single", within=5e-6, rates=1e-5)


def odd_model():
    """Names that C has other uses for, and functions of all kinds."""
    q, v, x = ks.dynamicsymbols("int double y0")
    u = ks.dynamicsymbols("while")
    p, k = sp.symbols("x restrict")
    table = ks.table(q, np.linspace(-3, 3, 7), np.sin(np.arange(7.0)), kind="pchip")
    slope = [1 / (1 + sp.exp(-p))]
    softplus = ks.function(
        "softplus", [p], "log1p(exp(x))", slope, python=lambda x: np.log1p(np.exp(x))
    )
    return ks.Model(
        "main",
        [q, v, x],
        [u],
        [p, k],
        [
            q.diff(t) - v,
            (2 + sp.cos(q)) * v.diff(t) + p * sp.Abs(v) * v + table - u + sp.Max(q, k),
            k * x.diff(t) + softplus(x) - sp.Piecewise((q, q > 0), (q**3, True)),
        ],
        outputs={"default": sp.atan2(q, v) + sp.sign(v) + sp.Mod(q, p) + sp.erf(x)},
        values={p: 0.8, k: 1.3},
        units={q: "rad */ \\?", v: "rad/s"},
    )


def test_odd_names_and_functions(tmp_path, monkeypatch):
    monkeypatch.setenv("KINESYM_TIER", "compiled")  # it has a function that is C text alone
    model = odd_model()
    c = check_functions(model, tmp_path / "c")
    check_single = Plain(model, tmp_path / "s", "single")
    given = point(model)
    agree(check_single("rhs", 3, *given[1:]), c("rhs", 3, *given[1:]), 1e-6)
    names = (ctypes.c_char_p * 3).in_dll(c.library, "main_model_states_names")
    assert list(names) == [b"int", b"double", b"y0"]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_all_compilers(compiler, tmp_path):
    """As strictly as can be, in single precision, too, and what has other headers with ours."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    stand_ins = Path(__file__).parent / "stand_ins"
    for precision in ("double", "single"):
        folder = ks.export(odd_model(), tmp_path / precision, precision=precision).folder
        files = sources(folder) if compiler.startswith("arm") else sorted(folder.glob("*.c"))
        flags = [*STRICT, *COMPILERS[compiler], f"-I{stand_ins}"]
        done = subprocess.run(
            [compiler, *flags, "-c", *files], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_models_of_few_states(tmp_path):
    """Rates that depend on no state, or on nothing; outputs alone."""
    x, u = ks.dynamicsymbols("x u")
    driven = ks.Model("driven", [x], [u], [], [x.diff(t) - u])
    c = Plain(driven, tmp_path / "driven")
    for method in ("rk4", "radau"):
        after, by = c.step(f"step_{method}_sensitivities", (1, 2), [1.0], [3.0], [], 0.0, 0.5)
        assert np.allclose(after, 2.5) and np.allclose(by, [[1.0, 0.5]])
    u_now = ks.Model("u_now", [], [u], [], [], outputs={"y": 2 * u})
    seen = Plain(u_now, tmp_path / "u_now")
    assert seen("outputs", 1, [], [], [3.0], [], 0.0) == 6.0
    subprocess.run(["make", "-s"], cwd=seen.folder, check=True)
    clock = Plain(ks.Model("clock", [x], [], [], [x.diff(t) - 1]), tmp_path / "clock")
    assert np.allclose(clock.step("step_rk4", (1, 1), [1.0], [], [], 0.0, 0.5)[0], 1.5)


def test_steps_of_fixed_length(tmp_path):
    """rk4 as `ks.simulate`, with derivatives as of `ks.sensitivities`; both methods by
    differences."""
    model, h, count = ks.models.pendulum(), 0.02, 50
    c, p = Plain(model, tmp_path / "c"), np.array([10.0])
    time, start = h * np.arange(count + 1), {"theta": 0.7, "omega": -0.3}
    x, by = np.array([0.7, -0.3]), np.eye(2, 3)
    for k in range(count):
        after, step = c.step("step_rk4_sensitivities", (2, 3), x, [], p, k * h, h)
        assert np.array_equal(after, c.step("step_rk4", (2, 3), x, [], p, k * h, h)[0])
        by, x = step[:, :2] @ by + np.pad(step[:, 2:], ((0, 0), (2, 0))), after
    run = ks.simulate(model, time, start, method="rk4")
    agree(x, [run["theta"][-1], run["omega"][-1]], 1e-12)
    exact = ks.sensitivities(model, time, start, method="rk4").gradient("theta")
    expected = [exact.initial["theta"], exact.initial["omega"], exact.parameters["p"]]
    agree(by[0], expected, 1e-11)
    for method in ("rk4", "radau"):
        z = np.array([0.7, -0.3, 10.0])

        def step(z, method=method):
            return c.step(f"step_{method}", (2, 3), z[:2], [], z[2:], 0.0, 0.1)[0]

        _, by = c.step(f"step_{method}_sensitivities", (2, 3), z[:2], [], z[2:], 0.0, 0.1)
        d = 1e-5 * np.eye(3)
        agree(by, np.column_stack([(step(z + e) - step(z - e)) / 2e-5 for e in d]), 1e-9)


def test_radau_of_stiff_and_algebraic_equations(tmp_path):
    """A stiff linear rate by the Padé approximation of exp that the method is; with an algebraic
    state, which starts anywhere."""
    x, y, z = ks.dynamicsymbols("x y z")
    a, u = sp.Symbol("a"), ks.dynamicsymbols("u")
    equations = [x.diff(t) + a * x, y.diff(t) - z + u, z + y + z**3 - x]
    model = ks.Model("stiff", [x, y, z], [u], [a], equations)
    c, h, given = Plain(model, tmp_path / "c"), 0.1, ([2.0, 0.3, 5.0], [0.2], [3e4])
    after, by = c.step("step_radau_sensitivities", (3, 5), *given, 0.0, h)
    s = -3e4 * h
    pade = (1 + s * 2 / 5 + s**2 / 20) / (1 - s * 3 / 5 + s**2 * 3 / 20 - s**3 / 60)
    agree(after[0], 2 * pade, 1e-12)
    assert abs(after[2] + after[1] + after[2] ** 3 - after[0]) < 1e-14
    agree(by[0, 0], pade, 1e-12)
    assert np.max(np.abs(by[:, 2])) < 1e-14
    d = 1e-5
    up, down = (
        c.step("step_radau", (3, 5), *given[:1], [v], *given[2:], 0.0, h)[0]
        for v in (0.2 + d, 0.2 - d)
    )
    agree(by[:, 3], (up - down) / (2 * d), 1e-9)


def test_radau_follows_a_simulation(tmp_path):
    model = ks.models.standing()
    c, p = Plain(model, tmp_path / "c"), point(model)[3]
    x, h = np.full(4, 0.05), 0.005
    start = dict(zip(model.state_names, x, strict=True))
    run = ks.simulate(
        model, h * np.arange(21), start, inputs={"a": 0.3}, method="radau-5", rtol=1e-11, atol=1e-13
    )
    for k in range(20):
        x, _ = c.step("step_radau", (4, 0), x, [0.3], p, k * h, h)
    agree(x, [run[name][-1] for name in model.state_names], 1e-8)


def test_text_is_the_same_again(tmp_path):
    first, second = (ks.export(odd_model(), tmp_path / name).folder for name in "ab")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_program_runs(tmp_path):
    """By make, and what it prints."""
    folder = ks.export(ks.models.pendulum(), tmp_path / "c").folder
    subprocess.run(["make", "-s"], cwd=folder, check=True)
    said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    run = ks.simulate(ks.models.pendulum(), np.linspace(0, 1, 1001), {"theta": 0.1, "omega": 0.1})
    assert f"theta after 1 s: {run['theta'][-1]:.9g}" in said
