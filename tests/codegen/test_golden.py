"""The generated C of a small problem, to be read; `pytest --update-golden` rewrites it."""

from pathlib import Path

from kinesym.codegen.c import emit
from kinesym.codegen.transcribe import transcribe
from kinesym.models import pendulum
from kinesym.symbolic.objective import LeastSquares
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import SCHEMES

GOLDEN = Path(__file__).parent / "golden" / "pendulum_midpoint.c"


def test_pendulum(request):
    model = pendulum()
    measured = {"theta": model.states[0]}
    scheme = SCHEMES["midpoint"]
    problem = Problem(model, scheme, LeastSquares(), model.parameters, measurements=measured)
    text = emit(transcribe(problem)).files["kernels_0.c"]
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
