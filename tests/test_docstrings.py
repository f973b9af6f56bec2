"""tools/docstrings.py finds the faults that it is for, and no others."""

import docstrings
import pytest


@pytest.mark.parametrize("word", sorted(docstrings.BANNED))
def test_banned_first_words_are_found(word):
    for form in ('"""{}: sums"""\n', 'class A:\n    """{} sums"""\n'):
        ((line, message),) = docstrings.faults(form.format(word))
        assert line == form.count("\n") and f"'{word}'" in message


@pytest.mark.parametrize(
    "line, text",
    [
        (2, 'def f():\n    """Sum. Likewise."""\n'),
        (2, 'async def f():\n    """The same of\n    sums."""\n'),
        (2, "#: comment\n_A, _B = 1, -2.5\n"),
        (1, "_A, _B = 1e-3, 2 * pi\n"),
        (1, "_A, _B, _C = 0.5, 2, 'name'\n"),
    ],
)
def test_riddles_and_lines_of_constants_are_found(line, text):
    assert [number for number, _message in docstrings.faults(text)] == [line]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"""Whether a grid is regular. It has what is needed, of the same size."""\n',
        "def f():\n    return 1\n",
        "_A = 1\n_B = 2\n",
        "ODD, EVEN = 'odd', 'even'\n",
        "_A, _B = pair()\n",
        "def f():\n    a, b = 1, 2\n",
    ],
)
def test_nothing_else_is(text):
    assert list(docstrings.faults(text)) == []


def test_folders_exist():
    root = docstrings.Path(docstrings.__file__).parent.parent
    assert all(list((root / folder).rglob("*.py")) for folder in docstrings.DONE)
