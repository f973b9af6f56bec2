"""Single expressions by compiled C: a kernel each, one library for many."""

import numpy as np
from single import kernel_of

from kinesym.codegen.kernel import Program
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.native import Call, Plan
from kinesym.runtime.sparse.places import rows


def compiled_numbers(batch):
    """Numbers by entry, at every point, of (expression, symbols, points) in `batch`; None where an
    expression is refused."""
    made = {}
    for k, (e, leaves, _) in enumerate(batch):
        try:
            made[k] = kernel_of(e, leaves, f"one_{k}")
        except ValueError:
            made[k] = None
    program = Program("many", tuple(pair[0] for pair in made.values() if pair))
    built = realise(program)
    found = []
    for k, (_, leaves, points) in enumerate(batch):
        if made[k] is None:
            found.append([])
            continue
        kernel, entries = made[k]
        assert kernel.name in built.manifest.kernels
        found.append(_evaluated(built.library, kernel.name, entries, leaves, points))
    return found


def _evaluated(library, name, entries, leaves, points):
    n = len(points)
    x = np.ascontiguousarray(np.asarray(points, dtype=float).T).ravel()
    out = np.empty(len(entries) * n)
    call = Call(library, name, n, [(x, 0, n)], (), rows(len(entries), n), len(out))
    Plan([call], [], len(out))((), out)
    return [dict(zip(entries, column, strict=True)) for column in out.reshape(len(entries), n).T]
