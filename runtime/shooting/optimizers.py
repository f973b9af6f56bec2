"""Optimisers of shooting, for few unknowns, in scaled variables; each keeps the best point.

`OPTIMIZERS` lists them with what they take; messages, checks and tests follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import groups_of
from kinesym.runtime.results.fit import Step
from kinesym.runtime.shooting import absolute
from kinesym.runtime.shooting.batched_squares import Problem, minimised
from kinesym.runtime.shooting.interior_point import ipopt
from kinesym.runtime.shooting.scaled import Endpoint, Minimisation
from kinesym.runtime.shooting.stationary import (
    ROUNDED_RESIDUAL,
    ROUNDING,
    checked,
    least_share,
    made_by_unknowns,
)
from kinesym.runtime.shooting.sums_of_squares import SumOfSquares
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.simulation.stepper import Diverged
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed

#: Gradient, in scaled unknowns and relative to the first cost, at which rounding ends the descent.
_STATIONARY = 1e-6
#: Errors of a residual by steps that are chosen anew, as such a share.
_ROUGH_RESIDUAL = 1e-8
#: Share of the objective by which steps of least squares may lower it, over the tolerance.
_SHARE = 1e-3
#: Decrease of -2 log L of a step of a hundredth of a standard error.
_UNTOLD = 1e-4
#: A full step in scaled unknowns of what measurements leave loose.
_LOOSE = 0.1


def minimise(problem: Minimisation, q: Array) -> Endpoint:
    """Run the optimiser that is chosen from q; Ctrl-C returns the best iterate so far.

    Raises `ValueError` for options that it does not have.
    """
    try:
        with np.errstate(over="ignore"):  # far away from the minimum costs may be huge
            found = OPTIMIZERS[problem.how.optimizer].run(problem, q)
    except KeyboardInterrupt:
        best = _best(problem, q)
        which = "last" if problem.trials.unknowns.several else "best"
        words = f"interrupted: this is the {which} iterate, not a solution"
        return Endpoint(best.values, Solve.INTERRUPTED, words)
    best, J = _best(problem, found.q), problem.trials.cost(found.q)
    if problem.trials.unknowns.several:
        return found
    if J - best.objective > 1e-9 * abs(best.objective) + ROUNDING * problem.unit:
        words = f"{Solve.RISEN.sentence}; at the end: {found.message}"
        return Endpoint(best.values, Solve.RISEN, words)
    own = problem.how.optimizer == "least-squares"  # which has looked at all bounds
    return checked(problem, found) if found.status.success and not own else found


def _stuck(problem: Minimisation, y: Array, slope: float) -> Endpoint:
    """The end of a line search that finds no lower cost, by rounding of the cost if this is a
    minimum; `minimise` asks sums of squares whether it is one, else the gradient has to be small.
    slope : of the scaled gradient, relative to the first cost."""
    words = Solve.STUCK.sentence
    if problem.squares or slope <= _STATIONARY:
        return Endpoint(problem.at(y), Solve.CONVERGED, f"converged: {words}")
    return Endpoint(problem.at(y), Solve.STUCK, words)


def _best(problem: Minimisation, q: Array) -> Step:
    """The iterate of lowest cost (the last one of multiple shooting); q if there is none yet."""
    if not problem.history:
        problem.note(q, problem.trials.cost(q))
    if problem.trials.unknowns.several:  # a low cost means little while segments do not meet
        return problem.history[-1]
    return min(problem.history, key=lambda step: step.objective)


def steepest_descent(problem: Minimisation, q: Array) -> Endpoint:
    """Along the negative gradient of the scaled variables, with a line search (Armijo's rule: the
    step doubles while that helps and halves until the cost falls enough); steps stay in bounds."""
    _refuse(problem.how.options, (), "steepest-descent")
    (low, high), limit = problem.scaled_bounds, problem.how.limit
    y, J, step = problem.scaled(q), problem.trials.cost(q), 0.0
    for _ in range(limit + 1):
        g = problem.gradient(y)
        slope = float(np.linalg.norm(np.clip(y - g, low, high) - y))
        problem.note(problem.at(y), J, slope)
        if slope <= problem.how.tolerance * problem.unit:
            return Endpoint(problem.at(y), Solve.CONVERGED, "converged: the gradient is small")
        if len(problem.history) > limit:
            break
        if step == 0.0:
            step = 0.1 / float(np.linalg.norm(g))
        new, step, J = _line_search(problem, y, J, g, step, (low, high))
        if new is None:
            return _stuck(problem, y, slope / problem.unit)
        y = new
    words = f"the limit of {limit} iterations was reached"
    return Endpoint(problem.at(y), Solve.ITERATION_LIMIT, words)


def _line_search(
    problem: Minimisation, y: Array, J: float, g: Array, step: float, bounds: tuple[Array, Array]
) -> tuple[Array | None, float, float]:
    """The next point (None if there is none), the length of the step, and the cost."""

    def at(length: float) -> tuple[Array, float]:
        point = np.clip(y - length * g, *bounds)
        return point, problem.cost(point)

    def enough(point: Array, value: float) -> bool:
        return value < J - 1e-4 * float(g @ (y - point))

    point, value = at(step)
    if enough(point, value):
        for _ in range(60):
            farther, lower = at(2.0 * step)
            if not (enough(farther, lower) and lower < value):
                break
            point, value, step = farther, lower, 2.0 * step
        return point, step, value
    for _ in range(60):
        step *= 0.5
        point, value = at(step)
        if enough(point, value):
            return point, step, value
    return None, step, J


def bfgs(problem: Minimisation, q: Array) -> Endpoint:
    """L-BFGS-B of SciPy, which begins anew, with no memory of curvatures, where it ends at no
    minimum: as bounds cut a step to next to nothing."""
    _refuse(problem.how.options, _BFGS, "bfgs")
    problem.note(q, problem.trials.cost(q))
    low, high = problem.scaled_bounds
    if (low == high).all():
        return Endpoint(q, Solve.CONVERGED, "all unknowns are held by their bounds")
    while True:
        before = len(problem.history)
        found = _lbfgsb(problem, q, problem.how.limit - before + 1)
        again = found.status is Solve.CONVERGED and len(problem.history) > before
        if not again or checked(problem, found) is found:
            return found
        q = found.q


def _lbfgsb(problem: Minimisation, q: Array, limit: int) -> Endpoint:
    """The end of L-BFGS-B from q."""

    def value(y: Array) -> tuple[float, Array]:
        J = problem.cost(y)
        if not np.isfinite(J):  # a failed simulation: far uphill, so that the line search shrinks
            return 1e10, np.zeros_like(y)
        return J / problem.unit, problem.gradient(y) / problem.unit

    def note(intermediate_result: Any) -> None:
        problem.note(problem.at(intermediate_result.x), intermediate_result.fun * problem.unit)

    settings = {
        "maxiter": limit,
        "gtol": problem.how.tolerance,
        "ftol": 1e-15,
        "maxfun": 100 * limit,
        "maxcor": 30,
        **problem.how.options,
    }
    bounds = list(zip(*problem.scaled_bounds, strict=True))
    found = scipy.optimize.minimize(
        value,
        problem.scaled(q),
        jac=True,
        method="L-BFGS-B",
        callback=note,
        bounds=bounds,
        options=settings,
    )
    slope = np.clip(found.x - found.jac, *problem.scaled_bounds) - found.x
    stuck = found.status == 2  # its line search ended; 1 is a limit
    if stuck:
        return _stuck(problem, found.x, float(np.linalg.norm(slope)))
    status = Solve.CONVERGED if found.success else Solve.ITERATION_LIMIT
    return Endpoint(problem.at(found.x), status, _said(found.message))


def least_squares(problem: Minimisation, q: Array) -> Endpoint:
    """Gauss-Newton steps within a trust region and the bounds, see `batched_squares`; for a
    likelihood that is no sum of squares Fisher's scoring, with the slopes of scores; with absolute
    values `over_kinks`."""
    trials, how = problem.trials, problem.how
    if trials.kinked:
        return over_kinks(problem, q)
    if "loss" in how.options:
        raise ValueError(
            "least-squares has no option loss: standard errors and other optimisers would not know "
            "of it; give objective=ks.LeastSquares(loss='huber')"
        )
    _refuse(how.options, (), "least-squares")
    low, high = problem.bounds
    for name in np.array(trials.unknowns.names)[low == high]:
        raise ValueError(
            f"the bounds of {name} are equal; give it as known, or use another optimiser than "
            "least-squares"
        )

    def slopes(q: Array) -> Array:
        return np.asarray(trials.jacobian(q).toarray() * problem.slopes(q))

    sum_ = SumOfSquares(trials, problem.at, slopes, problem.note)
    try:
        rounded = ROUNDED_RESIDUAL**2 * made_by_unknowns(trials.jacobian(q), q)
    except Diverged as error:
        return Endpoint(q, Solve.NOT_FINITE, str(error))
    low, high = problem.scaled_bounds
    level = least_share(trials, q)
    share, noise = _SHARE * how.tolerance, _noise(trials, q)
    box = (low[None], high[None])
    asked = Problem(sum_.squares, box, rounded, level, share, noise, sum_.change)
    found = minimised(asked, problem.scaled(q)[None], how.limit, lambda ended, now: None)
    if not found.status[0]:
        raise KeyboardInterrupt
    status, at = Solve(found.status[0]), problem.at(found.y[0])
    if status is Solve.SMALL_STEP:
        rough = found.left[0] <= _ROUGH_RESIDUAL**2 * made_by_unknowns(trials.jacobian(at), at)
        status = Solve.ROUNDED if rough else status
    if status is not Solve.FLAT:
        return Endpoint(at, status, status.sentence)
    loose = np.array(trials.unknowns.names)[np.abs(found.full[0]) > _LOOSE]
    along = f" along {listed(loose)}" if len(loose) else ""
    words = f"a step{along} would lower the objective by {found.left[0]:.1e}"
    return Endpoint(at, status, f"{status.sentence}; {words}")


def _noise(trials: Simulated, q: Array) -> tuple[float, float]:
    """Decrease of J that measurements do not tell, which moves no estimate by more than a hundredth
    of its standard error: of a likelihood, or as a share of J where noise is not known."""
    if groups_of(trials.trials) or not (trials.measured and trials.weighted):
        return 0.0, _UNTOLD / max(1, len(trials.residuals(q)))
    return _UNTOLD * trials.factor, 0.0


def over_kinks(problem: Minimisation, q: Array) -> Endpoint:
    """The minimum where J has absolute values of residuals, see `absolute`."""
    trials, bounds = problem.trials, problem.scaled_bounds
    _refuse(problem.how.options, (), "least-squares of absolute values")

    def at(y: Array) -> absolute.Kinked:
        here = problem.at(y)
        return absolute.kinked_at(trials, here).scaled(problem.slopes(here))

    def try_at(y: Array) -> tuple[float, Array]:
        return absolute.tried_at(trials, problem.at(y))

    def note(y: Array, J: float, slope: float) -> None:
        problem.note(problem.at(y), J, slope)

    asked = absolute.Problem(at, try_at, bounds, least_share(trials, q), note)
    y, status = absolute.minimised(asked, problem.scaled(q), problem.how.limit)
    return Endpoint(problem.at(y), status, status.sentence)


def _said(message: Any) -> str:
    """The words of SciPy within a sentence."""
    return str(message).lower().replace("`", "").rstrip(".")


_BFGS = ("maxcor", "ftol", "gtol", "maxfun", "maxiter", "maxls")


def _refuse(options: Mapping[str, Any], known: Sequence[str], optimizer: str) -> None:
    for name in options:
        if name not in known:
            words = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{optimizer} has no option {name}; {words}")


@dataclass(frozen=True)
class Optimizer:
    """An optimiser. run : from a problem and q to an endpoint. squares : whether it needs a sum of
    squares, with all derivatives of residuals. equations : whether it meets those of multiple
    shooting. kinks : whether it steps over those of residuals."""

    run: Callable[[Minimisation, Array], Endpoint]
    squares: bool = False
    equations: bool = False
    kinks: bool = False


#: By the names that users give them.
OPTIMIZERS: Mapping[str, Optimizer] = {
    "bfgs": Optimizer(bfgs),
    "ipopt": Optimizer(ipopt, equations=True),
    "steepest-descent": Optimizer(steepest_descent),
    "least-squares": Optimizer(least_squares, squares=True, kinks=True),
}
