"""Damaged files of every format that is read: whatever happened to them, they read the same, or a
sentence names the file; nothing crashes and nothing hangs.

A worker process reads, so that a crash is counted. KINESYM_LONG=1 makes 7,200 files instead of 480,
a range of seeds, `KINESYM_LONG=7200:9000`, others; with `pytest -s` the outcomes are printed.
"""

import gzip
import hashlib
import json
import os
import select
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

LONG = os.environ.get("KINESYM_LONG", "")
FIRST, LAST = map(int, LONG.split(":")) if ":" in LONG else (0, 7200 if LONG else 480)
#: Reading takes a second at most; a machine that is busy may take longer.
PATIENCE = 120.0

# -- whole files ----------------------------------------------------------------------------------


def _table(head, names, rows, cells="\t"):
    return "\n".join([*head, cells.join(names), *(cells.join(row) for row in rows)]) + "\n"


def _rows(count, first, columns):
    """Numbers as a laboratory writes them, by column."""
    return [
        [*first(k), *(f"{100.0 * c + 3.7 * k + 0.013 * c * k:.3f}" for c in range(columns))]
        for k in range(count)
    ]


def whole_text():
    """Text files by the name of their format."""
    axes = [f"{name}_{axis}_mm" for name in ("R.Heel", "L.Heel", "Head") for axis in "xyz"]
    markers = _rows(30, lambda k: [f"{0.01 * k:.2f}"], 9)
    trc_head = [
        "PathFileType\t4\t(X/Y/Z)\twalk.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate",
        "100.00\t100.00\t30\t3\tmm\t100.00",
        "Frame#\tTime\tR.Heel\t\t\tL.Heel\t\t\tHead\t\t",
    ]
    trc = _rows(30, lambda k: [str(k + 1), f"{0.01 * k:.3f}"], 9)
    mot_head = ["walk", "version=1", "nRows=30", "nColumns=5", "inDegrees=yes", "endheader"]
    angles = ["time", "hip_flexion_r", "knee_angle_r", "ankle_angle_r", "pelvis_tx"]
    grf = [
        f"{side}_ground_{what}{axis}"
        for side in "rl"
        for what in ("force_v", "force_p", "torque_")
        for axis in "xyz"
    ]
    loads = [
        [
            f"{0.01 * k:.2f}",
            *(["10.5", f"{700 + k}.25", "-3.0", "0.1", "0.0", "0.2", "0.0", "1.25", "0.0"] * 2),
        ]
        for k in range(30)
    ]
    plate = [
        f"right_{kind}_{axis}_{unit}"
        for kind, unit in (("force", "N"), ("cop", "m"), ("torque", "Nm"))
        for axis in "xyz"
    ]
    static = [[f"M{k}", f"{0.1 * k:.4f}", "0.2500", f"{1.0 + 0.01 * k:.4f}"] for k in range(12)]
    return {
        "trc": _table(trc_head, ["", "", *(f"{a}{k}" for k in (1, 2, 3) for a in "XYZ")], trc),
        "mot": _table(mot_head, angles, _rows(30, lambda k: [f"{0.01 * k:.2f}"], 4)),
        "sto": _table(
            mot_head[:2] + mot_head[2:4] + ["inDegrees=no", "endheader"],
            angles,
            _rows(30, lambda k: [f"{0.01 * k:.2f}"], 4),
        ),
        "csv": _table([], ["time_s", *axes], markers, ","),
        "table": _table([], ["time", "a", "b", "c"], _rows(30, lambda k: [f"{0.01 * k}"], 3), ","),
        "grf": _table(["nRows=30", "endheader"], ["time", *grf], loads).replace(
            "nRows", "grf\nversion=1\nnRows", 1
        ),
        "forces": _table([], ["time_s", *plate], [row[:10] for row in loads], ","),
        "contacts": _table(
            [], ["foot", "begin", "end"], [["left", "0.0", "0.7"], ["right", "0.5", "1.2"]], ","
        ),
        "places": _table([], ["marker", "x_m", "y_m", "z_m"], static, ","),
        "norms": _table(
            [],
            ["curve", "percent", "low", "high"],
            [["knee_rad", f"{10 * k}", "-0.1", f"0.{k + 1}"] for k in range(9)],
            ",",
        ),
        "loads": _loads(),
        "cortex": _table(
            ["[Force Data]", "NumberOfForcePlates=1", "SampleRate=600.0", "NumberOfSamples=30"],
            ["#Sample", "FX1", "FY1", "FZ1", "X1", "Y1", "Z1", "MZ1"],
            [
                [str(k + 1), "10.5", "-3.0", f"{700 + k}.25", *"50 80 0 1250".split()]
                for k in range(30)
            ],
        ),
    }


