"""Setup files of OpenSim's tools: tasks of inverse kinematics, measurements of scaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from kinesym.base.checks import naming
from kinesym.models.files.description import Triple
from kinesym.models.files.expressions import identifier
from kinesym.models.files.xml import flag, members, named, number, root_of, text, triple, words


@dataclass(frozen=True)
class TaskRows:
    """Weights of markers, and of coordinates values (None: that of the model) and weights."""

    markers: dict[str, float]
    coordinates: dict[str, tuple[float | None, float]]


@dataclass(frozen=True)
class MeasurementRow:
    """A factor that pairs of markers tell: names of bodies, "femur_r" or "femur_r.xy" along some
    axes."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    bodies: tuple[str, ...]


@dataclass(frozen=True)
class ScaleRows:
    """Measurements, and factors of bodies along their axes that are given; which counts more, and
    the mass of the person [kg]."""

    measurements: tuple[MeasurementRow, ...]
    given: dict[str, Triple]
    given_last: bool
    mass: float | None


def set_of(path: str | Path, tag: str) -> tuple[Element, Element | None]:
    """The root of a file, and the first set of this kind in it, or in the file that this names."""
    root = root_of(path)
    found = root if root.tag == tag else next(root.iter(tag), None)
    if found is not None and (other := found.get("file", "").strip()):
        beside = Path(path).parent / other
        with naming(beside):
            there = root_of(beside)
        found = there if there.tag == tag else next(there.iter(tag), None)
    return root, found


def objects(found: Element | None) -> Iterator[Element]:
    """The objects of a set that apply."""
    for inside in [] if found is None else found.findall("objects"):
        yield from (e for e in inside if flag(e, "apply", True))


def task_rows(path: str | Path) -> TaskRows:
    """The tasks of an `IKTaskSet`, alone or in the setup of a tool; those that do not apply are
    left out.

    Raises `FileNotFoundError`, and `ValueError` for a file without tasks, and for values that are
    taken from another file.
    """
    with naming(path):
        found = TaskRows({}, {})
        for e in objects(set_of(path, "IKTaskSet")[1]):
            name, weight = e.get("name", ""), number(e, "weight", 1.0)
            if e.tag == "IKMarkerTask":
                found.markers[name] = weight
            elif e.tag == "IKCoordinateTask":
                kind = text(e, "value_type", "default_value")
                if kind == "from_file":
                    raise ValueError(
                        f"{named(e)} takes its values from a file; read that by ks.gait.read_mot, "
                        f"let the task not apply here, and give targets={{{name!r}: (values, "
                        f"{weight:g})}} to fit_markers"
                    )
                value = number(e, "value", 0.0) if kind == "manual_value" else None
                found.coordinates[name] = (value, weight)
        if not found.markers and not found.coordinates:
            raise ValueError("it has no tasks that apply, IKMarkerTask or IKCoordinateTask")
        return found


def scale_rows(path: str | Path) -> ScaleRows:
    """The measurements of a `MeasurementSet`, alone or in the setup of a `ScaleTool`, and the
    factors in its `ScaleSet`.

    Raises `FileNotFoundError`, and `ValueError` for a file without either, and for pairs and axes
    that are none.
    """
    with naming(path):
        root, measured = set_of(path, "MeasurementSet")
        tool = next(root.iter("ScaleTool"), None)
        scaler = next(root.iter("ModelScaler"), None)
        order = ("measurements",) if scaler is None else words(scaler, "scaling_order")
        rows = tuple(map(measurement, objects(measured))) if "measurements" in order else ()
        given = {}
        if "manualScale" in order:
            for e in objects(set_of(path, "ScaleSet")[1]):
                given[identifier(text(e, "segment"))] = triple(e, "scales", None)
        if not rows and not given:
            raise ValueError("it has no measurements and no factors that apply")
        mass = None if tool is None else number(tool, "mass", -1.0)
        last = "manualScale" in order[-1:]
        return ScaleRows(rows, given, last, mass if mass is not None and mass > 0.0 else None)


def measurement(e: Element) -> MeasurementRow:
    """One measurement."""
    pairs = [words(pair, "markers") for pair in members(e, "MarkerPairSet")]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"{named(e)}: a pair is two markers, got {' '.join(pair) or 'none'}")
    bodies = []
    for body in members(e, "BodyScaleSet"):
        axes = "".join(words(body, "axes")).lower()
        if set(axes) - set("xyz") or not axes:
            raise ValueError(f"{named(e)}: axes of {named(body)} are some of X Y Z, got {axes!r}")
        name = identifier(body.get("name", ""))
        bodies.append(name if set(axes) == set("xyz") else f"{name}.{axes}")
    return MeasurementRow(
        identifier(e.get("name", "")), tuple((a, b) for a, b in pairs), tuple(bodies)
    )
