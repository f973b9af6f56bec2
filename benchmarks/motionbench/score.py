"""Scores of answers: error in standard errors, coverage of 95 % intervals, CPU time, failures.

An answer is `lost` where a parameter is farther than LOST standard errors from the truth: of the
least standard errors where these are known, else of its own. Lost answers count as failures, in the
coverage, and not in errors and CPU times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .suite import HERE

TRUTH = HERE / "truth"
#: Standard errors; of normal errors one in 500 million is farther.
LOST = 6.0
#: Standard errors to each side of a 95 % interval that is not given.
HALF = 1.959964


class Score(NamedTuple):
    """Of one tool on one problem.

    records : tried. refused, failed : why, if all are. failures : records without an answer, lost
    or with a wrong verdict on what cannot be known. error : root mean square, over parameters and
    records, of the error over its standard error, 1 if these are right. loss : the same over the
    least one, 1 for an efficient estimator. width : median half width of intervals over that of
    the least ones. inside, intervals : of the 95 % intervals, those with the truth, and all. cpu :
    seconds, median; first : of the first record of a process, with all that is built once, which
    `cpu` leaves out. NaN where there is nothing."""

    problem: str
    tool: str
    records: int
    refused: str = ""
    failed: str = ""
    failures: int = 0
    error: float = np.nan
    loss: float = np.nan
    width: float = np.nan
    inside: int = 0
    intervals: int = 0
    cpu: float = np.nan
    first: float = np.nan

    @property
    def coverage(self) -> float:
        """Share of intervals with the truth [%]."""
        return 100.0 * self.inside / self.intervals if self.intervals else np.nan


def truth_of(name: str, folder: Path = TRUTH) -> dict[str, Any]:
    """Parameters, least standard errors (None is infinite), and what cannot be known."""
    return json.loads((folder / f"{name}.json").read_text())


def interval(answer: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """Its 95 % interval, from a standard error if none is given."""
    if answer.get("intervals", {}).get(name) is not None:
        return tuple(answer["intervals"][name])
    error = answer.get("standard_errors", {}).get(name)
    value = answer["parameters"][name]
    return None if error is None else (value - HALF * error, value + HALF * error)


def judged(answer: Mapping[str, Any], truth: Mapping[str, Any]) -> dict[str, Any]:
    """One answer: errors by parameter over own and least standard errors, intervals, whether it is
    lost, and whether its verdict is right."""
    known = truth.get("least_standard_errors", {}).items()
    least, rows = {k: v for k, v in known if v is not None}, []
    for name, true in truth["parameters"].items():
        if name in truth["cannot_be_known"] or name in answer.get("cannot_be_known", []):
            continue
        off = answer["parameters"][name] - true
        bounds, own = interval(answer, name), answer.get("standard_errors", {}).get(name)
        if own is None and bounds:
            own = (bounds[1] - bounds[0]) / (2.0 * HALF)
        rows.append(
            (
                off / own if own else np.nan,
                off / least.get(name, np.nan),
                np.nan if not bounds else float(bounds[0] <= true <= bounds[1]),
                np.nan if not own else own / least.get(name, np.nan),
            )
        )
    own, best, inside, width = np.array(rows).reshape(-1, 4).T
    far = np.where(np.isnan(best), own, best)
    verdict = set(answer.get("cannot_be_known", [])) == set(truth["cannot_be_known"])
    return {
        "own": own,
        "best": best,
        "inside": inside,
        "width": width,
        "lost": bool(np.any(~(np.abs(far[~np.isnan(far)]) < LOST))),
        "verdict": verdict,
    }


def scored(
    name: str, tool: str, answers: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]
) -> Score:
    """The score of all answers of a tool to the records of a problem."""
    words = {key: [a[key] for a in answers if key in a] for key in ("refused", "failed")}
    if len(words["refused"]) == len(answers):
        return Score(name, tool, len(answers), refused=words["refused"][0])
    given = [a for a in answers if "parameters" in a]
    if not given:
        return Score(name, tool, len(answers), failed=words["failed"][0], failures=len(answers))
    found = [(judged(a, truth), a) for a in given]
    good = [(j, a) for j, a in found if j["verdict"] and not j["lost"]]
    inside = np.concatenate([j["inside"] for j, _ in found])

    def root(key: str) -> float:
        values = np.concatenate([j[key] for j, _ in good] or [np.zeros(0)])
        values = values[np.isfinite(values)]
        return float(np.sqrt(np.mean(values**2))) if len(values) else np.nan

    begun, later = (
        [a["cpu"] for _, a in good if a.get("first", False) is k] for k in (True, False)
    )
    widths = np.concatenate([j["width"] for j, _ in good] or [np.zeros(0)])
    widths = widths[np.isfinite(widths)]
    return Score(
        name,
        tool,
        len(answers),
        "",
        (words["failed"] or [""])[0],
        len(answers) - len(good),
        root("own"),
        root("best"),
        float(np.median(widths)) if len(widths) else np.nan,
        int(np.nansum(inside)),
        int(np.isfinite(inside).sum()),
        float(np.median(later)) if later else np.nan,
        float(np.median(begun)) if begun else np.nan,
    )


def scores(files: Iterable[Path], folder: Path = TRUTH) -> list[Score]:
    """Scores of files of answers, by problem and tool."""
    found = []
    for path in files:
        whole = json.loads(Path(path).read_text())
        by_problem: dict[str, list[Any]] = {}
        for answer in whole["answers"]:
            by_problem.setdefault(answer["problem"], []).append(answer)
        found += [
            scored(name, whole["tool"], rows, truth_of(name, folder))
            for name, rows in by_problem.items()
        ]
    return sorted(found, key=lambda each: (each.problem, each.tool))


HEAD = (
    "problem",
    "tool",
    "records",
    "failures",
    "error",
    "loss",
    "width",
    "coverage [%]",
    "cpu [s]",
    "first [s]",
)


def cells(score: Score) -> tuple[str, ...]:
    """A score as texts; of a refusal its reason."""

    def shown(value: float, form: str = ".2f") -> str:
        return "-" if np.isnan(value) else format(value, form)

    start = (score.problem, score.tool, str(score.records))
    if score.refused:
        return (*start, f"refused: {score.refused}", *["-"] * (len(HEAD) - 4))
    share = "-" if not score.intervals else f"{score.coverage:.0f} of {score.intervals}"
    return (
        *start,
        str(score.failures),
        shown(score.error),
        shown(score.loss),
        shown(score.width),
        share,
        shown(score.cpu, ".2g"),
        shown(score.first, ".2g"),
    )


class Total(NamedTuple):
    """Of one tool on all problems that it was given."""

    tool: str
    problems: int
    refused: int
    records: int
    failures: int
    coverage: float
    intervals: int
    cpu: float
    first: float


def geometric(times: Sequence[float]) -> float:
    """Geometric mean of those that are there."""
    there = [each for each in times if np.isfinite(each)]
    return float(np.exp(np.mean(np.log(there)))) if there else np.nan


def totals(rows: Sequence[Score]) -> list[Total]:
    """A row for each tool; failures and coverage of what it did not refuse."""
    found = []
    for tool in sorted({row.tool for row in rows}):
        own = [row for row in rows if row.tool == tool]
        tried = [row for row in own if not row.refused]
        count = sum(row.intervals for row in tried)
        share = 100.0 * sum(row.inside for row in tried) / count if count else np.nan
        cpu, first = (geometric([getattr(row, key) for row in tried]) for key in ("cpu", "first"))
        found.append(
            Total(
                tool,
                len(own),
                len(own) - len(tried),
                sum(r.records for r in tried),
                sum(r.failures for r in tried),
                share,
                count,
                cpu,
                first,
            )
        )
    return found


TOTAL_HEAD = (
    "tool",
    "problems",
    "refused",
    "records",
    "failures",
    "coverage [%]",
    "cpu [s], geometric mean",
    "first [s]",
)


def total_cells(row: Total) -> tuple[str, ...]:
    share = "-" if np.isnan(row.coverage) else f"{row.coverage:.1f} of {row.intervals}"
    times = ("-" if np.isnan(each) else f"{each:.2g}" for each in (row.cpu, row.first))
    return (
        row.tool,
        str(row.problems),
        str(row.refused),
        str(row.records),
        str(row.failures),
        share,
        *times,
    )


def as_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))
