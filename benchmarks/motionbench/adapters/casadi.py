"""CasADi by hand: collocation at the Radau points of degree 3, IPOPT, errors from the Jacobian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sparse
from motionbench.adapters._common import (
    bounds_of,
    errors_of,
    has,
    nodes,
    refuse,
    scoped,
    series,
    spreads,
)
from motionbench.equations import lets, value
from motionbench.suite import read_record
from scipy.interpolate import BarycentricInterpolator
from scipy.sparse.linalg import splu

FUNCTIONS = {
    n: getattr(ca, n) for n in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "atan", "sign")
}
FUNCTIONS |= {"abs": ca.fabs, "max": ca.fmax, "min": ca.fmin}
#: Points of Radau IIA of three stages, and the start of the interval before them.
POINTS = np.array([0.0, *ca.collocation_points(3, "radau")])


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One nonlinear program of all trials; unknown standard deviations by residuals, five times."""
    refuse(
        statement,
        events=bool(statement.get("events")),
        delays=bool(statement.get("delays")),
        delays_of_sensors=any("delay" in row for row in statement["measured"].values()),
        random_inputs=has(statement, "random"),
    )
    record, (names, low, high, guess) = read_record(folder), bounds_of(statement)
    p = ca.MX.sym("p", len(names))
    parts = [Trial(statement, record, k, names, p) for k in range(len(statement["trials"]))]
    std = {key: row["std"] or 1.0 for key, row in statement["measured"].items()}
    z = ca.vertcat(p, *(part.z for part in parts))
    constraints = ca.vertcat(*(part.constraints for part in parts))
    weight = ca.MX.sym("weight", len(std))
    rows = [row / weight[list(std).index(k)] for part in parts for k, row in part.residuals.items()]
    rows += [row for part in parts for row in part.prior]
    residual = ca.vertcat(*rows)
    program = {"x": z, "p": weight, "f": ca.sumsqr(residual) / 2.0, "g": constraints}
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": 1e-8}
    solver = ca.nlpsol("solver", "ipopt", program, options)
    plain = ca.Function("plain", [z], [ca.vertcat(*part.residuals.values()) for part in parts])
    lows, highs, x = (
        np.concatenate([own, *(getattr(part, key) for part in parts)])
        for own, key in ((low, "low"), (high, "high"), (guess, "guess"))
    )
    for _ in range(5 if any(r["std"] is None for r in statement["measured"].values()) else 1):
        found = solver(x0=x, p=list(std.values()), lbx=lows, ubx=highs, lbg=0.0, ubg=0.0)
        if not solver.stats()["success"]:
            raise RuntimeError(solver.stats()["return_status"])
        x, values = np.array(found["x"]).ravel(), plain(found["x"])
        new = spreads(
            by_channel(parts, values if isinstance(values, tuple) else [values]),
            sum(part.free for part in parts) + len(names),
        )
        std = {k: statement["measured"][k]["std"] or new[k] for k in std}
    slopes = ca.Function(
        "slopes", [z, weight], [ca.jacobian(residual, z), ca.jacobian(constraints, z)]
    )
    j, a = (each.sparse() for each in slopes(x, list(std.values())))
    held = np.concatenate([np.zeros(len(names), bool), *(part.dependent for part in parts)])
    fixed = lows == highs
    free = ~held & ~fixed
    step = splu(sparse.csc_matrix(a)[:, held]).solve(sparse.csc_matrix(a)[:, free].toarray())
    reduced = sparse.csc_matrix(j)[:, free].toarray() - sparse.csc_matrix(j)[:, held] @ step
    errors, lost = errors_of(reduced, names)
    span = high - low
    inside = {
        n
        for n, v, a, b, s in zip(names, x, low, high, span, strict=False)
        if a + 1e-6 * s < v < b - 1e-6 * s
    }
    return {
        "parameters": dict(zip(names, x.tolist(), strict=False)),
        "cannot_be_known": lost,
        "standard_errors": {k: v for k, v in errors.items() if k in inside},
    }


def by_channel(parts: list[Trial], values: Any) -> dict[str, list[np.ndarray]]:
    """Residuals of all trials by channel."""
    found: dict[str, list[np.ndarray]] = {}
    for part, rows in zip(parts, values, strict=True):
        flat, place = np.array(rows).ravel(), 0
        for key, row in part.residuals.items():
            found.setdefault(key, []).append(flat[place : place + row.numel()])
            place += row.numel()
    return found


