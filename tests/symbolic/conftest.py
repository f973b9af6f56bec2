"""What tests of models with constraints share."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel


@pytest.fixture(scope="session")
def simulated():
    """Simulates a model from the consistent state nearest to a start, explicitly, as no algebraic
    state is left: keep are the states that stand. Constraints must hold throughout."""

    def simulate(model, start, keep, time):
        low = model.reduced_index(index=0)
        first = dict.fromkeys(low.state_names, 0.0) | start
        kept = [name for name in first if name in keep or name.endswith("_integral")]
        first = ks.consistent(low, time, first, keep=kept)
        run = ks.simulate(low, time, first, method="dormand-prince", rtol=1e-11, atol=1e-11)
        for name in low.invariants:
            assert np.abs(run[name]).max() < 1e-9
        return run

    return simulate


@pytest.fixture(scope="session")
def rows_of():
    """Equations of a model, or x' from its explicit form, for arrays of numbers by name, of x' by
    names with a prime."""

    def found(model, numbers, explicit=False):
        point, count = model_symbols(model), max(map(np.size, numbers.values()))
        names = {
            "x": model.state_names,
            "xdot": [f"{name}'" for name in model.state_names],
            "u": model.input_names,
            "p": model.parameter_names,
        }
        arrays = {k: [np.broadcast_to(numbers[n], count) for n in v] for k, v in names.items()}
        rows = model.explicit.rates if explicit else model.equations
        if explicit:
            point.lower.define(model.explicit.intermediates)
        nodes = tuple(map(point.lower, rows))
        arguments = (point.xdot, point.x, point.u, point.p, point.t)
        labels = [f"row{i}" for i in range(len(rows))]
        kernel = Kernel("rows", point.graph, arguments, nodes, labels)
        return np.array(interpret(kernel, arrays | {"t": [0.0]}, count))

    return found
