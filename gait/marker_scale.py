"""Scaling: lengths of bodies and places of markers from static and moving trials together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import (
    Named,
    check_kind,
    count,
    listed,
    listed_of,
    mapping,
    not_negative,
    positive,
)
from kinesym.base.notebook import Displayed
from kinesym.gait.checks import warn
from kinesym.gait.frames import DataFrame
from kinesym.gait.marker_fit import trouble
from kinesym.gait.marker_inputs import (
    Placed,
    checked_places,
    compiled,
    functions_of,
    guess_of,
    matched,
    measured_of,
    numbers_of,
    root_turns,
    squares_of,
)
from kinesym.gait.marker_squares import Squares, State
from kinesym.gait.marker_steps import Known, MarkerMinimum, knowledge, minimise, start
from kinesym.gait.markers import Markers
from kinesym.models.files.stretched import stretched_description
from kinesym.models.files.trees import FileTree, plain
from kinesym.models.markers import marker_names, marker_places
from kinesym.models.scaling import factors_of, scaled
from kinesym.runtime.arrays import Array, mean_of_known, real_array, rms
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.results.saved import Saved
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import Vector
from kinesym.symbolic.names import by_name, check_known

#: Default standard deviation of scale factors [-].
FACTOR = 0.1
#: Default standard deviation of places of markers [m].
PLACE = 0.02
#: Initial noise of markers [m].
NOISE = 0.01
#: Rounds, at most, in which the noise is estimated.
ROUNDS = 12
#: Relative change of the noise at which the rounds end [-].
SETTLED = 0.01
#: Lower limit of the noise [m]: errors of skin and model, the same from instant to instant.
LEAST = 2e-3
#: Largest deviation of markers from their means in a trial that counts as one instant [m].
STILL = 0.03
#: Upper limit of the correlation of errors from instant to instant [-].
MOST = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class Scaling(Saved):
    """Factors of bodies, and places of markers on them.

    tree : its name. stretched : names of factors by body, "femur_r", or body and axes, "femur_r.y".
    factors, std : values and standard errors. bodies, places : of markers, in the axes of the
    scaled bodies [m]; both are in `placed`, for `fit_markers`. moved : how far markers are from
    where they were thought to be, after scaling [m]; place_std : standard errors of their places
    along the axes [m]. marker_rms : errors of markers in all trials [m]. noise : standard deviation
    with which a marker of weight 1 counts in each direction [m], larger than its errors as these
    stay from instant to instant. converged : whether it did.
    """

    tree: str
    stretched: Mapping[str, str]
    factors: Mapping[str, float]
    std: Mapping[str, float]
    bodies: Mapping[str, str]
    places: Mapping[str, Annotated[Array, "axis"]]
    moved: Mapping[str, float]
    place_std: Mapping[str, Annotated[Array, "axis"]]
    marker_rms: Mapping[str, float]
    noise: float
    converged: bool = True

    def __post_init__(self) -> None:
        for what, fields in {
            "stretched body": ("stretched",),
            "factor": ("factors", "std"),
            "marker of the scaling": ("bodies", "places", "moved", "place_std", "marker_rms"),
        }.items():
            for name in fields:
                object.__setattr__(self, name, Named(what, getattr(self, name)))

    @property
    def placed(self) -> dict[str, tuple[str, list[float]]]:
        """Bodies of the markers and their places in the axes of these, by name [m]."""
        found = ((name, (body, self.places[name].tolist())) for name, body in self.bodies.items())
        return Named("marker of the scaling", found)

    @property
    def groups(self) -> dict[str, list[str]]:
        """Bodies by the name of their factor."""
        found: Named[list[str]] = Named("factor", {name: [] for name in self.factors})
        for body, name in self.stretched.items():
            found[name].append(body)
        return found

    def applied(self, tree: Tree, mass: float | None = None) -> Tree:
        """The tree with these factors. mass : of the whole body; masses keep their shares, inertias
        go with masses and squares of lengths [kg].

        Of a model of OpenSim also its markers, at their new places, and its muscles: points and
        surfaces of paths go with their bodies, optimal lengths of fibres and slack lengths of
        tendons keep their share in the length of the path in the default pose, as in OpenSim's
        ScaleTool; forces stay. `ks.osim.write` writes it.
        """
        check_kind(tree, Tree, "kinesym.multibody")
        rows = {
            body: Vector(e.xreplace({s: self.factors[s.name] for s in e.free_symbols}) for e in row)
            for body, row in factors_of(tree, self.groups).items()
        }
        made = scaled(tree, rows, None if mass is None else positive(mass, "mass"))
        if not isinstance(tree, FileTree) or not tree.description.version:
            return made
        whole = plain(tree)
        bodies = scaled(whole, rows, mass).bodies
        places = {name: at.tolist() for name, at in self.places.items()}
        factors = {body: [float(e) for e in row] for body, row in rows.items()}
        described = replace(tree, description=stretched_description(tree, factors, bodies, places))
        return (
            plain(described)
            if tree.bodies == whole.bodies
            else replace(described, bodies=made.bodies)
        )

    @property
    def total_rms(self) -> float:
        """The root mean square of the errors of markers [m]."""
        return rms(list(self.marker_rms.values()))

    def __str__(self) -> str:
        groups = self.groups
        rows = [
            f"{name:<16}{value:8.4f} ± {self.std[name]:.4f}  {', '.join(groups[name])}"
            for name, value in self.factors.items()
        ]
        ended = "" if self.converged else ", not converged"
        title = f"{self.tree} scaled: marker errors {1e3 * self.total_rms:.1f} mm rms{ended}"
        return "\n".join([title, *rows])

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0]}>"

    def report(self) -> str:
        """Factors, and by marker its error, how far it is from where it was thought to be, and how
        well its place is known."""
        lines = [str(self), "", f"{'marker':<24}{'rms':>8}{'moved':>8}{'std':>8}  [mm]"]
        for name, off in sorted(self.marker_rms.items(), key=lambda pair: -pair[1]):
            std = float(np.linalg.norm(self.place_std[name]))
            lines.append(f"{name:<24}{1e3 * off:8.1f}{1e3 * self.moved[name]:8.1f}{1e3 * std:8.1f}")
        return "\n".join(lines)

    def to_pandas(self) -> DataFrame:
        """Factors with standard errors, by name."""
        import pandas as pd  # here: slow to import

        columns = {"factor": dict(self.factors), "std": dict(self.std)}
        return pd.DataFrame(columns, index=pd.Index(self.factors, name="name"))

    def plot(self) -> Any:
        """Factors with two standard errors, and how far markers moved."""
        figure, (left, right) = subplots(1, 2, figsize=(10.0, 4.6))
        names = list(self.factors)[::-1]
        values, errors = ([part[name] for name in names] for part in (self.factors, self.std))
        left.errorbar(values, names, xerr=2.0 * np.array(errors), fmt="o", capsize=3)
        left.axvline(1.0, color="0.7", lw=1.0)
        left.set_xlabel("factor")
        far = sorted(self.moved.items(), key=lambda pair: pair[1])[-16:]
        right.barh([name for name, _ in far], [1e3 * d for _, d in far])
        right.set_xlabel("moved [mm]")
        return figure


def scale(
    tree: Tree,
    placed: Placed | None,
    trials: Sequence[Markers | Mapping[str, ArrayLike]],
    factors: Mapping[str, Sequence[str]],
    *,
    expected: Mapping[str, float] | None = None,
    factor_std: float | Mapping[str, float] = FACTOR,
    place_std: float | Mapping[str, float] = PLACE,
    weights: Mapping[str, float] | None = None,
    limits: Mapping[Any, tuple[float, float]] | None = None,
    loss: str | None = None,
    frames: int = 50,
    guess: Mapping[Any, float] | None = None,
) -> Scaling:
    """Lengths of bodies and places of markers of a person, from static and moving trials together.

    Parameters
    ----------
    tree, placed : as of `fit_markers`, of another person.
    trials : records of the same markers, or of a static trial the place of each (3,) [m], as of
        `read_places`. Movement determines the joints; parameters that trials share are estimated
        once.
    factors : bodies by the name of the factor that stretches them, such as
        {"thigh": ("femur_r", "femur_l")}; "femur_r.y" along that axis only.
    expected : prior means of factors, by name, 1 unless named; those of distances between markers,
        as OpenSim takes them, are `ks.osim.read_measurements(path).values(...)`.
    factor_std : how well that is known, one number or by name; 0 is a factor that is known.
    place_std : how well places of markers are known before [m], one number or by name; 0 is a
        marker that stays where it is on the body. They make lengths and places identifiable.
    weights, limits, loss, guess : as of `fit_markers`.
    frames : number of instants of each trial, at most, evenly spread.

    Returns
    -------
    A `Scaling` with standard errors; `.applied(tree, mass)` is the scaled tree, `.placed` are its
    markers. The size of marker errors is estimated with the rest, 2 mm at least, so that priors
    count as they should. A trial in which no marker moves by more than 3 cm (standard deviation)
    counts as one instant, its mean.

    Raises `ValueError` as `fit_markers`, and for factors of unknown bodies.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    alone = isinstance(trials, (Markers, Mapping))
    given = [trials] if alone else listed(trials, "trials")
    records = listed_of(map(record_of, given), Markers, "trials")
    frames = count(frames, "frames")
    rows = factors_of(tree, factors)
    before = dict.fromkeys(factors, 1.0)
    for name, value in mapping({} if expected is None else expected, "expected").items():
        check_known(name, factors, f"expected: {name!r} is not among the factors")
        before[name] = positive(value, f"the expected factor {name}")
    values = {**tree.values, **before}
    grown = replace(scaled(tree, rows), values=values)
    found, unused = matched(tree, placed, records)
    model = marker_places(grown, [body for body, _ in found.values()], rows)
    functions = functions_of(model)
    parts = [thinned(record.time, measured_of(tree, found, record), frames) for record in records]
    priors = prior_of(list(found), unused, factors, factor_std, place_std)
    names = [name for name in priors if name in functions.parameters]
    places = np.array([functions.parameters.index(name) for name in names])
    measured = np.hstack([rows for _, rows in parts])
    problem = squares_of(functions, found, unused, measured, weights, limits, loss)
    std = np.array([priors[name] for name in names])
    at = problem.numbers[places]
    problem = replace(problem, places=places, prior=at, std=std, noise=NOISE)
    first, turns = guess_of(tree, functions.states, guess), root_turns(tree, functions.states)
    ends = np.cumsum([len(time) for time, _ in parts])
    q = [
        start(problem.at(slice(end - len(time), end)), first, turns, time)
        for (time, _), end in zip(parts, ends, strict=True)
    ]
    firsts = np.concatenate([np.arange(len(time)) == 0 for time, _ in parts])
    problem, minimum, known = balanced(problem, np.hstack(q), firsts)
    result = described(tree, problem, minimum, known, names, found, factors, before)
    if not result.converged:
        said = trouble(minimum, functions.states, list(found))
        warn(f"the scaling {said}; its factors are not final")
    return result


