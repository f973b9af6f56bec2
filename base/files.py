"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinesym.base.checks import check_path


def content_of(path: Any) -> bytes:
    """Bytes of a file. Raises `ValueError` for what is no path, and `OSError` in a sentence for
    what is not there, a folder, or not to be read."""
    check_path(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{path} is a folder; add the name of a file") from error
    except OSError as error:
        raise type(error)(f"{path} cannot be read: {error.strerror}") from error


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Temporary file that replaces `path` once it is whole: an older file stays unchanged until
    then, also after an error.

    Raises `ValueError` for an invalid file name, `FileNotFoundError` for a missing folder,
    `PermissionError` for a file or folder that must not be changed.
    """
    target = _target(path)
    if target.exists() and not target.is_file():  # a device or a pipe has no place to take
        yield target
        return
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"the folder {target.parent} cannot be written to; choose another")
    mode = target.stat().st_mode if target.exists() else None
    # the ending stays, by which libraries choose the format
    beside = target.with_name(f".kinesym-{secrets.token_hex(6)}{Path(path).suffix}")
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
        os.replace(beside, target)
    except BaseException:  # Ctrl-C too
        beside.unlink(missing_ok=True)
        raise


def _target(path: object) -> Path:
    """Path to write to, links resolved; raises as `replacing`."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise ValueError(
            f"a result is saved under the name of a file, such as 'run.nc', got {path!r}"
        )
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{path} is a folder; add the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {target.parent} to save {target.name} in; make it first"
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is write-protected; choose another name")
    return target
