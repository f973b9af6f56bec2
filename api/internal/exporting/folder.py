"""A folder of files that a program wrote: all or nothing, with a manifest that tells later what has
changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from kinesym.base.checks import shown

#: The list of what was written, in the folder.
MANIFEST = "kinesym.json"


@dataclass(frozen=True)
class ExportedFolder:
    """Folder that was written. files : names of the files. changed : those that are new, or differ
    from what was there. removed : those that are no longer written."""

    folder: Path
    files: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        many = "s" * (len(self.files) != 1)
        count = f"{len(self.files)} file{many} in {self.folder}"
        if len(self.changed) == len(self.files) and not self.removed:
            return f"wrote {count}"
        if not self.changed and not self.removed:
            return f"nothing has changed: {count}"
        parts = [f"changed {', '.join(self.changed)}"] * bool(self.changed)
        parts += [f"removed {', '.join(self.removed)}"] * bool(self.removed)
        return f"{count}; {'; '.join(parts)}"


def written(
    folder: str | Path, target: str, name: str, files: Mapping[str, bytes]
) -> ExportedFolder:
    """Write `files` into a folder, which is new, empty, or was written by this function before;
    then what others put there stays.

    Raises `ValueError` for what names no folder, `FileExistsError` for another folder with files,
    for files that were edited since and for those of others in the place of ours, `OSError` for
    what cannot be written, and leaves all as it was; so does any failure on the way.
    """
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder) or not str(folder):
        raise ValueError(f"code is written into a folder, such as 'model_c', got {shown(folder)}")
    try:
        found = _written(Path(os.path.realpath(folder)), target, name, files)
    except OSError as error:
        if error.errno is None:  # a sentence of ours
            raise
        raise type(error)(
            f"{folder} cannot be written: {error.strerror}; name another folder"
        ) from error
    return replace(found, folder=Path(folder))


def _written(folder: Path, target: str, name: str, files: Mapping[str, bytes]) -> ExportedFolder:
    digests = {file: _digest(content) for file, content in sorted(files.items())}
    before, others = _before(folder), _others(folder, digests)
    about = {"kinesym": version("kinesym"), "target": target, "name": name, "files": digests}
    every = {**files, MANIFEST: (json.dumps(about, indent=1) + "\n").encode()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for file, content in every.items():
            path = made / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if file in digests and before.get(file) == digests[file]:
                shutil.copy2(folder / file, path)  # with its time, for `make`
            else:
                path.write_bytes(content)
        for file in others:
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / file, made / file)
        made.chmod(0o755)
        _put(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    changed = tuple(file for file in digests if before.get(file) != digests[file])
    return ExportedFolder(folder, tuple(digests), changed, tuple(sorted({*before} - {*digests})))


def _put(made: Path, folder: Path) -> None:
    """Move what was made to its place."""
    if not folder.exists():
        made.rename(folder)
        return
    old = made.with_name(f"{made.name}-old")
    folder.rename(old)
    try:
        made.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def _before(folder: Path) -> dict[str, str]:
    """Digests of the files that were written there before."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if there.exists() and not there.is_dir():
        raise FileExistsError(f"{there} is a file; name a folder")
    if there != folder:
        return {}
    inside = _there(folder)
    if not inside:
        return {}
    if MANIFEST not in inside:
        raise FileExistsError(
            f"{folder} has files that kinesym did not write, such as {min(inside)}; name another "
            "folder"
        )
    before = _listed(folder)
    for file, digest in before.items():
        path = folder / file
        if path.exists() and _digest(path.read_bytes()) != digest:
            raise FileExistsError(
                f"{path} was edited since it was written; move it, or name another folder"
            )
    return {file: digest for file, digest in before.items() if file in inside}


def _listed(folder: Path) -> dict[str, str]:
    """Files and their digests in the manifest of a folder. Raises `FileExistsError` for one that is
    damaged."""
    try:
        found = json.loads((folder / MANIFEST).read_text())["files"]
        return {str(file): str(digest) for file, digest in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileExistsError(
            f"{folder / MANIFEST} is damaged, so that nobody knows which files are whose; name "
            "another folder, or remove this one"
        ) from error


def _there(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def _others(folder: Path, ours: Mapping[str, str]) -> list[str]:
    """Files of others in a folder that was written before."""
    if not (folder / MANIFEST).is_file():
        return []
    written_before = _listed(folder)
    others = sorted(_there(folder) - {*written_before, MANIFEST})
    if taken := [file for file in others if file in ours]:
        raise FileExistsError(
            f"{folder} has a file {taken[0]} that kinesym did not write; move it, or name another "
            "folder"
        )
    return others


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
