"""The time-structured KKT solver against LAPACK, on random systems structured like collocation.

Inertia is compared after scaling rows and columns alike, which leaves the signs of eigenvalues but
brings them close enough together for LAPACK to tell; where the smallest one is still lost in
rounding, only the backward error counts.
"""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigvalsh

from kinesym.runtime.native._kkt import BORDER, STATUSES, UNKNOWN, Factorisation, find_stages
from kinesym.runtime.status import Factors

#: Smallest eigenvalue, relative to the largest one, whose sign LAPACK tells reliably.
CLEAR = 1e-9

# -- systems ----------------------------------------------------------------------------------


@dataclass
class System:
    """A symmetric matrix, its lower pattern, and the stages of its unknowns."""

    full: np.ndarray
    pattern: np.ndarray  # lower triangle, bool
    stages: np.ndarray  # of variables; slacks and multipliers are UNKNOWN
    complete: np.ndarray  # of all
    multipliers: int  # of the unknowns, the last ones

    @property
    def n(self):
        return len(self.full)

    def entries(self):
        """Rows, columns and values of the lower triangle."""
        rows, columns = np.nonzero(self.pattern)
        return rows, columns, self.full[rows, columns]


class Draft:
    """A system that grows: blocks are set once, for rows of later unknowns against earlier ones."""

    def __init__(self, sizes):
        """sizes : number of unknowns by name, in their order."""
        ends = np.cumsum([0, *sizes.values()])
        self.place = {name: np.arange(ends[k], ends[k + 1]) for k, name in enumerate(sizes)}
        self.lower = np.zeros((ends[-1], ends[-1]))
        self.pattern = np.eye(ends[-1], dtype=bool)  # IPOPT hands over the whole diagonal
        self.stages = np.full(ends[-1], UNKNOWN)

    def set(self, rows, columns, block):
        """A block; `rows` and `columns` are places."""
        i, j = np.meshgrid(rows, columns, indexing="ij")
        block = np.broadcast_to(block, i.shape)
        high, low = np.maximum(i, j), np.minimum(i, j)
        keep = (block != 0) | (high == low)
        self.lower[high[keep], low[keep]] = block[keep]
        self.pattern[high[keep], low[keep]] = True

    def done(self, complete, multipliers):
        full = self.lower + np.tril(self.lower, -1).T
        return System(full, self.pattern, self.stages, complete, multipliers)


DYNAMICS = {  # eigenvalues between these, in a random basis
    "slow": (-3.0, 3.0),
    "stiff": (-2000.0, -1.0),
    "unstable": (0.1, 30.0),
    "fast": (-100.0, 100.0),
}


def step_matrices(rng, n, dynamics, h):
    """E and F of an implicit midpoint step E x_k+1 = F x_k of linear dynamics."""
    rates = np.linspace(*DYNAMICS[dynamics], n) if n > 1 else np.array(DYNAMICS[dynamics][:1])
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = basis * rates @ (basis.T + 0.1 * rng.standard_normal((n, n)))
    return np.eye(n) - 0.5 * h * A, np.eye(n) + 0.5 * h * A


