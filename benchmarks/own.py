"""How fast is a problem of one's own, against CasADi and opty?

    kinesym bench mine.py [--nodes N] [--contenders NAME ...] [--json FILE]

`mine.py` has a function `problem` that returns a `ks.Collocation` problem and a guess, as `solve`
takes it; it may have an argument `nodes`. The nonlinear program is written for all contenders,
which must return the same cost, constraints and derivatives before any is timed. Each has a process
of its own, with one thread; they evaluate and solve in turns. Times are CPU times, the least of
these turns. What a contender cannot say is said in a sentence, and the others go on.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import inspect
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers import by_casadi, by_opty, programs, stages
from peers.programs import CALLBACKS, NAN, QAMD, Callback, Peer, ours_at, solved
from record import Table, table
from report import ipopt_libraries, machine, number, peak_memory, ratio, reset_peak, same_ipopt

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.library.tiers import COMPILED, INTERPRETED, TIER_VARIABLE

Array = NDArray[np.float64]

OURS = "kinesym"
#: Turns of callbacks, seconds of CPU time of each, and of solves; once what takes more seconds.
TURNS, TURN, SOLVES, LONG = 11, 2e-3, 5, 10.0
#: Relative difference of objectives above which optima are marked as others.
AGREEMENT = 1e-6


class Refused(Exception):
    """What was given cannot be measured; its text says why."""


class Given(NamedTuple):
    """What a file returns."""

    problem: ks.Collocation
    guess: Any
    z: Array


# -- contenders -----------------------------------------------------------------------------------


def kinesym_of(linear_solver: str, given: Given, folder: str) -> Peer:
    """Our own, with the seconds that derivation and compilation took."""
    problem = given.problem

    def callbacks(z: Array, multipliers: Array) -> dict[str, Callback]:
        nlp, ours = problem.problem.nlp, ours_at(problem, z, multipliers)
        runs = {
            "cost": partial(nlp.cost, z),
            "gradient": partial(nlp.gradient, z, np.empty(nlp.n_variables)),
            "constraints": partial(nlp.constraints, z, np.empty(nlp.n_constraints)),
            "jacobian": partial(nlp.jacobian, z, np.empty(nlp.jacobian_structure.size)),
            "hessian": partial(
                nlp.hessian, z, multipliers, 1.0, np.empty(nlp.hessian_structure.size)
            ),
        }
        return {name: Callback(runs[name], ours[name], ours[name]) for name in CALLBACKS}

    build = sum(problem.problem.libraries.timings.values())
    return Peer(build, lambda _: solved(problem, given.guess, linear_solver), callbacks)


def peer_of(
    make: Callable[..., Peer], options: Mapping[str, Any], given: Given, folder: str
) -> Peer:
    """That of a package."""
    return make(given.problem, given.z, options, folder)


class Contender(NamedTuple):
    """make : from what is given and a folder. code : what writes a problem for it."""

    make: Callable[[Given, str], Peer]
    code: Sequence[Any] = ()


_MAP = (
    by_casadi.Points,
    by_casadi.points_of,
    by_casadi.casadi_operations,
    by_casadi.casadi_function,
    by_casadi.every_kernel,
    by_casadi.by_nlpsol,
)
_HAND = (*_MAP, by_casadi.by_hand, by_casadi.block, by_casadi.Entries, by_casadi.casadi_of)
_FATROP = (*_MAP[:-1], stages.Stages, stages.outputs, stages.staged_program, stages.fatrop_of)
_OPTY = (
    programs.flat_equations,
    by_opty.renamed,
    by_opty.named_rows,
    by_opty.plain,
    by_opty.Variables,
    by_opty.opty_statement,
    by_opty.opty_of,
)


def _casadi(written: Any, options: Mapping[str, Any], *code: Any) -> Contender:
    return Contender(partial(peer_of, partial(by_casadi.casadi_of, written=written), options), code)


CONTENDERS: Mapping[str, Contender] = {
    OURS: Contender(partial(kinesym_of, "auto")),
    "kinesym+mumps": Contender(partial(kinesym_of, "mumps")),
    "casadi": _casadi(by_casadi.by_nlpsol, {}, *_MAP, by_casadi.casadi_of),
    "casadi+qamd+expand": _casadi(by_casadi.expanded, QAMD, *_MAP, by_casadi.casadi_of),
    "casadi+qamd+blocks": _casadi(by_casadi.by_hand, QAMD, *_HAND),
    "casadi+qamd+blocks+c": _casadi(by_casadi.by_hand_in_c, QAMD, *_HAND, by_casadi.by_hand_in_c),
    "casadi+fatrop": Contender(partial(peer_of, stages.fatrop_of, {}), _FATROP),
    "opty": Contender(partial(peer_of, by_opty.opty_of, {}), _OPTY),
}

#: What packages need to be imported, and what installs it, of this Python.
NEEDED = {"casadi": ["casadi"], "opty": ["opty", "cyipopt", "Cython"]}


def missing(contender: str) -> str:
    """Why a contender is left out here, and the remedy; empty if it is there."""
    package, python = contender.split("+")[0], sys.executable
    absent = [name for name in NEEDED.get(package, ()) if find_spec(name) is None]
    if not absent:
        return ""
    build = Path(__file__).parents[1] / "tools" / "build_cyipopt.py"
    first = f"{python} {build} && " if "cyipopt" in absent else ""  # no wheel: pip alone fails
    return f"no {' and '.join(absent)} here; {first}{python} -m pip install {package}"


# -- what a file says -----------------------------------------------------------------------------


def given_by(path: Path, nodes: int | None) -> Given:
    """The problem of a file. Raises `Refused` for what is none."""
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    if nodes is not None and nodes < 2:
        raise Refused(f"--nodes must be at least 2, got {nodes}")
    made = _called(partial(_loaded, path), path)
    function = getattr(made, "problem", None)
    if not inspect.isfunction(function):
        raise Refused(
            f"{path} has no function problem; write one that returns a ks.Collocation and a guess"
        )
    own = inspect.signature(function).parameters
    if nodes is not None and "nodes" not in own:
        raise Refused(f"--nodes {nodes}: give the function problem of {path} an argument nodes")
    needed = [n for n, p in own.items() if p.default is p.empty and (n != "nodes" or not nodes)]
    if needed:
        words = ", ".join(needed)
        raise Refused(f"the function problem of {path} needs {words}: give a default, or --nodes")
    found = _called(partial(function, **({} if nodes is None else {"nodes": nodes})), path)
    if not isinstance(found, tuple) or len(found) != 2:
        raise Refused(
            f"the function problem of {path} returned {_kind(found)}; "
            "it has to return a ks.Collocation and a guess: return problem, guess"
        )
    problem, guess = found
    if not isinstance(problem, ks.Collocation):
        raise Refused(
            f"the function problem of {path} returned {_kind(problem)}, no ks.Collocation"
        )
    try:
        return Given(problem, guess, problem.pack(guess))
    except (TypeError, ValueError) as error:
        raise Refused(f"the guess of {path}: {error}") from error


def _kind(found: object) -> str:
    return "nothing" if found is None else f"{type(found).__module__}.{type(found).__name__}"


def _loaded(path: Path) -> Any:
    """The file as a module; its folder is where it imports from, as of a script."""
    spec = importlib.util.spec_from_file_location("kinesym_bench_own", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.resolve().parent))
    spec.loader.exec_module(made)
    return made


def _called(function: Callable[[], Any], path: Path) -> Any:
    """What a function of the file returns; raises `Refused` with the line of an error."""
    try:
        return function()
    except Exception as error:
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        where = f", line {lines[-1]}" if lines else ""
        raise Refused(f"{path}{where}: {type(error).__name__}: {error}") from error


def code_lines(text: str) -> int:
    """Lines of code, without empty ones, comments and docstrings."""
    words = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return len({k for k, line in lines if line and not line.startswith("#")} - words)


# -- a contender in a process of its own ----------------------------------------------------------


class Work:
    """What the process of a contender is asked for. memory : peak [MB], Python and packages
    included, without what comparisons take."""

    def __init__(self, contender: str, path: Path, nodes: int | None, folder: str) -> None:
        package = contender.split("+")[0]
        os.environ[CACHE_VARIABLE] = folder  # empty: nothing was built before
        # opty's cost is ours; CasADi's needs no compiled kernels of ours
        os.environ[TIER_VARIABLE] = INTERPRETED if package == "casadi" else COMPILED
        self.given = given_by(path, nodes)
        os.chdir(folder)  # where compilers may leave what they like
        self.peer = CONTENDERS[contender].make(self.given, folder)
        self.memory = peak_memory()
        at = next(programs.points(self.given.problem, self.given.z))
        self.callbacks = self.peer.callbacks(*at)

    def build(self) -> float:
        return self.peer.build

    def check(self) -> dict[str, float]:
        """Largest difference of each callback; raises `ValueError` for another program."""
        found = programs.check_same(self.given.problem, self.peer, self.given.z)
        reset_peak()
        return found

    def time(self, callback: str) -> float:
        """Seconds of CPU time of a call."""
        run, count, begin = self.callbacks[callback].run, 0, time.process_time()
        while (spent := time.process_time() - begin) < TURN or not count:
            run()
            count += 1
        return spent / count

    def solve(self) -> tuple[programs.Solve, float, list[str]]:
        """The solve, memory, and IPOPT's files."""
        found = self.peer.solve(self.given.z)
        self.memory = max(self.memory, peak_memory())
        return replace(found, z=np.zeros(0)), self.memory, ipopt_libraries()


