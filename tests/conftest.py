"""What all tests share: a cache of compiled libraries that is kept between runs."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture(scope="session", autouse=True)
def compiler_cache(pytestconfig):
    """Compiled libraries go to the build folder, never to the user's cache. Their keys are their
    contents, so that all workers and later runs can use them."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.rootpath / "build" / "test-cache"
        patch.setenv("KINESYM_CACHE", str(folder))
        yield folder
