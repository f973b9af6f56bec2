"""kinesym: collocation by radau-5; shooting where states jump at events or equations are stiff."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from motionbench.adapters._common import nodes, series
from motionbench.equations import lets, value
from motionbench.suite import Record, read_record

import kinesym as ks

FUNCTIONS = {
    n: getattr(sp, n) for n in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "atan", "sign")
}
FUNCTIONS |= {"abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def solve(statement: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Estimates with intervals by t; unknown is what has no standard error."""
    warnings.simplefilter("ignore")
    record = read_record(folder)
    names = scope(statement)
    guess = {
        f"sigma_{k}": statement["unknown"][r["intensity"]]["guess"]
        for k, r in statement["inputs"].items()
        if r["kind"] == "random"
    }
    own = {r.get("intensity") for r in statement["inputs"].values()}
    guess |= {k: r["guess"] for k, r in statement["unknown"].items() if k not in own}
    seen = {row["expression"] for row in statement["measured"].values()}
    for k, row in statement["states"].items():
        if isinstance(row["initial"], dict) and k not in seen and row["initial"]["guess"]:
            guess[k] = row["initial"]["guess"]  # of the whole course
    if statement.get("events") or "stiff" in statement["kinds"]:
        fit = shooting(statement, record, names).solve(guess, optimizer="least-squares")
    else:
        fit = collocation(statement, record, names).solve(guess)
    if not fit.success:
        raise RuntimeError(fit.message)
    rows = fit.parameters.table
    noise = {
        f"sigma_{k}": r["intensity"]
        for k, r in statement["inputs"].items()
        if r["kind"] == "random"
    }
    rows = {noise.get(k, k): row for k, row in rows.items() if k.split("[")[0] in {*guess, *noise}}
    lost = [k for k, row in rows.items() if np.isnan(row.standard_error)]
    sure = {k: row for k, row in rows.items() if row.standard_error > 0.0}
    return {
        "parameters": {k: row.value for k, row in rows.items()},
        "standard_errors": {k: row.standard_error for k, row in sure.items()},
        "intervals": {k: list(row.interval) for k, row in sure.items()},
        "cannot_be_known": lost,
    }


def scope(statement: dict[str, Any]) -> dict[str, Any]:
    """Symbols of all names, and the abbreviations of the statement as expressions."""
    moving = [*statement["states"], *statement["inputs"], *statement.get("modes", {})]
    names: dict[str, Any] = {"t": ks.t, **{n: ks.dynamicsymbols(n) for n in moving}}
    names |= {n: sp.Symbol(n) for n in [*statement["known"], *statement["unknown"]]}
    plain = dict(names)
    names["delayed"] = lambda name, lag: ks.delayed(plain[name], lag)
    return lets(statement, names, FUNCTIONS)


def model(statement: dict[str, Any], names: dict[str, Any]) -> ks.Model:
    states = [names[n] for n in statement["states"]]
    rates = [value(str(statement["rates"][n]), names, FUNCTIONS) for n in statement["states"]]
    inputs = [names[n] for n in [*statement["inputs"], *statement.get("modes", {})]]
    used = sp.Tuple(*rates).free_symbols
    known = {names[k]: row["value"] for k, row in statement["known"].items() if names[k] in used}
    free = [names[k] for k in statement["unknown"] if names[k] in used]
    rows = [state.diff(ks.t) - rate for state, rate in zip(states, rates, strict=True)]
    return ks.Model(statement["name"], states, inputs, [*known, *free], rows, values=known)


