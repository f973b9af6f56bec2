import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native._library import Library

LINEAR: int
HELD: int
PARABOLA: int

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
        recorded: int = 0,
    ) -> None: ...
    @property
    def steps(self) -> tuple[_Array, _Array, _Array, _Array]: ...
    @property
    def count(self) -> int: ...
    def forget(self, most: int | None = None) -> None: ...
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
