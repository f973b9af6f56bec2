"""Calls that cannot be meant, and what a user is told: one sentence, in words of the call."""

import warnings

import pytest

#: What an interpreter says of its own operations, and names of functions that nobody called.
JARGON = (
    "object is not",
    "has no attribute",
    "could not convert",
    "unpack",
    "unhashable",
    "ufunc",
    "not JSON serializable",
    "NoneType",
    "sympify",
    "not iterable",
    "not callable",
    "not supported between",
    "not subscriptable",
    "unsupported operand",
    "inhomogeneous",
    "invalid literal",
    "argument must",
    "unexpected keyword",
    "indices must",
    "task_of",
    "truth value",
    "broadcast",
    "out of range",
    "<lambda>",
    "object at 0x",
    "zip(",
    "setting an array element",
    "sequence item",
    "must be an iterable",
    "cannot be interpreted",
    "Cannot convert",
    "operand type",
    "Use () not",
    "can't multiply",
    "update sequence",
    "no len()",
    "must be real number,",
    "reshape array",
)


@pytest.fixture
def refused():
    """A function that calls, and asserts that the refusal is one sentence with these words."""

    def check(call, *words):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refusal is what counts
            with pytest.raises((ValueError, TypeError, KeyError)) as caught:
                call()
        _is_a_sentence(str(caught.value), words)

    return check


@pytest.fixture
def warned():
    """The same for calls that are carried out, with a warning."""

    def check(call, *words):
        with pytest.warns(UserWarning) as caught:
            call()
        _is_a_sentence(str(caught[0].message), words)

    return check


def _is_a_sentence(text, words):
    assert len(text.split()) >= 3 and "\n" not in text and len(text) < 600, text
    for phrase in JARGON:
        assert phrase not in text, text
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
