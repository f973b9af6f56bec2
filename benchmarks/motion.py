"""How do tools do on problems of motion with known truth: errors, coverage, time, failures?

The suite is `motionbench/`, which knows nothing of kinesym; here its adapters answer in turns.

    python benchmarks/motion.py [--tools kinesym:10 casadi:10 scipy:2] [--problems NAME]
        [--python pypesto=FILE ...] [--resume] [--write]
"""

from __future__ import annotations

import argparse
from typing import Any

from motionbench import running, score
from record import table
from report import leave, machine, parsed
from rows import kept, remarks

#: Of the whole table, in a minute.
QUICK = ["knee_swing", "bouncing_ball", "arm_masses", "cart_pole"]


def answers(
    name: str, tool: str, records: int, limit: float, python: str | None
) -> list[dict[str, Any]]:
    """Answers of a tool to records of a problem."""
    return running.run(tool, [name], records, limit, python)["answers"]


def main() -> None:
    """Answer, score, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", nargs="+", default=["kinesym:10", "casadi:10", "scipy:2"])
    parser.add_argument("--problems", nargs="+", help="names or kinds")
    parser.add_argument(
        "--python", nargs="+", default=[], metavar="TOOL=FILE", help="interpreters of other tools"
    )
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds of CPU time for a record"
    )
    asked = parsed(parser)
    names = running.checked_names(QUICK if asked.quick else asked.problems)
    pythons = dict(pair.split("=", 1) for pair in asked.python)
    tools = {tool: int(count or 1) for tool, _, count in (t.partition(":") for t in asked.tools)}
    tasks = [
        (name, tool, 1 if asked.quick else count, asked.limit, pythons.get(tool))
        for tool, count in tools.items()
        for name in names
    ]
    found = list(kept(asked, "motion", answers, tasks))
    rows = [
        score.scored(*each.task[:2], each.value, score.truth_of(each.task[0]))
        for each in found
        if not each.failure
    ]
    rows.sort(key=lambda row: (names.index(row.problem), row.tool))
    whole = table(score.TOTAL_HEAD, map(score.total_cells, score.totals(rows)))
    words = f"{len(names)} problems; at most {asked.limit:g} s of CPU time for a record."
    each = table(score.HEAD, map(score.cells, rows))
    leave(
        asked,
        "motion",
        machine("casadi", "scipy"),
        [words, *remarks(found), whole, each],
        [r._asdict() for r in rows],
    )


if __name__ == "__main__":
    main()