class Trial:
    """Unknowns of a trial, its defects and residuals.

    z : states at nodes and stages (column by column), then values of unknown inputs. dependent :
    which of z follow from the others. free : how many do not."""

    def __init__(self, statement: dict, record: Any, k: int, names: list[str], p: Any) -> None:
        self.time = time = nodes(statement)
        n, steps = len(statement["states"]), np.diff(time)
        count = 4 * len(steps) + 1
        every = (time[:-1, None] + steps[:, None] * POINTS[1:]).ravel()
        moments = np.append(np.insert(every, np.arange(0, 3 * len(steps), 3), time[:-1]), time[-1])
        self.x, self.k = ca.MX.sym("x", n, count), k
        inputs, unknown, self.prior = self.inputs(statement, record, moments)
        self.z = ca.vertcat(ca.vec(self.x), *unknown)
        own = scoped(statement, k)
        scalars = [p[names.index(own[key])] for key in statement["unknown"]]
        rates, shown = functions(statement, k)
        # Columns of a step: its start and three stages; its end is the start of the next, too.
        columns = np.arange(4 * len(steps)).reshape(-1, 4)
        matrix = slopes_at(POINTS)
        f = rates.map(3 * len(steps))(
            self.x[:, columns[:, 1:].ravel().tolist()],
            inputs[:, columns[:, 1:].ravel().tolist()],
            ca.repmat(ca.vertcat(*scalars), 1, 3 * len(steps)),
            moments[columns[:, 1:].ravel()][None],
        )
        turn = sparse.block_diag([matrix / h for h in steps]).tocsc()
        defects = ca.mtimes(self.x[:, : 4 * len(steps)], ca.DM(turn)) - f
        joints = self.x[:, columns[:, 3].tolist()] - self.x[:, (columns[:, 0] + 4).tolist()]
        self.constraints = ca.vertcat(ca.vec(defects), ca.vec(joints))
        self.residuals = {}
        for key in statement["measured"]:
            times, seen = series(statement, record, k, key)
            mix = ca.DM(weights(time, times))
            at = [ca.mtimes(self.x, mix), ca.mtimes(inputs, mix)]
            modelled = shown[key].map(len(times))(
                *at, ca.repmat(ca.vertcat(*scalars), 1, len(times)), times[None]
            )
            self.residuals[key] = ca.DM(seen) - modelled.T
        self.bounds(statement, record, moments, unknown)

    def inputs(self, statement: dict, record: Any, moments: np.ndarray) -> tuple:
        """Values at all points, symbols of unknown values, residuals of measured ones."""
        rows, unknown, prior = [], [], []
        for key, row in statement["inputs"].items():
            knots = row["every"] * np.arange(int(np.ceil(self.time[-1] / row["every"] - 1e-9)) + 1)
            columns = record.get(f"input_{key}.{self.k}.csv")
            middle = (self.time[:-1] + self.time[1:]) / 2.0
            place = (
                np.searchsorted(knots, np.append(np.repeat(middle, 4), middle[-1]), side="right")
                - 1
            )
            if row["between"] == "held":
                mix = sparse.csc_matrix(
                    (np.ones(len(place)), (place, np.arange(len(place)))), (len(knots), len(place))
                )
            else:
                mix = sparse.csc_matrix(
                    np.array([np.interp(moments, knots, e) for e in np.eye(len(knots))])
                )
            if row["kind"] == "exact":
                rows.append(ca.DM(columns[key][None] @ mix))
                continue
            u = ca.MX.sym(key, len(knots))
            rows.append(ca.mtimes(u.T, ca.DM(mix)))
            unknown.append(u)
            if row["kind"] == "measured":
                prior.append((ca.DM(columns[key]) - u) / row["std"])
        return ca.vertcat(*rows) if rows else ca.DM.zeros(0, len(moments)), unknown, prior

    def bounds(self, statement: dict, record: Any, moments: np.ndarray, unknown: list) -> None:
        n, count = len(statement["states"]), len(moments)
        low, high = np.full((n, count), -np.inf), np.full((n, count), np.inf)
        guess = first_guess(statement, record, self.k, moments)
        dependent = np.ones((n, count), bool)
        dependent[:, 0] = False
        for i, row in enumerate(statement["states"].values()):
            if not isinstance(row["initial"], dict):
                low[i, 0] = high[i, 0] = guess[i, 0] = row["initial"]
        sizes = [u.numel() for u in unknown]
        rows = [row for row in statement["inputs"].values() if row["kind"] != "exact"]
        ends = [
            [np.full(m, row.get(key, inf)) for m, row in zip(sizes, rows, strict=True)]
            for key, inf in (("low", -np.inf), ("high", np.inf))
        ]
        begin = [
            np.array(record.get(f"input_{key}.{self.k}.csv", {}).get(key, np.zeros(m)))
            for (key, row), m in zip(
                [(k, r) for k, r in statement["inputs"].items() if r["kind"] != "exact"],
                sizes,
                strict=True,
            )
        ]
        self.low, self.high, self.guess = (
            np.concatenate([a.ravel("F"), *b])
            for a, b in ((low, ends[0]), (high, ends[1]), (guess, begin))
        )
        self.dependent = np.concatenate([dependent.ravel("F"), np.zeros(sum(sizes), bool)])
        self.free = int((~self.dependent & (self.low < self.high)).sum())