def _loads():
    """ExternalLoads of OpenSim, for forces in a file beside it."""
    parts = "".join(
        f"<{part}_identifier>r_ground_{name}</{part}_identifier>\n"
        for part, name in (("force", "force_v"), ("point", "force_p"), ("torque", "torque_"))
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<OpenSimDocument Version="40000">\n<ExternalLoads>'
        '\n<objects>\n<ExternalForce name="right">\n<applied_to_body>calcn_r</applied_to_body>\n'
        f"{parts}</ExternalForce>\n</objects>\n<datafile>beside.mot</datafile>\n"
        "</ExternalLoads>\n</OpenSimDocument>\n"
    )


def whole_files(saved, folder):
    """All files by the name of their format; segments are two files of which one is damaged."""
    import ezc3d

    from kinesym.models.whole_body import segments_of_body, write_segments

    found = {name: text.encode() for name, text in whole_text().items()}
    (folder / "beside.mot").write_text(whole_text()["grf"])
    found |= {f"{name}.gz": gzip.compress(content) for name, content in found.items()}
    paths = folder / "segments.whole", folder / "points.whole"
    write_segments(segments_of_body(72.0, 1.75), *paths)
    found |= {path.stem: path.read_bytes() for path in paths}
    found |= {f"{kind}.nc": content for kind, content in saved.items()}
    file = ezc3d.c3d()
    points = np.ones((4, 3, 20))
    points[:3] = 300.0 * np.arange(9.0).reshape(3, 3, 1) + np.arange(20) + 100.0
    for group, name, value in (
        ("POINT", "UNITS", ["mm"]),
        ("POINT", "RATE", [100]),
        ("POINT", "LABELS", ("R.Heel", "L.Heel", "Head")),
        ("ANALOG", "RATE", [200]),
        ("ANALOG", "LABELS", tuple("abcdef")),
        ("FORCE_PLATFORM", "TYPE", np.array([2])),
        ("FORCE_PLATFORM", "USED", np.array([1])),
        ("FORCE_PLATFORM", "CHANNEL", np.arange(1, 7).reshape(6, 1)),
        ("FORCE_PLATFORM", "ORIGIN", np.array([[0.0], [0.0], [-40.0]])),
        (
            "FORCE_PLATFORM",
            "CORNERS",
            np.array([[600.0, 0, 0, 600], [0, 0, 400, 400], [0, 0, 0, 0]]).reshape(3, 4, 1),
        ),
    ):
        file["parameters"][group][name]["value"] = value
    for group, name, value in (
        ("PROCESSING", "Bodymass", [71.0]),
        ("EVENT", "USED", [2]),
        ("EVENT", "CONTEXTS", ["Right", "Right"]),
        ("EVENT", "LABELS", ["Foot Strike", "Foot Off"]),
        ("EVENT", "TIMES", np.array([[0.0, 0.0], [0.05, 0.15]])),
    ):
        file.add_parameter(group, name, value)
    file["data"]["points"] = points
    file["data"]["analogs"] = np.tile([[30.0], [12.0], [-700.0], [35e3], [70e3], [-3e3]], (1, 40))[
        None
    ]
    file.write(str(folder / "whole.c3d"))
    return found | {"c3d": (folder / "whole.c3d").read_bytes()}


# -- damage ---------------------------------------------------------------------------------------

