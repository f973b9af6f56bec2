"""C3D files: markers and force plates, into world axes and SI units; see `marker_files`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kinesym.base import checks
from kinesym.base.checks import Named, check_choice, check_kind, listed_of, naming, shown
from kinesym.base.extras import required
from kinesym.base.files import replacing
from kinesym.base.notebook import Displayed
from kinesym.gait.axes import (
    DIRECTIONS,
    NOTHING,
    UNITS,
    Evidence,
    Laboratory,
    own_axes,
    rotation,
    said_axes,
    seen_in_forces,
)
from kinesym.gait.c3d import content, on_plate, plate_wrench, zeroed
from kinesym.gait.checks import warn
from kinesym.gait.events import Contact, contacts_in_turn
from kinesym.gait.force_files import renamed
from kinesym.gait.marker_files import markers_of
from kinesym.gait.markers import Markers
from kinesym.gait.motion_files import Table
from kinesym.gait.tables import distinct
from kinesym.gait.wrench import THRESHOLD, Wrench, between, check_reaction
from kinesym.runtime.arrays import AXES, Array, check_span

#: Diagonals that a plate can have [m].
SIZES = (0.2, 4.0)
#: Labels of events at which a foot strikes, and leaves.
_STRIKE = re.compile(r"(foot|heel|initial)\W*(strike|contact|on)\b|^[rl](hs|on|ic)$", re.IGNORECASE)
_OFF = re.compile(r"(foot|toe)\W*off\b|^[rl](to|off)$", re.IGNORECASE)


@dataclass(frozen=True, eq=False, repr=False)
class Recording(Displayed):
    """Content of a C3D file; `markers, plates = recording` are its measurements.

    markers, plates : see `read_c3d`. descriptions : of points, by marker. events : instants [s] on
    the clock of the markers, contexts such as "Right", labels such as "Foot Strike". person :
    "mass" [kg], "stature", "leg_length" [m] (the mean of both legs), as far as the groups
    PROCESSING or SUBJECTS say them. references : results of models, by kind: "angles", "moments",
    ..., in units of the file, `references["angles"]["RKneeAngles_x"]`, `.header["units"]`.
    """

    markers: Markers
    plates: dict[str, Wrench]
    descriptions: Mapping[str, str]
    events: tuple[tuple[float, str, str], ...]
    person: Mapping[str, float]
    references: Mapping[str, Table]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.markers, self.plates))

    def __getitem__(self, k: int) -> Any:
        return (self.markers, self.plates)[k]

    def __repr__(self) -> str:
        count = len(self.markers.names), len(self.plates), len(self.events)
        return "<{} markers, {} plates, {} events>".format(*count)

    @cached_property
    def contacts(self) -> list[Contact]:
        """Contacts of "right" and "left" from events such as Foot Strike and Foot Off, RHS and RTO;
        [] if there are none. Raises `ValueError` if a foot strikes or leaves twice in a row."""
        ends, found = (float(self.markers.time[0]), float(self.markers.time[-1])), list[Contact]()
        for foot in ("right", "left"):
            events = [
                (instant, bool(_STRIKE.search(label)))
                for instant, context, label in self.events
                if re.match(rf"(general)?\s*{foot[0]}", f"{context} {label}".strip(), re.IGNORECASE)
                and (_STRIKE.search(label) or _OFF.search(label))
            ]
            if events:
                said = "correct the events of the file"
                found += contacts_in_turn(foot, events, ends, not events[0][1], said)
        return sorted(found, key=lambda contact: (contact.begin, contact.end))


def read_c3d(
    path: str | Path,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
    rename: Mapping[str, str] | None = None,
    like: Markers | None = None,
) -> Recording:
    """Markers of a C3D file, and wrenches of its force plates by number, "1", "2", ..., at their
    own rate; with its events, what it says of the person, and results of models.

    Points with a negative residual are missing samples. Those whose name comes twice or is empty
    have their descriptions as names, or a number behind, with a warning; results of models, such as
    angles, are no markers but `references`. Plates of types 1 to 5 are evaluated, others and those
    without samples left out with a warning; their mean in the frames that the file names for it is
    subtracted. By custom they hold the force of the ground on the foot; signs of
    those that do not are changed with a warning.

    unit : of the points, "m", "cm" or "mm"; default what the file says. up, forward, left, like :
    as in `read_trc`; if names of markers give no evidence, plates do, or the axis that the file
    shows upright on a screen; else z is up. rename : new names of plates by old ones;
    `assign_plates` finds feet.

    A file that is shorter than its header says is warned of, and read as far as it goes. Raises
    `FileNotFoundError`, `KeyError` for an unknown plate to rename, and `ValueError` for other files
    than C3D, or without points.
    """
    checks.check_path(path)
    found = content(path)
    names, frames, said, rate = (found[key] for key in ("names", "frames", "said", "rate"))
    if not names:
        raise ValueError(f"{path} holds {_instead(found)}")
    if found["unnamed"]:
        warn(f"{path}: {found['unnamed']} points have no label, and are left out")
    if not (0.0 < rate < np.inf and frames):
        raise ValueError(f"{path} holds {frames} frames at {rate:g} Hz; it seems to be damaged")
    if frames < said:
        warn(f"{path} is cut short: its header says {said} frames, there are {frames}")
    positions = found["points"].swapaxes(0, 1)[:, :, :frames]
    labelled = [k for k, name in enumerate(names) if not name.startswith("*")]  # Vicon's others
    time = (found["first"] + np.arange(frames)) / rate
    labels = _told_apart(path, *([found[key][k] for k in labelled] for key in _TEXTS))
    points = distinct(path, labels, positions[labelled], "marker")
    told, pressed = (up, forward, left), seen_in_forces(_pressed(found), THRESHOLD)
    if not pressed.up:
        pressed = _on_screen(found["screen"])
    own = own_axes(found["axes"])
    markers, laboratory = markers_of(
        path, time, points, found["unit"], unit, told, "z", pressed, own, like
    )
    plates = {
        str(k): _plate(f"{path}, plate {k}", found, plate, laboratory, time)
        for k, plate in enumerate(found["plates"], 1)
    }
    evaluated = {name: plate for name, plate in plates.items() if plate is not None}
    texts = [found["descriptions"][k].strip() for k in labelled]
    said_of = dict(zip(labels, texts, strict=True))  # the names of markers may be short ones
    said_of |= {label.rpartition(":")[2]: text for label, text in said_of.items()}
    about = {name: said_of.get(name, "") for name in markers}
    return Recording(
        markers,
        renamed(evaluated, rename or {}),
        Named("marker", {name: text for name, text in about.items() if text}),
        tuple((float(t), str(where), str(what)) for t, where, what in found["events"]),
        Named("number of the person", _person(path, found["person"])),
        Named("kind of result", _references(found, time)),
    )


def _instead(found: Mapping[str, Any]) -> str:
    """Content of a file without markers, and what to do."""
    if found["unnamed"]:
        return (
            f"{found['unnamed']} points without labels, POINT:LABELS; label them where it is from"
        )
    if found["rotations"]:
        return (
            f"no points but rotations of {len(found['rotations'])} segments, as of markerless "
            "video, which are not read; export positions of joint centres, too"
        )
    return "no points; read_forces reads forces alone from CSV and MOT"


#: Names of numbers of the person in files, in small letters.
_PERSON = {
    "mass": ("bodymass", "body_mass", "mass", "weight"),
    "stature": ("height", "body_height", "stature"),
    "leg_length": ("rleglength", "lleglength", "rightleglength", "leftleglength", "leg_length"),
}
#: Ranges of these numbers that can be a person's [kg, m].
_PEOPLE = {"mass": (2.0, 300.0), "stature": (0.4, 2.5), "leg_length": (0.15, 1.4)}


def _person(path: str | Path, said: Mapping[str, float]) -> dict[str, float]:
    """Mass [kg], stature and mean length of the legs [m]; lengths may be in m, cm or mm. Warns of
    numbers that are nobody's."""
    found = {}
    for what, names in _PERSON.items():
        rows = [said[name] for name in names if said.get(name, 0.0) > 0.0]
        if rows:
            value, (least, most) = float(np.mean(rows)), _PEOPLE[what]
            units = (1.0,) if what == "mass" else UNITS.values()
            fits = [unit * value for unit in units if least <= unit * value <= most]
            if fits:
                found[what] = fits[0]
            else:
                warn(f"{path}: the {what} of {value:g} is nobody's, and left out")
    return found


