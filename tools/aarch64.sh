#!/usr/bin/env bash
# Run a command of Python on an emulated AArch64 processor, with kinesym cross-compiled from here.
#
# use: tools/aarch64.sh -m pytest -q -m "not study" tests/runtime/native/test_kkt.py
#
# Needs Debian 12 with gcc-aarch64-linux-gnu and qemu-user, and `make setup` by its Python 3.11. The
# first time it fetches an AArch64 Python from Debian and wheels from PyPI into build/aarch64 (900 MB);
# it compiles the extension again where that is newer. Kernels are built by the cross compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FOLDER=$PWD/build/aarch64
ROOT=$FOLDER/root SITE=$FOLDER/site
PYTHON=$PWD/.venv/bin/python
CROSS=aarch64-linux-gnu-gcc

fetch_python() {
    local apt=$FOLDER/apt package
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$ROOT"
    local options=(-q -o Dir::State="$apt" -o Dir::State::status=/dev/null -o Dir::Cache="$apt"
        -o APT::Sandbox::User=root -o APT::Architecture=arm64 -o APT::Architectures=arm64)
    apt-get "${options[@]}" update
    (cd "$apt" && apt-get "${options[@]}" download libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g \
        python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 libffi8 libssl3 \
        libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1)
    for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$ROOT"; done
}

fetch_wheels() {
    local glibc tags=()
    for glibc in 2_17 2_24 2_27 2_28 2_34; do tags+=(--platform "manylinux_${glibc}_aarch64"); done
    "$PYTHON" - <<'READ' >"$FOLDER/requirements.txt"
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
wanted = project["dependencies"] + ["pytest", "pytest-xdist", "hypothesis", "mpmath"]
print(*(one for one in wanted if "aarch64" not in one), sep="\n")
READ
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --target "$SITE" "${tags[@]}" \
        --platform manylinux2014_aarch64 --only-binary :all: --requirement "$FOLDER/requirements.txt"
}

build() {
    rm -rf "$SITE"/kinesym* "$FOLDER/wheel"
    _PYTHON_HOST_PLATFORM=linux-aarch64 CC=$CROSS LDSHARED="$CROSS -shared" CFLAGS=-g0 \
        "$PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$FOLDER/wheel" .
    unzip -q "$FOLDER"/wheel/*.whl -d "$SITE"
    for library in "$SITE"/kinesym/runtime/native/*.so; do
        mv "$library" "${library%%.*}.cpython-311-aarch64-linux-gnu.so"
    done
    touch "$FOLDER/built"
}

test -e "$ROOT/usr/bin/python3.11" || fetch_python
test -e "$SITE/numpy" || fetch_wheels
test -n "$(find base symbolic codegen runtime api gait models examples setup.py pyproject.toml -newer \
    "$FOLDER/built" -print -quit 2>&1)" && build
exec env CC=$CROSS KINESYM_CACHE="$FOLDER/cache" PYTHONPATH="$SITE" OPENBLAS_NUM_THREADS=1 \
    qemu-aarch64 -L "$ROOT" "$ROOT/usr/bin/python3.11" "$@"
