"""Files of plain C99 of a fit by simulation: cost, its exact gradient, residuals and their
derivatives as functions of the unknowns, with the record as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import sympy as sp

from kinesym.codegen.c99 import Style, plain, wrapped
from kinesym.codegen.c99_steps import RADAU, STAGES, VARYING
from kinesym.codegen.exported import start_function, step_functions
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.transcribe import transcribe
from kinesym.internal.exporting.c99 import literals, model_code, style_of
from kinesym.internal.exporting.c99_calls import (
    Call,
    Numbers,
    calls_of,
    check_count,
    data_file,
    driver,
    kernels_file,
    kernels_header,
    tables,
)
from kinesym.internal.exporting.c99_driver import named
from kinesym.internal.exporting.c99_programs import makefile
from kinesym.internal.exporting.c99_shooting_driver import (
    SMALL,
    SQUARES,
    STEPPING,
    header,
    main_program,
)
from kinesym.internal.exporting.text import head, in_comment
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.problems.residual_problem import residual_problem
from kinesym.internal.problems.shooting_program import shooting_program, without_hessians
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import HELD, LINEAR, PARABOLA
from kinesym.runtime.shooting.smooth_trials import SmoothTrials
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.statistics.densities import Density
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.schemes.rk4 import RK4
from kinesym.symbolic.table import NumericFunction, tables_of

#: Methods that have steps in C, with their names there and the nodes of their stages.
METHODS = {"rk4": ("rk4", RK4.nodes), "radau-5": ("radau", RADAU.nodes)}
#: How inputs go between nodes.
_KINDS = {LINEAR: 0, HELD: 1, PARABOLA: 2}
#: Vectors that are data, and what they are.
_VECTORS = {"start": "first guess of q", "lower": "lower bounds of q", "upper": "upper bounds of q"}


def shooting_files(problem: ShootingProblem, start: Array) -> Mapping[str, bytes]:
    """The files, by name. start : q of the first guess.

    Raises `ValueError` for what has no functions in C, and for more numbers than text is good for.
    """
    _check(problem)
    made = _Made.of(problem)
    model, style, name = problem.given.model, made.style, problem.given.model.name
    way = METHODS[problem.given.steps.method][0]
    functions = step_functions(model, way == "rk4")
    code = model_code(model, functions, model.tables.values, style_of(model), VARYING)
    kernels = [call.kernel for calls in made.calls.values() for call in calls]
    kernels += [kernel for kernel in made.starts if kernel is not None]
    called = [*{kernel.name: kernel for kernel in kernels}.values()]
    text = _driver(made, called)  # which adds to the numbers
    vectors = dict(zip(_VECTORS, (start, *problem.given.bounds), strict=True))
    known = made.numbers.all
    check_count(name, len(known) + 3 * len(start))
    prefix = style.prefix
    files = {
        f"{prefix}.c": text,
        f"{prefix}.h": _header(made),
        f"{prefix}_kernels.h": kernels_header(name, style, called),
        f"{prefix}_kernels.c": kernels_file(name, style, called),
        f"{prefix}_data.c": data_file(name, style, {**vectors, "known": known})
        + f"const char *const {prefix}_names[{len(start)}] = {{\n"
        + f"{literals(made.trials.unknowns.names)}}};\n",
        **code,
        "main.c": main_program(style),
    }
    sources = [file for file in files if file.endswith(".c") and file != "main.c"]
    return {file: text.encode() for file, text in {**files, "Makefile": makefile(sources)}.items()}


def _check(problem: ShootingProblem) -> None:
    """Raise `ValueError` for what has no functions in C."""
    given, name = problem.given, problem.given.model.name
    late, method = ", ".join(given.delays), given.steps.method
    refused = {
        "goes from event to event, whose times steps of fixed length do not meet; export its "
        "model, with guards and resets if it is a Hybrid": isinstance(problem.system, Hybrid),
        "has delays, whose past steps of one point do not keep; fit it in Python": bool(
            given.model.delays
        ),
        f"has unknown delays of sensors, {late}, which move samples between steps; give them as "
        "known": bool(late),
        "has several segments, whose gaps are constraints; use segments=1, or export a "
        "Collocation": given.segments > 1,
        f"has steps that {method} chooses anew for all values, which the C does not; give their "
        "number per interval, substeps": given.steps.adaptive and method in METHODS,
        f"steps by {method}, which has no step in C; use {' or '.join(METHODS)}": (
            method not in METHODS
        ),
        "has starts that are read from tables; make these unknown, or give numbers": any(
            isinstance(rule, Following) and len(tables_of(_rules(rule).values()).values)
            for rule in given.following
        ),
        "has events at known times, which the C does not know; leave these out": any(given.resets),
        "has priors that are not normal; use ks.normal or ks.lognormal": any(
            isinstance(p.prior, Density) for p in given.unknown.values()
        ),
        "has experiments that set parameters to functions of the unknowns, or begin in steady "
        "states, which the C does not know; leave these out": given.assignments is not None,
    }
    for what, there in refused.items():
        if there:
            raise ValueError(f"the fit of {name} {what}")
    if problem.identification().reweighs:
        raise ValueError(
            f"the fit of {name} estimates standard deviations from its own residuals, round by "
            "round, which is no one cost; give std to its Experiments"
        )


@dataclass(frozen=True)
class _Made:
    """Parts of the C of a fit. calls : of its objective and residuals. squares : whether it has
    these. starts : functions of the start of each trial from parameters, None where it does not
    depend on these."""

    problem: ShootingProblem
    trials: SmoothTrials
    style: Style
    numbers: Numbers
    calls: Mapping[str, list[Call]]
    squares: bool
    starts: list[Kernel | None]

    @staticmethod
    def of(problem: ShootingProblem) -> _Made:
        """Parts of a problem."""
        given, program = problem.given, problem.program
        assert program is not None
        trials = cast(SmoothTrials, problem.simulated(given))
        symbolic, numbers = program.problem, Numbers()
        kernels = _plain(shooting_program(symbolic, given.steps.method))
        calls = {
            what: [*calls_of(trials.nlp, what, kernels, numbers)] for what in ("cost", "gradient")
        }
        try:
            nlp = None if trials.scored else trials.squares.nlp
        except ValueError:  # it has other terms than squares
            nlp = None
        if nlp is not None:
            kernels = _plain(without_hessians(transcribe(residual_problem(symbolic))))
            for what in ("constraints", "jacobian"):
                calls[what] = [*calls_of(nlp, what, kernels, numbers)]
        style = Style(f"{style_of(given.model).prefix}_problem", tables="")
        return _Made(problem, trials, style, numbers, calls, nlp is not None, _starts(problem))

    def entries(self, what: str) -> int:
        """Number of values of a matrix."""
        return sum(run.length for call in self.calls[what] for run in call.runs)

    @property
    def sizes(self) -> dict[str, int]:
        """Constants of the C, by name."""
        unknowns, model = self.trials.unknowns, self.problem.given.model
        way, nodes = METHODS[self.problem.given.steps.method]
        n, m, p = len(model.states), len(model.inputs), len(model.parameters)
        rows = self.trials.squares.nlp.n_constraints if self.squares else 0
        return {
            "N": n,
            "M": m,
            "M1": max(m, 1),
            "P": p,
            "STAGES": len(nodes),
            "COLUMNS": n + STAGES[way] * m + p,
            "TRIALS": len(self.trials.trials),
            "Z": self.trials.nlp.n_variables,
            "Q": unknowns.size,
            "VALUES": len(unknowns.parameters),
            "R": len(unknowns.owned.parameters),
            "STARTS": len(unknowns.initial),
            "V": len(unknowns.inputs),
            "PRIORS": len(self.trials.priors.places),
            "ROWS": rows,
            "ALL": rows + len(self.trials.priors.places),
            "ENTRIES": self.entries("jacobian") if self.squares else 0,
            "COST_CALLS": len(self.calls["cost"]),
            "GRADIENT_CALLS": len(self.calls["gradient"]),
            "SQUARES_CALLS": len(self.calls.get("constraints", ())),
            "JACOBIAN_CALLS": len(self.calls.get("jacobian", ())),
        }


def _starts(problem: ShootingProblem) -> list[Kernel | None]:
    """Functions of starts from parameters, each once."""
    given, made, found = problem.given, dict[object, Kernel](), list[Kernel | None]()
    for rule, start in zip(given.following, given.starts, strict=True):
        if not isinstance(rule, Following):
            found.append(None)
            continue
        rules = _rules(rule)
        known = {x: v for x, v in start.items() if x not in rules}
        key = (*rules.items(), *known.items())
        if key not in made:
            free, name = given.unknowns.owned.parameters, f"start_{len(made)}"
            numbers = {x: float(np.nan_to_num(value)) for x, value in known.items()}
            made[key] = start_function(name, given.model, numbers, rules, free)
        found.append(made[key])
    return found


def _rules(rule: Following) -> dict[str, sp.Expr]:
    """Expressions of starts, by state."""
    function = cast(NumericFunction, rule.function)
    return dict(zip(rule.states, function.expressions[0], strict=True))


def _plain(program: Program) -> dict[str, Kernel]:
    return {
        k.name: plain(k)
        for k in program.kernels
        if k.name.endswith(("_cost", "_gradient", "_constraints", "_jacobian"))
    }


# -- text -----------------------------------------------------------------------------------------


def _header(made: _Made) -> str:
    prefix, sizes, unknowns = made.style.prefix, made.sizes, made.trials.unknowns
    layout, problem = made.trials.nlp.layout, made.problem
    jacobian = sizes["Z"] * (sizes["Q"] + 1) + sizes["ENTRIES"] + sizes["ALL"] * (sizes["Q"] + 1)
    radau, n, p = problem.given.steps.method != "rk4", sizes["N"], sizes["P"]
    filled = {
        "N_Q": sizes["Q"],
        "N_R": sizes["ALL"],
        "WORK_JACOBIAN": jacobian,
        "WORK": 2 * sizes["Z"],
        "STACK": 8 * (n * (sizes["COLUMNS"] + sizes["R"] + 5) + sizes["M"] * sizes["STAGES"] + p),
        "UNKNOWNS": "".join(
            f" *   q[{k}]  {in_comment(name)}\n" for k, name in enumerate(unknowns.names)
        ),
        "ARRAYS": "".join(
            f"extern const double {prefix}_{name}[{sizes['Q']}]; /* {what} */\n"
            for name, what in _VECTORS.items()
        ),
        "METHOD": problem.given.steps.method,
        "STATUS": ", or what step_radau returns" * radau,
        "TRIALS": "".join(
            f" *   {begins['x']:>5}   {layout.nodes[k]:>5}   {k}\n"
            for k, begins in enumerate(layout.begins)
        ),
        "SAMPLES": _residual_lines(made),
    }
    title = f"Fit of {problem.given.model.name} by simulation: minimise cost(q) within bounds on q"
    return head(title) + header(made.style, filled, made.squares)


def _residual_lines(made: _Made) -> str:
    """Lines on the places of residuals."""
    if not made.squares:
        return ""
    layout, channels = made.trials.squares.nlp.layout, made.trials.squares.channels
    labels, lines = layout.labels["node"], []
    for trial, nodes in enumerate(layout.nodes):
        begin = layout.constraint_offsets[trial, "node"]
        for k in range(len(labels)):
            what = channels[k] if k < len(channels) else "another square of the objective"
            lines.append(f" *   {begin + k * nodes:>5}  trial {trial}: {what}, {nodes} nodes\n")
    for k, place in enumerate(made.trials.priors.places):
        name = made.trials.unknowns.names[place]
        lines.append(f" *   {made.sizes['ROWS'] + k:>5}  prior of {name}\n")
    return in_comment("".join(lines))


def _driver(made: _Made, called: list[Kernel]) -> str:
    style, sizes = made.style, made.sizes
    model = style_of(made.problem.given.model).prefix
    way, nodes = METHODS[made.problem.given.steps.method]
    step = f"{model}_step_{way}_varying"
    parts = [
        head(f"Fit of {made.problem.given.model.name} by simulation"),
        f'#include <math.h>\n#include <stddef.h>\n\n#include "{style.prefix}.h"\n'
        f'#include "{model}.h"\n#include "{style.prefix}_kernels.h"\n',
        "".join(f"#define {name} {value}\n" for name, value in sizes.items())
        + f"#define STEP {step}\n#define STEP_SENSITIVITIES {step}_sensitivities\n"
        + f"#define known {style.prefix}_known\n",
        "extern const double known[];\n",
        driver(called),
    ]
    for what, calls in made.calls.items():
        parts += tables(what, calls, style)
    c = ", ".join(style.number(float(s)) for s in nodes)
    parts += [f"static const double nodes_of_step[STAGES] = {{{c}}};", *_places(made), ""]
    stepping, definition = named(STEPPING, style), "} trial;\n"
    first, rest = stepping.split(definition)
    parts += [SMALL, first + definition, _trials(made), rest.lstrip("\n")]
    if made.squares:
        added = "    const double *next = values;\n" + "".join(
            f"    next = added(jacobian_{k}_runs, {len(call.runs)}, next, by_q, jacobian);\n"
            for k, call in enumerate(made.calls["jacobian"])
        )
        parts.append(named(SQUARES.replace("ADDED", added + "    (void)next;\n"), style))
    return "\n".join(parts)


def _places(made: _Made) -> list[str]:
    """Constants that say where unknowns belong, and priors."""
    unknowns, model, priors = made.trials.unknowns, made.problem.given.model, made.trials.priors
    inputs = [*unknowns.inputs]
    lists = {
        "free_parameters": [model.parameter_names.index(p) for p in unknowns.owned.parameters],
        "free_starts": [model.state_names.index(x) for x in unknowns.initial],
        "unknown_inputs": [inputs.index(u) if u in inputs else -1 for u in model.input_names],
        "prior_places": [*map(int, priors.places)],
    }
    rows = [
        "{" + ", ".join(made.style.number(float(v)) for v in row) + "}"
        for row in zip(
            priors.log, priors.means, np.sqrt(priors.factor) / priors.deviations, strict=True
        )
    ]
    return [
        *(
            wrapped(f"static const int {name}[] = {{{', '.join(map(str, of)) or '0'}}};")
            for name, of in lists.items()
        ),
        f"static const double priors[][3] = {{{', '.join(rows) or '{0}'}}};",
    ]


def _trials(made: _Made) -> str:
    """Tables of the trials."""
    unknowns, given, layout = made.trials.unknowns, made.problem.given, made.trials.nlp.layout
    model, begin, rows = given.model, made.numbers.begin, []
    for k, trial in enumerate(made.trials.on_steps):
        free = set(unknowns.inputs)
        signals = [
            (np.zeros(0), HELD if u in layout.held else LINEAR)
            if u in free
            else trial.signals[u].sampled(trial.grid)
            for u in model.input_names
        ]
        values = [given.known[k].get(p, 0.0) for p in model.parameter_names]
        start = np.nan_to_num([given.starts[k][x] for x in model.state_names])
        places = [begin(samples) if len(samples) else 0 for samples, _ in signals]
        kinds = [_KINDS[kind] for _, kind in signals]
        owned = [*map(int, unknowns.owned.places(k))]
        follows = made.starts[k]
        parts = [
            "NULL" if follows is None else f"{made.style.prefix}_call_{follows.name}",
            str(layout.nodes[k]),
            str(begin(trial.grid)),
            _list(places),
            str(begin(np.array(values, dtype=float))),
            str(begin(start)),
            str(layout.begins[k]["x"]),
            str(unknowns.starts(k).start),
            str(unknowns.samples(k).start),
            _list(kinds),
            _list(owned),
        ]
        rows.append(wrapped(f"    {{{', '.join(parts)}}},"))
    return "static const trial trials[] = {\n" + "\n".join(rows) + "\n};\n"


def _list(values: list[int]) -> str:
    return f"{{{', '.join(map(str, [*values, 0]))}}}"
