from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

STATUSES: dict[int, str]
BORDER: int
UNKNOWN: int
QUALITY: float

MAX_ROWS: int
MAX_BACKWARD_ERROR: float

def open_session(
    n: int,
    stages: Sequence[int] | NDArray[np.int32],
    multipliers: int = 0,
    threads: int = 1,
    max_rows: int = ...,
    backward_error: float = ...,
) -> None: ...
def close_session() -> dict[str, Any]: ...
def forget() -> None: ...
def kept() -> int: ...
def find_stages(n: int, rows: ArrayLike, columns: ArrayLike) -> NDArray[np.int32]: ...
def largest_in_rows(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, sizes: ArrayLike, n: int
) -> NDArray[np.float64]: ...
def forms(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, x: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def equilibrated(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, scale: ArrayLike, sweeps: int
) -> NDArray[np.float64]: ...

class Workspace: ...

class Factorisation:
    def __init__(
        self,
        n: int,
        rows: ArrayLike,
        columns: ArrayLike,
        stages: ArrayLike | None = None,
        reverse: bool = False,
        max_rows: int = ...,
        threads: int = 1,
        parts: int = 0,
        one_way: bool = False,
        workspace: Workspace | None = None,
    ) -> None: ...
    @property
    def order(self) -> int: ...
    def factorise(
        self,
        values: ArrayLike,
        accept: float = 1e-4,
        least: float = 1e-4,
        faint: float = 0.0,
        multipliers: int = 0,
    ) -> str: ...
    def solve(self, b: ArrayLike) -> NDArray[np.float64]: ...
    def inverse(self, unknowns: ArrayLike) -> NDArray[np.float64]: ...
    def inverse_entries(self, rows: ArrayLike, columns: ArrayLike) -> NDArray[np.float64]: ...
    @property
    def log_determinant(self) -> float: ...
    def residual(
        self, values: ArrayLike, x: ArrayLike, b: ArrayLike
    ) -> tuple[NDArray[np.float64], float]: ...
    def residuals(self, values: ArrayLike, x: ArrayLike, b: ArrayLike) -> NDArray[np.float64]: ...
    @property
    def seconds(self) -> list[float]: ...
    @property
    def about(self) -> dict[str, Any]: ...
