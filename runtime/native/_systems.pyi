import numpy as np
from numpy.typing import ArrayLike, NDArray

def solve_systems(
    n: int,
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    b: ArrayLike | None = None,
    c: ArrayLike | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
