"""Log likelihoods of published problems in PEtab at nominal parameters, and the time they take.

The problems are 24 of the collection Benchmark-Models-PEtab (BSD 3-Clause); published values are
those that AMICI's own tests of the collection hold (tests/benchmark_models of AMICI-dev/AMICI).

    python benchmarks/petab.py [--problems NAME ...] [--write]
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


def problems(folder: Path) -> dict[str, Path]:
    """YAML files of the problems in the archive, unpacked into a folder, by name."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    every = sorted((folder / "Benchmark-Models").iterdir())
    return {place.name: next(iter(sorted(place.glob("*.yaml")))) for place in every}


def measured(names: Sequence[str] | None) -> list[list[str]]:
    """A row for each problem."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in problems(Path(folder)).items():
            if names is None or name in names:
                rows.append(row(path))
                print(*rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", metavar="NAME")
    given = parsed(parser)
    warnings.simplefilter("ignore")
    words = machine()
    rows = measured(given.problems)
    numbers = [dict(zip(HEADER, cells, strict=True)) for cells in rows]
    leave(given, "petab", words, [table(HEADER, rows)], numbers)
