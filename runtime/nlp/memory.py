"""Memory of a solve, estimated before it is allocated."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path

from kinesym.runtime.nlp.layout import FAMILIES
from kinesym.runtime.nlp.nlp import NLP

#: IPOPT counts variables, constraints and entries in 32 bits.
MOST = 2**31 - 1


@dataclass(frozen=True)
class Forecast:
    """Sizes of a problem, and the bytes of the factors of its KKT systems."""

    variables: int
    constraints: int
    jacobian: int
    hessian: int
    factors: float

    @property
    def evaluation(self) -> float:
        """Bytes for z, bounds, and the values of all callbacks."""
        vectors = 6 * self.variables + 3 * self.constraints
        return 8.0 * (vectors + self.jacobian + self.hessian)

    def solve(self, own_solver: bool) -> float:
        """Bytes for a solve by IPOPT with the time-structured linear solver or with MUMPS.

        Per entry of a matrix IPOPT keeps values twice, places, and a map between them; per entry of
        the KKT system values, places and work space, and our solver 8 bytes or MUMPS about 60 with
        its factors. Vectors of iterates are about 20. Measured with 6e4 and 1e6 nodes.
        """
        unknowns = self.variables + self.constraints
        kkt = self.jacobian + self.hessian + unknowns
        matrices = 28.0 * (self.jacobian + self.hessian) + 24.0 * kkt
        solver = 8.0 * kkt + self.factors if own_solver else 60.0 * kkt
        return matrices + solver + 160.0 * unknowns


def forecast(nlp: NLP) -> Forecast:
    """Memory forecast of a nonlinear program."""
    layout = nlp.layout
    equations = sum(len(layout.labels[family]) for family in FAMILIES)
    pivots = layout.width + equations
    rows = pivots + layout.width + len(layout.owned.parameters) + layout.free_duration
    rows += nlp.lags.carried if nlp.lags is not None else 0
    factors = 8.0 * pivots * (rows + 8) * sum(layout.nodes)
    entries = (nlp.jacobian_structure.size, nlp.hessian_structure.size)
    return Forecast(nlp.n_variables, nlp.n_constraints, *entries, factors)


def check_sizes(sizes: Forecast) -> None:
    """Raises `ValueError` if IPOPT cannot count that far."""
    names = ("variables", "constraints", "entries in the Jacobian", "entries in the Hessian")
    for what, count in zip(names, astuple(sizes), strict=False):
        if count > MOST:
            raise ValueError(
                f"the problem has {count:,} {what}, IPOPT counts to {MOST:,}: use fewer nodes"
            )


def check_free(needed: float, sizes: Forecast, remedy: str) -> None:
    """Raises `MemoryError` if `needed` bytes are more than there are."""
    free = available()
    if free is not None and needed > free:
        raise MemoryError(
            f"{sizes.variables:,} variables with {sizes.jacobian:,} entries of the Jacobian and "
            f"{sizes.hessian:,} of the Hessian need about {needed / 1e9:.1f} GB, "
            f"{free / 1e9:.1f} GB are free; {remedy}"
        )


def available() -> float | None:
    """Available memory: bytes that this process may still take, as far as the system reports it;
    None if it does not."""
    found = [bytes_ for bytes_ in (_of_the_machine(), _of_the_group()) if bytes_ is not None]
    return min(found, default=None)


def _of_the_machine(path: Path = Path("/proc/meminfo")) -> float | None:
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def _of_the_group(folder: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Memory left by the control group of a container [B], None without a limit."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else float(int(limit) - used)
