"""Models exported in vector lanes: values at many points as of the compiled model."""

import ctypes
import subprocess

import numpy as np
import pytest

import kinesym as ks
from kinesym.internal.exporting.simd import LANES
from kinesym.runtime.library.build import find_compiler


def _pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.mark.parametrize("lanes", [LANES[0], LANES[-1]])
def test_equals_the_compiled_model(lanes, tmp_path):
    model, folder, n = ks.models.standing(), tmp_path / "made", 37
    ks.export(model, folder, target="simd", lanes=lanes)
    sources = [p.name for p in folder.glob("*.c") if p.name != "main.c"]
    flags = ["-std=gnu11", "-O0", "-fPIC", "-shared", f"-DKS_LANES={lanes}", "-DKS_NO_LIBMVEC"]
    line = [*find_compiler().command, *flags, "-Wno-psabi", "-o", "made.so", *sources, "-lm"]
    subprocess.run(line, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "made.so"))
    chance = np.random.default_rng(0)
    shapes = {"xdot": 4, "x": 4, "u": 1}
    given = {name: chance.standard_normal((count, n)) for name, count in shapes.items()}
    p = np.array([model.values[name] for name in model.parameter_names])
    t = np.zeros(n)
    functions = ks.compile(model)
    arrays = [_pointer(a) for a in (*given.values(), p, t)]
    for name, skipped, count in (("residual", 0, 4), ("rhs", 1, 4), ("outputs", 0, 2)):
        out = np.empty((count, n))
        function = getattr(library, f"standing_{name}_points")
        assert function(ctypes.c_ssize_t(n), *arrays[skipped:], _pointer(out), 1) == 0
        expected = getattr(functions, name)(*[*given.values()][skipped:], p, t)
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-12)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="lanes is one of 8, 4, 2, 1, got '3'"):
        ks.export(ks.models.standing(), tmp_path / "made", target="simd", lanes=3)
    q = ks.dynamicsymbols("q")
    curve = ks.table(q, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.5, 0.0])
    model = ks.Model("bent", [q], [], [], [q.diff(ks.t) + curve])
    with pytest.raises(ValueError, match="model bent has tables"):
        ks.export(model, tmp_path / "made", target="simd")
    assert not (tmp_path / "made").exists()
