"""Random models against an independent evaluation in high precision: see `jets` and `reference`.

A cut of it runs always. `KINESYM_LONG=1` runs 5000 models and as many single expressions; a range
of seeds, `KINESYM_LONG=2000:3000`, goes on where another run stopped. Counts are printed (`-s`).
"""

import os
import random
import re
from collections import Counter

import generator
import kinks
import mpmath
import numpy as np
import pytest
import sympy as sp
from compiled import compiled_numbers
from expressions import Expressions
from jets import DIGITS
from judge import culprit, judge
from measured import Compiled, Interpreted
from single import compare, flags, smallest

mpmath.mp.dps = DIGITS

LONG = os.environ.get("KINESYM_LONG", "")
FIRST, LAST = map(int, LONG.split(":")) if ":" in LONG else (0, 5000 if LONG else 24)
STEP = 60  # models of one test
COMPILED = 10  # every so many models are compiled as well
WORDS = re.compile(
    r"(the )?(model|equation|term|symbol|path|boundary|integrand|terminal cost|objective"
    r"|at_start|at_end)\b"
)  # a refusal's
SINGLE = 4  # expressions for every model
# Seeds beyond the cut that once differed by the judge, or below the rounding of their rows.
DIFFERED = (2342, 2431, 2546, 2618, 3648, 3994, 4162, 4492)


def ranges(step):
    """The seeds in parts, each the parameter of a test."""
    return [range(k, min(k + step, LAST)) for k in range(FIRST, LAST, step)]


def names(part):
    return f"{part.start}-{part.stop}" if isinstance(part, range) else "differed once"


@pytest.fixture(scope="module", name="counts")
def _counts():
    counts = Counter()
    yield counts
    print(f"\nrandom models: {dict(counts)}")


@pytest.mark.parametrize("seeds", [*ranges(STEP), DIFFERED], ids=names)
def test_models(seeds, counts):
    """Cost, constraints and all derivatives of models with problems."""
    wrong = []
    for seed in seeds:
        counts["tried"] += 1
        try:
            case = generator.case_of(seed)
            evaluated = [Interpreted(case)]
            if seed % COMPILED == 0:
                evaluated.append(Compiled(case))
        except ValueError as refusal:
            if not WORDS.match(str(refusal)):
                wrong.append(f"seed {seed}: {refusal!r}")
            counts["refused in words"] += 1
            continue
        found = [text for one in evaluated for text in judged(case, one, counts)]
        counts["flagged" if found else "right"] += 1
        wrong += found
    assert not wrong, "\n".join([f"{len(wrong)} points are wrong", *wrong[:20]])


def judged(case, evaluated, counts):
    """What is wrong at the points of a case, in words."""
    found = []
    for k, z in enumerate(case.points):
        verdict = judge(case, evaluated, z)
        counts["numbers"] += verdict.compared
        if verdict.wrong:
            blame = culprit(case, z) or verdict
            found.append(f"seed {case.seed}, point {k}, {type(evaluated).__name__}: {blame}")
    return found


def expression_of(seed):
    """A random expression, its symbols, and points, half of them special."""
    rng = random.Random(seed)
    real = {"real": True} if rng.random() < 0.4 else {}
    some = list(sp.symbols("x y z", **real))[: rng.randint(1, 3)]
    e = Expressions(rng, some)(rng.choice([1, 2, 2, 3]))
    leaves = [s for s in some if e.has(s)]

    def special():
        value = rng.choice(generator.SPECIAL) * (1 + rng.choice(generator.NEAR))
        return value + rng.choice(generator.NEAR)

    kinds = [lambda: rng.uniform(-2, 2)] * 2 + [lambda: rng.uniform(0.2, 1.5)] * 2
    kinds += [lambda: special() if rng.random() < 0.7 else rng.uniform(-2, 2)] * 6
    points = [[kind() for _ in leaves] for kind in kinds]
    points += [[rng.choice(generator.SPECIAL)] * len(leaves) for _ in range(2)]
    some = kinks.targets(e)
    for _ in range(3 if some and leaves else 0):
        start = {s: rng.uniform(-2, 2) for s in leaves}
        point = kinks.zero_near(rng.choice(some), {}, start)
        if point is not None:
            points.append([point[s] + rng.choice(generator.NEAR) for s in leaves])
    return e, leaves, points


@pytest.mark.parametrize("seeds", ranges(STEP), ids=names)
def test_expressions(seeds, counts):
    """Value, gradient and Hessian of single expressions."""
    wrong = []
    for seed in range(SINGLE * seeds.start, SINGLE * seeds.stop):
        e, leaves, points = expression_of(seed)
        if not leaves:
            continue
        counts["expressions"] += 1
        counts["points"] += len(points)
        try:
            found = flags(e, leaves, points)
        except ValueError as refusal:
            if not WORDS.match(str(refusal)):
                wrong.append(f"seed {seed}: {refusal!r}")
            counts["expressions refused"] += 1
            continue
        wrong += [f"seed {seed}: {smallest(flag)}" for flag in found[:1]]
    assert not wrong, "\n".join([f"{len(wrong)} expressions are wrong", *wrong[:40]])


@pytest.mark.parametrize("seeds", ranges(STEP), ids=names)
def test_compiled_expressions(seeds, counts):
    """The same through compiled C, many in one library; points in vectors of every lane."""
    batch = []
    for seed in range(SINGLE * seeds.start, SINGLE * seeds.stop, COMPILED):
        e, leaves, points = expression_of(seed)
        if leaves and sp.count_ops(e) < 200:
            batch.append((e, leaves, np.array(points)))
    wrong = []
    for (e, leaves, points), numbers in zip(batch, compiled_numbers(batch), strict=True):
        if not numbers:
            continue  # refused
        for point, found in zip(points, numbers, strict=True):
            counts["compiled points"] += 1
            wrong += map(str, compare(e, leaves, point, found)[:1])
    assert not wrong, "\n".join([f"{len(wrong)} points are wrong", *wrong[:40]])