def functions(statement: dict, k: int) -> tuple[Any, dict[str, Any]]:
    """Rates, and what each channel shows, as functions of states, inputs, unknowns and t."""
    x, u = (ca.SX.sym(s, len(statement[key])) for s, key in (("x", "states"), ("u", "inputs")))
    p, t = ca.SX.sym("p", len(statement["unknown"])), ca.SX.sym("t")
    names: dict[str, Any] = {"t": t, **{n: row["value"] for n, row in statement["known"].items()}}
    names |= statement["trials"][k].get("known", {})
    for symbols, key in ((x, "states"), (u, "inputs"), (p, "unknown")):
        names |= {name: symbols[i] for i, name in enumerate(statement[key])}
    lets(statement, names, FUNCTIONS)
    own = [x, u, p, t]
    rates = ca.vertcat(
        *(value(str(statement["rates"][s]), names, FUNCTIONS) for s in statement["states"])
    )
    shown = {
        key: ca.Function(key, own, [value(row["expression"], names, FUNCTIONS)])
        for key, row in statement["measured"].items()
    }
    return ca.Function("rates", own, [rates]), shown


def slopes_at(points: np.ndarray) -> np.ndarray:
    """(points, stages): a polynomial through values at the points times this is its slope there."""
    found = np.empty((len(points), len(points) - 1))
    for i, row in enumerate(np.eye(len(points))):
        found[i] = np.polyval(np.polyder(np.polyfit(points, row, len(points) - 1)), points[1:])
    return found


def weights(nodes: np.ndarray, times: np.ndarray) -> Any:
    """(4 steps + 1, times): the polynomials of the steps, at these times."""
    place = np.clip(np.searchsorted(nodes, times + 1e-9, side="right") - 1, 0, len(nodes) - 2)
    share = (times - nodes[place]) / np.diff(nodes)[place]
    mixed = BarycentricInterpolator(POINTS, np.eye(4))(share)
    mixed[np.abs(mixed) < 1e-9] = 0.0
    rows = (4 * place[:, None] + np.arange(4)).ravel()
    columns = np.repeat(np.arange(len(times)), 4)
    return sparse.csc_matrix(
        (mixed.ravel(), (rows, columns)), (4 * (len(nodes) - 1) + 1, len(times))
    )


def first_guess(statement: dict, record: Any, k: int, moments: np.ndarray) -> np.ndarray:
    """States from samples of themselves, speeds from slopes, the others as they begin."""
    found = {}
    for name, row in statement["states"].items():
        begin = row["initial"]
        found[name] = np.full(
            len(moments), begin["guess"] if isinstance(begin, dict) else float(begin)
        )
    seen = {row["expression"]: key for key, row in statement["measured"].items()}
    for name in found:
        if name in seen:
            times, values = series(statement, record, k, seen[name])
            found[name] = np.interp(moments, times, values)
    for name, rate in statement["rates"].items():
        if rate in found and rate not in seen and name in seen:
            wide = np.linspace(0.0, moments[-1], max(int(len(moments) / 20), 10))
            found[rate] = np.interp(
                moments, wide, np.gradient(np.interp(wide, moments, found[name]), wide)
            )
    return np.stack(list(found.values()))