WORDS = [
    b"NaN",
    b"inf",
    b"-inf",
    b"1e308",
    b"-1e308",
    b"1e999",
    b"1_000",
    b"1e-320",
    b"",
    b"-",
    b"abc",
    b"0",
    b"9" * 400,
    b"1,5",
    b'"',
    b"\xe9t\xe9",
    b"True",
    b"0x1F",
]


def cut(rng, whole):
    return whole[: rng.integers(len(whole))]


def flipped(rng, whole):
    at = rng.integers(len(whole))
    return whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :]


def replaced_byte(rng, whole):
    at = rng.integers(len(whole))
    return whole[:at] + bytes([rng.integers(256)]) + whole[at + 1 :]


def block(rng, whole):
    """Zeros, ones, noise or text over a part, or put in between."""
    at, size = rng.integers(len(whole)), int(2 ** rng.uniform(0, 11))
    more = [bytes(size), b"\xff" * size, rng.bytes(size), (b"lorem ipsum " * size)[:size]]
    return whole[:at] + more[rng.integers(4)] + whole[at + size * int(rng.random() < 0.7) :]


def lost(rng, whole):
    at, size = rng.integers(len(whole)), int(2 ** rng.uniform(0, 11))
    return whole[:at] + whole[at + size :]


def other(rng, whole):
    return [
        b"",
        b"\n",
        b"hello, world\n",
        b"<html><body>404</body></html>",
        rng.bytes(3000),
        whole + whole,
        whole[::-1],
        whole.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + whole,
        whole.decode("latin-1").encode("utf-16"),
        gzip.compress(whole)[:-8],
        b"\x89HDF\r\n\x1a\n" + whole,
        bytes(len(whole)),
    ][rng.integers(13)]


def lines(rng, whole):
    """Some lost, twice, elsewhere, or empty."""
    rows = whole.split(b"\n")
    for _ in range(rng.integers(1, 4)):
        at, to = rng.integers(len(rows), size=2)
        match rng.integers(4):
            case 0:
                del rows[at : at + rng.integers(1, 6)]
                rows = rows or [b""]
            case 1:
                rows.insert(to, rows[at])
            case 2:
                rows[at], rows[to] = rows[to], rows[at]
            case 3:
                rows[at] = b""
    return b"\n".join(rows)


def columns(rng, whole):
    """One lost, twice or empty, in all lines or in one."""
    mark = b"\t" if b"\t" in whole else b","
    rows = whole.split(b"\n")
    begin, k, kind = rng.integers(len(rows)), rng.integers(12), rng.integers(3)
    for at in range(len(rows)) if rng.random() < 0.5 else [begin]:
        cells = rows[at].split(mark)
        if k < len(cells):
            cells[k : k + 1] = [[], [cells[k]] * 2, [b""]][kind]
            rows[at] = mark.join(cells)
    return b"\n".join(rows)


def words(rng, whole):
    """Cells replaced by what no laboratory writes."""
    for _ in range(rng.integers(1, 4)):
        mark = [b"\t", b",", b"\n", b"="][rng.integers(4)]
        cells = whole.split(mark)
        cells[rng.integers(len(cells))] = WORDS[rng.integers(len(WORDS))]
        whole = mark.join(cells)
    return whole


BYTES = [cut, flipped, replaced_byte, block, lost, other]
TEXT = [*BYTES, lines, columns, words]


def damaged(rng, name, whole):
    """The kind of damage, and the damaged content."""
    packed = name.endswith(".gz")
    if packed and rng.random() < 0.3:  # before it was compressed
        kind = TEXT[rng.integers(len(TEXT))]
        return kind.__name__, gzip.compress(kind(rng, gzip.decompress(whole)))
    kinds = BYTES if packed or name.endswith((".nc", "c3d")) else TEXT
    kind = kinds[rng.integers(len(kinds))]
    return kind.__name__, kind(rng, whole)


# -- the process that reads -----------------------------------------------------------------------


