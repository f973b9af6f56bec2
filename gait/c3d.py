"""C3D files as bytes: header, parameters and samples, and force plates as these describe them,
after the manual of the format (c3d.org).

Vendors differ in what they leave out and how numbers are stored; what the header says is the layout
of samples, and parameters that it contradicts are not used for it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinesym.runtime.arrays import Array

#: Bytes of a block, in which places are counted.
BLOCK = 512
#: Processor that wrote the numbers, as the file has it: of Intel.
INTEL = 84
#: The same of DEC.
DEC = 85
#: The same of MIPS, as of SGI.
MIPS = 86
#: Largest number of a frame that the header holds, written for all that are larger.
LAST = 65535

#: Parameters of POINT that name what is no marker: results of models, in other units.
_RESULTS = ("ANGLES", "FORCES", "MOMENTS", "POWERS", "SCALARS", "REACTIONS")
#: Groups of parameters that describe the person, as programs name them.
_PERSON = ("PROCESSING", "SUBJECTS", "SUBJECT")

#: Values of parameters by group and name, in capitals: lists of texts, or arrays.
Parameters = Mapping[str, Mapping[str, Any]]


def content(path: str | Path) -> dict[str, Any]:
    """Content of a C3D file: `points` (3, M, N) with NaN where they are missing, `names`, `unit`,
    `rate` and `first` frame; `analog_rate`, frames of the `zero` of plates, and of each of the
    `plates` its `kind`, `channels` (C, F), `origin` (3,), `corners` (3, 4), `matrix` (C, C) and
    `unit` of its sixth channel; 0 or empty where the file does not have them. `descriptions` are of
    the points; `axes` and `screen` declare the upward axis. `said` and `frames` are the numbers of
    frames of its header and of those that are there. `results` (3, R, N) of models have
    `result_names`, `result_kinds` and units `result_units` by kind; `events` are [instant, context,
    label]; `person` are numbers by their names in small letters. `unnamed` points have no label,
    and `rotations` are names of segments whose poses are there.

    Raises `FileNotFoundError`, and `ValueError` for files that cannot be read as C3D.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    raw = Path(path).read_bytes().lstrip(b"\0")  # some files begin with zeros
    try:
        return _content(raw)
    except (ValueError, IndexError, struct.error, OverflowError) as error:
        raise ValueError(f"{path} cannot be read as C3D: {error}; is it damaged?") from error


def _content(raw: bytes) -> dict[str, Any]:
    if len(raw) < BLOCK or raw[1] != 80:
        raise ValueError("its first block is no header of C3D")
    place = BLOCK * (raw[0] - 1)
    processor = raw[place + 3] if 0 < place < len(raw) - 4 else 0
    if processor not in (INTEL, DEC, MIPS):
        raise ValueError(f"its parameters are of no known processor, {processor}")
    facts = _parameters(raw, place, processor)
    points, analogs, head = _samples(raw, processor, facts)
    names = _listed(facts, "LABELS")[: points.shape[1]]
    results = {name: kind for kind in _RESULTS for name in _listed(facts, kind)}
    markers = [k for k, name in enumerate(names) if name not in results]
    others = [k for k, name in enumerate(names) if name in results]
    units = {kind: _parameter(facts, "POINT", f"{kind[:-1]}_UNITS", [""]) for kind in _RESULTS}
    descriptions = [*_listed(facts, "DESCRIPTIONS"), *[""] * len(names)]
    plates = int(_parameter(facts, "FORCE_PLATFORM", "USED", [0])[0])
    return {
        "names": [names[k] for k in markers],
        "unnamed": points.shape[1] - len(names),
        "rotations": [*map(str, _parameter(facts, "ROTATION", "LABELS", []))],
        "descriptions": [descriptions[k] for k in markers],
        "axes": str([*_parameter(facts, "KINESYM", "AXES", []), ""][0]),
        "screen": str([*_parameter(facts, "POINT", "Y_SCREEN", []), ""][0]),
        "rate": head.rate,
        "first": head.first - 1,
        "analog_rate": head.rate * head.per_frame,
        "unit": str([*_parameter(facts, "POINT", "UNITS", []), "m"][0]).lower(),
        "zero": [int(frame) for frame in _parameter(facts, "FORCE_PLATFORM", "ZERO", [])],
        "said": head.frames,
        "frames": points.shape[2],
        "plates": [_plate(facts, analogs, k) for k in range(plates)],
        "result_names": [names[k] for k in others],
        "result_kinds": [results[names[k]].lower() for k in others],
        "result_units": {kind.lower(): str(said[0]) for kind, said in units.items()},
        "events": _events(facts),
        "person": _person(facts),
        "points": points[:, markers],
        "results": points[:, others],
    }