@dataclass(frozen=True, repr=False)
class Measurements(Displayed):
    """Scale factors of bodies as declared by a setup file of OpenSim's scaling.

    factors : bodies by the name of the factor, for `ks.gait.scale`. pairs : pairs of markers whose
    distances determine a factor. given : factors that the file has as numbers. mass : of the
    person, if the file declares it [kg].
    """

    factors: Mapping[str, Sequence[str]]
    pairs: Mapping[str, Sequence[tuple[str, str]]]
    given: Mapping[str, float] = field(default_factory=dict)
    mass: float | None = None

    def __str__(self) -> str:
        lines = []
        for name, bodies in self.factors.items():
            told = ", ".join(f"{a} to {b}" for a, b in self.pairs.get(name, ()))
            by = f"{self.given[name]:g}" if name in self.given else told
            lines.append(f"{name:<16}{', '.join(bodies)}: {by}")
        return "\n".join(lines)

    def values(
        self, tree: Tree, placed: Placed | None, trial: Markers | Mapping[str, ArrayLike]
    ) -> dict[str, float]:
        """Factors by name, as OpenSim finds them: the mean over pairs of the distance in a trial,
        on average over time, over that on the tree where its coordinates are at their defaults. A
        factor with a missing marker is left out, with a warning.

        Raises `ValueError` for markers without a place on a body.
        """
        record, places = record_of(trial), checked_places(tree, placed)
        every = (name for pairs in self.pairs.values() for pair in pairs for name in pair)
        needed = sorted({*every})  # in an order that is kept: what is compiled follows it
        for name in needed:
            check_known(name, places, f"marker {name!r} of a pair is on no body of {tree.name}")
        measured = {n for n in needed if n in record and np.isfinite(record[n]).any()}
        functions = compiled(tree, tuple(places[name][0] for name in needed))
        numbers = numbers_of(functions, [places[name][1] for name in needed])
        q = guess_of(tree, functions.states, None)
        there = functions.outputs(0.0 * q, q, (), numbers, 0.0).reshape(-1, 3)
        at, found = dict(zip(needed, there, strict=True)), dict(self.given)
        for factor, pairs in self.pairs.items():
            if not measured.issuperset(missing := {n for pair in pairs for n in pair}):
                gone = sorted(missing - measured)
                warn(f"factor {factor} is not told: {gone[0]!r} is missing")
                continue
            seen = [np.nanmean(np.linalg.norm(record[a] - record[b], axis=0)) for a, b in pairs]
            before = [np.linalg.norm(at[a] - at[b]) for a, b in pairs]
            found[factor] = float(np.mean(np.divide(seen, before)))
        return found


