"""Compiled functions, trials, fits and simulations that cannot be."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 1.0, 5)


@cache
def model():
    return ks.Model(
        "osc",
        [x, v],
        [u],
        [k],
        [x.diff(t) - v, v.diff(t) + k * x - u],
        outputs={"force": u - k * x},
    )


@cache
def functions():
    return ks.compile(model())


def trial(**changes):
    given = {"time": TIME, "inputs": {u: 0.0 * TIME}, "measurements": {x: np.cos(TIME)}}
    return ks.Experiment(**{**given, **changes})


def problem(of=None, trials=None, **changes):
    given = {"unknown": {k: (0.1, 10.0)}, "scheme": "midpoint"}
    return ks.Collocation(
        model() if of is None else of, trial() if trials is None else trials, **{**given, **changes}
    )


@cache
def solvable():
    return problem()


def shooting(of=None, trials=None, **changes):
    given = {"unknown": {k: (0.1, 10.0)}, "initial": {x: 1.0, v: 0.0}}
    return ks.Shooting(
        model() if of is None else of, trial() if trials is None else trials, **{**given, **changes}
    )


@cache
def shot():
    return shooting()


def run(of=None, **changes):
    given = {"time": TIME, "initial": {x: 1.0, v: 0.0}, "parameters": {k: 1.0}, "inputs": {u: 0.0}}
    return ks.simulate(model() if of is None else of, **{**given, **changes})


@cache
def solved():
    return solvable().solve({k: 2.0})


def k0():
    return sp.Float(solved().parameters[k], 17)


DAYS = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")


@cache
def adjoint():
    return ks.ContinuousAdjoint(model(), ks.Integral(x**2), [k])


def conjugate(of=None, objective=None, **changes):
    return ks.ContinuousAdjoint(
        model() if of is None else of,
        ks.Integral(x**2) if objective is None else objective,
        **changes,
    )


@cache
def switched():
    free = ks.Model("free", [x, v], [u], [k], [x.diff(t) - v, v.diff(t) + k - u])
    return kh.Hybrid(free, events=[kh.Event("top", v)])


def members(of=None, **changes):
    given = {
        "time": TIME,
        "initial": {x: [1.0, 2.0], v: 0.0},
        "parameters": {k: 1.0},
        "inputs": {u: 0.0},
    }
    return ks.simulate(switched() if of is None else of, **{**given, **changes})


def hybrid_fit(of=None, trials=None, **changes):
    given = {"unknown": {k: None}, "initial": {x: 1.0, v: 0.0}}
    return ks.Shooting(
        switched() if of is None else of,
        trial() if trials is None else trials,
        **{**given, **changes},
    )


FUNCTIONS = [
    (lambda: ks.compile(None), "kinesym.Model", "None"),
    (lambda: ks.compile(5), "kinesym.Model", "5"),
    (lambda: ks.compile("osc"), "kinesym.Model", "'osc'"),
    (lambda: ks.compile(ks.Model), "kinesym.Model", "the class Model"),
    (lambda: ks.compile(switched()), "kinesym.Model", "Hybrid"),
    (lambda: ks.compile([model()]), "kinesym.Model"),
    (lambda: ks.compile(model().substitute({u: sp.besseli(0, x)}, inputs=[])), "besseli"),
    (lambda: ks.compile(model().substitute({u: sp.Integral(x, t)}, inputs=[])), "is not evaluated"),
    (lambda: functions().rhs([1.0], [0.0], [1.0]), "x has shape (1,)", "2 values per point"),
    (lambda: functions().rhs([1.0, 2.0], [], [1.0]), "u has shape (0,)", "1 values per point"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], []), "p has shape (0,)", "1 values"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], [[1.0]]), "p has shape (1, 1)", "1 values"),
    (lambda: functions().rhs([1.0, 2.0], [0.0, 1.0], [1.0]), "u has shape (2,)", "1 values"),
    (lambda: functions().rhs(np.ones((2, 3)), np.ones((1, 4)), [1.0]), "points", "4", "3"),
    (lambda: functions().rhs(np.ones((2, 3, 4)), [0.0], [1.0]), "x has shape (2, 3, 4)"),
    (lambda: functions().rhs("rest", [0.0], [1.0]), "x must be real numbers", "text"),
    (lambda: functions().rhs(None, [0.0], [1.0]), "x has shape ()", "2 values"),
    (lambda: functions().rhs({"x": 1}, [0.0], [1.0]), "x must be real numbers", "{'x': 1}"),
    (lambda: functions().rhs([1.0, 1j], [0.0], [1.0]), "x must be real numbers", "complex"),
    (lambda: functions().rhs([1.0, k], [0.0], [1.0]), "x must be real numbers", "k"),
    (lambda: functions().rhs([[1.0], [1.0, 2.0]], [0.0], [1.0]), "x", "unequal"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], {"k": 1.0}), "p must be real numbers"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], [1.0], "now"), "t must be real numbers"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], [1.0], [[0.0], [1.0]]), "t has shape (2, 1)"),
    (lambda: functions().rhs(np.ones((2, 3)), [0.0], [1.0], [0.0, 1.0]), "points", "2", "3"),
    (lambda: functions().rhs([1.0, 2.0], [0.0], 1.0), "p has shape ()", "1 values"),
    (lambda: functions().residual([1.0], [1.0, 2.0], [0.0], [1.0]), "xdot has shape (1,)"),
    (lambda: functions().residual([1.0, 2.0], "x", [0.0], [1.0]), "x must be real numbers"),
    (lambda: functions().residual(None, [1.0, 2.0], [0.0], [1.0]), "xdot has shape ()"),
    (lambda: functions().outputs([1.0, 2.0], [1.0], [0.0], [1.0]), "x has shape (1,)"),
    (lambda: functions().outputs([1.0, 2.0], [1.0, 2.0], "u", [1.0]), "u must be real numbers"),
    (lambda: functions().jacobian([0, 0], [1, 2], [0], [1], of="typo"), "no Jacobian", "'typo'"),
    (lambda: functions().jacobian([0, 0], [1, 2], [0], [1], wrt="x"), "no Jacobian", "'x'"),
    (lambda: functions().jacobian([0, 0], [1, 2], [0], [1], of=None), "no Jacobian", "None"),
    (lambda: functions().jacobian([0, 0], [1, 2], [0], [1], wrt=["states"]), "no Jacobian"),
    (lambda: functions().jacobian([0], [1, 2], [0], [1]), "xdot has shape (1,)"),
    (lambda: functions().jacobian([0, 0], [1, 2], [0], "p"), "p must be real numbers"),
]

TRIALS = [
    (lambda: trial(time=[0.0]), "at least 2 instants"),
    (lambda: trial(time=0.0), "at least 2 instants"),
    (lambda: trial(time=[0.0, 1.0, 0.5]), "time must increase", "1 to 0.5"),
    (lambda: trial(time=[0.0, np.nan]), "not finite at index 1"),
    (lambda: trial(time=None), "give either time"),
    (lambda: trial(time=[[0.0, 1.0]]), "one dimension", "(1, 2)"),
    (lambda: trial(time=None, duration=(1.0, 2.0)), "needs nodes"),
    (lambda: trial(time=None, nodes=5, duration=(2.0, 1.0)), "0 < low <= high"),
    (lambda: trial(time=None, nodes=5, duration=1.0), "0 < low <= high", "1.0"),
    (lambda: trial(time=None, nodes=5, duration="long"), "duration must be"),
    (lambda: trial(time=None, nodes=1, duration=(1.0, 2.0)), "nodes", "1"),
    (lambda: trial(nodes=12), "time has 5 nodes, not 12"),
    (lambda: trial(inputs=0.0), "inputs must be a mapping"),
    (lambda: trial(inputs=[0.0]), "inputs must be a mapping"),
    (lambda: trial(inputs={u: "a"}), "input u must be real numbers"),
    (lambda: trial(inputs={u: None}), "input u"),
    (lambda: trial(inputs={u: [1.0]}), "input u has 1 values, expected 5"),
    (lambda: trial(inputs={u: np.full(5, np.nan)}), "input u: 5 values"),
    (lambda: trial(inputs={5: 0.0}), "5", "neither a name nor a symbol"),
    (lambda: trial(inputs={u: 0.0, "u": 1.0}), "u is given twice"),
    (lambda: trial(inputs={u: 1j}), "input u must be real numbers"),
    (lambda: trial(measurements=TIME), "measurements must be a mapping"),
    (lambda: trial(measurements={x: 1.0}), "measurement x has", "expected 5"),
    (lambda: trial(measurements={x: "a"}), "measurement x must be", "numbers"),
    (lambda: trial(measurements={x: np.full(5, np.nan)}), "has no sample at all"),
    (lambda: trial(measurements={x: np.full(5, np.inf)}), "measurement x: 5 values"),
    (lambda: trial(std={v: 1.0}), "std of v, which is not measured"),
    (lambda: trial(std={x: 0.0}), "std of x must be positive"),
    (lambda: trial(std={x: -1.0}), "std of x must be positive"),
    (lambda: trial(std={x: [1.0]}), "std of x has 1 values"),
    (lambda: trial(std={x: None}), "std of x", "got None", "leave it out to have it estimated"),
    (lambda: trial(std={x: True}), "std of x", "got True", "leave it out to have it estimated"),
    (lambda: trial(std={x: "0.02"}), "std of x is the text '0.02'; give numbers, or the name"),
    (
        lambda: trial(measurements={x: ks.Signal(pd.date_range("2026", periods=5), TIME)}),
        "got dates",
        "give seconds, from one instant on for all",
    ),
    (lambda: trial(measurements=pd.Series([1.0])), "measurements: 0 is neither a name"),
    (lambda: trial(measurements=pd.DataFrame(np.ones((5, 2)), columns=["x", "x"])), "x", "twice"),
    (lambda: trial(measurements={x: ks.Signal(TIME, 5 * [None])}), "no sample at all; leave it"),
    (lambda: trial(measurements={x: ks.Signal(-TIME, TIME)}), "must increase", "sort them"),
    (lambda: trial(std=1.0), "std must be a mapping"),
    (lambda: trial(inputs={u: ks.Signal([0.0, 1.0], [1.0, 1.0], "spline")}), "between", "'spline'"),
    (
        lambda: trial(inputs={u: ks.Signal([0.0, 0.1], [1.0, 1.0])}),
        "input u is known for 0 ... 0.1 s",
    ),
    (lambda: trial(inputs={u: ks.Signal([0.0, 1.0], [1.0, 1.0], None)}), "between", "None"),
    (lambda: trial(time="abc"), "time"),
    (lambda: trial(time=[0.0, "a"]), "time"),
    (lambda: trial(time=None, nodes="5", duration=(1.0, 2.0)), "nodes", "'5'"),
    (lambda: trial(time=None, nodes=5.5, duration=(1.0, 2.0)), "nodes", "5.5"),
    (lambda: trial(inputs=None), "inputs must be a mapping"),
    (lambda: trial(inputs={u: np.sin}), "input u is the function sin"),
    (lambda: trial(std={x: ["a"]}), "std of x"),
]

COLLOCATION = [
    (lambda: problem(of=5), "kinesym.Model"),
    (lambda: problem(of="osc"), "kinesym.Model"),
    (lambda: problem(of=switched()), "event 'top' happens where", "ks.Phases"),
    (lambda: problem(trials=5), "trials"),
    (lambda: problem(trials="t"), "trials must be an Experiment"),
    (lambda: problem(trials=[5]), "trials must be an Experiment"),
    (lambda: problem(trials=[]), "at least one experiment"),
    (lambda: problem(unknown=k), "unknown must be a mapping", "k"),
    (lambda: problem(unknown="k"), "unknown must be a mapping", "'k'"),
    (lambda: problem(unknown=[k]), "unknown must be a mapping"),
    (lambda: problem(unknown={"kk": None}), "kk is unknown"),
    (lambda: problem(unknown={5: None}), "5", "neither a name nor a symbol"),
    (lambda: problem(unknown={k: 3.0}), "bounds of k must be"),
    (lambda: problem(unknown={k: (2.0, 1.0)}), "bounds of k are crossed"),
    (lambda: problem(unknown={k: ("a", "b")}), "bounds of k"),
    (lambda: problem(unknown={k: (0.0, 1.0, 2.0)}), "bounds of k must be"),
    (lambda: problem(unknown={k: (0.0, np.nan)}), "bounds of k"),
    (lambda: problem(unknown={}), "parameter k has no value"),
    (lambda: problem(known={"k": 1.0}), "k is both known and unknown"),
    (lambda: problem(unknown={}, known={k: np.nan}), "parameter k must be"),
    (lambda: problem(known=5), "known must be a mapping", "5"),
    (lambda: problem(scheme="rk4"), "unknown scheme 'rk4'"),
    (lambda: problem(scheme=None), "unknown scheme None"),
    (lambda: problem(scheme=5), "unknown scheme 5"),
    (lambda: problem(objective=x**2), "not made of Integral"),
    (lambda: problem(objective="x**2"), "not made of Integral"),
    (lambda: problem(objective=ks.Integral), "not made of Integral"),
    (lambda: problem(objective=ks.Integral(c * x)), "integrand contains c"),
    (lambda: problem(objective=ks.Terminal(x.diff(t))), "terminal cost contains a derivative"),
    (lambda: problem(objective=ks.Integral(ks.at_start(x))), "belong in boundary conditions"),
    (lambda: problem(objective=ks.Integral(1)), "nothing that is unknown"),
    (lambda: problem(bounds=5), "bounds must be a mapping", "5"),
    (lambda: problem(bounds={k: (0, 1)}), "bounds: k is unknown"),
    (lambda: problem(bounds={x: (1, 0)}), "bounds of x are crossed"),
    (lambda: problem(bounds={x: "wide"}), "bounds of x must be"),
    (lambda: problem(boundary=ks.at_start(x)), "boundary conditions must be a list"),
    (lambda: problem(boundary=None), "boundary conditions must be a list"),
    (lambda: problem(boundary=[x]), "neither at_start"),
    (lambda: problem(boundary=["x"]), "boundary condition 0 is text"),
    (lambda: problem(boundary=[None]), "boundary condition 0 is no expression"),
    (lambda: problem(boundary=[(ks.at_start(x), 1)]), "boundary condition 0 must be"),
    (lambda: problem(boundary=[(ks.at_start(x), 1, 0)]), "boundary condition 0 are crossed"),
    (lambda: problem(boundary=[(ks.at_start(x), "a", "b")]), "bounds of boundary condition 0"),
    (lambda: problem(boundary=[ks.at_start(w)]), "w"),
    (lambda: problem(boundary=[True]), "boundary condition 0"),
    (lambda: problem(path=x), "path conditions must be a list"),
    (lambda: problem(path=[c]), "path condition 0 contains c"),
    (lambda: problem(path=[5]), "path condition 0, 5"),
    (lambda: problem(path=[ks.at_end(x)]), "belong in boundary conditions"),
    (lambda: ks.Phases([trial()], links=5), "links must be a list"),
    (lambda: ks.Phases([trial()], cycle=5), "cycle conditions must be a list"),
    (lambda: problem(unknown_inputs=u), "unknown_inputs must be a mapping"),
    (lambda: problem(unknown_inputs={"uu": None}), "uu is unknown"),
    (lambda: problem(unknown_inputs={u: None}), "input u, which is not used because it is unknown"),
    (lambda: problem(trials=trial(inputs={})), "input u has no data in trial 0"),
    (lambda: problem(trials=trial(inputs={u: 0.0, "w": 0.0})), "data for input w"),
    (lambda: problem(trials=trial(measurements={})), "the experiment has none"),
    (lambda: problem(trials=trial(measurements={"z": TIME})), "z is neither a state"),
    (lambda: solvable().pack(5), "a guess is a mapping", "5"),
    (lambda: solvable().pack("best"), "a guess is a mapping", "'best'"),
    (lambda: solvable().pack([1.0]), "a guess is a mapping", "[1.0]"),
    (lambda: solvable().pack(np.zeros(3)), "the free vector has 11 entries", "(3,)"),
    (lambda: solvable().pack({"z": 1.0}), "guess: z is unknown"),
    (lambda: solvable().pack({k: np.nan}), "guess of k must be"),
    (lambda: solvable().pack({x: np.zeros(3)}), "guess of x has shape (3,)"),
    (lambda: solvable().solve(guess=5), "a guess is a mapping", "5"),
    (lambda: solvable().solve(hessian="magic"), "hessian is one of", "'magic'"),
    (lambda: solvable().solve(hessian=None), "hessian is one of", "None"),
    (lambda: solvable().solve(driver="fast"), "unknown driver 'fast'"),
    (lambda: solvable().solve(driver=5), "unknown driver 5"),
    (lambda: solvable().solve(linear_solver="magic"), "linear solver"),
    (lambda: solvable().solve(linear_solver=5), "linear solver", "5"),
    (lambda: solvable().solve(options={"nonsense": 1}), "does not accept the option nonsense"),
    (lambda: problem(unknown={}, known={k: "1"}), "parameter k"),
    (lambda: problem(unknown={}, known={k: None}), "parameter k"),
    (lambda: problem(threads=0), "threads must be at least 1", "0"),
    (lambda: problem(threads="two"), "threads must be at least 1", "'two'"),
    (lambda: problem(threads=1.5), "threads must be at least 1", "1.5"),
    (lambda: problem(trials=ks.Phases([kh.Phase()])), "kinesym.hybrid.Hybrid", "model osc"),
    (lambda: solvable().pack({k: "1"}), "guess of k"),
    (lambda: solvable().unpack(5), "free vector", "11"),
    (lambda: solvable().unpack(np.zeros(3)), "free vector", "11"),
    (lambda: solvable().cost(np.zeros(3)), "free vector", "11"),
    (lambda: solvable().cost("z"), "free vector"),
    (lambda: solvable().cost(None), "free vector"),
    (lambda: solvable().cost_gradient(np.zeros(3)), "free vector", "11"),
    (lambda: solvable().constraints(np.zeros((11, 1))), "free vector", "11"),
    (lambda: solvable().constraint_jacobian([1.0]), "free vector", "11"),
    (lambda: solvable().lagrangian_hessian(np.zeros(11), [1.0]), "multipliers are 8", "(1,)"),
    (lambda: solvable().lagrangian_hessian(np.zeros(3), np.zeros(8)), "free vector", "11"),
    (lambda: solvable().variable_name("x"), "'x'"),
    (lambda: solvable().solve(options=5), "options must be a mapping", "5"),
    (lambda: solvable().solve(options={5: 1}), "options must be a mapping"),
    (lambda: solvable().solve(max_iterations="ten"), "max_iterations", "'ten'"),
    (lambda: solvable().solve(max_iterations=-1), "max_iterations", "-1"),
    (lambda: solvable().solve(max_iterations=2.5), "max_iterations", "2.5"),
    (lambda: solvable().solve(tolerance="small"), "tolerance", "'small'"),
    (lambda: solvable().solve(tolerance=0.0), "tolerance", "0.0"),
    (lambda: solvable().covariance(None), "kinesym.Solution", "None"),
]

SHOOTING = [
    (lambda: shooting(of=5), "kinesym.Model"),
    (lambda: shooting(trials=[]), "at least one experiment"),
    (lambda: shooting(trials="t"), "trials must be an Experiment"),
    (lambda: shooting(unknown=5), "unknown must be a mapping", "5"),
    (lambda: shooting(unknown={"kk": None}), "kk is unknown"),
    (lambda: shooting(unknown={}, known={k: 1.0}), "nothing is unknown"),
    (lambda: shooting(known=5), "known must be a mapping", "5"),
    (lambda: shooting(initial=None), "initial values of states x, v are missing"),
    (lambda: shooting(initial=[1.0, 0.0]), "initial must be a mapping"),
    (lambda: shooting(initial={x: 1.0}), "initial value of state v is missing"),
    (lambda: shooting(initial={x: "a", v: 0.0}), "initial value of x"),
    (lambda: shooting(initial={x: np.nan, v: 0.0}), "initial value of x must be one finite number"),
    (lambda: shooting(initial={x: [1.0, 2.0], v: 0.0}), "initial x has 2 values"),
    (lambda: shooting(initial={x: (2.0, 1.0), v: 0.0}), "initial x", "crossed"),
    (lambda: shooting(initial={"z": 1.0, x: 1.0, v: 0.0}), "initial: z is unknown"),
    (lambda: shooting(objective=x), "not made of Integral"),
    (lambda: shooting(method="euler"), "method is one of", "'euler'"),
    (lambda: shooting(method=5), "method must be text", "5"),
    (lambda: shooting(rtol=0.0), "rtol must be positive", "0.0"),
    (lambda: shooting(rtol=1e-6), "rk4 takes fixed steps", "of dormand-prince and radau-5"),
    (lambda: shooting(method="radau-3", atol=1e-6), "radau-3 takes fixed steps, shorter ones by"),
    (lambda: shooting(method="radau-5", substeps=1, atol=1e-6), "radau-5 takes fixed steps"),
    (lambda: hybrid_fit(method="rk4", rtol=1e-6), "rtol is a tolerance of dormand-prince"),
    (lambda: shooting(substeps=0), "substeps must be at least 1", "0"),
    (lambda: shooting(substeps=1.5), "substeps must be at least 1", "1.5"),
    (lambda: shooting(segments=0), "segments must be at least 1", "0"),
    (lambda: shooting(segments=10), "10 segments need more than 5 nodes"),
    (lambda: shooting(unknown_inputs=5), "unknown_inputs must be a mapping"),
    (lambda: shot().pack({"z": 1.0}), "guess: z is unknown"),
    (lambda: shot().pack([1.0, 2.0]), "there are 1 unknowns", "(2,)"),
    (lambda: shot().pack({k: [1.0, 2.0]}), "guess of k must be one finite number"),
    (lambda: shot().pack({k: np.nan}), "guess of k"),
    (lambda: shot().gradient(mode="magic"), "mode is one of", "'magic'"),
    (lambda: shot().gradient(mode=None), "mode is one of", "None"),
    (lambda: shot().solve(optimizer="magic"), "optimizer is one of", "'magic'"),
    (lambda: shot().solve(optimizer=None), "optimizer is one of", "None"),
    (lambda: shot().solve(guess={k: np.inf}), "guess of k must be one finite number"),
    (lambda: hybrid_fit(of=5), "kinesym.hybrid.Hybrid"),
    (lambda: hybrid_fit(trials=[]), "trials must be an Experiment"),
    (lambda: hybrid_fit(unknown=5), "unknown must be a mapping", "5"),
    (lambda: hybrid_fit(unknown={"kk": None}), "kk is unknown"),
    (lambda: hybrid_fit(unknown={}, known={k: 1.0}), "nothing is unknown"),
    (lambda: hybrid_fit(initial={x: 1.0}), "initial value of state v is missing"),
    (lambda: hybrid_fit(trials=trial(inputs={u: 0.0, "z": 1.0})), "z is unknown"),
    (lambda: hybrid_fit(initial={x: 1.0, v: 0.0, "wall": True}), "initial: wall is unknown"),
    (lambda: hybrid_fit(objective=ks.Integral(x**2)), "the objective of a hybrid model", "zeros"),
    (lambda: hybrid_fit(objective=-ks.LeastSquares()), "measurements enter with the factor -1"),
    (lambda: hybrid_fit(objective=x), "not made of Integral"),
    (lambda: hybrid_fit(segments=2), "segments would begin without knowing which contacts press"),
    (lambda: hybrid_fit(unknown_inputs={u: None}), "inputs of a hybrid model cannot be unknown"),
    (
        lambda: hybrid_fit(method="trapezoid"),
        "trapezoid steps over events at known times alone",
        "dormand-prince or rk4",
    ),
    (lambda: hybrid_fit(substeps=2), "dormand-prince chooses its steps by rtol and atol"),
    (
        lambda: hybrid_fit().gradient(mode="continuous-adjoint"),
        "hybrid model",
        "continuous adjoint of a hybrid model",
    ),
    (lambda: hybrid_fit(rtol=0.0), "rtol must be positive", "0.0"),
    (lambda: hybrid_fit(trials=trial(measurements={})), "least squares of the measurements"),
    (lambda: hybrid_fit(trials=trial(measurements={"z": TIME})), "measurement z is neither"),
    (lambda: shooting(substeps="two"), "substeps", "'two'"),
    (lambda: shooting(segments=None), "segments", "None"),
    (lambda: shooting(threads=0), "threads must be at least 1", "0"),
    (lambda: hybrid_fit(threads=2), "threads are for trials of a model"),
    (lambda: shot().pack("best"), "guess", "'best'"),
    (lambda: shot().pack({k: "a"}), "guess of k"),
    (lambda: shot().cost("best"), "guess", "'best'"),
    (lambda: shot().unpack([1.0, 2.0]), "1 unknowns"),
    (lambda: shot().unpack("a"), "the guess", "text"),
    (lambda: shot().solve(max_iterations="ten"), "max_iterations", "'ten'"),
    (lambda: shot().solve(max_iterations=-1), "max_iterations", "-1"),
    (lambda: shot().solve(tolerance=-1.0), "tolerance", "-1.0"),
    (lambda: shot().solve(tolerance="small"), "tolerance", "'small'"),
    (lambda: shot().solve(options=5), "options must be a mapping", "5"),
    (lambda: shot().solve(scale="yes"), "scale is True or False", "'yes'"),
    (lambda: hybrid_fit(trials=5), "trials must be an Experiment"),
    (lambda: hybrid_fit(known=5), "known must be a mapping", "5"),
    (lambda: hybrid_fit(rtol="a"), "rtol must be positive", "'a'"),
]

SIMULATE = [
    (lambda: run(of=5), "kinesym.Model"),
    (lambda: run(of="osc"), "kinesym.Model"),
    (lambda: run(time=None), "time needs at least 2 instants"),
    (lambda: run(time=[0.0]), "at least 2 instants"),
    (lambda: run(time=[1.0, 0.0]), "time must increase"),
    (lambda: run(initial=[1.0, 0.0]), "initial must be a mapping"),
    (lambda: run(initial="rest"), "initial must be a mapping", "'rest'"),
    (lambda: run(initial={x: 1.0}), "initial value of state v is missing"),
    (lambda: run(initial={x: "a", v: 0.0}), "initial value of state x", "'a'"),
    (lambda: run(initial={x: None, v: 0.0}), "initial value of state x"),
    (lambda: run(initial={x: np.nan, v: 0.0}), "initial value of state x is nan"),
    (lambda: run(initial={x: [[1.0]], v: 0.0}), "initial value of state x", "(1, 1)"),
    (lambda: run(initial={x: [], v: 0.0}), "initial value of state x", "(0,)"),
    (lambda: run(initial={x: 1.0, v: 0.0, 5: 1.0}), "5", "neither a name nor a symbol"),
    (lambda: run(parameters={}), "parameter k is missing"),
    (lambda: run(parameters=1.0), "parameters must be a mapping", "1.0"),
    (lambda: run(parameters="k"), "parameters must be a mapping", "'k'"),
    (lambda: run(parameters={k: np.inf}), "parameter k is inf"),
    (lambda: run(parameters={k: "a"}), "parameter k", "'a'"),
    (lambda: run(parameters={"kk": 1.0}), "kk is unknown"),
    (lambda: run(parameters={k: [1, 2]}, initial={x: [1, 2, 3], v: 0}), "members is not clear"),
    (lambda: run(inputs={}), "the input u is missing"),
    (lambda: run(inputs=0.0), "inputs must be a mapping", "0.0"),
    (lambda: run(inputs={u: "a"}), "input u must be real numbers"),
    (lambda: run(inputs={u: np.zeros(7)}), "input u has 7 values, expected 5 values"),
    (lambda: run(inputs={u: np.full(5, np.inf)}), "input u: 5 values"),
    (lambda: run(inputs={u: 0.0, "z": 1.0}), "z is unknown"),
    (lambda: run(method="euler"), "method is one of", "'euler'"),
    (lambda: run(method=5), "method is one of", "5"),
    (lambda: run(substeps=0), "substeps must be at least 1", "0"),
    (lambda: run(substeps=1.5), "substeps must be at least 1", "1.5"),
    (lambda: run(inputs={u: ks.Signal([0.0, 0.1], [1.0, 1.0])}), "known for 0 ... 0.1 s", "needed"),
    (lambda: run(inputs={u: ks.Signal([5.0], [1.0], "held")}), "is known for 5 ... inf s"),
    (lambda: run(rtol=0.0), "rtol", "positive", "0.0"),
    (lambda: run(rtol=[1e-6, 1e-9]), "rtol is one number for all states", "[1e-06, 1e-09]"),
    (lambda: run(atol={x: 1e-9}), "atol is one number for all states", "the smallest state"),
    (lambda: run(atol=np.full(2, 1e-9)), "atol is one number for all states"),
    (
        lambda: run(rtol=1e-6),
        "rk4 takes fixed steps, shorter ones by substeps; rtol is a tolerance of dormand-prince",
    ),
    (lambda: run(method="radau-3", atol=1e-6), "radau-3 takes fixed steps", "atol is a tolerance"),
    (lambda: run(method="dormand-prince", substeps=2), "dormand-prince chooses its steps"),
    (lambda: run(method="radau-5", substeps=2), "radau-5 chooses its steps", "such as rk4"),
    (lambda: members(of=5), "kinesym.hybrid.Hybrid", "5"),
    (
        lambda: members(initial={x: [1.0, 2.0], v: [1.0, 2.0, 3.0]}),
        "the number of members is not clear: 2 for x, 3 for v",
    ),
    (lambda: members(initial={x: [1.0, np.nan], v: 0.0}), "state x of member 1 is nan"),
    (lambda: members(initial={x: [1.0, "a"], v: 0.0}), "initial value of state x", "text"),
    (lambda: members(threads=0), "threads must be at least 1", "0"),
    (lambda: members(method="euler"), "method is one of"),
    (lambda: members(time=None), "time needs at least 2 instants"),
    (lambda: run(time="now"), "time"),
    (lambda: run(initial=None), "initial must be a mapping", "None"),
    (lambda: run(inputs={u: np.sin}), "input u is the function sin"),
    (lambda: run(substeps="two"), "substeps", "'two'"),
    (lambda: run(substeps=None), "substeps", "None"),
    (lambda: run(rtol="small"), "rtol", "'small'"),
    (lambda: run(atol=None), "atol", "None"),
    (lambda: run(threads=0), "threads must be at least 1", "0"),
    (lambda: run(threads="two"), "threads must be at least 1", "'two'"),
    (lambda: run(threads=-3), "threads must be at least 1", "-3"),
    (lambda: members(initial=5), "initial must be a mapping", "5"),
    (lambda: members(initial=None), "initial must be a mapping", "None"),
    (lambda: members(initial=[1.0]), "initial must be a mapping", "[1.0]"),
    (lambda: members(parameters=5), "parameters must be a mapping", "5"),
    (lambda: members(inputs=5), "inputs must be a mapping", "5"),
    (lambda: members(threads="two"), "threads must be at least 1", "'two'"),
]

ADJOINT = [
    (lambda: conjugate(of=5), "kinesym.Model", "5"),
    (lambda: conjugate(of=switched()), "kinesym.Model"),
    (lambda: conjugate(objective=x**2), "Integral", "x(t)**2"),
    (lambda: conjugate(objective="x"), "Integral", "'x'"),
    (lambda: conjugate(objective=5), "Integral", "5"),
    (lambda: conjugate(objective=ks.LeastSquares()), "Integral"),
    (lambda: conjugate(unknown=k), "unknown must be a list", "k"),
    (lambda: conjugate(unknown="k"), "unknown must be a list", "'k'"),
    (lambda: conjugate(unknown=["kk"]), "kk"),
    (lambda: conjugate(unknown=[5]), "5", "neither a name nor a symbol"),
    (lambda: conjugate(unknown=None), "unknown must be a list", "None"),
    (lambda: conjugate(form="third"), "unknown form 'third'"),
    (lambda: conjugate(form=None), "unknown form None"),
    (lambda: conjugate(form=["first-order"]), "unknown form"),
    (lambda: conjugate(held=5), "held must be a list", "5"),
    (lambda: conjugate(held="u"), "held must be a list", "'u'"),
    (lambda: conjugate(held=["z"]), "held: z is no input and no signal"),
    (lambda: conjugate(held=[5]), "5"),
    (lambda: adjoint().gradient(None), "kinesym.Trajectory", "None"),
    (lambda: adjoint().gradient("run"), "kinesym.Trajectory", "'run'"),
    (lambda: adjoint().gradient(run(), 5), "signals must be a mapping", "5"),
    (lambda: adjoint().gradient(run(), {"z": 1.0}), "signals: z is unknown"),
]

FILES = [
    (lambda: run()["z"], "z is no trajectory here", "x, v"),
    (lambda: run()[5], "5", "neither a name nor a symbol"),
    (lambda: run().between(5.0, 6.0), "no node is between 5 and 6 s"),
    (lambda: run().vector("hip"), "hip_x is no trajectory here"),
    (lambda: run().animate("file.png"), ".gif", "file.png"),
    (lambda: run().animate("file.gif", fps=0), "fps", "0"),
    (lambda: run().animate("file.gif"), "draw"),
    (lambda: run().plot(names=["z"]), "there is no trajectory 'z'"),
    (lambda: run().between("a", 1.0), "begin", "'a'"),
]

#: Counts that would take all memory, or days.
COUNTS = [
    (lambda: solvable().multistart(10**9), "starts must be at most 1000000", "1000000000"),
    (lambda: shot().multistart(10**9), "starts must be at most 1000000"),
    (lambda: solvable().verify(solved(), 10**9), "segments, one per interval", "at most 4"),
    (lambda: shooting(segments=10**9), "1000000000 segments need more than 5 nodes"),
    (lambda: solved().bootstrap(10**9), "records must be at most 1000000"),
    (lambda: ks.UnknownHistory(0, 1, 10**9), "values of ks.UnknownHistory must be at most"),
    (lambda: kh.train(0.0, 0.1, 10**9), "impulses of a train must be at most"),
]

#: What would have been taken in silence, or refused by Python.
ARGUMENTS = [
    (lambda: ks.periodic(x, sign=5), "sign of ks.periodic is 1 or -1", "5"),
    (lambda: ks.periodic(x, sign=0), "sign of ks.periodic is 1 or -1", "at_start(x) - ratio*"),
    (lambda: ks.periodic(x, sign="-1"), "sign of ks.periodic is 1 or -1", "'-1'"),
    (lambda: ks.held(5, 1), "bounds of ks.held are crossed: 5 > 1"),
    (lambda: ks.held("a"), "bounds of ks.held", "'a'"),
    (lambda: ks.linear(5, 1), "bounds of ks.linear are crossed"),
    (lambda: ks.continuous(None, np.nan), "bounds of ks.continuous", "nan"),
    (lambda: ks.table(x, [0, 1], [1, 2j], "linear"), "the values must be numbers", "2j"),
    (lambda: ks.table(x, [0, 1], np.array([1, 2 + 0j]), "linear"), "the values must be numbers"),
    (lambda: ks.table(x, DAYS, [1.0, 2.0], "linear"), "the points must be numbers"),
    (lambda: ks.table(x, [0, 1], DAYS - DAYS[0], "linear"), "the values must be numbers"),
    (lambda: ks.table(x, [0, 1], ["1", "2"], "linear"), "the values must be numbers", "'1'"),
    (lambda: ks.Signal([0, 1], [1, 2]).stretched(0), "factor", "positive", "0"),
    (lambda: ks.Signal([0, 1], [1, 2]).stretched(-1), "factor", "positive", "-1"),
    (lambda: ks.sensor(x, gain=0), "gain of ks.sensor is 0", "x(t)"),
    (lambda: ks.sensor(x, gain=0.0), "gain of ks.sensor is 0", "leave it out"),
    (lambda: solvable().multistart(3, ranges={k: 5}), "ranges: that of k is (low, high), got 5"),
    (lambda: solvable().multistart(3, ranges={k: (1, 20)}), "beyond its bounds", "0.1 ... 10"),
    (lambda: shot().multistart(3, ranges={k: (0.01, 2)}), "beyond its bounds", "0.1 ... 10"),
    (lambda: solved().bands([]), "names of trajectories: none is given"),
    (lambda: solved().plot(names=[]), "names of trajectories: none is given"),
    (lambda: solved().bands(5), "names of trajectories must be a list", "5"),
    (lambda: solved().report(None), "named by its path", "None"),
    (lambda: solved().report(5), "named by its path", "5"),
    (lambda: solved().interval(sp.sqrt(-k)), "sqrt(-k) has no value", "k = "),
    (lambda: solved().interval(1 / (k - k0())), "has no value or no slope"),
    (lambda: solvable().on_grid_of(None), "kinesym.Solution", "None"),
]

REFUSED = [*FUNCTIONS, *TRIALS, *COLLOCATION, *SHOOTING, *SIMULATE, *ADJOINT, *FILES]


def swept(method=None):
    given = {"parameters": {k: 1.0}, "inputs": {u: 0.0}, "method": method}
    return ks.sensitivities(model(), TIME, {x: 1.0, v: 0.0}, **given)


def event_of(kind):
    free = kh.Hybrid(ks.Model("free", [x], [], [], [x.diff(t) - 1]))
    return ks.simulate(free, TIME, {x: 0.0}).happened(kind)


#: What is no method, no number of a trial, no mapping of ways to change inputs.
ODD = [[None], {}, set(), np.array([1j]), np.array(["rk4"]), 5, b"rk4", "", ["rk4"], int, object()]
SHAPES = [[], np.array([]), np.array([0]), {}, "0", None, object(), [[1], [2, 3]], set(), -1, 1]
KINDS = [0.5, 5, "a", [1], (1, 2), object(), int, np.ones(2), b"x", True]
REFUSED += [
    *COUNTS,
    *ARGUMENTS,
    *((lambda m=m: swept(m), "method must be text") for m in ODD),
    *((lambda m=m: shooting(method=m), "method must be text") for m in ODD),
    *((lambda n=n: solved().to_csv("a.csv", trial=n), "trial must be a number") for n in SHAPES),
    *((lambda w=w: swept().forward(variations=w), "variations must be a mapping") for w in KINDS),
    *((lambda w=w: swept().forward(variations={"a": w}), "variation a must be") for w in KINDS),
    *((lambda w=w: swept().forward(wrt=w), "wrt must be a list") for w in (5, 0.5, "k", {}, None)),
    *((lambda n=n: swept().gradient(n), "neither a name nor a symbol") for n in (object(), int, 5)),
    *((lambda n=n: event_of(n), "there is no kind") for n in SHAPES if n is not None),
]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: solvable().solve(tol=1e-3), "solve has no argument tol; did you mean tolerance?"),
        (lambda: solvable().solve(mu_init=0.1), r"IPOPT go into options=\{'mu_init': 0.1\}"),
        (lambda: shot().solve(max_iter=5), "has no argument max_iter; did you mean max_iterations"),
    ],
)
def test_arguments_that_there_are_not(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_models_of_which_parts_are_missing():
    for given in ([[x, v], [u], [k], []], []):
        with pytest.raises(ValueError, match="the name of a model, its first argument, must be"):
            ks.Model(*given)
    with pytest.raises(ValueError, match="0 equations for 1 states"):
        ks.Model("m", [x], [], [])


def test_trials_of_a_solution_as_files(tmp_path):
    solved().to_csv(tmp_path / "a.csv")
    frame = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_array_equal(frame["x"], solved()["x"])
    with pytest.raises(ValueError, match="trial must be a number from 0 to 0"):
        solved().to_csv(tmp_path / "a.csv", trial=1)
