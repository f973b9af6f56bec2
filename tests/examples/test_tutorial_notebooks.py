"""The notebooks of the tutorial run as they are, in a kernel of their own."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial"
#: What their pages show, and how many pictures.
SHOWN = {
    "pendulum": (3, ["model pendulum", "converged", "the residuals are as they should be"]),
    "quiet_standing": (1, ["BDS00001", "the likelihood is largest", "KD"]),
}


#: What they say of their numbers, as code after their last cell.
CLAIMED = {
    "pendulum": """
for name, truth in {"p": 10.0, "c": 0.1}.items():
    assert solution.parameters.table[name].low < truth < solution.parameters.table[name].high
plain, profile = solution.parameters.table["p"], solution.profile(p)
assert abs(profile.low - plain.low) + abs(profile.high - plain.high) < 0.1 * plain.standard_error
assert 19 < 1 / np.diff(time).mean() < 21
""",
    "quiet_standing": """
stiffness = solution.parameters.table["KP"]
moved = max(abs(fit.parameters["KP"] - stiffness.value) for fit in fits.values())
assert 1 < moved / stiffness.standard_error < 3.5
""",
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebook(name, tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # kernels choose one of their own
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # are not kept
    book.cells.append(nbformat.v4.new_code_cell(CLAIMED[name]))
    NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not any("Warning" in output.get("text", "") for output in outputs)
    pages = [output.data for output in outputs if "data" in output]
    pictures, words = SHOWN[name]
    assert sum("image/png" in page for page in pages) == pictures
    text = "\n".join(page.get("text/html", page["text/plain"]) for page in pages)
    assert [each for each in words if each not in text] == []


def test_every_notebook_is_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*SHOWN} == {*CLAIMED}
