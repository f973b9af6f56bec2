"""Text files of OpenSim, written in all digits: TRC, MOT and STO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kinesym.base.checks import check_choice
from kinesym.base.files import replacing
from kinesym.gait.axes import UNITS, rotation, said_axes
from kinesym.runtime.arrays import Array


def write_trc(
    path: str | Path,
    time: Array,
    positions: Mapping[str, Array],
    rate: float,
    unit: str,
    up: str,
    forward: str,
) -> None:
    """Markers (3, N) in world axes [m] as a TRC file; missing samples are empty cells."""
    check_choice(unit, UNITS, "unit")
    names, size = list(positions), len(time)
    back = rotation(up, forward).T / UNITS[unit]
    rows = np.vstack([np.arange(1.0, size + 1), time, *(back @ positions[name] for name in names)])
    facts = {
        "DataRate": f"{rate:.17g}",
        "CameraRate": f"{rate:.17g}",
        "NumFrames": size,
        "NumMarkers": len(names),
        "Units": unit,
        "OrigDataRate": f"{rate:.17g}",
        "OrigDataStartFrame": 1,
        "OrigNumFrames": size,
    }
    axes = [f"{axis}{k}" for k in range(1, len(names) + 1) for axis in "XYZ"]
    head = [
        f"PathFileType\t4\t(X/Y/Z)\t{Path(path).name}\t{said_axes(up, forward)}",
        "\t".join(facts),
        "\t".join(map(str, facts.values())),
        "\t".join(["Frame#", "Time", *(f"{name}\t\t" for name in names)]),
        "\t".join(["", "", *axes]),
        "",
    ]
    _write(path, head, rows, "")


def write_storage(
    path: str | Path,
    time: Array,
    columns: Mapping[str, Array],
    degrees: bool,
    axes: tuple[str, str] | None = None,
) -> None:
    """Columns (N,) over time as a MOT or STO file. axes : up and forwards, of those of vectors."""
    for name in columns:
        if len(name.split()) != 1:
            raise ValueError(f"the file cannot hold the name {name!r}; rename it without blanks")
    head = [
        Path(path).stem,
        "version=1",
        f"nRows={len(time)}",
        f"nColumns={len(columns) + 1}",
        f"inDegrees={'yes' if degrees else 'no'}",
        *([f"axes={said_axes(*axes)}"] if axes else []),
        "endheader",
        "\t".join(["time", *columns]),
    ]
    _write(path, head, np.vstack([time, *columns.values()]), "nan")


def _write(path: str | Path, head: list[str], rows: Array, missing: str) -> None:
    """Lines, then the columns of rows (k, N); frames and other whole numbers stay whole."""
    cells = [[f"{x:.17g}" if x == x else missing for x in row] for row in rows.T.tolist()]
    with replacing(path) as beside:
        lines = [*head, *("\t".join(row) for row in cells)]
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
