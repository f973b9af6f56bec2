"""An adapter to copy: least squares and simulation by SciPy, for what has no special features."""

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares


def solve(statement, folder):
    """statement : a dictionary (statement.json). folder : of the CSV files of one record."""
    unknown, rates, seen = (statement[key] for key in ("unknown", "rates", "measured"))
    start = [row["initial"] for row in statement["states"].values()]
    special = {"events", "delays"} & {*statement} or len(statement["trials"]) > 1
    if special or statement["inputs"] or any(isinstance(value, dict) for value in start):
        raise NotImplementedError("inputs, events, delays, trials, unknown starts")  # refused
    known = {name: row["value"] for name, row in statement["known"].items()}
    functions = {**vars(math), "abs": abs, "max": max, "min": min, **known}
    table = np.genfromtxt(folder / "main.0.csv", delimiter=",", names=True)

    def evaluated(texts, t, x, q):
        names = {"t": t, **dict(zip(unknown, q, strict=True)), **dict(zip(rates, x, strict=True))}
        for name, text in statement.get("let", {}).items():
            names[name] = eval(text, functions, names)
        return [eval(text, functions, names) for text in texts]

    def residuals(q):
        texts, times = [row["expression"] for row in seen.values()], table["t"]
        run = solve_ivp(
            lambda t, x: evaluated(rates.values(), t, x, q),
            (0, times[-1]),
            start,
            "DOP853",
            times,
            rtol=1e-8,
        )
        model = np.array([evaluated(texts, *at, q) for at in zip(times, run.y.T, strict=True)]).T
        pairs = zip(seen.items(), model, strict=True)
        return np.concatenate([(table[key] - row) / each["std"] for (key, each), row in pairs])

    low, high, guess = ([row[key] for row in unknown.values()] for key in ("low", "high", "guess"))
    fit = least_squares(residuals, guess, bounds=(low, high), x_scale="jac", diff_step=1e-4)
    errors = np.sqrt(np.diag(np.linalg.pinv(fit.jac.T @ fit.jac)))
    answer = {"parameters": fit.x, "standard_errors": errors}
    return {key: dict(zip(unknown, row, strict=True)) for key, row in answer.items()}