def _references(found: Mapping[str, Any], time: Array) -> dict[str, Table]:
    """Results of models by kind, three columns each."""
    names = [name.rpartition(":")[2] for name in found["result_names"]]
    kinds, rows = found["result_kinds"], found["results"].swapaxes(0, 1)[:, :, : len(time)]
    tables = {}
    for kind in dict.fromkeys(kinds):
        columns = {
            f"{name}_{axis}": row
            for name, part, own in zip(names, rows, kinds, strict=True)
            for axis, row in zip(AXES, part, strict=True)
            if own == kind
        }
        unit = found["result_units"].get(kind, "")
        tables[kind] = Table(time, columns, unit.startswith("deg"), {"units": unit})
    return tables


#: Texts that distinguish points of one name.
_TEXTS = ("names", "descriptions")
#: What a plate tells of its load.
_LOAD = ("kind", "channels", "corners", "origin", "matrix")


def _told_apart(path: str | Path, names: list[str], descriptions: list[str]) -> list[str]:
    """Names of points; where they come twice or are empty, descriptions that others do not have, or
    a number behind."""
    taken, found, said = Counter(names), list[str](), list[str]()
    for name, description in zip(names, descriptions, strict=True):
        one, about = name, description.strip()
        if (not name or taken[name] > 1) and about:
            one = about if (names + descriptions).count(description) == 1 else one
        k = 1
        while one in found and one:
            k += 1
            one = f"{name}_{k}" if f"{name}_{k}" not in taken else one
        found.append(one)
        said += [one] * (one != name)
    if said:
        warn(f"{path}: points whose names come twice or are empty are called {shown(said)}")
    return found


