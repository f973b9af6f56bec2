"""Trials: base of results of a fit, with trajectories of all trials, estimates and their
inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinesym.base.checks import between, check_choice, count, listed_of, shown
from kinesym.base.notebook import html_table, with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.bootstrap import Bootstrap
from kinesym.runtime.results.diagnostics import Diagnostics, diagnostics, explained
from kinesym.runtime.results.estimates import (
    NO_ERRORS,
    UNKNOWN,
    Estimate,
    Estimates,
    Noise,
    Uncertainty,
    estimates_of,
    nothing_known,
)
from kinesym.runtime.results.inference import (
    METHODS,
    Inference,
    bootstrapped,
    by_bootstrap,
    by_profile,
    by_sandwich,
)
from kinesym.runtime.results.influence import InfluenceMeasures, influence
from kinesym.runtime.results.left_out import LeftOut, left_out, selected
from kinesym.runtime.results.likelihood import Likelihood
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.missing import Missing
from kinesym.runtime.results.plot import chosen, chosen_trial
from kinesym.runtime.results.profile import Profile
from kinesym.runtime.results.report import Findings, target_of
from kinesym.runtime.results.saved import UNSAVED, Columns, Saved
from kinesym.runtime.results.series import MET, all_series, sampling, series_of
from kinesym.runtime.results.trajectory import ByName, Trajectory, Values
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed

#: Relative standard error of a combination above which it is lost in rounding.
_LOST = 1e4
#: Resampled records at most; more take too long.
_MOST_RECORDS = 10**6

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trials(ByName, Saved):
    """Result of a fit or an optimal control problem, with trajectories of all trials.

    `result["theta"]` is the trajectory of the first trial, `result.trials[k]["theta"]` that of
    trial k, and `result.trials[k].parameters` has all of its parameters. status : the name of how
    the solve ended; message : a sentence on it. parameters : identified ones, with their owners.
    known : those that were given, the same in all trials. free_vector : all unknowns (n,). history
    : by iteration, the start first. grid : the error that the grid or the steps leave, where it is
    known; see `grid_error`. ladder : a line for each easier problem that was solved on the way.
    notes : sentences on what cannot be relied on. timings : seconds by what they were spent on.
    model : its name. uncertainty : what is known of the errors of estimates, if it is; `parameters`
    shows it as a table. no_errors : why there are no standard errors, where that is known. noise :
    standard deviations of measurements that were not given but estimated. likelihood : of the
    samples, if the objective is one. merit : the number by which fits of the same data are ranked,
    the lower the better: -2 log L where standard deviations or distributions are estimated (with
    priors, of the posterior density), otherwise the objective. setting : what was solved, in words,
    for `report`.
    inference : the problem, for what needs it; lacking : for `missing`.
    """

    status: Solve
    message: str
    objective: float
    parameters: Estimates
    known: Mapping[str, float]
    trials: Sequence[Trajectory]
    free_vector: Annotated[Array, "variable"]
    history: Sequence[Any]
    grid: Sequence[Any] = ()
    ladder: Sequence[str] = ()
    notes: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    uncertainty: Sequence[Uncertainty] = ()
    noise: Sequence[Noise] = ()
    likelihood: Sequence[Likelihood] = ()
    merit: float = np.nan
    no_errors: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)
    inference: Callable[[], Inference] | None = field(default=None, metadata=UNSAVED)
    lacking: Callable[..., Missing] | None = field(default=None, metadata=UNSAVED)

    def __post_init__(self) -> None:
        shifts, units = self._shifts(), self._units
        table = estimates_of(self.parameters, self._about, shifts=shifts, units=units)
        object.__setattr__(self, "parameters", table)
        object.__setattr__(self, "known", Values(self.known))
        if np.isnan(self.merit):
            object.__setattr__(self, "merit", self.objective)

    def __getitem__(self, key: object) -> Array:
        return self.trials[0][key]

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return self.trials[0].keys()

    @classmethod
    def _renewed(cls, found: Columns, attributes: Mapping[str, Any]) -> tuple[Columns, Any]:
        """Fields of an earlier file, see `Saved`. Earlier fits had no status, and called their free
        vector values; earlier solutions said beside their status whether they had converged."""
        moved = {"values": "free_vector"}
        found = {moved.get(field, field): columns for field, columns in found.items()}
        if "success" not in attributes:
            return found, attributes
        success, words = bool(attributes["success"]), str(attributes.get("message", ""))
        ended = Solve.INTERRUPTED if words.startswith(Solve.INTERRUPTED) else Solve.UNKNOWN
        status = Solve(attributes.get("status", ended))
        if status.success != success:
            status = Solve.CONVERGED if success else Solve.UNKNOWN
        return found, {**attributes, "status": str(status)}

    @property
    def success(self) -> bool:
        """Whether the solve has converged."""
        return self.status.success

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.status is Solve.INTERRUPTED

    @property
    def iterations(self) -> int:
        """Number of iterations of the optimiser."""
        return max(0, len(self.history) - 1)

    @property
    def time(self) -> Array:
        """Time grid of the first trial [s]."""
        return self.trials[0].time

    @property
    def duration(self) -> float:
        """Duration of the first trial [s]."""
        return float(self.time[-1] - self.time[0])

    @property
    def estimated_std(self) -> dict[str, float]:
        """Standard deviations that were estimated, by measurement or group of measurements."""
        return {each.group: each.std for each in self.noise}

    @property
    def log_likelihood(self) -> float:
        """log of the likelihood of the samples, see `Likelihood`; NaN if there is none."""
        return self.likelihood[0].log_likelihood if self.likelihood else np.nan

    @property
    def aic(self) -> float:
        """Akaike's information criterion, see `Likelihood`; NaN if there is none."""
        return self.likelihood[0].aic if self.likelihood else np.nan

    @property
    def aicc(self) -> float:
        """Akaike's criterion for short records, see `Likelihood`; NaN if there is none."""
        return self.likelihood[0].aicc if self.likelihood else np.nan

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, see `Likelihood`; NaN if there is none."""
        return self.likelihood[0].bic if self.likelihood else np.nan

    def vaf(self) -> dict[str, float]:
        """Variance accounted for [%] of each measurement, of the first trial."""
        return self.trials[0].vaf()

    # -- uncertainty ------------------------------------------------------------------------

    @property
    def _about(self) -> Uncertainty | None:
        return self.uncertainty[0] if self.uncertainty else None

    @property
    def _units(self) -> Mapping[str, str]:
        units = self.trials[0].units if self.trials else {}
        owned = self.setting.get("owned", {}).items()
        return {**units, **{name: units[p] for name, p in owned if p in units}}

    @property
    def covariance(self) -> Array:
        """Covariance of what was estimated, (n, n), in the order of `standard_errors()`: zero for
        what a bound holds, NaN if there is none, as for states between segments of shooting."""
        return self._errors.covariance

    @property
    def active(self) -> Sequence[str]:
        """Names of what is held by a bound."""
        return self._errors.held

    def standard_errors(self) -> dict[str, float]:
        """Standard error of each estimate by name, of shooting of all unknowns; NaN if there is
        none."""
        about = self._errors
        return dict(zip(about.names, map(float, about.deviations()), strict=True))

    @property
    def _errors(self) -> Uncertainty:
        return self._about or nothing_known(list(self.parameters))

    def _shifts(self) -> Mapping[str, float]:
        """Shifts of the parameters by the error of the grid, where it is known."""
        return {}

    def intervals(
        self,
        level: float = 0.95,
        method: str = "t",
        *,
        records: int = 200,
        seed: int = 0,
        executor: Any = None,
    ) -> Estimates:
        """Table of estimates with intervals of this level.

        method : "t", from the curvature, by Student's t; "sandwich", for residuals of unequal
        variance that are correlated in time; "profile", profile likelihood; "bootstrap", of
        `records` resampled records, see `bootstrap`, which has the other arguments.

        Raises `ValueError` if there are no standard errors; for a method other than "t" also for
        a loaded result, which has no problem to solve again.
        """
        level = between(level, 0.0, 1.0, "level")
        check_choice(method, METHODS, "method")
        about, values = self._known_errors(), dict(self.parameters)
        if method == "sandwich":
            self._check_limits("sandwich")
            found = by_sandwich(values, about, self._asked(), level)
        elif method == "profile":
            self._check_noise()
            found = by_profile(values, about, self._asked(), level)
        elif method == "bootstrap":
            found = by_bootstrap(values, about, self.bootstrap(records, seed, executor), level)
        else:
            found = estimates_of(values, about, level, self._shifts())
        return found.with_units(self._units)

    def interval(
        self, expression: Any, level: float = 0.95, trial: int = 0, method: str = "delta"
    ) -> Estimate:
        """Estimate of a combination of parameters and states, with its standard error and interval.

        expression : in parameters, and in states at `ks.at_start(...)` and `ks.at_end(...)` of a
        trial, such as `b/(2*sqrt(k))` or `ks.at_end(x) - ks.at_start(x)`; estimates of owners are
        symbols of their names, `Symbol("k[A]") - Symbol("k[B]")`. method : "delta", to
        first order, by Student's t; "profile", profile likelihood, see `profile`. Raises
        `ValueError` as `intervals`, and for other symbols in the expression.
        """
        about, level = self._known_errors(), between(level, 0.0, 1.0, "level")
        check_choice(method, ("delta", "profile"), "method")
        number = chosen_trial(trial, len(self.trials))
        if method == "profile":
            found = self.profile(expression, level, number)
            ends, remark = (found.low, found.high), "; ".join(found.notes)
            return Estimate(found.estimate, found.standard_error, *ends, remark=remark)
        value, error = self._combination(expression, number)
        if not error > 0.0:
            return Estimate(
                value, error, remark=UNKNOWN if np.isnan(error) else "known or at a bound"
            )
        half = about.quantile(level) * error
        return Estimate(value, error, value - half, value + half)

    def profile(self, quantity: Any, level: float = 0.95, trial: int = 0) -> Profile:
        """Profile likelihood of a parameter, by name or symbol, or of a combination, as in
        `interval`: it is held at values to both sides of its estimate while all else follows, until
        -2 log L has risen by the quantile of `level`.

        Raises `ValueError` as `intervals`, and for a quantity that is at a bound or undetermined.
        """
        self._known_errors()
        self._check_noise()
        level, number = between(level, 0.0, 1.0, "level"), chosen_trial(trial, len(self.trials))
        name = getattr(quantity, "name", quantity)
        if isinstance(name, str) and (isinstance(quantity, str) or name in self.parameters):
            check_choice(name, self.parameters, "parameter")
            row = self.parameters.table[name]
            if not row.standard_error > 0.0:
                why = row.remark or "not known"
                raise ValueError(f"parameter {name} has no profile: it is {why}")
            return replace(self._asked().profile(name, level), units=self._units)
        if not self._combination(quantity, number)[1] > 0.0:
            raise ValueError(f"{quantity} has no profile: it has no standard error")
        return self._asked().profile(quantity, level, number)

    def _check_limits(self, what: str) -> None:
        """Raise `ValueError` for censored samples, of which there are no residuals."""
        for name in (name for run in self.trials for name in run.limits):
            raise ValueError(
                f"{name} has limits in place of samples, and so no residuals: there is no {what}; "
                "intervals by method='t' and method='profile' there are"
            )

    def _combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """Value and standard error of a combination; NaN if it changes with parameters that can be
        exchanged, of which rounding leaves a very large one."""
        value, error = self._asked().combination(expression, trial)
        lost = self._known_errors().instead and error > _LOST * abs(value)
        return value, np.nan if lost else error

    def bands(self, names: Sequence[Any] | None = None) -> Bands:
        """Confidence bands of trajectories: standard deviations over time of all states, unknown
        inputs and outputs, or of those of these names, with their 95 % bands.

        From the curvature, as the standard errors of parameters: with past and future samples of
        each time, as of a smoother, and with unknown parameters; for shooting to first order in the
        unknowns (delta method). Collocation has a library of the derivatives of outputs, compiled
        when first needed. NaN marks undetermined values. Raises `ValueError` without convergence or
        measurements, for a loaded result, and if the curvature is not positive.
        """
        if not self.success:
            raise ValueError(f"no bands without convergence: {self.message}")
        wanted = None if names is None else chosen(names, self.keys())
        return self._asked().bands(wanted)

    def log_density(self) -> LogDensity:
        """Log-density of the unknowns given the samples, as functions of arrays for samplers.

        Likelihood times the priors that are known; of others see
        `kinesym.runtime.estimation.density`. Unknowns are parameters and starts, and standard
        deviations that were not given, named std(...). The density of a fit by collocation is of
        those, too, and trajectories follow. Raises `ValueError` for a loaded result, an objective
        that is no likelihood, and for what does not follow from parameters and starts, as
        trajectories with process noise.
        """
        return self._asked().log_density(self.estimated_std)

    def missing(self, library: Any = None, level: float = 0.05, most: int = 3) -> Missing:
        """Find terms that the model lacks: those of a library that explain the force which the
        record wants.

        A force of white noise, whose intensity is estimated by the marginal likelihood, is added to
        each equation of rates (but kinematic ones, q' = v, and those of unknown inputs), so that
        trajectories follow the record although the model is wrong. The terms whose course is most
        like that force, apart from what unknown parameters can do, are put in one by one, and the
        one of the largest likelihood stays if it is significant: a likelihood ratio test, whose p
        is multiplied by the number of terms (Bonferroni), delays and widths that are compared with
        the force counted each. Then the next one is looked for.

        library : expressions of states, inputs and parameters, or names of kinds: "bias", "linear"
        (each state), "inputs" (each), "coulomb" and "drag" (of speeds), "cubic" (each state),
        "products" (of two states), "delays" and "dead zones" (of inputs, and of what unknown
        parameters multiply), "stops" (springs beyond a gap); all of these if None. level : of the
        tests. most : terms that are put in at most.

        All fits are on the grids of this one. Returns the terms that were tried, the forces before
        and after, the model with what was found and the fit of it, without forces. Raises
        `ValueError` for a fit that is none by `Collocation` of a `Model` by least squares, that has
        process noise, and for terms that are in the model already or jump, but for signs; before
        anything is solved.
        """
        if self.lacking is None:
            raise ValueError(
                "missing needs a solution of ks.Collocation in the process that solved it: solve "
                "ks.Collocation of the same model, trials and unknowns, guess=result, and ask that"
            )
        if not self.success:
            raise ValueError(f"no search for missing terms without convergence: {self.message}")
        share = between(level, 0.0, 1.0, "level")
        return self.lacking(self, library, share, count(most, "most"))

    def bootstrap(self, records: int = 200, seed: int = 0, executor: Any = None) -> Bootstrap:
        """Bootstrap estimates of so many records, with residuals resampled in blocks as long as
        they are correlated (moving block bootstrap; Kunsch 1989, Annals of Statistics 17, 1217).

        seed : of the random numbers. executor : whose `map` solves them, by default one after the
        other. Raises `ValueError` as `intervals`, and if few of them converge.
        """
        about, values = self._known_errors(), dict(self.parameters)
        if executor is not None and not callable(getattr(executor, "map", None)):
            raise ValueError(f"executor must have a method map, got {shown(executor)}")
        rng = np.random.default_rng(count(seed, "seed", least=0))
        each = map if executor is None else executor.map
        self._check_limits("bootstrap")
        series, many = series_of(self.trials), count(records, "records", 2, _MOST_RECORDS)
        return bootstrapped(values, about, self._asked(), series, many, rng, each)

    def diagnostics(self) -> Diagnostics:
        """Residual diagnostics: whether residuals are white, normal, unrelated to the inputs,
        without outliers. If they contradict a given `std`, `notes` say so (chi-square over all
        trials). Raises `ValueError` if a `std` cannot be estimated."""
        if self._lost:
            self._known_errors()
        return diagnostics(self.trials)

    def influence(self) -> InfluenceMeasures:
        """Influence of every sample, trial, channel and value of a label on the estimates: how far
        each estimate moves if it is left out, its leverage, Cook's distance, and how well the
        others predict it. Nothing is solved again.

        To first order in what is left out, exact for linear models; standard deviations, priors
        and the weights of a robust loss are taken as they are. Raises `ValueError` as `intervals`,
        and with process noise or random effects.
        """
        about, of = self._moving(), self._asked()
        words = (self.setting.get("subjects", ()), self.model)
        return influence(of, about, dict(self.parameters), all_series(self.trials), *words)

    def without(
        self,
        trials: Any = None,
        channels: Any = None,
        *,
        subjects: Any = None,
        window: tuple[float, float] | None = None,
        samples: Any = None,
        solve: bool = False,
    ) -> LeftOut:
        """Estimates, with standard errors, without some of the samples.

        trials : numbers. channels : names. subjects : labels of trials. window : [s], begin and
        end. samples : as `influence().most(10)` gives them. One or several of each; what is left
        out is in all that are given. A trial of which nothing is left has no states either. solve :
        solve again from there; else it is one Gauss-Newton step, exact for linear models. Standard
        deviations that were estimated stay, unless all samples share one; priors stay.

        Raises `ValueError` for names that there are not, if nothing is left, if it does not
        converge, and as `influence`.
        """
        about, series = self._moving(), all_series(self.trials)
        named = self.setting.get("subjects", ())
        given = (trials, channels, subjects, window, samples)
        group = selected(series, named, len(self.trials), *given)
        found = left_out(self._asked(), about, dict(self.parameters), series, group, solve)
        if found.note:
            raise ValueError(f"without {group.what}: {found.note}")
        return found

    def report(
        self, path: str | Path, level: float = 0.95, profiles: Sequence[Profile] = ()
    ) -> Path:
        """Write a report of the fit on one page: a verdict in sentences, figures of the trials, the
        residuals and the correlations, tables, versions.

        path : ends on .html, a page that stands alone, or on .md, with figures in a folder beside
        it. profiles : results of `profile` to be shown. Of many trials those with the largest
        residuals are shown. Raises `ValueError` as `intervals`, but not for a fit that has not
        converged: the page says so.
        """
        drawn, target = listed_of(profiles, Profile, "profiles"), target_of(path)
        rows = [*self._how(), *self._rows(), ("objective", f"{self.objective:.8g}")]
        rows.append(("seconds", self._seconds))
        measured = [[*run.measurements, *run.timed] for run in self.trials]
        plain = Estimates(dict(self.parameters), units=self._units)
        findings = Findings(
            title=self._title,
            ending="" if self.success else f"It has not converged: {self.message}",
            estimates=self.intervals(level) if self.success else plain,
            about=self._known_errors() if self.success else nothing_known(),
            notes=self.notes,
            checks=self.diagnostics() if self.success else Diagnostics([], []),
            channels=[list(dict.fromkeys(names)) for names in measured],
            plot=self.plot,
            bands=self._bands_of(measured) if self.success else "",
            profiles=drawn,
            influence=self._influence_or_none() if self.success else None,
            setting=self.setting,
            known=[(with_unit(name, self._units), f"{v:.6g}") for name, v in self.known.items()],
            units=self._units,
            facts={name: words for name, words in rows if name != "note"},
        )
        return findings.report().write(target)

    def _how(self) -> list[tuple[str, str]]:
        """Rows on method, grid and samples."""
        nodes = _range([len(run.time) for run in self.trials], "d")
        spans = _range([run.time[-1] - run.time[0] for run in self.trials], ".4g")
        sampled = sampling(self.trials)
        starts = self.setting.get("starts", "")
        many = f", {len(self.trials)} trials" * (len(self.trials) > 1)
        return [
            ("nodes", f"{nodes} over {spans} s{many}"),
            *([("sampling", sampled)] if sampled else []),
            *([("starts", starts)] if starts else []),
        ]

    def _bands_of(self, names: Sequence[Sequence[str]]) -> Bands | str:
        """Bands of the measured channels of trials, or why there are none."""
        try:
            return self.bands(list(dict.fromkeys(name for mine in names for name in mine)))
        except ValueError as error:
            return str(error)

    def _influence_or_none(self) -> InfluenceMeasures | None:
        """Influence of the samples, None where nothing can be said of it."""
        try:
            return self.influence()
        except ValueError:
            return None

    def to_pandas(self) -> pd.DataFrame:
        """A row per parameter: estimate, standard error, interval, shift by the grid, remark."""
        return self.parameters.to_pandas()

    def to_csv(self, path: str | Path, trial: int = 0) -> None:
        """Write a trial over time, see `Trajectory.to_csv`."""
        self.trials[chosen_trial(trial, len(self.trials))].to_csv(path)

    @property
    def _lost(self) -> bool:
        """Whether there is no minimum, or a `std` that nothing tells."""
        return not self.success or any(np.isnan(each.std) for each in self.noise)

    def _check_noise(self) -> None:
        """Raise `ValueError` where samples are met but for rounding, by which J then rises."""
        for each in series_of(self.trials):
            if float(np.median(each.std)) <= MET * each.size:
                raise ValueError(
                    f"there is no profile likelihood: the samples of {each.channel} are met but "
                    "for rounding, which is no error of measurements; give std, or add noise"
                )

    def _known_errors(self) -> Uncertainty:
        if self._about is None or self._lost:
            why = self.message
            if self.success:
                why = self.no_errors or "this is no fit of measurements, or it is no minimum"
            raise ValueError(f"{NO_ERRORS}: {why}")
        return self._about

    def _moving(self) -> Uncertainty:
        """Known errors, of which a parameter has one; raises `ValueError` as `_known_errors`."""
        about = self._known_errors()
        if not (about.deviations()[: len(self.parameters)] > 0.0).any():
            raise ValueError(
                "no sample moves a parameter of this fit: none is free and identifiable"
            )
        return about

    def _asked(self) -> Inference:
        if self.inference is None:
            raise ValueError(
                "this result was loaded or copied and has no problem to solve again: solve it with "
                "guess=result (intervals by method='t' need no problem)"
            )
        return self.inference()

    # -- as text ----------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"{self.model}: {self.message}"

    @property
    def _heading(self) -> str:
        return f"{self._title}, objective {self.objective:.8g}"

    def _estimates(self) -> list[tuple[str, str]]:
        """Rows of the identified parameters: names, and values with standard errors and
        intervals."""
        table = sorted(self.parameters.table.items(), key=lambda row: row[0] in self._last)
        return [(with_unit(name, self.parameters.units), str(row)) for name, row in table]

    @property
    def _last(self) -> Sequence[str]:
        """Parameters that are shown after the others."""
        return ()

    def _rows(self) -> list[tuple[str, str]]:
        """Rows on estimated noise, likelihood and notes."""
        scatter = [
            f"{each.group} {each.std:.4g}"
            + f" ({each.freedom:.6g} degrees of freedom)" * bool(np.isfinite(each.freedom))
            for each in self.noise
        ]
        found = [("std", ", ".join(scatter))] if scatter else []
        found += [("likelihood", str(each)) for each in self.likelihood]
        more = self._about.notes if self._about else ()
        return [*found, *(("note", note) for note in dict.fromkeys([*self.notes, *more]))]

    def __repr__(self) -> str:
        shown = listed((" = ".join(pair) for pair in self._estimates()), 6)
        return f"<{type(self).__name__.lower()} of {self._heading}; {shown or 'no unknowns'}>"

    def _table(self) -> list[tuple[str, str]]:
        estimates = self._estimates()
        shares: dict[str, list[float]] = {}
        for run in self.trials:
            for name, share in run.vaf().items():
                shares.setdefault(name, []).append(share)
        fits = [f"{name} {_range(own)} %" for name, own in shares.items()]
        rows = estimates[:12]
        if len(estimates) > 12:
            rows.append((f"... and {len(estimates) - 12} more unknowns", ""))
        rows += [("fit (VAF)", ", ".join(fits))] if fits else []
        return [*rows, *self._rows(), ("seconds", self._seconds)]

    @property
    def _seconds(self) -> str:
        return ", ".join(f"{name} {took:.3g}" for name, took in self.timings.items())

    def __str__(self) -> str:
        rows = self._table()
        width = max(12, *(min(len(name), 24) for name, _ in rows))
        return "\n".join([self._heading, *(f"  {a:<{width}} {b}".rstrip() for a, b in rows)])

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        return html_table(self._heading, self._table())

    def plot(self, trial: int = 0, names: Sequence[Any] | None = None) -> Any:
        """Figure of a trial over time, of all trajectories or those of these names; measurements as
        dots."""
        return self.trials[chosen_trial(trial, len(self.trials))].plot(names, self._title)

    def animate(
        self, path: str | Path, fps: float = 25.0, speed: float = 1.0, up: str = "z", trial: int = 0
    ) -> Path:
        """Animated stick figure of a trial as a .gif or .html file; see `Trajectory.animate`."""
        return self.trials[trial].animate(path, fps, speed, up)


def _range(shares: Sequence[float], form: str = ".2f") -> str:
    """Range of numbers, one per trial, as text."""
    ends = (f"{np.nanmin(shares):{form}}", f"{np.nanmax(shares):{form}}")
    return " ... ".join(dict.fromkeys(ends))


def better(one: Trials, other: Trials | None) -> bool:
    """Whether a fit is better than another one of the same problem, or there is none; of two that
    cannot be ranked, as one has no likelihood, whether it has converged."""
    if other is None:
        return True
    alike = (one.merit == one.objective) == (other.merit == other.objective)
    return one.merit < other.merit if alike else one.success


def only_noise_is_left(found: Trials | None) -> bool:
    """Whether a fit has converged and its residuals are only noise."""
    return found is not None and found.success and explained(found.trials)
