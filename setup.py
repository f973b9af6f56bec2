"""The compiled modules; everything else about the distribution is in pyproject.toml."""

import sys
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup


def extension(name: str, *sources: str, **options: object) -> Extension:
    """kinesym.runtime.NAME, made from runtime/NAME.pyx and C sources."""
    return Extension(
        f"kinesym.runtime.{name}",
        [f"runtime/{name}.pyx", *sources],
        include_dirs=["runtime", "runtime/include"],
        depends=sorted(glob("runtime/include/*.h") + glob("runtime/*/*.h")),
        libraries=["dl", "pthread"] if sys.platform.startswith("linux") else [],
        **options,
    )


# The KKT solver is at once a module and the library that IPOPT loads.
kkt = extension("_kkt", *sorted(glob("runtime/kkt/*.c")), extra_compile_args=["-O3", "-Wno-psabi"])

# Its own names, such as those of its steps, must not be taken for those of other libraries.
hybrid = extension(
    "_hybrid",
    *sorted(glob("runtime/hybrid/*.c")),
    extra_compile_args=["-O3", "-fvisibility=hidden"],
)

modules = [extension("_native"), extension("_ipopt"), kkt, hybrid]
setup(ext_modules=cythonize(modules, build_dir="build"))
