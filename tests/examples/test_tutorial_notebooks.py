"""The notebooks of the tutorial run as they are, in a kernel of their own."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial"
#: What their pages show.
SHOWN = {
    "pendulum": ["model pendulum", "converged", "the residuals are as they should be"],
    "quiet_standing": ["BDS00001", "the likelihood is largest", "KD"],
}


def shown_in(book):
    """What the cells show, as text; fails on warnings."""
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not any("Warning" in output.get("text", "") for output in outputs)  # beside progress
    return "\n".join(data for output in outputs for data in output.get("data", {}).values())


@pytest.mark.parametrize("name", SHOWN)
def test_notebook(name, tmp_path):
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # are not kept
    NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    text = shown_in(book)
    assert all(words in text for words in SHOWN[name])


def test_every_notebook_is_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*SHOWN}
