"""The compiled modules; everything else about the distribution is in pyproject.toml."""

import os
import platform
import sys
from glob import glob
from pathlib import Path
from sysconfig import get_platform

from Cython.Build import cythonize
from setuptools import Extension, setup

if sys.platform == "win32":
    sys.exit("kinesym runs on Linux and macOS; on Windows install it in WSL")

NATIVE = "runtime/native"


def extension(name: str, *sources: str, flags: tuple[str, ...] = ()) -> Extension:
    """kinesym.runtime.native.NAME, made from NAME.pyx and C sources.

    Names of C are hidden but for what Python and IPOPT look up: they must not be taken for those of
    other libraries.
    """
    return Extension(
        f"kinesym.runtime.native.{name}",
        [f"{NATIVE}/{name}.pyx", *sources],
        include_dirs=[f"{NATIVE}/c", f"{NATIVE}/c/include"],
        depends=sorted(glob(f"{NATIVE}/c/**/*.h", recursive=True) + glob(f"{NATIVE}/*.pxd")),
        libraries=["dl", "pthread"] if sys.platform.startswith("linux") else [],
        extra_compile_args=["-fvisibility=hidden", *flags],
    )


def cimported(folder: str) -> str:
    """A folder in which Cython finds `kinesym.runtime`, which lies at the top of the repository."""
    link = Path(folder, "kinesym", "runtime")
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath("runtime", link.parent))
    return folder


# The KKT solver is at once a module and the library that IPOPT loads.
kkt = extension("_kkt", *sorted(glob(f"{NATIVE}/c/kkt/*.c")), flags=("-O3", "-Wno-psabi"))
systems = extension(
    "_systems", *sorted(glob(f"{NATIVE}/c/systems/*.c")), flags=("-O3", "-Wno-psabi")
)
trust = extension("_trust", *sorted(glob(f"{NATIVE}/c/trust/*.c")), flags=("-O3",))
hybrid = extension("_hybrid", *sorted(glob(f"{NATIVE}/c/hybrid/*.c")), flags=("-O3",))

# Interpreted kernels, and the delays between them, are computed as compiled ones are.
numeric = ("-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
library = extension("_library", *sorted(glob(f"{NATIVE}/c/machine/*.c")), flags=numeric)
run = extension("_run", flags=numeric)
if sys.platform == "linux":
    library.extra_compile_args.append("-fopenmp")
    library.extra_link_args.append("-fopenmp")
if get_platform() == "linux-x86_64" and platform.libc_ver()[0] == "glibc":
    library.libraries.append("mvec")

calls = [library, extension("_plan"), run, extension("_chain")]
modules = [*calls, extension("_ipopt"), kkt, hybrid, systems, trust]
found = [cimported("build/cimported")]
setup(ext_modules=cythonize(modules, build_dir="build", include_path=found))
