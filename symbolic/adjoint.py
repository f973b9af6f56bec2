"""The continuous adjoint of a model: itself a model, in reversed time.

Gradients of J = phi(x_T) + integral of psi(x', x, u, p, t) dt along solutions of 0 = F(x', x, u, p,
t), by conjugate variables that are integrated backwards from the end T. Two forms:

first-order, for any model whose x' can be solved for. With multipliers w of the equations and
H = psi + w^T F, the costates c = dJ/dx(t) satisfy

    c + H_x' = 0 (which gives w),   c' = -H_x,   c(T) = phi_x.

second-order, for q'' = v' from R(v', v, q, s, u, p, t) = 0 and s' = g(v, q, s, u, p, t), with the
conjugate variables lambda, mu, eta of Barauskas, Krusinskiene 2005, equations (2.3) to (2.8). Let
Q, V, S, A be the gradients with respect to q, v, s, v' of y^T R - n^T g for a pair Y = (y, n): with
m = R_v', c~ = R_v, k~ = R_q, Q is k~^T y - g_q^T n and so on; a dot, as in Q.(Y), is the total time
derivative of these coefficients alone. With Y_lambda = (lambda, n_lambda) and so on,

    A(eta'') - V(Y_eta') + Q(Y_eta) = psi_v'
    n_eta' = S(Y_eta)
    A(mu')' - V(Y_mu') + Q(Y_mu) + V.(Y_eta') - Q.(Y_eta) = -psi_v
    n_mu' = S(Y_mu) - S.(Y_eta)
    A(lambda)'' - V(Y_lambda)' + Q(Y_lambda) - Q.(Y_mu) - Q.(Y_eta') = psi_q
    n_lambda' = S(Y_lambda) - S.(Y_mu) - S.(Y_eta') - psi_s

so that psi_v and psi_v' are never differentiated in time. Without s and with constant m these are
(2.6), whose second line is printed with - c~' eta' + k~ eta for + c~' eta' - k~' eta. Lambda =
lambda + mu' + eta'' is the multiplier of R, n_lambda + n_mu' + n_eta'' that of s' = g: with these,
dJ/dp = phi_p + integral of psi_p - Lambda^T R_p + n^T g_p, and likewise dJ/df(t). The costates are

    c_v = A(lambda + mu') + V(Y_eta') - Q(Y_eta)
    c_q = V(Y_lambda) - A(lambda)' + Q(Y_mu) + Q(Y_eta')
    c_s = n_lambda + S(Y_mu) + S(Y_eta')

and the conditions at the end are c = phi_x with lambda = lambda' = mu' = eta' = n_mu = n_eta = 0:
without s, mu = k~^-T phi_q (printed without k~) and eta = -k~^-T phi_v.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.declared import check_atoms
from kinesym.symbolic.given import shown
from kinesym.symbolic.model import KINKS, Model
from kinesym.symbolic.names import dynamicsymbols, name_of, names_of, suggest, t
from kinesym.symbolic.objective import Objective, at_end, at_start
from kinesym.symbolic.tape import Expressions, Tape

FORMS = ("first-order", "second-order")

Vector: TypeAlias = sp.Matrix  # one column


@dataclass(frozen=True)
class Adjoint:
    """The adjoint model and the meaning of its states, inputs and outputs.

    model : in reversed time T - t from 0 on. Its inputs are the states, inputs and signals of the
        forward run under their own names, and `slopes`. Rates (lambda_dot_q) are with respect to t.
    signals : functions of time that only the objective contains.
    slopes : {input of the adjoint: the input or signal whose time derivative it is}.
    costates : {state x: state or output of the adjoint that is dJ/dx(t)}.
    terminal : states of the adjoint that need not be zero at the end; they follow from the linear
        equations dJ/dx(T) = dphi/dx.
    densities : {parameter or input: output of the adjoint, the integrand of dJ/dp or dJ/df(t)}.
    ends : {state or parameter: output of the adjoint, dphi/dx or dphi/dp at the end}, where it is
        not identically zero.
    multipliers : outputs of the adjoint, Lambda of each equation of motion.
    psi, phi, duration : outputs of the adjoint: integrand, terminal cost, and at the end dJ/dT.
    zero : names of conjugate variables that vanish identically and are no states of the adjoint.
    end_time : parameter of the adjoint that is T, if time appears explicitly.
    """

    model: Model
    signals: Sequence[str]
    slopes: Mapping[str, str]
    costates: Mapping[str, str]
    terminal: Sequence[str]
    densities: Mapping[str, str]
    ends: Mapping[str, str]
    multipliers: Sequence[str]
    psi: str
    phi: str
    duration: str
    zero: Sequence[str]
    end_time: str | None


def adjoint(
    model: Model,
    objective: Objective,
    unknown: Iterable[sp.Symbol | str] = (),
    form: str = "first-order",
    hold: Iterable[str] = (),
) -> Adjoint:
    """The adjoint of `model` for `objective`, with the integrand of dJ/dp for `unknown` parameters.

    form : "first-order" for any explicit model, or "second-order" (lambda, mu, eta) for equations
        of motion. hold : inputs and signals that are constant between nodes (zero-order hold).

    Barauskas, Krusinskiene 2005, equations (2.3) to (2.8), corrected; see the module. Raises
    `ValueError` naming what has no adjoint of this form, and the remedy.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form {shown(form)}; choose one of {', '.join(FORMS)}")
    parameters = _unknown(model, unknown)
    system = _System(model, objective, frozenset(hold))
    build = _first_order if form == "first-order" else _second_order
    return _assemble(system, build(system, [*parameters, *system.inputs]))


