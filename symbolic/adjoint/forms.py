"""The two forms of the adjoint.

first-order, for any model whose x' can be solved for: with multipliers w of the equations and
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
from typing import TypeAlias

import sympy as sp

from kinesym.symbolic.adjoint.named import NamedExpressions
from kinesym.symbolic.adjoint.system import ForwardSystem

Column: TypeAlias = sp.Matrix  # one column


@dataclass(frozen=True)
class Form:
    """States and equations of an adjoint form, in plain symbols; x' means dx/dt, not yet
    reversed."""

    states: Sequence[sp.Symbol]
    equations: list[sp.Expr]
    costates: list[sp.Expr]
    terminal: Sequence[sp.Symbol]
    densities: Mapping[sp.Symbol, sp.Expr]
    multipliers: Mapping[str, sp.Expr]
    zero: Sequence[sp.Symbol] = ()


def rate_of(x: sp.Symbol) -> sp.Symbol:
    """The symbol of x'."""
    return sp.Symbol(f"{x.name}'")


def dot(a: Iterable[sp.Expr], b: Iterable[sp.Expr]) -> sp.Expr:
    """The sum of products."""
    return sp.Add(*(x * y for x, y in zip(a, b, strict=True)))


def first_order(system: ForwardSystem, wrt: Sequence[sp.Symbol]) -> Form:
    """c + H_x' = 0, c' = -H_x with H = psi + w^T F."""
    named = system.named
    costates = [sp.Symbol(named.unique(f"costate_{x.name}")) for x in system.states]
    psi_rates = named.gradient(system.psi, system.rates, frozen=system.rates)
    transposed: list[dict[int, sp.Expr]] = [{} for _ in costates]
    for i, row in enumerate(system.mass):
        for j, entry in row.items():
            transposed[j][i] = entry
    right = [-c - e for c, e in zip(costates, psi_rates, strict=True)]
    multipliers = [named.name(w) for w in named.solve(transposed, right)]
    hamiltonian = system.psi + dot(multipliers, system.equations)
    constant = {*system.rates, *named.symbols(multipliers)}
    gradient = named.gradient(hamiltonian, [*system.states, *wrt], constant)
    n = len(costates)
    return Form(
        states=costates,
        equations=[rate_of(c) + h for c, h in zip(costates, gradient[:n], strict=True)],
        costates=list(costates),
        terminal=costates,
        densities=dict(zip(wrt, gradient[n:], strict=True)),
        multipliers={},
    )


@dataclass(frozen=True)
class SecondOrderSystem:
    """Second-order structure: q' = v, R(v', v, q, s, ...) = 0 and s' = g(v, q, s, ...)."""

    q: list[sp.Symbol]
    v: list[sp.Symbol]
    s: list[sp.Symbol]
    accelerations: list[sp.Symbol]
    residual: list[sp.Expr]
    growth: list[sp.Symbol]  # s'


def second_order_system(system: ForwardSystem) -> SecondOrderSystem:
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
    return SecondOrderSystem(
        list(pairs.values()), list(pairs), s, accelerations, residual, [of[x] for x in s]
    )


def _equations_of_motion(
    system: ForwardSystem, v: Sequence[sp.Symbol], s: Sequence[sp.Symbol]
) -> list[sp.Expr]:
    """The equations with v', which must not contain s'; they are as many as there are v."""
    columns = {x: j for j, x in enumerate(system.states)}
    fast, slow = {columns[x] for x in v}, {columns[x] for x in s}
    rows = [i for i, row in enumerate(system.mass) if fast & set(row)]
    for i in rows:
        if slow & set(system.mass[i]):
            raise ValueError(
                f"model {system.model.name}: equation {i} contains rates of both {_names(v)} and "
                f"{_names(s)}, which the second-order form does not cover; use form='first-order'"
            )
    return [system.equations[i] for i in rows]


def _names(symbols: Iterable[sp.Symbol]) -> str:
    return ", ".join(str(x.name) for x in symbols)


class _Operator:
    """Q, V, S, A of a pair Y = (y, n): gradients of y^T R - n^T g, and their dotted versions."""

    def __init__(self, system: ForwardSystem, motion: SecondOrderSystem) -> None:
        self.system, self.motion = system, motion
        self.wrt = {"Q": motion.q, "V": motion.v, "S": motion.s, "A": motion.accelerations}

    def gradient(self, part: str, scalar: sp.Expr, constant: Iterable[sp.Symbol] = ()) -> Column:
        """d scalar / d q, v, s or v', the others fixed; s' is a function of them."""
        frozen = {*self.motion.accelerations, *constant}
        return _vector(self.system.named.gradient(scalar, self.wrt[part], frozen))

    def __call__(self, part: str, y: Column, n: Column | None = None, dots: int = 0) -> Column:
        """One of Q, V, S, A; `dots` total time derivatives of its coefficients, Y constant."""
        named, motion = self.system.named, self.motion
        n = sp.zeros(len(motion.s), 1) if n is None else n
        constant = named.symbols([*y, *n])
        result = self.gradient(part, dot(y, motion.residual) - dot(n, motion.growth), constant)
        for _ in range(dots):
            result = _vector(named.along(list(result), self.system.flow, constant))
        return result


