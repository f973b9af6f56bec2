"""Do solves take the iterations, factorisations and operations that they took when last recorded?

Nothing here is timed: counts are the same on a busy machine, and nearly the same on another
processor. Published problems, identification of a standing person and of links on a cart, a
swing-up; their kernels' operations per point. `--instructions` also counts, for four of them, those
of a second solve by valgrind, with kernels for AVX2.

    python benchmarks/counts.py [NAME ...] [--instructions] [--write]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optima
import published
import record
import solves
from report import machine

import kinesym as ks

#: Growth that is reported: of iterations and factorisations, of operations and instructions.
ITERATIONS, OPERATIONS = 1.2, 1.05
#: Iterations and factorisations more that never are: rounding differs between processors.
SPARE = 3
#: Of the processes whose instructions are counted. Valgrind knows no AVX-512.
FIXED = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "KINESYM_TIER": "compiled",
    "KINESYM_INSTRUCTIONS": "avx2",
}
HEADER = (
    "problem",
    "nodes",
    "iterations",
    "factorisations",
    "operations per point",
    "instructions",
)

Posed = tuple[ks.Collocation, Any, dict[str, Any]]


def _published(name: str) -> Posed:
    stated = published.PROBLEMS[name]()
    return stated.problem, stated.guess, {"tolerance": 1e-9}


def _identified(problem: str, nodes: int) -> Posed:
    case = solves.make_case(problem, solves.make_numbers(problem, nodes))
    return solves.collocation(case, 1), dict(zip(case.unknown, case.guess, strict=True)), {}


def _swing_up() -> Posed:
    stated = optima.cart_pole(101)
    return stated.problem, stated.guess, {}


PROBLEMS: Mapping[str, Callable[[], Posed]] = {
    **{name: (lambda name=name: _published(name)) for name in published.PROBLEMS},
    "standing": lambda: _identified("standing", 600),
    "n_link_2": lambda: _identified("n_link_2", 1000),
    "cart_pole": _swing_up,
}

#: Problems whose instructions are counted, two minutes each.
COUNTED = ("goddard_rocket", "standing", "n_link_2", "cart_pole")


@dataclass(frozen=True)
class Counts:
    """Of one solve. operations : of all kernels of its program, per point. instructions : of a
    second solve, 0 if they were not counted."""

    problem: str
    nodes: int
    iterations: int
    factorisations: int
    operations: int
    instructions: int = 0

    @property
    def cells(self) -> list[str]:
        """Of its row in the table."""
        return [
            self.problem,
            *map(str, (self.nodes, self.iterations, self.factorisations, self.operations)),
            str(self.instructions) if self.instructions else "-",
        ]


def counts(name: str, problem: ks.Collocation, solution: ks.Solution) -> Counts:
    """Counts of a solve that has been done."""
    nodes = sum(len(trial.time) for trial in solution.trials)
    operations = sum(kernel.operations for kernel in problem.program.kernels)
    return Counts(name, nodes, solution.iterations, solution.factorisations, operations)


def solved(name: str) -> Counts:
    """Counts of a solve from the start that belongs to the problem."""
    problem, guess, options = PROBLEMS[name]()
    return counts(name, problem, problem.solve(guess, progress=False, **options))


def kept() -> dict[str, Counts]:
    """Counts of the record, by problem."""
    (rows,) = record.read("counts")[0].tables
    return {
        name: Counts(name, *map(int, numbers), 0 if instructions == "-" else int(instructions))
        for name, *numbers, instructions in rows.rows
    }


def grown(now: Counts, before: Counts) -> Iterator[str]:
    """Sentences on what takes more than it did."""
    for what, factor, spare in (
        ("nodes", 1.0, 0),
        ("iterations", ITERATIONS, SPARE),
        ("factorisations", ITERATIONS, SPARE),
        ("operations", OPERATIONS, 0),
        ("instructions", OPERATIONS, 0),
    ):
        new, old = getattr(now, what), getattr(before, what)
        if old and new > max(factor * old, old + spare):
            yield f"{now.problem}: {new} {what}, {old} in the record"


# -- instructions ----------------------------------------------------------------------------------


def _repeat(name: str, times: int) -> None:
    """Solve a problem as often as told."""
    problem, guess, options = PROBLEMS[name]()
    for _ in range(times):
        problem.solve(guess, progress=False, **options)


def _run(name: str, times: int, *before: str) -> str:
    """What a process of its own says that solves a problem so often; before : of its command.
    Raises `RuntimeError` with its last words if it fails."""
    command = [*before, sys.executable, __file__, name, "--repeat", str(times)]
    about = os.environ | FIXED
    run = subprocess.run(command, capture_output=True, text=True, env=about, check=False)
    if run.returncode:
        raise RuntimeError(f"{name}: {run.stderr[-2000:]}")
    return run.stderr


def instructions(name: str) -> int:
    """Instructions of one more solve, to three digits: beyond, they depend on addresses."""
    if not shutil.which("valgrind"):
        raise RuntimeError("--instructions needs valgrind (Debian, Ubuntu: apt install valgrind)")
    _run(name, 1)  # compiles
    valgrind = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}")
    found = [re.search(r"Collected : (\d+)", _run(name, times, *valgrind)) for times in (1, 3)]
    fewer, more = (int(each[1]) for each in found if each)
    return int(float(np.format_float_scientific((more - fewer) / 2, precision=2)))


# -- report ----------------------------------------------------------------------------------------


def measure(names: Sequence[str], with_instructions: bool) -> Iterator[Counts]:
    """Counts of problems, each printed when it is there."""
    for name in names:
        found = solved(name)
        if with_instructions and name in COUNTED:
            found = Counts(**{**vars(found), "instructions": instructions(name)})
        print("  ".join(found.cells), flush=True)
        yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Count; 1 if something has grown against the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(PROBLEMS))
    parser.add_argument("--instructions", action="store_true", help="count them, by valgrind")
    parser.add_argument("--write", action="store_true", help="keep the counts as the record")
    parser.add_argument("--repeat", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in PROBLEMS:
            parser.error(f"there is no problem {name}; there are {', '.join(PROBLEMS)}")
    if given.write and given.names:
        parser.error("--write keeps the counts of all problems: name none")
    if given.repeat:
        _repeat(given.names[0], given.repeat)
        return 0
    print("  ".join(HEADER))
    now = list(measure(given.names or list(PROBLEMS), given.instructions))
    if given.write:
        table = record.table(HEADER, [found.cells for found in now])
        record.keep(record.now("counts", machine("cyipopt"), [table]))
        return 0
    before = kept()
    said = [line for found in now for line in grown(found, before[found.problem])]
    print("\n".join(said or ["no problem takes more than in the record"]))
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