# -- parameters -----------------------------------------------------------------------------------


def _parameters(raw: bytes, place: int, processor: int) -> Parameters:
    """Parameters by group and name."""
    order, at = ">" if processor == MIPS else "<", place + 4
    groups: dict[int, str] = {}
    rows: list[tuple[int, str, Any]] = []
    while at + 4 < len(raw):
        length, number = struct.unpack_from("bb", raw, at)
        start = at + 2 + abs(length)  # negative of those that programs should not change
        if not length or start + 2 > len(raw):
            break
        name = _text(raw[at + 2 : start]).upper()
        (ahead,) = struct.unpack_from(f"{order}H", raw, start)
        if number < 0:
            groups[-number] = name
        else:
            rows.append((number, name, _value(raw, start + 2, processor)))
        if ahead < 2:
            break
        at = start + ahead
    found: dict[str, dict[str, Any]] = {}
    for number, name, value in rows:
        found.setdefault(groups.get(number, ""), {})[name] = value
    return found


def _value(raw: bytes, at: int, processor: int) -> Any:
    """Texts or an array, of at least one dimension."""
    kind, count = struct.unpack_from("bB", raw, at)
    sizes, start = [*raw[at + 2 : at + 2 + count]], at + 2 + count
    items = int(np.prod(sizes))
    part = raw[start : start + abs(kind) * items]
    if kind == -1:
        length = sizes[0] if sizes else 1
        texts = range(0, items if length else 0, max(length, 1))
        return [_text(part[k : k + length]).strip() for k in texts]
    if kind not in (1, 2, 4) or len(part) < kind * items:
        raise ValueError(f"a parameter is of no known kind, {kind}, or cut short")
    values = _reals(part, processor) if kind == 4 else _integers(part, processor, kind)
    return np.atleast_1d(values.reshape(sizes, order="F"))


def _text(part: bytes) -> str:
    try:
        return part.decode().rstrip("\0")
    except UnicodeDecodeError:
        return part.decode("latin-1").rstrip("\0")


def _reals(part: bytes, processor: int) -> Array:
    """Numbers of 32 bits; those of DEC have exchanged halves, and are four times as large."""
    if processor == DEC:
        halves = np.frombuffer(part, "<u2").reshape(-1, 2)[:, ::-1]
        return np.ascontiguousarray(halves).view("<f4").ravel().astype(np.float64) / 4.0
    return np.frombuffer(part, ">f4" if processor == MIPS else "<f4").astype(np.float64)


def _integers(part: bytes, processor: int, size: int = 2) -> Array:
    return np.frombuffer(part, f"{'>' if processor == MIPS else '<'}i{size}").astype(np.float64)


def _parameter(facts: Parameters, group: str, name: str, default: Any) -> Any:
    """Parameter of the file, or a default if it has none."""
    found = facts.get(group, {}).get(name, ())
    return found if len(found) else default


def _listed(facts: Parameters, name: str, group: str = "POINT") -> list[Any]:
    """Values of a parameter and those that continue it, 255 each."""
    more = [name, *(f"{name}{k}" for k in range(2, 10))]
    return [one for each in more for one in _parameter(facts, group, each, [])]


# -- samples --------------------------------------------------------------------------------------


class _Head(NamedTuple):
    """Layout of samples: numbers of points, analog channels and their samples per frame, frames
    that are said to be there, the number of the first of them, scale, first byte, and rate."""

    points: int
    channels: int
    per_frame: int
    frames: int
    first: int
    scale: float
    start: int
    rate: float


