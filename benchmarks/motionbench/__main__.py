"""python -m motionbench list | write | run | score: see README.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import running, score, suite

HERE = suite.HERE


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m motionbench", description="Problems of motion."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="problems and kinds")
    write = verbs.add_parser("write", help="statements and records as files")
    write.add_argument("folder", type=Path)
    run = verbs.add_parser("run", help="answers of a tool")
    run.add_argument("tool", help="a file with solve(statement, folder), or an adapter by name")
    run.add_argument("--limit", type=float, default=120.0, help="seconds for one record")
    run.add_argument("--python", metavar="FILE", help="interpreter of the tool (default: this one)")
    run.add_argument("--answers", type=Path, help="file (default: answers_TOOL.json)")
    for each in (write, run):
        each.add_argument("--problems", nargs="+", help="names or kinds (default: all)")
        each.add_argument("--records", type=int, default=1, help="100 for a coverage that counts")
    judge = verbs.add_parser("score", help="tables of files of answers")
    judge.add_argument("files", nargs="+", type=Path)
    one = verbs.add_parser("answer", help="(used by run)")
    one.add_argument("tool")
    one.add_argument("folder", type=Path)
    one.add_argument("--limit", type=float, default=120.0)
    keep = verbs.add_parser("keep", help="rewrite data/ and truth/ from the declarations")
    keep.add_argument("--problems", nargs="+")
    given = parser.parse_args()
    if given.verb == "list":
        for name, each in suite.all_problems().items():
            print(f"{name:26s} {', '.join(each.statement['kinds'])}")
    if given.verb == "write":
        suite.write(given.folder, running.checked_names(given.problems), list(range(given.records)))
    if given.verb == "run":
        names = running.checked_names(given.problems)
        found = running.run(given.tool, names, given.records, given.limit, given.python)
        path = given.answers or Path(f"answers_{found['tool']}.json")
        path.write_text(json.dumps(found, indent=0) + "\n")
        print(path, file=sys.stderr)
    if given.verb == "answer":
        running.answer_all(given.tool, given.folder, given.limit)
    if given.verb == "score":
        rows = score.scores(given.files)
        print(score.as_table(score.TOTAL_HEAD, map(score.total_cells, score.totals(rows))))
        print()
        print(score.as_table(score.HEAD, map(score.cells, rows)))
    if given.verb == "keep":
        keep_all(running.checked_names(given.problems))


def keep_all(names: list[str]) -> None:
    """The files of the repository: statements with record 0, and, apart, the truth."""
    from .bounds import least_standard_errors

    (HERE / "truth").mkdir(exist_ok=True)
    for name in names:
        problem = suite.all_problems()[name]
        large = "10^5 samples" in problem.statement["kinds"]  # its records are made when needed
        suite.write(HERE / "data", [name], [] if large else [0])
        truth = {
            **problem.truth,
            "least_standard_errors": running.plain(least_standard_errors(name)),
        }
        (HERE / "truth" / f"{name}.json").write_text(suite.as_json(truth))


if __name__ == "__main__":
    main()
