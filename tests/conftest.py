"""What all tests share: a cache of compiled libraries that is kept between runs, and which of them
are left to `make test-all`."""

import importlib.util
import os
import signal
import sys
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
#: Tests of the domain, gait, files of models and studies, and of pages and examples that use it:
#: `pytest --core` leaves them out, and single ones that are marked.
DOMAIN = (
    "api/malformed/test_gait.py",
    "api/test_ground_reaction.py",
    "api/test_notebooks.py",
    "api/test_readme.py",
    "api/test_study.py",
    "benchmarks",
    "examples",
    "gait",
    "models/test_gait_models.py",
    "models/test_mjcf",
    "models/test_muscle_paths.py",
    "models/test_osim",
    "models/test_planar_body.py",
    "models/test_plausible.py",
    "models/test_stretched.py",
    "models/test_urdf.py",
    "models/test_whole_body.py",
    "public_reports/test_files.py",
    "runtime/results/test_damaged_files.py",
)
#: What `pytest --core` hides: the domain itself, and packages of extras that no other package uses
#: (dask, if it is there, is taken up by xarray, and imports cloudpickle).
HIDDEN = (
    "ezc3d",
    "loky",
    "kinesym.gait",
    "kinesym.inverse",
    "kinesym.mjcf",
    "kinesym.models.files",
    "kinesym.osim",
    "kinesym.runtime.studies",
    "kinesym.study",
    "kinesym.urdf",
)
#: Where it runs about √n of the n rows of a test, as each takes long.
SAMPLED = (
    "api/test_bands.py",
    "api/test_bundles.py",
    "api/test_confidence.py",
    "api/test_covariance.py",
    "api/test_delayed_signals.py",
    "api/test_ensembles.py",
    "api/test_gradients.py",
    "api/test_ground.py",
    "api/test_guesses.py",
    "api/test_hybrid_phases.py",
    "api/test_losses.py",
    "api/test_noise.py",
    "api/test_noise_models.py",
    "api/test_own_times.py",
    "api/test_shooting.py",
    "api/test_stepping.py",
    "api/test_why.py",
    "codegen/test_c.py",
    "codegen/test_hard_places.py",
    "codegen/test_strict_c.py",
    "models/test_osim",
    "models/test_stretched.py",
    "random_models",
    "runtime/ipopt/test_ipopt.py",
    "runtime/library/test_tiers.py",
    "runtime/native/test_kkt.py",
    "runtime/nlp",
    "runtime/results/test_files.py",
    "runtime/simulation/test_interrupts.py",
    "symbolic/adjoint",
    "symbolic/multibody",
    "symbolic/test_schemes.py",
)
#: The way that kernels run in all tests, if it is given from outside.
FORCED_TIER = os.environ.get("KINESYM_TIER", "")
#: Where kernels are interpreted unless a way is given: tests of what is done with kernels, in which
#: compilers would take half of the time.
INTERPRETED = ("api", "benchmarks", "examples", "gait", "models", "public_reports")
#: Where they are compiled all the same: fits, simulations and their derivatives from end to end,
#: what has many steps or points side by side, numbers that hang on the last digit, and what is
#: about libraries and compilers. Generated code, and how it is called, is tested elsewhere.
COMPILED = (
    "api/test_collocation.py",
    "api/test_distances.py",
    "api/test_ensembles.py",
    "api/test_errors.py",
    "api/test_functions.py",
    "api/test_ground.py",
    "api/test_hybrid_methods.py",
    "api/test_pickling.py",
    "api/test_published_fit.py",
    "api/test_shooting.py",
    "api/test_simulation.py",
    "api/test_stepping.py",
    "models/test_ship.py",
)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption("--core", action="store_true", help="tests of the core, without the domain")


def pytest_configure(config):
    """Hide from the tests of the core what it must not need."""
    if config.getoption("core"):
        sys.modules.update(dict.fromkeys(HIDDEN))


def pytest_ignore_collect(collection_path, config):
    """Leave out the tests of the domain: they import what is hidden."""
    place = collection_path.relative_to(TESTS).as_posix() if collection_path != TESTS else ""
    return True if config.getoption("core") and place.startswith(DOMAIN) else None


def pytest_collection_modifyitems(items, config):
    """Mark as studies what is one by its place; single tests are marked where they are. Rows of the
    driver cyipopt are skipped without it, those of the domain in tests of the core."""
    if config.getoption("core"):
        items[:] = [item for item in items if not item.get_closest_marker("domain")]
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
    place or a test says otherwise: what takes over when would be a matter of time."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.rootpath / "build" / "test-cache"
        patch.setenv("KINESYM_CACHE", str(folder))
        patch.setenv("KINESYM_TIER", FORCED_TIER or "compiled")
        yield folder


@pytest.fixture(scope="module", autouse=True)
def tier(request, compiler_cache):
    """Kernels are interpreted in the folders of `INTERPRETED`, but for the files of `COMPILED`."""
    with pytest.MonkeyPatch.context() as patch:
        place = request.path.relative_to(TESTS).as_posix()
        if not FORCED_TIER and place.startswith(INTERPRETED) and not place.startswith(COMPILED):
            patch.setenv("KINESYM_TIER", "interpreted")
        yield


@pytest.fixture
def sigint():
    """Python's own handler, whatever the shell has made of the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
