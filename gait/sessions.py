"""Folders of a recorded person, as OpenCap, Pose2Sim and laboratories lay them out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kinesym.base.checks import Named, check_path
from kinesym.base.notebook import Displayed
from kinesym.base.quiet import quietly
from kinesym.gait.axes import Laboratory
from kinesym.gait.c3d_files import read_c3d
from kinesym.gait.checks import warn
from kinesym.gait.force_files import forces_of
from kinesym.gait.marker_files import read_trc
from kinesym.gait.tables import end_of_header, text_of

#: Endings of files by what they hold; `.mot` and `.sto` are told apart by their columns.
_KINDS = {".trc": "markers", ".c3d": "markers", ".osim": "models", ".forces": "forces"}
#: Numbers of the person: sessionMetadata.yaml of OpenCap, Config.toml of Pose2Sim.
_MASS = re.compile(r"^\s*(?:mass_kg\s*:|participant_mass\s*=)\s*([\d.]+)", re.MULTILINE)
_STATURE = re.compile(r"^\s*(?:height_m\s*:|participant_height\s*=)\s*([\d.]+)", re.MULTILINE)
_ABOUT = ("sessionMetadata.yaml", "Config.toml")


@dataclass(frozen=True)
class Session(Displayed):
    """Files of a folder, each by its name without the ending.

    markers : TRC and C3D. motions : coordinates over time, MOT and STO. forces : of plates, MOT,
    STO and .forces. models : OpenSim's. mass [kg], stature [m] : of the person, if a file says so.
    """

    markers: Mapping[str, Path]
    motions: Mapping[str, Path]
    forces: Mapping[str, Path]
    models: Mapping[str, Path]
    mass: float | None = None
    stature: float | None = None

    @cached_property
    def up(self) -> str:
        """The axis that is up in the files of markers and forces, for their readers: where names
        of markers, forces or the files tell, or else by the longest extent in most of them; "" if
        there is none. Warns where they differ."""
        found = [one for path in self.markers.values() if (one := _laboratory(path, True))]
        found += [one for path in self.forces.values() if (one := _laboratory(path, False))]
        told = Counter(one.up for one in found if one.sure)
        told = told or Counter(one.up for one in found if one.upward)
        if len(told) > 1:
            said = ", ".join(f"{up} in {count}" for up, count in told.most_common())
            warn(f"files of the session differ in the axis that is up: {said} of them")
        return told.most_common(1)[0][0] if told else ""

    def __str__(self) -> str:
        lines = [f"session: mass {self.mass or '?'} kg, stature {self.stature or '?'} m"]
        for kind in ("markers", "motions", "forces", "models"):
            names = ", ".join(getattr(self, kind))
            lines += [f"  {kind}  {names}"] if names else []
        return "\n".join(lines)


def find_files(folder: str | Path) -> Session:
    """The files of a person's folder and the folders in it: those of OpenCap (`MarkerData`,
    `OpenSimData`, `sessionMetadata.yaml`) and Pose2Sim (`pose-3d`, `kinematics`, `Config.toml`),
    and any other.

    Names that come twice are those of the folders too, such as "walk/pose-3d/markers". Files may be
    compressed (.gz). Raises `FileNotFoundError` for a missing folder, and `ValueError` if there is
    nothing to read in it.
    """
    check_path(folder)
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found: dict[str, list[Path]] = {"markers": [], "motions": [], "forces": [], "models": []}
    for path in sorted(root.rglob("*")):
        kind = _kind(path)
        if kind and path.is_file():
            found[kind].append(path)
    if not any(found.values()):
        raise ValueError(f"{folder} holds no file of markers, motions, forces or models")
    said = "\n".join(text_of(path) for path in _about(root))
    parts = {k: Named(f"file of {k}", _named(root, paths)) for k, paths in found.items()}
    return Session(**parts, mass=_number(_MASS, said), stature=_number(_STATURE, said))


def _laboratory(path: Path, markers: bool) -> Laboratory | None:
    """The axes of a file, quietly; None of one that cannot be read."""
    is_c3d = Path(path.name.removesuffix(".gz")).suffix.lower() == ".c3d"
    with quietly(), suppress(ValueError, ImportError):
        if not markers:
            return forces_of(path)[1]
        return (read_c3d(path)[0] if is_c3d else read_trc(path)).laboratory
    return None


def _kind(path: Path) -> str:
    """Kind of a file, by its ending and its columns; "" for others."""
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending not in (".mot", ".sto"):
        return _KINDS.get(ending, "")
    lines = text_of(path).splitlines()
    end = end_of_header(lines)
    labels = lines[end + 1 : end + 3] if end is not None else []
    return "forces" if re.search(r"(?i)force\w*_?v[xyz]\b", " ".join(labels)) else "motions"


def _named(root: Path, paths: list[Path]) -> dict[str, Path]:
    """Files by their names, or with their folders where a name comes twice."""
    stems = [path.name.removesuffix(".gz").rpartition(".")[0] for path in paths]
    folders = [path.parent.relative_to(root) for path in paths]
    return {
        stem if stems.count(stem) == 1 else str(folder / stem): path
        for stem, folder, path in zip(stems, folders, paths, strict=True)
    }


def _about(root: Path) -> Iterator[Path]:
    """Files that may describe the person: in the folder, then in those within it, then above it."""
    for name in _ABOUT:
        yield from (
            path for path in (root / name, *sorted(root.glob(f"*/{name}"))) if path.is_file()
        )
        yield from (path for path in [root.parent / name] if path.is_file())


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(found[1]) if found else None
