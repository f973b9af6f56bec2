"""The report of all benchmarks: parts that are there, a part that failed."""

import argparse

import record
import report


def test_report(tmp_path):
    picture = report.save(str(tmp_path), "published", "| a |", [{"x": 1}, {"x": 2, "y": 2.5}])
    picture.write_bytes(b"")
    text = report.join(tmp_path, ["published", "solves"])
    assert (tmp_path / "published.csv").read_text().splitlines() == ["x,y", "1,", "2,2.5"]
    first, second = text.split("## solves")
    assert "Do published problems" in first and "| a |" in first
    assert "![published](published.png)" in first
    assert second.strip().endswith("It failed.") and "(solves.png)" not in second


def test_numbers_of_a_table():
    lines = str(record.table(["a", "b"], [["1", "2"]])).splitlines()
    assert lines[1:] == ["| --- | ---: |", "| 1 | 2 |"]
    assert [report.number(x) for x in (1234.5, 0.00123456, float("nan"), None)] == [
        "1234",
        "0.00123",
        "-",
        "-",
    ]
    assert report.ratio(3.0, 2.0) == "1.50"


def test_what_is_measured_is_printed_saved_and_kept(tmp_path, monkeypatch, capsys):
    """A record that is written is read again; the README lists it then, with date and command."""
    text = f"# Benchmarks\n\n{record.BEGIN}\n{record.END}\n"
    monkeypatch.setattr(record, "README", tmp_path / "README.md")
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    record.README.write_text(text)
    monkeypatch.setattr("sys.argv", ["solves.py", "--write", "--nodes", "a b"])
    given = argparse.Namespace(write=True, report=str(tmp_path / "report"))
    parts = ["Said before.", record.table(["a", "é"], [["1", "2 µs"], ["3", "-"]])]
    pictures = report.leave(given, "solves", "a machine, Linux", parts, [{"x": 1}])
    [found] = record.read("solves")
    assert found.parts == tuple(parts) and found.machine == "a machine, Linux"
    assert found.command == "python benchmarks/solves.py --write --nodes 'a b'"
    assert found.command in record.README.read_text() and found.date in record.README.read_text()
    assert str(found) in capsys.readouterr().out
    assert pictures == [tmp_path / "report" / "solves.png", report.HERE / "solves.png"]