def record_of(trial: Any) -> Any:
    """Places that stay where they are as a record; others as they are."""
    if not isinstance(trial, Mapping):
        return trial
    rows = {name: real_array(at, f"the place of {name!r}") for name, at in trial.items()}
    return Markers(np.arange(2.0), {name: np.array([at, at]).T for name, at in rows.items()})


def thinned(time: Array, measured: Array, frames: int) -> tuple[Array, Array]:
    """Subset of at most `frames` instants, evenly spread, and positions of markers there (3 T, n);
    the mean of a trial in which nothing moves."""
    mean = mean_of_known(measured, axis=1)
    moves = np.sqrt(mean_of_known((measured - mean[:, None]) ** 2, axis=1))
    if np.nanmax(moves) < STILL:
        return time[:1], mean[:, None]
    here = np.round(np.linspace(0, len(time) - 1, min(len(time), frames))).astype(np.intp)
    return time[here], measured[:, here]


def prior_of(
    markers: Sequence[str],
    unused: Sequence[str],
    factors: Mapping[str, Sequence[str]],
    factor_std: float | Mapping[str, float],
    place_std: float | Mapping[str, float],
) -> dict[str, float]:
    """Standard deviations by the name of the parameter, without those that are known; of markers
    that are not measured there may be some, too."""
    of_factors = spread(factor_std, list(factors), FACTOR, "factor_std")
    of_places = spread(place_std, [*markers, *unused], PLACE, "place_std")
    found = {name: std for name, std in of_factors.items() if std > 0.0}
    for k, std in enumerate(of_places[name] for name in markers):
        found |= dict.fromkeys(marker_names(k, "at_"), std) if std > 0.0 else {}
    if not found:
        raise ValueError("all factors and places are known; fit_markers finds the coordinates")
    return found


