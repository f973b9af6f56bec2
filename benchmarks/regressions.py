"""Do 95 % intervals by sandwich hold in linear regressions, for which noise and how few samples?

Regressions whose errors are known, without any model of motion, so that thousands can be tried:
regressors that differ in how fast and how evenly they change, and noise of six kinds.

    python benchmarks/regressions.py [--records N] [--samples N ...] [--workers N] [--write]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from record import table
from report import leave, machine, parsed
from scipy.signal import lfilter
from scipy.stats import t as student

from kinesym.runtime.nlp.samples import Influence
from kinesym.runtime.statistics.sandwich import sandwich

LEVEL = 0.95
#: Samples before the first one, and records of which only the true variance is taken.
BEFORE, MORE = 300, 4000


def slow(time: np.ndarray) -> np.ndarray:
    """A constant, three swings, a trend."""
    return np.column_stack([np.ones_like(time), np.sin(6.0 * np.pi * time), time])


def pulses(time: np.ndarray) -> np.ndarray:
    """What a predator does to its prey in four swings that grow."""
    p = np.exp(2.0 * np.sin(8.0 * np.pi * time))
    q = p * np.cos(8.0 * np.pi * time)
    return np.column_stack([p, q, time * q, time * p, q * np.cos(8.0 * np.pi * time)])


def bursts(time: np.ndarray) -> np.ndarray:
    """Two that are told by a part of the record."""
    late = np.sin(9.0 * (time - 0.3)) * np.exp(-3.0 * (time - 0.3))
    return np.column_stack([time**2 * np.exp(-8.0 * time), np.where(time > 0.3, late, 0.0)])


def polynomials(time: np.ndarray) -> np.ndarray:
    """Eight, which follow all slow swings."""
    return np.polynomial.legendre.legvander(2.0 * time - 1.0, 7)


def fast(time: np.ndarray) -> np.ndarray:
    """Four that are random."""
    return np.random.default_rng(7).standard_normal((len(time), 4))


REGRESSORS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    each.__name__: each for each in (slow, pulses, bursts, polynomials, fast)
}
#: Coefficients of white noise and of the noise before.
NOISE: Mapping[str, tuple[list[float], list[float]]] = {
    "white": ([1.0], [1.0]),
    "AR(1) 0.8": ([1.0], [1.0, -0.8]),
    "AR(1) 0.8, growing": ([1.0], [1.0, -0.8]),
    "AR(1) 0.95": ([1.0], [1.0, -0.95]),
    "AR(2), 1.6 and -0.8": ([1.0], [1.0, -1.6, 0.8]),
    "MA(2), 0.8 and 0.5": ([1.0, 0.8, 0.5], [1.0]),
    "AR(1) 0.9 and as much white": ([1.0], [1.0, -0.9]),
}


def drawn(kind: str, rng: np.random.Generator, records: int, time: np.ndarray) -> np.ndarray:
    """Noise (records, n)."""
    w = rng.standard_normal((records, BEFORE + len(time)))
    e = lfilter(*NOISE[kind], w, axis=1)[:, BEFORE:]
    if kind.endswith("white") and kind != "white":
        e = e + e.std() * rng.standard_normal(e.shape)
    return np.asarray(e * (0.3 + 2.0 * time) if kind.endswith("growing") else e)


@dataclass(frozen=True)
class Row:
    """Shares of intervals that hold the truth [%], of all parameters and of the one that is missed
    most often; the mean of the variances over the true ones; the median of degrees of freedom."""

    regressors: str
    noise: str
    samples: int
    plain: float
    inside: float
    least: float
    variance: float
    freedom: float


def tried(which: tuple[str, str, int], records: int) -> Row:
    """So many regressions of one kind."""
    name, kind, n = which
    time = np.arange(n) / n
    X = REGRESSORS[name](time)
    r = X.shape[1]
    pull, basis = X @ np.linalg.inv(X.T @ X), np.linalg.qr(X).Q
    seed = [list(REGRESSORS).index(name), list(NOISE).index(kind), n]
    rng = np.random.default_rng(seed)
    true = np.mean((drawn(kind, rng, MORE, time) @ pull) ** 2, axis=0)
    inside, plain, V, freedom = np.zeros((4, records, r))
    for k, e in enumerate(drawn(kind, rng, records, time)):
        b, left = e @ pull, e - basis @ (basis.T @ e)
        found = sandwich([Influence(0, 0, time, left, pull, basis)], n, r)
        V[k], freedom[k] = np.diag(found.covariance), found.freedom
        wide = student.ppf(0.5 + 0.5 * LEVEL, freedom[k])
        inside[k] = np.abs(b) <= wide * np.sqrt(V[k])
        size = np.sqrt(left @ left / (n - r) * np.sum(pull**2, axis=0))
        plain[k] = np.abs(b) <= student.ppf(0.5 + 0.5 * LEVEL, n - r) * size
    return Row(
        name,
        kind,
        n,
        100.0 * float(plain.mean()),
        100.0 * float(inside.mean()),
        100.0 * float(inside.mean(axis=0).min()),
        float(np.mean(V.mean(axis=0) / true)),
        float(np.median(freedom)),
    )


HEADER = ["regressors", "noise", "samples", "t [%]", "sandwich [%]", "least [%]"]
HEADER += ["variance", "freedom"]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    shares = [f"{share:.1f}" for share in (row.plain, row.inside, row.least)]
    ends = [f"{row.variance:.2f}", f"{row.freedom:.0f}"]
    return [row.regressors, row.noise, str(row.samples), *shares, *ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=500, help="of each kind")
    parser.add_argument("--samples", type=int, nargs="+", default=[120, 300, 800])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    given = parsed(parser)
    sizes = given.samples[:1] if given.quick else given.samples
    wanted = [(name, kind, n) for name in REGRESSORS for kind in NOISE for n in sizes]
    with ProcessPoolExecutor(given.workers) as executor:
        made = partial(tried, records=2 if given.quick else given.records)
        rows = list(executor.map(made, wanted))
    parts, raw = [table(HEADER, map(cells, rows))], [vars(row) for row in rows]
    leave(given, "regressions", machine("scipy"), parts, raw)


if __name__ == "__main__":
    main()
