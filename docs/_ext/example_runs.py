"""Examples, run once for the pages of the gallery, each in a process of its own.

An example runs as `kinesym run NAME` does, and again only when its file has changed. Its limit is
CPU time, so that a busy machine changes nothing; one that takes longer is left out, and its page
says so.
"""

import ast
import hashlib
import multiprocessing
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
KEPT = TOP / "build" / "docs" / "gallery"
LIMIT = 300  # CPU s, of an example or one of its workers
#: Examples that take long: with so many nodes they show the same in less time.
NODES = {
    "gait": 50,
    "gait_tracking": 30,
    "pendulum_local_minima": 1000,
    "posture_study": 150,
    "quiet_standing": 600,
    "quiet_standing_subjects": 300,
    "ship": 500,
    "ship_validation": 500,
    "standing_noise": 600,
    "walker": 200,
}
#: What most examples import: done once, before each gets a process of its own.
_SHARED = ["kinesym.cli", "sympy", "matplotlib.pyplot", "pandas", "scipy.sparse.linalg", "xarray"]


class ExampleError(Exception):
    """An example ended with an error."""


@dataclass(frozen=True)
class Example:
    """A module of examples/, what it prints, how long it took [CPU s], and its pictures; `seconds`
    is None of one that took longer than `LIMIT`, of which nothing else is known then."""

    path: Path
    printed: str = ""
    seconds: float | None = None
    pictures: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """As in `kinesym run NAME`."""
        return self.path.stem

    @property
    def words(self) -> list[str]:
        """Paragraphs of its docstring; the first one is a sentence."""
        return (ast.get_docstring(ast.parse(self.path.read_text())) or self.name).split("\n\n")

    @property
    def title(self) -> str:
        """Its first sentence, without the full stop."""
        return " ".join(self.words[0].split()).removesuffix(".")

    @property
    def took(self) -> str:
        """How long it took, in a sentence."""
        if self.seconds is None:
            return (
                f"`{command(self.name)}` was stopped after {LIMIT} CPU seconds on the machine that "
                "built this page, which therefore comes without its output and pictures."
            )
        return (
            f"`{command(self.name)}` took {self.seconds:.1f} CPU seconds, imports apart, on the "
            "machine that built this page, with pictures and what had to be compiled."
        )


def modules() -> list[Path]:
    """Files of all examples."""
    found = [*TOP.glob("examples/*.py"), *TOP.glob("examples/*/*.py")]
    return sorted((path for path in found if path.stem != "__init__"), key=lambda path: path.stem)


def command(name: str) -> str:
    """What to type."""
    return f"kinesym run {name}" + (f" --nodes {NODES[name]}" if name in NODES else "")


def run(path: Path) -> Example:
    """The example with what it prints and draws, from before if its file is what it was. Raises
    `ExampleError` for one that fails."""
    folder = KEPT / path.stem
    stamp = folder / hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        text = measured(path, folder)
        if text is None:
            return Example(path)
        stamp.write_text(text)
    seconds, _, printed = stamp.read_text().partition("\n")
    wrote = re.findall(r"^wrote (.*\.png)$", printed, flags=re.MULTILINE)
    printed = re.sub(r"^wrote .*\n?", "", printed, flags=re.MULTILINE)
    printed = printed.replace(f"{folder}{os.sep}", "")  # folders of this machine
    return Example(path, printed.rstrip(), float(seconds), tuple(map(Path, wrote)))


def measured(path: Path, folder: Path) -> str | None:
    """CPU seconds of a run, and what it prints; None if it takes longer than `LIMIT`."""
    arguments = [*command(path.stem).split()[1:], "--out", str(folder)]
    printed = folder / "printed"
    status = limited(_example, (arguments, str(printed)), LIMIT)
    if status == -signal.SIGXCPU:
        return None
    text = printed.read_text() if printed.exists() else ""
    if status != 0:
        raise ExampleError(f"the example {path.stem} failed:\n{text[-2000:]}")
    text, _, seconds = text.rstrip().rpartition("\n")
    return f"{float(seconds):.1f}\n{text}"


def limited(work: Callable[..., Any], arguments: tuple[Any, ...], seconds: int) -> int | None:
    """The exit status of work in a process of its own: -SIGXCPU if it takes so many CPU seconds,
    however long that is by the clock."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_SHARED)
    process = context.Process(target=_limited, args=(work, arguments, seconds))
    process.start()
    process.join()
    return process.exitcode


def _limited(work: Callable[..., Any], arguments: tuple[Any, ...], seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    work(*arguments)


def _example(arguments: list[str], printed: str) -> None:
    """Runs an example, and adds CPU seconds, with those of compilers."""
    from kinesym.cli import main

    with open(printed, "w") as sink:
        os.dup2(sink.fileno(), 1)
        status = main(arguments)
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    print(sum(sum(resource.getrusage(who)[:2]) for who in whose), flush=True)
    sys.exit(status)