@dataclass(frozen=True)
class _Conjugate:
    """One of lambda, mu, eta: y with its rates per coordinate, and n per further state."""

    y: Column
    dot: Column
    ddot: Column
    n: Column

    @classmethod
    def of(cls, name: str, named: NamedExpressions, motion: SecondOrderSystem) -> _Conjugate:
        y = [sp.Symbol(named.unique(f"{name}_{q.name}")) for q in motion.q]
        dot = [sp.Symbol(named.unique(f"{name}_dot_{q.name}")) for q in motion.q]
        n = [sp.Symbol(named.unique(f"{name}_{s.name}")) for s in motion.s]
        return cls(*map(_vector, (y, dot, map(rate_of, dot), n)))

    def vanished(self) -> _Conjugate:
        """Copy that is identically zero."""
        return _Conjugate(*(0 * part for part in (self.y, self.dot, self.ddot, self.n)))

    @property
    def states(self) -> list[sp.Symbol]:
        return _unknowns(self.y, self.dot, self.n)

    def equations(self, motion: Column, growth: Column) -> list[sp.Expr]:
        """y' = dot, 0 = motion (which contains ddot), n' = growth, for those that do not vanish."""
        if not self.states:
            return []
        return [
            *(self.y.applyfunc(rate_of) - self.dot),
            *motion,
            *(self.n.applyfunc(rate_of) - growth),
        ]


def _vector(entries: Iterable[sp.Expr]) -> Column:
    column = list(entries)
    return sp.Matrix(len(column), 1, column)


def _unknowns(*vectors: Column) -> list[sp.Symbol]:
    return [x for vector in vectors for x in vector if isinstance(x, sp.Symbol)]


class _Conjugates:
    """lambda, mu, eta and their equations, which are those of the module's docstring."""

    def __init__(self, system: ForwardSystem, motion: SecondOrderSystem) -> None:
        self.named, self.motion = system.named, motion
        self.of = of = _Operator(system, motion)
        self.psi = {part: of.gradient(part, system.psi) for part in of.wrt}
        phi = {part: of.gradient(part, system.phi) for part in of.wrt}
        lam, mu, eta = (_Conjugate.of(x, self.named, motion) for x in ("lambda", "mu", "eta"))
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

    def _named(self, vector: Column) -> Column:
        return vector.applyfunc(self.named.name)

    def equations(self) -> list[sp.Expr]:
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


def second_order(system: ForwardSystem, wrt: Sequence[sp.Symbol]) -> Form:
    """lambda, mu, eta; Lambda = lambda + mu' + eta'' multiplies R, c_s multiplies s' = g."""
    named, motion = system.named, second_order_system(system)
    conjugates = _Conjugates(system, motion)
    lam, mu, eta = conjugates.lam, conjugates.mu, conjugates.eta
    costates = conjugates.costates()
    total = [named.name(e) for e in lam.y + mu.dot + eta.ddot]
    filters = [named.name(costates[s]) for s in motion.s]
    scalar = system.psi - dot(total, motion.residual) + dot(filters, motion.growth)
    constant = {*motion.accelerations, *named.symbols([*total, *filters])}
    return Form(
        states=conjugates.states,
        equations=conjugates.equations(),
        costates=[costates[x] for x in system.states],
        terminal=_unknowns(eta.y, mu.y, lam.n),
        densities=dict(zip(wrt, named.gradient(scalar, wrt, constant), strict=True)),
        multipliers={f"Lambda_{q.name}": e for q, e in zip(motion.q, total, strict=True)},
        zero=conjugates.zero,
    )


def _check_mass(system: ForwardSystem, mass_dot: Column) -> None:
    """The second time derivative of a mass matrix that depends on inputs has impulses."""
    slopes = {slope: u for u, slope in system.slopes.items()}
    moving = sorted((system.named.variables(mass_dot) & set(slopes)), key=str)
    if moving:
        raise ValueError(
            f"model {system.model.name}: the mass matrix depends on {slopes[moving[0]].name}, "
            "which has no second time derivative at the nodes; use form='first-order'"
        )
