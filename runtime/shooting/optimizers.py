"""Optimisers of shooting, for few unknowns, in scaled variables; each keeps the best point.

`OPTIMIZERS` lists them with what they take; messages, checks and tests follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, tril

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import groups_of
from kinesym.runtime.ipopt.driver import IpoptProblem, Start, Watch, run
from kinesym.runtime.ipopt.linear_solver import check_solver
from kinesym.runtime.native import BORDER
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.fit import Step
from kinesym.runtime.shooting import absolute
from kinesym.runtime.shooting.batched_squares import Problem, Squares, minimised
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.simulation.stepper import Diverged
from kinesym.runtime.statistics.leverage import basis_of_columns
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed

#: Gradient, in scaled unknowns and relative to the first cost, at which rounding ends the descent.
_STATIONARY = 1e-6
#: Share of the cost by which a step may still lower it at a minimum.
_REST = 1e-7
#: Share of the first cost by which a step may still lower it at a minimum.
_ROUNDING = 1e-14
#: Rounding of a residual, as a share of what the unknowns make of it.
_ROUNDED_RESIDUAL = 1e-13
#: Share of the largest information, below which that says nothing of the curvature.
_FLAT = 1e-8
#: Errors of a residual by steps that are chosen anew, as such a share.
_ROUGH_RESIDUAL = 1e-8
#: A small step in scaled unknowns.
_NEAR = 1e-4
#: Share of the objective by which steps of least squares may lower it, over the tolerance.
_SHARE = 1e-3
#: Decrease of -2 log L of a step of a hundredth of a standard error.
_UNTOLD = 1e-4
#: A full step in scaled unknowns of what measurements leave loose.
_LOOSE = 0.1


@dataclass(frozen=True)
class Scale:
    """Scaling of the unknowns, q = size * y, or exp(y) of those on a logarithmic scale; of one q
    (n,) or of many (M, n)."""

    size: Array
    log: NDArray[np.bool_]

    def at(self, y: Array) -> Array:
        """q from y."""
        return np.exp(y, out=self.size * y, where=np.broadcast_to(self.log, y.shape))

    def scaled(self, q: Array) -> Array:
        """y from q."""
        with np.errstate(divide="ignore"):
            return np.log(q, out=q / self.size, where=np.broadcast_to(self.log, q.shape))

    def slopes(self, q: Array) -> Array:
        """d q/d y."""
        return np.where(self.log, q, self.size)


def log_of(unknowns: Unknowns) -> NDArray[np.bool_]:
    """Entries of q on a logarithmic scale, (n,) booleans."""
    found = np.zeros(unknowns.size, dtype=bool)
    found[: len(unknowns.owned.names)] = unknowns.owned.log
    return found


class Chosen(NamedTuple):
    """Choices of a minimisation, see `ks.Shooting.solve`; limit : of iterations. options : further
    ones, of the optimiser."""

    optimizer: str
    scale: bool
    progress: bool | None
    tolerance: float
    limit: int
    options: Mapping[str, Any]


@dataclass
class Minimisation:
    """Objective of a minimisation, J(q) of trials within bounds, with q = scale * y, or for
    parameters on a logarithmic scale exp(y); and how.

    unit : a typical cost, so that tolerances are relative. squares : whether J is a sum of squares
    r(q)^2 with known d r/d q. report is called after each iteration. `history` is filled on the
    way.
    """

    trials: Simulated
    scale: Array
    unit: float
    bounds: tuple[Array, Array]
    squares: bool
    report: Callable[[Iteration], None]
    how: Chosen
    history: list[Step] = field(default_factory=list)

    @cached_property
    def _scale(self) -> Scale:
        return Scale(self.scale, log_of(self.trials.unknowns))

    def at(self, y: Array) -> Array:
        """q from y."""
        return self._scale.at(y)

    def scaled(self, q: Array) -> Array:
        """y from q."""
        return self._scale.scaled(q)

    def slopes(self, q: Array) -> Array:
        """d q/d y, (n,)."""
        return self._scale.slopes(q)

    def cost(self, y: Array) -> float:
        """J, infinite where a simulation fails."""
        return self.trials.cost(self.at(y))

    def gradient(self, y: Array) -> Array:
        """d J/d y."""
        q = self.at(y)
        return self.trials.gradient(q) * self.slopes(q)

    def note(self, q: Array, J: float, slope: float = np.nan, gap: float = 0.0) -> None:
        """Keep an iterate and show it."""
        self.history.append(Step(float(J), np.array(q)))
        self.report(Iteration(len(self.history) - 1, float(J), gap, slope))

    @property
    def scaled_bounds(self) -> tuple[Array, Array]:
        """Bounds of y."""
        low, high = self.bounds
        return self.scaled(low), self.scaled(high)


@dataclass(frozen=True)
class Endpoint:
    """The point where an optimiser ended, how, and its message."""

    q: Array
    status: Solve
    message: str


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
    if J - best.objective > 1e-9 * abs(best.objective) + _ROUNDING * problem.unit:
        words = f"{Solve.RISEN.sentence}; at the end: {found.message}"
        return Endpoint(best.values, Solve.RISEN, words)
    own = problem.how.optimizer == "least-squares"  # which has looked at all bounds
    return checked(problem, found) if found.status.success and not own else found


def checked(problem: Minimisation, found: Endpoint) -> Endpoint:
    """The same minimum, if derivatives do not say that a step lowers the cost."""
    left, J = _left(problem, found.q), problem.trials.cost(found.q)
    size = max(abs(J), _level(problem.trials, found.q) if problem.squares else 0.0)
    if left <= _REST * size + _ROUNDING * problem.unit:
        return found
    words = f"derivatives say that a step lowers the objective by {left:.1e}"
    words = f"{Solve.NO_MINIMUM.sentence}: {words} ({found.message})"
    return Endpoint(found.q, Solve.NO_MINIMUM, words)


def _level(trials: Simulated, q: Array) -> float:
    """Least size of J of which shares are taken: of a likelihood, which may be of any sign, the
    number of its terms."""
    return trials.factor * len(trials.residuals(q)) if trials.scored else 0.0


def _left(problem: Minimisation, q: Array) -> float:
    """Decrease of the cost that derivatives predict; unknowns that are pushed against a near bound
    are fixed."""
    y, (low, high) = problem.scaled(q), problem.scaled_bounds
    g = problem.trials.gradient(q) * problem.slopes(q)
    if problem.trials.kinked:
        here = absolute.kinked_at(problem.trials, q).scaled(problem.slopes(q))
        box = (np.maximum(low - y, -_NEAR), np.minimum(high - y, _NEAR))
        return absolute.resting_gradient(here, box)[1]
    free = ~(((g > 0.0) & (y - low <= _NEAR)) | ((g < 0.0) & (high - y <= _NEAR)))
    if not g[free].any():
        return 0.0
    if problem.squares and problem.trials.scored:
        return _left_of_scores(problem, q, free)
    if problem.squares:
        return _left_of_squares(problem.trials, q, free)
    return _left_along(problem, y, np.where(free, g, 0.0), g)


def _left_of_squares(trials: Simulated, q: Array, free: NDArray[np.bool_]) -> float:
    """Decrease of a sum of squares that Gauss-Newton predicts, with residuals r linear in the
    unknowns: |Q' r|^2 with Q an orthonormal basis of their derivatives (Bates and Watts 1981,
    Technometrics 23, 179, who compare it with the rest of the sum). Unlike differences of costs it
    does not suffer from rounding of the cost; less than rounding of the residuals is none."""
    slopes = trials.jacobian(q).toarray()[:, free]
    left = float(np.sum((basis_of_columns(slopes).T @ trials.residuals(q)) ** 2))
    return left if left > _ROUNDED_RESIDUAL**2 * _made(slopes, q[free]) else 0.0


def _made(slopes: Any, q: Array) -> float:
    """Sum of squares of what the unknowns make of residuals with these slopes."""
    return float(np.linalg.norm(np.abs(slopes) @ np.abs(q)) ** 2)


def _left_of_scores(problem: Minimisation, q: Array, free: NDArray[np.bool_]) -> float:
    """Decrease of a likelihood that scoring predicts; where it expects next to no information the
    curvature is another one, which is at least a share of the largest."""
    slopes = (problem.trials.jacobian(q).toarray() * problem.slopes(q))[:, free]
    _, size, along = np.linalg.svd(slopes, full_matrices=False)
    pull = along @ (slopes.T @ problem.trials.residuals(q))
    return float(np.sum(pull**2 / np.maximum(size**2, _FLAT * size.max(initial=0.0) ** 2)))


def _left_along(problem: Minimisation, y: Array, g: Array, here: Array) -> float:
    """Decrease of the cost by a step along g whose length follows from the curvature there, by a
    difference of gradients from the one `here`; zero if no step lowers it."""
    (low, high), J = problem.scaled_bounds, problem.cost(y)
    size = float(np.linalg.norm(g))
    d = -g / size
    at = np.clip(y + _NEAR * d, low, high)
    if not np.isfinite(problem.cost(at)):
        return 0.0
    bend = float((problem.gradient(at) - here) @ d) / _NEAR
    if not bend > 0.0:
        return 0.0
    return max(0.0, J - problem.cost(np.clip(y + size / bend * d, low, high)))


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
    """L-BFGS-B of SciPy."""

    def value(y: Array) -> tuple[float, Array]:
        J = problem.cost(y)
        if not np.isfinite(J):  # a failed simulation: far uphill, so that the line search shrinks
            return 1e10, np.zeros_like(y)
        return J / problem.unit, problem.gradient(y) / problem.unit

    def note(intermediate_result: Any) -> None:
        problem.note(problem.at(intermediate_result.x), intermediate_result.fun * problem.unit)

    _refuse(problem.how.options, _BFGS, "bfgs")
    problem.note(q, problem.trials.cost(q))
    low, high = problem.scaled_bounds
    if (low == high).all():
        return Endpoint(q, Solve.CONVERGED, "all unknowns are held by their bounds")
    settings = {
        "maxiter": problem.how.limit,
        "gtol": problem.how.tolerance,
        "ftol": 1e-15,
        "maxfun": 100 * problem.how.limit,
        "maxcor": 30,
        **problem.how.options,
    }
    bounds = list(zip(low, high, strict=True))
    found = scipy.optimize.minimize(
        value,
        problem.scaled(q),
        jac=True,
        method="L-BFGS-B",
        callback=note,
        bounds=bounds,
        options=settings,
    )
    slope = np.clip(found.x - found.jac, low, high) - found.x
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

    here: dict[str, Array] = {}  # rows and slopes at the iterate

    def squares(rows: NDArray[np.intp], points: Array) -> Squares:
        at, n = problem.at(points[0]), points.shape[1]
        J = trials.cost(at)
        none = Squares(np.array([J]), np.zeros((1, n)), np.zeros((1, n, n)))
        if not (problem.history[-1].objective if problem.history else np.inf) > J:
            return none
        try:
            r, S = trials.residuals(at), trials.jacobian(at).toarray() * problem.slopes(at)
        except Diverged:  # a step can be singular where the run reaches its end
            return none._replace(cost=np.array([np.inf]))
        g, bend = 2.0 * (S.T @ r), 2.0 * (S.T @ S)
        if not (np.isfinite(g).all() and np.isfinite(bend).all()):
            return none._replace(cost=np.array([np.inf]))
        problem.note(at, J, float(np.linalg.norm(g)))
        here.update(rows=trials.rows(at), slopes=S)
        return Squares(np.array([J]), g[None], bend[None])

    def change(rows: NDArray[np.intp], points: Array) -> Array:
        try:
            with np.errstate(all="ignore"):  # far away from the iterate it may be no number
                moved = trials.change(here["rows"], problem.at(points[0]))
                return 2.0 * (moved @ here["slopes"])[None]
        except Diverged:
            return np.full_like(points, np.nan)

    try:
        rounded = _ROUNDED_RESIDUAL**2 * _made(trials.jacobian(q), q)
    except Diverged as error:
        return Endpoint(q, Solve.NOT_FINITE, str(error))
    low, high = problem.scaled_bounds
    level = _level(trials, q)
    share, noise = _SHARE * how.tolerance, _noise(trials, q)
    asked = Problem(squares, (low[None], high[None]), rounded, level, share, noise, change)
    found = minimised(asked, problem.scaled(q)[None], how.limit, lambda ended, now: None)
    if not found.status[0]:
        raise KeyboardInterrupt
    status, at = Solve(found.status[0]), problem.at(found.y[0])
    if status is Solve.SMALL_STEP:
        rough = found.left[0] <= _ROUGH_RESIDUAL**2 * _made(trials.jacobian(at), at)
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

    asked = absolute.Problem(at, try_at, bounds, _level(trials, q), note)
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


class _Places:
    """Places of the entries of a sparse matrix, a pattern that stays."""

    def __init__(self, pattern: csr_array) -> None:
        self.rows, self.columns = pattern.tocoo().coords
        self.size = len(self.rows)

    def fill(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> None:
        """Write the places into the arrays of IPOPT."""
        rows[:], columns[:] = self.rows, self.columns

    def values(self, matrix: csr_array) -> Array:
        """Values of a matrix at these places."""
        return np.asarray(csr_array(matrix)[self.rows, self.columns]).ravel()


class _Callbacks:
    """Callbacks of the scaled problem for IPOPT; sparse matrices have the structure they have at q.

    Where the objective is a sum of squares, its Hessian is 2 J^T J.
    """

    def __init__(self, problem: Minimisation, q: Array) -> None:
        self.problem, self.trials, self._y = problem, problem.trials, problem.scaled(q)
        several, nothing = self.trials.unknowns.several, csr_array((len(q), len(q)))
        self.gap_places = _Places(self.trials.gap_jacobian(q) if several else nothing)
        pattern = csr_array(self.trials.jacobian(q)) if problem.squares else nothing
        pattern.data[:] = 1.0
        self.hessian_places = _Places(csr_array(tril(pattern.T @ pattern)))

    def cost(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        self._y = y
        out[0] = self.problem.cost(y) / self.problem.unit

    def gradient(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        out[:] = self.problem.gradient(y) / self.problem.unit

    def constraints(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        out[:] = self.trials.tried_gaps(self.problem.at(y))

    def jacobian(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        q = self.problem.at(y)
        slopes = self.trials.gap_jacobian(q) @ diags_array(self.problem.slopes(q))
        out[:] = self.gap_places.values(slopes)

    def hessian(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        q = self.problem.at(y)
        slopes = self.trials.jacobian(q) @ diags_array(self.problem.slopes(q))
        matrix = (2.0 * factor / self.problem.unit) * (slopes.T @ slopes)
        out[:] = self.hessian_places.values(matrix)

    def note(self, step: Iteration) -> None:
        """Keep the iterate that IPOPT reports."""
        problem = self.problem
        J = step.objective * problem.unit
        problem.note(problem.at(self._y), J, step.optimality, step.infeasibility)


def ipopt(problem: Minimisation, q: Array) -> Endpoint:
    """IPOPT with the Gauss-Newton Hessian of a sum of squares, else a limited-memory one."""
    solver = str(problem.how.options.get("linear_solver", "mumps"))
    check_solver(solver, problem.how.options)
    callbacks, zero = _Callbacks(problem, q), np.zeros(len(problem.trials.gaps(q)))
    nlp = IpoptProblem(
        callbacks,
        (callbacks.gap_places, callbacks.hessian_places),
        problem.scaled_bounds,
        (zero, zero),
        np.full(q.size, BORDER, dtype=np.int32),
    )
    settings: dict[str, Any] = {
        "tol": problem.how.tolerance,
        "max_iter": problem.how.limit,
        "print_level": 0,
        "sb": "yes",
        "linear_solver": solver,
    }
    if not problem.squares:
        settings["hessian_approximation"] = "limited-memory"
    settings, watch = {**settings, **problem.how.options}, Watch(callbacks.note)
    found = run(nlp, Start(problem.scaled(q)), settings, settings, watch)
    if found.status is Solve.INTERRUPTED:
        raise KeyboardInterrupt
    return Endpoint(problem.at(found.z), found.status, found.status.sentence)


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