def spread(
    given: float | Mapping[str, float], names: Sequence[str], default: float, what: str
) -> dict[str, float]:
    """Deviations by name, from one number or some by name; raises `ValueError`."""
    if not isinstance(given, Mapping):
        given = dict.fromkeys(names, given)
    found = dict.fromkeys(names, default)
    for name, value in by_name(mapping(given, what), None, what).items():
        check_known(name, list(names), f"{what}: {name!r} is not among the {what[:-4]}s")
        found[name] = not_negative(value, f"{what} of {name}")
    return found


def balanced(
    problem: Squares, q: Array, firsts: NDArray[np.bool_]
) -> tuple[Squares, MarkerMinimum, Known]:
    """The minimum with the size of marker errors that it has itself: what is left of squares over
    what is left of residuals, where unknowns that priors hold take less than one. Errors that stay
    from instant to instant count as larger ones that do not (Bartlett 1935, Journal of the Royal
    Statistical Society 98). firsts : instants with which trials begin (N,)."""
    shared = problem.prior
    for _ in range(ROUNDS):
        minimum = minimise(problem, q, shared)
        known = knowledge(problem, minimum)
        q, shared, noise = minimum.state.q, minimum.state.shared, max(known.noise, LEAST)
        stays = max(known.noise * persistence(problem, minimum.state, firsts) / noise, 1.0)
        if abs(noise * stays / problem.noise / problem.persistence - 1.0) < SETTLED:
            break
        problem = replace(problem, noise=noise, persistence=stays)
    return problem, minimum, known