# -- the forward problem in plain symbols ------------------------------------------------------


class _System:
    """Equations and objective in plain symbols on a tape, where x' is defined by the equations."""

    def __init__(self, model: Model, objective: Objective, hold: frozenset[str]) -> None:
        _check_objective(model, objective)
        self.model, self.hold = model, hold
        signals = objective.integrand.atoms(AppliedUndef) | objective.terminal.atoms(AppliedUndef)
        self.signals = sorted(signals - {*model.states, *model.inputs}, key=name_of)
        moving = [*model.states, *model.inputs, *self.signals]
        intermediates = [name_of(s) for s, _ in model.intermediates]
        self.tape = Tape([*map(name_of, moving), *model.parameter_names, *intermediates])
        self.plain: dict[sp.Basic, sp.Symbol] = {x: sp.Symbol(name_of(x)) for x in moving}
        self.plain |= {dx: sp.Symbol(f"{name_of(dx.expr)}'") for dx in model.derivatives}
        self.states = [self.plain[x] for x in model.states]
        self.inputs = [self.plain[u] for u in model.inputs]
        self.rates = [self.plain[dx] for dx in model.derivatives]
        for symbol, expression in model.intermediates:
            self.tape.definitions[symbol] = expression.xreplace(self.plain)
        self.equations = [e.xreplace(self.plain) for e in model.equations]
        self.psi = objective.integrand.xreplace(self.plain)
        self.phi = objective.terminal.xreplace(self.plain)
        if self.tape.variables([self.phi]) & set(self.rates):
            raise ValueError(
                "the terminal cost contains a derivative of a state; write it with the states"
            )
        self.mass = self._mass()
        self._define_rates()

    def _mass(self) -> list[dict[int, sp.Expr]]:
        """Rows {column: entry} of F_x', checked not to depend on x'."""
        rows = []
        for number, equation in enumerate(self.equations):
            row = self.tape.gradient(equation, self.rates)
            if self.tape.variables(row) & set(self.rates):
                raise ValueError(
                    f"model {self.model.name}: x' enters equation {number} nonlinearly and cannot "
                    "be solved for; write the equation so that it is linear in x'"
                )
            rows.append({j: self.tape.define(e) for j, e in enumerate(row) if e != 0})
        return rows

    def _define_rates(self) -> None:
        rest = self.tape.replace(self.equations, dict.fromkeys(self.rates, sp.S.Zero))
        try:
            solution = self.tape.solve(self.mass, [-e for e in rest])
        except ArithmeticError as error:
            name = self.model.state_names[error.args[0]]
            raise ValueError(
                f"model {self.model.name}: state {name} has no derivative that the equations "
                "determine; the adjoint of algebraic states is not supported, eliminate them"
            ) from None
        self.tape.definitions |= dict(zip(self.rates, solution, strict=True))

    @cached_property
    def slopes(self) -> dict[sp.Symbol, sp.Symbol]:
        """{input or signal: its time derivative}."""
        moving = [*self.inputs, *(self.plain[s] for s in self.signals)]
        return {u: sp.Symbol(self.tape.unique(f"{u.name}_slope")) for u in moving}

    @cached_property
    def flow(self) -> dict[sp.Symbol, sp.Expr]:
        """{symbol: its total time derivative} for everything that moves."""
        return {**dict(zip(self.states, self.rates, strict=True)), **self.slopes, t: sp.S.One}

    def duration(self) -> sp.Expr:
        """dJ/dT = psi + phi_t + phi_x x', with inputs and signals as functions of absolute time."""
        held = {u: sp.S.Zero for u in self.slopes if u.name in self.hold}
        return self.psi + self.tape.along([self.phi], {**self.flow, **held})[0]


