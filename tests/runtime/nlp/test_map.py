"""The compiled nonlinear program against an assembly by the interpreter.

The reference evaluates every kernel with numpy and puts its outputs into sparse matrices by the
places that the layout gives to the variables; it shares no index arithmetic with the library.
"""

from functools import lru_cache

import numpy as np
import pytest
import sympy as sp
from scipy.sparse import coo_array

import kinesym as ks
from kinesym import models
from kinesym.codegen.interpret import interpret
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.library.manifest import CollocationManifest
from kinesym.runtime.nlp import nlp as nlp_module
from kinesym.runtime.nlp.collocation import make_layout, trial_data
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.sparse.structure import Extended

LANES = [1, 4, 8]
SCHEMES = [
    *("radau-1", "radau-3", "radau-5"),
    *("gauss-2", "gauss-4", "gauss-6"),
    *("lobatto-2", "lobatto-4", "lobatto-6"),
]
NODES = [2, 3, 5, 8, 9, 17, 130]
MODELS = {
    "pendulum": models.pendulum,
    "cip": models.cip,
    "standing": models.standing,
    "n_link_1": lambda: models.n_link_pendulum_on_cart(1),
    "n_link_2": lambda: models.n_link_pendulum_on_cart(2),
    "n_link_3": lambda: models.n_link_pendulum_on_cart(3),
}


# -- problems -------------------------------------------------------------------------------


def experiment(N, seed, known, measured, held=(), free=False):
    """A trial of random numbers on an uneven grid; every third sample is missing."""
    rng = np.random.default_rng(seed)
    samples = {name: rng.normal(size=N) for name in measured}
    for row in samples.values():
        row[2::3] = np.nan
    when = (
        {"nodes": N, "duration": (0.5, 3.0)}
        if free
        else {"time": np.cumsum(rng.uniform(0.05, 0.15, N))}
    )
    grid = np.linspace(0.0, 1.0, N) if free else when["time"]
    between = {name: "held" if name in held else "linear" for name in known}
    return ks.Experiment(
        **when,
        inputs={n: ks.Signal(grid, rng.normal(size=N), how) for n, how in between.items()},
        measurements=samples,
        std={name: rng.uniform(0.5, 2.0, N) for name in measured},
    )


@lru_cache
def plain_problem(name):
    """Least squares of all states and outputs, all parameters unknown."""
    model = MODELS[name]()
    known, measured = model.input_names, (*model.state_names, *model.outputs)
    trial = experiment(3, 0, known, measured)
    problem = ks.Collocation(model, trial, unknown=dict.fromkeys(model.parameter_names))
    return problem, lambda N, seed: experiment(N, seed, known, measured)


@lru_cache
def rich_problem(scheme, held, free):
    """All that a problem can have: costs and measurements with x', terminal cost, conditions, and
    links with inputs."""
    plant = models.standing_plant()
    th_a, th_h, w_a, w_h = plant.states
    a, T_a, T_h = plant.inputs
    model = plant.substitute(
        {},
        outputs={
            "lean": th_a + plant.parameters[0] * w_a.diff(ks.t),
            "height": sp.cos(th_a + th_h),
        },
    )
    arguments = (["a"], ["theta_a", "lean", "height", "T_h"], ("a",) if held else (), free)
    trials = [experiment(N, 0, *arguments) for N in (3, 4)]
    links = [
        ks.at_end(th_a * T_h) - ks.at_start(th_h + ks.t * T_a) * model.parameters[4],
        ks.at_end(w_a) - ks.at_start(w_a),
    ]
    problem = ks.Collocation(
        model,
        ks.Phases(trials, links, cycle=[ks.at_end(T_a + ks.t) - ks.at_start(w_h * a)]),
        unknown=dict.fromkeys(["m_T", "I_L", "l_L"]),
        scheme=scheme,
        objective=[
            ks.LeastSquares()
            + 0.5 * ks.Integral(T_a**2 * (1 + ks.t) + w_h.diff(ks.t) ** 2)
            + ks.Terminal(th_a * w_h + ks.t**2 * T_h)
        ]
        * 2,
        path=[(th_a * T_a + a * w_h, -1.0, 1.0), w_a**2 + model.parameters[2] * sp.cos(th_h)],
        boundary=[
            ks.at_end(th_a) * ks.at_start(w_a) - model.parameters[4],
            ks.at_end(T_h**2) * ks.at_start(T_a),
            ks.at_end(w_a**2 * th_h) + ks.at_start(th_h**2 * w_a),
        ],
        unknown_inputs={"T_a": ks.held() if held else None, "T_h": (-9.0, 9.0)},
    )
    return problem, lambda N, seed: experiment(N, seed, *arguments)


