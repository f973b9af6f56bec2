"""A page for each example: its picture, what it is about, how long it took, its code.

Pages are written into `docs/gallery/pages/`. An example runs as `kinesym run NAME` does, in a
process of its own, and again only when its file has changed. Peers' figures are those of tables in
`docs/gallery/index.md`. Where pages name an example, or its file, there is then a link.
"""

import ast
import hashlib
import multiprocessing
import os
import re
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path

from PIL import Image
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.display import status_iterator

TOP = Path(__file__).resolve().parents[2]
PAGES = TOP / "docs" / "gallery" / "pages"
INDEX = TOP / "docs" / "gallery" / "index.md"
KEPT = TOP / "build" / "docs" / "gallery"
WIDEST, THUMB = 1000, 320
LIMIT = 300.0
#: Examples that take long: with so many nodes they show the same in less time.
NODES = {
    "gait": 50,
    "gait_tracking": 30,
    "pendulum_local_minima": 1000,
    "posture_study": 150,
    "quiet_standing": 600,
    "quiet_standing_subjects": 300,
    "ship": 500,
    "ship_validation": 500,
    "standing_noise": 600,
    "walker": 200,
}
#: What most examples import: done once, before each gets a process of its own.
_SHARED = ["kinesym.cli", "sympy", "matplotlib.pyplot", "pandas", "scipy.sparse.linalg", "xarray"]
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
#: Rows of facts: what, under which heading of the index, and the columns of ours and of the peer.
FACTS = (
    ("CPU seconds, from the start of Python to the solution", "Time", 2, 3),
    ("lines of the file", "", 6, 7),
    ("cost", "", 4, 5),
)


@dataclass(frozen=True)
class Example:
    """A module of examples/, what it prints, how long it took [CPU s], and its pictures."""

    path: Path
    printed: str = ""
    seconds: float = 0.0
    pictures: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """As in `kinesym run NAME`."""
        return self.path.stem

    @property
    def words(self) -> list[str]:
        """Paragraphs of its docstring; the first one is a sentence."""
        return (ast.get_docstring(ast.parse(self.path.read_text())) or self.name).split("\n\n")

    @property
    def title(self) -> str:
        """Its first sentence, without the full stop."""
        return " ".join(self.words[0].split()).removesuffix(".")


def modules() -> list[Path]:
    """Files of all examples."""
    found = [*TOP.glob("examples/*.py"), *TOP.glob("examples/gallery/*.py")]
    return sorted((path for path in found if path.stem != "__init__"), key=lambda path: path.stem)


def run(path: Path) -> Example:
    """The example with what it prints and draws, from before if its file is what it was."""
    folder = KEPT / path.stem
    stamp = folder / hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        stamp.write_text(measured(path, folder))
    seconds, _, printed = stamp.read_text().partition("\n")
    wrote = re.findall(r"^wrote (.*\.png)$", printed, flags=re.MULTILINE)
    printed = re.sub(r"^wrote .*\n?", "", printed, flags=re.MULTILINE)
    printed = printed.replace(f"{folder}{os.sep}", "")  # folders of this machine
    return Example(path, printed.rstrip(), float(seconds), tuple(map(Path, wrote)))


def command(name: str) -> str:
    """What to type."""
    return f"kinesym run {name}" + (f" --nodes {NODES[name]}" if name in NODES else "")


def measured(path: Path, folder: Path) -> str:
    """CPU seconds of a run, and what it prints."""
    arguments = [*command(path.stem).split()[1:], "--out", str(folder)]
    printed = folder / "printed"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_SHARED)
    process = context.Process(target=_example, args=(arguments, str(printed)))
    process.start()
    process.join(LIMIT)
    text = printed.read_text()
    if process.exitcode != 0:
        process.kill()
        raise ExtensionError(f"the example {path.stem} failed:\n{text[-2000:]}")
    text, _, seconds = text.rstrip().rpartition("\n")
    return f"{float(seconds):.1f}\n{text}"


def _example(arguments: list[str], printed: str) -> None:
    """In a process of its own: runs an example, and adds CPU seconds, with those of compilers."""
    from kinesym.cli import main

    with open(printed, "w") as sink:
        os.dup2(sink.fileno(), 1)
        status = main(arguments)
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    print(sum(sum(resource.getrusage(who)[:2]) for who in whose), flush=True)
    sys.exit(status)


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
    parts += [
        f"`{command(example.name)}` took {example.seconds:.1f} CPU seconds, imports apart, on the "
        "machine that built this page, with pictures and what had to be compiled."
    ]
    if ("", example.name) in told:
        compared = "\n".join(facts(example.name, told))
        parts += [compared, "How both were measured: [gallery](../index.md#time)."]
    parts += [f"## Code\n\n```{{literalinclude}} {place}\n:language: python\n```"]
    if example.printed:
        parts += [f"## What it prints\n\n```text\n{example.printed}\n```"]
    parts += [f"![{example.title}]({name})" for name in shown[1:]]
    return "\n\n".join(parts) + "\n"


def card(example: Example) -> str:
    """A small picture with a link."""
    small = picture(example.pictures[0], THUMB, f"{example.name}_small")
    return (
        f'<li><a href="pages/{example.name}.html"><img src="pages/{small}" alt="" loading="lazy">'
        f"<span><code>{example.name}</code> {escape(example.title)}</span></a></li>"
    )


def write_pages(app: Sphinx) -> None:
    """Called before anything is read."""
    PAGES.mkdir(exist_ok=True)
    os.environ |= _ALONE  # of the examples; the rest of a build does not compute
    told, made, paths = rows(), [], modules()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(run, paths)
        made += status_iterator(runs, "examples ", "brown", len(paths), app.verbosity)
    for example in made:
        target, text = PAGES / f"{example.name}.md", page(example, told)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    app.gallery_cards = [card(example) for example in made]  # type: ignore[attr-defined]


def link_examples(app: Sphinx, docname: str, content: list[str]) -> None:
    """Called for each page that is read: examples become links to their pages."""
    names = {path.stem for path in modules()}
    text = re.sub(
        r"\]\((?:\.\./)*examples/(?:gallery/)?(\w+)\.py\)",
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