def _check_objective(model: Model, objective: Objective) -> None:
    """Only integrals and terminal costs, of declared symbols, and nothing with a kink."""
    if not isinstance(objective, Objective):
        raise ValueError(f"the objective {shown(objective)} is not made of Integral or Terminal")
    if objective.least_squares:
        raise ValueError(
            "the continuous adjoint needs an objective of Integral and Terminal; "
            "write the least squares as an integral"
        )
    expressions = {f"equation {i}": e for i, e in enumerate(model.equations)}
    expressions |= {f"intermediate {name_of(s)}": e for s, e in model.intermediates}
    costs = {"the integrand": objective.integrand, "the terminal cost": objective.terminal}
    if any(e.atoms(at_start, at_end) for e in costs.values()):
        raise ValueError(
            "at_start and at_end belong into boundary conditions, not into the "
            "objective; Terminal(...) is taken at the end anyway"
        )
    for where, expression in {**expressions, **costs}.items():
        kinks = sorted(expression.atoms(*KINKS), key=str)
        if kinks:
            raise ValueError(
                f"{where} contains {kinks[0]}: sensitivity is not defined at kinks; "
                f"smooth {kinks[0].func.__name__} or mark events"
            )
    known = {*model.states, *model.inputs, *model.parameters, t}
    known |= {s for s, _ in model.intermediates}
    for where, expression in costs.items():
        atoms = set(expression.atoms(sp.Symbol, AppliedUndef, sp.Derivative))
        signals = {a for a in atoms if isinstance(a, AppliedUndef) and a.args == (t,)}
        check_atoms(atoms, known | signals, set(model.derivatives), where)
    impulses = objective.terminal.atoms(AppliedUndef) & set(model.inputs)
    if impulses:
        name = name_of(min(impulses, key=name_of))
        raise ValueError(
            f"the terminal cost contains input {name}, so that dJ/d{name}(t) has an "
            "impulse at the end; write it with the states"
        )


def _unknown(model: Model, unknown: Iterable[sp.Symbol | str]) -> list[sp.Symbol]:
    names = names_of(unknown, "unknown")
    for name in names:
        if name not in model.parameter_names:
            raise ValueError(
                f"unknown: {name} is no parameter of model {model.name}; "
                f"{suggest(name, model.parameter_names)}"
            )
    return [p for p in model.parameters if name_of(p) in names]


# -- the two forms -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """What a form is made of, in plain symbols; x' means dx/dt, not yet reversed."""

    states: Sequence[sp.Symbol]
    equations: Expressions
    costates: Expressions
    terminal: Sequence[sp.Symbol]
    densities: Mapping[sp.Symbol, sp.Expr]
    multipliers: Mapping[str, sp.Expr]
    zero: Sequence[sp.Symbol] = ()


def _rate(x: sp.Symbol) -> sp.Symbol:
    return sp.Symbol(f"{x.name}'")


