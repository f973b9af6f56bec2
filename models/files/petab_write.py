"""Files of a problem in PEtab, written again with other nominal values."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kinesym.models.files.petab import files_of

#: Entries of versions 1 and 2 that name the tables of parameters.
_PARAMETERS = ("parameter_file", "parameter_files")


def written_again(
    path: Path, entries: Mapping[str, Any], folder: Path, values: Mapping[str, float]
) -> Path:
    """Copy the YAML file of a problem and the files that it names into a folder, with these nominal
    values in the table of parameters. Returns the path of the new YAML file. Raises `ValueError`
    for the folder of the problem itself."""
    home = path.parent.resolve()
    if folder.resolve() == home:
        raise ValueError(f"{folder} is the folder of the problem; give another one")
    tables = {file.resolve() for key in _PARAMETERS for file in files_of(path.parent, entries, key)}
    for source in [path.resolve(), *(home / name for name in _names(entries))]:
        if not (source.is_file() and source.is_relative_to(home)):
            continue
        target = folder / source.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source in tables:
            _write_values(source, target, values)
        else:
            shutil.copyfile(source, target)
    return folder / path.name


def _names(entry: Any) -> Iterator[str]:
    """Texts within an entry, at any depth, which may be names of files."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, Mapping | list):
        for part in entry.values() if isinstance(entry, Mapping) else entry:
            yield from _names(part)


def _write_values(source: Path, target: Path, values: Mapping[str, float]) -> None:
    with source.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    columns = list(dict.fromkeys([*rows[0], "nominalValue"])) if rows else ["parameterId"]
    for row in rows:
        if row["parameterId"] in values:
            row["nominalValue"] = repr(float(values[row["parameterId"]]))
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