def _head(raw: bytes, processor: int, facts: Parameters) -> _Head:
    order = ">" if processor == MIPS else "<"
    points, analog, first, last, _ = struct.unpack_from(f"{order}5H", raw, 2)
    start, per_frame = struct.unpack_from(f"{order}2H", raw, 16)
    scale, rate = (float(_reals(raw[at : at + 4], processor)[0]) for at in (12, 20))
    used = int(_parameter(facts, "ANALOG", "USED", [0])[0])
    if used > 0 and used * per_frame != analog and analog % used == 0:
        per_frame = analog // used
    if analog and (not per_frame or analog % per_frame):
        raise ValueError(
            f"its header has {analog} analog samples in a frame, {per_frame} of each channel"
        )
    begin, end = (_field(facts, f"ACTUAL_{name}_FIELD") for name in ("START", "END"))
    if LAST in (first, last) or max(begin, end) > LAST:  # more than the header holds
        first = begin or first
        longer = [_parameter(facts, "POINT", name, [0])[0] for name in ("LONG_FRAMES", "FRAMES")]
        last = max(end, first + int(max(longer)) - 1, last)
    if not scale:
        scale = float(_parameter(facts, "POINT", "SCALE", [-1.0])[0])
    channels = analog // per_frame if per_frame else 0
    place = BLOCK * (start - 1)
    if place < BLOCK:
        raise ValueError("its header does not tell where samples begin")
    return _Head(points, channels, per_frame, last - first + 1, first, scale, place, rate)


def _field(facts: Parameters, name: str) -> int:
    """Number of a frame in two words, 0 if it is not there."""
    low, high = [*_parameter(facts, "TRIAL", name, [0, 0]), 0][:2]
    return int(low) % (LAST + 1) + (LAST + 1) * (int(high) % (LAST + 1))


