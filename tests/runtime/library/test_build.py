"""The cache: what rebuilds and what does not."""

import copy
import os
import pickle
import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks
from kinesym import cli
from kinesym.cli import main
from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions
from kinesym.internal.problems import c_files
from kinesym.internal.problems.c_files import c_of
from kinesym.runtime.library import build as building
from kinesym.runtime.library.build import CompilerError, build, find, find_compiler
from kinesym.runtime.library.cache import tidy


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path))
    return tmp_path


def libraries(folder):
    return sorted(path.name for path in folder.glob("*.so"))


def fit(nodes, **changes):
    time = np.linspace(0.0, changes.pop("duration", 1.0), nodes)
    trial = ks.Experiment(time, measurements={"theta": np.cos(time * changes.pop("rate", 1.0))})
    problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": (0.0, 20.0)}, **changes)
    return problem


def test_numbers_never_rebuild(cache):
    fit(11)
    once = libraries(cache)
    assert len(once) == 1
    for change in ({"nodes": 50}, {"duration": 3.0}, {"rate": 2.0}, {"bounds": {"theta": (-2, 2)}}):
        problem = fit(**{"nodes": 11, **change})
        assert problem.timings["compile"] == 0.0
    assert libraries(cache) == once


def test_other_structure_rebuilds(cache):
    fit(11)
    fit(11, scheme="backward-euler")
    assert len(libraries(cache)) == 2


def test_concurrent_builds_share_one_library(cache):
    files = emit(model_functions(ks.models.cip())).files
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: build(files), range(4)))
    assert len({library.path for library, _ in built}) == 1
    assert len(libraries(cache)) == 1
    assert {p.suffix for p in cache.iterdir() if p.is_file()} == {".so", ".json", ".sum"}


def test_c_is_printed_for_a_compiler_only(cache, monkeypatch):
    """A library that is kept is found by what its C is printed from."""
    program = model_functions(ks.models.cip())
    made, seconds = build(c_of(program))
    assert seconds > 0.0
    monkeypatch.setattr(c_files, "emit", None)
    again, seconds = build(c_of(model_functions(ks.models.cip())))
    assert (again.path, seconds) == (made.path, 0.0)
    assert find(c_of(program)).path == made.path
    assert find(c_of(replace(program, kernels=program.kernels[:-1]))) is None


def test_pickled_c(cache):
    """It goes along printed, and is known by the same digest."""
    files = c_of(model_functions(ks.models.cip()))
    again = pickle.loads(pickle.dumps(files))
    assert again.digest == files.digest
    assert dict(again) == dict(files) == emit(model_functions(ks.models.cip())).files
    assert len(again) == len(files) and set(again) == set(files)
    assert copy.copy(files).digest == files.digest


def test_unchanged_pieces_are_not_compiled_again(cache):
    """A library with one more kernel has one more file of kernels; the others are found."""
    program = model_functions(ks.models.cip())
    build(emit(program).files)
    before = {p.name: p.stat().st_mtime_ns for p in (cache / "objects").glob("*.o")}
    smaller = replace(program, kernels=program.kernels[:-1])
    build(emit(smaller).files)
    after = {p.name: p.stat().st_mtime_ns for p in (cache / "objects").glob("*.o")}
    assert after.items() > before.items()
    assert len(after) == len(before) + 2  # the table and the kernels; the map is kept


def test_another_c_library_rebuilds(cache, monkeypatch):
    """A home may be shared by machines whose C libraries differ."""
    ks.compile(ks.models.pendulum())
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.17"))
    ks.compile(ks.models.pendulum())
    assert len(libraries(cache)) == 2


def test_a_full_cache_is_enough(cache, monkeypatch):
    """Without a compiler, problems whose libraries are kept are solved; others need one."""
    time = np.linspace(0.0, 1.0, 101)

    def shot():
        trial = ks.Experiment(time, measurements={"theta": np.cos(time)})
        return ks.Shooting(
            ks.models.pendulum(),
            trial,
            unknown={"p": (0.0, 20.0)},
            initial={"theta": 1.0, "omega": 0.0},
        )

    fit(11), shot()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(cache / "objects"))
    assert fit(11).timings["compile"] == shot().timings["compile"] == 0.0
    with pytest.raises(CompilerError, match=r"no C compiler found; .* holds no library of this"):
        fit(11, scheme="backward-euler")
    monkeypatch.setenv("KINESYM_CACHE", str(cache / "empty"))
    with pytest.raises(CompilerError, match="no C compiler found; install one"):
        fit(11)


