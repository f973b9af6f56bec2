"""Runs of tools: a process for each problem, which answers one record after the other."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .suite import HERE, all_problems, write

ADAPTERS = HERE / "adapters"
#: Seconds by the clock for one of the limit, before all is ended: the machine may be busy.
SLOW = 8.0


def path_of(tool: str) -> Path:
    """The file of a tool: a path, or the name of an adapter here."""
    path = Path(tool) if tool.endswith(".py") else ADAPTERS / f"{tool}.py"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in ADAPTERS.glob("*.py") if p.stem[0] != "_"))
        raise SystemExit(f"{tool}: no such file, and no adapter; there are {known}")
    return path


def run(
    tool: str,
    names: list[str],
    records: int,
    limit: float,
    python: str | None = None,
) -> dict[str, Any]:
    """Answers of a tool to records of problems. limit : seconds of CPU time for one record.
    python : its interpreter, if it is not this one."""
    path, answers = path_of(tool), []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), [name], list(range(records)))
            # The suite alone on the path: what else is in the folder above it may have the name of
            # a package of the tool.
            alone = Path(folder) / "path"
            alone.mkdir()
            (alone / HERE.name).symlink_to(HERE)
            command = [
                python or sys.executable,
                "-m",
                "motionbench",
                "answer",
                str(path.resolve()),
                str(Path(folder) / name),
                "--limit",
                str(limit),
            ]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [str(alone), os.environ.get("PYTHONPATH", "")])
                ),
            }
            words = ""
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    env=environment,
                    cwd=alone,
                    timeout=(SLOW * limit + 5.0) * records + 60.0,
                )
                text, words = done.stdout, done.stderr.strip().split("\n")[-1][:160]
                words = (
                    f"no answer in {limit:g} s of CPU time"
                    if done.returncode == -signal.SIGXCPU
                    else words
                )
            except subprocess.TimeoutExpired as error:
                text = (error.stdout or b"").decode()
                words = f"no answer in {limit:g} s of CPU time"
        rows = [json.loads(line[8:]) for line in text.splitlines() if line.startswith("answer: ")]
        there = {row["record"] for row in rows}
        rows += [
            {"record": k, "failed": words or "the process ended"}
            for k in range(records)
            if k not in there
        ]
        answers += [{"problem": name, **row} for row in rows]
        last = rows[-1]
        state = last.get("refused") or last.get("failed") or f"{last['cpu']:.2g} s"
        print(f"{path.stem:10s} {name:26s} {state}"[:118], file=sys.stderr, flush=True)
    return {"tool": path.stem, "machine": machine(), "answers": answers}


def machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return {
        "processor": (names or [platform.processor()])[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def answer_all(tool: str, folder: Path, limit: float) -> None:
    """Answer the records in a folder; a line of JSON for each, as the answer is there."""
    spec = importlib.util.spec_from_file_location("tool", tool)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    statement = json.loads((folder / "statement.json").read_text())
    places = sorted(folder.glob("record_*"), key=lambda path: int(path.name[7:]))
    for place in places:
        most = int(cpu() + limit + 10.0)  # where a call of C does not hear the alarm of `within`
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        row: dict[str, Any] = {"record": int(place.name[7:]), "first": place is places[0]}
        begin = cpu()
        try:
            row |= plain(within(limit, module.solve, statement, place))
        except NotImplementedError as error:
            row["refused"] = str(error)[:100]
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
        row["cpu"] = round(cpu() - begin, 4)
        print("answer: " + json.dumps(row), flush=True)


def within(limit: float, function: Any, *arguments: Any) -> Any:
    """What the function returns, or TimeoutError after so many seconds of CPU time."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"no answer in {limit:g} s")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def cpu() -> float:
    """Seconds of this process and of processes that it started."""
    times = os.times()
    return sum(times[:4])


def plain(value: Any) -> Any:
    """Numbers as JSON has them; None for what is not finite."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def checked_names(names: list[str] | None) -> list[str]:
    """Problems by name, all by default, or those of a kind."""
    known = all_problems()
    if not names:
        return list(known)
    found = [n for n, p in known.items() if n in names or {*p.statement["kinds"]} & {*names}]
    kinds = {kind for p in known.values() for kind in p.statement["kinds"]}
    wrong = [name for name in names if name not in known and name not in kinds]
    if wrong:
        raise SystemExit(f"no problem or kind {', '.join(wrong)}; there are {', '.join(known)}")
    return found
