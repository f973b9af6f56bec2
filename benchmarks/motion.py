"""How do tools do on problems of motion with known truth: errors, coverage, time, failures?

The suite is `motionbench/`, which knows nothing of kinesym; here its adapters answer in turns.
Answers are kept, so that what has been answered is not answered again.

    python benchmarks/motion.py [--tools kinesym:10 casadi:10 scipy:2] [--problems NAME] [--write]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from motionbench import running, score
from record import table
from report import leave, machine, parsed

#: Of the whole table, in a minute.
QUICK = ["knee_swing", "bouncing_ball", "arm_masses", "cart_pole"]
FOLDER = Path(__file__).parent.parent / "build" / "motionbench"


def answered(tool: str, names: list[str], records: int, limit: float, folder: Path) -> Path:
    """The file of answers of a tool to these problems, what is missing added; as it is for 0."""
    path = folder / f"{tool}.json"
    if not records:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text())["answers"] if path.exists() else []
    for name in names:
        old = [row for row in kept if row["problem"] == name and row["record"] < records]
        if len(old) < records:
            found = running.run(tool, [name], records - len(old), limit, len(old))
            kept = [row for row in kept if row["problem"] != name] + old + found["answers"]
            path.write_text(json.dumps({**found, "answers": kept}, indent=0))
    return path


def main() -> None:
    """Answer what is missing, score it, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", nargs="+", default=["kinesym:10", "casadi:10", "scipy:2"])
    parser.add_argument("--problems", nargs="+", help="names or kinds")
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds of CPU time for a record"
    )
    parser.add_argument("--answers", type=Path, default=FOLDER, help="where answers are kept")
    asked = parsed(parser)
    names = running.checked_names(QUICK if asked.quick else asked.problems)
    rows = []
    for each in asked.tools:
        tool, _, count = each.partition(":")
        path = answered(
            tool, names, 1 if asked.quick else int(count or 1), asked.limit, asked.answers
        )
        rows += [row for row in score.scores([path]) if row.problem in names]
    rows.sort(key=lambda row: (names.index(row.problem), row.tool))
    whole = table(score.TOTAL_HEAD, map(score.total_cells, score.totals(rows)))
    words = f"{len(names)} problems; at most {asked.limit:g} s of CPU time for a record."
    each = table(score.HEAD, map(score.cells, rows))
    leave(
        asked,
        "motion",
        machine("casadi", "scipy"),
        [words, whole, each],
        [r._asdict() for r in rows],
    )


if __name__ == "__main__":
    main()