def _first_order(system: _System, wrt: Sequence[sp.Symbol]) -> _Form:
    """c + H_x' = 0, c' = -H_x with H = psi + w^T F."""
    tape = system.tape
    costates = [sp.Symbol(tape.unique(f"costate_{x.name}")) for x in system.states]
    psi_rates = tape.gradient(system.psi, system.rates, frozen=system.rates)
    transposed: list[dict[int, sp.Expr]] = [{} for _ in costates]
    for i, row in enumerate(system.mass):
        for j, entry in row.items():
            transposed[j][i] = entry
    right = [-c - e for c, e in zip(costates, psi_rates, strict=True)]
    multipliers = [tape.name(w) for w in tape.solve(transposed, right)]
    hamiltonian = system.psi + _dot(multipliers, system.equations)
    constant = {*system.rates, *tape.symbols(multipliers)}
    gradient = tape.gradient(hamiltonian, [*system.states, *wrt], constant)
    n = len(costates)
    return _Form(
        states=costates,
        equations=[_rate(c) + h for c, h in zip(costates, gradient[:n], strict=True)],
        costates=list(costates),
        terminal=costates,
        densities=dict(zip(wrt, gradient[n:], strict=True)),
        multipliers={},
    )


@dataclass(frozen=True)
class _Motion:
    """Second-order structure: q' = v, R(v', v, q, s, ...) = 0 and s' = g(v, q, s, ...)."""

    q: list[sp.Symbol]
    v: list[sp.Symbol]
    s: list[sp.Symbol]
    accelerations: list[sp.Symbol]
    residual: Expressions
    growth: list[sp.Symbol]  # s'


def _motion(system: _System) -> _Motion:
    """The second-order structure of a model; raises `ValueError` if it has none.

    A pair is q' - v = 0 where v' is in no such equation itself: of z' = u, u' = v only the second.
    States in no pair are the s.
    """
    of = dict(zip(system.states, system.rates, strict=True))
    equal = {
        number: (q, v)
        for number, equation in enumerate(system.equations)
        for q in system.states
        for v in system.states
        if equation in (of[q] - v, v - of[q])
    }
    coordinates = {q for q, _ in equal.values()}
    pairs: dict[sp.Symbol, sp.Symbol] = {}  # {v: q}
    for q, v in equal.values():
        if v not in coordinates:
            pairs.setdefault(v, q)
    if not pairs:
        raise ValueError(
            f"model {system.model.name} has no equation q' - v = 0 and so is not of "
            "second order; use form='first-order'"
        )
    s = [x for x in system.states if x not in pairs and x not in pairs.values()]
    residual = _equations_of_motion(system, list(pairs), s)
    accelerations = [of[v] for v in pairs]
    return _Motion(
        list(pairs.values()), list(pairs), s, accelerations, residual, [of[x] for x in s]
    )


def _equations_of_motion(
    system: _System, v: Sequence[sp.Symbol], s: Sequence[sp.Symbol]
) -> Expressions:
    """The equations with v', which must not contain s'; they are as many as there are v."""
    columns = {x: j for j, x in enumerate(system.states)}
    fast, slow = {columns[x] for x in v}, {columns[x] for x in s}
    rows = [i for i, row in enumerate(system.mass) if fast & set(row)]
    for i in rows:
        if slow & set(system.mass[i]):
            raise ValueError(
                f"model {system.model.name}: equation {i} contains rates of both {_names(v)} and "
                f"{_names(s)}, which the second-order form does not know; use form='first-order'"
            )
    return [system.equations[i] for i in rows]


def _names(symbols: Iterable[sp.Symbol]) -> str:
    return ", ".join(str(x.name) for x in symbols)


def _dot(a: Iterable[sp.Expr], b: Iterable[sp.Expr]) -> sp.Expr:
    return sp.Add(*(x * y for x, y in zip(a, b, strict=True)))