def _on_screen(said: str) -> Evidence:
    """Evidence in `Y_SCREEN`, the axis that programs show upright, such as "+Z"."""
    axis = said.strip().lower().removeprefix("+")
    return Evidence(axis, "what the file shows upright") if axis in DIRECTIONS else NOTHING


def _pressed(found: Mapping[str, Any]) -> Iterator[tuple[Array, Array]]:
    """Time (F,) and force (3, F) of plates, in axes of the file; those that can be evaluated."""
    for plate in found["plates"]:
        with suppress(ValueError, IndexError):
            force, _ = plate_wrench(*(plate[name] for name in _LOAD))
            yield np.arange(force.shape[1]) / (found["analog_rate"] or 1.0), force


def _plate(
    what: str,
    found: Mapping[str, Any],
    plate: Mapping[str, Any],
    laboratory: Laboratory,
    time: Array,
) -> Wrench | None:
    """A plate of a C3D file in the world; nothing, and a warning, if it cannot be evaluated."""
    (kind, channels, *places, matrix), rate = (plate[name] for name in _LOAD), found["analog_rate"]
    if not channels.shape[1]:
        warn(f"{what} is left out: it has no samples")
        return None
    if not 0.0 < rate < np.inf:
        raise ValueError(f"{what} has samples at {rate:g} Hz; the file seems to be damaged")
    unit, step = plate["unit"], 1.0 / found["rate"]
    if kind != 1:
        channels = zeroed(channels, found["zero"], found["first"] + 1, round(rate * step))
    length = _of_corners(what, places[0], laboratory.unit)
    corners, origin = (length * place for place in places)
    try:
        force, moment = plate_wrench(kind, channels, corners, origin, matrix)
        if unit.lower() in ("v", "mv") and 0.0 < np.abs(force).max() < THRESHOLD:
            warn(f"{what} has channels in {unit}; are they forces, and calibrated?")
        scale = _of_moments(unit, kind, laboratory.unit)
        if scale != 1.0:
            other = plate_wrench(kind, channels, corners, origin, matrix, scale)
            moment = other[1] if on_plate(*other, corners) else moment
    except ValueError as error:
        warn(f"{what} is left out: {error}")
        return None
    instants = time[0] + np.arange(force.shape[1]) / rate
    here = instants < time[-1] + step - 0.5 / rate
    turn = laboratory.turn
    with naming(what):
        rows = turn @ force[:, here], UNITS[laboratory.unit] * turn @ moment[:, here]
        if here.sum() < 2:
            warn(f"{what} is left out: it has a single sample")
            return None
        wrench = Wrench(instants[here], *rows)
    try:
        check_reaction(wrench)
    except ValueError:
        warn(f"{what} gives the load, not the reaction: signs of force and moment are changed")
        return wrench.scaled(-1.0)
    return wrench


