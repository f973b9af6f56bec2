"""Words in which problems are declared: a problem is a statement, for solvers, and its truth."""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """statement : what a solver gets, plain data. truth : parameters, initial values, inputs as
    functions of t or seeds, standard deviations."""

    statement: dict[str, Any]
    truth: dict[str, Any]


class Unknown(NamedTuple):
    """A number to be found. scope : "all", "subject" or "trial" (it has one value for each)."""

    unit: str
    low: float
    high: float
    guess: float
    truth: float | dict[str, float]
    scope: str = "all"
    meaning: str = ""


class Start(NamedTuple):
    """An unknown initial value, one for each trial."""

    low: float
    high: float
    guess: float
    truth: float | list[float]


def state(unit: str, initial: Any = 0.0, meaning: str = "") -> dict[str, Any]:
    """A state; initial : a number, an expression of parameters, or a `Start`."""
    return {"unit": unit, "meaning": meaning, "initial": initial}


def swing(theta: Any = 0.0, omega: Any = 0.0, meaning: str = "") -> dict[str, Any]:
    """States of what turns about one axis: an angle and its speed, from these initial values."""
    return {"theta": state("rad", theta, meaning), "omega": state("rad/s", omega)}


def turning(acceleration: str) -> dict[str, str]:
    """Rates of the states of `swing`."""
    return {"theta": "omega", "omega": acceleration}


def exact(unit: str, course: str, every: float, between: str = "linear", meaning: str = "") -> dict:
    """A known input: its values every so many seconds are in the files."""
    return {
        "kind": "exact",
        "unit": unit,
        "meaning": meaning,
        "every": every,
        "between": between,
        "course": course,
    }


def noisy(unit: str, course: str, every: float, std: float, meaning: str = "") -> dict:
    """An input measured with noise, linear between its samples."""
    return {**exact(unit, course, every, "linear", meaning), "kind": "measured", "std": std}


def hidden(
    unit: str, course: str, every: float, low: float, high: float, meaning: str = ""
) -> dict:
    """An unknown input, held for so many seconds."""
    return {
        **exact(unit, course, every, "held", meaning),
        "kind": "unknown",
        "low": low,
        "high": high,
    }


def random(unit: str, intensity: str, every: float, meaning: str = "") -> dict:
    """An unknown input that is white noise of this intensity (a parameter) [unit sqrt(s)]: held for
    `every` seconds, independent, normal, of variance intensity^2/every."""
    return {
        "kind": "random",
        "unit": unit,
        "meaning": meaning,
        "every": every,
        "between": "held",
        "intensity": intensity,
    }


def channel(
    expression: str, unit: str, std: float | None, clock: str = "main", **more: Any
) -> dict:
    """A measured quantity with white normal noise. std : None where it is unknown, then
    `true_std` in `more`. delay : the sample at t shows the value at t - delay. gaps : seconds in
    which nothing is seen."""
    return {"expression": expression, "unit": unit, "std": std, "clock": clock, **more}


def clock(stop: float, step: float, start: float = 0.0) -> dict[str, float]:
    """Times of samples [s]."""
    return {"start": start, "stop": stop, "step": step}


def sines(*terms: tuple[float, float, float]) -> str:
    """Sum of sines as text: amplitude, rad/s, phase."""
    return " + ".join(f"{a}*sin({w}*t + {p})" for a, w, p in terms)


def problem(
    name: str,
    title: str,
    kinds: list[str],
    source: str,
    *,
    states: dict,
    rates: dict,
    unknown: dict[str, Unknown],
    measured: dict,
    clocks: dict,
    inputs: dict | None = None,
    known: dict | None = None,
    trials: list[dict] | None = None,
    cannot_be_known: list[str] | None = None,
    **more: Any,
) -> Problem:
    """A problem from its declarations, divided into statement and truth."""
    trials = trials or [{}]
    truth: dict[str, Any] = {"parameters": {}, "initial": [{} for _ in trials]}
    truth |= {"inputs": [{} for _ in trials], "std": {}, "cannot_be_known": cannot_be_known or []}
    wanted = {}
    for key, each in unknown.items():
        row = each._asdict()
        value = row.pop("truth")
        wanted[key] = {k: v for k, v in row.items() if v != ""}
        labels = labels_of(each.scope, trials)
        for label in labels:
            full = f"{key}[{label}]" if label else key
            truth["parameters"][full] = value[label] if isinstance(value, dict) else value
    begun = {}
    for key, row in states.items():
        begin, begun[key] = row["initial"], dict(row)
        if isinstance(begin, Start):
            begun[key]["initial"] = {"low": begin.low, "high": begin.high, "guess": begin.guess}
            for k, each in enumerate(truth["initial"]):
                each[key] = begin.truth[k] if isinstance(begin.truth, list) else begin.truth
    given = {}
    for key, row in (inputs or {}).items():
        given[key] = {k: v for k, v in row.items() if k != "course"}
        for trial, each in zip(trials, truth["inputs"], strict=True):
            each[key] = trial.get("inputs", {}).get(key, row.get("course", ""))
    seen = {}
    for key, row in measured.items():
        seen[key] = {k: v for k, v in row.items() if k != "true_std"}
        truth["std"][key] = row.get("true_std", row["std"])
    statement = {
        "name": name,
        "title": title,
        "kinds": kinds,
        "source": source,
        "states": begun,
        "inputs": given,
        "known": {k: {"value": v, "unit": u} for k, (v, u) in (known or {}).items()},
        "unknown": wanted,
        "report": list(truth["parameters"]),
        **more,
        "rates": rates,
        "measured": seen,
        "clocks": clocks,
        "trials": [{k: v for k, v in trial.items() if k != "inputs"} for trial in trials],
    }
    return Problem(statement, truth)


def labels_of(scope: str, trials: list[dict]) -> list[str]:
    """Labels of the values that an unknown has: none, subjects, or numbers of trials."""
    if scope == "subject":
        return list(dict.fromkeys(trial["subject"] for trial in trials))
    return [str(k) for k in range(len(trials))] if scope == "trial" else [""]