class _Operator:
    """Q, V, S, A of a pair Y = (y, n): gradients of y^T R - n^T g, and their dotted versions."""

    def __init__(self, system: _System, motion: _Motion) -> None:
        self.system, self.motion = system, motion
        self.wrt = {"Q": motion.q, "V": motion.v, "S": motion.s, "A": motion.accelerations}

    def gradient(self, part: str, scalar: sp.Expr, constant: Iterable[sp.Symbol] = ()) -> Vector:
        """d scalar / d q, v, s or v', the others fixed; s' is a function of them."""
        frozen = {*self.motion.accelerations, *constant}
        return _vector(self.system.tape.gradient(scalar, self.wrt[part], frozen))

    def __call__(self, part: str, y: Vector, n: Vector | None = None, dots: int = 0) -> Vector:
        """One of Q, V, S, A; `dots` total time derivatives of its coefficients, Y constant."""
        tape, motion = self.system.tape, self.motion
        n = sp.zeros(len(motion.s), 1) if n is None else n
        constant = tape.symbols([*y, *n])
        result = self.gradient(part, _dot(y, motion.residual) - _dot(n, motion.growth), constant)
        for _ in range(dots):
            result = _vector(tape.along(list(result), self.system.flow, constant))
        return result


@dataclass(frozen=True)
class _Level:
    """One of lambda, mu, eta: y with its rates per coordinate, and n per further state."""

    y: Vector
    dot: Vector
    ddot: Vector
    n: Vector

    @classmethod
    def named(cls, name: str, tape: Tape, motion: _Motion) -> _Level:
        y = [sp.Symbol(tape.unique(f"{name}_{q.name}")) for q in motion.q]
        dot = [sp.Symbol(tape.unique(f"{name}_dot_{q.name}")) for q in motion.q]
        n = [sp.Symbol(tape.unique(f"{name}_{s.name}")) for s in motion.s]
        return cls(*map(_vector, (y, dot, map(_rate, dot), n)))

    def vanished(self) -> _Level:
        """The same, identically zero."""
        return _Level(*(0 * part for part in (self.y, self.dot, self.ddot, self.n)))

    @property
    def states(self) -> list[sp.Symbol]:
        return _unknowns(self.y, self.dot, self.n)

    def equations(self, motion: Vector, growth: Vector) -> Expressions:
        """y' = dot, 0 = motion (which contains ddot), n' = growth, for those that do not vanish."""
        if not self.states:
            return []
        return [*(self.y.applyfunc(_rate) - self.dot), *motion, *(self.n.applyfunc(_rate) - growth)]


def _vector(entries: Iterable[sp.Expr]) -> Vector:
    column = list(entries)
    return sp.Matrix(len(column), 1, column)


def _unknowns(*vectors: Vector) -> list[sp.Symbol]:
    return [x for vector in vectors for x in vector if isinstance(x, sp.Symbol)]


