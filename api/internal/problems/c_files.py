"""Files of C of a program, as the library takes them."""

from __future__ import annotations

from kinesym.codegen.c import emit, printed_from
from kinesym.codegen.kernel import Program
from kinesym.runtime.library.files import Files


def c_of(program: Program) -> Files:
    """C files of a program, for `build`; printed when they are first read."""
    return Files(printed_from(program), lambda: emit(program).files)
