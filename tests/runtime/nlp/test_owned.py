"""Parameters known per trial, unknown by owner, with priors, on scales: a problem is a sum of those
of its trials. `test_derivatives` compares derivatives of these with complex steps."""

import numpy as np
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
a, b, c, d = sp.symbols("a b c d")
NAMES = ["a", "b", "c", "d"]
MODEL = ks.Model(
    "four_parameters",
    [x, v],
    [u],
    [a, b, c, d],
    [x.diff(ks.t) - v * c, b * v.diff(ks.t) + sp.sin(a * x) * d + c * v**3 - a * u],
    outputs={"pull": a * x + d * v**2},
)
KINDS = {
    "all": lambda rule: rule,
    "subject": lambda rule: ks.per("subject", rule),
    "side": lambda rule: ks.per("side", rule),
    "trial": lambda rule: ks.per_trial(rule),
}
RULES = {
    "free": (None, None),
    "prior": ks.normal(0.8, 0.3),
    "log": ks.log_scale(1e-3, 1e3),
    "log prior": ks.lognormal(1.3, 2.0),
    "known": None,
}
#: Mean and standard deviation of what z has.
PRIORS = {"prior": (0.8, 0.3), "log prior": (np.log(1.3), np.log(2.0))}


def made_trial(seed, labels, known):
    rng, N = np.random.default_rng(seed), int(3 + seed % 2)
    return ks.Experiment(
        np.cumsum(rng.uniform(0.1, 0.5, N)),
        inputs={u: rng.normal(size=N)},
        measurements={x: rng.normal(size=N), "pull": rng.normal(size=N)},
        std={x: 0.7, "pull": 1.3},
        labels=labels,
        parameters={name: rng.uniform(0.5, 1.5) for name in known},
    )


def problem_of(trials, unknown, scheme):
    return ks.Collocation(
        MODEL,
        trials,
        unknown=unknown,
        scheme=scheme,
        objective=2 * ks.LeastSquares() + ks.Integral(b * x**2 * c) + ks.Terminal(a * d**2 * v),
        path=[(a * x**2 + sp.exp(b) * v, -9, 9)],
        boundary=[(ks.at_start(v) * c - d**2 * ks.at_end(x), -9, 9)],
    )


def assert_sum(problem, singles, z, multipliers, priors, log):
    """Cost, constraints and derivatives at z are those of the single trials with their own values;
    priors : by entry of z; log : entries that are logarithms."""
    layout, n = problem.layout, problem.n_variables
    natural = np.where(log, np.exp(z), z)
    cost, gradient = 0.0, np.zeros(n)
    constraints, hessian = [], np.zeros((n, n))
    jacobian = np.zeros((problem.n_constraints, n))
    row = 0
    for k, single in enumerate(singles):
        mine = np.arange(layout.offsets[k], layout.offsets[k + 1])
        at = np.concatenate([mine, layout.parameter_offset + layout.owned.places(k)])
        rows = np.arange(row, row + single.n_constraints)
        row = rows[-1] + 1
        cost += single.cost(natural[at])
        gradient[at] += single.cost_gradient(natural[at])
        constraints.append(single.constraints(natural[at]))
        jacobian[np.ix_(rows, at)] += single.constraint_jacobian(natural[at]).toarray()
        bend = single.lagrangian_hessian(natural[at], multipliers[rows], 0.7)
        hessian[np.ix_(at, at)] += bend.toarray()
    slopes = np.where(log, natural, 1.0)
    hessian = hessian * np.outer(slopes, slopes)
    pulls = 0.7 * gradient + jacobian.T @ multipliers
    hessian += np.diag(np.where(log, natural * pulls, 0.0))
    gradient, jacobian = gradient * slopes, jacobian * slopes
    for j, (mean, sd) in priors.items():  # twice, as the least squares
        cost += 2.0 * ((z[j] - mean) / sd) ** 2
        gradient[j] += 4.0 * (z[j] - mean) / sd**2
        hessian[j, j] += 0.7 * 4.0 / sd**2
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(problem.cost(z), cost, **close)
    np.testing.assert_allclose(problem.cost_gradient(z), gradient, **close)
    np.testing.assert_allclose(problem.constraints(z), np.concatenate(constraints), **close)
    np.testing.assert_allclose(problem.constraint_jacobian(z).toarray(), jacobian, **close)
    found = problem.lagrangian_hessian(z, multipliers, 0.7).toarray()
    np.testing.assert_allclose(found, hessian, **close)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    owners=st.lists(st.sampled_from(sorted(KINDS)), min_size=4, max_size=4),
    rules=st.lists(st.sampled_from(sorted(RULES)), min_size=4, max_size=4),
    subjects=st.lists(st.sampled_from(["anna", "ben", "cleo"]), min_size=1, max_size=5),
    scheme=st.sampled_from(["radau-3", "lobatto-4", "gauss-2"]),
    seed=st.integers(0, 99),
)
def test_derivatives(owners, rules, subjects, scheme, seed):
    known = [name for name, rule in zip(NAMES, rules, strict=True) if rule == "known"]
    trials = [
        made_trial(seed + k, {"subject": who, "side": "left" if k % 2 else "right"}, known)
        for k, who in enumerate(subjects)
    ]
    unknown = {
        name: KINDS[owner](RULES[rule])
        for name, owner, rule in zip(NAMES, owners, rules, strict=True)
        if rule != "known"
    }
    problem = problem_of(trials, unknown, scheme)
    singles = [problem_of(trial, dict.fromkeys(unknown), scheme) for trial in trials]
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.5, 1.5, problem.n_variables)
    owned, begin = problem.layout.owned, problem.layout.parameter_offset
    rule_of = [rules[NAMES.index(p)] for p in owned.members]
    log = np.zeros(len(z), dtype=bool)
    log[begin : begin + len(rule_of)] = ["log" in rule for rule in rule_of]
    priors = {begin + k: PRIORS[rule] for k, rule in enumerate(rule_of) if rule in PRIORS}
    multipliers = rng.standard_normal(problem.n_constraints)
    assert_sum(problem, singles, z, multipliers, priors, log)
