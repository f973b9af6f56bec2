"""Measured natural coordinates made those of rigid segments, as Pamies-Vila and Font-Llagunes 2013
have it: the same as `kinesym.gait.fit`, by sequential quadratic programming in q."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import block_array, csc_array, diags_array
from scipy.sparse.linalg import splu

from kinesym.gait.fit import Target
from kinesym.gait.natural.body import NaturalBody
from kinesym.runtime.arrays import Array

#: The projection ends when neither a step nor a constraint is larger [m, -].
CONSISTENT = 1e-10
ITERATIONS = 150


def natural_targets(body: NaturalBody, targets: Sequence[Target]) -> tuple[Array, Array]:
    """Measured natural coordinates q* (n, N) and their weights (n,); 0 where nothing is measured.

    The targets are those of `landmark_targets`.
    """
    N = targets[0].measured.shape[1]
    q, weights = np.zeros((body.size, N)), np.zeros(body.size)
    first = {name: 3 * k for name, k in body.points.items()}
    for k, row in enumerate(body.segments):
        for i, letter in enumerate(row.basis_vectors):
            first[f"{row.name} {letter}"] = 3 * len(body.points) + 6 * k + 3 * i
    for target in targets:
        here = slice(first[target.name], first[target.name] + 3)
        q[here], weights[here] = target.measured, target.weight
    return q, weights


def project(
    body: NaturalBody, q: Array, weights: Array, angles: Array, time: Array | None = None
) -> Array:
    """The nearest natural coordinates of rigid segments, (n, N), at every instant.

    Minimises (q - q*)' W (q - q*) / 2 under the constraints of the natural coordinates alone, by
    sequential quadratic programming; each instant begins where the one before ended.

    body : in the orthonormal variant. q : measured, (n, N). weights : diagonal of W, (n,).
    angles : (g - 3, N), near enough to begin with. time : (N,), for messages.

    Raises `ValueError` if one does not converge: instant, residual and worst constraint by name.
    """
    if body.variant != "orthonormal":
        raise ValueError("the projection needs a body in the orthonormal variant")
    kept = np.array([".A" not in name for name in body.constraint_names])
    names = [name for name, keep in zip(body.constraint_names, kept, strict=True) if keep]
    W = csc_array(diags_array(weights))
    result = body.kinematics(np.vstack([q[:3], angles])).q
    for k in range(q.shape[1]):
        x = result[:, k]
        for _ in range(ITERATIONS):
            Phi = body.constraints(x, angles[:, k])[kept]
            J = csc_array(body.constraint_jacobian(x, angles[:, k])[kept, : body.size])
            matrix = csc_array(block_array([[W, J.T], [J, None]]))
            step = splu(matrix).solve(np.concatenate([-weights * (x - q[:, k]), -Phi]))
            x = x + step[: body.size]
            if max(np.abs(step[: body.size]).max(), np.abs(Phi).max()) < CONSISTENT:
                break
        else:
            worst = int(np.abs(Phi).argmax())
            at = f"frame {k}" if time is None else f"frame {k} (t = {time[k]:.3f} s)"
            raise ValueError(
                f"{at} cannot be made consistent: residual {np.abs(Phi).max():.2g}, "
                f"the worst constraint is {names[worst]}"
            )
        result[:, k] = x
    return result
