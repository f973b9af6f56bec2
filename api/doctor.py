"""Check of the installation: compiler, IPOPT, linear solvers, threads and cache on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kinesym.base.checks import threads
from kinesym.base.extras import EXTRAS, installed
from kinesym.codegen.bytecode import encode
from kinesym.codegen.evaluate import model_functions
from kinesym.internal.problems.c_files import c_of
from kinesym.models import pendulum
from kinesym.runtime.ipopt.library import IpoptMissing, load_ipopt
from kinesym.runtime.ipopt.linear_solver import available, obstacle
from kinesym.runtime.library.build import CompilerError, build, find_compiler
from kinesym.runtime.library.cache import CACHE_VARIABLE, CacheError, cache_folder, prepare, summary
from kinesym.runtime.native import Interpreted


def diagnosis() -> Iterator[tuple[str, bool, str]]:
    """(what, whether it works, a line about it and its remedy), one by one."""
    yield from _compiler()
    yield from _ipopt()
    yield "extras", True, "; ".join(map(_extra, EXTRAS))
    chosen = os.environ.get("OMP_NUM_THREADS")
    source = "OMP_NUM_THREADS" if chosen else "processors; set OMP_NUM_THREADS to change it"
    yield "threads", True, f"{threads()} ({source})"
    folder = cache_folder()
    try:
        prepare(folder)
        yield "cache", True, summary(folder)
    except CacheError as error:
        yield "cache", False, str(error)
    except OSError as error:
        remedy = f"name another one in the environment variable {CACHE_VARIABLE}"
        yield "cache", False, f"{folder} cannot be written ({error.strerror}); {remedy}"


def _compiler() -> Iterator[tuple[str, bool, str]]:
    model = model_functions(pendulum())
    yield "lanes", True, f"{Interpreted(model.name, encode(model)).lanes} points per vector"
    try:
        compiler = find_compiler()
        build(c_of(model))
    except CompilerError as error:
        cost = "evaluations take about twice as long, time stepping several times"
        yield "compiler", False, f"{error}; kernels are interpreted without it: {cost}"
        return
    except ValueError as error:  # of the environment variable on instruction sets
        yield "compiler", False, str(error)
        return
    except CacheError:
        yield "compiler", True, f"{' '.join(compiler.command)}; not tried: no cache"
        return
    yield "compiler", True, " ".join(compiler.command)
    remedy = "yes" if compiler.openmp else "no, evaluation uses one thread; install libgomp or gcc"
    yield "OpenMP", compiler.openmp, remedy


def _ipopt() -> Iterator[tuple[str, bool, str]]:
    try:
        ipopt = load_ipopt()
    except IpoptMissing as error:
        yield "Ipopt", False, f"{error}; simulation and shooting work without it"
        return
    yield "Ipopt", True, f"{'.'.join(map(str, ipopt.version))}, {ipopt.path}"
    solvers, reason = available(), obstacle()
    words = ", ".join(solvers) or "none works; install an IPOPT with MUMPS"
    words += f"; not time-structured: {reason}" if reason else ""
    yield "linear solvers", bool(solvers), words


def _extra(name: str) -> str:
    """An optional extra of the distribution: installed, or which packages of it are missing."""
    missing = [package for package in EXTRAS[name] if not installed(package)]
    if not missing:
        return f"{name} installed"
    return f"{name} without {', '.join(missing)} (pip install 'kinesym[{name}]')"
