"""The nonlinear program of a collocation problem: structure once, then values in place.

    minimise cost(z)  subject to  lower <= z <= upper,  c_lower <= constraints(z) <= c_upper

Kernels write straight into the value arrays; index arrays come from arithmetic on one local
pattern per family. Entries of the Hessian that two intervals share (those of the node between
them) are summed by the kernels' driver, so that each entry exists once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from kinesym.base import checks
from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built, CollocationManifest
from kinesym.runtime.native import ADD, LATE, SUM, Call, Plan
from kinesym.runtime.nlp.courses import at_nodes
from kinesym.runtime.nlp.delay_rows import Lags, WithLags
from kinesym.runtime.nlp.layout import FAMILIES, Layout
from kinesym.runtime.nlp.owned import is_parameters
from kinesym.runtime.nlp.samples import Samples, all_samples
from kinesym.runtime.sparse.places import Places, places, rows
from kinesym.runtime.sparse.structure import Extended, Run, Structure, Written, assemble

_PER_THREAD = 500_000  # operations that are worth a thread


#: Known numbers of a trial by family and kernel argument (see `codegen.transcribe` for the names):
#: (array, offset, ld), scalar k of point i is at array[offset + k * ld + i].
TrialData: TypeAlias = Mapping[tuple[str, str], tuple[Array, int, int]]


@dataclass(frozen=True)
class Plans:
    """The callbacks as lists of kernel calls, which read z, multipliers, factor of the cost."""

    cost: Plan
    gradient: Plan
    constraints: Plan
    jacobian: Plan
    hessian: Plan


class Calls(NamedTuple):
    """The kernel calls of a callback by trial and family, the places of their outputs, outputs that
    none sets, how many there are, and the plan of these calls."""

    calls: Mapping[tuple[int, str], Call]
    places: Mapping[tuple[int, str], Places]
    zero: Sequence[int] | NDArray[np.intp]
    size: int
    plan: Plan


class NLP:
    """Callbacks of the nonlinear program, from kernels, the places of variables and constraints and
    the known numbers of each trial, with at most so many threads, None for `checks.threads` of the
    process; lags : the rows of delayed inputs, which have no kernels.

    `jacobian_structure` and `hessian_structure` give rows and columns of the values of the two
    matrices, `callbacks` the callbacks for compiled callers, `library` is the opened library,
    `threads` how many threads may be used.
    """

    def __init__(
        self,
        built: Built,
        layout: Layout,
        data: Sequence[TrialData],
        threads: int | None,
        lags: Lags | None = None,
    ) -> None:
        self.layout, self.built = layout, built
        self.library, self._kernels = built.library, built.manifest.kernels
        self.about = built.manifest.of(CollocationManifest)
        self._data, self.lags = data, lags
        self._asked, self.threads = threads, checks.threads(threads)
        self.n_variables, self.n_constraints = n, m = layout.n_variables, layout.n_constraints
        self._sizes = (n, m, 1)
        self._jacobian_of_kernels, jacobian = self._assembled("jacobian", self.jacobian_runs)
        self._hessian_of_kernels, hessian = self._assembled("hessian", self.hessian_runs)
        self._callbacks = {
            "cost": self._calls(
                "cost", {key: places(1, mode=SUM) for key in self.with_kernel("cost")}, [0], 1
            ),
            "gradient": self._calls("gradient", *self._gradient_places(), n),
            "constraints": self._calls(
                "constraints", self._constraint_places(), [], layout.delay_offset
            ),
            "jacobian": jacobian,
            "hessian": hessian,
        }
        self.plans = Plans(**{what: calls.plan for what, calls in self._callbacks.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        """State for pickling, without the calls, which are bound to memory."""
        return type(self), (self.built, self.layout, self._data, self._asked, self.lags)

    def with_data(self, data: Sequence[TrialData]) -> NLP:
        """Copy with other known numbers: structures stay, and calls that read none of them."""
        made = object.__new__(NLP)  # `copy` would assemble all again, as for pickles
        own = {name for name, value in vars(NLP).items() if isinstance(value, cached_property)}
        vars(made).update({k: value for k, value in vars(self).items() if k not in own})
        made._data = [
            {key: old[key] if _same(old[key], row) else row for key, row in new.items()}
            for old, new in zip(self._data, data, strict=True)
        ]
        made._callbacks = {
            what: made._calls(what, calls.places, calls.zero, calls.size, self)
            for what, calls in self._callbacks.items()
        }
        made.plans = Plans(**{what: calls.plan for what, calls in made._callbacks.items()})
        return made

    @cached_property
    def jacobian_structure(self) -> Structure | Extended:
        """Rows and columns of the values of the constraint Jacobian."""
        if self.lags is None:
            return self._jacobian_of_kernels
        rows, columns = self.lags.jacobian_structure
        return Extended(self._jacobian_of_kernels, rows + self.layout.delay_offset, columns)

    @cached_property
    def hessian_structure(self) -> Structure | Extended:
        """Rows and columns of the values of the Hessian, lower triangle."""
        if self.lags is None:
            return self._hessian_of_kernels
        return Extended(self._hessian_of_kernels, *self.lags.hessian_structure)

    @property
    def callbacks(self) -> Any:
        """Callbacks of IPOPT: plans, or functions f(z, multipliers, factor, out)."""
        return self.plans if self.lags is None else WithLags(self)

    # -- values -----------------------------------------------------------------------------

    def cost(self, z: Array) -> float:
        """The objective."""
        return float(self._called(self.plans.cost, 1, z)[0])

    def gradient(self, z: Array, out: Array | None = None) -> Array:
        """Gradient of the objective, (n_variables,)."""
        out = np.empty(self.n_variables) if out is None else out
        self.plans.gradient((z, None, None), out)
        return out

    def constraints(self, z: Array, out: Array | None = None) -> Array:
        """The constraints, (n_constraints,)."""
        out = np.empty(self.n_constraints) if out is None else out
        begin = self.layout.delay_offset
        self._called(self.plans.constraints, begin, z, out[:begin])
        if self.lags is not None:
            self.lags.constraints(z, out[begin:])
        return out

    def jacobian(self, z: Array, out: Array | None = None) -> Array:
        """Values of the constraint Jacobian, in the order of `jacobian_structure`."""
        out = np.empty(self.jacobian_structure.size) if out is None else out
        begin = self._jacobian_of_kernels.size
        self._called(self.plans.jacobian, begin, z, out[:begin])
        if self.lags is not None:
            self.lags.jacobian(z, out[begin:])
        return out

    def hessian(
        self, z: Array, multipliers: Array, factor: float, out: Array | None = None
    ) -> Array:
        """Values of the Hessian of factor * cost + multipliers . constraints, lower triangle."""
        more = (multipliers, np.array([float(factor)]))
        out = np.empty(self.hessian_structure.size) if out is None else out
        begin = self._hessian_of_kernels.size
        self._called(self.plans.hessian, begin, z, out[:begin], more)
        if self.lags is not None:
            self.lags.hessian(z, multipliers[self.layout.delay_offset :], out[begin:])
        return out

    def _called(
        self,
        plan: Plan,
        size: int,
        z: Array,
        out: Array | None = None,
        more: tuple[Array | None, Array | None] = (None, None),
    ) -> Array:
        """Output of a plan; more : multipliers and the factor of the cost."""
        out = np.empty(size) if out is None else out
        plan((z, *more), out)
        return out

    # -- residuals, of a library with their kernels -------------------------------------------

    @cached_property
    def samples(self) -> Samples:
        """Samples behind the residuals: channel, trial, time and weight of each."""
        return self._every_sample.taken(self._kept)

    def residuals(self, z: Array) -> Array:
        """Residuals (modelled - measured) sqrt(weight) of `samples`, (n,): over std, for means of
        neighbours also times the root of their share."""
        found = self._called(self._residual_plan, self._residual_plan.n_out, z)
        r = found[: len(found) // 2][self._kept]
        return np.asarray(r * np.sqrt(self.samples.weight))

    def residual_jacobian(self, z: Array) -> csr_array:
        """Jacobian of the residuals, (n, n_variables)."""
        structure, plan = self._residual_slopes
        every = self._of_residuals(self._called(plan, structure.size, z))
        return csr_array(diags_array(np.sqrt(self.samples.weight)) @ every)

    @property
    def residual_pattern(self) -> csr_array:
        """Pattern (n, n_variables) of the Jacobian of the residuals, positive where it may be
        other than zero."""
        return self._of_residuals(np.ones(self._residual_slopes[0].size))

    def _of_residuals(self, values: Array) -> csr_array:
        """Matrix (n, n_variables) of the values of the Jacobian of all residuals."""
        places = self._residual_slopes[0].arrays()
        shape = (len(self._kept), self.n_variables)
        return csr_array(coo_array((values, places), shape=shape).tocsr()[self._kept])

    @cached_property
    def _every_sample(self) -> Samples:
        found = self._called(self._residual_plan, self._residual_plan.n_out, self._anywhere)
        return all_samples(self.about, self.layout, found[len(found) // 2 :], self._taken)

    @property
    def _taken(self) -> list[Array]:
        """Times at which samples at times of their own were taken, for each trial (slots of all, N
        - 1)."""
        channels = [f"time{c}" for c in range(len(self.about.timed))]
        return [
            np.concatenate([np.zeros(0), *(data["interval", c][0] for c in channels)]).reshape(
                -1, grid.size - 1
            )
            for data, grid in zip(self._data, self.layout.grids, strict=True)
        ]

    @property
    def _anywhere(self) -> Array:
        """Arbitrary z: weights do not depend on it."""
        return np.zeros(self.n_variables)

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        return np.asarray(self._every_sample.weight > 0.0)

    @cached_property
    def _residual_begins(self) -> tuple[dict[tuple[int, str], int], int]:
        """Offsets of the residuals of each trial and family, and the number of all."""
        begins, total = {}, 0
        for trial, family in self.with_kernel("residuals"):
            begins[trial, family] = total
            squares = len(self.about.families[family].squares)
            total += squares * self.layout.points(trial, family)
        return begins, total

    @cached_property
    def _residual_plan(self) -> Plan:
        """Plan that evaluates all residuals, then all weights."""
        (begins, total), found = self._residual_begins, {}
        for (trial, family), begin in begins.items():
            count, n = len(self.about.families[family].squares), self.layout.points(trial, family)
            mine = begin + n * np.arange(count)
            found[trial, family] = places(
                2 * count, base=np.concatenate([mine, total + mine]), count=n
            )
        return self._plan("residuals", found, [], 2 * total)

    @cached_property
    def _residual_slopes(self) -> tuple[Structure, Plan]:
        structure, calls = self._assembled("residual_jacobian", self._residual_runs)
        return structure, calls.plan

    def _residual_runs(self, trial: int, family: str) -> list[Run]:
        entries, n = self.entries(trial, family), self.layout.points(trial, family)
        first = self._residual_begins[0][trial, family]
        pairs = zip(*self.about.families[family].residual_jacobian, strict=True)
        return [Run(first + i * n, entries[j][0], 1, entries[j][1], n, ADD) for i, j in pairs]

    def outputs(self, z: Array, trial: int) -> dict[str, Array]:
        """Outputs of the model at the nodes of a trial, by name, each (N,); those that have no
        value there, such as with x', are continued from the stages."""
        result: dict[str, Array] = {}
        for family in ("node", "interval"):
            names, n = self.about.families[family].outputs, self.layout.points(trial, family)
            stages, inner = self.about.stages, family == "interval"
            values = np.empty((len(names), len(stages) if inner else 1, n))
            if names:
                where = {(trial, family): rows(values.size // n, n)}
                plan = self._plan("outputs", where, [], values.size)
                self._called(plan, values.size, z, values.reshape(-1))
            grid, to_ends = self.layout.grids[trial], self.about.to_ends
            for name, of in zip(names, values, strict=True):
                result[name] = at_nodes(of, stages, to_ends, grid) if inner else of[0]
        return result

    def timed(self, z: Array, trial: int) -> Array:
        """Model values in the slots of measurements at times of their own, (slots of all, N - 1),
        of each channel followed by its standard deviations if these are expressions."""
        count = sum(channel.slots * (1 + channel.spread) for channel in self.about.timed)
        n = self.layout.points(trial, "interval")
        values = np.empty((count, n))
        if count:
            place = {(trial, "interval"): rows(count, n)}
            self._called(self._plan("timed", place, [], count * n), 0, z, values.reshape(-1))
        return values

    def output_slopes(
        self, built: Built, z: Array, trial: int, family: str
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """Derivatives of the outputs at the n points of a family, by the library of
        `codegen.transcribe.output_slopes`: numbers of outputs (e,), of variables (e, n), values
        (e, n)."""
        name, n = f"{family}_output_slopes", self.layout.points(trial, family)
        labels, columns = built.manifest.of(CollocationManifest).families[family].slopes
        values = np.empty((len(labels), n))
        if labels:
            reads = built.manifest.kernels[name].arguments
            arguments = [self.argument(trial, family, a) for a in reads]
            places = rows(len(labels), n)
            call = Call(built.library, name, n, arguments, self._sizes, places, values.size)
            self._called(Plan([call], [], values.size), values.size, z, values.reshape(-1))
        entries = self.entries(trial, family)
        index = [entries[j][0] + entries[j][1] * np.arange(n) for j in columns]
        places_in_z = np.array(index, dtype=np.intp).reshape(len(labels), n)
        return np.array(labels, dtype=np.intp), places_in_z, values

    def arguments(
        self, trial: int, family: str, what: str, arrays: tuple[Array, Array, Array]
    ) -> dict[str, Array]:
        """Arguments of the kernel `what` of a family, by name: (count, n) per point, (count,) if
        uniform; `arrays` are z, multipliers, and the factor of the cost."""
        n, about = self.layout.points(trial, family), self._kernels[f"{family}_{what}"]
        values = {}
        for name, count, varying in zip(about.arguments, about.counts, about.varying, strict=True):
            source, offset, ld = self.argument(trial, family, name)
            data = arrays[source] if isinstance(source, int) else source
            index = offset + ld * np.arange(count)
            values[name] = data[index[:, None] + np.arange(n)] if varying else data[index]
        return values

    # -- plans ------------------------------------------------------------------------------

    def _plan(
        self,
        what: str,
        places: Mapping[tuple[int, str], Places],
        zero: Sequence[int] | NDArray[np.intp],
        size: int,
    ) -> Plan:
        return self._calls(what, places, zero, size).plan

    def _calls(
        self,
        what: str,
        places: Mapping[tuple[int, str], Places],
        zero: Sequence[int] | NDArray[np.intp],
        size: int,
        other: NLP | None = None,
    ) -> Calls:
        """The kernel calls of one callback; `places` are those of the outputs per trial and
        family, `zero` the outputs that no call sets. other : has calls of the same kernels, which
        are taken where their numbers are the same."""
        calls, work = dict[tuple[int, str], Call](), 0
        for (trial, family), place in places.items():
            name, n = f"{family}_{what}", self.layout.points(trial, family)
            about = self._kernels[name]
            work += n * (about.operations + len(about.outputs))
            if other is not None and all(
                self._data[trial].get((family, a)) is other._data[trial].get((family, a))
                for a in about.arguments
            ):
                calls[trial, family] = other._callbacks[what].calls[trial, family]
                continue
            arguments = [self.argument(trial, family, a) for a in about.arguments]
            made = Call(self.library, name, n, arguments, self._sizes, place, size, settled=True)
            calls[trial, family] = made
        threads = max(1, min(self.threads, work // _PER_THREAD))
        return Calls(calls, places, zero, size, Plan([*calls.values()], zero, size, threads))

    def _assembled(
        self, what: str, runs: Callable[[int, str], list[Run]]
    ) -> tuple[Structure, Calls]:
        """A matrix of the runs of each trial and family; entries that they share, such as those of
        a node from its two intervals and from node terms in the Hessian, are merged."""
        keys = self.with_kernel(what)
        structure, made, zero = assemble([runs(*key) for key in keys], self.library.lanes)
        found = {key: place for key, place in zip(keys, made, strict=True) if len(place)}
        return structure, self._calls(what, found, zero, structure.size)

    def argument(self, trial: int, family: str, name: str) -> tuple[Any, int, int]:
        """(source, offset, ld) of a kernel argument: part of z, multipliers, factor, or data."""
        if name == "multipliers":
            begin = self.layout.constraint_offsets[trial, family]
            return 1, begin, self.layout.points(trial, family)
        if name == "factor":
            return 2, 0, 1
        if (family, name) in self._data[trial]:
            return self._data[trial][family, name]
        for group, _, array, side in self.about.families[family].variables:
            if group == name:
                return 0, *self._variable(trial, family, array, side)
        raise ValueError(f"kernels of {family} read {name}, which is nowhere")

    def _variable(self, trial: int, family: str, array: str, side: int) -> tuple[int, int]:
        """Index in z of the first scalar of a group, and the distance to the next."""
        layout = self.layout
        if is_parameters(array):
            return layout.parameter_offset + layout.owned.begin(array, trial), 1
        if array == "T":
            return layout.duration_offset + trial, 1
        at_end = family in ("ends", "link", "cycle") and side == (family == "ends")
        if family in ("link", "cycle") and side:
            trial = layout.following(trial)
        [block] = [b for b in layout.blocks if b.name == array]
        count = block.count(layout.nodes[trial])
        shift = count - 1 if at_end else side if family == "interval" else 0
        return layout.begins[trial][array] + shift, count

    def with_kernel(self, what: str) -> list[tuple[int, str]]:
        """Trials and families of points at which there are kernels `what`."""
        return [
            (trial, family)
            for trial in range(len(self.layout.nodes))
            for family in FAMILIES
            if f"{family}_{what}" in self._kernels and self.layout.points(trial, family)
        ]

    def _gradient_places(self) -> tuple[dict[tuple[int, str], Places], NDArray[np.intp]]:
        found = {}
        written = Written(self.n_variables)
        for trial, family in self.with_kernel("gradient"):
            entries, n = self.entries(trial, family), self.layout.points(trial, family)
            mine = [entries[j] for j in self.about.families[family].gradient]
            runs = [Run(begin, 0, step, 0, n, _mode(family, side)) for begin, step, side in mine]
            begins = [run.row for run in runs]
            mode, late = written.modes(runs, begins)
            found[trial, family] = places(len(runs), base=begins, count=n, late=late, mode=mode)
        return found, written.zero

    def _constraint_places(self) -> dict[tuple[int, str], Places]:
        layout = self.layout
        return {
            key: rows(
                len(layout.labels[key[1]]), layout.points(*key), layout.constraint_offsets[key]
            )
            for key in self.with_kernel("constraints")
        }

    def entries(self, trial: int, family: str) -> list[tuple[int, int, int]]:
        """Local variables of a family, for each its index in z at point 0, its step from point to
        point, and its side."""
        found = []
        for _, count, array, side in self.about.families[family].variables:
            begin, ld = self._variable(trial, family, array, side)
            step = 0 if array == "T" or is_parameters(array) else 1
            found += [(begin + k * ld, step, side if step else _UNIFORM) for k in range(count)]
        return found

    def jacobian_runs(self, trial: int, family: str) -> list[Run]:
        """Derivatives of constraints, one run for each output of the kernel."""
        entries, n = self.entries(trial, family), self.layout.points(trial, family)
        first = self.layout.constraint_offsets[trial, family]
        pairs = zip(*self.about.families[family].jacobian, strict=True)
        return [Run(first + i * n, entries[j][0], 1, entries[j][1], n, ADD) for i, j in pairs]

    def hessian_runs(self, trial: int, family: str) -> list[Run]:
        """Second derivatives, in the lower triangle."""
        entries, n = self.entries(trial, family), self.layout.points(trial, family)
        runs = []
        for pair in zip(*self.about.families[family].hessian, strict=True):
            low, high = sorted(entries[k] for k in pair)
            runs.append(Run(high[0], low[0], high[1], low[1], n, _mode(family, high[2], low[2])))
        return runs


def _same(old: tuple[Array, int, int], new: tuple[Array, int, int]) -> bool:
    """Whether known numbers are the same."""
    return old[1:] == new[1:] and np.array_equal(old[0], new[0])


#: The side of a variable that all points share.
_UNIFORM = -1


def _mode(family: str, *sides: int) -> int:
    """Mode in which an output that belongs to variables of these sides is added to the values
    there; late, if a neighbouring interval writes the same entry: it touches only right nodes."""
    if all(side == _UNIFORM for side in sides):
        return SUM
    return LATE if family == "interval" and 1 in sides and 0 not in sides else ADD
