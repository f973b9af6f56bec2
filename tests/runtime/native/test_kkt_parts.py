"""Chains that are cut into parts for threads, against LAPACK and against the whole chain."""

import numpy as np
import pytest
from test_kkt import (
    DYNAMICS,
    FEATURES,
    backward_error,
    clear_inertia,
    collocation_system,
    sizes,
)
from test_kkt_inverse import fresh_inverse

from kinesym.runtime.native._kkt import Factorisation

STRICT = (0.1, 0.01)


def ways(system, rng, count):
    """Some ways to say and to cut it."""
    return [
        {
            "stages": (system.stages, system.complete, None)[rng.integers(3)],
            "reverse": bool(rng.integers(2)),
            "one_way": bool(rng.integers(2)),
            "parts": int(rng.choice([2, 3, 8])),
        }
        for _ in range(count)
    ]


class Known:
    """A system with its inertia, determinant and inverse by LAPACK; `negative` is None if it is
    close to a singular one."""

    def __init__(self, system):
        self.system, self.negative = system, clear_inertia(system.full)
        if self.negative is not None:
            self.inverse = fresh_inverse(system.full)
            self.determinant = np.linalg.slogdet(system.full)


def examine(known, way, rng):
    """Asserts inertia and determinant; backward errors at once and refined, the largest error of
    the entries of the inverse, relative to the largest; and what it says of the factorisation."""
    system = known.system
    rows, columns, values = system.entries()
    f = Factorisation(system.n, rows, columns, **way)
    assert f.factorise(values) == "ok" and f.about["negative"] == known.negative
    about = f.about
    b = system.full @ rng.standard_normal(system.n)
    x = f.solve(b)
    better = x + f.solve(b - system.full @ x)
    wanted = rng.permutation(system.n)[:3]
    unit = np.eye(system.n)[:, wanted]
    assert (f.inverse(wanted) == f.solve(unit)[wanted]).all()
    assert f.factorise(values, *STRICT) == "ok"
    assert (-1) ** f.about["negative"] == known.determinant.sign
    assert f.log_determinant == pytest.approx(known.determinant.logabsdet, rel=1e-8, abs=1e-8)
    error = np.abs(f.inverse_entries(rows, columns) - known.inverse[rows, columns]).max()
    errors = [backward_error(system.full, side, b) for side in (x, better)]
    return (*errors, error / np.abs(known.inverse).max()), about


def check(feature, systems, count):
    """Errors are as small as without parts, see `test_kkt.check`."""
    rng = np.random.default_rng(sum(map(ord, feature)) + 7)
    errors, separators, delayed = [], 0, 0
    for _ in range(systems):
        known = Known(collocation_system(rng, **{**sizes(rng, 90), **FEATURES[feature](rng)}))
        if known.negative is None:
            continue
        for way in ways(known.system, rng, count):
            error, about = examine(known, way, rng)
            errors.append(error)
            separators += about["separators"]
            delayed += about["delayed"]
    found = np.array(errors)
    assert found[:, 0].max() < 1e-6 and found[:, 1].max() < 1e-12
    assert np.median(found[:, 0]) < 1e-12 and np.median(found[:, 2]) < 1e-11
    assert found[:, 2].max() < 1e-6
    assert separators > 0 and (delayed > 0 or feature not in ("rank one", "zero", "everything"))


@pytest.mark.parametrize("feature", FEATURES)
def test_random_systems(feature):
    """Two, three and eight parts, given and found stages, both directions, turned or not."""
    check(feature, systems=5, count=3)


@pytest.mark.study
@pytest.mark.parametrize("feature", FEATURES)
def test_many_random_systems(feature):
    check(feature, systems=30, count=12)


def factors(system, **way):
    rows, columns, _ = system.entries()
    return Factorisation(system.n, rows, columns, system.stages, **way)


def test_one_part_is_the_whole_chain():
    """Where threads save no time, as in small systems, or one part is asked for: the same bits."""
    rng = np.random.default_rng(1)
    system = collocation_system(rng, N=20, nx=4, border=3, lags=(5,))
    values, b = system.entries()[2], rng.standard_normal(system.n)
    expected = None
    for way in ({}, {"threads": 8}, {"parts": 1}, {"threads": 8, "one_way": True}):
        f = factors(system, **way)
        assert f.factorise(values) == "ok" and f.about["parts"] == 1
        x = f.solve(b)
        expected = x if expected is None else expected
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("way", [{"parts": 3}, {"parts": 4, "one_way": True}])
def test_the_same_each_time(way):
    """Whichever thread is the first; and after other values, singular ones, and NaN."""
    rng = np.random.default_rng(2)
    system = collocation_system(rng, N=40, nx=3, border=2, dynamics="stiff", kind="diagonal", nu=2)
    values, b = system.entries()[2], rng.standard_normal((system.n, 3))
    f = factors(system, **way)
    seen = set()
    for other in [None] * 20 + [np.full(len(values), np.nan), np.zeros(len(values)), -values]:
        if other is not None:
            f.factorise(other)
        assert f.factorise(values) == "ok" and f.about["parts"] == way["parts"]
        entries = f.inverse_entries(*system.entries()[:2])
        seen.add((f.solve(b).tobytes(), entries.tobytes(), f.log_determinant))
    assert len(seen) == 1


