"""Compiler driver: from C text to an opened library.

Libraries are kept by content: source, or the value from which it is printed, interface, compiler,
its version, flags, processor and C library. Numbers are never part of a source, so new data never
rebuild anything.

The cache remembers the compilers that filled it, with the abilities of their processor: one that
did not change since is not tried out again. A kept library needs no right to write and no compiler:
where none is found, those are taken whose processor had no more than this one. Libraries that the
cache cannot store go to a private folder, see `cache.private_folder`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from kinesym.base.checks import check_choice
from kinesym.runtime.library import cache
from kinesym.runtime.library.cache import CACHE_VARIABLE, CacheError
from kinesym.runtime.library.files import Files
from kinesym.runtime.native import Compiled
from kinesym.runtime.progress import task_bar

INCLUDE = Path(__file__).parents[1] / "native" / "c" / "include"

_FLAGS = (
    "-std=gnu11 -fPIC -fvisibility=hidden -ffp-contract=fast "
    "-fno-math-errno -fno-trapping-math -Wno-psabi"
).split()
#: Flags of libraries that leave this machine.
_ALONE = ("-std=c99", "-O2", "-fPIC")
#: Flags and libraries that are used where they work.
_OPTIONAL = ("-march=native", "-fopenmp", "-lmvec")

#: Environment variable that leaves out wider sets of instructions of x86 than the one it names, so
#: that what another processor would do can be tested and timed; see `native/c/targets.h`, too.
INSTRUCTIONS_VARIABLE = "KINESYM_INSTRUCTIONS"
#: Options of the compiler for it, and beginnings of the abilities that are left out.
_NARROWER = {"avx2": ("-mno-avx512f", ("avx512",)), "sse2": ("-mno-avx", ("avx", "fma"))}

#: Beginnings of the files where more than -O2 pays: the map over points, explicit steps. (At -O1
#: products and sums are not fused: small kernels take up to 1.4 times as long.)
_FASTEST = ("map.c", "fixed_")

#: Time after which a compiler that was asked about itself is taken to hang [s].
_ANSWER_SECONDS = 30.0
#: Time after which a compiler is taken to hang with one file [s].
_COMPILE_SECONDS = 1200.0


class CompilerError(RuntimeError):
    """Error of the C compiler: there is none, or it failed; the message carries its own words."""


@dataclass(frozen=True)
class Compiler:
    """Compiler for C and its abilities; `identity` differs between versions and processors."""

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def openmp(self) -> bool:
        """Whether it supports OpenMP."""
        return "-fopenmp" in self.flags


def find_compiler() -> Compiler:
    """The compiler named by `CC`, else cc, gcc or clang; raises `CompilerError` without one."""
    narrower, _ = _NARROWER.get(_widest_instructions(), ("", ()))
    return _find_compiler(os.environ.get("CC", ""), os.environ.get("PATH", ""), narrower)


@lru_cache(maxsize=8)
def _find_compiler(chosen: str, path: str, narrower: str) -> Compiler:
    for command in _commands(chosen):
        executable = shutil.which(command[0], path=path)
        if executable:
            command = [os.path.abspath(executable), *command[1:], *filter(None, [narrower])]
            return _known(tuple(command)) or _probe(tuple(command))
    named = f"the compiler {chosen} named by CC was not found" if chosen else "no C compiler found"
    raise CompilerError(
        f"{named}; install one (Debian: apt install gcc; macOS: xcode-select --install) "
        "or name it in the environment variable CC"
    )


def _commands(chosen: str) -> list[list[str]]:
    """Compiler commands to try: the words of CC, or the usual names if it is not set."""
    if not chosen:
        return [["cc"], ["gcc"], ["clang"]]
    try:
        words, trouble = shlex.split(chosen), "holds no words"
    except ValueError as error:
        words, trouble = [], f"cannot be read ({error})"
    if not words or not words[0]:
        raise CompilerError(
            f"the environment variable CC, {chosen!r}, {trouble}; name a C compiler, or unset it"
        )
    return [words]


def _known(command: tuple[str, ...]) -> Compiler | None:
    """A compiler as it was when it filled the cache, if neither its file, the processor nor the C
    library is another one since."""
    folder, here = cache.cache_folder(), (_fingerprint(command), abilities())
    if cache.trouble(folder) is None:
        for compiler, *then in _remembered(folder):
            if compiler.command == command and tuple(then) == here:
                return compiler
    return None


def _fingerprint(command: tuple[str, ...]) -> list[Any]:
    """Identity of a compiler: it differs if the compiler was replaced or a folder is shared by
    machines."""
    path = os.path.realpath(command[0])
    about = os.stat(path)
    return [path, about.st_size, about.st_mtime_ns, platform.machine(), *platform.libc_ver()]


def _probe(command: tuple[str, ...]) -> Compiler:
    """Version, target processor, and which optional flags and libraries work."""
    try:
        questions = ("--version", "-dumpmachine", f"-march=native -dM -E -x c {os.devnull}")
        answers = [_run([*command, *question.split()])[0] for question in questions]
        able = _supported(command)
    except OSError as error:
        raise CompilerError(
            f"the compiler {shlex.join(command)} cannot be tried: {error}; "
            "mend that, or name another one in the environment variable CC"
        ) from error
    identity = hashlib.sha256("".join(answers).encode()).hexdigest()
    libraries = [option for option in able if option.startswith("-l")]
    flags = [option for option in able if option not in libraries]
    return Compiler(command, identity, (*_FLAGS, *flags), (*libraries, "-lm"))


def _supported(command: tuple[str, ...]) -> list[str]:
    """The optional flags and libraries that work; all are tried at once first, to save time."""
    options = [o for o in _OPTIONAL if o != "-lmvec" or sys.platform == "linux"]
    return options if _works(command, options) else [o for o in options if _works(command, [o])]


def _run(
    command: list[str], folder: str | None = None, most: float | None = None
) -> tuple[str, str | None]:
    """Run a command: its output and, if it fails, its complaint. Raises `CompilerError` if it takes
    longer than `most` seconds, those of a question unless they are given."""
    most = _ANSWER_SECONDS if most is None else most
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=most,
        )
    except subprocess.TimeoutExpired as error:
        raise CompilerError(
            f"{shlex.join(command)} did not end within {most:g} s; "
            "mend that, or name another one in the environment variable CC"
        ) from error
    return done.stdout, None if done.returncode == 0 else done.stderr.strip()


def _works(command: tuple[str, ...], options: list[str]) -> bool:
    """Whether a program can be linked so."""
    with tempfile.TemporaryDirectory(prefix=cache.WORK) as folder:
        source = Path(folder) / "probe.c"
        source.write_text("int main(void) {\n#pragma omp parallel\n    {}\n    return 0;\n}\n")
        return _run([*command, "probe.c", "-o", "probe", *options, "-lm"], folder)[1] is None


def build(
    files: Mapping[str, str],
    lanes: int | None = None,
    more_flags: tuple[str, ...] = (),
    narrow: bool = False,
) -> tuple[Compiled, float]:
    """The opened library of the translation units `files`, and the seconds spent compiling.

    lanes : points per vector; None lets the processor decide, with short vectors if `narrow`: their
        operations take less time, for steps one after the other. more_flags : of the compiler.
    Raises `CompilerError` with the words of the compiler, `CacheError` if others may write to the
    cache or nothing can be stored. Warns if the cache cannot be written.
    """
    library, seconds = _opened(files, _options(lanes, more_flags, narrow))
    return _from(library, files, lanes, more_flags, narrow), seconds


def build_alone(
    files: Mapping[str, str], headers: Mapping[str, str], more_flags: tuple[str, ...] = ()
) -> bytes:
    """The content of a library of C99 files, for programs without kinesym and for every processor
    of this kind; it is not kept. Raises `CompilerError` as `build`."""
    recipe = _Recipe(files, find_compiler(), (*_ALONE, *more_flags))
    with tempfile.TemporaryDirectory(prefix=cache.WORK) as work:
        for name, text in {**files, **headers}.items():
            (Path(work) / name).write_text(text, encoding="utf-8")
        command = ["-shared", *files, "-o", "library.so", "-lm"]
        return _output(recipe, command, work, "the library")


def find(
    files: Mapping[str, str],
    lanes: int | None = None,
    more_flags: tuple[str, ...] = (),
    narrow: bool = False,
) -> Compiled | None:
    """Find a library that is kept already, as `build` would return it; no compiler is started.
    Raises `CacheError` if others may write to the cache."""
    cache.check(cache.cache_folder())
    options = _options(lanes, more_flags, narrow)
    for compiler in _able():
        if library := kept(_Recipe(files, compiler, (*compiler.flags, *options)).key):
            return _from(library, files, lanes, more_flags, narrow)
    return None


def _from(
    library: Compiled,
    files: Mapping[str, str],
    lanes: int | None,
    more_flags: tuple[str, ...],
    narrow: bool,
) -> Compiled:
    """Compiled library with the source from which it was built."""
    library.source = {"files": files, "lanes": lanes, "more_flags": more_flags, "narrow": narrow}
    return library


def _options(lanes: int | None, more_flags: tuple[str, ...], narrow: bool) -> list[str]:
    options = [*more_flags, *([f"-DKS_LANES={lanes}"] if lanes else [])]
    return options + (["-DKS_NARROW"] if narrow else [])


def _opened(files: Mapping[str, str], options: list[str]) -> tuple[Compiled, float]:
    cache.check(cache.cache_folder())
    try:
        compiler = find_compiler()
    except CompilerError as missing:
        return _without_compiler(files, options, missing), 0.0
    recipe = _Recipe(files, compiler, (*compiler.flags, *options))
    if library := kept(recipe.key):
        return library, 0.0
    start = time.perf_counter()
    return _built(recipe), time.perf_counter() - start


@lru_cache(maxsize=1)
def _headers() -> bytes:
    """The interface, all of it."""
    texts = (f"{path.name}\0{path.read_text()}\0" for path in sorted(INCLUDE.glob("*.h")))
    return "".join(texts).encode()


@dataclass(frozen=True)
class _Recipe:
    """Recipe of a library, or of the object of one file: sources, compiler, flags."""

    files: Mapping[str, str]
    compiler: Compiler
    flags: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        digest = hashlib.sha256(_headers())
        if isinstance(self.files, Files):  # which decide on names and levels, too
            about = [self.files.digest]
        else:
            about = [part for pair in sorted(self.files.items()) for part in pair]
            about += map(_optimisation, sorted(self.files))
        compiler = self.compiler
        tools = (*about, compiler.identity, *compiler.command, *self.flags, *compiler.libraries)
        for part in (*tools, platform.machine(), *platform.libc_ver()):
            digest.update(f"{part}\0".encode())
        return digest.hexdigest()[:32]


def _folders() -> Iterator[Path]:
    """Folders where libraries may be found."""
    yield cache.cache_folder()
    with suppress(OSError):  # without any temporary folder
        private = cache.private_folder()
        if cache.trouble(private) is None:
            yield private


def kept(key: str) -> Compiled | None:
    """The library of this key if it is kept whole, and can be opened."""
    for folder in _folders():
        target = folder / f"{key}.so"
        if cache.read(target) is not None:
            with suppress(OSError):
                return Compiled(target)
    return None


def _without_compiler(
    files: Mapping[str, str], options: list[str], missing: CompilerError
) -> Compiled:
    """A kept library that runs on this processor. Raises `missing`, naming the compilers that were
    looked for."""
    compilers = _able()
    for compiler in compilers:
        if library := kept(_Recipe(files, compiler, (*compiler.flags, *options)).key):
            return library
    if not compilers:
        raise missing
    raise CompilerError(
        f"{missing}; the cache {cache.cache_folder()} holds no library of this model for this "
        "processor and C library"
    )


def _able() -> list[Compiler]:
    """Compilers that filled the cache for processors like this one; none if CC names another."""
    folders = () if os.environ.get("CC") else _folders()
    every = [kept for folder in folders for kept in _remembered(folder)]
    here = abilities()
    return [compiler for compiler, _, processor in every if here >= processor]


def _remembered(folder: Path) -> Iterator[tuple[Compiler, list[Any], frozenset[str]]]:
    """Compilers that filled a folder, with `_fingerprint` and `_processor` of then."""
    names = list[str]()
    with suppress(OSError):  # no folder yet
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    for name in names:
        with suppress(ValueError, KeyError, TypeError):  # written by another version
            about = json.loads(cache.read(folder / name) or b"")
            lists = {k: tuple(about[k]) for k in ("command", "flags", "libraries")}
            compiler = Compiler(identity=about["identity"], **lists)
            yield compiler, about.get("made", []), frozenset(about["processor"])


def _remember(compiler: Compiler, folder: Path) -> None:
    made = _fingerprint(compiler.command)
    about = {**vars(compiler), "made": made, "processor": sorted(abilities())}
    text = json.dumps(about, sort_keys=True).encode()
    path = folder / f"{hashlib.sha256(text).hexdigest()[:32]}.json"
    if cache.read(path) is None:
        cache.store(path, text)


def abilities() -> frozenset[str]:
    """Abilities of the processor that are used; if the system does not list them, the name of the
    machine. Raises `ValueError` as `_widest_instructions`."""
    widest, every = _widest_instructions(), _abilities()
    if not widest:
        return every
    _, without = _NARROWER[widest]
    return frozenset(word for word in every if not word.startswith(without)) | {widest + " at most"}


def _widest_instructions() -> str:
    """The set of instructions that the environment allows, empty for any. Raises `ValueError` for
    another word."""
    chosen = os.environ.get(INSTRUCTIONS_VARIABLE, "")
    if chosen:
        check_choice(chosen, _NARROWER, f"the environment variable {INSTRUCTIONS_VARIABLE}")
    return chosen


def _abilities() -> frozenset[str]:
    """Abilities of the processor as the system lists them, or the name of the machine."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, words = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return frozenset(words.split())
    return frozenset((platform.processor(), platform.node()))