def _of_corners(what: str, corners: Array, unit: str) -> float:
    """Factor that brings places of a plate to the unit of length of the points, by its size; warns
    where theirs is another one."""
    size = float(np.linalg.norm(corners[:, 0] - corners[:, 2])) if corners.size else 0.0
    fits = [one for one, scale in UNITS.items() if SIZES[0] <= scale * size <= SIZES[1]]
    if not fits or unit in fits:
        return 1.0
    warn(f"{what} has corners {size:.4g} apart, points are in {unit}: taken as {fits[-1]}")
    return UNITS[fits[-1]] / UNITS[unit]


def _of_moments(said: str, kind: int, unit: str) -> float:
    """Factor that brings moments to the unit of length of the points; channels that need no
    calibration declare their unit."""
    length = said.lower().replace(".", "").replace("*", "").replace("-", "").strip().lstrip("n")
    known = kind in (1, 2) and said[:1] in ("N", "n") and length in UNITS
    return UNITS[length] / UNITS[unit] if known else 1.0


# -- writing --------------------------------------------------------------------------------------

#: Plates that are written reach beyond the centres of pressure by this [m].
RIM = 0.1


def write_c3d(
    path: str | Path,
    markers: Markers,
    plates: Mapping[str, Wrench] | None = None,
    unit: str = "mm",
    up: str = "z",
    forward: str = "x",
    height: float = 0.0,
    contacts: Iterable[Contact] = (),
    person: Mapping[str, float] | None = None,
) -> None:
    """Write markers, and wrenches by plate or foot, as a C3D file that viewers such as Mokka open.

    C3D has numbers of 32 bits: `read_c3d` reads them again to 1e-7 of the largest. Wrenches are
    written as plates of type 2 in the floor at `height` [m], rectangles around the centres of
    pressure, at a multiple of the rate of the markers. The first sample is put at the nearest whole
    frame. unit : "m", "cm" or "mm". up, forward : axes of the file. contacts : their begins and
    ends become events, Foot Strike and Foot Off, unless the record cuts them. person : "mass" [kg],
    "stature", "leg_length" [m], for the group PROCESSING.

    Raises `NotInstalled` without ezc3d, and `ValueError` for wrenches that do not cover the
    markers.
    """
    check_kind(markers, Markers, "kinesym.gait")
    check_choice(unit, UNITS, "unit")
    ezc3d = required("ezc3d")
    if len(markers) < 2:
        raise ValueError(
            "C3D files have a rate, which a single sample does not tell; to_trc writes it"
        )
    file = ezc3d.c3d()
    back = rotation(up, forward).T / UNITS[unit]
    points = np.ones((4, len(markers.names), len(markers)))
    points[:3] = np.stack([back @ row for row in markers.positions.values()], axis=1)
    file["header"]["points"]["first_frame"] = round(markers.time[0] * markers.rate)
    file["data"]["points"] = points
    facts = file["parameters"]
    facts["POINT"]["UNITS"]["value"] = [unit]
    facts["POINT"]["RATE"]["value"] = [markers.rate]
    facts["POINT"]["LABELS"]["value"] = markers.names
    file.add_parameter("KINESYM", "AXES", said_axes(up, forward))
    given = checks.mapping(plates or {}, "plates")
    if given:
        _add_plates(file, markers, given, back, height)
    _add_events(file, listed_of(contacts, Contact, "contacts"))
    for what, value in checks.mapping(person or {}, "person").items():
        checks.check_known(what, _WRITTEN, f"person has no {what!r}")
        for name, scale in _WRITTEN[what]:
            file.add_parameter("PROCESSING", name, [scale * checks.positive(value, what)])
    with replacing(path) as beside:
        file.write(str(beside))


