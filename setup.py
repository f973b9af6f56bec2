"""The one compiled module; everything else about the distribution is in pyproject.toml."""

import sys
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

native = Extension(
    "kinesym.runtime._native",
    ["runtime/_native.pyx"],
    include_dirs=["runtime/include"],
    depends=sorted(glob("runtime/include/*.h")),
    libraries=["dl"] if sys.platform.startswith("linux") else [],
)

setup(ext_modules=cythonize([native], build_dir="build"))