def serve(pipe: Connection, *given: Any) -> None:
    """Answer until the other end is closed: what was asked for, or why there is no answer."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    work: Work | None = None
    with contextlib.suppress(EOFError):
        while True:
            what, *arguments = pipe.recv()
            try:
                work = work or Work(*given)
                pipe.send((getattr(work, what)(*arguments), ""))
            except Exception as error:
                text = (str(error).strip() or type(error).__name__).splitlines()[-1]
                own = isinstance(error, ValueError | Refused)
                pipe.send((None, text if own else f"{type(error).__name__}: {text}"))


class Worker:
    """The process of a contender, from here. limit : seconds for an answer."""

    def __init__(self, limit: float, *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.limit, (self.pipe, other) = limit, context.Pipe()
        self.process = context.Process(target=serve, args=(other, *given), daemon=True)
        self.process.start()
        other.close()

    def ask(self, *question: Any) -> Any:
        """The answer. Raises `Refused` where there is none, and ends the process then."""
        words = f"no result in {self.limit:g} s"
        try:
            self.pipe.send(question)
            if self.pipe.poll(self.limit):
                answer, words = self.pipe.recv()
                if not words:
                    return answer
            else:
                self.process.kill()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode or 0
            words = f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        self.end()
        raise Refused(words)

    def end(self) -> None:
        self.pipe.close()
        self.process.join()


# -- measuring ------------------------------------------------------------------------------------


@dataclass
class Row:
    """One contender. build : seconds, to derive, write and compile. cpu : seconds of CPU time of a
    solve. callbacks : the same of each, and `agreement` its largest relative difference from ours.
    lines : of code that writes the problem for it, beside the file. memory : peak [MB]. difference
    : of the objective from that of kinesym, relative."""

    contender: str
    lines: int = 0
    build: float = NAN
    agreement: dict[str, float] = field(default_factory=dict)
    callbacks: dict[str, float] = field(default_factory=dict)
    iterations: int = -1
    cpu: float = NAN
    linear: float = NAN
    memory: float = NAN
    objective: float = NAN
    difference: float = NAN
    solves: int = 0
    failure: str = ""
    note: str = ""
    ipopt: list[str] = field(default_factory=list)


def measure(path: Path, nodes: int | None, contenders: Sequence[str], limit: float) -> list[Row]:
    """A row of each, in turns; the row of one that fails says why."""
    rows = {
        name: Row(name, sum(code_lines(inspect.getsource(f)) for f in CONTENDERS[name].code))
        for name in contenders
    }
    workers: dict[str, Worker] = {}

    def asked(name: str, *question: Any) -> Any:
        """None if there is no answer, which ends this contender."""
        try:
            return workers[name].ask(*question)
        except Refused as error:
            rows[name].failure = str(error)
            del workers[name]
            return None

    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, row in rows.items():
                own = tempfile.mkdtemp(dir=folder)
                workers[name] = Worker(limit, name, path, nodes, own)
                if (build := asked(name, "build")) is not None:
                    row.build, row.agreement = build, asked(name, "check") or {}
                print(f"  {name:22} {row.failure or f'built in {number(row.build)} s'}", flush=True)
            for callback in CALLBACKS:
                for _ in range(TURNS):
                    for name in [n for n in workers if callback in rows[n].agreement]:
                        if (spent := asked(name, "time", callback)) is not None:
                            least = min(spent, rows[name].callbacks.get(callback, spent))
                            rows[name].callbacks[callback] = least
            for _ in range(SOLVES):
                for name in [n for n in workers if not rows[n].cpu > LONG and not rows[n].failure]:
                    if (found := asked(name, "solve")) is not None:
                        _put(rows[name], *found)
        finally:
            for worker in workers.values():
                worker.end()
    return _compared(list(rows.values()))


def _put(row: Row, found: programs.Solve, memory: float, ipopt: list[str]) -> None:
    """A solve into the row."""
    row.cpu = found.cpu if np.isnan(row.cpu) else min(row.cpu, found.cpu)
    row.linear, row.iterations, row.objective = found.linear, found.iterations, found.objective
    row.failure, row.note, row.memory, row.ipopt = found.failure, found.note, memory, ipopt
    row.solves += 1


def _compared(rows: list[Row]) -> list[Row]:
    """With differences from our objective, if ours was found."""
    first = next((r for r in rows if r.contender == OURS and r.solves and not r.failure), None)
    for row in rows:
        if first is not None and row.solves and not row.failure:
            row.difference = (row.objective - first.objective) / max(abs(first.objective), 1e-12)
    return rows


# -- the report -----------------------------------------------------------------------------------


def report(rows: Sequence[Row], own: int) -> list[str | Table]:
    """Paragraphs and tables. own : lines of code of the file."""
    built, first = [row for row in rows if row.callbacks], Row(OURS)
    first = next((row for row in rows if row.contender == OURS and not row.failure), first)
    worst = {
        name: max((row.agreement.get(name, 0.0) for row in built), default=0.0)
        for name in CALLBACKS
    }
    words = ", ".join(f"{name} {error:.0e}" for name, error in worst.items())
    others = [row.contender for row in built if not row.contender.startswith(OURS)]
    return [
        f"{', '.join(others)} return what kinesym does, at the guess and beside it; largest "
        f"relative differences: {words}."
        if others
        else "No other package is here: nothing is compared.",
        "CPU time of a call [ms], as the solver makes it, and how many times that of kinesym. "
        "opty's cost and gradient, which it leaves to its user, are kinesym's; it has no Hessian.",
        table(["contender", *CALLBACKS], [_times(row, first) for row in built]),
        "Solves. The time to build is by the clock, of kinesym with what it compiles, which a "
        f"first solve does not wait for by default. Lines of code are those of the file, {own}, "
        "and of what writes the problem for a package here. Memory includes Python and packages.",
        table(HEADER, [_cells(row, first, own) for row in rows if row.solves]),
        *([same_ipopt(rows)] if any(row.ipopt for row in rows) else []),
        *(f"{row.contender}: {row.failure}." for row in rows if row.failure),
    ]


HEADER = [
    "contender",
    "build [s]",
    "iterations",
    "CPU [s]",
    "ratio",
    "memory [MB]",
    "lines of code",
    "objective",
    "from kinesym",
]


def _times(row: Row, first: Row) -> list[str]:
    """Milliseconds, and how many times ours."""

    def cell(name: str) -> str:
        if name not in row.callbacks:
            return "-"
        ours = first.callbacks.get(name, NAN)
        many = row.callbacks[name] / ours
        times = "" if row is first or np.isnan(many) else f" ({number(many)})"
        return f"{number(1e3 * row.callbacks[name])}{times}"

    return [row.contender, *map(cell, CALLBACKS)]


def _cells(row: Row, first: Row, own: int) -> list[str]:
    """Of the table of solves."""
    difference = "-" if np.isnan(row.difference) else f"{row.difference:.0e}"
    if abs(row.difference) > AGREEMENT:
        difference += ", another optimum"
    words = [f"failed: {row.failure}" if row.failure else difference, row.note]
    return [
        row.contender,
        number(row.build),
        f"{row.iterations}",
        number(row.cpu),
        ratio(NAN if row.failure else row.cpu / first.cpu, 1.0),
        number(row.memory),
        f"{own} + {row.lines}" if row.lines else f"{own}",
        f"{row.objective:.9g}",
        "; ".join(filter(None, words)),
    ]


def to_json(path: Path, words: str, rows: Sequence[Row]) -> str:
    """All numbers; null where there is none."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        return None if isinstance(value, float) and not np.isfinite(value) else value

    found = {"file": str(path), "machine": words, "date": time.strftime("%Y-%m-%d")}
    made = {**found, "lines": code_lines(path.read_text(encoding="utf-8"))}
    return json.dumps({**made, "rows": [plain(asdict(row)) for row in rows]}, indent=1) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kinesym bench FILE", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "file", type=Path, help="with a function problem: a ks.Collocation, a guess"
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="handed to the function")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="for each (300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers there")
    return parser.parse_args()


