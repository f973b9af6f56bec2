"""Residuals of an objective that is a sum of squares, for least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.runtime.nlp.collocation import filled
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.names import dynamicsymbols, name_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start
from kinesym.symbolic.problem import Problem, moving_symbols

Terms = list[tuple[float, sp.Expr]]

_QUADRATURE, _END = dynamicsymbols("weight_quadrature weight_end")


def residual_problem(problem: Problem) -> Problem:
    """A problem whose path conditions are r with objective = sum of r^2 over nodes; without
    measurements that are between nodes. Of those whose standard deviation s is an expression it has
    sqrt(2) log s, too, after all measurements, see `Scores`.

    Measurements, their weights and those of the quadrature become known trajectories, see
    `with_weights`. Raises `ValueError` if the objective is no sum of squares at the nodes.
    """
    objective, residuals, logs = problem.objective, list[sp.Expr](), list[sp.Expr]()
    signals: list[AppliedUndef] = []
    if objective.least_squares:
        if objective.least_squares < 0.0:
            raise ValueError("the measurements enter with a negative factor")
        for name, modelled in problem.sampled(between=False).items():
            y, w = (sp.Function(f"{what}_{name}")(t) for what in ("measured", "weight"))
            e = problem.sides.get(name, 1) * w * (modelled - y)
            if (std := problem.spreads.get(name)) is not None:
                e = sp.Piecewise((e / std, w > 0), (0, True))
                if name not in problem.sides:
                    logs.append(sp.Piecewise((sp.sqrt(2) * w * sp.log(std), w > 0), (0, True)))
            loss = objective.loss if std is None else None
            r = e if loss is None else loss.root(e)
            residuals.append(sp.sqrt(objective.least_squares) * r)
            signals += [y, w]
        residuals += [sp.sqrt(objective.least_squares) * log for log in logs]
    if objective.terminal.has(at_start, at_end):
        raise ValueError("the terminal cost is about the start, too")
    for expression, weight in ((objective.integrand, _QUADRATURE), (objective.terminal, _END)):
        terms = square_terms(expression)
        residuals += [sp.sqrt(c) * weight * base for c, base in terms]
        signals += [weight] if terms else []
    held = {name_of(f) for f in objective.integrand.atoms(AppliedUndef)} & problem.held
    jumps = objective.integrand.atoms(sp.Symbol, sp.Derivative) & moving_symbols(problem.model)
    if held or (jumps and problem.held):
        causes = ", ".join(sorted(held or problem.held))
        raise ValueError(f"the integral jumps at the nodes with {causes}, held between them")
    return replace(
        problem,
        objective=Objective(),
        measurements={},
        slots={},
        delays={},
        path=residuals,
        signals=[*problem.signals, *signals],
    )


def square_terms(expression: sp.Expr, factor: float = 1.0) -> Terms:
    """(c, e) with expression = sum of c e^2; raises `ValueError` if it is no such sum."""
    found: Terms = []
    for term in sp.Add.make_args(expression):
        if term.is_zero:
            continue
        number, rest = term.as_coeff_Mul()
        c = factor * float(number)
        if isinstance(rest, sp.Add):
            found += square_terms(rest, c)
            continue
        base = _root(rest)
        if base is None or c <= 0.0:
            raise ValueError(f"{term} is no square with a positive factor")
        found.append((c, base))
    return found


def _root(e: sp.Expr) -> sp.Expr | None:
    """The square root of a product of even powers."""
    root = sp.S.One
    for part in sp.Mul.make_args(e):
        base, exponent = part.as_base_exp()
        if not (exponent.is_Integer and exponent % 2 == 0):
            return None
        root *= base ** (exponent / 2)
    return root


def with_weights(problem: Problem, residuals: Problem, trial: Experiment) -> Experiment:
    """A trial of a problem with what its `residual_problem` has as inputs."""
    steps, quadrature, end = np.diff(trial.grid), np.zeros(trial.n_nodes), np.zeros(trial.n_nodes)
    quadrature[:-1] += 0.5 * steps
    quadrature[1:] += 0.5 * steps
    end[-1] = 1.0
    inputs = {**trial.signals, "weight_quadrature": np.sqrt(quadrature), "weight_end": end}
    for name in problem.sampled(between=False):
        inputs[f"measured_{name}"] = inputs[f"weight_{name}"] = np.zeros(trial.n_nodes)
        if name in trial.measurements:
            samples = trial.measurements[name]
            inputs[f"measured_{name}"] = filled(samples, trial.grid)
            inputs[f"weight_{name}"] = np.where(np.isnan(samples), 0.0, 1.0 / trial.divisor(name))
    known = {name_of(signal) for signal in residuals.signals} | trial.signals.keys()
    kept = {name: row for name, row in inputs.items() if name in known}
    return Experiment(trial.grid, inputs=kept, **trial.beside)
