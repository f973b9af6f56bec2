"""How many published problems of optimal control end at the published optimum, by what is set by
default, and how soon at an error of the grid of 1e-6, beside CasADi and rockit?

All problems of `published.py`, from the guess of their source or a naive one: first on a uniform
grid, then from the same guess on refined grids. CasADi solves the very same nonlinear program;
rockit what its words allow, see `peers/optimal_control.py`. Kernels of ours are interpreted.

    python benchmarks/collection.py [--problems NAME ...] [--resume] [--write]
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import sympy as sp
from peers.by_casadi import casadi_of
from published import COLLECTION, Published
from record import Table, table
from report import leave, machine, number, parsed
from rows import kept, line_of, remarks
from sympy.core.function import AppliedUndef

import kinesym as ks
from kinesym.runtime.library.tiers import INTERPRETED, TIER_VARIABLE

#: The error of the grid that is asked for; seconds of the clock that each solve of ours may take.
ERROR, SECONDS = 1e-6, 30.0
#: Seconds of CPU time that each solve of a peer may take.
LIMIT = 6.0
#: Of IPOPT where the grid is refined: the default leaves barriers of that size.
TOLERANCE = 1e-10
#: Scheme of all problems where the grid is refined: what `ks.Collocation` takes by default.
SCHEME = "radau-3"
#: Intervals beyond which rockit takes minutes to state a problem.
MOST_INTERVALS = 110
QUICK = ("van_der_pol", "soap_film", "shortest_push")
NAN = float("nan")


@dataclass
class Ended:
    """How a solve ended: seconds of CPU time, without what was built before; error : of the grid,
    as `GridError.largest` has it."""

    nodes: int = 0
    iterations: int = -1
    cpu: float = NAN
    objective: float = NAN
    error: float = NAN
    failure: str = ""


@dataclass
class Row:
    """A problem. lines : of its statement. plain, fine : by default, and on refined grids.
    peers : by name."""

    problem: str
    kind: str
    lines: int
    plain: Ended
    fine: Ended
    peers: dict[str, Ended] = field(default_factory=dict)

    @property
    def best(self) -> Ended:
        """On refined grids where that succeeded."""
        return self.plain if self.fine.failure else self.fine

    @property
    def verified(self) -> bool:
        """Whether the error of the grid that was asked for was reached."""
        return not self.fine.failure and self.fine.error <= ERROR

    def met(self, published: Published) -> bool:
        """Whether one of the two solves has the published objective."""
        off = [abs(published.difference(e.objective)) for e in (self.plain, self.fine)]
        failed = [bool(e.failure) for e in (self.plain, self.fine)]
        return any(
            not bad and (np.isnan(gap) or gap <= published.tolerance)
            for gap, bad in zip(off, failed, strict=True)
        )


def lines_of(statement: Callable[..., Published]) -> int:
    """Lines of a function without its docstring and empty ones."""
    source = textwrap.dedent(inspect.getsource(statement))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    told = function.body[0]
    length = (told.end_lineno or told.lineno) - told.lineno + 1
    return sum(bool(line.strip()) for line in source.splitlines()) - length


# -- contenders -----------------------------------------------------------------------------------


def ended(problem: ks.Collocation, guess: Any, **more: Any) -> Ended:
    """A solve of ours."""
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = problem.solve(guess or None, progress=False, seconds=SECONDS, **more)
    cpu = time.process_time() - clock
    error = found.grid_error().largest if found.grid else NAN
    nodes = sum(len(trial.time) for trial in found.trials)
    failure = "" if found.success else found.message
    return Ended(nodes, found.iterations, cpu, found.objective, error, failure)


def by_casadi(made: Published, folder: str) -> Ended:
    """The same nonlinear program by CasADi and its IPOPT."""
    problem = made.posed(threads=1)
    z = problem.pack(made.guess or None)
    found = casadi_of(problem, z, {"max_cpu_time": LIMIT}, folder).solve(z)
    return Ended(0, found.iterations, found.cpu, found.objective, failure=found.failure)


def by_rockit(made: Published, folder: str) -> Ended:
    """Stated once more in the words of rockit, by Radau points of degree 3."""
    from peers import optimal_control

    if why := unsayable(made):
        return Ended(failure=f"not stated: {why}")
    (_, trial), guess = made.posed.args, dict(made.guess)  # type: ignore[attr-defined]
    if isinstance(trial.duration, tuple):
        guess.setdefault("duration", float(np.sqrt(np.prod(trial.duration))))
    about = optimal_control.stated(replace(made, guess=guess))
    found = optimal_control.rockit(about, {"tol": 1e-8, "max_cpu_time": LIMIT})()
    return Ended(0, found.iterations, found.cpu, found.objective, failure=found.failure)


def unsayable(made: Published) -> str:
    """What of a problem our translation for rockit has no words for."""
    (model, trial), given = made.posed.args, made.posed.keywords  # type: ignore[attr-defined]
    if not isinstance(trial, ks.Experiment) or not isinstance(model, ks.Model):
        return "phases"
    named = {"path": "path conditions", "unknown": "parameters"}
    for argument, words in named.items():
        if given.get(argument):
            return words
    if model.delays:
        return "delays"
    if not given.get("objective") or not given.get("unknown_inputs"):
        return "no input, or a fit"
    if not isinstance(trial.duration, tuple) and np.ptp(np.diff(trial.grid)) > 1e-9:
        return "a graded grid"
    if trial.n_nodes - 1 > MOST_INTERVALS:
        return f"more than {MOST_INTERVALS} intervals"
    pairs = zip(model.equations, model.states, strict=False)
    rates = [equation.diff(x.diff(ks.t)) for equation, x in pairs]
    if any(rate != 1 for rate in rates):
        return "implicit rates"
    expressions = [*model.equations, given["objective"].integrand]
    if any(_without_signals(e).has(ks.t) for e in expressions):
        return "explicit time"
    for condition in given["boundary"]:
        if not isinstance(condition, sp.Expr) or not _is_value(condition):
            return "conditions other than values"
    sides = [side for pair in given.get("bounds", {}).values() for side in pair or ()]
    return "bounds over time" if any(callable(side) for side in sides) else ""


def _without_signals(expression: sp.Expr) -> sp.Expr:
    """An expression with its signals and their rates as symbols: what is left of time is
    explicit."""
    signals = expression.atoms(sp.Derivative, AppliedUndef)
    return expression.xreplace({signal: sp.Dummy() for signal in signals})


def _is_value(condition: sp.Expr) -> bool:
    """Whether a condition is that one state has a value at one end."""
    places = condition.atoms(ks.at_start, ks.at_end)
    if len(places) != 1:
        return False
    (place,) = places
    return bool((place - condition).is_number) and isinstance(place.args[0], AppliedUndef)


CONTENDERS: Mapping[str, Callable[[Published, str], Ended]] = {
    "casadi": by_casadi,
    "rockit": by_rockit,
}


def one(name: str, peers: Sequence[str]) -> Row:
    """A problem by all."""
    statement = COLLECTION[name]
    made = statement()
    plain = ended(made.posed(), made.guess)
    finer = made.posed(scheme=SCHEME)
    try:
        fine = ended(finer, made.guess, tolerance=TOLERANCE, tolerance_grid=ERROR)
    except (ValueError, MemoryError) as error:
        fine = Ended(failure=str(error))
    row = Row(name, statement.__module__.split(".")[-1], lines_of(statement), plain, fine)
    for peer in peers:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row.peers[peer] = CONTENDERS[peer](made, folder)
            except Exception as error:  # what a package cannot say or solve is a line of the table
                row.peers[peer] = Ended(failure=f"{type(error).__name__}: {str(error)[:80]}")
    return row


def row_of(value: Mapping[str, Any]) -> Row:
    """A row from what is kept of it."""
    plain, fine = (Ended(**value[key]) for key in ("plain", "fine"))
    peers = {name: Ended(**each) for name, each in value["peers"].items()}
    return Row(**{**value, "plain": plain, "fine": fine, "peers": peers})


# -- report ---------------------------------------------------------------------------------------


def cells(row: Row) -> list[str]:
    """Of the table of a problem."""
    published = COLLECTION[row.problem]()
    status = "" if row.met(published) else published.missed or row.best.failure or "another value"
    if not row.verified:
        status = "; ".join(filter(None, [status, f"error of the grid {number(row.best.error)}"]))
    found = [
        row.problem,
        row.kind,
        f"{row.lines}",
        f"{row.plain.nodes}",
        f"{row.plain.iterations}",
        number(row.plain.cpu),
        "-" if published.value is None else f"{published.value:.9g}",
        f"{row.best.objective:.9g}",
        percent(published.difference(row.best.objective)),
        f"{row.fine.nodes}" if row.verified else "-",
        number(row.fine.cpu) if row.verified else "-",
    ]
    for peer in row.peers.values():
        same = percent((peer.objective - row.plain.objective) / (abs(row.plain.objective) or 1.0))
        words = peer.failure.removeprefix("not stated: ") if peer.failure else same
        found += [f"{peer.iterations}" if peer.iterations >= 0 else "-", number(peer.cpu), words]
    return [*found, status or "met"]


def percent(share: float) -> str:
    """A relative difference."""
    return "-" if np.isnan(share) else f"{share:.0e}"


def report(rows: Sequence[Row], peers: Sequence[str]) -> list[str | Table]:
    """A count of each outcome, and the table."""
    made = {row.problem: COLLECTION[row.problem]() for row in rows}
    met = sum(row.met(made[row.problem]) for row in rows)
    verified = sum(row.verified for row in rows)
    first = (
        f"{len(rows)} problems: {met} end at the published value, {verified} reach an error of the "
        f"grid of {ERROR:.0e} within {SECONDS:.0f} s and 20,000 nodes."
    )
    counts = []
    for peer in peers:
        tried = [r for r in rows if not r.peers[peer].failure.startswith("not stated")]
        ends = [
            r
            for r in tried
            if not r.peers[peer].failure
            and abs(made[r.problem].difference(r.peers[peer].objective))
            <= max(made[r.problem].tolerance, 1e-3)
        ]
        counts.append(f"{peer}: {len(ends)} of the {len(tried)} that it is given")
    header = ["problem", "kind", "lines", "nodes", "iterations", "CPU [s]", "published"]
    header += ["objective", "from published", "nodes to 1e-6", "CPU to 1e-6 [s]"]
    for peer in peers:
        header += [f"{peer}: iterations", f"{peer}: CPU [s]", f"{peer}: from ours"]
    words = f"Within 1e-3 of the published value: {'; '.join(counts)}." if counts else ""
    return [*filter(None, [first, words]), table([*header, "status"], map(cells, rows))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    names = ", ".join(COLLECTION)
    parser.add_argument("--problems", nargs="+", choices=COLLECTION, metavar="NAME", help=names)
    parser.add_argument("--peers", nargs="*", choices=CONTENDERS, default=[*CONTENDERS])
    os.environ.setdefault(TIER_VARIABLE, INTERPRETED)  # a first solve, without a compiler
    os.environ["OMP_NUM_THREADS"] = "1"
    given = parsed(parser)
    words = machine("casadi", "rockit-meco")
    peers = [peer for peer in given.peers if find_spec(peer)]
    found = []
    tasks = [(name, peers) for name in given.problems or (QUICK if given.quick else COLLECTION)]
    for each in kept(given, "collection", lambda *task: asdict(one(*task)), tasks):
        found.append(each)
        print(*line_of(each, ("", ""), lambda value: cells(row_of(value))), sep="  ", flush=True)
    rows = [row_of(each.value) for each in found if not each.failure]
    parts = [*remarks(found), *report(rows, peers)]
    leave(given, "collection", words, parts, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
