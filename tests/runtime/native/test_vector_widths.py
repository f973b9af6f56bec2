"""Kernels for each instruction set use its registers: wider vectors would live on the stack."""

import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from platform import machine

import pytest

from kinesym.runtime.native import KKT_LIBRARY, _systems

#: Doubles of a register, and its name, of each instruction set.
SETS = {"plain": (2, "%xmm"), "avx2": (4, "%ymm"), "avx512": (8, "%zmm")}
#: Of the KKT solver, of small systems.
KERNELS = r"\w+_(plain|avx2|avx512)|do_group|factorise|solve|solve_transposed"
OBJDUMP = shutil.which("objdump")


@cache
def packed(library):
    """Vector instructions of each function of a library: all, those of them that use the stack, and
    those that use each register."""
    listing = [OBJDUMP, "-d", "--no-show-raw-insn", library]
    all_of, on_stack, using, function = Counter(), Counter(), Counter(), ""
    for line in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    ):
        if label := re.match(r"[0-9a-f]+ <([\w.]+)>:", line):
            function = label[1]
        elif re.search(r"\t\w*(pd|ps|dq[au]\d*) ", line):
            all_of[function] += 1
            on_stack[function] += "(%rsp" in line or "(%rbp" in line
            for _, register in SETS.values():
                using[function, register] += register in line
    return all_of, on_stack, using


@pytest.mark.skipif(
    machine() != "x86_64" or OBJDUMP is None, reason="reads code of x86-64 by objdump (binutils)"
)
class TestVectorsOfKernels:
    @pytest.mark.parametrize("library", [KKT_LIBRARY, _systems.__file__])
    def test_stay_in_registers(self, library):
        all_of, on_stack, _ = packed(library)
        long = [f for f in all_of if re.fullmatch(KERNELS, f) and all_of[f] > 20]
        assert long
        assert not {f: (on_stack[f], all_of[f]) for f in long if on_stack[f] > 0.1 * all_of[f]}

    def test_a_set_needs_fewer_instructions_than_the_one_before(self):
        """For as many numbers; each in registers of its own."""
        all_of, _, using = packed(KKT_LIBRARY)
        for routine in "subtract_four", "eliminate", "inverse":
            names = {f"{routine}_{one}": SETS[one] for one in SETS}
            if not set(names) <= set(all_of):
                pytest.skip("the library was stripped of names")
            needed = [all_of[name] / width for name, (width, _) in names.items()]
            assert needed[0] > 1.5 * needed[1] > 1.5**2 * needed[2], routine
            for name, (_, register) in names.items():
                assert using[name, register] > 0.6 * all_of[name]
