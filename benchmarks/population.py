"""Do intervals of distributions over subjects hold, and tests of nested models reject the true one?

Slopes of subjects that are drawn from a normal distribution, y = a + b t with noise, without any
error of the model: the share of records in which 95 % intervals hold the truth, and the share in
which the likelihood ratio test rejects at 5 % and 1 % what is true: that the slope is zero in one
record, that subjects are alike.

    python benchmarks/population.py [--records N] [--subjects N ...] [--workers N] [--write]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed

import kinesym as ks

x = ks.dynamicsymbols("x")
a, b = sp.symbols("a b")
TIME = np.linspace(0.0, 1.0, 9)
TRUTH = {"a": 0.3, "mean(b)": 1.0, "sd(b)": 0.5}
STD = 0.2
LEVELS = (0.05, 0.01)


def posed(rows: np.ndarray, unknown: Mapping[sp.Symbol, object], **known: float) -> ks.Collocation:
    """y = a + b t of records (subjects, N)."""
    line = ks.Model("line", [x], [], [b], [x.diff(ks.t) - b])
    trials = [
        ks.Experiment(TIME, measurements={"y": y}, labels={"subject": k})
        for k, y in enumerate(rows)
    ]
    more = {"boundary": [ks.at_start(x)], "sensors": {"y": a + x}, "scheme": "radau-1"}
    return ks.Collocation(line, trials, unknown, known, **more)


def drawn(seed: int, subjects: int, mean: float, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Slopes, and samples (subjects, N)."""
    rng = np.random.default_rng(seed)
    slopes = mean + sd * rng.standard_normal(subjects)
    noise = STD * rng.standard_normal((subjects, len(TIME)))
    return slopes, TRUTH["a"] + slopes[:, None] * TIME + noise


RANDOM = {a: None, b: ks.per("subject", ks.normal(None, None))}


def intervals(seed: int, subjects: int) -> dict[str, float]:
    """Whether intervals hold the truth; of slopes, the share that do."""
    slopes, rows = drawn(1000 + seed, subjects, TRUTH["mean(b)"], TRUTH["sd(b)"])
    table = posed(rows, RANDOM).solve({b: 0.5}).parameters.table
    truth = TRUTH | {f"b[{k}]": slope for k, slope in enumerate(slopes)}
    held = {name: table[name].low <= value <= table[name].high for name, value in truth.items()}
    own = float(np.mean([held[f"b[{k}]"] for k in range(subjects)]))
    return {**{name: float(held[name]) for name in TRUTH}, "b": own, "sd": table["sd(b)"].value}


def alike(seed: int, subjects: int) -> float:
    """p of subjects that are alike."""
    rows = drawn(9000 + seed, subjects, TRUTH["mean(b)"], 0.0)[1]
    one = posed(rows, {a: None, b: None}).solve({b: 0.5})
    each = posed(rows, RANDOM).solve({b: 0.5})
    return ks.compare({"one": one, "each": each}).test("one", "each").probability


def level(seed: int, subjects: int) -> float:
    """p of one slope that is zero."""
    rows = drawn(5000 + seed, subjects, 0.0, 0.0)[1]
    flat = posed(rows, {a: None}, b=0.0).solve()
    slope = posed(rows, {a: None, b: None}).solve({b: 0.5})
    return ks.compare({"flat": flat, "slope": slope}).test("flat", "slope").probability


HEADER = ["subjects", "records", "mean [%]", "sd [%]", "a [%]", "b of subjects [%]"]
HEADER += ["mean of sd/true", "alike: 5 % [%]", "1 % [%]", "slope: 5 % [%]", "1 % [%]"]


def row(found: Sequence[Mapping[str, float]], tests: Sequence[Sequence[float]]) -> list[float]:
    """Shares [%] in which intervals hold and tests reject."""
    mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    shares = [100.0 * mean[name] for name in ("mean(b)", "sd(b)", "a", "b")]
    rejected = [100.0 * float(np.mean(np.array(p) < alpha)) for p in tests for alpha in LEVELS]
    return [*shares, mean["sd"] / TRUTH["sd(b)"], *rejected]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--subjects", type=int, nargs="+", default=[5, 8, 20])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    given = parsed(parser)
    records = 2 if given.quick else given.records
    rows = []
    with ProcessPoolExecutor(given.workers) as executor:

        def each(task: Callable[[int, int], object], subjects: int) -> list:
            return list(executor.map(partial(task, subjects=subjects), range(records)))

        for subjects in given.subjects[:1] if given.quick else given.subjects:
            tests = [each(alike, subjects), each(level, subjects)]
            rows.append([subjects, records, *row(each(intervals, subjects), tests)])
    lines = [[str(n) for n in r[:2]] + [f"{share:.1f}" for share in r[2:]] for r in rows]
    for line, r in zip(lines, rows, strict=True):
        line[6] = f"{r[6]:.2f}"
    named = [dict(zip(HEADER, map(str, r), strict=False)) for r in rows]
    leave(given, "population", machine("scipy"), [table(HEADER, lines)], named)


if __name__ == "__main__":
    main()
