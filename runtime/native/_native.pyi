import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABI: int
SET: int
ADD: int
LATE: int
SUM: int
PLACE: np.dtype[np.void]
LINEAR: int
HELD: int
PARABOLA: int

class Library:
    path: str
    @property
    def lanes(self) -> int: ...
    @property
    def openmp(self) -> bool: ...
    def kernel_address(self, name: str) -> int: ...
    def kernel_names(self) -> list[str]: ...

class Compiled(Library):
    source: Any
    def __init__(self, path: str | Path) -> None: ...

class Interpreted(Library):
    source: Any
    asked: bool
    def __init__(self, name: str, kernels: list[Any], lanes: int | None = None) -> None: ...
    @property
    def operations(self) -> int: ...
    @property
    def spent(self) -> float: ...
    def take_over(self, other: Compiled) -> None: ...

class Call:
    sizes: tuple[int, ...]
    def __init__(
        self,
        library: Library,
        kernel: str,
        n: int,
        arguments: list[tuple[Any, int, int]],
        sizes: tuple[int, ...],
        place: NDArray[np.void],
        n_out: int,
        settled: bool = False,
    ) -> None: ...

class Plan:
    n_out: int
    sizes: tuple[int, ...]
    threads: int
    def __init__(
        self,
        calls: Sequence[Call],
        zero: Sequence[int] | NDArray[np.integer[Any]],
        n_out: int,
        threads: int = 1,
    ) -> None: ...
    @property
    def capsule(self) -> object: ...
    def __call__(
        self, arrays: tuple[NDArray[np.float64] | None, ...], out: NDArray[np.float64]
    ) -> None: ...

_Array = NDArray[np.float64]
_Places = Sequence[int] | NDArray[np.intp]

def pieces(past: tuple[NDArray[Any], ...], first: int, last: int) -> None: ...

class Run:
    def __init__(
        self,
        library: Library,
        pattern: tuple[_Places, _Places],
        solution: tuple[_Places, _Places],
        time: _Array,
        inputs: list[tuple[_Array, int]],
        parameters: _Array,
        states: _Array,
        values: _Array,
        reached: NDArray[np.intp],
        step: _Array,
        trouble: _Array,
        substeps: int,
        rtol: float,
        atol: float,
        threads: int,
        outputs_need_rates: bool,
        budget: int = 200_000,
        tableau: Mapping[str, Any] | None = None,
        stages: tuple[_Array, _Array] | None = None,
        index: int = 0,
        tables: _Array | None = None,
    ) -> None: ...
    @property
    def failed(self) -> NDArray[np.bool_]: ...
    def march(
        self, method: str, begin: int, end: int, stop: threading.Event | None = None
    ) -> bool: ...
    def march_late(
        self,
        method: str,
        begin: int,
        end: int,
        past: tuple[NDArray[Any], ...],
        kept: _Places,
        at: int,
        late: list[tuple[int, int, int, float, _Array, _Array]],
        shares: _Array,
        to_samples: _Array,
        shortest: float,
        stop: threading.Event,
    ) -> int: ...
    def outputs(self, begin: int, end: int) -> None: ...
    def adjoint(
        self,
        begin: int,
        end: int,
        carry: _Array,
        node: _Array,
        inputs: _Array,
        parameters: _Array,
        varied: NDArray[np.intp],
    ) -> None: ...
    def tangent(
        self, begin: int, end: int, carry: _Array, along: _Array, n_varied: int
    ) -> None: ...

class Chain:
    def __init__(
        self,
        library: Library,
        n: int,
        time: _Array,
        a: _Array,
        b: _Array,
        c: _Array,
        rows: _Places,
        columns: _Places,
        values: _Array,
        held: _Places,
    ) -> None: ...
    def adjoint(
        self,
        begin: int,
        end: int,
        carry: _Array,
        node: _Array,
        inputs: _Array,
        parameters: _Array,
    ) -> None: ...
    def tangent(
        self, begin: int, end: int, carry: _Array, along: _Array, n_varied: int
    ) -> None: ...
