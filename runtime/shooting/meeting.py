"""Segments of multiple shooting that meet, near unknowns where they do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting.minimising import natural_sizes
from kinesym.runtime.shooting.trials import Simulated

#: Steps beyond one for each segment, by which starts that stay are followed exactly.
_MORE = 20
#: Length of a step, in the sizes of the motion, after which the next one is below rounding.
_SMALL = 1e-6


def meeting(trials: Simulated, q: Array, free: NDArray[np.bool_]) -> Array:
    """The unknowns of a motion whose segments meet, by steps of Newton's method that are least in
    the sizes of the motion.

    free : which unknowns (n,) move besides the states between segments. With none of them it is the
    motion that a simulation from the starts gives; with the starts, as of an unstable plant whose
    motion is known, one as near q as it can be on the whole. Raises `ValueError` where there is
    none near q.
    """
    unknowns = trials.unknowns
    if not unknowns.several:
        return q
    free = free.copy()
    free[unknowns.inner] = True
    for _ in range(max(map(len, unknowns.segments)) + _MORE):
        size = natural_sizes(trials, q)[free]
        size[~(size > 0.0)] = 1.0
        rows = csc_array(csc_array(trials.gap_jacobian(q))[:, free] @ diags_array(size))
        step = rows.T @ splu(csc_array(rows @ rows.T)).solve(-trials.gaps(q))
        q = q.copy()
        q[free] += size * step
        if np.abs(step).max() <= _SMALL:
            return q
    raise ValueError(
        "no motion whose segments meet is near the guess; give trajectories of the states in it, "
        "as of ks.simulate"
    )
