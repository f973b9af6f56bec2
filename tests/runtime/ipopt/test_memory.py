"""Large solves keep what they free; the process has its heap back afterwards."""

from contextlib import ExitStack

import pytest

from kinesym.runtime.ipopt.memory import Heap

LARGE = 10_000_000


@pytest.fixture
def heap(monkeypatch):
    """A heap that only notes what is asked of it."""
    made, calls = Heap(), []
    monkeypatch.setattr(made, "_set", lambda option, value: calls.append((option, value)))
    monkeypatch.setattr(made, "_trim", lambda pad: calls.append("trim"))
    made.calls = calls
    return made


def test_the_last_of_several_solves_returns_memory(heap):
    with ExitStack() as later, ExitStack() as sooner:
        sooner.enter_context(heap.kept(LARGE))
        later.enter_context(heap.kept(LARGE))
        sooner.close()
        assert "trim" not in heap.calls
    assert heap.calls[-1] == "trim"
    assert dict(heap.calls[:2]) == {-4: 0, -1: -1}  # no mmap, no trimming; see malloc.h
    assert dict(heap.calls[-4:-1]) == {-4: 65536, -3: 32 << 20, -1: 64 << 20}


def test_an_error_returns_memory(heap):
    with pytest.raises(KeyError), heap.kept(LARGE):
        raise KeyError
    assert heap.calls[-1] == "trim"


def test_small_solves_leave_the_heap_alone(heap):
    with heap.kept(1000):
        pass
    assert heap.calls == []


def test_other_libraries_are_left_alone(monkeypatch):
    heap = Heap()
    monkeypatch.setattr(heap, "_set", None)
    with heap.kept(LARGE):
        pass


def test_glibc_accepts_these_options():
    with Heap().kept(LARGE):
        pass
    if (heap := Heap())._set is not None:
        assert all(heap._set(option, value) for option, value in {-4: 65536, -3: 32 << 20}.items())
