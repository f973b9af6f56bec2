"""Manifest of a library: JSON of the code generator, loaded into frozen data and checked.

Fields are called as `codegen` writes them. A section is there if the library was made for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import shown
from kinesym.runtime.native import ABI, Library

#: Rows and columns of the entries of a sparse matrix.
Pattern = tuple[tuple[int, ...], tuple[int, ...]]
T = TypeVar("T")


@dataclass(frozen=True)
class KernelManifest:
    """A kernel: its arguments with their counts, whether they vary from point to point, labels of
    its outputs, operations per point."""

    arguments: tuple[str, ...]
    counts: tuple[int, ...]
    varying: tuple[bool, ...]
    outputs: tuple[str, ...]
    operations: int


@dataclass(frozen=True)
class LabelManifest:
    """Label of a constraint at each point of a family; see `codegen.family.Label`."""

    name: str
    kind: str = ""
    of: str = ""
    stage: int = 0

    def __str__(self) -> str:
        return f"{self.name}, stage {self.stage}" if self.stage else self.name


@dataclass(frozen=True)
class FamilyManifest:
    """A kind of points of a collocation problem: groups of local variables (argument, size, array
    of z, side; see `codegen.family.Group`), constraints, names of outputs (of several stages once),
    and which derivatives there are, in local variables; slopes : those of outputs. squares :
    channel of each residual, its share of the weight of a sample, and the number of samples that it
    represents."""

    variables: tuple[tuple[str, int, str, int], ...]
    constraints: tuple[LabelManifest, ...]
    outputs: tuple[str, ...]
    gradient: tuple[int, ...] = ()
    jacobian: Pattern = ((), ())
    hessian: Pattern = ((), ())
    squares: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    samples: tuple[float, ...] = ()
    residual_jacobian: Pattern = ((), ())
    slopes: Pattern = ((), ())


@dataclass(frozen=True)
class ArrayManifest:
    """Array of unknowns at each node of a trial, or at one place of each interval, a share of
    it."""

    name: str
    members: tuple[str, ...]
    place: float | None = None


@dataclass(frozen=True)
class TimedManifest:
    """A measurement at times of its own: samples that an interval may hold, the signals that are
    needed with each, the unknown parameter that is its delay, if there is one, and whether its
    standard deviation is an expression."""

    name: str
    slots: int
    signals: tuple[str, ...]
    delay: str = ""
    spread: bool = False


@dataclass(frozen=True)
class CollocationManifest:
    """A nonlinear program; see `codegen.transcribe`.

    stages, signal_places, measured_places : places in an interval, the last with weights. to_ends :
    weights that extrapolate values at the stages to both nodes. quadrature : of both nodes.
    owners : unknown parameters with a value per owner, and their labels. log_scale, priors :
    unknown parameters of which z has the logarithm, and those with a prior. timed : measurements at
    times of their own.
    """

    model: str
    scheme: str
    stages: tuple[float, ...]
    to_ends: tuple[tuple[float, ...], tuple[float, ...]]
    signal_places: tuple[float, ...]
    measured_places: tuple[tuple[float, float], ...]
    quadrature: tuple[float, float]
    states: tuple[str, ...]
    arrays: tuple[ArrayManifest, ...]
    unknown_inputs: tuple[str, ...]
    unknown_parameters: tuple[str, ...]
    known_parameters: tuple[str, ...]
    signals: tuple[str, ...]
    held: tuple[str, ...]
    linear: tuple[str, ...]
    node_measurements: tuple[str, ...]
    interval_measurements: tuple[str, ...]
    free_duration: bool
    families: Mapping[str, FamilyManifest]
    owners: tuple[tuple[str, str], ...] = ()
    log_scale: tuple[str, ...] = ()
    priors: tuple[str, ...] = ()
    timed: tuple[TimedManifest, ...] = ()


@dataclass(frozen=True)
class PointManifest:
    """The equations and the integrand of a problem at one point; see `codegen.point`.

    rated : states with a rate. jacobian, integrand : which derivatives there are with respect to
    x', x, u, p, t in turn. outputs : those of models with algebraic states that have no value at
    nodes.
    """

    states: tuple[str, ...]
    rated: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    known_parameters: tuple[str, ...]
    signals: tuple[str, ...]
    jacobian: Pattern
    integrand: tuple[int, ...]
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelManifest:
    """Names of a model's states, inputs, parameters and other parts, and values of its
    parameters."""

    model: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, float]


@dataclass(frozen=True)
class TableauManifest:
    """A Runge-Kutta method; see `ks_tableau` in kinesym.h. error, dense : empty if there is none.
    implicit : stages that are solved for, the last ones."""

    order: int
    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    error: tuple[float, ...]
    dense: tuple[float, ...]
    implicit: int = 0


@dataclass(frozen=True)
class SteppingManifest(ModelManifest):
    """Loops of time stepping, methods by name; places of derivatives that loops need, and of all by
    which implicit steps are differentiated, and delays; see `codegen.stepping`. index : of the
    equations, for implicit methods."""

    methods: Mapping[str, TableauManifest]
    limits: tuple[str, ...]
    varying: bool
    solution: tuple[tuple[int, int], ...]
    outputs_need_rates: bool
    pattern: Pattern
    partials: Pattern
    delays: Pattern = ((), ())
    index: int = 0


@dataclass(frozen=True)
class FunctionsManifest(ModelManifest):
    """Functions of a model; see `codegen.evaluate`."""

    explicit: bool
    reason: str


@dataclass(frozen=True)
class JacobiansManifest:
    """Sparsity patterns of the Jacobians of a model's functions, by name, such as
    `residual_states`."""

    patterns: Mapping[str, Pattern]


@dataclass(frozen=True)
class EventManifest:
    """An event of a hybrid model."""

    name: str
    direction: int
    scale: float
    level: bool
    stop: bool
    failure: bool


@dataclass(frozen=True)
class ContactManifest:
    """A contact of a hybrid model; row : of its force along the ground among all forces, or -1."""

    name: str
    law: str
    restitution: float
    friction_coefficient: float
    row: int


@dataclass(frozen=True)
class HybridManifest(ModelManifest):
    """A hybrid model; see `codegen.switching`.

    methods : explicit ones, and implicit ones that choose their steps, by name.
    targets : variables that events set, one after the other: states, then modes; event k sets those
    from first_target[k] on. sizes : outputs of each kernel.
    """

    methods: Mapping[str, TableauManifest]
    modes: Mapping[str, float]
    events: tuple[EventManifest, ...]
    targets: tuple[int, ...]
    first_target: tuple[int, ...]
    contacts: tuple[ContactManifest, ...]
    outputs_move: bool
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class SlopesManifest:
    """First derivatives of a hybrid model: places of the entries by kernel, targets and sources of
    the solution for x'; see `codegen.switching`."""

    patterns: Mapping[str, Pattern]
    solution: Pattern


