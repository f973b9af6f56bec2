"""From C text to an opened library: the compiler driver and the cache.

Libraries are cached by content: source, interface, compiler, its version, flags and processor.
Numbers are never part of a source, so new data never rebuild anything.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import platformdirs
from filelock import FileLock

from kinesym.runtime.native import Library

INCLUDE = Path(__file__).parent / "include"

#: Environment variable that overrides the folder of the cache.
CACHE_VARIABLE = "KINESYM_CACHE"

_FLAGS = (
    "-std=gnu11 -march=native -fPIC -fvisibility=hidden -ffp-contract=fast "
    "-fno-math-errno -fno-trapping-math -Wno-psabi"
).split()


#: Optimisation of the files where more than -O2 pays: the map over points, explicit steps. At -O1
#: products and sums are not fused, and small kernels take up to 1.4 times as long.
_OPTIMISATION = {"map.c": "-O3", "rk4.c": "-O3"}


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed; the message carries its own words."""


class CacheError(RuntimeError):
    """The folder for built libraries cannot be used."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler with what it can do. `identity` distinguishes versions and processors."""

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def openmp(self) -> bool:
        """Whether it supports OpenMP."""
        return "-fopenmp" in self.flags


def cache_folder() -> Path:
    """Where built libraries are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("kinesym")


def find_compiler() -> Compiler:
    """The compiler named by `CC`, else cc, gcc or clang.

    Raises `CompilerError` with the remedy if there is none.
    """
    return _find_compiler(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find_compiler(chosen: str, path: str) -> Compiler:
    candidates = [shlex.split(chosen)] if chosen else [["cc"], ["gcc"], ["clang"]]
    for command in candidates:
        executable = shutil.which(command[0], path=path)
        if executable:
            return _probe((executable, *command[1:]))
    named = f"the compiler {chosen} named by CC was not found" if chosen else "no C compiler found"
    raise CompilerError(
        f"{named}; install one (Debian: apt install gcc; macOS: xcode-select --install) "
        "or name it in the environment variable CC"
    )


def _probe(command: tuple[str, ...]) -> Compiler:
    """Version, target processor, and which optional flags and libraries work."""
    answers = [_run([*command, "--version"])[1], _run([*command, "-dumpmachine"])[1]]
    answers.append(_run([*command, "-march=native", "-dM", "-E", "-x", "c", os.devnull])[1])
    flags = [f for f in _FLAGS if f != "-march=native" or _works(command, [f])]
    libraries = ["-lm"]
    if sys.platform == "linux" and _works(command, ["-lmvec", "-lm"]):
        libraries.insert(0, "-lmvec")
    if _works(command, ["-fopenmp"]):
        flags.append("-fopenmp")
    identity = hashlib.sha256("".join(answers).encode()).hexdigest()
    return Compiler(command, identity, tuple(flags), tuple(libraries))


def _run(command: list[str], folder: str | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _works(command: tuple[str, ...], options: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("int main(void) { return 0; }\n")
        return _run([*command, "probe.c", "-o", "probe", *options], folder)[0] == 0


def build(
    files: Mapping[str, str],
    lanes: int | None = None,
    more_flags: tuple[str, ...] = (),
    narrow: bool = False,
) -> tuple[Library, float]:
    """The opened library of the translation units `files`, and the seconds spent compiling.

    lanes : points per vector; None lets the processor decide, `narrow` for short vectors, whose
        operations take less time each (for what is done one step after the other).
    more_flags : for the compiler.
    Raises `CompilerError` with the words of the compiler, `CacheError` if nothing can be stored.
    """
    compiler = find_compiler()
    flags = [*compiler.flags, *more_flags, *([f"-DKS_LANES={lanes}"] if lanes else [])]
    flags += ["-DKS_NARROW"] if narrow else []
    folder = writable_cache()
    target = folder / f"{_key(files, compiler, flags)}.so"
    if target.exists():
        return Library(target), 0.0
    start = time.perf_counter()
    with FileLock(target.with_suffix(".lock")):
        if not target.exists():
            _build(files, compiler, flags, target)
    target.with_suffix(".lock").unlink(missing_ok=True)
    return Library(target), time.perf_counter() - start


def writable_cache() -> Path:
    """The cache folder, made if needed; raises `CacheError` if nothing can be stored there."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise CacheError(
            f"the cache folder {folder} cannot be written; "
            f"name another one in the environment variable {CACHE_VARIABLE}"
        )
    return folder


def _key(files: Mapping[str, str], compiler: Compiler, flags: list[str]) -> str:
    digest = hashlib.sha256()
    headers = {path.name: path.read_text() for path in sorted(INCLUDE.glob("*.h"))}
    for name, text in sorted({**headers, **files}.items()):
        digest.update(f"{name}\0{text}\0".encode())
    levels = (_optimisation(name) for name in sorted(files))
    tools = (compiler.identity, *compiler.command, *flags, *levels, *compiler.libraries)
    for part in (*tools, platform.machine()):
        digest.update(f"{part}\0".encode())
    return digest.hexdigest()[:32]


def _build(files: Mapping[str, str], compiler: Compiler, flags: list[str], target: Path) -> None:
    """Compile the units in parallel, link, and move the library into place at once."""
    longest_first = sorted(files, key=lambda name: (-len(files[name]), name))
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(
                lambda name: _object(name, files[name], compiler, flags, folder), longest_first
            )
            objects = sorted(made)
        command = [*compiler.command, *flags, "-shared", *objects, "-o", "library.so"]
        code, _, words = _run([*command, *compiler.libraries], folder)
        if code != 0:
            raise CompilerError(_failure(compiler, "the library", words))
        os.replace(Path(folder) / "library.so", target)


def _optimisation(name: str) -> str:
    return _OPTIMISATION.get(name, "-O2")


def _object(name: str, text: str, compiler: Compiler, flags: list[str], folder: str) -> str:
    """The object file of one unit, which is kept: loops, and pieces that did not change, are not
    compiled again."""
    kept = Path(folder).parent / "objects" / f"{_key({name: text}, compiler, flags)}.o"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        (Path(folder) / name).write_text(text, encoding="utf-8")
        made = f"{name}.o"
        options = [*flags, _optimisation(name), f"-I{INCLUDE}"]
        command = [*compiler.command, *options, "-c", name, "-o", made]
        code, _, words = _run(command, folder)
        if code != 0:
            raise CompilerError(_failure(compiler, name, words))
        os.replace(Path(folder) / made, kept)
    return str(kept)


def _failure(compiler: Compiler, name: str, words: str) -> str:
    return f"{' '.join(compiler.command)} failed on {name}:\n{words.strip()}"
