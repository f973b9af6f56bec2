"""What all tests share: a cache of compiled libraries that is kept between runs, and which of them
are left to `make test-all`."""

import importlib.util
import os
import signal
from collections import defaultdict
from math import ceil, sqrt
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: What `make test` leaves out as a whole: complete studies, damaged files.
STUDIES = (
    "benchmarks/test_interval_coverage.py",
    "benchmarks/test_hybrid_bench.py",
    "examples/test_gait_tracking.py",
    "examples/test_gait_without_plates.py",
    "examples/test_quiet_standing_study.py",
    "examples/test_ship_validation.py",
    "examples/test_standing_study.py",
    "runtime/results/test_damaged_files.py",
    "symbolic/multibody/test_random_trees.py",
)
#: Where it runs about √n of the n rows of a test, as each takes long.
SAMPLED = (
    "api/test_bands.py",
    "api/test_covariance.py",
    "api/test_gradients.py",
    "api/test_hybrid_phases.py",
    "api/test_losses.py",
    "api/test_noise.py",
    "api/test_own_times.py",
    "codegen/test_c.py",
    "codegen/test_strict_c.py",
    "models/test_osim",
    "random_models",
    "runtime/ipopt/test_ipopt.py",
    "runtime/native/test_kkt.py",
    "runtime/nlp",
    "runtime/stepping/test_interrupts.py",
    "symbolic/adjoint",
    "symbolic/multibody",
    "symbolic/test_schemes.py",
)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


def pytest_collection_modifyitems(items):
    """Mark as studies what is one by its place; single tests are marked where they are. Rows of the
    driver cyipopt are skipped without it."""
    rows = defaultdict(list)
    cyipopt = importlib.util.find_spec("cyipopt")
    for item in items:
        if cyipopt is None and "cyipopt" in item.name.partition("[")[2]:
            item.add_marker(pytest.mark.skip("cyipopt is not installed"))
        place = item.path.relative_to(TESTS).as_posix()
        if place.startswith(STUDIES):
            item.add_marker("study")
        if place.startswith(SAMPLED):
            rows[place, item.originalname].append(item)
    for test in rows.values():
        every = ceil(sqrt(len(test)))
        for number, item in enumerate(test):
            if number % every:
                item.add_marker("study")


@pytest.fixture(scope="session", autouse=True)
def compiler_cache(pytestconfig):
    """Compiled libraries go to the build folder, never to the user's cache. Their keys are their
    contents, so that all workers and later runs can use them. All kernels are compiled, but where a
    test says otherwise: what takes over when would be a matter of time."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.rootpath / "build" / "test-cache"
        patch.setenv("KINESYM_CACHE", str(folder))
        patch.setenv("KINESYM_TIER", os.environ.get("KINESYM_TIER", "compiled"))
        yield folder


@pytest.fixture
def sigint():
    """Python's own handler, whatever the shell has made of the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
