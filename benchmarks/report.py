"""What do all benchmarks say, in one report of tables, pictures and raw numbers?

Runs them one after the other and collects what they leave in a folder: `README.md`, and for each
benchmark `NAME.csv` with every number and, where it draws one, `NAME.png`.

    python benchmarks/report.py [--folder FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from record import HERE, INSTRUCTIONS, NOT_STATED, Table, keep, now, question

from kinesym.runtime.library.build import abilities, find_compiler
from kinesym.runtime.library.tiers import COMPILED, TIER_VARIABLE

#: Files that are no benchmarks.
HELPERS = ("own", "record", "report", "rows")


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def instructions() -> str:
    """The widest set of instructions that the kernels can use here."""
    able = abilities() | {{"arm64": "asimd"}.get(platform.machine(), "")}
    return next((name for name, needed in INSTRUCTIONS.items() if needed <= able), NOT_STATED)


def machine(*packages: str) -> str:
    """Processor, set of instructions, compiler, versions of ours and of these packages, and load,
    in words."""
    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":")[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        if info.exists()
        else []
    )
    command = [*find_compiler().command, "--version"]
    compiler = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = [
        names[0] if names else platform.processor() or platform.machine(),
        instructions(),
        f"{os.cpu_count()} cores",
        platform.system(),
        compiler.splitlines()[0],
        f"Python {platform.python_version()}",
    ]
    parts += [version(package) for package in ("kinesym", "numpy", "sympy", "Cython", *packages)]
    if hasattr(os, "getloadavg"):
        parts.append(f"load before the run {os.getloadavg()[0]:.2f}")
    return ", ".join(parts)


def number(value: float | None) -> str:
    if value is None or np.isnan(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def ratio(theirs: float, ours: float) -> str:
    return "-" if np.isnan(theirs) else f"{theirs / ours:.2f}"


def in_process(
    command: Sequence[str],
    limit: float,
    folder: Path,
    python: str = sys.executable,
    given: Any = None,
) -> tuple[dict[str, Any], str]:
    """What a script prints as JSON in its last line, from a process of its own that may take so
    many seconds and keep temporary files in `folder`; and why it failed, if it did. python : of its
    environment, whose programs come first. given : its input, as JSON."""
    programs = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            [python, *command],
            capture_output=True,
            text=True,
            timeout=limit,
            input=json.dumps(given),
            env={**os.environ, "TMPDIR": str(folder), "PATH": programs},
        )
    except subprocess.TimeoutExpired:
        return {}, f"no result in {limit:g} s"
    if done.returncode < 0:
        return {}, f"killed by {signal.Signals(-done.returncode).name}"
    if done.returncode > 0:
        words = [f"status {done.returncode}", *done.stderr.split("\n")]
        return {}, [word.strip() for word in words if word.strip()][-1][:100]
    return json.loads(done.stdout.splitlines()[-1]), ""  # IPOPT and MUMPS print as they like


def tasks_of_peers(
    makers: Iterable[tuple[str, Callable[..., Any]]], case: Any, folder: str
) -> tuple[dict[str, Any], str]:
    """By package what can be done here, and in words what is left out."""
    found: dict[str, Any] = {}
    words = ""
    for name, make in makers:
        tasks = found.setdefault(name, {})
        try:
            tasks |= make(case, folder)
        except ImportError as error:
            words += f" Left out: {make.__name__} ({error})."
    return found, words


def peak_memory() -> float:
    """[MB]. On Linux not from `getrusage`, which starts at the size of the parent process."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+)", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )


def reset_peak() -> None:
    """Lets `peak_memory` begin anew, where Linux can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def ipopt_libraries() -> list[str]:
    """Files of IPOPT that this process has loaded, where the system tells."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    return sorted({os.path.realpath(p) for p in re.findall(r"/\S*/libipopt[.-]\S*", text)})


def same_ipopt(rows: Sequence[Any]) -> str:
    """With which IPOPT (row.ipopt) and flags."""
    libraries = {path for row in rows for path in row.ipopt}
    names = ", ".join(sorted(Path(path).name for path in libraries))
    same = f"All used the same {names}" if len(libraries) == 1 else f"IPOPT libraries: {names}"
    return f"{same}; opty's `CFLAGS` were `{os.environ['CFLAGS']}`."


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with the options that all benchmarks have. Kernels are compiled, unless the
    benchmark says otherwise."""
    os.environ.setdefault(TIER_VARIABLE, COMPILED)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work?")
    parser.add_argument("--write", action="store_true", help="keep the tables as the record")
    parser.add_argument("--report", metavar="FOLDER", help="leave text, numbers and picture there")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the rows that the last run left, in long ones",
    )
    given = parser.parse_args()
    if given.quick and given.write:
        parser.error("--quick measures nothing worth writing; leave out one of --quick and --write")
    return given


def save(folder: str, name: str, text: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Leave a benchmark's part of the report in `folder`; the path is that for its picture."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    with open(path / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path / f"{name}.png"


def leave(
    given: argparse.Namespace,
    name: str,
    words: str,
    parts: Sequence[str | Table],
    rows: Sequence[Mapping[str, Any]],
) -> list[Path]:
    """Print what a benchmark found, and leave it where the command line says; where its picture
    belongs. words : on the machine. parts : paragraphs and tables. rows : all numbers."""
    record, pictures = now(name, words, parts), []
    print(f"\n{record}")
    if given.report:
        pictures.append(save(given.report, name, str(record), rows))
    if given.write:
        keep(record)
        pictures.append(HERE / f"{Path(record.file).stem}.png")
    return pictures


def join(folder: Path, names: Sequence[str]) -> str:
    """The report: what each benchmark asks, its text, its picture."""
    parts = ["# Benchmarks of kinesym"]
    for name in names:
        part = folder / f"{name}.md"
        found = part.read_text(encoding="utf-8").strip() if part.exists() else "It failed."
        parts += [f"## {name}", f"{question(name)} All numbers: `{name}.csv`.", found]
        if (folder / f"{name}.png").exists():
            parts.append(f"![{name}]({name}.png)")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run all; 1 if one fails, and the report says so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("bench_report"),
        help="where the report goes (default: bench_report)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    given = parser.parse_args()
    here = Path(__file__)
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    failed = []
    for name in names:
        for old in given.folder.glob(f"{name}.*"):
            old.unlink()
        command = [sys.executable, str(here.with_name(f"{name}.py")), "--report", str(given.folder)]
        if subprocess.run(command + ["--quick"] * given.quick, check=False).returncode:
            failed.append(name)
    text = join(given.folder, names)
    (given.folder / "README.md").write_text(text, encoding="utf-8")
    for name in names:
        (given.folder / f"{name}.md").unlink(missing_ok=True)
    print(f"\nreport: {given.folder / 'README.md'}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
