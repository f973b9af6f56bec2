"""Make ``import cyipopt`` work in the environment of the Python that runs this file.

There is no cyipopt wheel for Linux: it is compiled against an IPOPT that pkg-config can find.
This script takes the first of these that works and does nothing where cyipopt is already there:

1. IPOPT >= 3.14 that pkg-config already knows (a distribution package, conda, your own build);
2. the IPOPT inside the ``casadi`` wheel: headers and shared libraries, no compilation of IPOPT.
   The wheel ships no usable ``ipopt.pc``, so a small one is written to a temporary folder, and
   the extension gets a relative run path to casadi's folder (which therefore has to stay
   installed next to it; both live in the same site-packages).

Use: ``.venv/bin/python tools/build_cyipopt.py``. Needs a C compiler and the Python headers.
Only the standard library is imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CYIPOPT = "cyipopt>=1.4"
IPOPT = "3.14"

PC_FILE = """\
Name: ipopt
Description: IPOPT of the casadi wheel
Version: {version}
Cflags: -I{include}
Libs: -L{lib} -lipopt
"""


def main() -> int:
    """Install cyipopt unless it imports; return the exit status."""
    if works():
        print("cyipopt: already there")
        return 0
    check_tools()
    with tempfile.TemporaryDirectory(prefix="kinesym-ipopt-") as folder:
        env = dict(os.environ)
        env["PATH"] = f"{folder}{os.pathsep}{env.get('PATH', '')}"
        if shutil.which("pkg-config") is None:
            borrow_pkg_config(Path(folder))
        if quiet("pkg-config", f"--atleast-version={IPOPT}", "ipopt", env=env):
            print("cyipopt: building against the IPOPT that pkg-config finds")
        else:
            print("cyipopt: building against the IPOPT of the casadi wheel")
            use_casadi(Path(folder), env)
        # Neither a wheel built elsewhere nor one kept in pip's cache has our run path.
        pip("install", "--no-cache-dir", "--no-binary", "cyipopt", CYIPOPT, env=env)
    if not works():
        fail(
            "cyipopt was built but does not import; the traceback above says why",
            show=[sys.executable, "-c", "import cyipopt"],
        )
    print("cyipopt: ready")
    return 0


def works() -> bool:
    """Whether a fresh interpreter of this environment imports a recent cyipopt."""
    return quiet(sys.executable, "-c", "import cyipopt; cyipopt.Problem.solve")


def check_tools() -> None:
    """Stop with the remedy where pip, a compiler or the Python headers are missing."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if importlib.util.find_spec("pip") is None:
        fail(
            "This Python has no pip; create the environment with 'python3 -m venv' "
            f"(Debian and Ubuntu: apt install python{version}-venv)."
        )
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        fail(
            f"The C compiler '{compiler}' was not found; install one (Debian and Ubuntu: "
            "apt install build-essential) or name another in the variable CC."
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        fail(
            f"The Python headers are missing (no {header}); install them (Debian and Ubuntu: "
            f"apt install python{version}-dev)."
        )


def borrow_pkg_config(folder: Path) -> None:
    """Put the pkg-config of the PyPI wheel ``pkgconf`` into ``folder``."""
    pip("install", "pkgconf")
    program = output(sys.executable, "-c", "import pkgconf; print(pkgconf.get_executable())")
    (folder / "pkg-config").symlink_to(program)


def use_casadi(folder: Path, env: dict[str, str]) -> None:
    """Install casadi and point ``env`` at the IPOPT inside, described by ``folder/ipopt.pc``."""
    pip("install", "casadi")
    lib = Path(output(sys.executable, "-c", "import casadi; print(casadi.__path__[0])"))
    include = lib / "include" / "coin-or"
    config = include / "IpoptConfig.h"
    if not config.is_file():
        fail(
            "This casadi wheel carries no IPOPT headers; install IPOPT itself "
            "(version 3.14 or newer, for example from conda-forge) and run again."
        )
    version = next(
        (
            line.split('"')[1]
            for line in config.read_text().splitlines()
            if line.startswith("#define IPOPT_VERSION ")
        ),
        IPOPT,
    )
    text = PC_FILE.format(version=version, include=include, lib=lib)
    (folder / "ipopt.pc").write_text(text)
    env["PKG_CONFIG_PATH"] = f"{folder}{os.pathsep}{env.get('PKG_CONFIG_PATH', '')}"
    origin = "@loader_path" if sys.platform == "darwin" else "$ORIGIN"
    # The extension's folder, seen from which casadi is found, differs between cyipopt releases.
    paths = [f"-Wl,-rpath,{origin}/{step}casadi" for step in ("../", "")]
    env["LDFLAGS"] = " ".join([env.get("LDFLAGS", ""), *paths]).strip()


def pip(*arguments: str, env: dict[str, str] | None = None) -> None:
    """Run pip of this environment; on failure show its output and stop."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(
        command,
        env=env,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        fail(f"'pip {' '.join(arguments)}' failed; its output is above.")


def quiet(*command: str, env: dict[str, str] | None = None) -> bool:
    """Whether a command exists and succeeds."""
    program = shutil.which(command[0], path=env["PATH"] if env else None)
    if program is None:
        return False
    done = subprocess.run(
        [program, *command[1:]], env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
    return done.returncode == 0


def output(*command: str) -> str:
    """Output of a command."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def fail(sentence: str, show: list[str] | None = None) -> None:
    """Print one sentence (after the output of ``show``) and stop."""
    if show:
        subprocess.run(show, check=False, stdout=sys.stderr)
    print(f"build_cyipopt: {sentence}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
