"""Records of benchmarks: their files, the list in the README, figures that pages take from them."""

import re
from pathlib import Path

import pytest
import record
import report

TOP = Path(__file__).parents[2]
NAMES = record.names()
#: Records of this day and later say for which instructions the kernels were made.
SINCE = "2026-11-28"
#: Scripts that keep none: their tables are in docs/gallery/index.md, in tests, in a report, or of a
#: problem of the user.
WITHOUT = {"gallery", "iterations", "own", "published", "record", "report", "rows"}

STANDING = "standing, 8 gains, 6,000 nodes"
#: Rows and columns of the table of identification in pages: problem and nodes, contender.
SOLVES = {
    STANDING: ("standing", "6000"),
    "standing, 60,000 nodes": ("standing", "60000"),
    "standing, 1,000,000 nodes": ("standing", "1000000"),
    "10 links, 22 parameters, 3,000 nodes": ("n_link_10", "3000"),
}
CONTENDERS = (
    "kinesym",
    "casadi+qamd+blocks",
    "casadi+qamd+expand",
    "casadi",
    "opty+scaling",
)
STARTS = {
    "a link on a cart, 200 nodes": "n_link_1:200",
    "standing, 6,000 nodes": "standing:6000",
    "2 links, 1,000 nodes": "n_link_2:1000",
    "5 links, 1,000 nodes": "n_link_5:1000",
    "swing-up of a cart-pole, 101 nodes": "cart_pole:101",
}
WARM = (
    "kinesym: warm [s]",
    "kinesym, compiled: warm [s]",
    "CasADi by hand: warm [s]",
    "CasADi: warm [s]",
    "opty: warm [s]",
)


def rows_of(path, first):
    """Cells of the table of a page that has a row of that name, by their names."""
    lines = (TOP / path).read_text(encoding="utf-8").split("\n\n")
    block = next(block for block in lines if f"| {first} |" in block)
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in block.splitlines()[2:]]
    return {name: rest for name, *rest in cells}


def agrees(shown, *values):
    """Whether a page shows the value of a record, rounded as it is there, or the range of several
    as "0.06 to 0.47"."""
    if shown in ("", "-"):
        return True
    if not values or not all(re.fullmatch(r"[\d.]+", value) for value in values):
        return shown == "over 300" and "-" in values
    found = sorted(map(float, values))
    first, _, last = shown.partition(" to ")
    return all(
        abs(float(text) - value) <= 0.501 * 10.0 ** -len(text.partition(".")[2])
        for text, value in ((first, found[0]), (last or first, found[-1]))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_what_made_it(name):
    assert (record.FOLDER / f"{name}.md").exists()
    for found in record.read(name):
        assert found.name == name and (record.HERE / found.script).exists()
        assert found.command.startswith(f"python benchmarks/{found.script}")
        assert re.fullmatch(r"2\d{3}-\d\d-\d\d", found.date) and found.commit and found.machine
        assert found.date < SINCE or found.instructions in record.INSTRUCTIONS
        assert (record.FOLDER / found.file).read_text(encoding="utf-8") == found.to_json()
        for table in found.tables:
            assert table.rows and {len(row) for row in table.rows} == {len(table.header)}


def test_a_record_of_each_set_of_instructions(tmp_path, monkeypatch):
    """One beside the other; a page that shows both gives the range."""
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    monkeypatch.setattr(record, "README", tmp_path / "README.md")
    record.README.write_text(f"{record.BEGIN}\n{record.END}\n")
    assert report.instructions() in report.machine()
    for words in ("a laptop, AVX2", "old words", "a server, AVX-512"):
        record.keep(record.now("solves", words, [record.table(["a"], [["1"]])]))
    assert {path.name for path in tmp_path.glob("*.json")} == {"solves.json", "solves.avx2.json"}
    assert [r.instructions for r in record.read("solves")] == ["AVX-512", "AVX2"]
    assert record.names() == ["solves"]
    assert agrees("0.06 to 0.5", "0.47", "0.062") and not agrees("0.06", "0.47", "0.062")


def test_every_script_has_a_record_and_the_readme_lists_all():
    assert {path.stem for path in record.HERE.glob("*.py")} == {*NAMES} | WITHOUT
    text = record.README.read_text(encoding="utf-8")
    assert record.listed(text) == text, "run python benchmarks/record.py"
    assert all(f"**[{name}](records/{name}.md)**" in text for name in NAMES)
    before, after = text.split(record.BEGIN)[0], text.split(record.END)[1]
    assert len((before + after).split()) < 1950  # the list has a line for each record


def test_a_changed_record_makes_the_readme_stale(tmp_path, monkeypatch):
    found = record.read(NAMES[0])[0]
    text = record.README.read_text(encoding="utf-8")
    for each in [each for name in NAMES for each in record.read(name)]:
        (tmp_path / each.file).write_text(each.to_json())
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    (tmp_path / found.file).write_text(found.to_json().replace(found.commit, "0000000"))
    assert record.listed(text) != text
    with pytest.raises(ValueError, match="markers"):
        record.listed(text.replace(record.END, ""))


def test_links_of_the_readme_and_of_notes_lead_somewhere():
    for path in (record.README, *record.FOLDER.glob("*.md")):
        for place in re.findall(r"\]\((?!https:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / place).exists(), f"{path.name}: {place}"


def times_of(found):
    """Seconds of a record of identification by problem, nodes and contender."""
    [first] = found.tables
    place = [first.header.index(name) for name in ("problem", "nodes", "contender")]
    solve = first.header.index("solve [s]")
    return {tuple(row[k] for k in place): row[solve] for row in first.rows}


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks/index.md"])
def test_pages_show_times_of_identification_as_recorded(page):
    times = [times_of(each) for each in record.read("solves")]
    shown = rows_of(page, STANDING)
    assert {*shown} == {*SOLVES}
    for name, cells in shown.items():
        for contender, cell in zip(CONTENDERS, cells, strict=True):
            key = (*SOLVES[name], contender)
            values = [found[key] for found in times if key in found]
            assert agrees(cell, *values), (name, contender, cell, values)


def test_pages_show_times_of_first_solves_as_recorded():
    tables = [each.tables[0] for each in record.read("start")]
    times = [{row[0]: dict(zip(t.header, row, strict=True)) for row in t.rows} for t in tables]
    shown = rows_of("docs/benchmarks/index.md", next(iter(STARTS)))
    assert {*shown} == {*STARTS}
    for name, cells in shown.items():
        for column, cell in zip(WARM, cells, strict=True):
            values = [found[STARTS[name]][column] for found in times]
            assert agrees(cell, *values), (name, column, cell)
