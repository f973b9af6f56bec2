"""What the project computes for a case: by the interpreter of its kernels, or by compiled C."""

import warnings

import numpy as np

import kinesym as ks
from kinesym.codegen.c import emit
from kinesym.codegen.interpret import interpret
from kinesym.codegen.transcribe import transcribe
from kinesym.internal.problems.parameters import checked_unknowns, densities_of
from kinesym.internal.problems.pipeline import prior_data
from kinesym.internal.problems.symbolic_problem import symbolic_problem
from kinesym.runtime.library.manifest import CollocationManifest, load_manifest
from kinesym.runtime.nlp.collocation import make_layout, trial_data
from kinesym.runtime.nlp.nlp import NLP
from kinesym.symbolic.schemes import scheme_named


def experiment(case, **more):
    """The trial of a case; more : arguments of it."""
    when = (
        {"nodes": len(case.grid), "duration": (0.5, 3.0)}
        if case.free_duration
        else {"time": case.grid}
    )
    grid = np.linspace(0.0, 1.0, len(case.grid)) if case.free_duration else case.grid
    return ks.Experiment(
        **when,
        inputs={
            name: ks.Signal(grid, row, between(name, case)) for name, row in case.inputs.items()
        },
        measurements={name: y for name, (y, _) in case.measured.items()},
        std={name: std for name, (_, std) in case.measured.items()},
        **more,
    )


def between(name, case):
    """What is between the samples of an input."""
    return "held" if name in case.held else "linear"


def free_inputs(case):
    """Bounds of unknown inputs: none."""
    return {name: ks.held() if name in case.held else None for name in case.free_inputs}


def objective(case):
    """The objective of a case."""
    found = ks.Integral(case.integrand) + ks.Terminal(case.terminal)
    return found + ks.LeastSquares() if case.measured else found


class Interpreted(NLP):
    """The nonlinear program of a case without a compiler: kernels by the interpreter.

    unknown : what is said of the unknown parameters; trials : several, or the one of the case.
    """

    def __init__(self, case, unknown=None, trials=None):
        given = dict.fromkeys(case.unknown) if unknown is None else unknown
        unknown = checked_unknowns(given, case.model.parameter_names)
        trials = trials or [experiment(case)]
        self.program = transcribe(
            symbolic_problem(
                case.model,
                trials,
                unknown,
                free_inputs(case),
                scheme_named(case.scheme),
                objective(case),
                path=case.path,
                boundary=case.boundary,
            )
        )
        manifest = load_manifest(emit(self.program).manifest)
        self.about, self._kernels = manifest.of(CollocationManifest), manifest.kernels
        self.layout = make_layout(self.about, trials)
        known = {name: v for name, v in case.known.items() if name not in case.unknown}
        self._data = [
            {
                **trial_data(self.about, trial, {**known, **trial.parameters}),
                **prior_data(self.about, self.layout.owned, k, densities_of(unknown)),
            }
            for k, trial in enumerate(trials)
        ]

    def numbers(self, z, multipliers, factor):
        """Every number by name and place; see `reference.Values.entries`."""
        arrays = (z, np.asarray(multipliers, dtype=float), np.array([factor]))
        found = {("cost",): 0.0}
        every = [(k, kernel) for k in range(len(self._data)) for kernel in self.program.kernels]
        for trial, kernel in every:
            family, what = kernel.name.split("_", 1)
            n = self.layout.points(trial, family)
            if what == "outputs" or not n:
                continue
            values = interpret(kernel, self.arguments(trial, family, what, arrays), n)
            for key, value in self._placed(trial, family, what, np.real(values)):
                found[key] = found.get(key, 0.0) + float(value)  # ∞ - ∞ is NaN, without a warning
        return found

    def _placed(self, trial, family, what, values):
        entries = self.entries(trial, family)
        about, first = self.about.families[family], self.layout.constraint_offsets[trial, family]
        n = values.shape[1]

        def place(j, i):
            begin, step, _ = entries[j]
            return begin + i * step

        for k, row in enumerate(values):
            for i, value in enumerate(row):
                if what == "cost":
                    yield ("cost",), value
                elif what == "constraints":
                    yield ("constraint", first + k * n + i), value
                elif what == "gradient":
                    yield ("gradient", place(about.gradient[k], i)), value
                elif what == "jacobian":
                    at, j = (about.jacobian[side][k] for side in (0, 1))
                    yield ("jacobian", first + at * n + i, place(j, i)), value
                else:
                    pair = sorted(place(about.hessian[side][k], i) for side in (0, 1))
                    yield ("hessian", *pair), value


class Compiled:
    """The same by compiled C, through the face."""

    def __init__(self, case):
        known = {name: v for name, v in case.known.items() if name not in case.unknown}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.problem = ks.Collocation(
                case.model,
                experiment(case),
                unknown=dict.fromkeys(case.unknown),
                known=known,
                scheme=case.scheme,
                objective=objective(case),
                threads=1,
                path=[(e, None, None) for e in case.path],
                boundary=[(e, None, None) for e in case.boundary],
                unknown_inputs=free_inputs(case),
            )

    def numbers(self, z, multipliers, factor):
        """Every number by name and place; see `reference.Values.entries`."""
        problem = self.problem
        found = {("cost",): problem.cost(z)}
        found.update({("constraint", i): v for i, v in enumerate(problem.constraints(z))})
        found.update({("gradient", j): v for j, v in enumerate(problem.cost_gradient(z))})
        jacobian = problem.constraint_jacobian(z).tocoo()
        for i, j, v in zip(jacobian.row, jacobian.col, jacobian.data, strict=True):
            found["jacobian", int(i), int(j)] = v
        hessian = problem.lagrangian_hessian(z, multipliers, factor).tocoo()
        for i, j, v in zip(hessian.row, hessian.col, hessian.data, strict=True):
            if i <= j:
                found["hessian", int(i), int(j)] = v
        return found