def _check(given: argparse.Namespace) -> None:
    """Raise `Refused` for what would be found out after all measuring."""
    if not 0.0 < given.limit < float("inf"):
        raise Refused(f"--limit is a number of seconds above 0, got {given.limit:g}")
    if given.json and (given.json.is_dir() or not given.json.absolute().parent.is_dir()):
        raise Refused(f"--json {given.json}: name a file in a folder that is there")


def run(given: argparse.Namespace) -> int:
    """Measure and print; 1 if a contender has another program, or ours fails."""
    _check(given)
    asked = given_by(given.file, given.nodes).problem
    words = machine("opty", "casadi")
    nodes = "+".join(map(str, asked.layout.nodes))
    print(
        f"{asked.model.name}, {nodes} nodes, {asked.n_variables} variables, "
        f"{asked.n_constraints} constraints, one thread",
        flush=True,
    )
    contenders = list(dict.fromkeys([OURS, *given.contenders]))
    absent = {name: why for name in contenders if (why := missing(name))}
    rows = measure(given.file, given.nodes, [c for c in contenders if c not in absent], given.limit)
    rows += [Row(name, failure=why) for name, why in absent.items()]
    if given.json:
        given.json.write_text(to_json(given.file, words, rows), encoding="utf-8")
    own = code_lines(given.file.read_text(encoding="utf-8"))
    print(f"\nMachine: {words}.", *report(rows, own), sep="\n\n")
    return int(bool(rows[0].failure) or any("another program" in row.failure for row in rows))


def main() -> int:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault("CFLAGS", "-O3 -march=native")  # what suits opty best
    os.environ[TIER_VARIABLE] = INTERPRETED  # here nothing is timed
    given = arguments()
    try:
        return run(given)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
