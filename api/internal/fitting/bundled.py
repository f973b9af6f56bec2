"""Arguments of problems as members of a bundle: text, arrays, models.

`KINDS` is the one list of what may stand in an argument, and of how each kind is written and read;
what is in none of them cannot travel, and is refused by its place. None, numbers and text are as
JSON has them, tuples are its lists, and mappings from names its objects. All else is an object with
one entry, the kind after a mark: {"!expression": "k*x"}, {"!held": {"low": -1.0, ...}}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import mapping, shown
from kinesym.internal.problems.conditions import At, Condition, During
from kinesym.internal.problems.controls import Continuous, Held, Linear
from kinesym.internal.problems.parameters import Prior, Unknown
from kinesym.internal.problems.phases import Phase, Phases
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.censored import Range
from kinesym.runtime.signals.corridor import Corridor, Lines
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.history import UnknownHistory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.signals.steady import Steady
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.runtime.statistics.densities import Density
from kinesym.symbolic.expression import parts
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.losses import Loss
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import (
    Objective,
    at_end,
    at_start,
    integral,
    magnitude,
    variation,
)
from kinesym.symbolic.text.document import Entries, layout
from kinesym.symbolic.text.grammar import Scope
from kinesym.symbolic.text.lookups import (
    expression,
    function_entries,
    functions_in,
    lookups_of,
    table_entries,
)
from kinesym.symbolic.text.model import symbol_entry, symbol_in
from kinesym.symbolic.text.writer import Writer

#: What the name of a kind begins with; a mapping that has such a name is a list of pairs.
_MARK = "!"
#: Functions that conditions and objectives have beside those of models.
_MARKS = {made.__name__: made for made in (at_start, at_end, integral, magnitude, variation)}


class Members(NamedTuple):
    """Members of a bundle that say a problem: its arguments as text, arrays and models by name."""

    text: str
    arrays: Mapping[str, Array]
    models: Mapping[str, Model | Hybrid]


@dataclass(frozen=True)
class _Writing:
    """Writer of a value. text : writes an expression. arrays, models : filled on the way. place :
    of the value, for messages and names of arrays."""

    text: Callable[[sp.Basic], str]
    arrays: dict[str, Array] = field(default_factory=dict)
    models: dict[str, Model | Hybrid] = field(default_factory=dict)
    place: str = ""

    def within(self, key: Any) -> _Writing:
        """Writer of a part of the value."""
        return replace(self, place=f"{self.place}/{key}" if self.place else str(key))

    def __call__(self, value: Any) -> Any:
        """JSON for a value. Raises `ValueError` for what cannot travel."""
        if value is None or isinstance(value, bool | np.bool_ | int | np.integer | str):
            return value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float | np.floating) and math.isfinite(value):
            return float(value)
        for name, kind in KINDS.items():
            if isinstance(value, kind.of):
                return {_MARK + name: kind.write(value, self)}
        if isinstance(value, tuple):
            return self.each(value)
        if isinstance(value, Mapping) or hasattr(value, "columns"):  # of a table
            value = mapping(value, self.place)
            named = {name_of(k) if isinstance(k, sp.Basic) else k: v for k, v in value.items()}
            if all(isinstance(key, str) and not key.startswith(_MARK) for key in named):
                return {key: self.within(key)(each) for key, each in named.items()}
            rows = enumerate(named.items())
            return {f"{_MARK}pairs": [[self(k), self.within(n)(each)] for n, (k, each) in rows]}
        if hasattr(value, "__array__"):
            return self(np.asarray(value))
        raise ValueError(
            f"a bundle cannot hold {self.place}, which is {shown(value)}: it holds data and "
            "expressions, and no code; give samples or an expression, or keep the script that "
            "makes the problem beside solution.save(...)"
        )

    def each(self, values: Iterable[Any]) -> list[Any]:
        """JSON for the values of a sequence."""
        return [self.within(k)(value) for k, value in enumerate(values)]


@dataclass(frozen=True)
class _Reading:
    """Reader of a value from JSON. place : for messages."""

    scope: Scope
    arrays: Mapping[str, Array]
    models: Mapping[str, Model | Hybrid]
    place: str = ""

    def within(self, key: Any) -> _Reading:
        """Reader of a part."""
        return replace(self, place=f"{self.place}/{key}")

    def __call__(self, found: Any) -> Any:
        """The value. Raises `ValueError` for what `_Writing` does not write."""
        if isinstance(found, list):
            return tuple(self.each(found))
        if not isinstance(found, dict):
            return found
        [name, *others] = found or [""]
        if not name.startswith(_MARK):
            return {key: self.within(key)(each) for key, each in found.items()}
        if others:
            raise ValueError(f"{self.place}: {name} stands beside {', '.join(others)}")
        if name == f"{_MARK}pairs":
            return {self(key): self(each) for key, each in found[name]}
        if name[1:] not in KINDS:
            raise ValueError(f"{self.place}: this kinesym knows no {name}; install a newer one")
        return KINDS[name[1:]].read(found[name], self)

    def each(self, found: Sequence[Any]) -> list[Any]:
        """The values of a sequence."""
        return [self.within(k)(each) for k, each in enumerate(found)]


class Kind(NamedTuple):
    """A kind of values: its classes, and functions from a value to JSON and back."""

    of: Any
    write: Callable[[Any, _Writing], Any]
    read: Callable[[Any, _Reading], Any]


def _record(made: Any) -> Kind:
    """Values of a class, by the arguments that it is made of; left out are those that are what they
    are by default."""
    defaults = dict(getattr(made, "_field_defaults", {}))
    names = getattr(made, "_fields", ())
    if is_dataclass(made):
        own = [each for each in fields(made) if each.init]
        names = tuple(each.name for each in own)
        defaults = {each.name: each.default for each in own if each.default is not MISSING}

    def write(value: Any, to: _Writing) -> Any:
        pairs = ((name, getattr(value, name)) for name in names)
        return {
            name: to.within(name)(each) for name, each in pairs if not _is(each, defaults, name)
        }

    def read(found: Any, of: _Reading) -> Any:
        return made(**{name: of.within(name)(each) for name, each in found.items()})

    return Kind(made, write, read)


def _is(value: Any, defaults: Mapping[str, Any], name: str) -> bool:
    """Whether a value is that which an argument has by default."""
    plain = isinstance(value, bool | int | float | str | tuple | sp.Basic | None)
    return plain and name in defaults and value == defaults[name]


# -- kinds that are no records --------------------------------------------------------------------


def _write_array(value: Any, to: _Writing) -> str:
    row = np.asarray(value)
    if row.dtype.kind not in "biuf":
        raise ValueError(f"a bundle cannot hold {to.place}, an array of {row.dtype}; give numbers")
    name = to.place
    while name in to.arrays:
        name += "_"
    to.arrays[name] = row
    return name


def _write_system(value: Model | Hybrid, to: _Writing) -> str:
    for name, other in to.models.items():
        if other is value:
            return name
    number = f"_{len(to.models)}" if to.models else ""
    to.models[f"model{number}.json"] = value
    return f"model{number}.json"


def _write_signal(value: Signal, to: _Writing) -> dict[str, Any]:
    if value.expressions:
        return {"pieces": to(tuple(value.expressions))}
    told = {name: each for name, each in sorted(vars(value).items()) if name != "expressions"}
    return {name: to.within(name)(each) for name, each in told.items()}


def _read_signal(found: Any, of: _Reading) -> Signal:
    told = {name: of.within(name)(each) for name, each in found.items()}
    return Signal.pieces(*told["pieces"]) if "pieces" in told else Signal.of_parts(**told)


#: Arguments of an experiment that are attributes, too.
_OF_EXPERIMENT = ("time", "nodes", "duration", "labels", "bounds", "history", "before")


def _write_experiment(value: Experiment, to: _Writing) -> dict[str, Any]:
    before = value.without_estimated_std()
    told = {name: getattr(value, name) for name in _OF_EXPERIMENT}
    told["inputs"], told["parameters"] = dict(value.signals), value.set_parameters
    told["measurements"] = {**value.measurements, **value.timed}
    told["std"] = {**before.named_std, **before.std}
    told["limits"] = {name: list(about) for name, about in value.limits.items()} or None
    told["ranges"] = {name: own._asdict() for name, own in value.ranges.items()} or None
    told["found"] = {k: float(value.std[name][0]) for name, k in value.estimated_std.items()}
    return {name: to.within(name)(each) for name, each in told.items() if each is not None}


def _read_experiment(found: Any, of: _Reading) -> Experiment:
    told = {name: of.within(name)(each) for name, each in found.items()}
    std, limits = told.pop("found"), told.pop("limits", {})
    ranges = {name: Range(**own) for name, own in told.pop("ranges", {}).items()}
    sides = {name: (of, side) for name, (of, side) in limits.items()}
    made = Experiment(**told).with_limits(sides, ranges)
    return made.with_std(std) if std else made


#: All kinds, by name: the first that fits is that of a value.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "expression": Kind(
            sp.Basic,
            lambda value, to: to.text(value),
            lambda found, of: expression(found, of.place, of.scope),
        ),
        "number": Kind(
            float | np.floating,
            lambda value, to: repr(float(value)),
            lambda found, of: float(found),
        ),
        **{
            name: Kind(made, _write_system, lambda found, of: of.models[found])
            for name, made in (("model", Model), ("hybrid", Hybrid))
        },
        "signal": Kind(Signal, _write_signal, _read_signal),
        "experiment": Kind(Experiment, _write_experiment, _read_experiment),
        **{
            made.__name__.lower(): _record(made)
            for made in (
                *(Unknown, Prior, Density, Held, Linear, Continuous, During, At, Condition),
                *(
                    Phase,
                    Phases,
                    Objective,
                    Loss,
                    Corridor,
                    Lines,
                    TimedSamples,
                    UnknownHistory,
                    Steady,
                ),
            )
        },
        "list": Kind(
            list | range, lambda value, to: to.each(value), lambda found, of: of.each(found)
        ),
        "array": Kind(np.ndarray, _write_array, lambda found, of: of.arrays[found]),
    }
)


# -- members --------------------------------------------------------------------------------------


def members_of(told: Mapping[str, Any]) -> Members:
    """Members that say values by name. Raises `ValueError` for what cannot travel, by its place."""
    found: list[sp.Basic] = []

    def noted(e: sp.Basic) -> str:
        found.append(e)
        return ""

    _Writing(noted)(told)  # first what expressions there are
    lookups = lookups_of(found, _MARKS)
    write = Writer(lookups, marks={made: name for name, made in _MARKS.items()})
    to = _Writing(write)
    data = {
        "symbols": [symbol_entry(symbol) for symbol in _symbols(found)],
        "tables": table_entries(lookups),
        "functions": function_entries(lookups, write),
        **to(told),
    }
    return Members(layout(data) + "\n", to.arrays, to.models)


def told_in(
    data: Any, arrays: Mapping[str, Array], models: Mapping[str, Model | Hybrid]
) -> dict[str, Any]:
    """The values of `members_of`. Raises `ValueError` for what does not fit."""
    entries = Entries(data, "problem.json")
    symbols = [symbol_in(row, row.text("name")) for row in entries.rows("symbols")]
    functions = functions_in(entries)
    marks = {name: lambda orders, x, made=made: made(*x) for name, made in _MARKS.items()}
    scope = Scope(
        {name_of(symbol): symbol for symbol in symbols},
        {name_of(x): x.diff(t) for x in symbols if isinstance(x, AppliedUndef)},
        {**functions, **marks},
    )
    of = _Reading(scope, arrays, models)
    rest = {
        name: each for name, each in data.items() if name not in ("symbols", "tables", "functions")
    }
    return {name: of.within(name)(each) for name, each in rest.items()}


def _symbols(expressions: Iterable[sp.Basic]) -> list[sp.Basic]:
    """Symbols and functions of time, by name. Raises `ValueError` for two of one name."""
    found: dict[str, sp.Basic] = {}
    seen: set[sp.Basic] = set()
    for e in expressions:
        for part in parts(e, seen):
            of_time = isinstance(part, AppliedUndef) and part.args == (t,)
            if part == t or not (of_time or isinstance(part, sp.Symbol)):
                continue
            if found.setdefault(name_of(part), part) != part:
                raise ValueError(
                    f"a bundle cannot hold two symbols of the name {name_of(part)}, made with "
                    "other assumptions; use the same one"
                )
    return [found[name] for name in sorted(found)]
