"""Saving of results as datasets of xarray and as netCDF files, and loading them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import count, takewhile
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from kinesym.base.notebook import Displayed
from kinesym.runtime.results.event_log import EventLog, EventTable
from kinesym.runtime.results.files import WRITER, Group, save_result, saved_result

if TYPE_CHECKING:
    import xarray as xr

R = TypeVar("R", bound="Saved")
#: Arrays of a result by field, and by their names in it.
Columns: TypeAlias = Mapping[str, Mapping[str, Any]]

#: Metadata of a field that belongs to this process only: a study does not know a result by it.
UNSAVED = {"saved": False, "uncounted": True}

#: Prefixes of variables in a dataset, by field, for names that occur twice.
_PREFIXES = {
    "measurements": "measured_",
    "std": "std_",
    "parameters": "parameter_",
    "samples": "sample_",
}


class _Column(NamedTuple):
    """Array of a field, and its name there if the field has several."""

    field: str
    name: str
    dimensions: tuple[str, ...]
    values: Any


class Saved(Displayed):
    """Frozen dataclass that can be saved. The types of its fields say how:

    an array `Annotated[Array, "time"]` over named dimensions, or a mapping from names to such
    arrays; a sequence of small dataclasses, rows of a table; event logs; a sequence of other
    results; and else text, numbers, and mappings and lists of these. A field that is `UNSAVED` is
    left out, of pickles and copies too, and has its default there.
    """

    def __getstate__(self) -> dict[str, Any]:
        kept = {field.name for field in _kept(type(self))}
        return {name: value for name, value in vars(self).items() if name in kept}

    @classmethod
    def _renewed(cls, found: Columns, attributes: Mapping[str, Any]) -> tuple[Columns, Any]:
        """Arrays and attributes of a file as this version has them, whichever wrote it."""
        return found, attributes

    def to_xarray(self) -> xr.Dataset:
        """Dataset with arrays as variables, whose attributes `kind` and `name` are the field and
        the name in it; other fields as attributes, mappings and lists as JSON."""
        import xarray as xr  # here: slow to import

        variables, attributes = _group(self)
        return xr.Dataset(variables, attrs=attributes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file; an older one stays until this one is whole.

        Raises `ValueError` for an invalid file name, `FileNotFoundError` for a missing folder,
        `PermissionError` for a file or folder that must not be changed.
        """
        save_result(_groups(self), path)

    @classmethod
    def load(cls: type[R], path: str | Path) -> R:
        """Read a file that `save` wrote; raises `FileNotFoundError`, and `ValueError` if the file
        is damaged or of another class."""
        with saved_result(path, cls.__name__) as tree:
            made: R = _loaded(cls, tree)
            return made


def read_dataset(kind: type[R], data: xr.Dataset) -> R:
    """Result from a dataset that `to_xarray` of this class made; raises `ValueError` for any other
    dataset."""
    import xarray as xr  # here: slow to import

    if data.attrs.get(WRITER) != kind.__name__:
        raise ValueError(f"the dataset was not made by {kind.__name__}.to_xarray")
    made: R = _loaded(kind, xr.DataTree(data))
    return made


def _groups(thing: Saved, path: str = "") -> dict[str, Group]:
    """Groups of a file with a result and the results in it, by their paths."""
    found = {path or "/": _group(thing)}
    for field, (form, _) in _forms(type(thing)).items():
        for k, part in enumerate(getattr(thing, field) if form == "results" else ()):
            found |= _groups(part, f"{path}/{field}_{k}")
    return found


def _group(thing: Saved) -> Group:
    """Arrays of a result as variables, other fields as attributes."""
    columns, attributes = _apart(thing)
    dimensions = {dimension for column in columns for dimension in column.dimensions}
    variables: dict[str, Any] = {}
    for field, name, over, values in columns:
        title = f"{_PREFIXES.get(field, '')}{name}".replace("/", "_") if name else field
        while title in variables or (name and title in dimensions):
            title += "_"  # a state may have any name
        variables[title] = (over, values, {"kind": field, "name": name})
    return Group(variables, {WRITER: type(thing).__name__, **attributes})


