"""Vectors of dense kernels are no wider than registers: else they live on the stack."""

import platform
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

C = Path(__file__).parents[3] / "runtime" / "native" / "c"
FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-Wno-psabi", f"-I{C}", f"-I{C / 'include'}"]


def packed(assembly: str) -> tuple[Counter[str], Counter[str]]:
    """Vector instructions of each function, and those of them that go to the stack."""
    all_of, on_stack, function = Counter[str](), Counter[str](), ""
    for line in assembly.splitlines():
        if label := re.match(r"([A-Za-z_]\w*):", line):
            function = label[1]
        elif re.match(r"\t\S*(pd|ps|dq[au]\d*)\t", line):
            all_of[function] += 1
            on_stack[function] += "(%rsp)" in line or "(%rbp)" in line
    return all_of, on_stack


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86-64")
def test_vectors_stay_in_registers(tmp_path):
    subprocess.run(
        ["cc", *FLAGS, "-S", C / "kkt" / "dense.c", "-o", tmp_path / "dense.s"], check=True
    )
    all_of, on_stack = packed((tmp_path / "dense.s").read_text())
    kernels = [f for f in all_of if re.match(r"(schur|eliminate|forward|backward|inverse)_", f)]
    assert {f.split("_")[0] for f in kernels} >= {"schur", "eliminate", "inverse"}
    assert not {f: (on_stack[f], all_of[f]) for f in kernels if on_stack[f] > 0.1 * all_of[f]}
