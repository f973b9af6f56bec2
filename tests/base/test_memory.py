"""The search for cycles of references is paused, and goes on as it was."""

import gc

import pytest

from kinesym.base.memory import without_collection


@pytest.mark.parametrize("on", [True, False])
def test_the_search_for_cycles_goes_on_as_it_was(on):
    was_on = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(ZeroDivisionError), without_collection():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() == on
    finally:
        (gc.enable if was_on else gc.disable)()
