"""Derivatives of implicit steps against dense systems of all their stages."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.runtime.native import Chain
from kinesym.runtime.simulation import stepper

t = ks.t
A = {  # of implicit methods with one to four stages
    1: [[1.0]],
    2: [[5 / 12, -1 / 12], [3 / 4, 1 / 4]],
    3: [[0.2, -0.07, 0.03], [0.4, 0.3, -0.04], [0.38, 0.51, 0.11]],
    4: [
        [0.1, -0.03, 0.02, 0.0],
        [0.2, 0.2, -0.03, 0.0],
        [0.16, 0.4, 0.2, 0.0],
        [0.2, 0.3, 0.3, 0.2],
    ],
}


@pytest.fixture(scope="module")
def library():
    found = []
    x = ks.dynamicsymbols("x")
    with pytest.MonkeyPatch.context() as patch:
        own = stepper.Run
        patch.setattr(stepper, "Run", lambda *given: found.append(given[0]) or own(*given))
        ks.simulate(ks.Model("m", [x], [], [], [x.diff(t) + x]), [0.0, 1.0], {x: 1.0})
    return found[0]


def system(stages, algebraic=(), turned=False, small=1.0, share=0.3, n=6, r=4, N=12, seed=0):
    """Places and values of the derivatives of n equations by x' (n), x (n), r parameters.

    algebraic : states without x'. turned : equations in another order than their states. small : of
    derivatives by x on the diagonal of algebraic equations."""
    rng = np.random.default_rng(seed)
    there = rng.uniform(size=(n, 2 * n + r)) < share
    there[:, :n] = np.eye(n)
    there[list(algebraic), :n] = False
    there[np.arange(n), n + np.arange(n)] = True
    rows, columns = np.nonzero(there)
    values = rng.standard_normal((len(rows), stages, N - 1))
    slopes = columns < n
    values[slopes] = -1.0 + 0.1 * values[slopes]
    values[np.isin(rows, algebraic) & (columns == n + rows)] = small
    rows = (rows + 1) % n if turned else rows
    time = np.cumsum(rng.uniform(0.01, 0.3, N))
    a = np.array(A[stages])
    return time, a, a[-1].copy(), a.sum(axis=1), rows, columns, values


def dense(time, a, b, c, rows, columns, values, carry):
    """Tangents (N, n, width) along the carry, of which the first columns are the parameters."""
    n, s, (_, width) = len(carry), len(b), carry.shape
    algebraic = np.setdiff1d(np.arange(n), columns)
    found = [carry]
    for i, h in enumerate(np.diff(time)):
        M, side = np.zeros((n, s, n, s)), np.zeros((n, s, width))
        for row, column, value in zip(rows, columns, values[:, :, i], strict=True):
            state = column % n
            for j in range(s):
                if column >= 2 * n:
                    side[row, j, column - 2 * n] -= value[j]
                elif column < n or state in algebraic:
                    M[row, j, state, j] += value[j]
                else:
                    M[row, j, state] += h * a[j] * value[j]
                    side[row, j] -= value[j] * found[-1][state]
        x = np.linalg.solve(M.reshape(n * s, n * s), side.reshape(n * s, width)).reshape(
            n, s, width
        )
        after = found[-1] + h * np.einsum("j,kjl->kl", b, x)
        after[algebraic] = x[algebraic, -1]
        found.append(after)
    return np.array(found)


CASES = {
    "ordinary": {},
    "algebraic": {"algebraic": (0, 3)},
    "equations in another order": {"turned": True},  # blocks of the diagonal are singular or small
    "lost digits": {"algebraic": (1, 4), "small": 1e-9, "share": 0.8},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("stages", A)
def test_sweeps(library, stages, case):
    n, r, starts = 6, 4, 3
    given = system(stages, **case)
    chain = Chain(library, n, *given, [])
    rng = np.random.default_rng(1)
    carry = np.hstack([np.zeros((n, r)), rng.standard_normal((n, starts))])
    expected = dense(*given, carry)
    N, size = len(expected), np.abs(expected).max()
    along = np.zeros_like(expected)
    along[0] = carry
    chain.tangent(0, 5, carry.copy(), along[:6], 0)
    chain.tangent(5, N - 1, along[5].copy(), along[5:], 0)
    np.testing.assert_allclose(along, expected, rtol=0, atol=1e-11 * size)

    weights = rng.standard_normal((n, N))  # of the states at the nodes
    end, parameters = weights[:, -1].copy(), np.zeros(r)
    chain.adjoint(0, N - 1, end, weights, np.zeros((0, N)), parameters)
    wanted = np.einsum("kn,nkl->l", weights, expected)
    found = np.append(parameters, end @ carry[:, r:])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(weights).sum() * size)
