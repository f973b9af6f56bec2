"""A page for each example: its picture, what it is about, how long it took, its code.

Pages are written into `docs/gallery/pages/`, from runs of `example_runs`. Peers' figures are those
of tables in `docs/gallery/index.md`. Where pages name an example, or its file, there is then a
link.
"""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path

from example_runs import TOP, Example, ExampleError, modules, run
from PIL import Image
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.display import status_iterator

PAGES = TOP / "docs" / "gallery" / "pages"
INDEX = TOP / "docs" / "gallery" / "index.md"
WIDEST, THUMB = 1000, 320
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
#: Rows of facts: what, under which heading of the index, and the columns of ours and of the peer.
FACTS = (
    ("CPU seconds, from the start of Python to the solution", "Time", 2, 3),
    ("lines of the file", "", 6, 7),
    ("cost", "", 4, 5),
)


def rows() -> dict[tuple[str, str], list[str]]:
    """Cells of the tables in the index, by heading and name of the problem."""
    heading, found = "", {}
    for line in INDEX.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ") if line.startswith("##") else ""
        named = re.match(r"\| `(\w+)`", line)
        if named:
            found[heading, named[1]] = [cell.strip() for cell in line.split("|")]
    return found


def facts(name: str, told: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """A table of ours beside opty's, where there is one."""
    yield "| measured | kinesym | opty 1.5.0 |\n|---|--:|--:|"
    for what, heading, *columns in FACTS:
        cells = told.get((heading, name), ["–"] * 9)
        ours, theirs = (cells[k] for k in columns)
        if "–" not in (ours, theirs):
            yield f"| {what} | {ours} | {theirs} |"


def picture(source: Path, widest: int, name: str) -> str:
    """The name of a smaller copy of a picture, beside the pages."""
    target = PAGES / f"{name}.png"
    with Image.open(source) as image:
        image.thumbnail((widest, 4 * widest))
        image.convert("P", palette=Image.Palette.ADAPTIVE).save(target, optimize=True)
    return target.name


def page(example: Example, told: dict[tuple[str, str], list[str]]) -> str:
    """The page of an example, in Markdown."""
    shown = [
        picture(path, WIDEST, f"{example.name}_{k}") for k, path in enumerate(example.pictures)
    ]
    place = os.path.relpath(example.path, PAGES)
    parts = [f"# {example.title}"]
    parts += [f"![{example.title}]({name})" for name in shown[:1]]
    parts += [*example.words[1:]]
    parts += [example.took]
    if ("", example.name) in told:
        compared = "\n".join(facts(example.name, told))
        parts += [compared, "How both were measured: [gallery](../index.md#time)."]
    parts += [f"## Code\n\n```{{literalinclude}} {place}\n:language: python\n```"]
    if example.printed:
        parts += [f"## What it prints\n\n```text\n{example.printed}\n```"]
    parts += [f"![{example.title}]({name})" for name in shown[1:]]
    return "\n\n".join(parts) + "\n"


def card(example: Example) -> str:
    """A small picture with a link; of an example without pictures the link alone."""
    small = [picture(path, THUMB, f"{example.name}_small") for path in example.pictures[:1]]
    shown = "".join(f'<img src="pages/{name}" alt="" loading="lazy">' for name in small)
    return (
        f'<li><a href="pages/{example.name}.html">{shown}'
        f"<span><code>{example.name}</code> {escape(example.title)}</span></a></li>"
    )


def write_pages(app: Sphinx) -> None:
    """Called before anything is read."""
    PAGES.mkdir(exist_ok=True)
    os.environ |= _ALONE  # of the examples; the rest of a build does not compute
    told, made, paths = rows(), [], modules()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(run, paths)
        try:
            made += status_iterator(runs, "examples ", "brown", len(paths), app.verbosity)
        except ExampleError as error:
            raise ExtensionError(str(error)) from error
    for example in made:
        target, text = PAGES / f"{example.name}.md", page(example, told)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    app.gallery_cards = [card(example) for example in made]  # type: ignore[attr-defined]


def link_examples(app: Sphinx, docname: str, content: list[str]) -> None:
    """Called for each page that is read: examples become links to their pages."""
    names = {path.stem for path in modules()}
    text = re.sub(
        r"\]\((?:\.\./)*examples/(?:\w+/)?(\w+)\.py\)",
        r"](/docs/gallery/pages/\1.md)",
        content[0],
    )
    if docname in ("docs/index", "docs/gallery/index"):
        text = "\n".join(
            re.sub(
                r"`(\w+)`",
                lambda m: f"[`{m[1]}`](/docs/gallery/pages/{m[1]}.md)" if m[1] in names else m[0],
                line,
            )
            if line.startswith("|")
            else line
            for line in text.splitlines()
        )
    if docname == "docs/gallery/index":
        cards = "\n".join(app.gallery_cards)  # type: ignore[attr-defined]
        entries = "\n".join(f"{name} <pages/{name}>" for name in sorted(names))
        text += f'\n\n## All examples\n\n<ul class="cards">\n{cards}\n</ul>\n'
        text += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    content[0] = text


def put_cards(app: Sphinx, error: Exception | None) -> None:
    """Called at the end: small pictures, of which Sphinx knows nothing."""
    if error is None and app.builder.format == "html":
        for path in PAGES.glob("*_small.png"):
            target = Path(app.outdir) / "docs" / "gallery" / "pages" / path.name
            target.write_bytes(path.read_bytes())


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_examples)
    app.connect("build-finished", put_cards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
