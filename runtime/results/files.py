"""Files of results: written whole or not at all, and checked before they are read."""

from __future__ import annotations

import csv
import io
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from kinesym.base.files import replacing
from kinesym.runtime.arrays import Array

if TYPE_CHECKING:
    import xarray as xr

#: Attribute of a file with the name of the class whose `save` wrote it.
WRITER = "saved_by"

#: Attributes of files of earlier versions, which had none.
_EARLIER = ("kinesym", "kinesym_fit", "model")

#: Begin of the seal after the content, a line with the checksum of all before it. HDF5 ignores
#: bytes after its end; a program that changes the file cuts them off.
SEAL = b"kinesym crc32 "
SEALED = len(SEAL) + 9

_HDF5 = b"\x89HDF\r\n\x1a\n"
_BLOCK = 1 << 20


def write_columns(path: str | Path, columns: Mapping[str, Array]) -> None:
    """Write columns (N,) with a line of names as CSV, in all digits; raises as `replacing`."""
    table = np.column_stack(list(columns.values()))
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)  # a name may hold a comma
        np.savetxt(file, table, fmt="%.17g", delimiter=",")


class Group(NamedTuple):
    """Group of a netCDF file: variables by name, as dimensions, values and attributes; and
    attributes."""

    variables: Mapping[str, tuple[Sequence[str], Any, Mapping[str, str]]]
    attributes: Mapping[str, Any]


def save_result(groups: Mapping[str, Group], path: str | Path) -> None:
    """Write groups by their paths as a netCDF file with a seal; raises as `replacing`. It is made
    in memory, as HDF5 may take the process with it where a disk is full."""
    content = _in_memory(groups)
    with replacing(path) as beside, beside.open("wb") as file:
        file.write(content)
        file.write(SEAL + b"%08x\n" % zlib.crc32(content))


def _in_memory(groups: Mapping[str, Group]) -> bytes:
    """Bytes of a netCDF file, as xarray would write them, which is slower to import."""
    import h5netcdf  # here: slow to import

    memory = io.BytesIO()
    with h5netcdf.File(memory, "w") as file:
        for path, (variables, attributes) in groups.items():
            group = file if path == "/" else file.create_group(path)
            group.attrs.update(attributes)
            for name, variable in variables.items():
                _write_variable(group, name, *variable)
    return memory.getvalue()


def _write_variable(
    group: Any, name: str, dimensions: Sequence[str], given: Any, attributes: Mapping[str, str]
) -> None:
    """Write a variable by the conventions of xarray: texts of any length, numbers for booleans,
    NaN for what is missing."""
    import h5py

    values, more = np.asarray(given), dict[str, Any]()
    kind, dtype = values.dtype.kind, values.dtype
    if kind == "b":
        dtype, more["dtype"] = np.dtype(np.int8), "bool"
    elif kind in "UO":
        dtype = h5py.string_dtype()
    for dimension, length in zip(dimensions, values.shape, strict=True):
        if dimension not in group.dimensions:
            group.dimensions[dimension] = length
    missing = np.nan if kind == "f" else None
    made = group.create_variable(name, tuple(dimensions), dtype, fillvalue=missing)
    made.attrs.update({**attributes, **more})
    made[...] = values.astype(object if kind == "U" else dtype, copy=False)


@contextmanager
def saved_result(path: str | Path, writer: str) -> Iterator[xr.DataTree]:
    """Dataset that `save_result` wrote, for the class `writer`. Raises `FileNotFoundError`, and
    `ValueError` for a damaged file and for one of another class, while it is read, too."""
    _check_content(path, writer)
    import xarray as xr  # here: slow to import

    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            found = str(tree.attrs.get(WRITER, ""))
            earlier = not found and any(name in tree.attrs for name in _EARLIER)
            if found == writer:
                yield tree
    except MemoryError:
        raise
    except Exception as error:  # the libraries raise a dozen kinds, of old files without a seal
        raise ValueError(
            f"{path} is damaged, or was not written by {writer}.save: "
            f"{type(error).__name__}: {error}"
        ) from error
    if found != writer:
        hint = f"but by {found}.save; use {found}.load" if found else "nor by any other of kinesym"
        if earlier:
            hint = "but by an earlier version of kinesym, which can still read it; compute it again"
        raise ValueError(f"{path} was not written by {writer}.save, {hint}")


def _check_content(path: str | Path, writer: str) -> None:
    """Raise for a file that HDF5 must not open: damaged ones can hang it."""
    file = Path(path)
    if not file.is_file():
        if file.is_dir():
            raise ValueError(f"{path} is a folder; {writer}.load reads a file")
        raise FileNotFoundError(f"there is no file {path}")
    size = file.stat().st_size
    with file.open("rb") as content:
        head = content.read(64)
        if not head.startswith(_HDF5):
            what = "no netCDF file, or its begin is damaged" if size else "empty"
            raise ValueError(f"{path} was not written by {writer}.save: it is {what}")
        content.seek(max(size - SEALED, 0))
        seal = content.read()
        if seal.startswith(SEAL):
            whole = seal == SEAL + b"%08x\n" % _checksum(content, size - SEALED)
        else:  # of an earlier version, or changed by another program
            whole = size == _end(head, size)
    if not whole:
        raise ValueError(
            f"{path} is damaged: it is not as it was written; take another copy, or "
            "save the result again"
        )


def _end(head: bytes, size: int) -> int:
    """End of an HDF5 file by its header [bytes]; its size if that is not known."""
    if len(head) < 64:
        return 64  # no file is shorter
    where = {0: 40, 1: 44, 2: 28, 3: 28}.get(head[8])  # by the version of its first block
    widths = head[13] if head[8] < 2 else head[9]
    if where is None or widths != 8:
        return size
    return int(struct.unpack_from("<Q", head, where)[0])


def _checksum(file: BinaryIO, size: int) -> int:
    """Checksum (CRC-32) of the first `size` bytes."""
    file.seek(0)
    value = 0
    while size > 0:
        block: Any = file.read(min(size, _BLOCK))
        value, size = zlib.crc32(block, value), size - len(block)
        if not block:
            break
    return value
