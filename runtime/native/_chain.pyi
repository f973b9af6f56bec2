from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native._library import Library

_Array = NDArray[np.float64]
_Places = Sequence[int] | NDArray[np.intp]

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