def _built(recipe: _Recipe) -> Compiled:
    """The library, built into the cache, or where that is impossible into the private folder."""
    folder = cache.cache_folder()
    try:
        return _install(recipe, folder)
    except OSError as error:
        reason = error
    try:
        private = cache.private_folder()
        library = _install(recipe, private)
    except (OSError, CacheError) as error:
        raise CacheError(
            f"no library can be stored and opened in the cache folder {folder} ({reason}), nor in "
            f"a private one ({error}); name a folder with space that allows execution in the "
            f"environment variable {CACHE_VARIABLE}, or another compiler in CC"
        ) from error
    warnings.warn(
        f"the cache folder {folder} cannot be used ({reason}), new libraries go to {private}; "
        f"mend that, or name another folder in the environment variable {CACHE_VARIABLE}",
        stacklevel=2,
    )
    return library


def _install(recipe: _Recipe, folder: Path) -> Compiled:
    """The library, built into `folder` by one process at a time and opened."""
    cache.cache_limit()  # a wrong one is said before the work
    cache.prepare(folder)
    cache.prepare(folder / "objects")
    target = folder / f"{recipe.key}.so"
    with cache.locked(target.with_suffix(".lock")):
        whole = cache.read(target) is not None
        if whole:  # another process was first, or it cannot be opened: then nothing of it is used
            with suppress(OSError):
                return Compiled(target)
        cache.store(target, _linked(recipe, None if whole else folder / "objects"))
        _remember(recipe.compiler, folder)
        library = Compiled(target)
    cache.tidy(folder, target)
    return library


