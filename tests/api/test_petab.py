"""Problems in PEtab: the test suite of the format, and sentences on files that are wrong."""

import csv
import tarfile
from math import inf
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy import stats

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.models.files import petab_v1
from kinesym.models.files.petab import Measurement, Observable, Parameter, Period, Tables
from kinesym.models.files.petab_math import formula
from kinesym.models.files.sbml import FileModel
from kinesym.petab.fits import shooting_of
from kinesym.petab.runs import simulated

yaml = pytest.importorskip("yaml")

ARCHIVE = Path(__file__).parents[1] / "data" / "petab" / "suite.tar.xz"
#: Cases by version.
CASES = [("v1.0.0", f"{k:04d}") for k in range(1, 21)]
CASES += [("v2.0.0", f"{k:04d}") for k in range(1, 33) if k != 19]
#: Cases with what the others have not; the rest are long.
SHORT = {
    "v1.0.0": {"0002", "0005", "0006", "0008", "0010", "0016", "0017", "0018", "0020"},
    "v2.0.0": {
        "0003",
        "0011",
        "0016",
        "0018",
        "0021",
        "0022",
        "0023",
        "0024",
        "0028",
        "0030",
        "0032",
    },
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The folder of the cases."""
    folder = tmp_path_factory.mktemp("petab")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "petabtests" / "cases"


def cases():
    for version, case in CASES:
        short = case in SHORT[version]
        yield pytest.param(version, case, marks=[] if short else [pytest.mark.study])


@pytest.mark.parametrize("version, case", [*cases()])
def test_likelihoods_and_simulations_of_the_test_suite(suite, version, case):
    """To 1e-6, which is closer than the tolerances of the suite."""
    folder = suite / version / "sbml" / case
    path = folder / f"_{case}.yaml"
    problem = ks.petab.read(path)
    found = problem.simulate()
    told = yaml.safe_load((folder / f"_{case}_solution.yaml").read_text(encoding="utf-8"))
    with (folder / "_simulations.tsv").open(encoding="utf-8") as file:
        rows = [float(row["simulation"]) for row in csv.DictReader(file, delimiter="\t")]
    assert found.simulation == pytest.approx(rows, abs=1e-6)
    assert found.log_likelihood == pytest.approx(told["llh"], rel=1e-6)
    assert found.chi2 == pytest.approx(told["chi2"], rel=1e-6)
    for name, value in told.get("log_prior", {}).items():
        assert problem.log_prior()[name] == pytest.approx(value, abs=1e-13)


@pytest.fixture
def folder(suite, tmp_path):
    """A copy of case 0002 of version 1: two conditions."""
    for path in (suite / "v1.0.0" / "sbml" / "0002").iterdir():
        (tmp_path / path.name.lstrip("_")).write_bytes(path.read_bytes())
    entries = (tmp_path / "0002.yaml").read_text(encoding="utf-8")
    (tmp_path / "0002.yaml").write_text(entries.replace("_", "").replace("sbmlf", "sbml_f"))
    told = yaml.safe_load(entries)
    problem = {k: [name.lstrip("_") for name in v] for k, v in told["problems"][0].items()}
    told |= {"problems": [problem], "parameter_file": told["parameter_file"].lstrip("_")}
    (tmp_path / "0002.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return tmp_path


def test_values_names_and_the_picture(folder):
    problem = ks.petab.read(folder / "0002.yaml")
    assert "2 states" in str(problem) and "parameter" in str(problem)
    assert problem.unknown["k1"] == (0.0, 10.0)
    nominal, other = problem.simulate(), problem.simulate({"k1": 0.4})
    assert nominal.log_likelihood > other.log_likelihood
    assert "log likelihood" in str(nominal)
    assert next(iter(nominal.to_pandas().columns)) == "observableId"
    nominal.write(folder / "simulated.tsv")
    with (folder / "simulated.tsv").open(encoding="utf-8") as file:
        rows = [float(row["simulation"]) for row in csv.DictReader(file, delimiter="\t")]
    assert rows == nominal.simulation.tolist()
    figure = nominal.plot()
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()] == ["obs_a"]
    with pytest.raises(ValueError, match=r"k3 is no parameter of the problem; .*k1"):
        problem.simulate({"k3": 1.0})


def test_a_steady_state_that_is_none(suite, tmp_path):
    source = suite / "v1.0.0" / "sbml" / "0009"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rows = (tmp_path / "_conditions.tsv").read_text(encoding="utf-8").replace("0.3", "-0.7")
    (tmp_path / "_conditions.tsv").write_text(rows, encoding="utf-8")
    with pytest.raises(ValueError, match="experiment c0 after preeq_c0: "):
        ks.petab.read(tmp_path / "_0009.yaml").simulate()


@pytest.mark.parametrize(
    "file, old, new, words",
    [
        ("measurements.tsv", "0.7", "0,7", "measurements.tsv, line 2: .*measurement is a number"),
        ("measurements.tsv", "0.7", "nan", "measurements.tsv, line 2: .*measurement is empty"),
        ("measurements.tsv", "obs_a\tc0", "obs_b\tc0", "line 2: there is no observable obs_b"),
        ("measurements.tsv", "obs_a\tc0", "obs_a\tc9", "line 2: there is no condition c9"),
        ("measurements.tsv", "measurement", "measured", "measurements.tsv has no column measure"),
        ("observables.tsv", "\tA\t", "\tA *\t", "observables.tsv, line 2, column observableForm"),
        ("observables.tsv", "\tA\t", "\tZ\t", "observable obs_a, .*: Z in Z has no value"),
        ("parameters.tsv", "\nk1\t", "\nk2\t", "parameters.tsv, line .: k2 is there twice"),
        ("parameters.tsv", "\tlin\t", "\tlog2\t", "parameters.tsv, line 2: parameterScale"),
        ("measurements.tsv", "0.7", "inf", "measurements.tsv, line 2: .*finite, got inf"),
        ("measurements.tsv", "\t0\t", "\t-1\t", "line 2: a measurement at -1, before the exper"),
        ("measurements.tsv", "\t0\t", "\t1e400\t", "line 2: column time is a number, got '1e400'"),
        (
            "observables.tsv",
            "\tA\t",
            "\tA*1e400\t",
            "column observableFormula: 'A.1e400' is no form.*: a number that is too large",
        ),
        ("observables.tsv", "\tA\t", "\tA*9^9^9^9\t", "column observableFormula: 9 to the power"),
        ("observables.tsv", "\tA\t", "\tA*inf\t", "observableFormula: 'A.inf' is no real number"),
        ("observables.tsv", "\tA\t", "\tsin(A, 2)\t", "sin of 2 arguments, which is not read"),
        ("observables.tsv", "\tA\t", "\tA 2\t", "'A 2' is no formula: no operator before '2'"),
        (
            "observables.tsv",
            "\tA\t",
            "\tlog(-A)\t",
            "obs_a, .*, line 2: its value is nan at time 0",
        ),
        ("observables.tsv", "\t1\n", "\t-1\n", "obs_a, .*, line 2: its noise is -1 at time 0"),
        ("observables.tsv", "\tA\t", "\tt*A\t", "t_ in A.t_ has no value"),
        ("conditions.tsv", "a0", "a7", "experiment c0: there is no a7 to be set"),
        ("conditions.tsv", "a0", "k1", "experiment c0: k1 is to be estimated, and set"),
        ("parameters.tsv", "\t1\n", "\t\n", "parameters.tsv, line .: column estimate is empty"),
        ("parameters.tsv", "\nk1\t", "\nA\t", "parameter A is no parameter of the model"),
        ("parameters.tsv", "\t10\t", "\t-10\t", "parameter .*: bounds 0 and -10"),
        ("0002.yaml", "parameters.tsv", "/parameters.tsv", "/parameters.tsv is not in the folder"),
        ("0002.yaml", "- model.xml", "- 3", "sbml_files is a list of names of files, got .3"),
        ("model.xml", "<sbml", "<odd", "0002.yaml: model.xml: "),
        ("0002.yaml", "format_version: 1", "format_version: 7", "format_version is 1 or 2, got 7"),
        ("0002.yaml", "format_version: 1", "format_version: [", "it is no YAML file"),
        ("0002.yaml", "model.xml", "none.xml", "there is no file .*none.xml"),
    ],
)
def test_files_that_are_wrong(folder, file, old, new, words):
    path = folder / file
    said = path.read_text(encoding="utf-8")
    assert old in said
    path.write_text(said.replace(old, new, 1), encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        ks.petab.read(folder / "0002.yaml").simulate()


def test_formulas_of_the_test_suite():
    with (ARCHIVE.parent / "math.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found = float(formula(row["expression"]))
            assert found == pytest.approx(float(row["expected"]), abs=1e-14), row["expression"]


def test_names_in_formulas():
    x, e = sp.Symbol("x"), formula("log(x, 2) + !(x > 9)*lambda - PI + pi^2*t/2/time")
    known = {x: 8.0, sp.Symbol("lambda"): 3.0, sp.Symbol("PI"): 5.0, sp.Symbol("pi"): 2.0}
    found = e.subs({**known, sp.Symbol("t_"): 6.0, ks.t: 4.0})
    assert float(found) == pytest.approx(3 + 3 - 5 + 3)


@pytest.mark.parametrize("start", [1e-9, 1.0])
def test_steady_states_of_small_states_and_after_a_pulse(folder, start):
    """A falls at a rate of 1e-4, and does before a time of 5e4 only."""
    x = sp.Function("A")(ks.t)
    rate = sp.Piecewise((1e-4, ks.t < 5e4), (0.0, True))
    model = ks.Model("fall", states=[x], equations=[x.diff(ks.t) + rate * x])
    rows = [Measurement("a", "", time, 1.0, (), (), "") for time in (2e4, inf)]
    a = Observable("a", sp.Symbol("A"), sp.Integer(1), (), (), "normal", "lin")
    tables = Tables("", Path(), {}, {"a": a}, {"": [Period(0.0, {})]}, rows)
    found = simulated(tables, FileModel(model, {"A": sp.Float(start)}), {})
    assert found.simulation == pytest.approx(start * np.exp([-2.0, -5.0]), rel=1e-5)


def test_no_problem(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ks.petab.read(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a YAML file with entries by name"):
        ks.petab.read(tmp_path / "list.yaml")


def test_priors_scales_and_placeholders_are_read(suite):
    folder = suite / "v1.0.0" / "sbml" / "0016"
    entries = yaml.safe_load((folder / "_0016.yaml").read_text(encoding="utf-8"))
    tables = petab_v1.tables_of("0016", folder, entries)
    told = tables.observables["obs_b"]
    assert told.scale == "log" and told.distribution == "normal"
    assert {p.scale for p in tables.parameters.values()} <= {"lin", "log", "log10"}
    assert all(one.time < inf for one in tables.measurements)
    assert np.isfinite([one.value for one in tables.measurements]).all()


#: Overrides by expressions, noise parameters, steady states before, logarithms, later periods,
#: priors.
FITTED = [("v1.0.0", "0005"), ("v1.0.0", "0009"), ("v1.0.0", "0016"), ("v2.0.0", "0018")]
FITTED += [("v2.0.0", "0022"), ("v2.0.0", "0024"), ("v2.0.0", "0028")]
#: What is simulated and not fitted.
NOT_FITTED = {
    ("v2.0.0", "0023"): "experiment1 begins in a steady state of a model with events",
}


def fits():
    for case in CASES:
        yield pytest.param(*case, marks=[] if case in FITTED else [pytest.mark.study])


@pytest.mark.parametrize("version, case", [*fits()])
def test_objectives_are_those_of_simulations(suite, version, case):
    """Differences of -2 log L between two points, by integrations with other tolerances."""
    problem = ks.petab.read(suite / version / "sbml" / case / f"_{case}.yaml")
    if (version, case) in NOT_FITTED:
        with pytest.raises(ValueError, match=NOT_FITTED[version, case]):
            problem.shooting()
        return
    shooting = problem.shooting()
    assert {*shooting.names} == {*problem.unknown}
    bounds = shooting.bounds  # within those of priors
    q = np.clip([problem.nominal[name] for name in shooting.names], *bounds)
    points = [dict(zip(shooting.names, p, strict=True)) for p in (q, np.clip(1.1 * q, *bounds))]
    first, second = map(shooting.cost, points)
    told = difference(problem, *points)
    assert second - first == pytest.approx(told, rel=1e-6, abs=1e-9 * max(100.0, first))


def difference(problem, first, last):
    """Of -2 log of the posterior density, by simulations."""
    rows = [
        problem.simulate(p).log_likelihood + sum(problem.log_prior(p).values())
        for p in (first, last)
    ]
    return 2.0 * (rows[0] - rows[1])


def test_laplace_noise_is_fitted(suite, tmp_path):
    for path in (suite / "v2.0.0" / "sbml" / "0007").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = tmp_path / "_observables.tsv"
    said = table.read_text(encoding="utf-8").replace("log-normal", "log-laplace")
    table.write_text(said, encoding="utf-8")
    problem = ks.petab.read(tmp_path / "_0007.yaml")
    words = "obs_a has normal noise and obs_b laplace noise, which is not fitted together"
    with pytest.raises(ValueError, match=words):
        problem.shooting()
    table.write_text(said.replace("\tnormal", "\tlaplace"), encoding="utf-8")
    problem = ks.petab.read(tmp_path / "_0007.yaml")
    points = [{"k1": 0.8, "k2": 0.6, "a0": 1.0, "b0": b0} for b0 in (0.1, 0.4)]
    shooting = problem.shooting()
    found = shooting.cost(points[1]) - shooting.cost(points[0])
    assert found == pytest.approx(difference(problem, *points), rel=1e-6)
    fit = problem.fit({"b0": 0.1})
    assert fit.success and fit.objective <= shooting.cost(points[0])


#: Log densities by names of version 1, of numbers of theirs.
PRIORS = {
    "normal": lambda p: stats.norm(0.5, 0.3).logpdf(p),
    "laplace": lambda p: stats.laplace(0.5, 0.3).logpdf(p),
    "uniform": lambda p: stats.uniform(0.2, 0.9).logpdf(p),
    "logNormal": lambda p: stats.norm(-0.5, 0.3).logpdf(np.log(p)) - np.log(p),
    "logLaplace": lambda p: stats.laplace(-0.5, 0.3).logpdf(np.log(p)) - np.log(p),
    "parameterScaleNormal": lambda p: stats.norm(-0.5, 0.3).logpdf(np.log10(p)),
    "parameterScaleLaplace": lambda p: stats.laplace(-0.5, 0.3).logpdf(np.log10(p)),
    "parameterScaleUniform": lambda p: stats.uniform(-0.5, 0.7).logpdf(np.log10(p)),
}


@pytest.mark.parametrize("kind", PRIORS)
def test_priors_of_version_1(folder, kind):
    """Of the parameter itself or of its logarithm, as the names say, and as the density of that."""
    table = folder / "parameters.tsv"
    header, *rows = table.read_text(encoding="utf-8").splitlines()
    numbers = {"uniform": "0.2;1.1", "parameterScaleUniform": "-0.5;0.2"}.get(kind, "")
    numbers = numbers or ("-0.5; 0.3" if "og" in kind or "Scale" in kind else "0.5;0.3")
    said = [f"{header}\tobjectivePriorType\tobjectivePriorParameters"]
    for row in rows:
        mine = row.startswith("k1\t")
        row = row.replace("\tlin\t0\t", "\tlog10\t0.01\t") if mine else row
        said.append(f"{row}\t{kind}\t{numbers}" if mine else f"{row}\t\t")
    table.write_text("\n".join(said), encoding="utf-8")
    problem = ks.petab.read(folder / "0002.yaml")
    for p in (0.45, 0.9):
        assert problem.log_prior({"k1": p})["k1"] == pytest.approx(PRIORS[kind](p), rel=1e-12)
    points = [{**problem.nominal, "k1": p} for p in (0.45, 0.9)]
    shooting = problem.shooting()
    found = shooting.cost(points[1]) - shooting.cost(points[0])
    assert found == pytest.approx(difference(problem, *points), rel=1e-6)
    edge = {"uniform": 0.2, "parameterScaleUniform": 10**-0.5}.get(kind, 0.01)
    assert shooting.bounds[0][shooting.names.index("k1")] == pytest.approx(edge)
    table.write_text("\n".join(said).replace(kind, "beta"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"parameters.tsv, line .: objectivePriorType"):
        ks.petab.read(folder / "0002.yaml")


def test_a_published_problem_is_fitted():
    """-138.22197 is the best log likelihood that is known of it."""
    problem = ks.petab.read(data("boehm.yaml"))
    fit = problem.fit({"sd_pSTAT5A_rel": 1.0, "sd_pSTAT5B_rel": 10.0, "k_phos": 1e4})
    assert fit.success and fit.iterations < 60
    found = problem.simulate(fit.parameters)
    assert found.log_likelihood == pytest.approx(-138.2219760, abs=1e-6)
    shares = found.residuals.reshape(3, -1)
    assert (shares**2).mean() == pytest.approx(1.0, abs=1e-4)  # as the noise is fitted


def settled(folder):
    """The problem with the later measurements of a steady state, in which A is
    (a0 + 1) k2 / (k1 + k2)."""
    table = folder / "measurements.tsv"
    table.write_text(
        table.read_text(encoding="utf-8").replace("\t10\t", "\tinf\t"), encoding="utf-8"
    )
    return ks.petab.read(folder / "0002.yaml")


def test_measured_steady_states_are_fitted(folder):
    problem = settled(folder).shooting(rtol=1e-11)
    point = problem.pack({"k1": 0.5, "k2": 0.6})
    parts = [(1.8, 0.1), (1.9, 0.2)]  # total amount, measurement
    expected = sum(2 * (n * 6 / 11 - m) * n * np.array([-0.6, 0.5]) / 1.21 for n, m in parts)
    cost = sum((n * 6 / 11 - m) ** 2 for n, m in parts) + 2 * 0.1**2
    assert problem.cost(point) == pytest.approx(cost, rel=1e-9)
    for mode in ("adjoint", "forward"):
        assert problem.gradient(point, mode) == pytest.approx(expected, rel=1e-10)


def test_steady_states_that_are_not_fitted(suite, tmp_path):
    """After several periods."""
    folder = suite / "v2.0.0" / "sbml" / "0028"
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = tmp_path / "_measurements.tsv"
    said = table.read_text(encoding="utf-8")
    table.write_text(said.replace("\t10.0\t", "\tinf\t", 1), encoding="utf-8")
    problem = ks.petab.read(tmp_path / "_0028.yaml")
    with pytest.raises(ValueError, match=r"line .*: a steady state is measured after several per"):
        problem.fit()


def periods(rates, *rows):
    """Tables of two experiments, with these later periods; a measured state A."""
    x = sp.Function("A")(ks.t)
    k, m = sp.symbols("k m")
    model = ks.Model(
        "fall", states=[x], parameters=[k, m], equations=[x.diff(ks.t) - rates(x, k, m)]
    )
    experiments = {name: [Period(0.0, {}), *row] for name, row in zip("ab", rows, strict=True)}
    times = (1.0, 2.0, 3.0, 4.0)
    measured = [Measurement("o", n, s, 0.3 * s, (), (), "") for n in "ab" for s in times]
    told = Observable("o", sp.Symbol("A") + sp.Symbol("m"), sp.Integer(1), (), (), "normal", "lin")
    unknown = {
        n: Parameter(n, 0.0, 9.0, v, True, "lin", ("", ())) for n, v in (("k", 0.4), ("m", 1))
    }
    tables = Tables("", Path(), unknown, {"o": told}, experiments, measured)
    return tables, FileModel(model, {"A": sp.Float(1.0)})


def test_periods_that_differ_between_experiments():
    """Numbers, parameters and states, of states and of a parameter, at other times, at the last."""
    a, k, m = sp.symbols("A k m")
    first = [Period(2.0, {"A": a + m, "m": 2 * k}), Period(4.0, {"A": sp.Integer(3)})]
    second = [Period(1.5, {"A": 2 * k, "k": a + m})]
    problem = periods(lambda x, k, m: m - k * x, first, second)
    made = shooting_of(*problem)
    costs = [made.cost({"k": k, "m": m}) for k, m in ((0.4, 1.0), (0.5, 0.7))]
    each = [simulated(*problem, {"k": k, "m": m}) for k, m in ((0.4, 1.0), (0.5, 0.7))]
    expected = -2.0 * (each[1].log_likelihood - each[0].log_likelihood)
    assert costs[1] - costs[0] == pytest.approx(expected, rel=1e-6)
    point = made.pack({"k": 0.4, "m": 1.0})
    assert made.gradient(point) == pytest.approx(made.gradient(point, "forward"), rel=1e-12)


def test_jumps_of_equations_that_unknowns_move():
    """A falls at 2 k before m and at k after it: A = exp(-k (t + min(t, m)))."""
    fall = sp.Piecewise((2, ks.t < sp.Symbol("m")), (1, True))
    made = shooting_of(*periods(lambda x, k, m: -k * fall * x, [], []))
    k, m, times = 0.4, 1.3, np.arange(1.0, 5.0)
    spent, passed = times + np.minimum(times, m), times > m
    a = np.exp(-k * spent)
    slopes = np.array([-spent * a, 1.0 - passed * k * a])
    expected = 2 * 2 * slopes @ (a + m - 0.3 * times)  # of two experiments
    point = made.pack({"k": k, "m": m})
    assert made.gradient(point) == pytest.approx(expected, rel=1e-6)
    assert made.cost(point) == pytest.approx(2 * np.sum((a + m - 0.3 * times) ** 2), rel=1e-7)


def test_names_in_a_guess(suite):
    problem = ks.petab.read(suite / "v2.0.0" / "sbml" / "0026" / "_0026.yaml")
    with pytest.raises(ValueError, match="k9 is no parameter of the problem"):
        problem.fit({"k9": 1.0})
    with pytest.raises(ValueError, match="guess: initial_B1 is known, and not to be found"):
        problem.fit({"k1": 1.0, "initial_B1": 1.0})


def test_a_fit_is_written_as_nominal_values(folder, tmp_path):
    problem = ks.petab.read(folder / "0002.yaml")
    path = problem.write(tmp_path / "again" / "there", {"k1": 0.1 + 0.2})
    again = ks.petab.read(path)
    assert again.nominal == {**problem.nominal, "k1": 0.1 + 0.2}
    assert again.unknown == problem.unknown
    found = again.simulate().log_likelihood
    assert found == pytest.approx(problem.simulate({"k1": 0.3}).log_likelihood, rel=1e-12)
    with pytest.raises(ValueError, match="is the folder of the problem; give another one"):
        problem.write(folder)
    with pytest.raises(ValueError, match="k9 is no parameter of the problem"):
        problem.write(tmp_path / "other", {"k9": 1.0})