def test_trials_are_parts_for_free():
    """As many parts as trials: nothing is cut, and not a bit depends on how many threads work."""
    rng = np.random.default_rng(3)
    system = collocation_system(rng, N=12, nx=3, border=4, trials=4, kind="definite")
    rows, columns, values = system.entries()
    b, seen = rng.standard_normal(system.n), set()
    for parts in (1, 2, 4):
        f = factors(system, parts=parts)
        assert f.factorise(values) == "ok"
        assert (f.about["parts"], f.about["separators"]) == (parts, 0)
        seen.add((f.solve(b).tobytes(), f.inverse_entries(rows, columns).tobytes()))
    assert len(seen) == 1
    assert factors(system, parts=3).about["separators"] > 0  # the second trial is for two


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("reverse", [False, True])
def test_bad_directions(dynamics, reverse):
    """Where a part is turned, or all run, against the dynamics, columns wait for a pivot, to the
    end of a part and beyond; nothing is lost."""
    rng = np.random.default_rng(4)
    for kind in ("diagonal", "definite"):
        c = {"N": 24, "nx": 2, "nu": 1, "border": 2, "kind": kind, "dynamics": dynamics, "h": 0.3}
        known = Known(collocation_system(rng, **c))
        if known.negative is None:
            continue
        for parts, one_way in ((2, False), (2, True), (3, False), (8, True)):
            way = {"parts": parts, "one_way": one_way, "reverse": reverse}
            error, _ = examine(known, {"stages": known.system.stages, **way}, rng)
            assert error[1] < 1e-13 and error[2] < 1e-7


def test_separators_take_their_multipliers_along():
    """A part that begins at a separator delays no more than the whole chain does in its direction;
    one that is turned has no separator to carry."""
    rng = np.random.default_rng(5)
    c = {"N": 120, "nx": 4, "border": 0, "kind": "definite", "dynamics": "stiff", "h": 1e-3}
    system = collocation_system(rng, **c)
    values = system.entries()[2]
    whole, turned, cut = (
        factors(system, **way) for way in ({}, {"parts": 2}, {"parts": 2, "one_way": True})
    )
    for f in (whole, turned, cut):
        assert f.factorise(values) == "ok"
    assert cut.about["delayed"] <= whole.about["delayed"] + 8
    assert turned.about["separators"] < cut.about["separators"] <= 10
    assert whole.about["separators"] == cut.about["turned"] == 0


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_singular(parts, reverse):
    """A constraint twice, wherever; the next values are factorised as if nothing had happened."""
    rng = np.random.default_rng(6)
    for _ in range(8):
        N = int(rng.integers(8, 20))
        system = collocation_system(rng, N=N, nx=3, kind="definite")
        rows, columns, values = system.entries()
        broken = system.full.copy()
        y = system.n - 3 * int(rng.integers(1, N))
        broken[y + 1] = broken[:, y + 1] = -0.25 * broken[y]
        f = factors(system, parts=parts, reverse=reverse)
        assert f.factorise(broken[rows, columns]) == "singular"
        assert f.factorise(values) == "ok"
        b = rng.standard_normal(system.n)
        assert backward_error(system.full, f.solve(b), b) < 1e-10


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(bad):
    """The first entry that is not finite is named, in whichever part it lies."""
    rng = np.random.default_rng(7)
    for _ in range(30):
        system = collocation_system(rng, **{**sizes(rng), "N": 20}, slacks=True)
        values = system.entries()[2]
        f = factors(system, parts=int(rng.integers(2, 6)))
        places = np.sort(rng.choice(len(values), 2, replace=False))
        spoilt = values.copy()
        spoilt[places] = bad
        assert f.factorise(spoilt) == "not finite" and f.about["bad_entry"] == places[0]
        assert f.factorise(values) == "ok"


def long_chain(n, m=3):
    """Rows, columns, values and stages of a definite band of blocks of m."""
    i = np.repeat(np.arange(n), 2 * m)
    j = i - np.tile(np.arange(2 * m), n)
    i, j = i[j >= 0], j[j >= 0]
    return i, j, np.where(i == j, 4.0 * m, -1.0), np.arange(n) // m


def test_threads_where_they_save_time():
    """A long chain takes as many threads as there are, a short one does not."""
    rows, columns, values, stages = long_chain(60_000)
    for threads in (1, 2, 4):
        f = Factorisation(60_000, rows, columns, stages, threads=threads)
        assert f.about["parts"] == threads
        assert f.factorise(values) == "ok" and f.about["negative"] == 0
        b = np.ones(60_000)
        assert np.abs(f.residual(values, f.solve(b), b)[0]).max() < 1e-13
    short = [a[rows < 300] if len(a) == len(rows) else a[:300] for a in long_chain(60_000)]
    assert Factorisation(300, *short[:2], short[3], threads=4).about["parts"] == 1


def test_more_parts_than_stages():
    """As many as there are stages at most."""
    rng = np.random.default_rng(8)
    for N in (1, 2, 3, 5):
        known = Known(collocation_system(rng, N=N, nx=2, kind="definite"))
        error, about = examine(known, {"stages": known.system.stages, "parts": 300}, rng)
        assert about["parts"] <= N and error[0] < 1e-12
