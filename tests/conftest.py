"""What all tests share: a cache of compiled libraries that is kept between runs, and which of them
are left to `make test`."""

from collections import defaultdict
from math import ceil, sqrt
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: What `make check` leaves out as a whole: complete studies, random models and files.
STUDIES = (
    "benchmarks",
    "examples",
    "random_models",
    "runtime/results/test_damaged_files.py",
    "symbolic/multibody/test_random_trees.py",
)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


def pytest_collection_modifyitems(items):
    """Mark as studies what is one by its place, and of n rows of a test all but about √n; single
    tests are marked where they are."""
    tests = defaultdict(list)
    for item in items:
        tests[item.path, item.originalname].append(item)
        if item.path.relative_to(TESTS).as_posix().startswith(STUDIES):
            item.add_marker("study")
    for rows in tests.values():
        every = ceil(sqrt(len(rows)))
        for number, item in enumerate(rows):
            if number % every:
                item.add_marker("study")


@pytest.fixture(scope="session", autouse=True)
def compiler_cache(pytestconfig):
    """Compiled libraries go to the build folder, never to the user's cache. Their keys are their
    contents, so that all workers and later runs can use them."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.rootpath / "build" / "test-cache"
        patch.setenv("KINESYM_CACHE", str(folder))
        yield folder
