"""An adapter in 30 lines, to copy: least squares and simulation by SciPy, from the statement.

It solves what has one trial, known starts, no inputs from files, and no events or delays.
"""

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares


def solve(statement, folder):
    """statement : a dictionary (statement.json). folder : of the CSV files of one record."""
    if statement["inputs"] or statement.get("events") or statement.get("delays"):
        raise NotImplementedError("inputs, events or delays")  # counts as refused, not as failed
    if len(statement["trials"]) > 1 or len(statement["clocks"]) > 1:
        raise NotImplementedError("several trials or clocks")
    states, unknown, seen = statement["states"], statement["unknown"], statement["measured"]
    if any(isinstance(row["initial"], dict) for row in states.values()):
        raise NotImplementedError("unknown starts")
    if any(row["std"] is None for row in seen.values()):
        raise NotImplementedError("unknown standard deviations")
    known = {name: row["value"] for name, row in statement["known"].items()}
    functions = {**vars(math), "abs": abs, "max": max, "min": min}
    [clock] = statement["clocks"]
    table = np.genfromtxt(folder / f"{clock}.0.csv", delimiter=",", names=True)

    def pairs(keys, values):
        return dict(zip(keys, values, strict=True))

    def names(t, x, q):
        here = {**functions, **known, "t": t, **pairs(unknown, q), **pairs(states, x)}
        for name, text in statement.get("let", {}).items():
            here[name] = eval(text, here)
        return here

    def residuals(q):
        def rates(t, x):
            here = names(t, x, q)
            return [eval(text, here) for text in map(statement["rates"].get, states)]

        start = [row["initial"] for row in states.values()]
        run = solve_ivp(
            rates, (0, table["t"][-1]), start, "DOP853", table["t"], rtol=1e-9, atol=1e-11
        )
        here = [names(t, x, q) for t, x in zip(table["t"], run.y.T, strict=True)]
        rows = [
            (table[k] - [eval(row["expression"], each) for each in here]) / row["std"]
            for k, row in seen.items()
        ]
        return np.concatenate(rows)

    low, high, guess = ([row[key] for row in unknown.values()] for key in ("low", "high", "guess"))
    fit = least_squares(residuals, guess, bounds=(low, high), x_scale="jac", diff_step=1e-6)
    errors = np.sqrt(np.diag(np.linalg.pinv(fit.jac.T @ fit.jac)))
    return {"parameters": pairs(unknown, fit.x), "standard_errors": pairs(unknown, errors)}
