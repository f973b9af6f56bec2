"""C3D files, read by ezc3d in a process of its own: damaged ones crash that library, hang it, or
let it take all memory, and checks from outside would have to foresee all that it believes.

This file is also the program of that process. It imports nothing of kinesym and starts in 0.2 s.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

#: Memory that the process may take for any file [B].
MEMORY = 1 << 30
#: Memory that it may take per byte of the file [B]; whole files need about 10.
PER_BYTE = 40
#: Processor time that the process may take for any file [s].
SECONDS = 10.0
#: Processor time that it may take per byte of the file [s]; whole files need 5e-8 s.
SECONDS_PER_BYTE = 2e-6

#: Runs this file with the modules that are found here, and none of the current folder.
_START = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
#: Limits of threads: each thread of OpenBLAS would reserve memory.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def content(path: str | Path) -> dict[str, Any]:
    """Content of a C3D file: `points` (3, M, N) with NaN where they are missing, `names`, `unit`,
    `rate` and `first` frame; of the `plates`, that many, `kinds`, `analog_rate`, frames of their
    `zero`, `units` of their sixth channels, and of plate k `channels_k` (C, F), `origin_k` (3,),
    `corners_k` (3, 4) and `matrix_k` (C, C); all but the first are empty where the file does not
    have them. `descriptions` are of the points; `axes` and `screen` declare the upward axis. `said`
    and `frames` are the numbers of frames of its header and of those that are there. `results`
    (3, R, N) of models have `result_names`, `result_kinds` and units `result_units` by kind;
    `events` are [instant, context, label]; `person` are numbers by their names in small letters.

    Raises `FileNotFoundError`, `NotInstalled` without ezc3d, and `ValueError` for files that cannot
    be read as C3D.
    """
    from kinesym.base.extras import check_installed  # here: the program imports nothing of kinesym

    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    check_installed("ezc3d")
    size = Path(path).stat().st_size
    limits = {"memory": MEMORY + PER_BYTE * size, "seconds": SECONDS + SECONDS_PER_BYTE * size}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "content.npz"
        program = [sys.executable, "-I", "-c", _START, __file__]
        given = [json.dumps(sys.path, default=str), str(path), str(made), json.dumps(limits)]
        try:
            done = subprocess.run(
                [*program, *given],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10.0 * limits["seconds"],
                env=os.environ | _ONE_THREAD,
            )
            reason = _reason(done.returncode, done.stderr.decode(errors="replace"))
        except subprocess.TimeoutExpired:  # where processor time cannot be limited
            reason = _SLOW
        if reason:
            raise ValueError(f"{path} cannot be read as C3D: {reason}")
        with np.load(made) as arrays:
            found: dict[str, Any] = dict(arrays)
    facts = json.loads(str(found.pop("facts")))
    if "error" in facts:
        raise ValueError(f"{path} cannot be read as C3D: {facts['error']}")
    return found | facts


_SLOW = "it takes too long, as damaged files do"


def _reason(code: int, told: str) -> str:
    """Reason why the process failed, nothing if it did not."""
    if code == 0:
        return ""
    if -code == getattr(signal, "SIGXCPU", None):
        return _SLOW
    if "MemoryError" in told or "bad_alloc" in told:
        return _LARGE
    last = told.strip().splitlines()[-1:] or ["no word"]
    return f"the library for it ended with status {code} ({last[0]}); the file seems to be damaged"


_LARGE = "it asks for much more memory than its length explains; it seems to be damaged"


# -- the program ----------------------------------------------------------------------------------


def main(path: str, made: str, limits: str) -> None:
    """Read a file and write its content, or the reason why it cannot be read."""
    _limit(**json.loads(limits))
    arrays: dict[str, Any] = {}
    try:
        arrays, facts = _read(path)
    except Exception as error:  # the library raises several kinds, from C++ too
        large = isinstance(error, MemoryError) or "bad_alloc" in str(error)
        facts = {"error": _LARGE if large else str(error) or type(error).__name__}
    np.savez(made, facts=np.array(json.dumps(facts)), **arrays)


def _limit(memory: int, seconds: float) -> None:
    """Limit memory [B] and CPU time [s] of this process, if the system can."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, int(seconds))):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (limit if hard < 0 else min(limit, hard), hard))


#: Parameters of POINT that name what is no marker: results of models, in other units.
_RESULTS = ("ANGLES", "FORCES", "MOMENTS", "POWERS", "SCALARS", "REACTIONS")
#: Groups of parameters that describe the person, as programs name them.
_PERSON = ("PROCESSING", "SUBJECTS", "SUBJECT")


