import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.native._library import Library

MOST_CONTACTS: int
DONE: int
STOPPED: int
FULL: int
STEP: int
STUCK: int
CHATTER: int
NO_MEMORY: int
PAUSED: int
SLIDES: int
NO_NUMBER: int
NEWTON: int
INTERRUPTED: int
LOG_KINDS: dict[str, int]
CONTACT_LAWS: dict[str, int]

class HybridRun:
    def __init__(
        self,
        library: Library,
        sizes: Sequence[int],
        numbers: Mapping[str, float],
        arrays: Mapping[str, NDArray[Any]],
    ) -> None: ...
    def room(self, arrays: Mapping[str, NDArray[Any]]) -> None: ...
    def march(self, end: float, stop: threading.Event | None = None) -> int: ...
    @property
    def margin(self) -> int: ...
    @property
    def at(self) -> tuple[float, int, int, int]: ...
    @property
    def unseen(self) -> tuple[float, float, int]: ...
    @property
    def passed(self) -> tuple[int, float]: ...
    @property
    def work(self) -> tuple[int, int, int]: ...

class HybridSweep:
    def __init__(
        self,
        run: HybridRun,
        library: Library,
        patterns: Mapping[str, Any],
        solution: Sequence[Sequence[int]],
        own: NDArray[np.float64],
    ) -> None: ...
    def forward(
        self, x: NDArray[np.float64], p: NDArray[np.float64], pieces: NDArray[np.float64]
    ) -> tuple[
        int,
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
    ]: ...
    def adjoint(
        self,
        x: NDArray[np.float64],
        weights: NDArray[np.float64],
        times: NDArray[np.float64],
        before: NDArray[np.float64],
        after: NDArray[np.float64],
    ) -> tuple[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
    def observed(
        self,
        time: NDArray[np.float64],
        states: NDArray[np.float64],
        library: Library | None = None,
        pattern: Sequence[Sequence[int]] = ...,
        rows: int = 0,
    ) -> NDArray[np.float64]: ...
    def segments(self, time: NDArray[np.float64]) -> NDArray[np.intc]: ...
    @property
    def trouble(self) -> tuple[float, int]: ...

def solve_contacts(
    law: ArrayLike,
    tangent: ArrayLike,
    mu: ArrayLike,
    W: ArrayLike,
    b: ArrayLike,
    near: ArrayLike,
    slide: ArrayLike,
    mode: ArrayLike,
) -> tuple[NDArray[np.intc], NDArray[np.float64]] | None: ...