#: Parameters that are written for a person, with their units, as Vicon's.
_WRITTEN = {
    "mass": [("Bodymass", 1.0)],
    "stature": [("Height", 1e3)],
    "leg_length": [("RLegLength", 1e3), ("LLegLength", 1e3)],
}


def _add_events(file: Any, contacts: Iterable[Contact]) -> None:
    """Foot strikes and offs of contacts."""
    rows = [(c.begin, c.foot.capitalize(), "Foot Strike") for c in contacts if c.struck]
    rows += [(c.end, c.foot.capitalize(), "Foot Off") for c in contacts if c.lifted]
    if not rows:
        return
    times, contexts, labels = zip(*sorted(rows), strict=True)
    said = {"CONTEXTS": contexts, "LABELS": labels, "DESCRIPTIONS": labels}
    for name, texts in said.items():
        file.add_parameter("EVENT", name, list(texts))
    file.add_parameter("EVENT", "USED", [len(rows)])
    file.add_parameter("EVENT", "TIMES", np.array([np.zeros(len(rows)), times]))
    icons = [1 if label == "Foot Strike" else 2 for label in labels]
    file.add_parameter("EVENT", "ICON_IDS", icons)


def _add_plates(
    file: Any, markers: Markers, plates: Mapping[str, Wrench], back: Array, height: float
) -> None:
    """Channels and places of plates; back : from the world to axes and lengths of the file."""
    for wrench in plates.values():
        check_kind(wrench, Wrench, "kinesym.gait")
    rates = [(len(w.time) - 1) / (w.time[-1] - w.time[0]) for w in plates.values()]
    ratio = max(round(max(rates) / markers.rate), 1)
    time = markers.time[0] + np.arange(len(markers) * ratio) / (ratio * markers.rate)
    length = float(np.linalg.norm(back[:, 0]))
    rows, corners = [], []
    for name, wrench in plates.items():
        with naming(name):
            check_span(markers.time, (wrench.time[0], wrench.time[-1]), "the wrench")
        middle, sides = _rectangle(wrench, height)
        force, moment = np.split(between(time, wrench.time, wrench.rows), 2)
        about = moment - np.cross(middle, force.T).T
        rows += [*(_DOWN @ force), *(length * _DOWN @ about)]
        places = middle[:, None] + 0.5 * sides[:, None] * [[1, -1, -1, 1], [-1, -1, 1, 1], [0] * 4]
        corners.append(back @ places)
    labels = [f"{name}.{kind}{axis}" for name in plates for kind in "FM" for axis in AXES]
    group, count = file["parameters"]["FORCE_PLATFORM"], len(plates)
    moments = "N" + file["parameters"]["POINT"]["UNITS"]["value"][0]
    file["parameters"]["ANALOG"]["RATE"]["value"] = [ratio * markers.rate]
    file["parameters"]["ANALOG"]["LABELS"]["value"] = labels
    file["parameters"]["ANALOG"]["UNITS"]["value"] = [*["N"] * 3, *[moments] * 3] * count
    file["data"]["analogs"] = np.array(rows)[None]
    group["USED"]["value"], group["TYPE"]["value"] = np.array([count]), np.full(count, 2)
    group["CORNERS"]["value"] = np.stack(corners, axis=-1)
    group["ORIGIN"]["value"] = np.zeros((3, count))
    group["CHANNEL"]["value"] = np.arange(1, 6 * count + 1).reshape(6, count, order="F")


#: Axes of plates that are written: x forwards, y to the right, z down.
_DOWN = np.diag([1.0, -1.0, -1.0])


def _rectangle(wrench: Wrench, height: float) -> tuple[Array, Array]:
    """The middle of a plate in the floor around the centres of pressure, and its sides (3,) [m]."""
    centre = wrench.cop(height)
    seen = centre[:, ~np.isnan(centre[0])]
    if not seen.size:
        seen = np.array([[0.0], [0.0], [height]])
    low, high = seen.min(axis=1), seen.max(axis=1)
    return 0.5 * (low + high), high - low + 2.0 * RIM * np.array([1.0, 1.0, 0.0])
