from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native._library import Library

SET: int
ADD: int
LATE: int
SUM: int
PLACE: np.dtype[np.void]

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
