"""Published problems in PEtab: log likelihoods, fits from nominal parameters and from many starts,
intervals by profile, beside pyPESTO with AMICI and fides.

The problems are 24 of the collection Benchmark-Models-PEtab (BSD 3-Clause); published values are
those that AMICI's own tests of the collection hold (tests/benchmark_models of AMICI-dev/AMICI).

    python benchmarks/petab.py [--problems NAME ...] [--starts N] [--pypesto PYTHON] [--resume]
        [--write]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record import Table, table
from report import in_process, leave, machine, parsed
from rows import Kept, kept, line_of, remarks

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE

HERE = Path(__file__).parent
ARCHIVE = HERE / "data" / "petab_problems.tar.xz"
PEER, PACKAGES = HERE / "peers" / "by_pypesto.py", ("pypesto", "amici", "fides")
#: Log likelihoods at the nominal parameters.
PUBLISHED = {
    "Bachmann_MSB2011": 418.40573341425295,
    "Beer_MolBioSystems2014": 58622.9145631413,
    "Boehm_JProteomeRes2014": -138.22199693517703,
    "Borghans_BiophysChem1997": 83.3237191357272,
    "Brannmark_JBC2010": -141.889113770537,
    "Crauste_CellSystems2017": -190.96521897435176,
    "Fujita_SciSignal2010": 53.08377736998929,
    "Lucarelli_CellSystems2018": -1681.6059879426584,
    "Schwen_PONE2014": -943.9992988598723,
    "Smith_BMCSystBiol2013": -888198.436541014,
    "Zheng_PNAS2012": 278.33353271001477,
}
#: A table of others: seconds to compile and to solve by ExaModels and MadNLP on a GPU (Quadro
#: GV100) from the nominal parameters, its status and by how much -log L is above the optimum of
#: PEtab.jl [%], and seconds of PEtab.jl with Optim's IPNewton; examples/Benchmarks/results.txt of
#: jsphchoi/ExaModelsPEtab.jl, commit 4281c3a. Those that it did not compile are left out.
ELSEWHERE = {
    "Armistead_CellDeathDis2024": "82.5 0.60 solved 0.51 78 2.8",
    "Bachmann_MSB2011": "761 - time 81 141 101",
    "Bertozzi_PNAS2020": "77.5 0.27 suboptimal 190 214 95",
    "Blasi_CellSystems2016": "113 0.40 solved 5e-5 129 1.6",
    "Boehm_JProteomeRes2014": "86.6 0.74 solved -1.4e-5 279 0.03",
    "Borghans_BiophysChem1997": "76.0 - restoration 74 292 1965",
    "Brannmark_JBC2010": "168 - step 2e10 305 68",
    "Crauste_CellSystems2017": "67.3 0.27 solved 0.12 275 8.3",
    "Fujita_SciSignal2010": "113 6.2 suboptimal 6.5e4 309 0.03",
    "Giordano_Nature2020": "168 - other 65 232 39",
    "Laske_PLOSComputBiol2019": "895 25.1 suboptimal 6.5 193 36",
    "Lucarelli_CellSystems2018": "610 - time 2.7 229 2659",
    "Okuonghae_ChaosSolitonsFractals2020": "96.3 6.0 suboptimal 5.6 204 26",
    "Rahman_MBS2016": "121 0.32 solved 2.7e-5 241 1.4",
    "Raimundez_PCB2020": "775 - time -7.7 211 152",
    "SalazarCavazos_MBoC2020": "1030 42.7 solved 0.089 452 580",
    "Schwen_PONE2014": "120 25.2 acceptable 3.8e-4 271 197",
    "Zheng_PNAS2012": "359 69.1 solved 0.29 178 5.5",
}
#: Evaluations after the first, of which the least counts.
RUNS = 3
HEADER = ["problem", "states", "unknown", "measurements", "experiments", "read [s]", "first [s]"]
HEADER += ["later [s]", "log L", "published", "relative difference"]
FITS = ["problem", "unknown", "log L, nominal", "log L, fitted", "iterations", "status", "CPU [s]"]
TOOLS = ["problem", "tool", "log L, nominal", "first [s]", "log L [ms]", "gradient [ms]"]
TOOLS += ["log L, fitted", "CPU [s]", "best of starts", "within 0.1", "CPU per start [s]"]
OTHERS = ["problem", "ExaModels: compile [s]", "solve [s]", "status", "-log L above PEtab.jl's [%]"]
OTHERS += ["PEtab.jl: compile [s]", "solve [s]"]
PROFILES = ["problem", "parameter", "estimate", "95 % by t", "95 % by profile", "remark"]
#: Iterations of a fit at most, by all tools.
LIMIT = 200
#: Most unknowns of a problem that is fitted.
MOST = 200
#: CPU seconds of a fit from the nominal parameters up to which it is fitted from many starts, and
#: of all starts of the peer, after which it begins none.
SOON, PATIENCE = 6.0, 240.0
#: Problems with five times as many starts, as these take little; the peer has five times as long.
OFTEN = (
    *("Armistead_CellDeathDis2024", "Bertozzi_PNAS2020", "Blasi_CellSystems2016"),
    *("Boehm_JProteomeRes2014", "Borghans_BiophysChem1997", "Crauste_CellSystems2017"),
    "Rahman_MBS2016",
)
#: Seconds by the clock for all that a peer does with a problem; the machine may be busy.
LONGEST = 3600.0
#: Problems with intervals by profile.
PROFILED = (
    *("Armistead_CellDeathDis2024", "Bertozzi_PNAS2020", "Blasi_CellSystems2016"),
    *("Boehm_JProteomeRes2014", "Crauste_CellSystems2017", "Fujita_SciSignal2010"),
    "Rahman_MBS2016",
)


class Ended(NamedTuple):
    """What a tool made of a problem: nominal : log L. first : CPU seconds from the files to it,
    with compilers. value, gradient : seconds of later ones. fitted, cpu : log L and seconds of a
    fit from the nominal parameters. ends, each : log L of all starts, NaN where there is none, and
    seconds of a start."""

    nominal: float
    first: float
    value: float
    gradient: float
    fitted: float
    cpu: float
    ends: Sequence[float] = ()
    each: float = np.nan


def seconds() -> float:
    """CPU time of this process and of compilers that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def least(function: Any) -> float:
    """CPU seconds of the fastest of some calls."""
    found = []
    for _ in range(RUNS):
        before = time.process_time()
        function()
        found.append(time.process_time() - before)
    return min(found)


