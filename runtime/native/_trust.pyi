import numpy as np
from numpy.typing import ArrayLike, NDArray

def trust_steps(
    gradient: NDArray[np.float64],
    low: ArrayLike,
    high: ArrayLike,
    matrix: ArrayLike,
    radius: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def steps_aside(
    gradient: NDArray[np.float64],
    matrix: ArrayLike,
    free: ArrayLike,
    step: ArrayLike,
    bend: ArrayLike,
) -> NDArray[np.float64]: ...