def trials(statement: dict[str, Any], record: Record, names: dict[str, Any]) -> list[ks.Experiment]:
    found, grid = [], nodes(statement)
    for k, trial in enumerate(statement["trials"]):
        inputs, seen, std = {}, {}, {}
        for key, row in statement["inputs"].items():
            if f"input_{key}.{k}.csv" not in record:
                continue
            columns = record[f"input_{key}.{k}.csv"]
            between = {"linear": "linear", "held": "held"}[row["between"]]
            if row["kind"] == "measured":
                seen[key], std[key] = ks.Signal(columns["t"], columns[key]), row["std"]
            else:
                inputs[key] = ks.Signal(columns["t"], columns[key], between=between)
        for key, row in statement["measured"].items():
            seen[shown(statement, key)] = ks.Signal(*series(statement, record, k, key))
            if row["std"] is not None:
                std[shown(statement, key)] = row["std"]
        labels = {"subject": trial["subject"]} if "subject" in trial else {}
        found.append(
            ks.Experiment(
                grid,
                inputs=inputs,
                measurements=seen,
                std=std,
                parameters=trial.get("known", {}),
                labels=labels,
            )
        )
    return found


def unknown(statement: dict[str, Any], names: dict[str, Any]) -> dict[Any, Any]:
    random = {row.get("intensity") for row in statement["inputs"].values()}
    found = {}
    for key, row in statement["unknown"].items():
        pair = (row["low"], row["high"])
        if key not in random:
            found[names[key]] = {
                "all": pair,
                "subject": ks.per("subject", pair),
                "trial": ks.per_trial(*pair),
            }[row["scope"]]
    return found


def shown(statement: dict[str, Any], key: str) -> str:
    """What a channel is called: by the state that it shows, else by its own name."""
    row = statement["measured"][key]
    return (
        row["expression"]
        if row["expression"] in statement["states"] and "delay" not in row
        else key
    )


def sensors(statement: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    return {
        key: ks.sensor(
            value(row["expression"], names, FUNCTIONS),
            delay=value(row.get("delay", 0.0), names, FUNCTIONS),
        )
        for key, row in statement["measured"].items()
        if shown(statement, key) == key
    }


def collocation(statement: dict[str, Any], record: Record, names: dict[str, Any]) -> ks.Collocation:
    starts = {k: row["initial"] for k, row in statement["states"].items()}
    boundary = [
        ks.at_start(names[k]) - value(row, names, FUNCTIONS)
        for k, row in starts.items()
        if not isinstance(row, dict)
    ]
    free, noise = {}, {}
    for key, row in statement["inputs"].items():
        if row["kind"] == "measured":
            free[names[key]] = None
        if row["kind"] == "unknown":
            free[names[key]] = ks.held(row["low"], row["high"], every=row["every"])
        if row["kind"] == "random":
            each = statement["unknown"][row["intensity"]]
            noise[names[key]] = (each["low"], each["high"])
    plant = model(statement, names)
    return ks.Collocation(
        plant,
        trials(statement, record, names),
        unknown(statement, names),
        scheme="radau-5",
        boundary=boundary,
        unknown_inputs=free or None,
        noise=noise or None,
        sensors=sensors(statement, names),
    )


def shooting(statement: dict[str, Any], record: Record, names: dict[str, Any]) -> ks.Shooting:
    events = [
        ks.hybrid.Event(
            each["name"],
            value(each["guard"], names, FUNCTIONS),
            each["direction"],
            resets={names[k]: value(v, names, FUNCTIONS) for k, v in each.get("reset", {}).items()},
            sets={names[k]: v for k, v in each.get("set", {}).items()},
        )
        for each in statement.get("events", [])
    ]
    modes = {names[k]: v for k, v in statement.get("modes", {}).items()}
    system = model(statement, names)
    if events:
        system = ks.hybrid.Hybrid(system, modes=modes, events=events)
    starts = {
        names[k]: (row["initial"]["low"], row["initial"]["high"])
        if isinstance(row["initial"], dict)
        else row["initial"]
        for k, row in statement["states"].items()
    }
    return ks.Shooting(
        system,
        trials(statement, record, names),
        unknown(statement, names),
        initial=starts,
        method="radau-5" if "stiff" in statement["kinds"] else None,
        sensors=sensors(statement, names),
    )
