"""What bodies in natural coordinates share: points that hang on points, in space or in a plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kinesym.checks import listed_of, shown
from kinesym.gait.natural.constrained import Partition
from kinesym.runtime.arrays import real_array
from kinesym.symbolic.multibody.segments import owners

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NaturalKinematics:
    """Natural coordinates and their rates, (174, N) for 18 segments in space."""

    q: Array
    qd: Array
    qdd: Array


class PointBody(ABC):
    """Segments whose points hang on the points of others. Rows of q: the points, the root first."""

    segments: Sequence[Any]
    root: str
    gravity: Sequence[float]
    #: Components of a position, and angles of a segment.
    dimension: ClassVar[int]
    angles: ClassVar[int]

    def _check(self, kind: type) -> None:
        """Raise `ValueError` for segments that are none or make no tree, and for gravity."""
        owners(listed_of(self.segments, kind, "segments"), self.root)
        if real_array(self.gravity, "gravity").shape != (self.dimension,):
            count = {2: "two", 3: "three"}[self.dimension]
            raise ValueError(f"gravity has {count} components, got {shown(self.gravity)}")

    # -- sizes and names ------------------------------------------------------------------------

    @cached_property
    def points(self) -> dict[str, int]:
        """The number of each point."""
        return {point: k for k, point in enumerate(owners(self.segments, self.root))}

    @property
    def size(self) -> int:
        """Number of natural coordinates, which have mass."""
        return self.dimension * len(self.points)

    @property
    def n(self) -> int:
        """Number of mixed coordinates: natural ones and angles."""
        return self.size + self.angles * len(self.segments)

    @property
    def g(self) -> int:
        """Number of degrees of freedom."""
        return self.dimension + self.angles * len(self.segments)

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.n - self.g

    @property
    def partition(self) -> Partition:
        """Independent among the mixed coordinates: the position of the root and the angles."""
        free = [*range(self.dimension), *range(self.size, self.n)]
        return Partition(np.arange(self.dimension, self.size), np.array(free))

    def rows_of(self, point: str) -> slice:
        """Rows of a point in q."""
        first = self.dimension * self.points[point]
        return slice(first, first + self.dimension)

    def angle_rows(self, segment: int) -> slice:
        """Rows of the angles of a segment, by its number, in z."""
        first = self.dimension + self.angles * segment
        return slice(first, first + self.angles)

    # -- motion -----------------------------------------------------------------------------------

    def _motion(self, z: ArrayLike, *rates: ArrayLike | None) -> Array:
        """z and its rates, zero where they are None, (number, g, N); raises `ValueError` for other
        shapes."""
        first = real_array(z, "z and its rates")
        arrays = [first] + [
            np.zeros_like(first) if each is None else real_array(each, "z and its rates")
            for each in rates
        ]
        shapes = {each.shape for each in arrays}
        if len(shapes) > 1 or first.ndim != 2 or len(first) != self.g:
            raise ValueError(
                f"z and its rates have shape ({self.g}, instants), got "
                f"{', '.join(str(each.shape) for each in arrays)}"
            )
        return np.array(arrays)

    def _points(self, motion: Array, arm: Callable[[int, Any], Array]) -> Array:
        """Rows of points in q and its rates, (number, size, N), of a motion (number, g, N); arm :
        vectors in segments (number, dimension, N)."""
        result = np.empty((len(motion), self.size, motion.shape[2]))
        result[:, : self.dimension] = motion[:, : self.dimension]
        for k, row in enumerate(self.segments):
            for point, local in row.points.items():
                hangs = result[:, self.rows_of(row.proximal)]
                result[:, self.rows_of(point)] = hangs + arm(k, local)
        return result

    def _projections(self, instants: int, turned: Callable[[int, Any], Array]) -> Array:
        """R of qd = R zd, (N, size, g), from derivatives of such vectors with respect to angles."""
        R = np.zeros((instants, self.size, self.g))
        R[:, : self.dimension, : self.dimension] = np.eye(self.dimension)
        for k, row in enumerate(self.segments):
            for point, local in row.points.items():
                R[:, self.rows_of(point)] = R[:, self.rows_of(row.proximal)]
                R[:, self.rows_of(point), self.angle_rows(k)] = turned(k, local)
        return R

    def _carried_forces(self, f: Array) -> Array:
        """Forces on points (size, N) with those on all points that hang on them."""
        for row in reversed(self.segments):
            for point in row.points:
                f[self.rows_of(row.proximal)] += f[self.rows_of(point)]
        return f

    # -- dynamics ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def mass_matrix(self) -> csr_array:
        """M, constant, (size, size); angles have no mass."""

    @abstractmethod
    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd at one instant z (g,) (equation 10), (size, g)."""

    @abstractmethod
    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (g, N)."""

    def reduced_mass_matrix(self, z: ArrayLike) -> Array:
        """R' M R at one instant z (g,) (equation 17), (g, g)."""
        R = self.projection(z)
        return np.asarray(R.T @ (self.mass_matrix @ R))

    def accelerations(self, z: ArrayLike, zd: ArrayLike, forces: ArrayLike) -> Array:
        """zdd under generalised forces on z (g, N), gravity apart (equation 16), (g, N).

        Raises `numpy.linalg.LinAlgError` in space where alpha of a segment is 90 degrees.
        """
        position, rate, given = self._motion(z, zd, forces)
        rest = given - self.forces(position, rate, np.zeros_like(position))
        columns = [
            np.linalg.solve(self.reduced_mass_matrix(now), f)
            for now, f in zip(position.T, rest.T, strict=True)
        ]
        return np.array(columns).reshape(-1, self.g).T