def readers(folder):
    """By the name of the format."""
    import kinesym as ks

    gait = ks.gait
    found = {
        "trc": partial(gait.read_trc, up="y"),  # else a guess, with a warning
        "mot": gait.read_mot,
        "sto": gait.read_mot,
        "csv": partial(gait.read_csv, up="y"),
        "table": gait.read_table,
        "grf": gait.read_forces,
        "forces": gait.read_forces,
        "contacts": gait.read_contacts,
        "norms": gait.read_norms,
        "places": partial(gait.read_places, up="y"),
        "loads": gait.read_forces,
        "cortex": gait.read_forces,
        "c3d": gait.read_c3d,
    }
    found |= {f"{name}.gz": read for name, read in found.items()}
    found["segments"] = lambda path: gait.read_segments(path, folder / "points.whole")
    found["points"] = lambda path: gait.read_segments(folder / "segments.whole", path)
    results = (ks.Trajectory, ks.Solution, ks.Fit, ks.Ensemble, ks.Bands, ks.InfluenceMeasures)
    for kind in (*results, gait.MarkerFit, gait.Scaling):
        found[f"{kind.__name__}.nc"] = kind.load
    return found


def digest(thing):
    """The same for equal content."""
    if isinstance(thing, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
    if is_dataclass(thing):  # without what a table says about itself
        return [digest(getattr(thing, f.name)) for f in fields(thing) if f.name != "header"]
    if isinstance(thing, Mapping):
        return [[str(key), digest(value)] for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [digest(value) for value in thing]
    return repr(thing)


def outcome(read, path):
    """What came of reading: a kind, and the content or the words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            content = hashlib.sha256(json.dumps(digest(read(path))).encode()).hexdigest()
        except ValueError as error:
            named = Path(path).name in str(error)
            return ["clear" if named else "unclear", f"{type(error).__name__}: {error}"]
        except Exception as error:
            return ["unclear", f"{type(error).__name__}: {error}"]
    told = [str(w.message) for w in caught if Path(path).name in str(w.message)]
    foreign = [
        f"{w.category.__name__}: {w.message}"
        for w in caught
        if Path(path).name not in str(w.message)
    ]
    if foreign:
        return ["unclear", foreign[0]]
    return ["warned" if told else "read", content]


def serve(folder):
    """Read what the lines of standard input name, and answer each with a line."""
    known = readers(Path(folder))
    for line in sys.stdin:
        name, path = json.loads(line)
        print(json.dumps(outcome(known[name], path)), flush=True)


class Worker:
    """The process that reads; a new one after a crash."""

    def __init__(self, folder):
        self.folder, self.process = folder, None

    def ask(self, name, path):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        self.process.stdin.write(json.dumps([name, str(path)]) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.close()
        return ["crashed" if ready else "hung", ""]

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


@pytest.fixture
def worker(tmp_path):
    made = Worker(tmp_path)
    yield made
    made.close()


# -- the test -------------------------------------------------------------------------------------


def test_damaged_files(saved, tmp_path, worker):
    """Numbers may change where nothing tells: a digit of a table, a row of one that has no header.
    What was saved with its checksum is either right or refused."""
    files = whole_files(saved, tmp_path)
    whole = {}
    for name, content in files.items():
        path = tmp_path / f"whole-{name}"
        path.write_bytes(content)
        kind, whole[name] = worker.ask(name, path)
        assert kind == "read", (name, kind, whole[name])
    names = sorted(files)
    counts, faults = Counter(), []
    for case in range(FIRST, LAST):
        rng = np.random.default_rng(case)
        name = names[case % len(names)]
        how, content = damaged(rng, name, files[name])
        path = tmp_path / f"damaged-{name}"
        path.write_bytes(content)
        kind, told = worker.ask(name, path)
        if kind == "read":
            kind = "same" if told == whole[name] else "changed"
        counts[name, how, kind] += 1
        if kind in ("unclear", "crashed", "hung") or (kind == "changed" and name.endswith(".nc")):
            faults.append((case, name, how, kind, told))
    total = Counter()
    for (_, _, kind), count in counts.items():
        total[kind] += count
    print(dict(total))
    for key, count in sorted(counts.items()):
        if key[2] in ("changed", "warned"):
            print(*key, count)
    assert not faults, faults[:10]
    assert total["clear"] > 0.4 * (LAST - FIRST)


if __name__ == "__main__":
    serve(sys.argv[1])
