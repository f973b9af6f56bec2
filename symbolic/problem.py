"""A model with an objective, unknowns and conditions: what is to be transcribed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.declared import check_atoms
from kinesym.symbolic.delayed import as_it_is
from kinesym.symbolic.expression import atoms_of, parts_of
from kinesym.symbolic.hybrid.contacts import Contact, flags_of, forces_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known, name_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start, integral, of_both_ends
from kinesym.symbolic.schemes import CollocationScheme, ExplicitScheme
from kinesym.symbolic.structure import random_jacobian, rank
from kinesym.symbolic.table import Tables

#: Types of atoms of expressions.
_ATOMS = (sp.Symbol, sp.Derivative, AppliedUndef)
#: Slopes of what follows inputs below are zero: at random points, where all else is about 1 [-].
_NOT_ZERO = 1e-10


class ResetMap(NamedTuple):
    """States after an event as expressions of those before it. after : signal, held, that rises
    from 0 to 1 at the node of the event."""

    after: AppliedUndef
    states: tuple[tuple[AppliedUndef, sp.Expr], ...]


class Resets(NamedTuple):
    """Resets of states x at nodes of events, each map after the other. jumps : states with what has
    been added to them, so that they are x + J. inputs : held inputs u in these, and the state whose
    jumps each sums up."""

    maps: tuple[ResetMap, ...] = ()
    jumps: tuple[tuple[AppliedUndef, sp.Expr], ...] = ()
    inputs: tuple[tuple[AppliedUndef, AppliedUndef], ...] = ()


#: No resets.
NO_RESETS = Resets()


class PriorTerm(NamedTuple):
    """Term rho(e) - 2 power log p + 2 rate p of an objective, -2 log of the density of a parameter
    p but for a constant, with e = (f(p) - mean)/deviation.

    rho : "square", "laplace", 2 |e|, or "cauchy", 2 log(1 + e^2). of_log : whether f(p) is log p,
    else it is p. power, rate : whether these may be other than zero.
    """

    rho: str = "square"
    of_log: bool = False
    power: bool = False
    rate: bool = False

    @property
    def squared(self) -> bool:
        """Whether it is a square."""
        return self.rho == "square" and not (self.power or self.rate)


@dataclass(frozen=True)
class Problem:
    """The symbolic side of a collocation problem; all numbers live elsewhere.

    unknown_parameters, unknown_inputs : what is solved for, besides the states.
    owners : labels of unknown parameters that have a value per owner, not one for all trials.
    log_scale : unknown parameters of which z has the logarithm. priors : what priors of unknown
        parameters add to the objective, by name; their numbers are of the trials.
    signals : trajectories that are known, by name: the other inputs of the model, and functions of
        time that appear only in the objective or in path conditions.
    measurements : measured states, inputs and outputs, by name. spreads : standard deviations that
        are expressions, by measurement. sides : of censored measurements, whose samples are limits,
        -1 if what was measured is below, 1 above. slots : of those that have times of
        their own, how many samples an interval may hold. delays : of those the unknown parameter
        that says how long before a sample was what it shows [s].
    path : expressions that are bounded at every node and stage; boundary : expressions of
        `at_start(...)` and `at_end(...)`.
    held : inputs and signals that are constant between nodes (zero-order hold). linear : unknown
        inputs with straight lines between nodes; others have a value at each stage of the scheme.
    free_duration : whether the duration of a trial is unknown.
    links : expressions of `at_end(...)` of each trial and `at_start(...)` of the next one; cycle :
        of the last trial and the first one.
    contacts : of a hybrid model whose phases the trials are: their forces are unknown inputs, and
        signals `closed_NAME`, `stuck_NAME` (with friction) and `hit_NAME`, 0 or 1: which are
        closed in a trial, which of them do not slide, and which are hit at its start. The states
        then continue from trial to trial, through impacts.
    steps : inputs with values at nodes, each with an expression of held inputs: its rate from node
        to node less that is bounded in each interval.
    resets : of states that held inputs follow, see `Resets`.
    moments : held inputs, each with an expression and a time [s] that is a parameter: the input
        rises by the value of the expression at that time in the interval that has it.
    solved : measurements with x' or algebraic states of which samples are where inputs jump: these
        are solved for from the equations at the nodes, as they are after the jump.

    Equal problems, of one and the same model, have equal programs. Raises `ValueError` naming what
    does not fit.
    """

    model: Model
    scheme: CollocationScheme | ExplicitScheme
    objective: Objective
    unknown_parameters: Sequence[sp.Symbol]
    unknown_inputs: Sequence[AppliedUndef] = ()
    signals: Sequence[AppliedUndef] = ()
    measurements: Mapping[str, sp.Expr] = field(default_factory=dict, hash=False)
    spreads: Mapping[str, sp.Expr] = field(default_factory=dict, hash=False)
    sides: Mapping[str, int] = field(default_factory=dict, hash=False)
    path: Sequence[sp.Expr] = ()
    boundary: Sequence[sp.Expr] = ()
    held: frozenset[str] = frozenset()
    linear: frozenset[str] = frozenset()
    free_duration: bool = False
    links: Sequence[sp.Expr] = ()
    cycle: Sequence[sp.Expr] = ()
    contacts: Sequence[Contact] = ()
    owners: Mapping[str, str] = field(default_factory=dict, hash=False)
    log_scale: frozenset[str] = frozenset()
    priors: Mapping[str, PriorTerm] = field(default_factory=dict, hash=False)
    slots: Mapping[str, int] = field(default_factory=dict, hash=False)
    delays: Mapping[str, sp.Symbol] = field(default_factory=dict, hash=False)
    steps: Sequence[tuple[AppliedUndef, sp.Expr]] = ()
    moments: Sequence[tuple[AppliedUndef, sp.Expr, sp.Symbol]] = ()
    resets: Resets = NO_RESETS
    solved: Collection[str] = frozenset()

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            object.__setattr__(self, f.name, tuple(value) if isinstance(value, list) else value)
        known, moving = self.known_symbols, moving_symbols(self.model)
        rates = set(self.model.derivatives)
        terms = {"integrand": self.objective.integrand, "terminal cost": self.objective.terminal}
        paid = self.objective.terminal
        if paid.has(at_start, at_end) and not paid.has(integral):
            del terms["terminal cost"]
            _check_boundary(of_both_ends(paid), known, rates, moving, "terminal cost")
        for number, condition in enumerate(self.path):
            terms[f"path condition {number}"] = condition
        for _, condition, time in self.moments:
            terms[f"the condition at {time}"] = condition
        for what, expression in terms.items():
            if expression.atoms(at_start, at_end, integral):
                raise ValueError(
                    f"{what} contains at_start, at_end or integral, which "
                    "belong in boundary conditions, or into Terminal (but no integral)"
                )
            check_atoms(atoms_of(expression), known, rates, what)
        for what, conditions in (
            ("boundary condition", self.boundary),
            ("link", self.links),
            ("cycle condition", self.cycle),
        ):
            for number, condition in enumerate(conditions):
                _check_boundary(condition, known, rates, moving, f"{what} {number}")
        if self.moves(self.objective.terminal):
            raise ValueError(
                "terminal cost contains a derivative of a state; at a node it is not defined, "
                "write it with the states"
            )
        self._check_contacts()
        self._check_objective()
        for name, output in self.model.outputs.items():
            terms[f"model {self.model.name}: output {name}"] = output
        self._check_algebraic(terms)

    def _check_contacts(self) -> None:
        free, signals = set(map(name_of, self.unknown_inputs)), set(map(name_of, self.signals))
        for force in map(name_of, forces_of(self.contacts)):
            if force not in free:
                raise ValueError(f"the contact force {force} must be an unknown input")
        for contact in self.contacts:
            for flag in flags_of(contact).values():
                if flag not in signals:
                    raise ValueError(f"contact {contact.name}: the signal {flag} is missing")

    def _check_algebraic(self, expressions: Mapping[str, sp.Expr]) -> None:
        """The rate of an algebraic state is nowhere: its values at stages have no slope."""
        for x in algebraic_states(self.model) if self.staged else ():
            for what, e in expressions.items():
                if e.has(x.diff(t)):
                    raise ValueError(
                        f"{what} contains the rate of {name_of(x)}, which no equation has: with "
                        f"{self.scheme.title} such an algebraic state has values at stages only, "
                        "and no rate; leave it out, or write the rate of what it follows from"
                    )

    @cached_property
    def tables(self) -> Tables:
        """The numbers of the tables in its expressions, those of the model first."""
        model, objective = self.model, self.objective
        conditions = (*self.path, *self.boundary, *self.links, *self.cycle)
        measured = (*self.measured, objective.integrand, objective.terminal)
        return model.tables.with_those_of((*measured, *conditions))

    # -- where variables live -----------------------------------------------------------------

    @cached_property
    def staged(self) -> tuple[AppliedUndef, ...]:
        """Variables with values at the stages of a collocation scheme, and nowhere else unless
        `late`: states without a rate, and unknown inputs that are neither held nor linear. At nodes
        of such a scheme they could ring, or nothing would determine them. Empty where the nodes are
        stages, as in Lobatto IIIA."""
        if not isinstance(self.scheme, CollocationScheme) or self.scheme.explicit_start:
            return ()
        return (*algebraic_states(self.model), *self._free_inputs)

    @cached_property
    def late(self) -> tuple[AppliedUndef, ...]:
        """Variables that are `staged` and have values at the nodes as well: delayed inputs in what
        is measured, so that samples are compared where they are, and delays of these that change
        along the motion. A delay that has no value at nodes itself gives none."""
        measured = atoms_of(*self.model.through(self.measured))
        known = (d for d in self.model.delays if not d.tau.atoms(*_ATOMS) & self._at_stages)
        pairs = ((d.symbol, d.course) for d in known if d.symbol in measured)
        return tuple(u for pair in pairs for u in pair if u in self.staged)

    @property
    def _free_inputs(self) -> tuple[AppliedUndef, ...]:
        fixed = self.held | self.linear
        return tuple(u for u in self.unknown_inputs if name_of(u) not in fixed)

    @cached_property
    def node_states(self) -> tuple[AppliedUndef, ...]:
        """States with values at the nodes."""
        return tuple(x for x in self.model.states if x not in self.staged)

    @cached_property
    def node_inputs(self) -> tuple[AppliedUndef, ...]:
        """Unknown inputs with values at the nodes."""
        only = {*self.staged} - {*self.late}
        return tuple(u for u in self.unknown_inputs if u not in only)

    @cached_property
    def inner_inputs(self) -> tuple[AppliedUndef, ...]:
        """Unknown inputs with values at the nodes and within intervals (Lobatto IIIA)."""
        if not isinstance(self.scheme, CollocationScheme) or not self.scheme.explicit_start:
            return ()
        return self._free_inputs

    @cached_property
    def staged_arrays(self) -> tuple[str, ...]:
        """Names of the arrays of `staged`, one for each stage."""
        if not self.staged or not isinstance(self.scheme, CollocationScheme):
            return ()
        return tuple(f"a{k + 1}" for k in range(self.scheme.stages))

    @property
    def arrays(self) -> list[tuple[str, tuple[AppliedUndef, ...], float | None]]:
        """Name, members and place of each array of z of a trial; a place is a share of the
        interval, None for what has a value at each node."""
        found: list[tuple[str, tuple[AppliedUndef, ...], float | None]] = [
            ("x", self.node_states, None),
            ("u", self.node_inputs, None),
        ]
        if isinstance(self.scheme, CollocationScheme):
            for k, place in enumerate(self.scheme.inner, start=1):
                found += [(f"xi{k}", self.node_states, place), (f"ui{k}", self.inner_inputs, place)]
            pairs = zip(self.staged_arrays, self.scheme.nodes, strict=False)
            found += [(name, self.staged, place) for name, place in pairs]
        return [array for array in found if array[1]]

    @cached_property
    def inside(self) -> frozenset[sp.Basic]:
        """Symbols without a value at a node: `staged` but for `late`, x' unless nodes are stages,
        and intermediates that depend on these."""
        return self._with_rates({*self.staged} - {*self.late})

    @cached_property
    def _at_stages(self) -> frozenset[sp.Basic]:
        """`inside`, and what depends on `late`."""
        return self._with_rates({*self.staged})

    def _with_rates(self, staged: set[AppliedUndef]) -> frozenset[sp.Basic]:
        at_nodes = not isinstance(self.scheme, CollocationScheme) or self.scheme.explicit_start
        return depending(self.model, {*staged, *(() if at_nodes else self.model.derivatives)})

    def on_interval(self, e: sp.Expr) -> bool:
        """Whether an expression has no value at nodes."""
        return bool(e.atoms(*_ATOMS) & self.inside)

    def moves(self, e: sp.Expr) -> bool:
        """Whether an expression contains x', directly or through intermediates."""
        return bool(e.atoms(sp.Symbol, sp.Derivative) & moving_symbols(self.model))

    def sampled(self, between: bool) -> dict[str, sp.Expr]:
        """Measured expressions at the nodes, or `between` them, by name."""
        every = ((name, e) for name, e in self.measurements.items() if name not in self.slots)
        return {name: e for name, e in every if self._measured_within(name) == between}

    def _measured_within(self, name: str) -> bool:
        """Whether a measurement, or its standard deviation, has no value at nodes."""
        return name not in self.solved and any(map(self.on_interval, self.behind(name)))

    def follows(self, e: sp.Expr, inputs: Collection[str]) -> bool:
        """Whether an expression contains x' or algebraic states that jump where these inputs do."""
        instant = (*self.model.derivatives, *algebraic_states(self.model))
        if not e.atoms(*_ATOMS) & depending(self.model, instant):
            return False
        return bool(e.atoms(*_ATOMS) & depending(self.model, following(self.model, inputs)))

    def behind(self, name: str) -> list[sp.Expr]:
        """The expressions of a measurement: its own, and its standard deviation if that is one."""
        return [rows[name] for rows in (self.measurements, self.spreads) if name in rows]

    @property
    def measured(self) -> list[sp.Expr]:
        """The expressions of all measurements."""
        return [*self.measurements.values(), *self.spreads.values()]

    @cached_property
    def timed(self) -> dict[str, sp.Expr]:
        """Measured expressions with sample times of their own, by name."""
        return {name: e for name, e in self.measurements.items() if name in self.slots}

    @cached_property
    def path_at_nodes(self) -> list[int]:
        """Numbers of the path conditions that hold at nodes; those of what is `late` do not, but
        for the ones that say what a delay is."""
        courses = {delay.course for delay in self.model.delays}.intersection(self.late)
        return [
            k
            for k, e in enumerate(self.path)
            if not self._within(e) or e.atoms(AppliedUndef) & courses
        ]

    def _within(self, e: sp.Expr) -> bool:
        """Whether a path condition holds at the stages."""
        return bool(e.atoms(*_ATOMS) & self._at_stages)

    @cached_property
    def path_within(self) -> list[tuple[int, int]]:
        """Number of a path condition and of the place where it holds within intervals: a stage of
        `scheme.nodes` if it has no value at nodes, else a place of `scheme.inner`."""
        if not isinstance(self.scheme, CollocationScheme):
            return []
        stages, inner = range(self.scheme.stages), range(len(self.scheme.inner))
        return [
            (k, place)
            for k, e in enumerate(self.path)
            for place in (stages if self._within(e) else inner)
        ]

    def place_within(self, number: int, place: int) -> float:
        """Place of a path condition of `path_within`, as a share of the interval."""
        assert isinstance(self.scheme, CollocationScheme)
        stages = self._within(self.path[number])
        return float((self.scheme.nodes if stages else self.scheme.inner)[place])

    @property
    def known_symbols(self) -> set[sp.Basic]:
        """Everything an objective or condition may contain."""
        return self.model.symbols | {*self.signals}

    @cached_property
    def parameter_arrays(self) -> dict[str, tuple[sp.Symbol, ...]]:
        """Unknown parameters by the arrays of z that they belong to: "p" of all trials, then
        "p_LABEL" of the owners by a label."""
        found: dict[str, tuple[sp.Symbol, ...]] = {"p": ()}
        for p in self.unknown_parameters:
            label = self.owners.get(name_of(p), "")
            array = f"p_{label}" if label else "p"
            found[array] = (*found.get(array, ()), p)
        return found

    @property
    def known_parameters(self) -> tuple[sp.Symbol, ...]:
        """Parameters of the model that are not unknown."""
        return tuple(p for p in self.model.parameters if p not in self.unknown_parameters)

    @cached_property
    def limited_inputs(self) -> list[str]:
        """Names of the unknown inputs in path conditions, which alone cannot gain anything: of all,
        if there are contacts, whose forces follow all others, as points stay closed."""
        behind = atoms_of(*self.model.through(self.path))
        return [name_of(u) for u in self.unknown_inputs if self.contacts or u in behind]

    @cached_property
    def asks_for_time(self) -> bool:
        """Whether the terminal cost has the time itself, not only functions of it."""
        terminal = self.objective.terminal
        return bool(terminal.xreplace({f: sp.Dummy() for f in terminal.atoms(AppliedUndef)}).has(t))

    @cached_property
    def aimless(self) -> bool:
        """Whether there is no objective: any motion that meets the conditions will do."""
        terms = (self.objective.integrand, self.objective.terminal)
        squares = bool(self.objective.least_squares or self.priors)
        return not squares and all(term == 0 for term in terms)

    def _check_objective(self) -> None:
        objective = self.objective
        if objective.least_squares and not self.measurements:
            raise ValueError(
                "the objective is the least squares of the measurements, but the experiment has "
                "none; give measurements or an objective"
            )
        unknown = {*self.model.states, *self.unknown_inputs, *self.unknown_parameters}
        unknown |= {s for s, _ in self.model.intermediates} | set(self.model.derivatives)
        if self.free_duration:
            unknown |= {t}
        for what in (objective.integrand, objective.terminal):
            depends = bool(atoms_of(what) & unknown) or (self.free_duration and not what.is_zero)
            if not what.is_zero and not depends and not objective.least_squares:
                raise ValueError(f"the objective {what} depends on nothing that is unknown")


