"""x' solved for from random systems M(x, p) x' = b, against elimination in 60 digits.

M is unsymmetric and well conditioned but for its units: zero pivots, rotations by quarter turns,
permutations, saddle points, rows and columns of very different size. The solution is right within
what rounding of M and b can move it, or it is refused: in words, or not finite. Another kind of
answer is wrong. See `test_random_models` for the long run and its printed counts.
"""

from collections import Counter

import mpmath
import numpy as np
import pytest
from jets import DIGITS
from rates import solve, system_of
from test_random_models import STEP, ranges

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.interpret import interpret

mpmath.mp.dps = DIGITS
SYSTEMS = 4  # for every model of `test_random_models`
COMPILED = 60  # every so many systems are compiled as well


@pytest.fixture(scope="module", name="counts")
def _counts():
    counts = Counter()
    yield counts
    print(f"\nrandom rates: {dict(counts)}")


def wrong_rates(system, rhs, counts):
    """The points at which `rhs` is wrong, in words."""
    found = []
    for x, p in system.points:
        true = solve(system, x, p)
        mine = rhs(x, p)
        counts["points"] += 1
        if not np.isfinite(mine).all():
            counts[f"not finite: {system.kind}"] += 1
            continue
        if true is None:
            counts["singular, finite"] += 1
            continue
        for k, (a, r, room) in enumerate(zip(mine.tolist(), true.rates, true.room, strict=True)):
            if abs(a - r) > room:
                found.append(
                    f"{system.model.name} ({system.kind}): {system.model.states[k]}' is "
                    f"{a!r}, true {mpmath.nstr(r, 17)}, with {system.mass} and "
                    f"{system.side} at {x}, {p}"
                )
                break
    return found


@pytest.mark.parametrize("seeds", ranges(STEP), ids=lambda part: f"{part.start}-{part.stop}")
def test_rates(seeds, counts):
    """By the interpreter; every so many by compiled C as well."""
    wrong = []
    for seed in range(SYSTEMS * seeds.start, SYSTEMS * seeds.stop):
        system = system_of(seed)
        counts["tried"] += 1
        program = model_functions(system.model)
        if not program.description["functions"]["explicit"]:
            counts[f"refused: {system.kind}"] += 1
            continue
        kernel = program.kernel("rhs")

        def interpreted(x, p, kernel=kernel):
            arrays = {"x": x[:, None], "u": np.zeros((0, 1)), "p": p, "t": np.zeros((1, 1))}
            return interpret(kernel, arrays, 1)[:, 0]

        found = wrong_rates(system, interpreted, counts)
        if seed % COMPILED == 0:
            compiled = ks.compile(system.model)
            found += wrong_rates(system, lambda x, p, f=compiled: f.rhs(x, [], p), counts)
        counts["wrong" if found else "right"] += 1
        wrong += found[:1]
    assert not wrong, "\n".join([f"{len(wrong)} systems are wrong", *wrong[:20]])
