"""Tables of benchmarks: each page of `benchmarks/records/` ends with those of its record."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import record


def add_tables(app: Sphinx, docname: str, content: list[str]) -> None:
    """Called for each page that is read."""
    folder, _, name = docname.rpartition("/")
    if folder == "benchmarks/records":
        content[0] += "\n\n".join(["\n\n## Tables", *map(str, record.read(name))]) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