@lru_cache(maxsize=16)
def moving_symbols(model: Model) -> frozenset[sp.Basic]:
    """x' and the intermediates that depend on x'."""
    return depending(model, model.derivatives)


def depending(model: Model, on: Iterable[sp.Basic]) -> frozenset[sp.Basic]:
    """`on` and the intermediates that depend on these."""
    found = set(on)
    for symbol, expression in model.intermediates if found else ():
        if expression.atoms(sp.Symbol, sp.Derivative, AppliedUndef) & found:
            found.add(symbol)
    return frozenset(found)


def known_intermediates(
    model: Model, unknown: Iterable[sp.Basic]
) -> Iterator[tuple[sp.Symbol, sp.Expr]]:
    """Intermediates that do not depend on `unknown` symbols."""
    absent = depending(model, unknown)
    return ((s, e) for s, e in model.intermediates if s not in absent)


def following(model: Model, inputs: Collection[str]) -> list[sp.Basic]:
    """The x' and algebraic states that the equations bind to inputs of these names at each time;
    all of them where the equations at one time do not determine them."""
    algebraic = algebraic_states(model)
    pairs = zip(model.states, model.derivatives, strict=True)
    instant: list[sp.Basic] = [x if x in algebraic else rate for x, rate in pairs]
    chosen = [u for u in model.inputs if name_of(u) in inputs]
    slopes = random_jacobian(model.equations, model.intermediates, [*instant, *chosen])
    if slopes is None or rank(slopes[:, : len(instant)]) < len(instant):
        return instant
    moves = np.abs(np.linalg.solve(slopes[:, : len(instant)], slopes[:, len(instant) :]))
    return [z for z, row in zip(instant, moves, strict=True) if row.max(initial=0.0) > _NOT_ZERO]