def _linked(recipe: _Recipe, objects: Path | None) -> bytes:
    """Compile the units in parallel, and link; `objects` is where their objects are kept."""
    longest_first = sorted(recipe.files, key=lambda name: (-len(recipe.files[name]), name))
    with tempfile.TemporaryDirectory(prefix=cache.WORK) as work:
        show = None if current_thread() is main_thread() else False  # others are not waited for
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            task_bar(len(longest_first), show, "files of C") as report,
        ):
            jobs = [pool.submit(_object, recipe, name, objects, work) for name in longest_first]
            made = []
            for job in as_completed(jobs):
                made.append(job.result())
                report(1, 0)
        command = ["-shared", *sorted(made), "-o", "library.so", *recipe.compiler.libraries]
        return _output(recipe, command, work, "the library")


def _optimisation(name: str) -> str:
    return "-O3" if name.startswith(_FASTEST) else "-O2"


def _object(recipe: _Recipe, name: str, objects: Path | None, work: str) -> str:
    """The object file of one unit, in `work`. It is kept, so that unchanged files are not compiled
    again."""
    made = f"{name}.o"
    one = replace(recipe, files={name: recipe.files[name]})
    kept = objects / f"{one.key}.o" if objects else None
    data = cache.read(kept) if kept else None
    if data is not None:
        (Path(work) / made).write_bytes(data)
        return made
    (Path(work) / name).write_text(recipe.files[name], encoding="utf-8")
    options = [_optimisation(name), f"-I{INCLUDE.absolute()}", "-c", name, "-o", made]
    data = _output(recipe, options, work, name)
    if kept:
        cache.store(kept, data)
    return made


def _output(recipe: _Recipe, options: list[str], work: str, name: str) -> bytes:
    """Output of the compiler: the file named after the option -o."""
    command = " ".join(recipe.compiler.command)
    whole = [*recipe.compiler.command, *recipe.flags, *options]
    complaint = _run(whole, work, _COMPILE_SECONDS)[1]
    if complaint is not None:
        raise CompilerError(f"{command} failed on {name}:\n{complaint}")
    made = Path(work) / options[options.index("-o") + 1]
    if not made.is_file() or not made.stat().st_size:
        raise CompilerError(
            f"{command} wrote nothing for {name}; "
            "CC must name a C compiler that compiles and links, without options that prevent it"
        )
    return made.read_bytes()
