"""The suite: problems by name, their records by number, and the least standard errors there can be.

A record is a dictionary of arrays by the names of its files: "main.0.csv" holds t and the channels
of the clock `main` in trial 0, "input_a.0.csv" the values of input a.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from . import problems
from .declare import Problem
from .equations import OF_ARRAYS, OF_NUMBERS, value
from .reference import Course, Simulator, instants, samples

HERE = Path(__file__).parent
Record = dict[str, dict[str, np.ndarray]]


@lru_cache
def all_problems() -> dict[str, Problem]:
    """Problems by name."""
    modules = [m.name for m in pkgutil.iter_modules(problems.__path__)]
    found = [importlib.import_module(f"{problems.__name__}.{name}").PROBLEMS for name in modules]
    return {each.statement["name"]: each for rows in found for each in rows}


def of_trial(statement: Mapping[str, Any], k: int, found: Mapping[str, float]) -> dict[str, float]:
    """All parameters of trial k by the names of the equations. found : by the names to report."""
    trial, here = statement["trials"][k], {n: r["value"] for n, r in statement["known"].items()}
    for name, row in statement["unknown"].items():
        label = {"all": "", "subject": f"[{trial.get('subject')}]", "trial": f"[{k}]"}[row["scope"]]
        here[name] = found[name + label]
    return {**here, **trial.get("known", {})}


def initial_of(
    statement: Mapping[str, Any], k: int, here: Mapping[str, float], begun: Mapping[str, float]
) -> dict[str, float]:
    """Initial values of trial k. begun : those that are unknown."""
    own = statement["trials"][k].get("initial", {})
    rows = {name: own.get(name, row["initial"]) for name, row in statement["states"].items()}
    return {
        n: begun[n] if isinstance(row, dict) else float(value(row, here, OF_NUMBERS))
        for n, row in rows.items()
    }


def seed_of(name: str, number: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), number])


def stop_of(statement: Mapping[str, Any]) -> float:
    return max(each["stop"] for each in statement["clocks"].values())


def true_courses(problem: Problem, k: int, number: int) -> dict[str, Course]:
    """Inputs of trial k as they are; random ones by the number of the record."""
    statement, found = problem.statement, {}
    here = of_trial(statement, k, problem.truth["parameters"])
    for name, row in statement["inputs"].items():
        count = int(np.ceil(stop_of(statement) / row["every"] - 1e-9)) + 1
        times = np.round(row["every"] * np.arange(count), 10)
        if row["kind"] == "random":
            draw = seed_of(f"{statement['name']} {name} {k}", number).standard_normal(count)
            values = here[row["intensity"]] / np.sqrt(row["every"]) * draw
        else:
            text = problem.truth["inputs"][k][name]
            values = value(text, {"t": times}, OF_ARRAYS) * np.ones(count)
        # As the files have them: nine digits.
        values = np.array([float(f"{v:.9g}") for v in values])
        found[name] = Course(times, values, row["between"])
    return found


@lru_cache
def true_samples(name: str, k: int, number: int) -> tuple[dict[str, Course], dict[str, np.ndarray]]:
    """Inputs and samples without noise of trial k."""
    problem = all_problems()[name]
    statement, truth = problem
    courses = true_courses(problem, k, number)
    here = of_trial(statement, k, truth["parameters"])
    start = initial_of(statement, k, here, truth["initial"][k])
    motion = simulator(name)(here, start, courses)
    return courses, samples(statement, motion, here, courses)


@lru_cache
def simulator(name: str) -> Simulator:
    return Simulator(all_problems()[name].statement)


def is_random(statement: Mapping[str, Any]) -> bool:
    return any(row["kind"] == "random" for row in statement["inputs"].values())


def record(name: str, number: int) -> Record:
    """Record `number` of a problem, always the same."""
    problem, files = all_problems()[name], {}
    statement, truth = problem
    rng = seed_of(name, number)
    for k in range(len(statement["trials"])):
        courses, clean = true_samples(name, k, number if is_random(statement) else 0)
        for key, row in statement["inputs"].items():
            course = courses[key]
            if row["kind"] == "exact":
                files[f"input_{key}.{k}.csv"] = {"t": course.times, key: course.values}
            if row["kind"] == "measured":
                seen = course.values + row["std"] * rng.standard_normal(len(course.times))
                files[f"input_{key}.{k}.csv"] = {"t": course.times, key: seen}
        for key, row in statement["measured"].items():
            times = instants(statement["clocks"][row["clock"]])
            seen = clean[key] + truth["std"][key] * rng.standard_normal(len(times))
            for low, high in row.get("gaps", []):
                seen[(times >= low) & (times < high)] = np.nan
            files.setdefault(f"{row['clock']}.{k}.csv", {"t": times})[key] = seen
    return files


def write_record(files: Record, folder: Path) -> None:
    """A record as CSV files; above 20,000 samples compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in files.items():
        rows = zip(*columns.values(), strict=True)
        digits = 9 if name.startswith("input_") else 6
        lines = [",".join(columns), *(",".join(cells(row, digits)) for row in rows)]
        text = "\n".join(lines) + "\n"
        if len(lines) > 20001:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            (folder / name).write_text(text)


def cells(row: Any, digits: int) -> list[str]:
    """A line of a table; missing samples are empty. Times have ten digits."""
    t, *rest = row
    return [f"{t:.10g}", *("" if np.isnan(v) else f"{v:.{digits}g}" for v in rest)]


def read_record(folder: Path) -> Record:
    """The files of a record: columns by name, NaN where a sample is missing."""
    found = {}
    for path in sorted(folder.glob("*.csv*")):
        raw = path.read_bytes()
        head, *lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().split()
        rows = np.array([[float(v or "nan") for v in line.split(",")] for line in lines])
        name = path.name.removesuffix(".gz")
        found[name] = dict(zip(head.split(","), rows.T, strict=True))
    return found


def write(folder: Path, names: list[str], numbers: list[int]) -> None:
    """Statements and these records of problems, as a solver gets them: no truth."""
    for name in names:
        statement = all_problems()[name].statement
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "statement.json").write_text(as_json(statement))
        for number in numbers:
            write_record(record(name, number), folder / name / f"record_{number}")


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"