@dataclass(frozen=True)
class Manifest:
    """Manifest of a library: the version of its interface, its kernels by name, and the sections
    that it has."""

    abi: int
    name: str
    kernels: Mapping[str, KernelManifest]
    collocation: CollocationManifest | None = None
    point: PointManifest | None = None
    stepping: SteppingManifest | None = None
    functions: FunctionsManifest | None = None
    jacobians: JacobiansManifest | None = None
    hybrid: HybridManifest | None = None
    slopes: SlopesManifest | None = None

    def of(self, kind: type[T]) -> T:
        """The section of a kind; raises `ValueError` if there is none."""
        for section in vars(self).values():
            if isinstance(section, kind):
                return section
        raise ValueError(f"the manifest of {self.name} has no {kind.__name__}")


@dataclass(frozen=True)
class Built:
    """An opened library with its manifest. derive, compile : seconds that C text and compiler took,
    none if the library was kept. tables : the numbers of tables, which follow known parameters."""

    library: Library
    manifest: Manifest
    derive: float = 0.0
    compile: float = 0.0
    tables: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def load_manifest(text: str) -> Manifest:
    """Load the manifest in JSON that comes with a library; raises `ValueError` for other text."""
    given = json.loads(text)
    name, abi = (given.get("name"), given.get("abi")) if isinstance(given, dict) else (None, ABI)
    if abi != ABI:
        raise ValueError(
            f"the manifest of {name!r}: its interface is {abi}, this kinesym has {ABI}"
        )
    found: Manifest = _loaded(Manifest, given, f"the manifest of {name!r}")
    return found


_hints = cache(get_type_hints)


def _loaded(kind: Any, value: Any, where: str) -> Any:
    """`value` of JSON as the type `kind`; raises `ValueError` naming its place."""
    if kind in (str, bool, int) and type(value) is kind:
        return value
    if kind is float and type(value) in (int, float):
        return float(value)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        known = _hints(kind)
        for field in fields(kind):
            if field.name not in value and field.default is MISSING:
                raise ValueError(f"{where} has no {field.name}")
        for name in value:
            if name not in known:
                raise ValueError(f"{where} has a {name}, which is none of {', '.join(known)}")
        return kind(**{k: _loaded(known[k], v, f"{where}.{k}") for k, v in value.items()})
    of = get_args(kind)
    if NoneType in of:
        return _loaded(of[0], value, where)
    if get_origin(kind) is Mapping and isinstance(value, dict):
        return {k: _loaded(of[1], v, f"{where}.{k}") for k, v in value.items()}
    if get_origin(kind) is tuple and isinstance(value, list):
        if of[-1] is not ...:
            if len(value) == len(of):
                return tuple(_loaded(k, v, where) for k, v in zip(of, value, strict=True))
        elif all(type(v) is of[0] for v in value):  # long lists of names and numbers
            return tuple(value)
        else:
            return tuple(_loaded(of[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    raise ValueError(f"{where} must be {kind if of else kind.__name__}, got {shown(value)}")
