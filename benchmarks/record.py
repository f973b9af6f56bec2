"""What a benchmark measured last, kept beside the scripts as JSON: machine, command, date, tables.

One is kept for each set of instructions: that of AVX-512 as `records/NAME.json`, others beside it,
as `records/NAME.avx2.json`.

python benchmarks/record.py NAME      # its tables, of all sets of instructions
python benchmarks/record.py           # the list of all records into README.md
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "records"
README = HERE / "README.md"
#: Sets of instructions that kernels are made for, the widest first, and what a processor needs.
INSTRUCTIONS = {
    "AVX-512": {"avx512f", "avx512dq", "avx512vl"},
    "AVX2": {"avx2", "fma"},
    "SSE2": {"sse2"},
    "NEON": {"asimd"},
}
NOT_STATED = "not stated"  # in records of before it was
BEGIN, END = "<!-- records: begin -->", "<!-- records: end -->"


@dataclass(frozen=True)
class Table:
    """Cells of a table as they are shown; as text it is Markdown."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        rule = ["---" if k == 0 else "---:" for k in range(len(self.header))]
        return "\n".join(f"| {' | '.join(line)} |" for line in (self.header, rule, *self.rows))


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """A table of texts."""
    return Table(tuple(header), tuple(map(tuple, lines)))


@dataclass(frozen=True)
class Record:
    """A measurement. script : in benchmarks/. machine : with the set of instructions, compiler,
    versions of packages, load.
    date, commit : when and of which sources. parts : paragraphs and tables in their order."""

    script: str
    machine: str
    command: str
    date: str
    commit: str
    parts: tuple[str | Table, ...]

    def __str__(self) -> str:
        about = (
            f"Made by `{self.command}` on {self.date}, commit {self.commit}; "
            f"instructions: {self.instructions}."
        )
        return "\n\n".join(map(str, (f"Machine: {self.machine}.", about, *self.parts)))

    @property
    def name(self) -> str:
        """The script without its ending."""
        return Path(self.script).stem

    @property
    def instructions(self) -> str:
        """The set of instructions of the machine."""
        words = self.machine.split(", ")
        return next((name for name in INSTRUCTIONS if name in words), NOT_STATED)

    @property
    def file(self) -> str:
        """Name of its file."""
        plain = self.instructions in (NOT_STATED, next(iter(INSTRUCTIONS)))
        return f"{self.name}.json" if plain else f"{self.name}.{self.instructions.lower()}.json"

    @property
    def tables(self) -> list[Table]:
        """Its tables in their order."""
        return [part for part in self.parts if isinstance(part, Table)]

    def to_json(self) -> str:
        """Text with a line for each row of a table."""
        head = {k: v for k, v in vars(self).items() if k != "parts"}
        lines = [
            f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}," for k, v in head.items()
        ]
        parts = ",\n".join(map(_part, self.parts))
        return "\n".join(["{", *lines, f'  "parts": [\n{parts}\n  ]', "}"]) + "\n"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _part(part: str | Table) -> str:
    """A part of a record as JSON."""
    if isinstance(part, str):
        return f"    {_text(part)}"
    header, *rows = map(_text, (part.header, *part.rows))
    inner = ",\n".join(f"        {row}" for row in rows)
    return f'    {{\n      "header": {header},\n      "rows": [\n{inner}\n      ]\n    }}'


def now(name: str, words: str, parts: Sequence[str | Table]) -> Record:
    """The record of what this process has just measured; words : on the machine. Paths of the
    machine are PATH in the command."""
    arguments = [re.sub(r"^([^/]*=)?/.*", r"\1PATH", each) for each in sys.argv[1:]]
    command = shlex.join(["python", f"benchmarks/{name}.py", *arguments])
    return Record(f"{name}.py", words, command, time.strftime("%Y-%m-%d"), commit(), tuple(parts))


def commit() -> str:
    """Of the sources, with a word if they have changed since; "unknown" outside a repository."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--exclude=*", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def read(name: str) -> list[Record]:
    """The records of a benchmark that are kept, that of the widest instructions first."""
    rank = [NOT_STATED, *INSTRUCTIONS]
    found = [_read(path) for path in FOLDER.glob("*.json") if path.name.split(".")[0] == name]
    return sorted(found, key=lambda record: rank.index(record.instructions))


def _read(path: Path) -> Record:
    found = json.loads(path.read_text(encoding="utf-8"))
    parts = [
        part if isinstance(part, str) else table(part["header"], part["rows"])
        for part in found.pop("parts")
    ]
    return Record(**found, parts=tuple(parts))


def names() -> list[str]:
    """Benchmarks that have records."""
    return sorted({path.name.split(".")[0] for path in FOLDER.glob("*.json")})


def keep(record: Record) -> None:
    """Write a record in place of the last one of these instructions, and the list in the README."""
    (FOLDER / record.file).write_text(record.to_json(), encoding="utf-8")
    README.write_text(listed(README.read_text(encoding="utf-8")), encoding="utf-8")


def listed(text: str) -> str:
    """The README with the list of all records between its markers, and the machine they share."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{README.name} has no pair of markers {BEGIN} {END}")
    records = [record for name in names() for record in read(name)]
    shared = [
        word
        for word in records[0].machine.split(", ")
        if all(word in record.machine.split(", ") for record in records)
    ]
    lines = [
        [
            f"[{r.name}](records/{r.name}.md)",
            question(r.name),
            f"`{r.command}`",
            r.instructions,
            r.date,
            r.commit,
        ]
        for r in records
    ]
    made = table(["record", "question", "command", "instructions", "date", "commit"], lines)
    return f"{before}{BEGIN}\n\nMachine of all: {', '.join(shared)}.\n\n{made}\n\n{END}{after}"


def question(name: str) -> str:
    """The first paragraph of a benchmark's docstring."""
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = names()
    parser.add_argument("name", nargs="?", choices=known, metavar="NAME", help=", ".join(known))
    given = parser.parse_args()
    if given.name:
        print(*read(given.name), sep="\n\n")
    else:
        README.write_text(listed(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
