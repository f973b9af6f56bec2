"""What all tests share: a cache of compiled libraries that lives as long as the session."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture(scope="session", autouse=True)
def compiler_cache(tmp_path_factory):
    """Compiled libraries go to a temporary folder, never to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kinesym-cache")
        patch.setenv("KINESYM_CACHE", str(folder))
        yield folder