def persistence(problem: Squares, state: State, firsts: NDArray[np.bool_]) -> float:
    """sqrt((1 + r)/(1 - r)) of the correlation r of errors from instant to instant."""
    errors = np.sqrt(problem.weights * state.trust) * state.gaps
    after = np.where(firsts | ~problem.present, 0.0, errors)[..., 1:]
    seen = (after != 0.0) & (errors[..., :-1] != 0.0)
    before = errors[..., :-1][seen]
    if not seen.any():
        return 1.0
    r = float(np.sum(before * after[seen]) / np.sqrt(np.sum(before**2) * np.sum(after[seen] ** 2)))
    r = min(max(r, 0.0), MOST)
    return float(np.sqrt((1.0 + r) / (1.0 - r)))


def described(
    tree: Tree,
    problem: Squares,
    minimum: MarkerMinimum,
    known: Known,
    names: Sequence[str],
    found: Mapping[str, tuple[str, Array]],
    groups: Mapping[str, Sequence[str]],
    before: Mapping[str, float],
) -> Scaling:
    """The result of a minimum."""
    state, parameters = minimum.state, problem.functions.parameters
    value = dict(zip(parameters, problem.all_numbers(state.shared), strict=True))
    error = dict(zip(names, np.sqrt(np.diag(known.covariance)), strict=True))
    rows = factors_of(tree, groups)
    factors = {name: float(value.get(name, before[name])) for name in groups}
    places, moved, place_std = {}, {}, {}
    for k, (name, (body, thought)) in enumerate(found.items()):
        stretch = np.array([float(e.subs(factors)) for e in rows[body]])
        at = np.array([value[part] for part in marker_names(k, "at_")])
        places[name] = stretch * at
        moved[name] = float(np.linalg.norm(stretch * (at - thought)))
        std = np.array([error.get(part, 0.0) for part in marker_names(k, "at_")])
        place_std[name] = stretch * std
    distances = np.where(problem.present, np.sum(state.gaps**2, axis=0), np.nan)
    rms = np.sqrt(mean_of_known(distances, axis=1))
    bodies = {name: [of] if isinstance(of, str) else of for name, of in groups.items()}
    return Scaling(
        tree.name,
        {str(body): name for name, of in bodies.items() for body in of},
        factors,
        {name: float(error.get(name, 0.0)) for name in groups},
        {name: body for name, (body, _) in found.items()},
        places,
        moved,
        place_std,
        dict(zip(found, rms.tolist(), strict=True)),
        problem.noise * problem.persistence,
        minimum.converged,
    )
