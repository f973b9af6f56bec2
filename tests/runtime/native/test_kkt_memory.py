"""C code under the address and undefined-behaviour sanitizers: the KKT solver, the hybrid loop."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: All but the face to IPOPT; and the program that calls them.
C = HERE.parents[2] / "runtime" / "native" / "c"
KKT = C / "kkt"
SOURCES = [*sorted(set(KKT.glob("*.c")) - {KKT / "ma57.c"}), HERE / "kkt_stress.c"]
FLAGS = [
    "-std=gnu11",
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wno-psabi",
    "-pthread",
    f"-I{C}",
    f"-I{KKT}",
]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
THREADS = ["-fsanitize=thread"]


def cc(*arguments):
    return subprocess.run(
        [os.environ.get("CC", "cc"), *map(str, arguments)], capture_output=True, text=True
    )


@pytest.fixture(scope="module", autouse=True)
def sanitizers(tmp_path_factory):
    """Skips where an empty program cannot be linked with them."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("empty")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    done = cc(*SANITIZE, folder / "empty.c", "-o", folder / "empty")
    if done.returncode:
        pytest.skip(f"the compiler cannot link sanitizers: {done.stderr.strip()[-200:]}")


def stress(folder, *flags, seed, systems):
    """Compile and run; what it prints."""
    program = folder / "stress"
    done = cc(*FLAGS, *flags, *SOURCES, "-lm", "-o", program)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    done = subprocess.run([program, str(seed), str(systems)], capture_output=True, text=True)
    assert done.returncode == 0 and "runtime error" not in done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.study
@pytest.mark.parametrize(
    "more",
    [[], ["-DHAS_TARGETS=0"]],  # dense.c has code for chosen processors
    ids=["this processor", "any processor"],
)
def test_no_reports(tmp_path, more):
    """50 systems: no byte is read or written outside of arrays or leaked, and all is solved."""
    said = stress(tmp_path, *SANITIZE, *more, seed=1 + len(more), systems=50)
    assert said.startswith("50 systems")


def test_no_races(tmp_path):
    """Parts that are eliminated side by side share nothing that one of them writes."""
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    done = cc(*THREADS, tmp_path / "empty.c", "-o", tmp_path / "empty")
    if done.returncode or subprocess.run([tmp_path / "empty"]).returncode:
        pytest.skip("the compiler has no sanitizer of threads that works here")
    said = stress(tmp_path, *THREADS, "-DHAS_TARGETS=0", seed=6, systems=4)
    assert said.startswith("4 systems")


@pytest.mark.study
def test_optimised(tmp_path):
    """250 systems with the optimisation of a release."""
    said = stress(tmp_path, "-O2", seed=4, systems=250)
    assert said.startswith("250 systems")


@pytest.mark.study
def test_hybrid_loop_and_its_derivatives(tmp_path):
    """Nothing is copied from or to arrays that there are not; a bounce and its derivatives."""
    sources = [*sorted((C / "hybrid").glob("*.c")), HERE / "hybrid_fall.c"]
    program = tmp_path / "fall"
    includes = [f"-I{C}", f"-I{C / 'include'}"]
    strict = ["-Wshadow", "-Werror"]
    done = cc(*FLAGS, *strict, *SANITIZE, *includes, *sources, "-lm", "-o", program)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    fall, bounce, forward, adjoint = done.stdout.splitlines()
    assert fall == "0 -3.905000 -9.810000"
    g, e = 9.81 - 0.5, 0.5  # from a height of 1 m: it hits at t, then `left` is left of 0.8 s
    t = (2.0 / g) ** 0.5
    left = 0.8 - t
    height, speed = e * g * t * left - 0.5 * g * left**2, e * g * t - g * left
    assert bounce == f"0 {height:.6f} {speed:.6f}"
    by_time = e * g * (left - t) + g * left  # of the hit
    by_g = e * t * left - 0.5 * left**2 - by_time * t / (2.0 * g)
    expected = [by_time / (g * t), by_time / g - e * left, by_g, -by_g]
    for line in (forward, adjoint):
        assert [float(x) for x in line.split()] == pytest.approx(expected, abs=1e-8)
