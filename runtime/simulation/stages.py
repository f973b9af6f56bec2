"""Transformation of the matrix of an implicit Runge-Kutta method, in which its stages decouple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import TableauManifest


@lru_cache(maxsize=64)
def loop_numbers(tableau: TableauManifest) -> Mapping[str, Any]:
    """Numbers of `ks_tableau` in kinesym.h, by name."""
    numbers: dict[str, Any] = {
        name: np.array(value, np.float64) if isinstance(value, Sequence) else value
        for name, value in vars(tableau).items()
    }
    if not tableau.implicit:
        return numbers
    inverse = np.linalg.inv(np.array(tableau.a)[-1 - tableau.implicit : -1, -tableau.implicit :])
    to, eigen = _transformation(inverse)
    numbers |= {"inverse": inverse, "to": to, "from": np.linalg.inv(to), "eigen": eigen}
    return {
        k: np.ascontiguousarray(v) if isinstance(v, np.ndarray) else v for k, v in numbers.items()
    }


def _transformation(inverse: Array) -> tuple[Array, Array]:
    """Transformation T to block-diagonal form, and (alpha, beta) of each of its columns: T^-1 A^-1
    T has a block for each eigenvalue: real ones, with beta 0, and then pairs, (alpha, -beta; beta,
    alpha) (Hairer, Wanner, Solving Ordinary Differential Equations II, IV.8.5)."""
    values, vectors = np.linalg.eig(inverse)
    real, pair = np.flatnonzero(np.abs(values.imag) < 1e-9), np.flatnonzero(values.imag > 1e-9)
    columns = [vectors[:, k].real for k in real]
    for k in pair:
        columns += [vectors[:, k].real, -vectors[:, k].imag]
    blocks = [(values[k].real, 0.0) for k in real]
    blocks += [(values[k].real, values[k].imag) for k in np.repeat(pair, 2)]
    return np.ascontiguousarray(np.array(columns).T), np.array(blocks)


def extended(tableau: TableauManifest, algebraic: bool) -> tuple[Array, Array, Array]:
    """A, b and c of a method, with the end of the step as a further stage if algebraic states would
    have no value there."""
    A, b, c = np.array(tableau.a[:-1]), np.array(tableau.a[-1]), np.array(tableau.c[:-1])
    if not algebraic or c[-1] == 1.0:
        return A, b, c
    s = len(b)
    larger = np.zeros((s + 1, s + 1))
    larger[:s, :s], larger[s, :s] = A, b
    return larger, np.append(b, 0.0), np.append(c, 1.0)