def _samples(raw: bytes, processor: int, facts: Parameters) -> tuple[Array, Array, _Head]:
    """Points (3, M, N), NaN where they are missing, analog channels (C, N K), and the layout."""
    head = _head(raw, processor, facts)
    real = head.scale < 0.0
    width, row = 4 if real else 2, 4 * head.points + head.channels * head.per_frame
    there = (len(raw) - head.start) // max(width * row, 1)
    if head.first + head.frames - 1 == LAST and not _parameter(facts, "ROTATION", "LABELS", []):
        padding = len(raw) - len(raw.rstrip(b"\0"))  # the file tells how many, up to its last block
        head = head._replace(frames=there - min(padding, BLOCK) // max(width * row, 1))
    count = max(min(head.frames, there), 0)
    part = raw[head.start : head.start + count * width * row]
    values = _reals(part, processor) if real else _integers(part, processor)
    values = values.reshape(count, row)
    quads = values[:, : 4 * head.points].reshape(count, head.points, 4)
    points = quads[..., :3] * (1.0 if real else head.scale)
    points[quads[..., 3] < 0.0] = np.nan
    analogs = values[:, 4 * head.points :].reshape(count * head.per_frame, head.channels).T
    return points.transpose(2, 1, 0).copy(), _scaled(analogs, facts, real), head


def _scaled(analogs: Array, facts: Parameters, real: bool) -> Array:
    """Analog channels (C, F) in their units."""
    count = len(analogs)
    scales = np.array([*_listed(facts, "SCALE", "ANALOG"), *[1.0] * count][:count], float)
    offsets = np.array([*_listed(facts, "OFFSET", "ANALOG"), *[0] * count][:count], float)
    said = str([*_parameter(facts, "ANALOG", "FORMAT", []), ""][0]).upper()
    if said.startswith("UNSIGNED") and not real:
        analogs, offsets = analogs % (LAST + 1), offsets % (LAST + 1)
    general = float(_parameter(facts, "ANALOG", "GEN_SCALE", [1.0])[0])
    return (analogs - offsets[:, None]) * (general * scales)[:, None]


# -- what they mean -------------------------------------------------------------------------------


def _events(facts: Parameters) -> list[tuple[float, str, str]]:
    """Instants [s] of events in order, and the contexts and labels that they have."""
    labels = _listed(facts, "LABELS", "EVENT")
    contexts = [*_listed(facts, "CONTEXTS", "EVENT"), *[""] * len(labels)]
    parts = [_parameter(facts, "EVENT", f"TIMES{k}", np.zeros(0)) for k in ("", *range(2, 10))]
    times = np.concatenate([np.asarray(part, float).ravel(order="F") for part in parts])
    times = times[: len(times) // 2 * 2].reshape(2, -1, order="F")  # minutes and seconds
    count = min(int(_parameter(facts, "EVENT", "USED", [times.shape[1]])[0]), len(labels))
    instants = (60.0 * times[0] + times[1])[: max(count, 0)].tolist()
    return sorted(zip(instants, contexts, labels, strict=False))


def _person(facts: Parameters) -> dict[str, float]:
    """Numbers that describe the person, by name in small letters."""
    found = {}
    for group in _PERSON:
        for name in facts.get(group, {}):
            try:
                found[name.lower()] = float(_parameter(facts, group, name, [""])[0])
            except (TypeError, ValueError):
                continue
    return found


def _plate(facts: Parameters, analogs: Array, k: int) -> dict[str, Any]:
    """Parameters and channels of force plate k, and the unit of its last channel."""

    def of_plate(name: str, size: int) -> Array:
        values = np.asarray(_parameter(facts, "FORCE_PLATFORM", name, np.zeros((0,) * size)))
        fits = values.ndim == size and k < values.shape[-1]
        return values[..., k].astype(float) if fits else np.zeros((0,) * (size - 1))

    kind, units = of_plate("TYPE", 1), _listed(facts, "UNITS", "ANALOG")
    used = [int(n) - 1 for n in of_plate("CHANNEL", 2) if 1 <= n <= len(analogs)]
    return {
        "kind": int(kind) if kind.size else 0,
        "channels": analogs[used],
        "origin": of_plate("ORIGIN", 2),
        "corners": of_plate("CORNERS", 3),
        "matrix": of_plate("CAL_MATRIX", 3),
        "unit": units[used[5]] if len(used) > 5 and used[5] < len(units) else "",
    }


# -- force plates ---------------------------------------------------------------------------------
#
# Types 1 to 5 of the manual, FORCE_PLATFORM. Axes of a plate: x from corner 2 to 1, y from corner 4
# to 1, z = x cross y, usually downwards.

#: Number of channels of plates, by type.
CHANNELS = {1: 6, 2: 6, 3: 8, 4: 6, 5: 8}


def plate_wrench(
    kind: int, channels: Array, corners: Array, origin: Array, matrix: Array, moments: float = 1.0
) -> tuple[Array, Array]:
    """Force (3, F) and moment (3, F) about the origin of the laboratory, in its axes.

    kind : 1, force, centre of pressure and free moment; 2, force and moment about the origin of the
    sensors; 3, sums of forces of four sensors (Kistler); 4, as 2 after a calibration; 5, as 2 after
    one of eight channels. channels :
    (C, F). corners : (3, 4) in the laboratory. origin : (3,), of type 3 the half distances of the
    sensors in x and y, of all the surface above the sensors, which is negative since z points down.
    matrix : (6, 6) of type 4; if it is empty, channels are calibrated; (6, 8) of type 5, or
    transposed. moments : factor of a
    channel of moments that has another unit of length than the corners.

    Raises `ValueError` for other types, and for channels, corners, origins and matrices that are
    missing.
    """
    _check(kind, channels, corners, origin, matrix)
    rows = np.array(channels[: CHANNELS[kind]])
    if kind in (4, 5) and matrix.size:
        rows = (matrix.T if matrix.shape == (8, 6) else matrix) @ rows
    if kind != 3:
        rows[-1 if kind == 1 else slice(3, 6)] *= moments
    depth = np.array([origin[0], origin[1], -abs(origin[2])])  # some write it upwards
    force = rows[:3]
    if kind == 1:
        centre = np.array([rows[3], rows[4], np.zeros_like(rows[3])])
        moment = np.cross(centre, force, axis=0) + np.array([0.0, 0.0, 1.0])[:, None] * rows[5]
    elif kind == 3:
        force, moment = _sensors(rows, *depth[:2])
        moment += np.cross(force, [[0.0], [0.0], depth[2:]], axis=0)
    else:
        moment = rows[3:] + np.cross(force, depth[:, None], axis=0)
    turn, middle = _axes(corners), corners.mean(axis=1, keepdims=True)
    force = turn @ force
    return force, turn @ moment + np.cross(middle, force, axis=0)


def on_plate(force: Array, moment: Array, corners: Array) -> bool:
    """Whether most of the load acts within twice the size of the plate; arguments as
    `plate_wrench` has and gives them."""
    turn, middle = _axes(corners), corners.mean(axis=1, keepdims=True)
    pressed = turn.T @ force
    about = turn.T @ (moment - np.cross(middle, force, axis=0))
    loaded = np.abs(pressed[2]) > 0.3 * np.abs(pressed[2]).max()
    centre = np.array([-about[1], about[0]])[:, loaded] / pressed[2, loaded]
    size = np.linalg.norm(corners[:, 0] - corners[:, 2])
    return bool(np.median(np.linalg.norm(centre, axis=0)) < size)


def _sensors(rows: Array, a: float, b: float) -> tuple[Array, Array]:
    """Force and moment about the middle of four sensors at (a, b), (-a, b), (-a, -b), (a, -b)."""
    x12, x34, y14, y23, z1, z2, z3, z4 = rows
    force = np.array([x12 + x34, y14 + y23, z1 + z2 + z3 + z4])
    about = [b * (z1 + z2 - z3 - z4), a * (z2 + z3 - z1 - z4), b * (x34 - x12) + a * (y14 - y23)]
    return force, np.array(about)


def _axes(corners: Array) -> Array:
    """Axes of a plate as columns (3, 3)."""
    x, y = corners[:, 0] - corners[:, 1], corners[:, 0] - corners[:, 3]
    z = np.cross(x, y)
    axes = np.array([x, np.cross(z, x), z])
    return np.asarray((axes / np.linalg.norm(axes, axis=1, keepdims=True)).T)


def _check(kind: int, channels: Array, corners: Array, origin: Array, matrix: Array) -> None:
    if kind not in CHANNELS:
        raise ValueError(f"it is of type {kind}; types 1 to 5 are read")
    if len(channels) < CHANNELS[kind]:
        raise ValueError(f"it has {len(channels)} channels, not {CHANNELS[kind]}")
    if corners.shape != (3, 4) or not np.isfinite(corners).all():
        raise ValueError("its corners are missing")
    x, y = corners[:, 0] - corners[:, 1], corners[:, 0] - corners[:, 3]
    if not np.linalg.norm(np.cross(x, y)) > 1e-6 * np.linalg.norm(x) * np.linalg.norm(y):
        raise ValueError("its corners are no rectangle")
    if origin.shape != (3,):
        raise ValueError("its origin is missing")
    if kind == 4 and matrix.size and matrix.shape != (6, 6):
        raise ValueError(f"its calibration is {matrix.shape}, not (6, 6)")
    if kind == 5 and matrix.shape not in ((6, 8), (8, 6)):
        raise ValueError(f"its calibration is {matrix.shape}, not (6, 8)")


def zeroed(channels: Array, zero: list[int], first: int, per_frame: int) -> Array:
    """Channels (C, F) less their offset in the frames that FORCE_PLATFORM:ZERO names.

    zero : first and last frame, 0 if there are none. first : frame of the record. per_frame :
    samples in one. Frames in which the channels show a third of their largest change are left as
    they are: somebody stands on the plate.
    """
    if len(zero) < 2 or not 1 <= zero[0] <= zero[1]:
        return channels
    begin = zero[0] - first if zero[0] >= first else zero[0] - 1
    here = slice(begin * per_frame, (begin + zero[1] - zero[0] + 1) * per_frame)
    part = channels[:, here]
    if not part.size:
        return channels
    rest = part.mean(axis=1, keepdims=True)
    change = np.abs(channels - rest).max()
    return channels if np.abs(rest).max() > change / 3.0 else channels - rest
