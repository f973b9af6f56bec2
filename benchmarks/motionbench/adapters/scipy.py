"""SciPy: simulation by DOP853 (the suite's own, at 1e-8) and least_squares with differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from motionbench.adapters._common import bounds_of, errors_of, has, refuse, series, spreads
from motionbench.reference import Course, Simulator, samples
from motionbench.suite import initial_of, instants, of_trial, read_record, stop_of
from scipy.optimize import least_squares

#: Unknown values of inputs above which differences cost too much.
MOST = 100


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Least squares from the guess; unknown standard deviations from residuals, five times."""
    names, low, high, guess = bounds_of(statement)
    shifts = layout(statement)
    refuse(
        statement,
        random_inputs=has(statement, "random"),
        too_many_unknown_values_of_inputs=sum(len(row[3]) for row in shifts if row[1]) > MOST,
    )
    record = read_record(folder)
    low, high, guess = (
        np.concatenate([own, *(row[3 + k] for row in shifts)])
        for k, own in ((0, low), (1, high), (2, guess))
    )
    std = {key: row["std"] or 1.0 for key, row in statement["measured"].items()}
    function = residuals(statement, record, names, shifts)
    span = np.where(np.isfinite(high - low), high - low, 1.0)
    for _ in range(5 if any(r["std"] is None for r in statement["measured"].values()) else 1):
        found = least_squares(
            partial(weighted, function, std),
            np.clip(guess, low + 1e-9 * span, high - 1e-9 * span),
            "3-point",
            (low, high),
            x_scale=np.maximum(np.abs(guess), 0.01 * span),
            diff_step=1e-5,
            max_nfev=200,
            xtol=1e-10,
        )
        guess, rows = found.x, function(found.x)
        new = spreads(rows, len(guess))
        std = {k: statement["measured"][k]["std"] or new[k] for k in rows}
    if not found.success or found.cost > 1e6:
        raise RuntimeError(found.message)
    errors, lost = errors_of(found.jac, names)
    at_bound = [n for n, side in zip(names, found.active_mask, strict=False) if side]
    return {
        "parameters": dict(zip(names, found.x.tolist(), strict=False)),
        "cannot_be_known": lost,
        "standard_errors": {k: v for k, v in errors.items() if k not in at_bound},
    }


def weighted(function: Callable, std: dict[str, float], q: np.ndarray) -> np.ndarray:
    """All residuals over their standard deviations."""
    return np.concatenate([row / std[k] for k, rows in function(q).items() for row in rows])


def layout(statement: dict[str, Any]) -> list[tuple]:
    """What is unknown beside parameters: trial, input or "", state, and arrays low, high, guess."""
    found: list[tuple] = []
    for k in range(len(statement["trials"])):
        for name, row in statement["states"].items():
            if isinstance(row["initial"], dict):
                three = (np.array([float(row["initial"][s])]) for s in ("low", "high", "guess"))
                found.append((k, "", name, *three))
        for name, row in statement["inputs"].items():
            if row["kind"] in ("unknown", "measured"):
                one = np.ones(int(np.ceil(stop_of(statement) / row["every"] - 1e-9)) + 1)
                low, high = row.get("low", -np.inf), row.get("high", np.inf)
                found.append((k, name, "", low * one, high * one, 0.0 * one))
    return found


def residuals(
    statement: dict[str, Any], record: Any, names: list[str], shifts: list[tuple]
) -> Callable:
    """Measured minus simulated samples by channel, a list over trials, of all unknowns."""
    simulate = Simulator(statement, 1e-8, 1e-10)

    def function(q: np.ndarray) -> dict[str, list[np.ndarray]]:
        shared, rest = dict(zip(names, q, strict=False)), q[len(names) :]
        found: dict[str, list[np.ndarray]] = {key: [] for key in statement["measured"]}
        for k in range(len(statement["trials"])):
            here = of_trial(statement, k, shared)
            begun, courses = {}, {}
            for key, row in statement["inputs"].items():
                if row["kind"] == "exact":
                    columns = record[f"input_{key}.{k}.csv"]
                    courses[key] = Course(columns["t"], columns[key], row["between"])
            for trial, key, state, *bounds in shifts:
                if trial == k:
                    own, rest = rest[: len(bounds[0])], rest[len(bounds[0]) :]
                    if state:
                        begun[state] = own[0]
                    else:
                        row = statement["inputs"][key]
                        courses[key] = Course(
                            row["every"] * np.arange(len(own)), own, row["between"]
                        )
            try:
                motion = simulate(here, initial_of(statement, k, here, begun), courses)
                shown = samples(statement, motion, here, courses)
            except (ArithmeticError, ValueError):
                shown = {}
            for key, row in statement["measured"].items():
                times, seen = series(statement, record, k, key)
                off = np.full(len(times), 1e4)
                if key in shown:
                    there = np.isin(
                        instants(statement["clocks"][row["clock"]]).round(9), times.round(9)
                    )
                    off = np.nan_to_num(seen - shown[key][there], nan=1e4, posinf=1e4, neginf=-1e4)
                found[key].append(np.clip(off, -1e4, 1e4))
        return found

    return function
