"""Folders of exported code: all or nothing, again, edited; the command; what is refused."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.cli import main
from kinesym.hybrid import Contact, Event, FESMuscle, Hybrid
from kinesym.multibody import Body, Revolute, Tree
from kinesym.runtime.library.build import CompilerError

t = ks.t
x, v, n, mode = ks.dynamicsymbols("x v n mode")
k = sp.Symbol("k")


def model_with(expression, **more):
    return ks.Model("m", [x], [], [k], [x.diff(t) - expression], values={k: 1.0}, **more)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "exported"


def test_exported_again(folder):
    """Says what has changed, and keeps what is beside it."""
    assert "wrote 12 files" in str(ks.export(ks.models.pendulum(), folder))
    (folder / "mine.c").write_text("int main(void) { return 0; }\n")
    before = (folder / "pendulum.c").stat().st_mtime_ns
    again = ks.export(ks.models.pendulum(), folder)
    assert again.changed == () and "nothing has changed" in str(again)
    assert (folder / "pendulum.c").stat().st_mtime_ns == before
    p = sp.Symbol("p")
    equations = [x.diff(t) - v, v.diff(t) + p * x]
    changed = ks.export(ks.Model("pendulum", [x, v], [], [p], equations), folder).changed
    assert "pendulum.c" in changed and "CMakeLists.txt" not in changed
    single = ks.export(ks.models.pendulum(), folder, precision="single")
    assert single.removed == ("pendulum_sfun.c",) and (folder / "mine.c").exists()


def test_folders_that_are_not_ours(folder):
    model = ks.models.pendulum()
    folder.mkdir()
    (folder / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"notes\.txt; name another"):
        ks.export(model, folder)
    (folder / "notes.txt").unlink()
    ks.export(model, folder)
    (folder / "pendulum.c").write_text("edited")
    with pytest.raises(FileExistsError, match=r"pendulum\.c was edited"):
        ks.export(model, folder)
    assert (folder / "pendulum.c").read_text() == "edited"
    for place in (folder / "pendulum.c", folder / "pendulum.c" / "deeper" / "still"):
        with pytest.raises(FileExistsError, match=r"pendulum\.c is a file; name a folder"):
            ks.export(model, place)


def test_folders_that_cannot_be(folder):
    model = ks.models.pendulum()
    for name in (3, "", "a\0b"):
        with pytest.raises(ValueError, match="code is written into a folder"):
            ks.export(model, name, "python")
    long = folder / ("x" * 300)
    with pytest.raises(OSError, match=r"x cannot be written: .*; name another folder"):
        ks.export(model, long, "python")


def test_folders_that_are_made(folder):
    """With those above it; behind a link, which stays."""
    model = ks.models.pendulum()
    deep, link = folder / "a" / "b", folder / "link"
    assert "wrote" in str(ks.export(model, deep, "python"))
    link.symlink_to(deep)
    assert "nothing has changed: 1 file in" in str(ks.export(model, link, "python"))
    assert link.is_symlink() and sorted(folder.iterdir()) == [folder / "a", link]


REFUSED = {
    "gamma": (model_with(sp.gamma(x)), "needs the function gamma, which C99 does not have"),
    "polygamma": (model_with(sp.polygamma(1, x)), "needs the function polygamma, which C99"),
    "bessel": (model_with(sp.besselj(1, x)), "needs the function besselj"),
    "delay": (
        model_with(ks.delayed(x, k * x, range=(0.1, 0.2))),
        r"has delays that change along the motion, x\(t - k\*x\)",
    ),
    "C text": (
        model_with(ks.function("f", [k], "0*j0(k) + k", [1], python=lambda k: k)(x)),
        "f calls j0 in its C text",
    ),
    "contacts": (
        Hybrid(
            ks.Model("b", [x, v], [n], [], [x.diff(t) - v, v.diff(t) + 9.81 - n]),
            contacts=[Contact("floor", x, n)],
        ),
        "has contacts, floor, whose forces",
    ),
    "no model": (3, "takes a Model or a Tree .*, got int"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_a_sentence(what, folder):
    given, sentence = REFUSED[what]
    with pytest.raises(ValueError, match=sentence):
        ks.export(given, folder)
    assert not folder.exists() and not list(folder.parent.iterdir())


def library_of(folder, *flags):
    sources = [p for p in folder.glob("*.c") if not p.stem.endswith(("main", "_mex", "_sfun"))]
    made = folder.parent / "made.so"
    subprocess.run(["gcc", "-std=c99", "-shared", "-fPIC", "-o", made, *sources, "-lm"], check=True)
    return ctypes.CDLL(str(made))


def called(function, size, *given):
    arrays = [np.array(a, float) if np.ndim(a) else ctypes.c_double(a) for a in given]
    out = np.empty(size)
    passed = [a.ctypes.data_as(ctypes.c_void_p) if np.ndim(a) else a for a in (*arrays[:3],)]
    assert function(*passed, *arrays[3:], out.ctypes.data_as(ctypes.c_void_p)) == 0
    return out


def test_guards_and_resets_of_a_hybrid(folder):
    force = ks.dynamicsymbols("force")
    model = ks.Model("ball", [x, v], [force, mode], [k], [x.diff(t) - v, v.diff(t) - mode * force])
    bounce = Event(
        "bounce", x**2 - force * sp.sin(k) * v, resets={v: -k * v}, sets={mode: 1 - mode}, when=mode
    )
    ks.export(Hybrid(model, modes={mode: 1.0}, events=[bounce]), folder)
    made, given = library_of(folder), ([0.3, -2.0], [0.7, 1.0], [0.5], 0.0)
    assert np.allclose(called(made.ball_guards, 2, *given), [0.09 + 1.4 * np.sin(0.5), 1.0])
    for wrt, expected in (
        ("states", [0.6, -0.7 * np.sin(0.5)]),
        ("inputs", [2.0 * np.sin(0.5), 0.0]),
        ("parameters", [1.4 * np.cos(0.5)]),
    ):
        slopes = getattr(made, f"ball_guards_jacobian_{wrt}_dense")
        assert np.allclose(called(slopes, len(expected), *given), expected)
    assert np.allclose(called(made.ball_reset_0, 4, *given), [0.3, 1.0, 0.7, 0.0])
    assert np.allclose(called(made.ball_rhs, 2, *given), [-2.0, 0.7])


def test_knee_with_muscle(folder):
    quad = FESMuscle("quad", rate=-0.05 * v, F0=1200, k0=3e4, ks=2e4, Lc0=0.1)
    equations = [x.diff(t) - v, v.diff(t) + v + 12 * x - 0.05 * quad.force]
    knee = Hybrid(ks.Model("knee", [x, v], [quad.force], [], equations), muscles=[quad])
    ks.export(knee, folder)
    made = library_of(folder)
    names = (ctypes.c_char_p * len(knee.events)).in_dll(made, "knee_events_names")
    assert [name.decode() for name in names] == [event.name for event in knee.events]
    assert all(hasattr(made, f"knee_reset_{k}") for k in range(len(names)))


def test_tree_is_its_model(folder):
    tree = Tree("arm", [Body("arm", 1.0, (0, 0, -0.5), (0.1, 0.1, 0.1), Revolute("y"))])
    ks.export(tree, folder)
    assert "arm_rhs" in (folder / "arm.h").read_text()


def test_a_damaged_manifest_is_told(folder):
    model = ks.models.pendulum()
    for text in ("[]", '{"files": 3}', "{bad"):
        ks.export(model, folder, target="python")
        (folder / "kinesym.json").write_text(text)
        with pytest.raises(FileExistsError, match=r"kinesym\.json is damaged"):
            ks.export(model, folder, target="python")
        shutil.rmtree(folder)


def test_equations_of_higher_index_are_refused(folder):
    model = ks.models.cartesian_pendulum()
    with pytest.raises(ValueError, match=r"index 3.*use model\.reduced_index\(\)"):
        ks.export(model, folder)
    assert not folder.exists()


@pytest.mark.parametrize("factor", [1e-50, 1e40])
def test_numbers_that_float_does_not_have(factor, folder):
    with pytest.raises(ValueError, match="precision='single' has no number"):
        ks.export(model_with(factor * x), folder, precision="single")


def test_options_of_targets(folder):
    with pytest.raises(ValueError, match="c99, of a Model, has no option precison"):
        ks.export(ks.models.pendulum(), folder, precison="single")
    with pytest.raises(ValueError, match="target is one of c99"):
        ks.export(ks.models.pendulum(), folder, target="fortran")
    with pytest.raises(ValueError, match="name a folder"):
        ks.export(ks.models.pendulum())


def test_edited_kernel(folder):
    """Runs in place of the model, and says how far it is from it."""
    model = ks.models.pendulum()
    ks.export(model, folder)
    path = folder / "pendulum.c"
    same = ks.compile(model, source=path)
    assert max(d.relative for d in same.differences.values()) < 1e-14
    text = path.read_text()
    path.write_text(text.replace("-(p_p*sin(x_theta))", "-(p_p*x_theta)", 1))
    edited, point = ks.compile(model, source=path), ([0.3, 0.1], [], [10.0])
    assert np.allclose(edited.rhs(*point), [0.1, -3.0])
    assert np.array_equal(edited.residual([0, 0], *point), same.residual([0, 0], *point))
    found = edited.differences["rhs"]
    x_there = found.point["x"][0]
    assert found.component == "omega'" and found.relative > 1.0
    assert np.isclose(found.expected / found.found, np.sin(x_there) / x_there)
    assert "rhs, omega': " in str(edited)
    path.write_text("int wrong")
    with pytest.raises(CompilerError, match=r"pendulum\.c does not compile"):
        ks.compile(model, source=path)
    path.write_text("int nothing;\n")
    with pytest.raises(ValueError, match="none of the functions pendulum_rhs"):
        ks.compile(model, source=path)
    with pytest.raises(ValueError, match="there is no file"):
        ks.compile(model, source=folder / "none.c")


def test_command(folder, tmp_path, capsys):
    assert main(["export", "pendulum", str(folder)]) == 0
    assert "wrote 12 files" in capsys.readouterr().out
    script = tmp_path / "mine.py"
    script.write_text("import kinesym as ks\ndef swing():\n    return ks.models.pendulum()\n")
    assert main(["export", f"{script}:swing", str(folder), "--precision", "single"]) == 0
    assert "float" in (folder / "pendulum.h").read_text()
    for given, sentence in (
        ("pendulm", "kinesym.models has no pendulm; it has bricard"),
        (f"{script}:swings", "has no swings; it has ks, swing"),
        (f"{tmp_path}/none.py:swing", "there is no file"),
        ("n_link_pendulum_on_cart", "make the model in a function without arguments"),
    ):
        assert main(["export", given, str(folder)]) == 2
        assert sentence in capsys.readouterr().err
