"""Factors of a KKT matrix, by the time-structured solver and by SuperLU, against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array

from kinesym.runtime.native import Factorisation, Workspace, forms, largest_in_rows
from kinesym.runtime.statistics import factors as module
from kinesym.runtime.statistics.block_arrow import reduced
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import spreads

NODES, STATES = 30, 2


def chain(seed=0, border=2):
    """A likelihood of states at nodes, tied from node to node, and of parameters in all ties."""
    rng = np.random.default_rng(seed)
    n, m = NODES * STATES + border, (NODES - 1) * STATES
    W = rng.standard_normal((n, n))
    near = np.abs(np.arange(n)[:, None] // STATES - np.arange(n) // STATES) < 1
    near[:, -border:] = near[-border:] = True
    hessian = np.where(near, W @ W.T, 0.0) + 4.0 * n * np.eye(n)
    jacobian = np.zeros((m, n))
    for k in range(NODES - 1):
        rows, here = slice(k * STATES, (k + 1) * STATES), slice(k * STATES, (k + 2) * STATES)
        jacobian[rows, here] = rng.standard_normal((STATES, 2 * STATES))
    jacobian[:, -border:] = rng.standard_normal((m, border))
    stages = np.append(np.arange(NODES * STATES) // STATES, np.full(border, -1)).astype(np.int32)
    lower, full = coo_array(np.tril(hessian)), coo_array(jacobian)
    stiffness, softness = np.zeros(n), np.zeros(m)
    stiffness[3], softness[5] = np.inf, np.inf
    stiffness[8] = 7.0
    entries = ((a.row, a.col, a.data) for a in (lower, full))
    return Kkt(*entries, stiffness, softness, stages), hessian, jacobian


def dense(kkt, hessian, jacobian):
    """The inverse at the variables, zero for what is fixed, and log |det| of what is not."""
    n, gone = len(kkt.stiffness), kkt.gone
    K = np.block([[hessian, jacobian.T], [jacobian, np.zeros(2 * (len(jacobian),))]])
    K[range(n), range(n)] += np.where(gone[:n], 0.0, kkt.stiffness)
    inverse, left = np.zeros_like(K), np.ix_(~gone, ~gone)
    inverse[left] = np.linalg.inv(K[left])
    return inverse[:n, :n], np.linalg.slogdet(K[left])[1]


@pytest.mark.parametrize("way", ["in time", "wide border", "general"])
def test_entries_and_determinant(way, monkeypatch):
    """Of neighbouring nodes, of nodes far apart, of parameters, of what is fixed."""
    kkt, *matrices = chain(border=4)
    kkt.stiffness[-2:] = 5.0, np.inf
    if way == "wide border":
        monkeypatch.setattr("kinesym.runtime.statistics.kkt.WIDE", 4)
    kkt = replace(kkt, stages=None) if way == "general" else kkt
    inverse, log = dense(kkt, *matrices)
    factors, n = kkt.factorised(), len(inverse)
    assert isinstance(factors.factors, module.Bordered) is (way == "wide border")
    monkeypatch.setattr(module, "_BATCH", 1000)  # in several batches
    i, j = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(n)))
    some = np.random.default_rng(1).permutation(len(i))[:500]
    for rows, columns in ((i, j), (i[some], j[some]), (i[:0], j[:0])):
        found = factors.inverse_entries(rows, columns)
        np.testing.assert_allclose(found, inverse[rows, columns], rtol=1e-9, atol=1e-15)
    assert (factors.inverse_entries(np.full(n, 3), np.arange(n)) == 0.0).all()
    mine = np.array([n - 3, 7, n - 1, n - 4, 3])
    here = inverse[np.ix_(mine, mine)]
    np.testing.assert_allclose(factors.inverse(mine), here, rtol=1e-9, atol=1e-15)
    solved = factors.solve(np.eye(n)[:, mine], np.zeros((kkt.order - n, len(mine))))
    np.testing.assert_allclose(solved, inverse[:, mine], rtol=1e-9, atol=1e-15)
    assert factors.log_determinant == pytest.approx(log, rel=1e-12)
    assert factors.positive


@pytest.mark.parametrize("wide", [2, 3])
def test_a_saddle_is_not_positive(wide, monkeypatch):
    """A variable whose curvature is negative beyond what constraints hold."""
    monkeypatch.setattr("kinesym.runtime.statistics.kkt.WIDE", wide)
    kkt, hessian, _ = chain()
    rows, columns, values = kkt.hessian
    bent = np.where((rows == columns) & (rows >= len(hessian) - 1), -1e6, values)
    assert not replace(kkt, hessian=(rows, columns, bent)).factorised().positive


def test_forms_residuals_and_rows_of_size_one():
    """Of the whole matrix, against the dense one."""
    kkt, *_ = chain()
    K, x = kkt.scaled.plain.toarray(), np.random.default_rng(1).standard_normal((kkt.order, 3))
    values, sizes = kkt.forms(x)
    np.testing.assert_allclose(values, (x * (K @ x)).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sizes, (abs(x) * (abs(K) @ abs(x))).sum(axis=0), rtol=1e-12)
    scale = kkt.scaled.scale
    np.testing.assert_allclose(np.abs(scale[:, None] * K * scale).max(axis=1), 1.0, rtol=0.05)
    (rows, columns, entries), b = kkt.lower, np.ones_like(x)
    factors = Factorisation(kkt.order, rows, columns, kkt._every_stage)
    np.testing.assert_allclose(factors.residuals(entries, x, b), b - K @ x, atol=1e-10)


def test_matrices_with_other_bounds_share_an_analysis(monkeypatch):
    """Each has memory and factors of its own."""
    seen = []

    def factorisation(*places, **more):
        seen.append(Factorisation(*places, **more))
        return seen[-1]

    monkeypatch.setattr(module, "Factorisation", factorisation)
    kkt, *_ = chain()
    others = [replace(kkt, stiffness=kkt.stiffness + k) for k in range(3)]
    for each in others + others[::-1]:
        alone = replace(each, workspace=Workspace())
        i = np.arange(len(kkt.stiffness))
        mine, own = (k.factorised().inverse_entries(i, i) for k in (each, alone))
        np.testing.assert_allclose(mine, own, rtol=1e-12)
    assert [f.about["analysed"] for f in seen[:6]] == [True, True, False, True, False, True]


def test_limits_of_a_wide_border_take_no_new_factors(monkeypatch):
    """Those of others do."""
    made, plain = [], module.factors
    monkeypatch.setattr("kinesym.runtime.statistics.kkt.WIDE", 2)
    monkeypatch.setattr(module, "factors", lambda *given: made.append(given) or plain(*given))
    kkt, *matrices = chain()
    n = len(kkt.stiffness)
    for place, count in ((n - 1, 1), (n - 2, 1), (4, 2)):
        kkt = replace(kkt, stiffness=kkt.stiffness + 3.0 * (np.arange(n) == place))
        _, log = dense(kkt, *matrices)
        assert kkt.factorised().log_determinant == pytest.approx(log, rel=1e-12)
        assert len(made) == count


def test_parameters_are_fixed_until_all_others_are_told():
    """The reduced Hessian says which, as the whole matrix does."""
    kkt, hessian, jacobian = chain(border=4)
    hessian[:, -1], jacobian[:, -1] = hessian[:, -2], jacobian[:, -2]  # may be exchanged
    hessian[-1] = hessian[-2]
    lower = ((a.row, a.col, a.data) for a in (coo_array(np.tril(hessian)), coo_array(jacobian)))
    kkt = Kkt(*lower, kkt.stiffness, kkt.softness, kkt.stages)
    mine = len(hessian) - 4 + np.arange(4)
    blur = np.zeros(len(hessian))
    made, fixed = reduced(kkt, mine, blur, None), np.zeros(4, dtype=bool)
    assert made is not None
    np.testing.assert_array_equal(made.signs(fixed), [1, 1, 0, 0])
    np.testing.assert_array_equal(spreads(kkt, mine, blur).signs, [1, 1, 0, 0])
    fixed[2] = True
    stiffness = kkt.stiffness.copy()
    stiffness[mine[2]] = np.inf
    np.testing.assert_array_equal(made.signs(fixed), 1)
    np.testing.assert_array_equal(spreads(replace(kkt, stiffness=stiffness), mine, blur).signs, 1)


def test_largest_in_rows():
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, 7, 30), rng.integers(0, 5, 30)
    values, sizes = rng.standard_normal(30), rng.uniform(0.1, 2.0, 5)
    whole = np.zeros(8)
    np.maximum.at(whole, rows, np.abs(values) * sizes[columns])
    assert np.array_equal(largest_in_rows(rows, columns, values, sizes, 8), whole)
    with pytest.raises(ValueError, match="outside a matrix"):
        largest_in_rows(rows, columns, values, sizes[:2], 8)


def test_forms_of_one_vector_and_of_several():
    rng = np.random.default_rng(4)
    lower = np.tril(rng.standard_normal((9, 9)))
    rows, columns = np.nonzero(lower)
    whole, x = lower + np.tril(lower, -1).T, rng.standard_normal((9, 3))
    for some in (x, x[:, :1]):
        made, sizes = forms(rows, columns, lower[rows, columns], some)
        assert np.allclose(made, np.einsum("ik,ij,jk->k", some, whole, some))
        assert np.allclose(sizes, np.einsum("ik,ij,jk->k", *map(np.abs, (some, whole, some))))
