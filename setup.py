"""The compiled modules; everything else about the distribution is in pyproject.toml."""

import sys
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

HEADERS = sorted(glob("runtime/include/*.h"))


def extension(name: str) -> Extension:
    """kinesym.runtime.NAME, made from runtime/NAME.pyx."""
    return Extension(
        f"kinesym.runtime.{name}",
        [f"runtime/{name}.pyx"],
        include_dirs=["runtime/include"],
        depends=HEADERS,
        libraries=["dl"] if sys.platform.startswith("linux") else [],
    )


setup(ext_modules=cythonize([extension("_native"), extension("_ipopt")], build_dir="build"))
