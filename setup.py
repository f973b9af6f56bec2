"""The compiled modules; everything else about the distribution is in pyproject.toml."""

import platform
import sys
from glob import glob
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
        depends=sorted(glob(f"{NATIVE}/c/*/*.h")),
        libraries=["dl", "pthread"] if sys.platform.startswith("linux") else [],
        extra_compile_args=["-fvisibility=hidden", *flags],
    )


# The KKT solver is at once a module and the library that IPOPT loads.
kkt = extension("_kkt", *sorted(glob(f"{NATIVE}/c/kkt/*.c")), flags=("-O3", "-Wno-psabi"))
systems = extension("_systems", f"{NATIVE}/c/systems/systems.c", flags=("-O3", "-Wno-psabi"))
hybrid = extension("_hybrid", *sorted(glob(f"{NATIVE}/c/hybrid/*.c")), flags=("-O3",))

# The machine that interprets kernels computes as compiled ones do.
machine = extension(
    "_native",
    *sorted(glob(f"{NATIVE}/c/machine/*.c")),
    flags=("-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"),
)
if sys.platform == "linux":
    machine.extra_compile_args.append("-fopenmp")
    machine.extra_link_args.append("-fopenmp")
if get_platform() == "linux-x86_64" and platform.libc_ver()[0] == "glibc":
    machine.libraries.append("mvec")

modules = [machine, extension("_ipopt"), kkt, hybrid, systems]
setup(ext_modules=cythonize(modules, build_dir="build"))