class _Conjugates:
    """lambda, mu, eta and their equations, which are those of the module's docstring."""

    def __init__(self, system: _System, motion: _Motion) -> None:
        self.tape, self.motion = system.tape, motion
        self.of = of = _Operator(system, motion)
        self.psi = {part: of.gradient(part, system.psi) for part in of.wrt}
        phi = {part: of.gradient(part, system.phi) for part in of.wrt}
        lam, mu, eta = (_Level.named(x, self.tape, motion) for x in ("lambda", "mu", "eta"))
        states = {*mu.states, *eta.states}
        if not any([*self.psi["A"], *phi["V"]]):
            eta = eta.vanished()
        self.eta_n = self._named(of("S", eta.y, eta.n))
        # what drives mu: dotted terms of eta, psi_v and the conditions at the end
        forces = of("V", eta.dot, self.eta_n, dots=1) - of("Q", eta.y, eta.n, dots=1)
        self.mu_forces, growth = forces + self.psi["V"], -of("S", eta.y, eta.n, dots=1)
        if not any([*self.mu_forces, *growth, *phi["Q"], *phi["V"], *phi["S"]]):
            mu = mu.vanished()
        self.mu_n = self._named(of("S", mu.y, mu.n) + growth)
        passed = of("S", mu.y, mu.n, dots=1) + of("S", eta.dot, self.eta_n, dots=1)
        self.lam_n = self._named(of("S", lam.y, lam.n) - passed - self.psi["S"])
        self.lam, self.mu, self.eta = lam, mu, eta
        self.states = [*eta.states, *mu.states, *lam.states]
        self.zero = sorted(states - set(self.states), key=lambda x: str(x.name))
        _check_mass(system, of("A", lam.y, dots=1))

    def _named(self, vector: Vector) -> Vector:
        return vector.applyfunc(self.tape.name)

    def equations(self) -> Expressions:
        of, psi, lam, mu, eta = self.of, self.psi, self.lam, self.mu, self.eta
        eta_motion = (
            of("A", eta.ddot) - of("V", eta.dot, self.eta_n) + of("Q", eta.y, eta.n) - psi["A"]
        )
        mu_motion = (
            of("A", mu.ddot)
            + of("A", mu.dot, dots=1)
            - of("V", mu.dot, self.mu_n)
            + of("Q", mu.y, mu.n)
            + self.mu_forces
        )
        inertia = of("A", lam.ddot) + 2 * of("A", lam.dot, dots=1) + of("A", lam.y, dots=2)
        damping = of("V", lam.dot, self.lam_n) + of("V", lam.y, lam.n, dots=1)
        passed = of("Q", mu.y, mu.n, dots=1) + of("Q", eta.dot, self.eta_n, dots=1)
        lam_motion = inertia - damping + of("Q", lam.y, lam.n) - passed - psi["Q"]
        return [
            *eta.equations(eta_motion, self.eta_n),
            *mu.equations(mu_motion, self.mu_n),
            *lam.equations(lam_motion, self.lam_n),
        ]

    def costates(self) -> dict[sp.Symbol, sp.Expr]:
        """dJ/dx(t) for the states q, v, s."""
        of, motion, lam, mu, eta = self.of, self.motion, self.lam, self.mu, self.eta
        eta_dot = (eta.dot, self.eta_n)
        c_v = of("A", lam.y + mu.dot) + of("V", *eta_dot) - of("Q", eta.y, eta.n)
        c_q = (
            of("V", lam.y, lam.n)
            - of("A", lam.dot)
            - of("A", lam.y, dots=1)
            + of("Q", mu.y, mu.n)
            + of("Q", *eta_dot)
        )
        c_s = lam.n + of("S", mu.y, mu.n) + of("S", *eta_dot)
        return dict(zip([*motion.q, *motion.v, *motion.s], [*c_q, *c_v, *c_s], strict=True))


def _second_order(system: _System, wrt: Sequence[sp.Symbol]) -> _Form:
    """lambda, mu, eta; Lambda = lambda + mu' + eta'' multiplies R, c_s multiplies s' = g."""
    tape, motion = system.tape, _motion(system)
    conjugates = _Conjugates(system, motion)
    lam, mu, eta = conjugates.lam, conjugates.mu, conjugates.eta
    costates = conjugates.costates()
    total = [tape.name(e) for e in lam.y + mu.dot + eta.ddot]
    filters = [tape.name(costates[s]) for s in motion.s]
    scalar = system.psi - _dot(total, motion.residual) + _dot(filters, motion.growth)
    constant = {*motion.accelerations, *tape.symbols([*total, *filters])}
    return _Form(
        states=conjugates.states,
        equations=conjugates.equations(),
        costates=[costates[x] for x in system.states],
        terminal=_unknowns(eta.y, mu.y, lam.n),
        densities=dict(zip(wrt, tape.gradient(scalar, wrt, constant), strict=True)),
        multipliers={f"Lambda_{q.name}": e for q, e in zip(motion.q, total, strict=True)},
        zero=conjugates.zero,
    )


def _check_mass(system: _System, mass_dot: Vector) -> None:
    """The second time derivative of a mass matrix that depends on inputs has impulses."""
    slopes = {slope: u for u, slope in system.slopes.items()}
    moving = sorted((system.tape.variables(mass_dot) & set(slopes)), key=str)
    if moving:
        raise ValueError(
            f"model {system.model.name}: the mass matrix depends on {slopes[moving[0]].name}, "
            "which has no second time derivative at the nodes; use form='first-order'"
        )


# -- back to functions of time -----------------------------------------------------------------


