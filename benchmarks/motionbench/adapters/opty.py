"""opty: the midpoint rule with four nodes per sample, IPOPT; estimates without standard errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from motionbench.adapters._common import bounds_of, refuse, series
from motionbench.equations import lets, names_in, value
from motionbench.suite import read_record, stop_of
from opty import Problem

#: Steps of the midpoint rule between two samples.
STEPS = 4
FUNCTIONS = {n: getattr(sp, n) for n in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "atan")}


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Weighted least squares of one trial on equal steps."""
    texts = [*map(str, statement["rates"].values()), *statement.get("let", {}).values()]
    seen = [row["expression"] for row in statement["measured"].values()]
    inputs = statement["inputs"].values()
    refuse(
        statement,
        events=bool(statement.get("events")),
        delays=bool(statement.get("delays")),
        kinks=bool(statement.get("kinks")),
        several_trials_or_clocks=len(statement["trials"]) + len(statement["clocks"]) > 2,
        unknown_or_random_inputs=any(row["kind"] != "exact" for row in inputs),
        held_inputs=any(row["between"] == "held" for row in inputs),
        unknown_standard_deviations=any(r["std"] is None for r in statement["measured"].values()),
        time_in_equations=any("t" in names_in(text) for text in texts),
        sensors_that_are_no_state=any(text not in statement["states"] for text in seen),
    )
    record, (names, low, high, guess) = read_record(folder), bounds_of(statement)
    [clock] = statement["clocks"].values()
    step, stop = clock["step"] / STEPS, stop_of(statement)
    count = round(stop / step) + 1
    grid = step * np.arange(count)
    t, symbols = sp.Symbol("t"), {n: sp.Symbol(n) for n in [*statement["known"], *names]}
    moving = {n: sp.Function(n)(t) for n in [*statement["states"], *statement["inputs"]]}
    here = lets(statement, {**symbols, **moving}, FUNCTIONS)
    equations = sp.Matrix(
        [moving[n].diff(t) - value(text, here, FUNCTIONS) for n, text in statement["rates"].items()]
    )
    states = [moving[n] for n in statement["states"]]
    place = {n: k * count for k, n in enumerate(statement["states"])}
    targets = []
    for key, row in statement["measured"].items():
        times, samples = series(statement, record, 0, key)
        at = place[row["expression"]] + np.round(times / step).astype(int)
        targets.append((at, samples, row["std"]))

    def cost(z: np.ndarray) -> float:
        return sum(float(np.sum(((z[at] - y) / s) ** 2)) for at, y, s in targets)

    def slope(z: np.ndarray) -> np.ndarray:
        found = np.zeros_like(z)
        for at, y, s in targets:
            found[at] += 2.0 * (z[at] - y) / s**2
        return found

    starts = {n: row["initial"] for n, row in statement["states"].items()}
    conditions = [
        sp.Function(n)(0.0) - value(str(v), symbols, FUNCTIONS)
        for n, v in starts.items()
        if not isinstance(v, dict)
    ]
    courses = {
        moving[n]: np.interp(grid, *record[f"input_{n}.0.csv"].values())
        for n in statement["inputs"]
    }
    problem = Problem(
        cost,
        slope,
        equations,
        states,
        count,
        step,
        known_parameter_map={symbols[n]: row["value"] for n, row in statement["known"].items()},
        known_trajectory_map=courses,
        instance_constraints=conditions or None,
        bounds={symbols[n]: (a, b) for n, a, b in zip(names, low, high, strict=True)},
        time_symbol=t,
        integration_method="midpoint",
    )
    problem.add_option("print_level", 0)
    order = [str(symbol) for symbol in problem.collocator.unknown_parameters]
    z = np.zeros(problem.num_free)
    for key, row in statement["measured"].items():
        times, samples = series(statement, record, 0, key)
        begin = place[row["expression"]]
        z[begin : begin + count] = np.interp(grid, times, samples)
    z[len(states) * count :] = [guess[names.index(name)] for name in order]
    z, info = problem.solve(z)
    if info["status"] not in (0, 1):
        raise RuntimeError(info["status_msg"])
    return {"parameters": dict(zip(order, z[len(states) * count :].tolist(), strict=True))}