def compiled(problem, trials, lanes, threads=1, flags=()):
    """The nonlinear program of these trials with the given number of lanes."""
    built = realise(problem.program, lanes, flags)
    assert built.library.lanes == lanes
    about = built.manifest.of(CollocationManifest)
    known = {name: problem.model.values.get(name, 0.0) for name in about.known_parameters}
    data = [trial_data(about, trial, known) for trial in trials]
    return NLP(built, make_layout(about, trials), data, threads)


def random_point(nlp, seed):
    """z in (0.4, 1.6) and multipliers."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.4, 1.6, nlp.n_variables), rng.normal(size=nlp.n_constraints)


# -- the reference --------------------------------------------------------------------------


def places(layout, trial, family, variables):
    """Index in z of each local variable at each point, (n_local, n)."""
    every, points = np.arange(layout.n_variables), layout.points(trial, family)
    found = []
    for _, _, array, side in variables:
        if array in ("p", "T"):
            fixed = (
                layout.parameter_values(every)
                if array == "p"
                else (layout.durations(every)[trial : trial + 1])
            )
            found.append(np.repeat(fixed[:, None], points, axis=1))
            continue
        owner = (trial + side * (family in ("link", "cycle"))) % len(layout.nodes)
        [rows] = [rows for block, rows in layout.rows(every, owner) if block.name == array]
        first, last = rows[:, :1], rows[:, -1:]
        found.append(
            {
                "interval": rows[:, side : side + points],
                "node": rows,
                "ends": last if side else first,
                "link": first if side else last,
                "cycle": first if side else last,
            }[family]
        )
    return np.concatenate(found)


class Reference:
    """Cost, gradient, constraints, Jacobian and Hessian, assembled from interpreted kernels."""

    def __init__(self, program, nlp, z, multipliers, factor):
        self.nlp, self.kernels = nlp, {kernel.name: kernel for kernel in program.kernels}
        self.arrays = (z, multipliers, np.array([factor]))
        self.about = program.description["collocation"]["families"]
        n, m = nlp.n_variables, nlp.n_constraints
        self.cost, self.gradient, self.constraints = 0.0, np.zeros(n), np.full(m, np.nan)
        self._jacobian, self._hessian, first = [], [], 0
        for trial in range(len(nlp.layout.nodes)):
            for family in ("interval", "node", "ends", "link", "cycle"):
                if nlp.layout.points(trial, family):
                    first = self._add(trial, family, first)
        assert first == m
        self.jacobian = matrix(self._jacobian, (m, n))
        self.hessian = matrix(self._hessian, (n, n))

    def _values(self, trial, family, what):
        """Outputs of a kernel, (n_outputs, n), or None if it does not exist."""
        kernel = self.kernels.get(f"{family}_{what}")
        if kernel is None:
            return None
        arguments = self.nlp.arguments(trial, family, what, self.arrays)
        return interpret(kernel, arguments, self.nlp.layout.points(trial, family))

    def _add(self, trial, family, first):
        about = self.about[family]
        where = places(self.nlp.layout, trial, family, about["variables"])
        n, count = where.shape[1], len(about["constraints"])
        rows = first + np.arange(count * n).reshape(count, n)
        if (cost := self._values(trial, family, "cost")) is not None:
            self.cost += cost.sum()
            gradient = self._values(trial, family, "gradient")
            np.add.at(self.gradient, where[about["gradient"]], gradient)
        if count:
            self.constraints[rows] = self._values(trial, family, "constraints")
            i, j = about["jacobian"]
            self._jacobian.append((self._values(trial, family, "jacobian"), rows[i], where[j]))
        hessian = self._values(trial, family, "hessian")
        for k in range(0 if hessian is None else len(hessian)):
            a, b = (where[about["hessian"][side][k]] for side in (0, 1))
            self._hessian.append((hessian[k], np.maximum(a, b), np.minimum(a, b)))
        return first + count * n


def matrix(parts, shape):
    """A sparse matrix from (values, rows, columns); what coincides is summed."""
    values, rows, columns = (
        np.concatenate([np.ravel(part[k]) for part in parts] or [[]]) for k in range(3)
    )
    return coo_array((values, (rows.astype(int), columns.astype(int))), shape=shape).tocsr()


def assert_equal_matrix(values, structure, expected):
    """The same entries, each once, with the same values."""
    rows, columns = structure
    assert np.isfinite(values).all()
    found = coo_array((values, (rows, columns)), shape=expected.shape).tocsr()
    assert found.nnz == len(values) == expected.nnz
    assert (found.indices == expected.indices).all() and (found.indptr == expected.indptr).all()
    assert_close(found.data, expected.data)


def assert_close(found, expected):
    scale = np.max(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * scale)


def assert_agrees(program, nlp, seed=5):
    """All five callbacks; the arrays to be filled hold NaN before."""
    z, multipliers = random_point(nlp, seed)
    expected = Reference(program, nlp, z, multipliers, 1.7)
    assert_close(nlp.cost(z), expected.cost)
    assert_close(nlp.gradient(z, np.full(len(z), np.nan)), expected.gradient)
    assert_close(nlp.constraints(z, np.full(len(multipliers), np.nan)), expected.constraints)
    values = nlp.jacobian(z, np.full(nlp.jacobian_structure.size, np.nan))
    assert_equal_matrix(values, nlp.jacobian_structure.arrays(), expected.jacobian)
    values = np.full(nlp.hessian_structure.size, np.nan)
    nlp.hessian(z, multipliers, 1.7, values)
    rows, columns = nlp.hessian_structure.arrays()
    assert (rows >= columns).all()
    assert_equal_matrix(values, (rows, columns), expected.hessian)


# -- tests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", MODELS)
def test_models(name, lanes):
    """Every model, all parameters unknown, numbers of nodes around the number of lanes."""
    problem, trial = plain_problem(name)
    for N in NODES:
        assert_agrees(problem.program, compiled(problem, [trial(N, N)], lanes))


@pytest.mark.parametrize(
    ("scheme", "held", "free"),
    [
        *((name, True, True) for name in SCHEMES),
        *((name, False, False) for name in ("radau-1", "radau-3", "gauss-4", "lobatto-4")),
        *(("gauss-2", held, not held) for held in (False, True)),
    ],
)
def test_everything_at_once(scheme, held, free):
    """Linked trials of different length, every scheme, unknown inputs, held or not, durations."""
    problem, trial = rich_problem(scheme, held, free)
    for lengths in ((2, 3), (6, 11), (130, 2)):
        trials = [trial(N, N) for N in lengths]
        assert_agrees(problem.program, compiled(problem, trials, 4))
    assert_agrees(problem.program, compiled(problem, [trial(9, 1)] * 3, 8))


@pytest.mark.parametrize("lanes", LANES)
def test_several_chunks(lanes):
    """Enough nodes for many tiles and chunks: sums and shared entries at their edges."""
    problem, trial = plain_problem("n_link_2")
    assert_agrees(problem.program, compiled(problem, [trial(1501, 1)], lanes))
    problem, trial = plain_problem("pendulum")
    assert_agrees(problem.program, compiled(problem, [trial(70001, 1), trial(4099, 2)], lanes))


@pytest.mark.parametrize("scheme", ["gauss-2", "radau-5", "lobatto-4"])
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("lanes", LANES)
def test_threads_do_not_change_a_bit(monkeypatch, lanes, free, scheme):
    """1, 2, 3 and 7 threads give identical bits, where several threads are really used."""
    monkeypatch.setattr(nlp_module, "_PER_THREAD", 1)
    problem, trial = rich_problem(scheme, ("a", "T_a"), free)
    answers = []
    for threads in (1, 2, 3, 7):
        nlp = compiled(problem, [trial(1300, 1), trial(40, 2)], lanes, threads)
        assert nlp.plans.hessian.threads == threads
        z, multipliers = random_point(nlp, 6)
        answers.append(
            [
                np.array([nlp.cost(z)]),
                nlp.gradient(z),
                nlp.constraints(z),
                nlp.jacobian(z),
                nlp.hessian(z, multipliers, 0.3),
            ]
        )
    for others in answers[1:]:
        for first, other in zip(answers[0], others, strict=True):
            assert (first == other).all()
    assert_agrees(problem.program, nlp)


def test_some_entries_of_a_structure():
    """Those in some rows and on the diagonal, without the places of all; and factors of all."""
    problem, trial = rich_problem("gauss-4", (), True)
    nlp = compiled(problem, [trial(N, N) for N in (21, 2, 9)], 4)
    rng = np.random.default_rng(0)
    for plain, height in (
        (nlp.jacobian_structure, nlp.n_constraints),
        (nlp.hessian_structure, nlp.n_variables),
    ):
        own = rng.integers(0, height, (2, 5))
        for structure in (plain, Extended(plain, *own), Extended(plain, *own[:, :0])):
            rows, columns = structure.arrays()
            wanted = rng.random(height) < 0.3
            for found, here in (
                (structure.in_rows(wanted), wanted[rows]),
                (structure.on_diagonal(), rows == columns),
            ):
                expected = np.flatnonzero(here)
                for one, other in zip(
                    found, (expected, rows[expected], columns[expected]), strict=True
                ):
                    np.testing.assert_array_equal(one, other)
        for structure in (Extended(plain, *own), Extended(plain, *own[:, :0])):
            of_rows, of_columns = np.full(height, 3.0), np.full(nlp.n_variables, 5.0)
            values = np.ones(structure.size)
            structure.products(of_rows, of_columns).multiply(values)
            assert (values == 15.0).all()


@pytest.mark.study
@pytest.mark.parametrize("scheme", ["gauss-2", "radau-3"])
@pytest.mark.parametrize("lanes", [4, 8])
def test_large_matrices_go_past_the_caches(monkeypatch, lanes, scheme):
    """As if any matrix were large: the same bits, wherever the values begin, none beside them."""
    monkeypatch.setattr(nlp_module, "_PER_THREAD", 1)
    problem, trial = rich_problem(scheme, (), True)
    trials = [trial(N, N) for N in (300, 2, 9, 20)]
    usual = compiled(problem, trials, lanes)
    z, multipliers = random_point(usual, 4)
    expected = usual.jacobian(z), usual.hessian(z, multipliers, 0.3)
    for threads in (1, 3):
        nlp = compiled(problem, trials, lanes, threads, ("-DKS_STREAM_DOUBLES=1",))
        for skip in range(9):
            memory = [np.full(len(values) + 17, np.pi) for values in expected]
            parts = [a[skip : skip + len(v)] for a, v in zip(memory, expected, strict=True)]
            nlp.jacobian(z, parts[0])
            nlp.hessian(z, multipliers, 0.3, parts[1])
            for a, part, values in zip(memory, parts, expected, strict=True):
                assert (part == values).all()
                assert (a[:skip] == np.pi).all() and (a[skip + len(values) :] == np.pi).all()


def test_collocation_shows_the_same_numbers():
    """`Collocation` wraps the nonlinear program: dense matrices are those of the reference."""
    problem, trial = plain_problem("cip")
    problem = ks.Collocation(
        problem.model, trial(7, 1), unknown=dict.fromkeys(problem.model.parameter_names)
    )
    z, multipliers = random_point(problem.nlp, 2)
    expected = Reference(problem.program, problem.nlp, z, multipliers, 1.0)
    assert_close(problem.cost(z), expected.cost)
    assert_close(problem.cost_gradient(z), expected.gradient)
    assert_close(problem.constraints(z), expected.constraints)
    assert_close(problem.constraint_jacobian(z).toarray(), expected.jacobian.toarray())
    lower = expected.hessian.toarray()
    full = lower + np.tril(lower, -1).T
    assert_close(problem.lagrangian_hessian(z, multipliers).toarray(), full)