def _forms(kind: Any) -> dict[str, tuple[str, Any]]:
    """Form in which each field of a dataclass is saved, see `_form`, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _form(hints[field.name]) for field in _kept(kind)}


def _kept(kind: Any) -> list[Field[Any]]:
    """Fields that are saved."""
    return [field for field in fields(kind) if field.metadata.get("saved", True)]


def _optional(kind: Any) -> set[str]:
    """Names of the fields that have a default."""
    return {
        field.name
        for field in fields(kind)
        if field.default is not MISSING or field.default_factory is not MISSING
    }


def _form(hint: Any) -> tuple[str, Any]:
    """Form in which a field is saved, and its details: "array" or "arrays" and dimensions, "log" or
    "logs", "results" and classes, "table" and a class, "value" and a type, "json" and a function
    that makes tuples of lists that were tuples."""
    entry = next((a for a in reversed(get_args(hint)) if a is not NoneType), hint)
    if dimensions := getattr(hint, "__metadata__", ()):
        return "array", dimensions
    if dimensions := getattr(entry, "__metadata__", ()):
        return "arrays", dimensions
    if entry is EventLog:
        return ("logs" if get_origin(hint) is Sequence else "log"), entry
    if (kinds := get_args(entry)) and all(
        isinstance(k, type) and issubclass(k, Saved) for k in kinds
    ):
        return "results", kinds
    if isinstance(entry, type) and is_dataclass(entry):
        return ("results", (entry,)) if issubclass(entry, Saved) else ("table", entry)
    if isinstance(hint, type) and get_origin(hint) is None:  # Python 3.10 takes list[int] for one
        return "json" if issubclass(hint, dict) else "value", hint
    return "json", (lambda rows: tuple(map(tuple, rows))) if get_origin(entry) is Sequence else None


def _apart(thing: Any) -> tuple[list[_Column], dict[str, Any]]:
    """Arrays of a dataclass, and attributes."""
    columns: list[_Column] = []
    attributes: dict[str, Any] = {}
    for field, (form, of) in _forms(type(thing)).items():
        value = getattr(thing, field)
        if form == "array":
            columns.append(_Column(field, "", of, value))
        elif form == "arrays":
            columns += [_Column(field, name, of, row) for name, row in value.items()]
        elif form == "table" and len(value):
            for name in _forms(of):
                column = np.array([getattr(row, name) for row in value])
                more = (f"{field}_{name}_{k}" for k in range(1, column.ndim))
                columns.append(_Column(field, f"{field}_{name}", (field, *more), column))
        elif form in ("log", "logs") and value:
            events, told = _apart(EventTable.of([value] if form == "log" else value))
            columns, attributes = columns + events, attributes | told
        elif form == "value":
            attributes[field] = (
                str(value) if issubclass(of, str) else int(value) if of is bool else value
            )
        elif form == "json":
            attributes[field] = json.dumps(value, default=_for_json)
    return columns, attributes


def _for_json(value: Any) -> Any:
    """Value that JSON can write, from a mapping or numbers of NumPy."""
    return dict(value) if isinstance(value, Mapping) else value.tolist()


def _kind(kinds: Sequence[Any], tree: xr.DataTree) -> Any:
    """Class that wrote a group; without its name the only class."""
    written = tree.attrs.get(WRITER)
    return next((kind for kind in kinds if kind.__name__ == written), kinds[0])


def _loaded(kind: Any, tree: xr.DataTree) -> Any:
    """Result from a group of a file, the inverse of `_apart`."""
    columns: dict[str, dict[str, Any]] = {}
    for variable in tree.dataset.variables.values():
        about = variable.attrs
        columns.setdefault(about["kind"], {})[about["name"]] = variable.to_numpy()
    renewed, attributes = kind._renewed(columns, tree.attrs)
    return _together(kind, renewed, attributes, tree.children)


def _together(
    kind: Any,
    columns: Columns,
    attributes: Mapping[Any, Any],
    children: Mapping[str, Any],
) -> Any:
    """Dataclass from its arrays, attributes and groups."""
    made: dict[str, Any] = {}
    for field, (form, of) in _forms(kind).items():
        mine = columns.get(field, {})
        if form in ("value", "json") and field not in attributes:
            if field in _optional(kind):
                continue  # it is from before there was this field
            raise ValueError(f"{kind.__name__}: {field} is missing, or of another version")
        if form == "array":
            if not mine and field in _optional(kind):
                continue
            made[field] = mine[""]
        elif form == "arrays":
            made[field] = dict(mine)
        elif form == "table":
            found = (mine[f"{field}_{name}"] for name in _forms(of) if mine)
            rows = zip(*(c.tolist() if c.ndim == 1 else c for c in found), strict=True)
            made[field] = [of(*row) for row in rows]
        elif form in ("log", "logs"):
            saved = "event_time" in columns
            logs = _together(EventTable, columns, attributes, {}).logs() if saved else []
            made[field] = logs if form == "logs" else next(iter(logs), None)
        elif form == "results":
            numbered = takewhile(children.__contains__, (f"{field}_{k}" for k in count()))
            parts = [children[name] for name in numbered]
            made[field] = [_loaded(_kind(of, part), part) for part in parts]
        elif form == "value":
            made[field] = of(attributes[field])
        else:
            value = json.loads(attributes[field])
            made[field] = of(value) if of else value
    return kind(**made)
