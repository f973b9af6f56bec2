"""What tests of models with constraints share."""

import numpy as np
import pytest

import kinesym as ks


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
