"""How long does it take to know what can be known of a model, exactly?

Each row asks `identifiability` of one model: verdict and combinations, CPU time of one thread, the
least of several. The longest is the whole of the links on a cart by the position of the cart alone.

And are second solutions found where there are some? Published functions (of models of
StructuralIdentifiability.jl and others, in tests/symbolic/identifiability) leave some parameters
open up to finitely many values: how many of these are found to have several, and how many of all
others, which would be false.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from record import table
from report import leave, machine, number, parsed

import kinesym as ks

#: Models with published functions, in plain text.
PUBLISHED = Path(__file__).parents[1] / "tests" / "symbolic" / "identifiability"

Question = tuple[str, Callable[[], Any], dict[str, Any]]


def links(n: int) -> Question:
    """All positions of a chain; the force on the cart is known."""
    shown = [f"q_{k}" for k in range(n + 1)]
    return f"{n} links", lambda: ks.models.n_link_pendulum_on_cart(n), {"measured": shown}


def questions() -> list[Question]:
    """Models, and what is asked of them."""
    ten, make, all_shown = links(10)
    posture = {"measured": ["theta_a", "theta_h"]}
    torques = {"measured": ["theta_a", "theta_h", "T_a", "T_h"]}
    gains = [f"k_{i}{j}" for i in range(2) for j in range(4)]
    return [
        *(links(n) for n in (2, 5)),
        (ten, make, all_shown),
        (f"{ten}, force unknown", make, {**all_shown, "unknown_inputs": ["F"]}),
        (f"{ten}, cart alone", make, {"measured": ["q_0"]}),
        links(20),
        ("standing, 8 gains", ks.models.standing, {**posture, "unknown": gains}),
        ("standing, all", ks.models.standing, posture),
        ("standing, all, torques", ks.models.standing, torques),
        ("quiet standing", ks.models.cip, {"measured": ["u_COP"]}),
        ("four-bar, index 3", ks.models.four_bar, {"measured": ["phi_1"]}),
    ]


def measured(question: Question, turns: int) -> dict[str, Any]:
    name, make, asked = question
    model, seconds = make(), list[float]()
    for _ in range(turns):
        begin = time.process_time()
        verdict = model.identifiability(**asked)
        seconds.append(time.process_time() - begin)
    known = {**verdict.parameters, **verdict.starts}
    row = {
        "model": name,
        "parameters": len(verdict.parameters),
        "starts": len(verdict.starts),
        "known": sum(known.values()),
        "combinations": len(verdict.combinations),
        "groups left open": sum(not group.complete for group in verdict.groups),
        "order": verdict.order,
        "chance": verdict.chance,
        "CPU [s]": min(seconds),
    }
    print(row, flush=True)
    return row


def second_solutions(quick: bool) -> list[dict[str, Any]]:
    """Models whose published functions leave parameters open up to finitely many values; all others
    in one row."""
    sys.path.insert(0, str(PUBLISHED))
    from known_functions import LOCAL_ONLY, OF_PARAMETERS, OF_STATES, read

    rows, rest = list[dict[str, Any]](), {"model": "all others", "parameters": 0, "open": 0}
    rest |= {"found": 0, "not open": 0, "tries": 0, "CPU [s]": 0.0}
    every = {**OF_PARAMETERS, **OF_STATES}
    for name in list(LOCAL_ONLY)[:3] if quick else every:
        model, shown, _ = read(every[name])
        verdict = model.identifiability(shown)
        begin = time.process_time()
        several = {p for p in verdict.ambiguous if p in verdict.parameters}
        seconds = time.process_time() - begin
        left = set(LOCAL_ONLY.get(name, "").split())
        row = {
            "model": name,
            "parameters": sum(verdict.parameters.values()),
            "open": len(left),
            "found": len(several & left),
            "not open": len(several - left),
            "tries": verdict.tries,
            "CPU [s]": seconds,
        }
        print(row, flush=True)
        if left:
            rows.append(row)
        else:
            rest |= {key: rest[key] + v for key, v in row.items() if key != "model"}
    return [*rows, rest]


def main() -> None:
    given = parsed(argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]))
    asked = questions()[:2] if given.quick else questions()
    words = machine()
    rows = [measured(question, 1 if given.quick else 3) for question in asked]
    header = ["model", "parameters", "starts", "known", "combinations", "groups left open"]
    header += ["order of the series", "chance of a false verdict", "CPU [s]"]
    cells = [[v if isinstance(v, str) else number(v) for v in row.values()] for row in rows]
    found = second_solutions(given.quick)
    heads = ["model", "parameters that can be known", "of which up to finitely many values"]
    heads += ["found to have several", "of the others", "tries", "CPU [s]"]
    more = [[v if isinstance(v, str) else number(v) for v in row.values()] for row in found]
    leave(given, "identifiability", words, [table(header, cells), table(heads, more)], rows + found)


if __name__ == "__main__":
    main()
