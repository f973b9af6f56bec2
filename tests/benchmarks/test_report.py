"""The report of all benchmarks: parts that are there, a part that failed."""

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
    lines = report.table(["a", "b"], [["1", "2"]]).splitlines()
    assert lines[1:] == ["| --- | ---: |", "| 1 | 2 |"]
    assert [report.number(x) for x in (1234.5, 0.00123456, float("nan"), None)] == [
        "1234",
        "0.00123",
        "-",
        "-",
    ]
    assert report.ratio(3.0, 2.0) == "1.50"
