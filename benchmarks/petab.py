"""Log likelihoods of published problems in PEtab at nominal parameters, fits, and their times.

The problems are 24 of the collection Benchmark-Models-PEtab (BSD 3-Clause); published values are
those that AMICI's own tests of the collection hold (tests/benchmark_models of AMICI-dev/AMICI).

    python benchmarks/petab.py [--problems NAME ...] [--starts N] [--write]
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
import time
import warnings
from collections.abc import Sequence
from os import times
from pathlib import Path

import numpy as np
from record import table
from report import leave, machine, parsed

import kinesym as ks

ARCHIVE = Path(__file__).parent / "data" / "petab_problems.tar.xz"
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
#: Evaluations after the first, of which the least counts.
RUNS = 3
HEADER = ["problem", "states", "unknown", "measurements", "experiments", "read [s]", "first [s]"]
HEADER += ["later [s]", "log L", "published", "relative difference"]
FITS = ["problem", "unknown", "log L, nominal", "log L, fitted", "iterations", "status", "CPU [s]"]
FITS += ["best of starts", "within 0.1", "CPU per start [s]"]
#: Iterations of a fit at most.
LIMIT = 200
#: Most unknowns of a problem that is fitted, and of one that is fitted from many starts.
MOST, FEW = 50, 16
#: Problems whose derivatives over events take more memory than 16 GiB.
TOO_LARGE = ("Smith_BMCSystBiol2013",)


def seconds() -> float:
    """CPU time of this process and of compilers that it has waited for."""
    used = times()
    return used.user + used.system + used.children_user + used.children_system


def row(path: Path) -> list[str]:
    """One problem: its size, CPU seconds from the file to the problem, from there to the first log
    likelihood, with the compiler, and of later ones."""
    begin = seconds()
    problem = ks.petab.read(path)
    read = seconds()
    found = problem.simulate()
    first, later = seconds(), list[float]()
    for _ in range(RUNS):
        before = time.process_time()
        problem.simulate()
        later.append(time.process_time() - before)
    name, value = path.parent.name, found.log_likelihood
    told = PUBLISHED.get(name, np.nan)
    off = abs(value - told) / abs(told)
    counts = (
        len(problem.file.model.states),
        len(problem.unknown),
        len(problem.tables.measurements),
        len(problem.tables.experiments),
    )
    spent = (read - begin, first - read, min(later))
    last = ("-", "-") if np.isnan(told) else (f"{told:.8g}", f"{off:.0e}")
    return [name, *map(str, counts), *(f"{s:.2f}" for s in spent), f"{value:.8g}", *last]


def fitted(path: Path, starts: int) -> list[str]:
    """A fit from the nominal parameters, and from starts of a Latin hypercube in the bounds, on the
    scales of the problem; or why there is none. CPU times without those of compilers."""
    problem = ks.petab.read(path)
    about = [path.parent.name, str(len(problem.unknown))]
    nominal = problem.simulate().log_likelihood
    if len(problem.unknown) > MOST or path.parent.name in TOO_LARGE:
        return [*about, f"{nominal:.8g}", "-", "-", "not tried", *4 * ["-"]]
    try:
        shooting = problem.shooting()
    except ValueError as error:
        return [*about, f"{nominal:.8g}", "-", "-", str(error).rpartition(": ")[2], *4 * ["-"]]
    shooting.cost({n: v for n, v in problem.nominal.items() if n in problem.unknown})
    before = time.process_time()
    fit = problem.fit(max_iterations=LIMIT)
    spent = time.process_time() - before
    best = problem.simulate(fit.parameters).log_likelihood
    row = [*about, f"{nominal:.8g}", f"{best:.8g}", str(fit.iterations), str(fit.status)]
    row.append(f"{spent:.2f}")
    if not starts or len(problem.unknown) > FEW:
        return [*row, "-", "-", "-"]
    before = time.process_time()
    many = shooting.multistart(starts, max_iterations=LIMIT, progress=False)
    each = (time.process_time() - before) / starts
    J = many.objective[np.isfinite(many.objective)]
    if not len(J):
        return [*row, "-", f"0 of {starts}", f"{each:.2f}"]
    found = best - 0.5 * (J.min() - fit.objective)  # J is -2 log L and a constant
    near = int((min(J.min(), fit.objective) + 0.2 > J).sum())
    return [*row, f"{found:.8g}", f"{near} of {starts}", f"{each:.2f}"]


def problems(folder: Path) -> dict[str, Path]:
    """YAML files of the problems in the archive, unpacked into a folder, by name."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    every = sorted((folder / "Benchmark-Models").iterdir())
    return {place.name: next(iter(sorted(place.glob("*.yaml")))) for place in every}


def measured(names: Sequence[str] | None, starts: int) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of both tables for each problem."""
    rows, fits = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in problems(Path(folder)).items():
            if names is None or name in names:
                rows.append(row(path))
                print(*rows[-1], flush=True)
                fits.append(fitted(path, starts))
                print(*fits[-1], flush=True)
    return rows, fits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", metavar="NAME")
    parser.add_argument("--starts", type=int, default=0, help="of problems with few unknowns")
    given = parsed(parser)
    warnings.simplefilter("ignore")
    words = machine()
    rows, fits = measured(given.problems, given.starts)
    numbers = [dict(zip(HEADER, cells, strict=True)) for cells in rows]
    leave(given, "petab", words, [table(HEADER, rows), table(FITS, fits)], numbers)