def hessian(rng, kind, n):
    """A symmetric block of second derivatives."""
    W = rng.standard_normal((n, n))
    if kind == "definite":
        return W @ W.T + 0.1 * np.eye(n)
    if kind == "indefinite":
        return W + W.T
    if kind == "semidefinite":
        return W[:, : n // 2 + 1] @ W[:, : n // 2 + 1].T
    if kind == "rank one":
        return np.outer(W[0], W[0])
    if kind == "diagonal":  # the first states are measured, the last input costs something
        return np.diag((np.arange(n) <= n // 3) + 0.01 * (np.arange(n) == n - 1))
    return np.zeros((n, n))


def collocation_system(
    rng,
    *,
    N=8,
    nx=3,
    nu=1,
    border=2,
    trials=1,
    kind="indefinite",
    dynamics="slow",
    h=0.1,
    widths=False,
    slacks=False,
    integral=0,
    periodic=False,
    long=0,
    lags=(),
    sigma=None,
    delta=None,
):
    """The KKT system of a problem of collocation at a random point.

    N : nodes of each trial. nx, nu : states and inputs. widths : as many states as chance gives at
    each node. slacks : inequalities at each node. integral : constraints on all nodes. periodic :
    the last state depends on the first. long : entries of the Hessian between any two nodes.
    lags : some equations and inputs of a node depend on the first state so many nodes before.
    sigma : the decades of what an interior-point method adds to the diagonal. delta :
    regularisation (of variables, of constraints).
    """
    width = rng.integers(1, nx + 1, (trials, N)) if widths else np.full((trials, N), nx)
    rows = np.minimum(width[:, :-1], width[:, 1:])
    zero = kind == "zero"  # as many equations as variables, or the system is singular
    if zero:
        nu = border = integral = 0
        periodic, width, rows = False, np.full((trials, N), nx), np.full((trials, N - 1), nx)
    sizes = {("x", t, k): int(width[t, k]) + nu for t in range(trials) for k in range(N)}
    sizes["border"] = border
    if slacks:
        sizes.update({("s", t, k): 1 for t in range(trials) for k in range(N)})
    sizes.update({("y", t, k): int(rows[t, k]) for t in range(trials) for k in range(N - 1)})
    sizes.update({("ends", t): nx if zero or periodic else 0 for t in range(trials)})
    if slacks:
        sizes.update({("z", t, k): 1 for t in range(trials) for k in range(N)})
    sizes["integral"] = integral
    a = Draft(sizes)
    at = a.place
    a.stages[at["border"]] = BORDER
    for t in range(trials):
        for k in range(N):
            here = at["x", t, k]
            a.stages[here] = t * (N + 1) + k
            a.set(here, here, hessian(rng, kind, len(here)))
            a.set(at["border"], here, rng.standard_normal((border, len(here))))
            a.set(at["integral"], here, rng.standard_normal((integral, len(here))))
            if slacks:
                a.set(at["z", t, k], here, rng.standard_normal((1, len(here))))
                a.set(at["z", t, k], at["s", t, k], -1.0)
                a.set(at["s", t, k], at["s", t, k], 10.0 ** rng.uniform(-3, 3))
        E, F = step_matrices(rng, nx, dynamics, h)
        for k in range(N - 1):
            m, now, then = rows[t, k], at["x", t, k], at["x", t, k + 1]
            noise = 0.02 * rng.standard_normal((nx, nx))
            pad = np.zeros((m, nu))
            a.set(
                at["y", t, k],
                now,
                np.hstack([-(F + noise)[:m, : width[t, k]], pad + rng.standard_normal((m, nu))]),
            )
            a.set(at["y", t, k], then, np.hstack([(E + noise)[:m, : width[t, k + 1]], pad]))
            a.set(at["y", t, k], at["border"], rng.standard_normal((m, border)))
            for lag in (lag for lag in lags if 0 <= k - lag < N and lag not in (-1, 0)):
                signal, some = at["x", t, k - lag][:1], min(m, 1 + abs(lag) % 2)
                a.set(at["y", t, k][:some], signal, 0.3 * rng.standard_normal((some, 1)))
                a.set(now[-1:], signal, rng.standard_normal((1, 1)))
        if zero:  # the first half of the states is known at the start, the others at the end
            half = nx // 2 if dynamics == "slow" else nx
            first, last = at["x", t, 0][:half], at["x", t, N - 1][half:nx]
            a.set(at["ends", t][:half], first, np.eye(half))
            a.set(at["ends", t][half:], last, np.eye(nx - half))
        elif periodic:
            n = min(width[t, 0], width[t, -1])
            a.set(at["ends", t][:n], at["x", t, N - 1][:n], np.eye(n))
            a.set(at["ends", t][:n], at["x", t, 0][:n], -np.eye(n))
            a.set(at["ends", t][n:], at["ends", t][n:], -np.eye(nx - n))
    block = hessian(rng, "zero" if zero else "indefinite", border)
    a.set(at["border"], at["border"], block)
    variables = np.concatenate([p for key, p in at.items() if key[0] == "x"] + [at["border"]])
    multipliers = np.concatenate(
        [p for key, p in at.items() if key[0] in ("y", "ends", "z")] + [at["integral"]]
    )
    for _ in range(long):
        i, j = rng.choice(variables, 2, replace=False)
        a.set([i], [j], rng.standard_normal())
    diagonal = np.zeros(len(a.lower))
    if sigma is not None:
        bounded = variables[rng.random(len(variables)) < 0.5]
        diagonal[bounded] += 10.0 ** rng.uniform(*sigma, len(bounded))
    if delta is not None:
        diagonal[variables] += delta[0]
        diagonal[multipliers] -= delta[1]
    a.lower[np.diag_indices_from(a.lower)] += diagonal
    complete = a.stages.copy()
    for key, places in at.items():
        if key[0] in ("s", "z", "y"):
            complete[places] = key[1] * (N + 1) + key[2]
        elif key[0] == "ends":  # those that touch both ends belong to the border
            complete[places] = BORDER
    complete[at["integral"]] = BORDER
    return a.done(complete, len(multipliers))


def sizes(rng, largest=120):
    """Nodes and states of a system that LAPACK handles quickly."""
    nx = int(rng.integers(1, 9))
    return {"N": int(rng.integers(2, max(3, min(41, largest // (2 * nx))))), "nx": nx}


# -- reference --------------------------------------------------------------------------------


def scaled(full):
    """D A D with entries of about 1: by congruence, the inertia stays."""
    A = full.copy()
    for _ in range(6):
        most = np.abs(A).max(axis=1)
        d = 1.0 / np.sqrt(np.where(most > 0, most, 1.0))
        A *= d[:, None] * d
    return A


def clear_inertia(full):
    """Number of negative eigenvalues, or None if the matrix is too close to a singular one."""
    e = eigvalsh(scaled(full), check_finite=False)
    return int(np.sum(e < 0)) if np.min(np.abs(e)) > CLEAR * np.max(np.abs(e)) else None


def backward_error(full, x, b):
    """Normwise, maximum norm."""
    norm = np.abs(full).sum(axis=1).max()
    return np.abs(b - full @ x).max() / (norm * np.abs(x).max() + np.abs(b).max())


def examine(system, rng, variants):
    """Factorise and solve in some ways; pairs of backward errors: at once, and refined by one step.

    Asserts status and inertia. Close to singular matrices may be called so, and nothing is known
    about their errors.
    """
    rows, columns, values = system.entries()
    negative = clear_inertia(system.full)
    errors = []
    for stages, reverse in variants:
        f = Factorisation(system.n, rows, columns, stages, reverse)
        status = f.factorise(values)
        if negative is None:
            assert status in ("ok", "singular")
            continue
        assert status == "ok" and f.about["negative"] == negative
        b = system.full @ rng.standard_normal(system.n)
        x = f.solve(b)
        error = backward_error(system.full, x, b)
        left, its_error = f.residual(values, x, b)
        assert error <= its_error * (1 + 1e-6) + 1e-15  # its |A| is smaller
        assert np.abs(left - (b - system.full @ x)).max() <= 1e-12 * np.abs(b).max()
        wanted = rng.permutation(system.n)[: int(rng.integers(0, min(4, system.n) + 1))]
        units = np.eye(system.n)[:, [*wanted, *wanted]]  # two at least: they go side by side
        assert (f.inverse(wanted) == f.solve(units)[wanted, : len(wanted)]).all()
        better = x + f.solve(b - system.full @ x)
        errors.append((error, backward_error(system.full, better, b)))
    return errors


def ways(system):
    """Stages given, given for all, and absent, in both directions."""
    return [(s, r) for s in (system.stages, system.complete, None) for r in (False, True)]


def check(systems, rng, typical=0.99, variants=ways):
    """Backward errors: nearly all below 1e-11 at once, all after one step of refinement.

    Few are larger at once: pivots may let the scaled matrix grow ten thousand times, and a front
    that would delay many columns asks for less.
    """
    errors = np.array([e for system in systems for e in examine(system, rng, variants(system))])
    assert len(errors) >= len(systems)  # most systems are far from singular
    assert errors[:, 0].max() < 1e-6 and errors[:, 1].max() < 1e-12
    assert np.median(errors[:, 0]) < 1e-13 and np.mean(errors[:, 0] < 1e-11) >= typical


def lags(rng, least):
    """One or two distances up to 40."""
    return {"lags": tuple(rng.integers(least, 41, rng.integers(1, 3)))}


# -- against LAPACK ---------------------------------------------------------------------------

FEATURES = {
    "definite": lambda r: {"kind": "definite"},
    "indefinite": lambda r: {"kind": "indefinite"},
    "semidefinite": lambda r: {"kind": "semidefinite"},
    "rank one": lambda r: {"kind": "rank one"},
    "diagonal": lambda r: {"kind": "diagonal", "border": 0, "nu": int(r.integers(0, 3))},
    "zero": lambda r: {"kind": "zero"},
    "stiff": lambda r: {"dynamics": "stiff", "kind": "definite"},
    "stiff square": lambda r: {"dynamics": "stiff", "kind": "zero", "h": 0.001},
    "unstable": lambda r: {"dynamics": "unstable", "kind": "diagonal", "nu": 2},
    "fast": lambda r: {"dynamics": "fast", "kind": "diagonal", "nu": 2, "h": 0.05},
    "border": lambda r: {"border": int(r.integers(0, 26))},
    "widths": lambda r: {"widths": True, "nu": 0},
    "trials": lambda r: {"trials": int(r.integers(2, 5)), "N": int(r.integers(2, 7))},
    "slacks": lambda r: {"slacks": True, "kind": "definite"},
    "integral": lambda r: {"integral": int(r.integers(1, 4))},
    "periodic": lambda r: {"periodic": True},
    "long": lambda r: {"long": int(r.integers(1, 6))},
    "lags": lambda r: {"N": int(r.integers(3, 46)), "nx": int(r.integers(1, 3)), **lags(r, 1)},
    "lags, fast": lambda r: {
        "N": 40,
        "nx": 2,
        "dynamics": "fast",
        "kind": "diagonal",
        **lags(r, 2),
    },
    "lags and leads": lambda r: {"N": 45, "nx": int(r.integers(1, 3)), **lags(r, -40)},
    "interior point": lambda r: {"sigma": (-10, 12), "slacks": True},
    "interior point, semidefinite": lambda r: {"sigma": (-10, 12), "kind": "semidefinite"},
    "regularised": lambda r: {"kind": "zero", "delta": (10.0 ** r.uniform(-4, 8), 1e-8)},
    "everything": lambda r: {
        "border": int(r.integers(0, 9)),
        "trials": 2,
        "N": int(r.integers(2, 6)),
        "slacks": True,
        "integral": 1,
        "periodic": True,
        "long": 2,
        **lags(r, 2),
        "sigma": (-8, 8),
        "dynamics": str(r.choice(list(DYNAMICS))),
    },
}


@pytest.mark.study
@pytest.mark.parametrize("feature", FEATURES)
def test_random_systems(feature):
    """80 systems of a kind, 30 of the longer ones; stages given or found, both directions."""
    rng = np.random.default_rng(sum(map(ord, feature)))
    count = 30 if "lags" in feature else 80
    changes = [{**sizes(rng), **FEATURES[feature](rng)} for _ in range(count)]
    typical = 0.85 if feature == "rank one" else 0.99  # many columns are delayed
    check([collocation_system(rng, **c) for c in changes], rng, typical)


@pytest.mark.parametrize(
    ("feature", "soon"), [("indefinite", 1), ("definite", 0), ("trials", 1), ("everything", 0)]
)
def test_a_factorisation_ends_where_its_inertia_is_wrong(feature, soon):
    """Broken off only where the whole has more negative eigenvalues than multipliers, and where
    many stages are indefinite soon; of parts, too."""
    rng, shares = np.random.default_rng(23), []
    for _ in range(20):
        system = collocation_system(rng, **{"N": 30, "nx": 2, **FEATURES[feature](rng)})
        rows, columns, values = system.entries()
        for more in ({}, {"parts": 3}):
            f = Factorisation(system.n, rows, columns, system.stages, **more)
            assert f.factorise(values) == "ok"
            negative, whole = f.about["negative"], f.about["longest"]
            told = f.factorise(values, multipliers=system.multipliers)
            assert told == "ok" or negative > system.multipliers
            assert told == "wrong inertia" or f.about["negative"] == negative
            shares.append(f.about["longest"] / whole if told == "wrong inertia" else 1.0)
    assert (np.median(shares) < 0.3) == bool(soon)


def test_wide_stages():
    """Up to 30 states: fronts of some vectors of registers, with and without a rest."""
    rng = np.random.default_rng(1)
    changes = [
        {
            "N": int(rng.integers(2, 5)),
            "nu": int(rng.integers(0, 3)),
            "border": int(rng.integers(0, 10)),
        }
        for _ in range(8, 31)
    ]
    check([collocation_system(rng, nx=8 + k, **c) for k, c in enumerate(changes)], rng)


def test_one_stage():
    """A single node, and one unknown: everything lies in one front."""
    rng = np.random.default_rng(2)
    check([collocation_system(rng, N=1, nx=nx) for nx in range(1, 31)], rng)
    f = Factorisation(1, [0], [0])
    assert f.factorise([-2.0]) == "ok" and f.about["negative"] == 1
    np.testing.assert_array_equal(f.solve([3.0]), [-1.5])


@pytest.mark.study
@pytest.mark.parametrize("kind", ["diagonal", "zero"])
def test_dichotomy(kind):
    """Rates of -100 and 100 over 300 nodes: products of transition matrices would be 10^+-1300,
    and elimination in a fixed order fails in one direction or the other."""
    rng = np.random.default_rng(3)
    system = collocation_system(rng, N=300, nx=2, border=0, kind=kind, dynamics="slow", h=0.1)
    for k in range(299):  # transitions exp(-10) and exp(10)
        y = 300 * (2 if kind == "zero" else 3) + 2 * k
        x = k * (2 if kind == "zero" else 3)
        system.full[y : y + 2, x : x + 2] = -np.diag(np.exp([-10.0, 10.0]))
        system.full[x : x + 2, y : y + 2] = -np.diag(np.exp([-10.0, 10.0]))
    system.pattern |= np.tril(system.full) != 0
    check([system], rng, typical=1.0)


@pytest.mark.study
def test_scales_of_an_interior_point_method():
    """Sigma from 1e-10 to 1e12 on variables and slacks: the inertia is right, and each equation is
    solved well by the measure of its own row."""
    rng = np.random.default_rng(4)
    worst = []
    for _ in range(200):
        system = collocation_system(rng, **sizes(rng), slacks=True, sigma=(-10, 12))
        rows, columns, values = system.entries()
        f = Factorisation(system.n, rows, columns, system.stages)
        assert f.factorise(values) == "ok"
        assert f.about["negative"] == clear_inertia(system.full)
        b = system.full @ rng.standard_normal(system.n)
        x = f.solve(b)
        x += f.solve(b - system.full @ x)
        worst.append(np.max(np.abs(b - system.full @ x) / (np.abs(system.full) @ np.abs(x))))
    assert np.max(worst) < 1e-6 and np.median(worst) < 1e-13


@pytest.mark.parametrize("seed", [80, 83, 335])  # 1e-2 where the border may grow without end
def test_accuracy_at_once(seed):
    """Nonsingular systems with many delays and a border: not even the first digits are lost."""
    rng = np.random.default_rng(seed)
    system = collocation_system(rng, N=20, nx=2, kind="rank one")
    assert examine(system, rng, [(system.stages, False)])[0][0] < 1e-6


# -- the same matrix, said differently ----------------------------------------------------------


def test_absurd_stages():
    """Stages far beyond the number of unknowns would only cost memory: they are found instead."""
    f = Factorisation(2, [0, 1, 1], [0, 0, 1], [0, 2**31 - 2])
    assert not f.about["hinted"]
    assert f.factorise([2.0, 1.0, -1.0]) == "ok" and f.about["negative"] == 1
    np.testing.assert_allclose(f.solve([3.0, 0.0]), [1.0, 1.0], rtol=1e-15)


@pytest.mark.study
def test_order_of_unknowns():
    """Unknowns in any order, with stages or without: inertia and solution are the same."""
    rng = np.random.default_rng(6)
    systems = []
    for _ in range(150):
        s = collocation_system(rng, **sizes(rng), border=int(rng.integers(0, 4)))
        p = rng.permutation(s.n)
        whole = s.pattern | s.pattern.T
        systems.append(
            System(
                s.full[np.ix_(p, p)], np.tril(whole[np.ix_(p, p)]), s.stages[p], s.complete[p], 0
            )
        )
    check(systems, rng)


def test_duplicates_and_triangles():
    """Entries in any order, in either triangle, in pieces that have to be summed."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        system = collocation_system(rng, **sizes(rng))
        rows, columns, values = system.entries()
        part = rng.uniform(-1, 1, len(values))
        again = rng.random(len(values)) < 0.4
        rows = np.concatenate([rows, rows[again]])
        columns = np.concatenate([columns, columns[again]])
        values = np.concatenate([np.where(again, part, 1.0) * values, ((1 - part) * values)[again]])
        flip, order = rng.random(len(rows)) < 0.5, rng.permutation(len(rows))
        rows, columns = np.where(flip, columns, rows), np.where(flip, rows, columns)
        f = Factorisation(system.n, rows[order], columns[order], system.stages)
        assert f.factorise(values[order]) == "ok"
        assert f.about["negative"] == clear_inertia(system.full)
        b = rng.standard_normal(system.n)
        assert backward_error(system.full, f.solve(b), b) < 1e-10


def test_unknown_stages_are_found():
    """Any part of the stages may be left open."""
    rng = np.random.default_rng(8)

    def some(system):
        return [
            (np.where(rng.random(system.n) < share, UNKNOWN, system.complete), reverse)
            for share in (0.1, 0.5, 0.9)
            for reverse in (False, True)
        ]

    systems = [collocation_system(rng, **sizes(rng), slacks=True) for _ in range(60)]
    check(systems, rng, variants=some)


def test_wrong_stages_do_no_harm():
    """Random stages, stages in reverse, gaps, all in one, all in the border."""
    rng = np.random.default_rng(9)

    def wrong(system):
        n, right = system.n, system.complete
        top = right.max()
        tries = [
            rng.integers(-2, top + 2, n),
            np.where(right >= 0, top - right, right),
            np.where(right >= 0, 7 * right, right),
            np.zeros(n),
            np.full(n, BORDER),
            np.full(n, UNKNOWN),
            rng.permutation(right),
        ]
        return [(stages, reverse) for stages in tries for reverse in (False, True)]

    systems = [collocation_system(rng, **sizes(rng, 60), slacks=True) for _ in range(60)]
    check(systems, rng, variants=wrong)


@pytest.mark.parametrize("feature", ["indefinite", "trials", "slacks", "long", "widths"])
def test_found_stages(feature):
    """Entries couple neighbouring stages only; the levels are about as narrow as the nodes."""
    rng = np.random.default_rng(10)
    for _ in range(50):
        c = {**sizes(rng), "border": 0, **FEATURES[feature](rng)}
        system = collocation_system(rng, **c)
        rows, columns, _ = system.entries()
        order = rng.permutation(system.n)  # the numbering must not matter
        for p in (np.arange(system.n), order):
            stages = find_stages(system.n, p[rows], p[columns])
            i, j = stages[p[rows]], stages[p[columns]]
            assert np.all((np.abs(i - j) <= 1) | (i < 0) | (j < 0))
            assert np.all(stages >= UNKNOWN)
            if "trials" not in c and feature in ("indefinite", "slacks"):
                assert len(set(stages[stages >= 0])) >= c["N"] // 2


def test_stages_found_are_as_good_as_given():
    """Without a hint, a long chain in random order gets fronts at most three times as wide."""
    rng = np.random.default_rng(11)
    for nx in (1, 2, 4):
        system = collocation_system(rng, N=40, nx=nx, border=0)
        rows, columns, _ = system.entries()
        p = rng.permutation(system.n)
        given = Factorisation(system.n, rows, columns, system.stages)
        found = Factorisation(system.n, p[rows], p[columns])
        assert given.about["hinted"] and not found.about["hinted"]
        assert found.about["plan_rows"] <= 3 * given.about["plan_rows"]


@pytest.mark.parametrize("reverse", [False, True])
def test_fronts_carry_delayed_signals(reverse):
    """A delay of L nodes adds about L rows to a front for each signal, or equation if elimination
    runs forwards; nothing goes to the border but what joins both ends of the chain, or all."""
    rng = np.random.default_rng(19)
    plain = {"N": 45, "nx": 3, "nu": 0, "border": 2}

    def plan(**more):
        system = collocation_system(rng, **plain, **more)
        return Factorisation(system.n, *system.entries()[:2], system.stages, reverse).about

    near = plan()
    assert near["carried"] == 0
    for L in (2, 7, 20):
        late, equations = plan(lags=(L,)), 1 + L % 2
        assert late["hinted"] and late["border"] == 2
        assert L - 1 <= late["carried"] <= L * (1 + equations * reverse)
        assert late["plan_rows"] <= near["plan_rows"] + late["carried"] + 2
    both = plan(lags=(20, 7), periodic=True, integral=1)
    assert both["border"] == 2 + 3 + 1 and both["carried"] <= 20 * (1 + 3 * reverse)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_small_integers(data):
    """Any pattern with any stages: never called singular unless the determinant, an integer, is 0.

    Where it is 0, rounding may hide it (1 - 3 * (1 / 3)), and zero eigenvalues have any sign.
    """
    n = data.draw(st.integers(1, 9))
    place = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(-3, 3))
    entries = data.draw(st.lists(place, min_size=1, max_size=40))
    stages = data.draw(st.none() | st.lists(st.integers(-2, 8), min_size=n, max_size=n))
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    full = np.zeros((n, n), dtype=int)
    for i, j, value in entries:
        full[i, j] += value
        if i != j:
            full[j, i] += value
    f = Factorisation(n, rows, columns, stages, data.draw(st.booleans()))
    status = f.factorise(values)
    e = eigvalsh(full.astype(float))
    if determinant(full.tolist()):
        assert status == "ok" and f.about["negative"] == np.sum(e < 0)
        assert backward_error(full, f.solve(np.arange(1.0, n + 1)), np.arange(1.0, n + 1)) < 1e-12
    else:
        assert status in ("ok", "singular")
        if status == "ok":
            assert np.sum(e < -1e-9) <= f.about["negative"] <= np.sum(e < 1e-9)


def test_singular_across_fronts():
    """Two rows in proportion 1 : 3 in different fronts leave 5e-17 of 1 - 1: rounding, no pivot."""
    f = Factorisation(3, [0, 0, 0, 1], [0, 1, 2, 2], reverse=True)
    assert f.factorise([1.0, 1.0, 3.0, 0.0]) == "singular"


def test_faint_pivots_are_singular_if_asked():
    """Where nothing determines a step rounding may leave a pivot of either sign."""
    f = Factorisation(2, [0, 0, 1], [0, 1, 1])
    for rest in (5e-15, -5e-15):
        assert f.factorise([1.0, 1.0, 1.0 + rest]) == "ok"
        assert f.factorise([1.0, 1.0, 1.0 + rest], faint=1e-14) == "singular"
    assert f.factorise([1.0, 1.0, 1.0 + 1e-13], faint=1e-14) == "ok"
    assert f.factorise([1e-30, 0.0, 1.0], faint=1e-14) == "ok"  # one unknown in another unit
    for stiff in (1e4, 1e16, 1e30):  # a condition holds a variable at its bound
        assert f.factorise([stiff, 1.0, 0.0], faint=1e-14) == "ok"
        assert f.about["negative"] == 1


def determinant(a):
    """Of integers, exactly (Bareiss)."""
    n, last, sign = len(a), 1, 1
    for k in range(n - 1):
        pivot = next((i for i in range(k, n) if a[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            a[k], a[pivot], sign = a[pivot], a[k], -sign
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i][j] = (a[i][j] * a[k][k] - a[i][k] * a[k][j]) // last
        last = a[k][k]
    return sign * a[-1][-1]


# -- what cannot be factorised ------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("defect", ["twice", "scaled", "zero column", "nothing"])
def test_singular(defect, reverse):
    """A constraint twice, also with a factor, an unknown without entries, a matrix of zeros; and
    the next values are factorised as if nothing had happened."""
    rng = np.random.default_rng(12)
    for _ in range(50):
        N = int(rng.integers(2, 20))
        system = collocation_system(rng, N=N, nx=3, kind="definite")
        rows, columns, values = system.entries()
        broken = system.full.copy()
        y = system.n - 3 * int(rng.integers(1, N))  # the first multiplier of an interval
        if defect in ("twice", "scaled"):
            broken[y + 1] = broken[:, y + 1] = {"twice": 1.0, "scaled": -0.25}[defect] * broken[y]
        elif defect == "zero column":
            j = int(rng.integers(system.n))
            broken[j] = broken[:, j] = 0.0
        else:
            broken[:] = 0.0
        f = Factorisation(system.n, rows, columns, system.stages, reverse)
        assert f.factorise(broken[rows, columns]) == "singular"
        assert f.factorise(values) == "ok"
        b = rng.standard_normal(system.n)
        assert backward_error(system.full, f.solve(b), b) < 1e-10


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad):
    """The first entry that is not finite is named, wherever it lies."""
    rng = np.random.default_rng(13)
    for _ in range(50):
        system = collocation_system(rng, **sizes(rng))
        rows, columns, values = system.entries()
        f = Factorisation(system.n, rows, columns, system.stages)
        places = np.sort(rng.choice(len(values), 2, replace=False))
        spoilt = values.copy()
        spoilt[places] = bad
        assert f.factorise(spoilt) == "not finite" and f.about["bad_entry"] == places[0]
        assert f.factorise(values) == "ok" and f.about["bad_entry"] == -1


def test_limit_of_rows():
    """Wider fronts than allowed are refused, also when stages are found; just as wide ones not."""
    rng = np.random.default_rng(14)
    system = collocation_system(rng, N=10, nx=5)
    rows, columns, _ = system.entries()
    for stages in (system.stages, None):
        width = Factorisation(system.n, rows, columns, stages).about["plan_rows"]
        for limit in (width - 1, 0, -1):
            with pytest.raises(ValueError, match="no narrow stages"):
                Factorisation(system.n, rows, columns, stages, max_rows=limit)
            stages = None if stages is None else system.stages
        Factorisation(system.n, rows, columns, None, max_rows=system.n)


def test_a_full_matrix_is_one_front():
    """Without structure it is a dense factorisation, until it is too large."""
    rng = np.random.default_rng(15)
    full = rng.standard_normal((60, 60))
    full += full.T
    rows, columns = np.tril_indices(60)
    f = Factorisation(60, rows, columns)
    assert f.factorise(full[rows, columns]) == "ok"
    assert f.about["negative"] == clear_inertia(full)
    with pytest.raises(ValueError, match="no narrow stages"):
        Factorisation(60, rows, columns, max_rows=50)


# -- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_nothing_is_left_of_earlier_values(reverse):
    """After other values (with other delays, singular ones, NaN), the same bits as when fresh."""
    rng = np.random.default_rng(16)
    for kind in ("definite", "semidefinite", "zero"):
        system = collocation_system(rng, N=30, nx=4, kind=kind)
        rows, columns, values = system.entries()
        b = rng.standard_normal(system.n)
        fresh = Factorisation(system.n, rows, columns, system.stages, reverse)
        assert fresh.factorise(values) == "ok"
        used = Factorisation(system.n, rows, columns, system.stages, reverse)
        for other in (
            rng.standard_normal(len(values)),
            0.0 * values,
            np.full(len(values), np.nan),
            np.where(rows == columns, 0.0, values),
        ):
            used.factorise(other)
        assert used.factorise(values) == "ok"
        np.testing.assert_array_equal(used.solve(b), fresh.solve(b))
        np.testing.assert_array_equal(fresh.solve(b), fresh.solve(b))
        about = {key: value for key, value in used.about.items() if key != "bytes"}
        assert about == {key: fresh.about[key] for key in about}


@pytest.mark.parametrize("parts", [1, 3])
def test_many_right_hand_sides(parts):
    """Columns are solved as one alone, in any memory layout; the argument stays as it was."""
    rng = np.random.default_rng(17)
    system = collocation_system(rng, N=12, nx=3, border=2)
    rows, columns, values = system.entries()
    f = Factorisation(system.n, rows, columns, system.stages, parts=parts)
    assert f.factorise(values) == "ok"
    B = rng.standard_normal((system.n, 37))
    kept = B.copy()
    X = f.solve(B)
    assert X.shape == B.shape
    alone = np.stack([f.solve(column) for column in B.T], axis=1)
    np.testing.assert_allclose(X, alone, rtol=0.0, atol=1e-11 * np.abs(alone).max())
    np.testing.assert_array_equal(f.solve(np.asfortranarray(B)), X)
    np.testing.assert_array_equal(f.solve(B[:, ::2]), X[:, ::2])
    np.testing.assert_array_equal(f.solve(B[:, :0]), X[:, :0])
    np.testing.assert_array_equal(B, kept)


def test_tolerances():
    """Strict pivots delay more and are no worse; with any tolerance the answer is right."""
    rng = np.random.default_rng(18)
    for _ in range(40):
        system = collocation_system(rng, **sizes(rng))
        rows, columns, values = system.entries()
        f = Factorisation(system.n, rows, columns, system.stages)
        b = rng.standard_normal(system.n)
        for accept, least in ((0.5, 0.5), (0.1, 0.01), (0.01, 0.001), (1e-4, 1e-6), (1e-8, 1e-8)):
            assert f.factorise(values, accept, least) == "ok"
            assert f.about["negative"] == clear_inertia(system.full)
            x = f.solve(b)
            x += f.solve(b - system.full @ x)
            assert backward_error(system.full, x, b) < 1e-10


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2, [], []), "equally many, and not empty"),
        ((2, [0, 1], [0]), "equally many"),
        ((2, [0, 2], [0, 1]), "outside a matrix of order 2"),
        ((2, [0, -1], [0, 1]), "outside a matrix of order 2"),
        ((2, [0, 2**31 - 1], [0, 1]), "outside a matrix of order 2"),
        ((0, [0], [0]), "outside a matrix of order 0"),
        ((-1, [0], [0]), "outside a matrix of order -1"),
        ((2, [[0, 1]], [[0, 1]]), "equally many"),
        ((2, [0, 1], [0, 1], [0]), "stages must be 2 numbers"),
        ((2, [0, 1], [0, 1], [0, 1, 2]), "stages must be 2 numbers"),
        ((2, [0, 1], [0, 1], [0, -3]), "stages must be 2 numbers >= -2"),
        ((2, [0, 1], [0, 1], [0, np.nan]), "NaN"),
    ],
)
def test_bad_patterns(arguments, words):
    with pytest.raises(ValueError, match=words):
        Factorisation(*arguments)


def test_bad_values():
    """Wrong lengths of values, right-hand sides and solutions."""
    f = Factorisation(3, [0, 1, 2], [0, 1, 2])
    for values in ([1.0, 2.0], np.ones(4), np.ones((3, 1)), []):
        with pytest.raises(ValueError, match=r"expected 3 values|dimensions"):
            f.factorise(values)
    assert f.factorise([1.0, 2.0, 4.0]) == "ok"
    for b in ([1.0, 2.0], np.ones(4), 1.0):
        with pytest.raises(ValueError, match=r"b has shape \(.*\), expected 3 rows"):
            f.solve(b)
    for x, b in ((np.ones(2), np.ones(3)), (np.ones(3), np.ones(4))):
        with pytest.raises(ValueError, match="vectors must have 3 values"):
            f.residual(np.ones(3), x, b)
    for unknowns in ([0, 0], [3], [-1]):
        with pytest.raises(ValueError, match="different numbers from 0 to 2"):
            f.inverse(unknowns)


def test_statuses_are_words():
    assert STATUSES[0] == "ok" and len(set(STATUSES.values())) == 8
    assert list(STATUSES.values()) == [status.value for status in Factors]


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2, 2)])
def test_shapes_of_right_hand_sides(shape):
    """2 n numbers in a row, or k rows of n, are no right-hand sides."""
    f = Factorisation(3, [0, 1, 2], [0, 1, 2])
    assert f.factorise([1.0, 2.0, 4.0]) == "ok"
    with pytest.raises(ValueError, match=r"b has shape \(.*\), expected 3 rows"):
        f.solve(np.ones(shape))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([2**32, 1]), "outside a matrix of order 2"),
        (np.array([0.7, 1.2]), "must be integers"),
        (["a", "b"], "must be integers"),
    ],
    ids=["large", "real", "words"],
)
def test_places_are_whole_numbers_in_range(rows, words):
    """Rows with good columns, columns with good rows, and both."""
    for places in ((rows, rows), (rows, [0, 1]), ([0, 1], rows)):
        with pytest.raises(ValueError, match=words):
            Factorisation(2, *places)


@pytest.mark.parametrize("values", [None, [0.0, 0.0], [np.nan, 1.0]])
def test_solve_needs_factors(values):
    """Before the first factorisation, and after one that failed."""
    f = Factorisation(2, [0, 1], [0, 1])
    if values is not None:
        f.factorise(values)
    with pytest.raises(ValueError, match="factorise first: there are no factors"):
        f.solve([1.0, 2.0])


def test_no_bad_entry_at_first():
    assert Factorisation(1, [0], [0]).about["bad_entry"] == -1


#: Calls that must raise; in a process of their own because they may crash.
CRASHES = {
    "places out of range": "find_stages(3, [0, 10**8], [0, 1])",
    "negative places": "find_stages(3, [-10**8, 1], [0, 1])",
    "lengths": "find_stages(3, [0, 1, 2] * 10000, [0])",
    "failed factorisation": """
n, nx = 1000, 10
pairs = [(i, j) for i in range(n) for j in range(max(0, i // nx * nx - nx), i + 1)]
rows, columns = np.array(pairs).T
f = Factorisation(n, rows, columns, np.arange(n) // nx)
assert f.factorise(rng.standard_normal(len(rows))) == "ok"
assert f.factorise(np.full(len(rows), np.nan)) == "not finite"
for _ in range(20):
    f.solve(np.ones(n))
""",
}


@pytest.mark.parametrize("name", CRASHES)
def test_no_crash(name):
    """Bad calls end with a ValueError, not with a signal or a made-up answer."""
    code = (
        "import resource\nimport numpy as np\nfrom kinesym.runtime.native._kkt import *\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "rng = np.random.default_rng(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + CRASHES[name]], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "ValueError" in done.stderr
