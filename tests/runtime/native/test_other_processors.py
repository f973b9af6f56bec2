"""C code on emulated processors: AArch64, cross-compiled, and x86-64 without AVX, with AVX2."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
C = HERE.parents[2] / "runtime" / "native" / "c"
#: Of each program: its sources; all but the face to IPOPT of the KKT solver.
SOURCES = {
    "kkt_stress": sorted(set((C / "kkt").glob("*.c")) - {C / "kkt" / "ma57.c"}),
    "hybrid_fall": sorted((C / "hybrid").glob("*.c")),
}
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-pthread", "-static"]
FLAGS += [f"-I{C}", f"-I{C / 'include'}", f"-I{C / 'kkt'}"]
#: Compiler and emulator of each processor.
PROCESSORS = {
    "AArch64": ("aarch64-linux-gnu-gcc", ["qemu-aarch64"]),
    "x86-64": ("gcc", ["qemu-x86_64", "-cpu", "qemu64"]),
    "x86-64 with AVX2": ("gcc", ["qemu-x86_64", "-cpu", "Haswell"]),
}


def said(folder, program, compiler, emulator, *arguments):
    """What a program prints."""
    made = folder / f"{program}_{compiler}"
    sources = [*SOURCES[program], HERE / f"{program}.c"]
    subprocess.run([compiler, *FLAGS, *sources, "-lm", "-o", made], check=True)
    run = [*emulator, str(made), *arguments]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


@pytest.mark.study
@pytest.mark.parametrize("name", PROCESSORS)
def test_same_on_another_processor(tmp_path, name):
    """Random systems are solved as exactly, falls and their derivatives are the same."""
    compiler, emulator = PROCESSORS[name]
    foreign = name.startswith("x86-64") and platform.machine() != "x86_64"
    if foreign or not (shutil.which(compiler) and shutil.which(emulator[0])):
        pytest.skip(f"needs {compiler} for this processor and {emulator[0]} (Debian: qemu-user)")
    assert said(tmp_path, "kkt_stress", compiler, emulator, "3", "10").startswith("10 systems")
    fall = said(tmp_path, "hybrid_fall", compiler, emulator)
    assert fall == said(tmp_path, "hybrid_fall", "cc", [])