def _assemble(system: _System, form: _Form) -> Adjoint:
    """The model in reversed time that `form` describes."""
    outputs: dict[str, sp.Expr] = {}

    def output(name: str, expression: sp.Expr) -> str:
        name = system.tape.unique(name)
        outputs[name] = expression
        return name

    unknown = [p for p in form.densities if p in system.model.parameters]
    ends = [*system.states, *unknown]
    phi_x = zip(ends, system.tape.gradient(system.phi, ends), strict=True)
    meaning: dict[str, Any] = {
        "multipliers": [output(name, e) for name, e in form.multipliers.items()],
        "costates": {
            x.name: c.name if c in form.states else output(f"costate_{x.name}", c)
            for x, c in zip(system.states, form.costates, strict=True)
        },
        "densities": {x.name: output(f"dJ_d{x.name}", e) for x, e in form.densities.items()},
        "ends": {x.name: output(f"dphi_d{x.name}", e) for x, e in phi_x if e != 0},
        "psi": output("psi", system.psi),
        "phi": output("phi", system.phi),
        "duration": output("dJ_dT", system.duration()),
    }
    used = system.tape.variables([*form.equations, *outputs.values()])
    slopes = {slope: u for u, slope in system.slopes.items() if slope in used}
    _check_slopes(system, slopes.values())
    end = sp.Symbol(system.tape.unique("T")) if t in used else None
    return Adjoint(
        model=_reversed_model(system, form, outputs, used, end),
        signals=[name_of(x) for x in system.signals],
        slopes={slope.name: u.name for slope, u in slopes.items()},
        terminal=[x.name for x in form.terminal],
        zero=[x.name for x in form.zero],
        end_time=end.name if end else None,
        **meaning,
    )


def _reversed_model(
    system: _System,
    form: _Form,
    outputs: Mapping[str, sp.Expr],
    used: set[sp.Symbol],
    end: sp.Symbol | None,
) -> Model:
    """Equations and outputs of a form as a model in T - t; only what is used is declared."""
    model, tape = system.model, system.tape
    functions = _functions(system, form, end)
    slopes = [functions[slope] for slope in system.slopes.values() if slope in used]
    moving = [*model.states, *model.inputs, *system.signals]
    parameters = [p for p in model.parameters if p in used]
    steps = tape.needed([*form.equations, *outputs.values()])
    return Model(
        name=f"{model.name}_adjoint",
        states=[functions[x] for x in form.states],
        inputs=[*(x for x in moving if system.plain[x] in used), *slopes],
        parameters=[*parameters, *([end] if end else [])],
        equations=[e.xreplace(functions) for e in form.equations],
        outputs={name: e.xreplace(functions) for name, e in outputs.items()},
        intermediates=[
            (functions.get(s, s), tape.definitions[s].xreplace(functions)) for s in steps
        ],
        values={p: model.values[p.name] for p in parameters if p.name in model.values},
    )


def _functions(system: _System, form: _Form, end: sp.Symbol | None) -> dict[sp.Basic, sp.Basic]:
    """From plain symbols to functions of reversed time."""
    moving = {*system.model.states, *system.model.inputs, *system.signals}
    functions: dict[sp.Basic, sp.Basic] = {system.plain[x]: x for x in moving}
    functions |= {slope: dynamicsymbols(slope.name) for slope in system.slopes.values()}
    for x in form.states:
        functions[x] = dynamicsymbols(x.name)
        functions[_rate(x)] = -functions[x].diff(t)
    for x, rate in zip(system.states, system.rates, strict=True):
        functions[rate] = sp.Symbol(system.tape.unique(f"{x.name}_rate"))
    return functions if end is None else {**functions, t: end - t}


def _check_slopes(system: _System, moving: Iterable[sp.Symbol]) -> None:
    """A held input jumps at the nodes: its time derivative is an impulse there."""
    held = [u.name for u in moving if u.name in system.hold]
    if held:
        raise ValueError(
            f"model {system.model.name}: damping or stiffness depends on {held[0]}, which jumps at "
            "the nodes (zero-order hold), so that their time derivatives are impulses there; use "
            "form='first-order'"
        )