def at_another(function: Any, point: Mapping[str, float], number: Iterator[int]) -> None:
    """Call it next to a point, each time elsewhere: trajectories of the last point are kept."""
    share = 1.0 + 1e-9 * (1 + next(number))
    function({name: share * value for name, value in point.items()})


def measured(name: str, starts: int, python: str | None) -> dict[str, Any]:
    """One problem: lines of the tables, and by tool what it made of it, or why nothing."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # empty: nothing was built before
        path, begin = unpacked(name, Path(folder)), seconds()
        problem = ks.petab.read(path)
        read = seconds()
        nominal = problem.simulate().log_likelihood
        first = seconds()
        spent = (read - begin, first - read, least(problem.simulate))
        found = {"size": size(name, problem, nominal, spent), "tools": {}, "profiles": []}
        start = [name, str(len(problem.unknown)), f"{nominal:.8g}"]
        if why := not_fitted(problem):
            return {**found, "fit": [*start, "-", "-", why, "-"]}
        fit, ours = fitted(problem)
        words = [f"{ours.fitted:.8g}", str(fit.iterations), str(fit.status), f"{ours.cpu:.2f}"]
        if name in PROFILED:
            found["profiles"] = profiles(name, fit)
        ours, points = searched(problem, fit, ours, starts if ours.cpu <= SOON else 0)
        found["tools"]["kinesym"] = ours._replace(nominal=nominal, first=first - begin)
        if python:
            found["tools"]["pyPESTO"] = by_pypesto(python, path, points, nominal)
        return {**found, "fit": [*start, *words]}


def size(name: str, problem: Any, value: float, spent: Sequence[float]) -> list[str]:
    """Line of the first table."""
    told = PUBLISHED.get(name, np.nan)
    counts = (
        len(problem.file.model.states),
        len(problem.unknown),
        len(problem.tables.measurements),
        len(problem.tables.experiments),
    )
    off = abs(value - told) / abs(told)
    last = ("-", "-") if np.isnan(told) else (f"{told:.8g}", f"{off:.0e}")
    return [name, *map(str, counts), *(f"{s:.2f}" for s in spent), f"{value:.8g}", *last]


def multiple(name: str) -> int:
    """How many times the starts of others a problem has."""
    return 5 if name in OFTEN else 1


def not_fitted(problem: Any) -> str:
    """Why a problem is not fitted here, if it is not."""
    if len(problem.unknown) > MOST:
        return "not tried"
    try:
        problem.shooting()
    except ValueError as error:
        return str(error).rpartition(": ")[2]
    return ""


def fitted(problem: Any) -> tuple[Any, Ended]:
    """A fit from the nominal parameters; CPU times without those of compilers."""
    shooting = problem.shooting()
    point = {n: v for n, v in problem.nominal.items() if n in shooting.names}
    shooting.gradient(point)
    value, gradient = (
        least(partial(at_another, f, point, count())) for f in (shooting.cost, shooting.gradient)
    )
    before = time.process_time()
    fit = problem.fit(max_iterations=LIMIT)
    cpu = time.process_time() - before
    best = problem.simulate(fit.parameters).log_likelihood
    return fit, Ended(np.nan, np.nan, value, gradient, best, cpu)


def searched(
    problem: Any, fit: Any, ours: Ended, starts: int
) -> tuple[Ended, list[dict[str, float]]]:
    """Fits from starts of a Latin hypercube in the bounds, on the scales of the problem; and these
    starts. The guess, which is one of `multistart`, is left out: files of models hold optima."""
    if not starts:
        return ours, []
    shooting, before = problem.shooting(), time.process_time()
    with ThreadPoolExecutor(1) as alone:
        many = shooting.multistart(starts + 1, max_iterations=LIMIT, executor=alone, progress=False)
    each, drawn = (time.process_time() - before) / (starts + 1), np.argsort(many.order)[1:]
    # -2 log L and a constant, where those end, too, that reach the limit of iterations
    ends = (ours.fitted - 0.5 * (many.objective[drawn] - fit.objective)).tolist()
    rows = (dict(zip(many.names, row, strict=True)) for row in many.starts[drawn])
    points = [{**problem.nominal, **row} for row in rows]
    return ours._replace(ends=ends, each=each), points


def profiles(name: str, fit: Any) -> list[list[str]]:
    """Lines of the parameters: intervals by t and by profile; or why there are none."""
    before = time.process_time()
    try:
        plain, better = fit.intervals().table, fit.intervals(method="profile").table
    except ValueError as error:
        return [[name, "-", "-", "-", "-", str(error).split(":")[0]]]
    cpu, lines = time.process_time() - before, []
    for key, row in better.items():
        both = [f"{r.low:.4g} ... {r.high:.4g}" for r in (plain[key], row)]
        known = both if row.standard_error > 0.0 else ["-", "-"]
        lines.append([name, key, f"{row.value:.4g}", *known, row.remark or "-"])
    return [*lines, [name, "all", "-", "-", "-", f"{cpu:.2f} s of CPU time"]]


def by_pypesto(
    python: str, path: Path, points: Sequence[Mapping[str, float]], nominal: float
) -> Ended | str:
    """The same by pyPESTO, AMICI and fides from these starts, or why not. nominal : our log L, from
    which those of ends are counted, as priors are in the objective too."""
    task = {"problem": str(path), "folder": str(path.parent / "compiled"), "starts": points}
    task |= {"runs": RUNS, "limit": LIMIT, "patience": PATIENCE * multiple(path.parent.name)}
    found, failure = in_process([str(PEER)], LONGEST, path.parent, python, task)
    if failure:
        return failure.replace("|", "/")
    fit, *ends = (nominal - e["objective"] + found["objective"] for e in found["fits"])
    cpu, *each = (e["cpu"] for e in found["fits"])
    times = (found[key] for key in ("nominal", "first", "value", "gradient"))
    return Ended(*times, fit, cpu, ends, float(np.mean(each)) if each else np.nan)


def unpacked(name: str, folder: Path) -> Path:
    """The YAML file of a problem of the archive, unpacked into a folder."""
    with tarfile.open(ARCHIVE) as archive:
        members = [each for each in archive if Path(each.name).parent.name == name]
        archive.extractall(folder, members, filter="data")
    return next(iter(sorted(folder.glob("*/*/*.yaml"))))


def names_of_problems() -> list[str]:
    """All problems of the archive."""
    with tarfile.open(ARCHIVE) as archive:
        return sorted({n.split("/")[1] for n in archive.getnames() if n.count("/") > 1})


def versions(python: str | None) -> list[str]:
    """What the peer's environment has, as pip says."""
    if not python:
        return []
    command = [python, "-m", "pip", "list", "--format", "freeze"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [each.replace("==", " ") for each in told if each.split("==")[0] in PACKAGES]


# -- report ---------------------------------------------------------------------------------------


def tools(row: Kept) -> list[list[str]]:
    """Lines of a problem in the table of tools; starts count from 0.1 below the best of all."""
    told = row.value["tools"]
    ended = {tool: Ended(*values) for tool, values in told.items() if not isinstance(values, str)}
    best = np.nanmax([e for each in ended.values() for e in (each.fitted, *each.ends)] or [np.nan])
    lost = {tool: words for tool, words in told.items() if isinstance(words, str)}
    blank = ["-"] * (len(TOOLS) - 3)
    lines = [[row.task[0], tool, words, *blank] for tool, words in lost.items()]
    for tool, each in ended.items():
        ends = np.array(each.ends)
        there = ends[np.isfinite(ends)]
        times = (f"{each.first:.2f}", f"{1e3 * each.value:.2g}", f"{1e3 * each.gradient:.2g}")
        many = ["-", "-", "-"]
        if len(ends):
            near = f"{int((there > best - 0.1).sum())} of {len(ends)}"
            many = [f"{there.max():.8g}" if len(there) else "-", near, f"{each.each:.2f}"]
        fit = ("no fit" if np.isnan(each.fitted) else f"{each.fitted:.8g}", f"{each.cpu:.2f}")
        lines.append([row.task[0], tool, f"{each.nominal:.8g}", *times, *fit, *many])
    return lines


def report(rows: Sequence[Kept]) -> list[str | Table]:
    """All tables."""
    there = [row for row in rows if not row.failure]
    names = [str(row.task[0]) for row in there]
    others = [[n, *ELSEWHERE[n].split()] for n in names if n in ELSEWHERE]
    parts = {
        "": (HEADER, [line_of(row, HEADER, lambda value: value["size"]) for row in rows]),
        "Fits from the nominal parameters.": (FITS, [row.value["fit"] for row in there]),
        "Tools beside each other, from the same starts.": (
            TOOLS,
            [line for row in there for line in tools(row)],
        ),
        "Published by others, measured on their machines.": (OTHERS, others),
        "Intervals of fits from the nominal parameters.": (
            PROFILES,
            [line for row in there for line in row.value["profiles"]],
        ),
    }
    return [
        part
        for words, (header, lines) in parts.items()
        if lines
        for part in (*filter(None, [words]), table(header, lines))
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", metavar="NAME", choices=names_of_problems())
    parser.add_argument("--starts", type=int, default=0, help="of problems that are fitted soon")
    parser.add_argument(
        "--pypesto", metavar="PYTHON", help="of an environment with pypesto, amici and fides"
    )
    given = parsed(parser)
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    words = ", ".join([machine(), *versions(given.pypesto)])
    tasks = []
    for name in given.problems or (
        ["Boehm_JProteomeRes2014"] if given.quick else names_of_problems()
    ):
        tasks.append((name, 2 if given.quick else given.starts * multiple(name), given.pypesto))
    found = []
    for row in kept(given, "petab", measured, tasks):
        found.append(row)
        lines = [line_of(row, HEADER, lambda value: value["size"])]
        for line in lines if row.failure else [*lines, row.value["fit"], *tools(row)]:
            print(*line, flush=True)
    numbers = [
        dict(zip(HEADER, row.value["size"], strict=True)) for row in found if not row.failure
    ]
    leave(given, "petab", words, [*remarks(found), *report(found)], numbers)
