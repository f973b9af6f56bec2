from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

class Ipopt:
    path: str
    version: tuple[int, ...]
    def __init__(self, path: str | Path) -> None: ...

NO_FILE: dict[str, str]

def overheard(function: Callable[..., Any], *arguments: Any) -> tuple[bool, str]: ...
def trial(ipopt: Ipopt, options: dict[str, str | int | float]) -> bool: ...

class Problem:
    def __init__(
        self,
        ipopt: Ipopt,
        plans: Any,
        structures: tuple[Any, Any],
        bounds: tuple[_Array, _Array],
        constraint_bounds: tuple[_Array, _Array],
        report: Callable[..., bool],
        factors: Mapping[str, Any],
    ) -> None: ...
    @property
    def seconds(self) -> float: ...
    def add_option(self, name: str, value: str | int | float) -> None: ...
    def solve(
        self, z: _Array, lagrange: Any = (), zl: Any = (), zu: Any = ()
    ) -> tuple[_Array, dict[str, Any]]: ...