def test_least_recently_used_goes_first(cache, monkeypatch):
    models = (ks.models.pendulum(), ks.models.cip(), ks.models.n_link_pendulum_on_cart(1))
    programs = [emit(model_functions(model)).files for model in models]
    paths = [Path(build(files)[0].path) for files in programs]
    for path in cache.rglob("*.*"):
        os.utime(path, (1e9, 1e9))
    build(programs[0])  # a use
    size = sum(path.stat().st_size for path in cache.rglob("*.*"))
    monkeypatch.setenv("KINESYM_CACHE_LIMIT", str((size - 1) / 1e6))
    tidy(cache, paths[1])
    assert [path.exists() for path in paths] == [True, True, False]
    monkeypatch.setenv("KINESYM_CACHE_LIMIT", "1e-6")
    assert build(programs[2])[1] > 0.0
    assert [path.exists() for path in paths] == [False, False, True]
    assert not any((cache / "objects").iterdir())


def test_command_line(cache, capsys, monkeypatch):
    """`kinesym cache` and `doctor` count everything; `--clear` removes nothing else."""
    ks.compile(ks.models.pendulum())
    size = sum(path.stat().st_size for path in cache.rglob("*.*")) / 1e6
    (cache / "tmp_notes").mkdir()
    (cache / "objects" / "notes.o").touch()
    words = f"{cache}, 1 libraries, 3 objects, {size:.1f} MB of 2000 MB"
    assert main(["cache"]) == 0
    assert words in capsys.readouterr().out
    main(["doctor"])
    assert words in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert words in capsys.readouterr().out
    left = {path.name for path in cache.rglob("*")}
    assert left == {"objects", "tmp_notes", "notes.o"}
    monkeypatch.setenv("KINESYM_CACHE_LIMIT", "much")
    assert main(["cache"]) == 1
    assert "KINESYM_CACHE_LIMIT must be a number" in capsys.readouterr().err
    assert main(["doctor"]) == 1
    assert "KINESYM_CACHE_LIMIT must be a number" in capsys.readouterr().out


def test_benchmarks_come_with_the_sources(tmp_path, monkeypatch, capsys):
    """An installed package may lie beside the benchmarks of another one."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "report.py").write_text("raise SystemExit('not ours')\n")
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "kinesym" / "cli.py"))
    for given in (["bench"], ["bench", "report"]):
        assert main(given) == 2
        assert "come with the sources of kinesym, not with the installed" in capsys.readouterr().err


def test_foreign_file_is_refused(tmp_path):
    from kinesym.runtime.native import Compiled

    with pytest.raises(OSError, match="cannot open the model library"):
        Compiled(tmp_path / "none.so")


def test_places_outside_are_refused(cache):
    """The native layer checks every place before the first call."""
    from kinesym.runtime.native import Call
    from kinesym.runtime.sparse.places import rows

    library = ks.compile(ks.models.pendulum()).library
    x, short = np.zeros(4), np.zeros(3)
    good = [(x, 0, 2), (x, 0, 2), (x, 0, 0), (x, 0, 1), (x, 0, 2)]
    Call(library, "residual", 2, good, (), rows(2, 2), 4)
    with pytest.raises(ValueError, match="argument 0 of residual lies outside"):
        Call(library, "residual", 2, [(short, 0, 2), *good[1:]], (), rows(2, 2), 4)
    with pytest.raises(ValueError, match="output 1 of residual lies outside"):
        Call(library, "residual", 2, good, (), rows(2, 2, base=1), 4)
    with pytest.raises(KeyError, match="no kernel nothing"):
        Call(library, "nothing", 2, good, (), rows(0, 2), 4)


def test_runtime_without_sympy():
    """Importing the runtime loads neither SymPy nor the symbolic layers."""
    import subprocess
    import sys

    code = (
        "import sys, kinesym.runtime.nlp.nlp, kinesym.runtime.results.solution;"
        "import kinesym.runtime.functions;"
        "bad = [m for m in sys.modules if m.split('.')[0] == 'sympy' or 'kinesym.symbolic' in m"
        " or 'kinesym.codegen' in m]; sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_openmp_counts_only_if_it_links(tmp_path, monkeypatch):
    """A compiler may take -fopenmp and have no library for it."""
    wrapper = tmp_path / "cc"
    wrapper.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" -c "*) ;; *-fopenmp*)\n'
        "  cc -fopenmp -c probe.c -o probe.o && exec cc probe.o -o probe ;;\n"
        "esac\n"
        'exec cc "$@"\n'
    )
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    assert not find_compiler().openmp


def test_a_compiler_is_tried_once_until_it_changes(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    wrapper = tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec cc "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path / "cache"))

    def tried():
        """What a new process finds, and whether it tries the compiler."""
        building._find_compiler.cache_clear()
        calls.write_text("")
        return find_compiler(), bool(calls.read_text())

    first, now = tried()
    assert now
    files = emit(model_functions(ks.models.pendulum())).files
    build(files)
    assert tried() == (first, False)
    os.utime(wrapper, (1.0, 1.0))  # exchanged
    assert tried() == (first, True)
    build(files, lanes=2)
    assert tried() == (first, False)
    monkeypatch.setattr(building, "abilities", lambda: frozenset({"another"}))
    assert tried() == (first, True)