def _read(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts; see `content`."""
    import ezc3d

    file = ezc3d.c3d(path)
    plates = int(_parameter(file, "FORCE_PLATFORM", "USED", [0])[0])
    points, header = file["data"]["points"], file["header"]
    names = _listed(file, "LABELS")[: points.shape[1]]
    results = {name: kind for kind in _RESULTS for name in _listed(file, kind)}
    markers = [k for k, name in enumerate(names) if name not in results]
    others = [k for k, name in enumerate(names) if name in results]
    missing = file["data"]["meta_points"]["residuals"][0] < 0.0
    units = {kind: _parameter(file, "POINT", f"{kind[:-1]}_UNITS", [""]) for kind in _RESULTS}
    said, there = _frames(path, file)
    descriptions = [*_listed(file, "DESCRIPTIONS"), *[""] * len(names)]
    facts = {
        "names": [names[k] for k in markers],
        "descriptions": [descriptions[k] for k in markers],
        "axes": str([*_parameter(file, "KINESYM", "AXES", []), ""][0]),
        "screen": str([*_parameter(file, "POINT", "Y_SCREEN", []), ""][0]),
        "rate": header["points"]["frame_rate"],
        "first": header["points"]["first_frame"],
        "analog_rate": header["analogs"]["frame_rate"],
        "unit": str([*_parameter(file, "POINT", "UNITS", []), "m"][0]).lower(),
        "kinds": [int(kind) for kind in _parameter(file, "FORCE_PLATFORM", "TYPE", [])],
        "zero": [int(frame) for frame in _parameter(file, "FORCE_PLATFORM", "ZERO", [])],
        "said": said,
        "frames": min(there, points.shape[2]),
        "plates": plates,
        "units": [],
        "result_names": [names[k] for k in others],
        "result_kinds": [results[names[k]].lower() for k in others],
        "result_units": {kind.lower(): str(said[0]) for kind, said in units.items()},
        "events": _events(file),
        "person": _person(file),
    }
    seen = np.where(missing, np.nan, points[:3])
    arrays = {"points": seen[:, markers], "results": seen[:, others]}
    for k in range(plates):
        parts, unit = _plate(file, k)
        arrays |= {f"{name}_{k}": part for name, part in parts.items()}
        facts["units"].append(unit)
    return arrays, facts


def _listed(file: Any, name: str) -> list[str]:
    """Names of a parameter of POINT and those that continue it, 255 each."""
    more = [name, *(f"{name}{k}" for k in range(2, 10))]
    return [text for each in more for text in _parameter(file, "POINT", each, [])]


def _events(file: Any) -> list[tuple[float, str, str]]:
    """Instants [s] of events in order, and the contexts and labels that they have."""
    texts = [_parameter(file, "EVENT", name, []) for name in ("CONTEXTS", "LABELS")]
    times = np.asarray(_parameter(file, "EVENT", "TIMES", np.zeros((2, 0))), float)
    times = times[: len(times) // 2 * 2].reshape(2, -1, order="F")  # minutes and seconds
    count = min(int(_parameter(file, "EVENT", "USED", [times.shape[1]])[0]), *map(len, texts))
    instants = (60.0 * times[0] + times[1])[:count].tolist()
    contexts, labels = (map(str, row[:count]) for row in texts)
    return sorted(zip(instants, contexts, labels, strict=True))


def _person(file: Any) -> dict[str, float]:
    """Numbers that describe the person, by name in small letters."""
    found = {}
    for group in file["parameters"]:
        for name in file["parameters"][group] if group.upper() in _PERSON else ():
            value = _parameter(file, group, name, [""]) if not name.startswith("__") else [""]
            try:
                found[name.lower()] = float(value[0])
            except (TypeError, ValueError):
                continue
    return found


def _plate(file: Any, k: int) -> tuple[dict[str, Any], str]:
    """Parameters and channels of force plate k, and the unit of its last channel."""
    analogs = file["data"]["analogs"][0]
    parts = {"channels": np.zeros((0, analogs.shape[1]))}
    for name, given, size in (("origin", "ORIGIN", 2), ("corners", "CORNERS", 3)):
        values = np.asarray(_parameter(file, "FORCE_PLATFORM", given, np.zeros((0,) * size)), float)
        fits = values.ndim == size and k < values.shape[-1]
        parts[name] = values[..., k] if fits else np.zeros((0,) * (size - 1))
    matrix = np.asarray(
        _parameter(file, "FORCE_PLATFORM", "CAL_MATRIX", np.zeros((0, 0, 0))), float
    )
    fits = matrix.ndim == 3 and k < matrix.shape[2]
    parts["matrix"] = matrix[:, :, k] if fits else np.zeros((0, 0))
    numbers = np.asarray(_parameter(file, "FORCE_PLATFORM", "CHANNEL", np.zeros((0, 0))), int)
    own: Any = numbers[:, k] if numbers.ndim == 2 and k < numbers.shape[1] else []
    used = [int(n) - 1 for n in own if 1 <= n <= len(analogs)]
    parts["channels"] = analogs[used]
    units = [*_parameter(file, "ANALOG", "UNITS", []), *_parameter(file, "ANALOG", "UNITS2", [])]
    return parts, units[used[5]] if len(used) > 5 and used[5] < len(units) else ""


def _frames(path: str, file: Any) -> tuple[int, int]:
    """Numbers of frames: as the header declares, and as the length of the file allows."""
    header = file.c3d_swig.header()
    with open(path, "rb") as stream:
        raw = stream.read(1 << 16).lstrip(b"\0")  # some files begin with zeros
        size = stream.seek(0, os.SEEK_END)
    order = ">" if file.c3d_swig.parameters().processorType() == _MIPS else "<"
    first, last = struct.unpack_from(f"{order}HH", raw, 6)
    width = 4 if _parameter(file, "POINT", "SCALE", [-1.0])[0] < 0.0 else 2
    per_frame = width * (4 * header.nb3dPoints() + header.nbAnalogsMeasurement())
    there = (size - 512 * (header.dataStart() - 1)) // max(per_frame, 1)
    return last - first + 1, max(there, 0)


_MIPS = 86


def _parameter(file: Any, group: str, name: str, default: Any) -> Any:
    """Parameter of the file, or a default if it has none."""
    found = file["parameters"].get(group, {}).get(name)
    return default if found is None or not len(found["value"]) else found["value"]


if __name__ == "__main__":
    main(*sys.argv[3:])
