"""Equations that couple far stages, inside IPOPT: a chain of states with delayed feedback."""

from types import SimpleNamespace

import numpy as np
import pytest

from kinesym.runtime.ipopt.driver import IpoptProblem, Start
from kinesym.runtime.ipopt.solve import SolverOptions, solve

OWN, MUMPS = "time-structured", "mumps"


class DelayedChain:
    """n states x in a chain, one input u, Euler steps of length h, for each lag L

        x_0' = u - x_0 + sum over L of x_1(k) x_{n-1}(k - L),    x_i' = x_{i-1} - x_i^3

    least sum of (x_{n-1} - 1)^2 + u^2 / 10, from rest, |u| <= 2, x_{n-1} of the last two alike.
    """

    def __init__(self, nodes, n, lags, h=0.1):
        self.lags, self.h, self.width = [lag for lag in lags if lag < nodes], h, n + 1
        k = np.arange(nodes)
        self.x = k[:, None] * self.width + np.arange(n)
        self.u = k * self.width + n
        self.rows = np.arange((nodes - 1) * n).reshape(nodes - 1, n)
        self.size, self.count = nodes * self.width, (nodes - 1) * n + 1

    def delayed(self):
        """Steps with a delayed product and, of these, its factors."""
        for lag in self.lags:
            k = np.arange(lag, len(self.x) - 1)
            yield k, self.x[k, 1], self.x[k - lag, -1]

    def constraints(self, z, multipliers, factor, out):
        x, u, h = z[self.x], z[self.u][:-1], self.h
        rate = np.empty_like(x[:-1])
        rate[:, 0] = u - x[:-1, 0]
        rate[:, 1:] = x[:-1, :-1] - x[:-1, 1:] ** 3
        for k, one, late in self.delayed():
            rate[k, 0] += z[one] * z[late]
        out[:-1] = (x[1:] - x[:-1] - h * rate).ravel()
        out[-1] = x[-1, -1] - x[-2, -1]

    def entries(self, z):
        """Rows, columns and values of the Jacobian."""
        x, h, r = self.x, self.h, self.rows
        yield r, x[1:], np.ones(r.shape)
        own = np.concatenate([np.full((len(r), 1), h), 3.0 * h * z[x[:-1, 1:]] ** 2], axis=1)
        yield r, x[:-1], own - 1.0
        yield r[:, 0], self.u[:-1], np.full(len(r), -h)
        yield r[:, 1:], x[:-1, :-1], np.full(r[:, 1:].shape, -h)
        for k, one, late in self.delayed():
            yield r[k, 0], one, -h * z[late]
            yield r[k, 0], late, -h * z[one]
        last = np.full(2, self.count - 1)
        yield last, x[[-1, -2], -1], np.array([1.0, -1.0])

    def curvatures(self, z, multipliers, factor):
        """Rows, columns and values of the Hessian's lower triangle."""
        x, y = self.x, multipliers[:-1].reshape(self.rows.shape)
        yield x[:, -1], x[:, -1], np.full(len(x), 2.0 * factor)
        yield self.u, self.u, np.full(len(x), 0.2 * factor)
        yield x[:-1, 1:], x[:-1, 1:], 6.0 * self.h * z[x[:-1, 1:]] * y[:, 1:]
        for k, one, late in self.delayed():
            yield one, late, -self.h * y[k, 0]

    def problem(self):
        def values(entries):
            return np.concatenate([np.ravel(v) for _, _, v in entries])

        def structure(entries):
            rows, columns = (np.concatenate([np.ravel(e[p]) for e in entries]) for p in (0, 1))

            def fill(to_rows, to_columns):
                to_rows[:], to_columns[:] = rows, columns

            return SimpleNamespace(size=len(rows), fill=fill)

        def cost(z, multipliers, factor, out):
            out[0] = np.sum((z[self.x[:, -1]] - 1.0) ** 2) + 0.1 * np.sum(z[self.u] ** 2)

        def gradient(z, multipliers, factor, out):
            out[:] = 0.0
            out[self.x[:, -1]] = 2.0 * (z[self.x[:, -1]] - 1.0)
            out[self.u] = 0.2 * z[self.u]

        def jacobian(z, multipliers, factor, out):
            out[:] = values(self.entries(z))

        def hessian(z, multipliers, factor, out):
            out[:] = values(self.curvatures(z, multipliers, factor))

        high = np.full(self.size, 1e20)
        high[self.u] = 2.0
        low = -high
        low[self.x[0]] = high[self.x[0]] = 0.0
        zeros = np.zeros(self.count)
        slack = 1e-3 * (np.arange(self.count) == self.count - 1)
        z = np.zeros(self.size)
        return IpoptProblem(
            SimpleNamespace(
                cost=cost, gradient=gradient, constraints=self.constraints,
                jacobian=jacobian, hessian=hessian,
            ),
            (
                structure(list(self.entries(z))),
                structure(list(self.curvatures(z, zeros, 1.0))),
            ),
            (low, high),
            (-slack, slack),
            np.repeat(np.arange(len(self.x), dtype=np.int32), self.width),
        )  # fmt: skip


def solved(problem, linear_solver, size):
    chosen = SolverOptions({"tol": 1e-10}, linear_solver=linear_solver)
    return solve(problem, Start(np.zeros(size)), chosen, lambda step: None)


@pytest.mark.parametrize("lags", [(), (2,), (17,), (5, 30), (79,)])
def test_delays(lags):
    """Both linear solvers take the same steps to the same point; fronts have a row more for each
    node of a delay."""
    chain = DelayedChain(80, 3, lags)
    problem = chain.problem()
    own, other = (solved(problem, name, chain.size) for name in (OWN, MUMPS))
    assert own.status == other.status == "converged" and own.linear_solver.startswith(OWN)
    assert len(own.iterations) == len(other.iterations)
    np.testing.assert_allclose(own.z, other.z, rtol=1e-8, atol=1e-8)
    rows = int(own.linear_solver.split("at most ")[1].split()[0])
    assert rows <= 14 + sum(chain.lags)
