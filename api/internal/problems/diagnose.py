"""Diagnosis of a value that is not finite: the expression, equation, node and time behind it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinesym.codegen.interpret import first_failure, interpret
from kinesym.codegen.kernel import Kernel, Program
from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import TableauManifest
from kinesym.runtime.nlp.layout import FAMILIES
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.simulation.interval import refined, within
from kinesym.runtime.simulation.stepper import IVP, RawTrajectories, simulate

_BLOCK = 4096  # points per evaluation of the interpreter


def explain(program: Program, nlp: NLP, z: Array) -> str | None:
    """Reason why a callback is not finite at `z`, in words; None if all are finite."""
    ones = np.ones(nlp.n_constraints)
    calls: dict[str, Callable[[], Array | float]] = {
        "constraints": lambda: nlp.constraints(z),
        "cost": lambda: nlp.cost(z),
        "gradient": lambda: nlp.gradient(z),
        "jacobian": lambda: nlp.jacobian(z),
        "hessian": lambda: nlp.hessian(z, ones, 1.0),
    }
    for what, call in calls.items():
        if not np.isfinite(np.sum(call())):
            found = _locate(program, nlp, what, (z, ones, np.ones(1)))
            return found or f"the {what} is not finite: its sum overflows"
    return None


def _locate(
    program: Program, nlp: NLP, what: str, arrays: tuple[Array, Array, Array]
) -> str | None:
    kernels = {kernel.name: kernel for kernel in program.kernels}
    for trial in range(len(nlp.layout.nodes)):
        for family in FAMILIES:
            kernel = kernels.get(f"{family}_{what}")
            if kernel is not None:
                values = nlp.arguments(trial, family, what, arrays)
                n = nlp.layout.points(trial, family)
                for begin in range(0, n, _BLOCK):
                    part = _points(values, begin, min(begin + _BLOCK, n))
                    out = interpret(kernel, part, min(_BLOCK, n - begin))
                    bad = np.argwhere(~np.isfinite(out.T))  # the first point, then its outputs
                    if len(bad):
                        point, k = int(bad[0][0]), int(bad[0][1])
                        one = _points(part, point, point + 1)
                        where = nlp.layout.where(trial, family, begin + point)
                        cause = first_failure(kernel, k, one)
                        return f"{kernel.labels[k]} is not finite at {where}: {cause}"
    return None


def _points(values: dict[str, Array], begin: int, end: int) -> dict[str, Array]:
    """The points begin <= i < end of all varying arguments."""
    return {k: v[:, begin:end] if v.ndim == 2 else v for k, v in values.items()}


# -- of a simulation --------------------------------------------------------------------------


#: Parts into which an interval is cut to find the step that fails.
_PARTS = 100_000
#: States larger than this are a divergence; what is not finite there is a consequence of it.
_DIVERGED = 1e100


def explain_step(program: Program, raw: RawTrajectories, member: int) -> str:
    """Reason why a member has not reached its end, if an expression is not finite: which one, of
    which equation or rate, where and when. Empty if that is not the cause, as in a divergence."""
    stepper, node = raw.stepper, int(raw.reached[member]) - 1
    adaptive = stepper.adaptive
    parts = 1000 if adaptive else min(raw.ivp.substeps, _PARTS)
    fine = refined(raw, member, node, parts)
    found = simulate(stepper, fine, progress=False)
    last = int(found.reached[0]) - 1
    if last == parts:
        return ""
    x, search = found.states[:, 0, last], _Search(program, fine, last)
    if stepper.fixed:
        return search.stages(x, stepper.tableau)
    if stepper.explicit:
        return search.shrinking(x)
    if stepper.adaptive:
        return search.ahead(x, found.states[:, 0, max(last - 1, 0)])
    return search.newton(x, stepper.tableau)


class _Search:
    """Search for an expression that is not finite in the step of one member after node `last`."""

    def __init__(self, program: Program, ivp: IVP, last: int) -> None:
        self.program, self.ivp, self.last = program, ivp, last
        self.begin = float(ivp.time[last])
        self.h = float(ivp.time[last + 1]) - self.begin

    def stages(self, x: Array, tableau: TableauManifest) -> str:
        """Search at the stages of an explicit step."""
        kernel, slopes = self.program.kernel("rhs"), list[Array]()
        for share, row in zip(tableau.c[:-1], tableau.a, strict=False):
            y = x[:, None] + self.h * sum(a * k for a, k in zip(row, slopes, strict=False) if a)
            words, slope = self._rates(kernel, y, np.array([share]))
            if words or not np.isfinite(slope).all():
                return words
            slopes.append(slope)
        return ""

    def shrinking(self, x: Array) -> str:
        """Search on the straight line along x', as near to x as possible."""
        kernel, share = self.program.kernel("rhs"), 2.0 ** np.arange(-40.0, 1.0)
        words, slope = self._rates(kernel, x[:, None], np.zeros(1))
        if words:
            return words
        return self._rates(kernel, x[:, None] + share * self.h * slope, share)[0]

    def ahead(self, x: Array, before: Array) -> str:
        """Search the equations and their derivatives on the line from the state before to x and
        beyond, as near to x as possible."""
        share = np.append(0.0, 2.0 ** np.arange(-40.0, 4.0))
        y = x[:, None] + share * (x - before)[:, None]
        rate = np.tile((x - before)[:, None] / self.h, len(share))
        return self._equations(rate, y, share)[0]

    def newton(self, x: Array, tableau: TableauManifest) -> str:
        """Newton's method for the stages of an implicit step: unknown are x' and, of states without
        one, x."""
        if tableau.c[0] == 0.0 and any(k.name == "rhs" for k in self.program.kernels):
            words = self._rates(self.program.kernel("rhs"), x[:, None], np.zeros(1))[0]
            if words:
                return words
        rows, columns = map(np.array, self.program.description["stepping"]["pattern"])
        n, A, share = len(x), np.array(tableau.a[:-1]), np.array(tableau.c[:-1])
        moves = np.isin(np.arange(n), columns[columns < n])
        unknown = np.where(moves[:, None], 0.0, np.tile(x[:, None], len(share)))
        for _ in range(30):
            rate = np.where(moves[:, None], unknown, 0.0)
            y = np.where(moves[:, None], x[:, None] + self.h * rate @ A.T, unknown)
            words, rest, entries = self._equations(rate, y, share)
            if words or not (np.isfinite(rest).all() and np.isfinite(entries).all()):
                return words
            matrix = np.zeros((len(share), n, len(share), n))
            for j in range(len(share)):
                for i, k, value in zip(rows, columns, entries[:, j], strict=True):
                    if k < n or not moves[k - n]:
                        matrix[j, i, j, k % n] += value
                    else:
                        matrix[j, i, :, k - n] += self.h * A[j] * value
            try:
                square = matrix.reshape(2 * (len(share) * n,))
                unknown = unknown - np.linalg.solve(square, rest.T.ravel()).reshape(-1, n).T
            except np.linalg.LinAlgError:
                return f"the equations of a step cannot be solved at t = {self.begin:.9g} s"
        return ""

    def _equations(self, rate: Array, y: Array, share: Array) -> tuple[str, Array, Array]:
        """First expression that is not finite in the equations and their derivatives at x' and
        states (n, k) and shares of the step, in words; then the values of both."""
        time, found = self.begin + share * self.h, list[Array]()
        for name in ("residual", "slopes"):
            kernel = self.program.kernel(name)
            given = {
                "xdot": rate,
                "x": y,
                "u": self._inputs(share),
                "p": self._parameters(kernel, len(share)),
                "t": time[None],
                "tables": self.program.tables,
            }
            found.append(interpret(kernel, given, len(share)))
            words = _not_finite(kernel, given, found[-1], time)
            if words:
                return words, found[0], found[-1]
        return "", found[0], found[1]

    def _rates(self, kernel: Kernel, y: Array, share: Array) -> tuple[str, Array]:
        """First expression that is not finite at states y (n, k) and shares of the step, in words;
        and x'."""
        time = self.begin + share * self.h
        given = {
            "x": y,
            "u": self._inputs(share),
            "p": self._parameters(kernel, len(share)),
            "t": time[None],
            "tables": self.program.tables,
        }
        out = interpret(kernel, given, len(share))
        return _not_finite(kernel, given, out, time), out

    def _inputs(self, share: Array) -> Array:
        rows = [within(row[0], kind, self.last, share) for row, kind in self.ivp.inputs]
        return np.array(rows).reshape(len(rows), len(share))

    def _parameters(self, kernel: Kernel, points: int) -> Array:
        varying = any(a.varying for a in kernel.arguments if a.name == "p")
        row = self.ivp.parameters[0]
        return np.tile(row[:, None], points) if varying else row


def _not_finite(kernel: Kernel, given: dict[str, Array], out: Array, time: Array) -> str:
    """The first point and output of a kernel that is not finite, in words; nothing of points where
    a state has diverged."""
    bad = np.argwhere(~np.isfinite(out.T))
    if not len(bad):
        return ""
    point, k = int(bad[0][0]), int(bad[0][1])
    if not np.abs(given["x"][:, point]).max() <= _DIVERGED:
        return ""
    cause = first_failure(kernel, k, _points(given, point, point + 1))
    return f"{kernel.labels[k]} is not finite at t = {time[point]:.9g} s: {cause}"
