from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABI: int
SET: int
ADD: int
LATE: int
SUM: int

class Library:
    path: str
    def __init__(self, path: str | Path) -> None: ...
    @property
    def lanes(self) -> int: ...
    @property
    def openmp(self) -> bool: ...
    def kernel_names(self) -> list[str]: ...
    def rk4(
        self,
        kernel: str,
        time: NDArray[np.float64],
        substeps: int,
        inputs: NDArray[np.float64],
        hold: NDArray[np.uint8],
        parameters: NDArray[np.float64],
        states: NDArray[np.float64],
    ) -> int: ...

class Call:
    sizes: tuple[int, ...]
    def __init__(
        self,
        library: Library,
        kernel: str,
        n: int,
        arguments: list[tuple[Any, int, int]],
        sizes: tuple[int, ...],
        offset: Sequence[int] | NDArray[np.intp],
        mode: Sequence[int] | NDArray[np.uint8] | None,
        n_out: int,
    ) -> None: ...
    def __call__(
        self,
        arrays: tuple[NDArray[np.float64], ...],
        out: NDArray[np.float64],
        threads: int = 1,
    ) -> None: ...
