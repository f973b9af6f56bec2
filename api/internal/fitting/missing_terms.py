"""Search for what a model lacks: the unknown force that the record wants, and terms that explain
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import erfc
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base.checks import listed, shown
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.fitting.solving import Solver
from kinesym.internal.problems.formulation import formulate
from kinesym.internal.problems.plausible_units import kinematic_pairs
from kinesym.internal.problems.question import Question
from kinesym.internal.problems.written_settings import with_settings
from kinesym.internal.running.jumps_moved_by_unknowns import Moved, moved_by
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.results.influence import DECIDES
from kinesym.runtime.results.left_out import largest, most_changed
from kinesym.runtime.results.missing import Force, Missing, Tried
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.delayed import DelayedValue
from kinesym.symbolic.derivation import evaluate
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.jumps import Switch
from kinesym.symbolic.missing_terms import (
    KINDS,
    Fitted,
    Row,
    Term,
    force_in,
    rows_of,
    terms_of,
    with_forces,
    with_terms,
)
from kinesym.symbolic.model import Model, kinks_of
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import LeastSquares

#: Terms of a library whose likelihood is computed, those whose course is most like the force's.
_TESTED = 6
#: Share of a term, after what unknown parameters can do as well, up to which it is one of them.
_OWN = 1e-6
#: Iterations of a fit at most.
_ITERATIONS = 500
#: Standard deviation of a force in a step, as a share of the rms of the rate, up to which it is
#: none.
_QUIET = 1e-4
#: Share of a trial in which what may be late changes at most.
_LONGEST = 0.1
_STEP = 1e-30  # of complex steps


def missing(
    problem: Discretisation, solution: Solution, library: Any, level: float, most: int
) -> Missing:
    """See `Trials.missing`."""
    search = _Search(_on_grid_of(problem, solution), solution, level)
    search.check()
    given = [library] if isinstance(library, str) else library
    given = list(KINDS) if given is None else listed(given, "library")
    if not given:
        raise ValueError("library is empty; leave it out for terms of all kinds")
    every = terms_of(search.model, search.rows, given, search.fitted_model)
    search.check_terms(every)
    own = [term for term in every if search.is_own(term)]
    for term in own:
        if any(not isinstance(entry, str) and entry == term.expression for entry in given):
            raise ValueError(
                f"the term {shown(term.expression)} of library is in the model already, times an "
                f"unknown parameter, in the equation of {term.where}"
            )
    rest = [(term, search.refusal(term)) for term in every if term not in own]
    notes = [f"{x.shown} in {x.where} was not tried: {why}" for x, why in rest if why]
    return search.found([term for term, why in rest if not why], most, notes)


def _on_grid_of(problem: Discretisation, solution: Solution) -> Question:
    """The question of a problem, with the grid of a solution, and what trials set in the model."""
    asked = problem.formulation.question
    system, trials = with_settings(asked.system, asked.trials)
    asked = asked if system is asked.system else replace(asked, system=system, trials=trials)
    given = [asked.trials] if isinstance(asked.trials, Experiment) else [*asked.trials]
    pairs = list(zip(given, on_grid_of(problem, solution).trials, strict=True))
    if all(np.array_equal(a.grid, b.grid) for a, b in pairs):
        return asked
    return replace(asked, trials=[a.on_grid(b.grid) for a, b in pairs])


@dataclass(frozen=True, eq=False)
class _Search:
    """A search from a fit; question : what was fitted."""

    question: Question
    fit: Solution
    level: float

    @property
    def model(self) -> Model:
        """The model that was fitted."""
        found: Model = self.question.system
        return found

    def check(self) -> None:
        """Raise `ValueError` for a fit whose model cannot be searched."""
        asked = self.question
        if not isinstance(asked.system, Model):
            raise ValueError("missing looks for terms of a Model, not of phases or a Hybrid")
        if asked.noise:
            raise ValueError(
                "missing adds process noise to each equation; fit the problem without noise first"
            )
        if asked.objective not in (None, LeastSquares()):
            raise ValueError("missing needs a fit of least squares, without a loss or other terms")
        if not self.rows:
            raise ValueError("there is no equation that gives a rate and has no unknown input")

    @cached_property
    def rows(self) -> list[Row]:
        """Equations in which something may be missing: not those with an unknown input, which
        could be anything."""
        run, model = self.fit.trials[0], self.model
        middle = {name: float(np.mean(run[name])) for name in (*run.states, *run.inputs)}
        middle |= dict(run.parameters)
        names = {name_of(s): s for s in (*model.states, *model.inputs, *model.parameters)}
        point = {s: middle.get(name, 1.0) for name, s in names.items()}
        point |= {**dict.fromkeys(model.derivatives, 0.0), t: float(run.time[0])}
        free = {name_of(u) for u in self.question.unknown_inputs or {}}
        found = rows_of(model, point, kinematic_pairs(model))
        pulled = [u for u in model.inputs if name_of(u) in free]
        slopes = [self._slopes(run, u) for u in pulled]
        return [r for r in found if not any(s[r.equation].any() for s in slopes)]

    @cached_property
    def fitted_model(self) -> Fitted:
        """Context of the terms of a library."""
        own = {name_of(p) for p in self.question.unknown or {}}
        unknown = frozenset(p for p in self.model.parameters if name_of(p) in own)
        return Fitted(self._size, self._pace, self._jump, unknown)

    def _size(self, e: sp.Expr) -> float:
        """Root mean square of an expression along the fit, 1 if that is 0."""
        return _rms([self._value(run, e) for run in self.fit.trials]) or 1.0

    def _pace(self, e: sp.Expr) -> float:
        """Seconds in which an expression changes by its standard deviation, at most a share of the
        shortest trial; 0 if it does not change."""
        runs = self.fit.trials
        values = [self._value(run, e) for run in runs]
        rate = _rms([np.gradient(y, run.time) for y, run in zip(values, runs, strict=True)])
        change = _rms([y - np.mean(y) for y in values])
        longest = _LONGEST * min(float(np.ptp(run.time)) for run in runs)
        return min(change / rate, longest) if rate > 0.0 else 0.0

    def _jump(self, e: sp.Expr) -> str:
        """Place where an expression jumps as unknowns move, in words; "" if it does not."""
        if not kinks_of(e):
            return ""
        first, *others = self.model.equations
        names = {name_of(s) for s in self.question.unknown or {}}
        models = (self.model, replace(self.model, equations=[first + e, *others]))
        own, more = (moved_by(model, names, (), True) for model in models)
        known = {switch.guard for switch in _switches(own)}
        return next((switch.zero for switch in _switches(more) if switch.guard not in known), "")

    # -- what the model can do itself -----------------------------------------------------------

    def is_own(self, term: Term) -> bool:
        """Whether unknown parameters can do what a term does."""
        slopes = self._slopes_of_rows[term.row]
        courses = np.column_stack([self._course(self.fit, e) for e in term.courses.values()])
        left = courses - slopes @ np.linalg.lstsq(slopes, courses)[0]
        sizes = np.linalg.norm(courses, axis=0)
        return bool((np.linalg.norm(left, axis=0) <= _OWN * sizes).all())

    @cached_property
    def _slopes_of_rows(self) -> dict[Row, Array]:
        """Slopes of each row by the unknown parameters, in the fit."""
        return {row: self._parameters(self.fit, row) for row in self.rows}

    def check_terms(self, terms: Sequence[Term]) -> None:
        """Raise `ValueError` for a term that has no value along the record."""
        for term in terms:
            e = next(iter(term.courses.values()))
            for k, run in enumerate(self.fit.trials):
                value = self._complex(run, e)
                lost = ~np.isfinite(value) | (np.abs(np.imag(value)) > _OWN * np.abs(value))
                if lost.any():
                    raise ValueError(
                        f"the term {shown(term.expression)} of library has no value in trial {k} "
                        f"at {run.time[lost][0]:g} s"
                    )

    def _course(self, fit: Solution, e: sp.Expr) -> Array:
        """An expression over all trials."""
        return np.concatenate([self._value(run, e) for run in fit.trials])

    def _parameters(self, fit: Solution, row: Row) -> Array:
        """Slopes of an equation by each unknown parameter, as columns, over all trials."""
        own = {name_of(p) for p in self.question.unknown or {}}
        symbols = [p for p in self.model.parameters if name_of(p) in own]
        columns = [
            np.concatenate([self._slopes(run, p)[row.equation] for run in fit.trials])
            for p in symbols
        ]
        columns = [column / (np.linalg.norm(column) or 1.0) for column in columns]
        size = sum(len(run.time) for run in fit.trials)
        return np.column_stack(columns) if columns else np.zeros((size, 0))

    def _point(self, run: Trajectory) -> dict[sp.Basic, Any]:
        """Values of all symbols of the model over a trial, complex."""
        model, time = self.model, run.time
        found: dict[sp.Basic, Any] = {t: time.astype(complex)}
        for x, rate in zip(model.states, model.derivatives, strict=True):
            found[x] = run[name_of(x)].astype(complex)
            found[rate] = np.gradient(run[name_of(x)], time).astype(complex)
        for u in model.inputs:
            found[u] = np.nan_to_num(run[name_of(u)]).astype(complex)
        for p in model.parameters:
            found[p] = complex(run.parameters[name_of(p)])
        return found

    def _value(self, run: Trajectory, e: sp.Expr) -> Array:
        return np.real(self._complex(run, e))

    def _complex(self, run: Trajectory, e: sp.Expr) -> Any:
        """An expression over a trial; what is delayed is interpolated, and constant before the
        start."""
        point, late = self._point(run), dict[sp.Basic, sp.Expr]()
        for s, value in self.model.intermediates:
            point[s] = evaluate(value, point)
        for call in parts_of(DelayedValue, e):
            late[call] = sp.Dummy()
            then = run.time - np.real(evaluate(call.args[1], point))
            point[late[call]] = np.interp(then, run.time, self._value(run, call.args[0]))
        return np.broadcast_to(evaluate(e.xreplace(late), point), run.time.shape)

    def _slopes(self, run: Trajectory, symbol: sp.Basic) -> list[Array]:
        """Derivatives of all equations by a symbol, over a trial, by the complex step."""
        known = self._point(run)
        known[symbol] = known[symbol] + 1j * _STEP
        for s, e in self.model.intermediates:
            known[s] = evaluate(e, known)
        rows = (np.imag(evaluate(e, known)) / _STEP for e in self.model.equations)
        return [np.broadcast_to(row, run.time.shape) for row in rows]

    # -- fits -----------------------------------------------------------------------------------

    def fitted(
        self, terms: Sequence[Term], guess: Any, rows: Sequence[Row], tested: Sequence[Term] = ()
    ) -> Solution:
        """Fit with these terms and those that are tested, and with white forces of unknown
        intensity in these rows."""
        asked = self._asked(terms, rows, tested)
        problem = Discretisation.of(*formulate(asked), asked.threads)
        z = FirstGuess(problem).pack(guess)
        chosen = SolverOptions({"max_iter": _ITERATIONS})
        return Solver(problem, chosen).fitted(z, guess)

    def _asked(
        self, terms: Sequence[Term], rows: Sequence[Row], tested: Sequence[Term] = ()
    ) -> Question:
        """Question of such a fit."""
        model = with_terms(with_forces(self.model, rows), [*terms, *tested])
        noise = {force_in(self.model, row): (self.least(row), None) for row in rows}
        unknown = dict(self.question.unknown or {})
        for term in (*terms, *tested):
            unknown |= term.unknown(term in tested)
        return replace(self.question, system=model, unknown=unknown, noise=noise or None)

    def refusal(self, term: Term) -> str:
        """Reason why something cannot be late, as an input that is held between nodes, or ""."""
        if not term.change.has(DelayedValue):
            return ""
        try:
            formulate(self._asked([], [], [term]))
        except ValueError as error:
            return str(error)
        return ""

    def least(self, row: Row) -> float:
        """Least intensity of a force: its standard deviation in a step is `_QUIET` times the rms of
        the rate."""
        name = name_of(row.state)
        rates = [np.gradient(run[name], run.time) for run in self.fit.trials]
        size = float(np.sqrt(np.mean(np.concatenate(rates) ** 2))) or 1.0
        return _QUIET * size * float(np.sqrt(np.median(np.diff(self.fit.trials[0].time))))

    def heard(self, rows: Sequence[Row], driven: Solution) -> list[Row]:
        """Rows, of these, in which a force is larger than the least."""
        sigma = {row: driven.parameters[f"sigma_{force_in(self.model, row)}"] for row in rows}
        return [row for row in rows if sigma[row] > 2.0 * self.least(row)]

    # -- the search -----------------------------------------------------------------------------

    def found(self, library: Sequence[Term], most: int, notes: Sequence[str] = ()) -> Missing:
        """Add the best term as long as one is significant."""
        first = driven = self.fitted([], self.fit, self.rows)
        rows, last = self.rows, dict.fromkeys(self.rows, first)
        chosen, tried = list[Term](), list[Tried]()
        remarks = [*notes, *self._coarse_grid(), *self._wrong_samples()]
        if not first.success:
            remarks.append(f"the unknown forces were not found: {first.message}")
        while driven.success and len(chosen) < most:
            heard = self.heard(rows, driven)
            if heard != rows:
                rows, driven = heard, self.fitted(chosen, driven, heard)
            rest = [term for term in library if not any(term.excluded_by(c) for c in chosen)]
            count = sum(len(term.scanned) for term in rest)
            best = self._ranked(last, rest)[:_TESTED]
            fits = [self.fitted(chosen, driven, rows, [term]) for term in best]
            new = [(x, fit) for x, fit in zip(best, fits, strict=True) if _is_new(x, fit)]
            found = [self._tested(x, fit, driven, len(chosen), count) for x, fit in new]
            order = sorted(range(len(found)), key=lambda k: -found[k].gain)
            tried += [found[k] for k in order]
            if not order or found[order[0]].p > self.level:
                break
            term, driven = new[order[0]]
            chosen.append(term)
            if term.width:
                freed = self.fitted(chosen, driven, rows)
                driven = freed if freed.success else driven
                chosen[-1] = term if freed.success else replace(term, bounds=None)
            last |= dict.fromkeys(rows, driven)
        remarks += [] if chosen else self._unexplained(first)
        whole = self.fitted(chosen, driven, []) if chosen else self.fit
        if not whole.success:
            remarks.append(
                f"the fit with these terms, without unknown forces, failed: {whole.message}"
            )
        after = [self._forces(row, fit, "after") for row, fit in last.items()]
        before = [self._forces(row, first, "before") for row in last]
        return Missing(
            model=self.model.name,
            tried=tried,
            found=[term.name for term in chosen],
            forces=[*chain(*before, *(after if chosen else []))],
            level=self.level,
            notes=remarks,
            larger=with_terms(self.model, chosen),
            fit=whole,
        )

    def _coarse_grid(self) -> list[str]:
        """A note on a grid that is too coarse for the record, and what explains its error."""
        error = self.fit.grid_error() if self.fit.grid else None
        if error is None or error.note or not error.matters:
            return []
        return [f"the grid {error}; terms may only explain that, see fit.grid_error()"]

    def _unexplained(self, driven: Solution) -> list[str]:
        """A note on forces that the record wants, where no term is them."""
        gain = driven.log_likelihood - self.fit.log_likelihood if driven.success else 0.0
        if erfc(max(gain, 0.0) ** 0.5) * len(self.rows) > self.level:
            return []
        return [
            f"with unknown forces log L is {gain:+.4g}: the record wants something that no term of "
            "the library is"
        ]

    def _wrong_samples(self) -> list[str]:
        """A note on samples that decide, which unknown forces follow, and what explains these."""
        try:
            first = self.fit.influence().most(1)
        except ValueError:
            return []
        return [
            f"{one.name} decides ({most_changed(one.in_errors)} without it), and terms may only "
            "explain such samples; leave them out if they are wrong, see fit.influence()"
            for one in first
            if largest(one.in_errors) >= DECIDES
        ]

    def _ranked(self, last: Mapping[Row, Solution], terms: Sequence[Term]) -> list[Term]:
        """Terms by how much their course is that of the force in their row, less what unknown
        parameters can do; each at one of its scanned values. last : the latest fit with a force, by
        row."""
        ranks = list[tuple[float, Term]]()
        for row, driven in last.items():
            name = force_in(self.model, row)
            force = np.concatenate([run[name] for run in driven.trials])
            here = np.isfinite(force)
            basis = np.linalg.qr(self._parameters(driven, row)[here])[0]
            force = force[here] - basis @ (basis.T @ force[here])
            for term in terms:
                if term.row == row:
                    courses = (self._course(driven, e)[here] for e in term.courses.values())
                    left = [course - basis @ (basis.T @ course) for course in courses]
                    ranks.append(_most_like(term, left, force))
        return [term for _, term in sorted(ranks, key=lambda pair: -pair[0])]

    def _tested(self, term: Term, fit: Solution, before: Solution, step: int, count: int) -> Tried:
        """Likelihood ratio of a term; p : times the number of tests (Bonferroni)."""
        gain = fit.log_likelihood - before.log_likelihood if fit.success else -np.inf
        p = float(erfc(max(gain, 0.0) ** 0.5))
        value = fit.parameters.table[term.name]
        return Tried(
            step=step,
            name=term.name,
            where=term.where,
            term=term.shown,
            coefficient=value.value,
            standard_error=value.standard_error,
            gain=float(gain),
            p=min(1.0, p * count),
        )

    def _forces(self, row: Row, driven: Solution, when: str) -> list[Force]:
        """The force in a row, by trial."""
        name, where = force_in(self.model, row), f"{name_of(row.state)}'"
        return [Force(where, when, k, run.time, run[name]) for k, run in enumerate(driven.trials)]


def _most_like(term: Term, courses: Sequence[Array], force: Array) -> tuple[float, Term]:
    """Likeness of a term to a force, and the term at one of its scanned values: that of the most
    like course or, where its size is known, of that which leaves least of the force."""

    def share(course: Array) -> float:
        sizes = float(np.linalg.norm(course) * np.linalg.norm(force))
        found = float(course @ force) / sizes if sizes else 0.0
        return found if term.replaces else abs(found)

    def left(k: int) -> float:
        return float(np.linalg.norm(force - courses[k])) if term.replaces else -share(courses[k])

    best = min(range(len(courses)), key=left)
    return share(courses[best]), term.at(term.scanned[best])


def _is_new(term: Term, fit: Solution) -> bool:
    """Whether a term is something that other parameters cannot do: then it has a standard error."""
    if term.replaces:  # whose parameter is at a bound, without a standard error, if it is 0
        return True
    return not (fit.success and np.isnan(fit.parameters.table[term.name].standard_error))


def _switches(moved: Moved) -> list[Switch]:
    """Jumps that unknowns move."""
    return [*(switch for switch, _ in moved.direct), *moved.motion]


def _rms(rows: Sequence[Array]) -> float:
    """Root mean square of all numbers."""
    return float(np.sqrt(np.mean(np.concatenate(rows) ** 2)))