@lru_cache(maxsize=16)
def algebraic_states(model: Model) -> tuple[AppliedUndef, ...]:
    """States whose rate is in no equation."""
    expressions = (*model.equations, *(e for _, e in model.intermediates))
    rates = parts_of(sp.Derivative, *expressions)
    return tuple(
        x for x, rate in zip(model.states, model.derivatives, strict=True) if rate not in rates
    )


def _check_boundary(
    condition: sp.Expr,
    known: set[sp.Basic],
    rates: set[sp.Derivative],
    moving: frozenset[sp.Basic],
    where: str,
) -> None:
    ends = condition.atoms(at_start, at_end)
    if not ends:
        raise ValueError(f"{where}, {condition}, has neither at_start(...) nor at_end(...)")
    free = condition.xreplace({end: sp.S.Zero for end in ends})
    for atom in sorted(atoms_of(free), key=str):
        if isinstance(atom, (AppliedUndef, sp.Derivative)) or atom == t:
            raise ValueError(f"{where} contains {atom} outside at_start(...) and at_end(...)")
    for end in ends:
        if end.args[0].atoms(sp.Symbol, sp.Derivative) & moving:
            raise ValueError(f"{where} contains a derivative of a state; write it with the states")
        check_atoms(atoms_of(end.args[0]), known, rates, where)
    check_atoms(atoms_of(free), known, rates, where)


def measured_expressions(model: Model, names: Sequence[str]) -> dict[str, sp.Expr]:
    """The expression behind each measured name: a state, an input or an output."""
    known: dict[str, sp.Expr] = {name_of(x): x for x in (*model.states, *model.inputs)}
    known.update({name: as_it_is(e) for name, e in model.outputs.items()})
    for name in names:
        what = f"measurement {name} is neither a state, an input nor an output of"
        check_known(name, known, f"{what} model {model.name}")
    return {name: known[name] for name in names}
