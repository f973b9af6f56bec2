"""Parameters of random models known per trial, or unknown by owner, with priors, on scales: the
problem of all trials is the sum of those of single trials, by the chain rule."""

from collections import Counter

import generator
import numpy as np
import pytest
from measured import Interpreted, experiment

import kinesym as ks

SUBJECTS = ["anna", "ben", "anna", "cleo"]
CLOSE = 1e-10


def rules_of(case, rng):
    """What is said of each parameter that is unknown in a case, None if it is known per trial; and
    mean and standard deviation of what z has, if there is a prior."""
    found, priors = {}, {}
    for name in case.unknown:
        kind = rng.choice(["free", "log", "normal", "lognormal", "known"])
        rule = {"log": ks.log_scale(), "normal": ks.normal(0.3, 1.7)}.get(kind, (None, None))
        rule = ks.lognormal(0.6, 2.5) if kind == "lognormal" else rule
        owner = rng.choice(["all", "subject", "trial"])
        rule = ks.per("subject", rule) if owner == "subject" else rule
        found[name] = ks.per_trial(rule) if owner == "trial" else rule
        found[name] = None if kind == "known" else found[name]
        if "normal" in kind:
            log = kind == "lognormal"
            priors[name] = (np.log(0.6), np.log(2.5)) if log else (0.3, 1.7)
    return found, priors


def compared(case, seed):
    """The largest relative deviation of any number from the sum over trials."""
    rng = np.random.default_rng(seed)
    rules, priors = rules_of(case, rng)
    unknown = {name: rule for name, rule in rules.items() if rule is not None}
    known = [name for name in rules if name not in unknown]
    values = [{name: float(rng.uniform(0.5, 1.5)) for name in known} for _ in SUBJECTS]
    labels = ({"subject": who} for who in SUBJECTS)
    pairs = zip(values, labels, strict=True)
    trials = [experiment(case, parameters=v, labels=of) for v, of in pairs]
    whole = Interpreted(case, unknown, trials)
    layout, single = whole.layout, Interpreted(case)
    n, owned = single.layout.parameter_offset, layout.owned
    z = rng.uniform(0.5, 1.5, layout.n_variables)
    natural = layout.natural(z)
    weights = rng.uniform(-1.0, 1.0, layout.n_constraints)
    expected = {}
    for k, mine in enumerate(values):
        places = dict(zip(owned.parameters, layout.parameter_offset + owned.places(k), strict=True))
        parts = [np.arange(n) + layout.offsets[k]]
        parts.append([places.get(p, -1) for p in single.layout.parameters])
        parts.append([layout.duration_offset + k] * single.layout.free_duration)
        at = np.concatenate(parts).astype(int)
        here = natural[at]
        here[at < 0] = [mine[p] for p in single.layout.parameters if p in mine]
        first = layout.constraint_offsets[k, "interval"]
        rows = weights[first : first + single.layout.n_constraints]
        add(expected, single.numbers(here, rows, 0.7), at, first)
    chain(expected, layout, z, weights)
    squares(expected, layout, z, priors)
    return deviation(whole.numbers(z, weights, 0.7), expected)


def add(expected, entries, at, first):
    """The entries of a trial, at the places that its variables have in all."""
    for (kind, *place), value in entries.items():
        rows = [first + place.pop(0)] if kind in ("constraint", "jacobian") else []
        columns = sorted(int(at[j]) for j in place)
        if all(j >= 0 for j in columns):
            key = (kind, *rows, *columns)
            expected[key] = expected.get(key, 0.0) + value


def chain(expected, layout, z, weights):
    """Derivatives by logarithms instead of parameters."""
    slopes = np.ones(len(z))
    begin, end = layout.parameter_offset, layout.duration_offset
    slopes[begin:end] = layout.parameter_slopes(z)
    pulls = np.zeros(len(z))
    for (kind, *place), value in expected.items():
        if kind == "gradient":
            pulls[place[0]] += 0.7 * value
        elif kind == "jacobian":
            pulls[place[1]] += weights[place[0]] * value
    for kind, *place in list(expected):
        for j in {"gradient": place, "jacobian": place[1:], "hessian": place}.get(kind, ()):
            expected[(kind, *place)] *= slopes[j]
    for j in begin + np.flatnonzero(layout.owned.log):
        if pulls[j]:
            key = ("hessian", int(j), int(j))
            expected[key] = expected.get(key, 0.0) + slopes[j] * pulls[j]


def squares(expected, layout, z, priors):
    """What priors add."""
    for j, p in enumerate(layout.owned.members, start=layout.parameter_offset):
        if p in priors:
            mean, sd = priors[p]
            for key, value in (
                (("cost",), ((z[j] - mean) / sd) ** 2),
                (("gradient", j), 2.0 * (z[j] - mean) / sd**2),
                (("hessian", j, j), 0.7 * 2.0 / sd**2),
            ):
                expected[key] = expected.get(key, 0.0) + value


def deviation(found, expected):
    """The largest, relative to the largest number of its kind."""
    worst = 0.0
    for kind in {key[0] for key in (*found, *expected)}:
        keys = {key for key in (*found, *expected) if key[0] == kind}
        a, b = (np.array([one.get(key, 0.0) for key in keys]) for one in (found, expected))
        size = np.abs(b).max(initial=1.0)
        worst = max(worst, float(np.abs(a - b).max()) / size)
    return worst


@pytest.mark.parametrize("begin", [0, 20])
def test_sums_of_trials(begin):
    counts, wrong = Counter(), []
    for seed in range(begin, begin + 20):
        try:
            case = generator.case_of(seed)
            with np.errstate(all="ignore"):
                off = compared(case, seed)
        except ValueError:
            counts["refused"] += 1
            continue
        counts["not finite" if np.isnan(off) else "compared"] += 1
        if off > CLOSE:
            wrong.append(f"seed {seed}: {off:.1e}")
    assert not wrong, "\n".join(wrong)
    assert counts["compared"] > 10
