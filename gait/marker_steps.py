"""Least squares of `marker_squares`: steps, minimum, start, and the covariance of the unknowns.

Levenberg's method on the Gauss-Newton matrix, which is block diagonal; a smooth course couples the
blocks of neighbours, and shared parameters border them. Where errors are so large that such steps
overshoot, second derivatives are added (Newton's method). Coordinates at bounds that would leave
them are kept there (projected Newton, Bertsekas 1982, SIAM Journal on Control and Optimization 20).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from kinesym.gait.marker_squares import Normal, Squares, State
from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.native import BORDER, Factorisation

#: Largest step at which iterations end [rad, m].
STEP = 1e-10
#: Step at which iterations end, in standard errors [-].
EXACT = 1e-4
#: Iterations, at most.
ITERATIONS = 200
#: Share of the sum of squares that is rounding [-].
ROUNDED = 1e-12
#: Step at which the search for a start ends, in standard errors [-].
NEAR = 0.3
#: Iterations, at most, of the search for a start; number of best starts that are gone on with.
FEW = 8
#: Iterations between evaluations of second derivatives.
OFTEN = 16
#: Relative error of the predicted decrease of the sum above which they are used [-].
POOR = 0.5
#: Share of the Gauss-Newton matrix that second derivatives leave, at least [-].
LEFT = 0.1
#: Factors of longer steps, tried if the sum falls by so much more than predicted.
LONGER = (2.0, 4.0, 8.0)
#: Rounds, at most, of the active set of bounds within a step; it mostly takes two or three. Steps
#: that are cut off at bounds instead oscillate, except for the first one.
MEETINGS = 12
#: Rounds, at most, of the active set in the first step.
FIRST = 3
#: Ridge on coordinates that no marker shows, as a share of the mean information of markers [-].
HELD = 1e-9
#: Share of a coordinate's information that the ridge supplies, above which it is unobserved [-].
UNSEEN = 1e-3
#: Independent instants that are fitted at once: as many as fit into caches.
BLOCK = 256
#: Time between instants that are fitted one after the other, to follow the motion [s].
APART = 0.1
#: Number of first instants, of which the best one is followed.
FIRSTS = 4
#: Lower limit of the degrees of freedom per measured coordinate [-].
LITTLE = 0.1
#: Noise that counts as none [m].
TINY = 1e-9
#: Rows of a front of the linear solver, at most.
ROWS = 8192


def pattern_of(N: int, n: int, m: int, order: int) -> list[NDArray[np.int32]]:
    """Rows and columns of the lower triangle of a block-arrow matrix, and the instant of each
    unknown: N instants with n unknowns each, coupled to `order` neighbours, and m shared unknowns.
    Lower triangles of the diagonal blocks, whole blocks below them, rows of the shared unknowns,
    and their own triangle."""
    first = np.arange(N)[:, None] * n
    i, j = np.tril_indices(n)
    rows, columns = [first + i], [first + j]
    i, j = np.divmod(np.arange(n * n), n)
    for k in range(1, order + 1):
        rows.append(first[k:] + i)
        columns.append(first[:-k] + j)
    i, j = np.divmod(np.arange(m * n), n)
    rows.append(np.broadcast_to(N * n + i, (N, m * n)))
    columns.append(first + j)
    i, j = np.tril_indices(m)
    rows.append(N * n + i)
    columns.append(N * n + j)
    stages = np.append(np.repeat(np.arange(N), n), np.full(m, BORDER))
    return [
        np.concatenate([part.reshape(-1) for part in parts]).astype(np.int32)
        for parts in (rows, columns, [stages])
    ]


class Solver:
    """The solver of the linear systems of a problem with N instants of n coordinates."""

    def __init__(self, problem: Squares, n: int, N: int) -> None:
        self.problem, m, smoothness = problem, len(problem.places), problem.smoothness
        self.middle, self.off = np.zeros((N, 1, 1)), list[Array]()
        if smoothness is not None:
            M, (middle, *others) = smoothness.information, smoothness.bands(N)
            self.middle = middle[:, None, None] * M
            self.off = [band[:, None, None] * M for band in others]
        self.separate = problem.separate
        if not self.separate:
            rows, columns, stages = pattern_of(N, n, m, len(self.off))
            self.factors = Factorisation(N * n + m, rows, columns, stages, max_rows=ROWS)
        self.lower, self.border = np.tril_indices(n), np.tril_indices(m)

    def factorised(self, system: System, damping: Array) -> Factorisation:
        """The factorised matrix of all unknowns, those that are shared last."""
        free, off, B = ~system.kept, self.off, system.normal.B
        A = system.blocks(damping) + self.middle
        if system.kept.any():
            A = np.where(free[:, :, None] & free[:, None, :], A, np.eye(free.shape[1]))
            B = np.where(free[:, None], B, 0.0)
            off = [
                np.where(free[k:, :, None] & free[:-k, None, :], block, 0.0)
                for k, block in enumerate(off, 1)
            ]
        S = system.normal.S * (1.0 + damping.max() * np.eye(len(system.normal.S)))
        parts = [A[:, self.lower[0], self.lower[1]], *off, B, S[self.border]]
        said = self.factors.factorise(np.concatenate([part.reshape(-1) for part in parts]))
        if said != "ok":
            raise ValueError(f"the linear system of the markers cannot be solved: {said}")
        return self.factors


@dataclass(frozen=True, eq=False)
class System:
    """The linear system of a step. room : how far coordinates may go down and up (N, n). kept :
    coordinates that bounds keep (N, n)."""

    solver: Solver
    normal: Normal
    room: tuple[Array, Array]
    kept: NDArray[np.bool_]

    @cached_property
    def ridge(self) -> Array:
        """The mean of the diagonal of each instant, and of all where that shows little (N,)."""
        mean = np.trace(self.normal.A, axis1=1, axis2=2) / self.normal.A.shape[1]
        return np.asarray(np.maximum(mean, 1e-3 * float(mean.mean()) + 1e-300))

    def blocks(self, damping: Array) -> Array:
        """Blocks (N, n, n) with damping (N,) as a share of the ridge, and ones for what is kept."""
        n, A = self.kept.shape[1], self.normal.A.copy()
        if self.kept.any():
            A[self.kept[:, :, None] | self.kept[:, None, :]] = 0.0
        added = ((damping + HELD) * self.ridge)[:, None]
        A[:, np.arange(n), np.arange(n)] += np.where(self.kept, 1.0, added)
        return A

    def solution(self, damping: Array) -> tuple[Array, Array]:
        """Steps of coordinates (N, n) and of shared unknowns (m,), ignoring the bounds of those
        that are not kept."""
        g = np.where(self.kept, 0.0, self.normal.g)
        if self.solver.separate:
            dq = -np.linalg.solve(self.blocks(damping), g[..., None])[..., 0]
            return np.asarray(dq), np.zeros(0)
        b = -np.concatenate([g.reshape(-1), self.normal.s])
        x = self.solver.factorised(self, damping).solve(b)
        return x[: g.size].reshape(g.shape), x[g.size :]

    def slope(self, d: Array, ds: Array) -> tuple[Array, Array]:
        """Slope: half the gradient of the quadratic after steps d (N, n) of coordinates and ds (m,)
        of shared unknowns."""
        normal, smoothness = self.normal, self.solver.problem.smoothness
        g, s = normal.g + np.einsum("kij,kj->ki", normal.A, d), normal.s
        if smoothness is not None:
            g = g + smoothness.cost(d.T)[1].T
        if len(s):
            g = g + np.einsum("kij,i->kj", normal.B, ds)
            s = s + np.einsum("kij,kj->i", normal.B, d) + normal.S @ ds
        return g, s

    def after(self, d: Array, kept: NDArray[np.bool_]) -> System:
        """The system where coordinates have gone by d (N, n), and where these are kept."""
        g, s = self.slope(d, np.zeros_like(self.normal.s))
        return replace(self, normal=replace(self.normal, g=g, s=s), kept=kept)

    def at(self, here: NDArray[np.bool_]) -> System:
        """System at some instants; instants must be independent."""
        normal, (low, high) = self.normal, self.room
        some = replace(normal, A=normal.A[here], g=normal.g[here], B=normal.B[here])
        return replace(self, normal=some, room=(low[here], high[here]), kept=self.kept[here])

    def step(self, damping: Array, rounds: int = MEETINGS) -> tuple[Array, Array, Array]:
        """Step of coordinates (n, N) and of shared unknowns (m,) within bounds, and the decrease
        that the quadratic model predicts for each instant or for all (N,).

        Primal-dual active set method: coordinates that the step would take beyond a bound join the
        set, those whose slope points inwards leave it (Hintermueller, Ito, Kunisch 2002, SIAM
        Journal on Optimization 13).
        """
        dq, ds = self.solution(damping)
        kept, here = self.kept, np.ones(len(dq), dtype=bool)
        for _ in range(rounds):
            low, high = (room[here] for room in self.room)
            some, d = self if here.all() else self.at(here), dq[here]
            met = ~kept & ((d < low) | (d > high))
            drawn = some.slope(d, ds)[0]
            leave = kept & np.where(d <= low, drawn < 0.0, drawn > 0.0)
            changed = np.asarray(np.any(met | leave, axis=1))
            if not changed.any():
                break
            changed |= not self.solver.separate
            kept = (kept & ~leave | met)[changed]
            gone = np.where(kept, np.clip(d, low, high)[changed], 0.0)
            here[here] = changed
            some = some if changed.all() else some.at(changed)
            more, ds = some.after(gone, kept).solution(damping[here])
            dq[here] = gone + more
        g, s = self.slope(dq, ds)
        fall = -np.sum(dq * (self.normal.g + g), axis=1)
        if not self.solver.separate:
            fall = np.full(len(fall), fall.sum() - float((self.normal.s + s) @ ds))
        return np.asarray(dq.T), ds, np.asarray(fall)


def system_at(solver: Solver, state: State, normal: Normal | None = None) -> System:
    """The linear system there, of the Gauss-Newton matrix unless another one is given."""
    problem = solver.problem
    normal = problem.normal(state) if normal is None else normal
    room = problem.lower - state.q.T, problem.upper - state.q.T
    kept = ((room[0] >= 0.0) & (normal.g > 0.0)) | ((room[1] <= 0.0) & (normal.g < 0.0))
    return System(solver, normal, room, kept)


class MarkerMinimum(NamedTuple):
    """Result of the iterations: last state, their number, and whether they converged. left : steps
    of coordinates in the last iteration (n, N), 0 at instants that converged. solver : of the
    linear systems, None if solved in blocks of instants."""

    state: State
    iterations: int
    converged: bool
    left: Array
    solver: Solver | None


def minimise(
    problem: Squares,
    q: Array,
    shared: Array,
    exact: float = EXACT,
    iterations: int = ITERATIONS,
) -> MarkerMinimum:
    """The least sum from these coordinates (n, N) and parameters (m,); instants that do not know
    each other are each damped on its own, until each has converged. Ctrl-C ends it with the best
    so far.

    exact : it ends when the root mean square of steps is this many standard errors.
    """
    N = q.shape[1]
    if problem.separate and N > BLOCK:
        slices = [slice(k, k + BLOCK) for k in range(0, N, BLOCK)]
        parts = [minimise(problem.at(s), q[:, s], shared, exact, iterations) for s in slices]
        state = problem.state(np.hstack([part.state.q for part in parts]), shared)
        most, all_did = max(p.iterations for p in parts), all(p.converged for p in parts)
        return MarkerMinimum(state, most, all_did, np.hstack([p.left for p in parts]), None)
    q = np.clip(q, problem.lower[:, None], problem.upper[:, None])
    work, here, k = Work.begun(problem, q, shared, exact), np.arange(N), 0
    q, left, converged = q.copy(), np.zeros_like(q), False
    with interruptible() as stop:
        for k in range(1, iterations + 1):
            if stop.is_set():
                break
            work, done, steps = work.further(k, last=k == iterations)
            q[:, here], left[:, here] = work.state.q, np.where(done, 0.0, steps)
            if converged := bool(done.all()):
                break
            if problem.separate and done.any():
                work, here = work.at(~done), here[~done]
    if problem.separate:
        return MarkerMinimum(problem.state(q, shared), k, converged, left, None)
    return MarkerMinimum(work.state, k, converged, left, work.solver)


@dataclass(frozen=True, eq=False)
class Work:
    """Instants that are iterated. share : of the sum that may be left to fall. damping : (N,).
    curvature : second derivatives that keep the matrix definite (N, n, n)."""

    solver: Solver
    state: State
    system: System
    share: Array
    damping: Array
    curvature: Array | None = None

    @staticmethod
    def begun(problem: Squares, q: Array, shared: Array, exact: float) -> Work:
        """Start of the iterations at coordinates q (n, N) and shared parameters."""
        n, N = q.shape
        state, solver = problem.state(q, shared), Solver(problem, n, N)
        counts = np.maximum(problem.counts.sum(axis=0), 1.0)
        share = exact**2 * (n * N + len(shared)) / total(problem, counts)
        share = share / N if problem.separate else share
        system = system_at(solver, state)
        if problem.smoothness is not None:  # the bounds of single instants are not those of courses
            system = replace(system, kept=np.zeros_like(system.kept))
        return Work(solver, state, system, share, np.zeros(N))

    def at(self, here: NDArray[np.bool_]) -> Work:
        """Iterate at some instants; instants must be independent."""
        problem, state = self.solver.problem.at(here), self.state.at(here)
        solver = Solver(problem, *state.q.shape)
        curvature = None if self.curvature is None else self.curvature[here]
        system = replace(self.system.at(here), solver=solver)
        return Work(solver, state, system, self.share[here], self.damping[here], curvature)

    def further(self, k: int, last: bool) -> tuple[Work, NDArray[np.bool_], Array]:
        """Next iterate after iteration k; instants that have converged (N,), and steps that were
        tried (n, N)."""
        problem, state, damping = self.solver.problem, self.state, self.damping
        dq, ds, promised = self.system.step(damping, FIRST if k == 1 else MEETINGS)
        cost = total(problem, state.costs, state)
        new = self.moved(dq, ds)
        fall = cost - total(problem, new.costs, new)
        for reach in LONGER:
            more = fall > (1.0 + POOR) * promised
            if not more.any():
                break
            longer = self.moved(np.where(more, reach, 1.0) * dq, ds)
            lower = cost - total(problem, longer.costs, longer)
            if not np.any(lower > fall):
                break
            new = new.where(lower > fall, longer) if problem.separate else longer
            fall = np.maximum(fall, lower)
        dq = new.q - state.q
        size = np.abs(dq).max(axis=0)
        if not problem.separate:
            size = np.full_like(size, max(size.max(), *np.abs(ds), 0.0))
        taken = fall >= -ROUNDED * cost
        state = new if taken.all() else state.where(taken, new) if taken.any() else state
        small = (promised >= 0.0) & (promised <= self.share * cost) & (damping < 1e-3)
        done = (size < STEP) | (taken & small)
        damping = np.where(taken, 0.3 * damping * (damping > 1e-9), 4.0 * damping + 1e-6)
        work = replace(self, state=state, damping=damping)
        if last or done.all():
            return work, done, dq
        again = k % OFTEN == 0 and bool(np.any(~done & (np.abs(fall - promised) > POOR * promised)))
        return (work.renewed(again) if again or taken.any() else work), done, dq

    def moved(self, dq: Array, ds: Array) -> State:
        """The state after a step, within bounds."""
        problem, state = self.solver.problem, self.state
        q = np.clip(state.q + dq, problem.lower[:, None], problem.upper[:, None])
        return problem.state(q, state.shared + ds)

    def renewed(self, again: bool) -> Work:
        """Iterate with the linear system of its state; again : evaluates second derivatives
        anew."""
        problem, curvature = self.solver.problem, self.curvature
        normal = problem.normal(self.state)
        if again:
            found = problem.curvature(self.state, normal.A)
            curvature = definite(normal.A, found, 1.0 if len(normal.s) else LEFT)
        if curvature is not None:
            normal = replace(normal, A=normal.A + curvature)
        system = system_at(self.solver, self.state, normal)
        return replace(self, system=system, curvature=curvature)


def definite(A: Array, C: Array, least: float) -> Array:
    """Second derivatives C (N, n, n) such that A + C (N, n, n) is definite: where it is not, and
    where it is less than this share of A, in directions in which both are diagonal, its size
    counts."""
    n = A.shape[1]
    mean = np.trace(A, axis1=1, axis2=2) / n
    ridge = HELD * np.maximum(mean, 1e-3 * float(mean.mean()) + 1e-300)
    L = np.linalg.cholesky(A + ridge[:, None, None] * np.eye(n))
    half = np.linalg.solve(L, C)
    values, V = np.linalg.eigh(np.linalg.solve(L, half.transpose(0, 2, 1)))
    more, W = np.maximum(np.abs(1.0 + values), least) - 1.0, L @ V
    return np.asarray((W * more[:, None, :]) @ W.transpose(0, 2, 1))


def total(problem: Squares, each: Array, state: State | None = None) -> Array:
    """Sums of each instant (N,), or of all including the shared cost of a state, if instants are
    coupled."""
    if problem.separate:
        return each
    return np.full(len(each), each.sum() + (state.extra if state else 0.0))


# -- start ----------------------------------------------------------------------------------------


def start(
    problem: Squares, guess: Array, turning: Sequence[NDArray[np.intp]], time: Array
) -> Array:
    """Coordinates (n, N) from which all instants can be fitted at once.

    Instants with most markers are fitted from a guess (n,) and from all quarter turns of the
    coordinates `turning`, some of them together: several, as bent limbs can end in a false minimum.
    Others follow the best one after the other, and those between on straight lines.
    """
    N = len(time)
    seen = np.sum(problem.weights > 0.0, axis=0)
    most = np.flatnonzero(seen == seen.max())
    tried = most[np.unique(np.linspace(0, len(most) - 1, FIRSTS).astype(np.intp))]
    first, best = best_of_turns(problem, tried, guess, turning)
    found = {first: best}
    every = max(1, round(APART / float(np.median(np.diff(time))))) if N > 1 else 1
    for way in (range(first + every, N + every, every), range(first - every, -every, -every)):
        last = found[first]
        for k in way:
            at = min(max(k, 0), N - 1)
            if seen[at] and at not in found:
                one = problem.at([at])
                last = minimise(one, last[:, None], one.prior, NEAR).state.q[:, 0]
                found[at] = last
    known = sorted(found)
    rows = np.array([found[k] for k in known]).T
    return np.array([np.interp(time, time[known], row) for row in rows])


def best_of_turns(
    problem: Squares,
    instants: NDArray[np.intp],
    guess: Array,
    turning: Sequence[NDArray[np.intp]],
) -> tuple[int, Array]:
    """The one of some instants that is fitted best, and its coordinates (n,), from all quarter
    turns; of equal ones those nearest to the guess."""
    turns = np.array([*product((0.0, 0.5, 1.0, -0.5), repeat=len(turning))]) * np.pi
    starts = np.repeat(guess[:, None], len(turns), axis=1)
    for places, angles in zip(turning, turns.T, strict=True):
        starts[places] += angles
    at = np.repeat(instants, len(turns))
    many = problem.at(at)
    first = minimise(many, np.tile(starts, len(instants)), many.prior, NEAR, FEW).state
    best = np.argsort(first.costs.reshape(len(instants), -1), axis=1)[:, :FEW]
    best = (best + len(turns) * np.arange(len(instants))[:, None]).reshape(-1)
    few = problem.at(at[best])
    state = minimise(few, first.q[:, best], few.prior).state
    q = state.q.copy()
    for places in turning:
        q[places] -= 2.0 * np.pi * np.round(q[places] / (2.0 * np.pi))
    allowed = np.all((q >= problem.lower[:, None]) & (q <= problem.upper[:, None]), axis=0)
    costs = np.where(allowed, state.costs, np.inf)
    if not allowed.any():
        q, costs = state.q, state.costs
    near = costs <= costs.min() * (1.0 + 1e-6) + 1e-12
    distance = np.sum((q - guess[:, None]) ** 2, axis=0)
    k = int(np.argmin(np.where(near, distance, np.inf)))
    return int(at[best[k]]), np.asarray(q[:, k])


# -- what is known of the unknowns ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Known:
    """noise : standard deviation of a marker of weight 1 in each direction [m]. std : standard
    errors of coordinates (n, N), 0 where a bound keeps them, NaN where no marker shows them.
    covariance : of the shared parameters (m, m)."""

    noise: float
    std: Array
    covariance: Array


def knowledge(problem: Squares, minimum: MarkerMinimum) -> Known:
    """Standard errors from the inverse of the Gauss-Newton matrix and the scatter of residuals.

    With a loss, variances are those of its estimate, E psi^2/(E psi')^2 (Huber 1981, Robust
    Statistics, section 7.6), for residuals whose direction is arbitrary.
    """
    state = minimum.state
    system = system_at(minimum.solver or Solver(problem, *state.q.shape), state)
    blocks, covariance = inverse_blocks(system)
    diagonal = np.diagonal(blocks, axis1=1, axis2=2)
    by_ridge = diagonal * HELD * system.ridge[:, None]  # 1 where it alone holds a coordinate
    by_target = diagonal * problem.strengths if len(problem.pulls) else np.zeros_like(diagonal)
    drawn = float(np.sum(np.where(system.kept, 0.0, by_target)))
    if problem.smoothness is not None:
        taken = float(np.sum(np.where(system.kept[:, :, None], 0.0, blocks) * system.normal.A))
    else:
        by_prior = np.diag(covariance) / problem.std**2
        taken = float(np.sum(1.0 - by_ridge[~system.kept]) + np.sum(1.0 - by_prior))
    count = int(problem.counts.sum())
    freedom = max(count - taken + drawn, 1e-9)
    variance = scatter(problem, state) * count / freedom
    noise = problem.noise * np.sqrt(variance)
    if problem.loss is not None:
        noise = median_noise(problem, state, freedom)
    if len(covariance):
        variance = 1.0  # what was known before has a size of its own
    std = np.sqrt(np.maximum(diagonal * variance, 0.0))
    std = np.where(system.kept, 0.0, np.where(by_ridge > UNSEEN, np.nan, std)).T
    return Known(float(noise), std, covariance * variance)


def median_noise(problem: Squares, state: State, freedom: float) -> float:
    """The deviation of normal errors whose distances have a median as these, less what unknowns
    take of them."""
    counts = problem.counts
    here = counts > 0
    distances = np.sqrt(problem.weights * np.sum(state.gaps**2, axis=0))[here]
    usual = np.sqrt(chdtri(counts[here], 0.5))
    left = max(freedom / counts.sum(), LITTLE)
    return float(np.median(distances / usual) / np.sqrt(left)) + TINY


def scatter(problem: Squares, state: State) -> float:
    """Variance of standardised residuals, per component, used for the covariance."""
    squares = problem.weights * np.sum(state.gaps**2, axis=0) / problem.noise**2
    counts, trust = problem.counts, state.trust
    if problem.loss is None:
        return float(squares.sum() / counts.sum())
    e = np.sqrt(squares / np.maximum(counts, 1))
    slope = np.sum(np.where(counts, (counts - 1.0) * trust + problem.loss.bend(e), 0.0))
    # the covariance is of weights: E psi^2/(E psi')^2 times the mean weight
    return float(np.sum(trust**2 * squares) / slope**2 * np.sum(counts * trust))


def inverse_blocks(system: System) -> tuple[Array, Array]:
    """Diagonal blocks of the inverse matrix: those of instants (N, n, n) and that of the shared
    unknowns."""
    N, n = system.kept.shape
    m, still = len(system.normal.s), np.zeros(N)
    if system.solver.separate:
        return np.asarray(np.linalg.inv(system.blocks(still))), np.zeros((0, 0))
    factors = system.solver.factorised(system, still)
    i, j = system.solver.lower
    first = np.arange(N)[:, None] * n
    entries = factors.inverse_entries((first + i).reshape(-1), (first + j).reshape(-1))
    blocks = np.zeros((N, n, n))
    blocks[:, i, j] = blocks[:, j, i] = entries.reshape(N, -1)
    return blocks, factors.inverse(N * n + np.arange(m)) if m else np.zeros((0, 0))
