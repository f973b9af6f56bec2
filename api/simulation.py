"""`ks.simulate`: trajectories from initial values; `ks.sensitivities`: their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from numpy.typing import ArrayLike

from kinesym.base.checks import check_text
from kinesym.base.quiet import quietly, warn
from kinesym.internal.problems.checked_trials import check_system
from kinesym.internal.problems.method_index import check_index, check_method, lowered_for_method
from kinesym.internal.problems.simulation_arguments import SimulationArguments, simulation_arguments
from kinesym.internal.problems.step_options import checked_steps, methods_of
from kinesym.internal.running.consistent_starts import consistent_initial
from kinesym.internal.running.delayed_run import delayed_sensitivities
from kinesym.internal.running.finer_steps import finer_arguments, finer_steps
from kinesym.internal.running.hybrid_run import hybrid_ensemble, hybrid_trajectory
from kinesym.internal.running.jump_events import jump_sensitivities
from kinesym.internal.running.jump_steps import timed, without_inputs
from kinesym.internal.running.jumps_along_runs import passed_jumps
from kinesym.internal.running.jumps_moved_by_unknowns import moved_by
from kinesym.internal.running.model_run import lost_roots, model_results
from kinesym.runtime.delays.sensitivity import DelayedSensitivities
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.results.ensemble import Ensemble
from kinesym.runtime.results.event_log import HybridState
from kinesym.runtime.results.step_error import Finer, Lost
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known, names_of
from kinesym.symbolic.schemes import SCHEMES


def simulate(
    system: Model | Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, ArrayLike] | HybridState,
    parameters: Mapping[Any, ArrayLike] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    method: str | None = None,
    substeps: int = 1,
    rtol: float = 1e-9,
    atol: float = 1e-11,
    threads: int | None = None,
    progress: bool | None = None,
    history: Mapping[Any, Any] | None = None,
) -> Any:
    """Simulate a system on the grid `time` (N,) [s]: a `Trajectory`, or an `Ensemble` of M of them.

    Parameters
    ----------
    system : a `Model`, or a `Hybrid` with events and contacts, which goes from event to event.
    time : all nodes, not just the first and the last; time spans are converted to seconds, dates
        count from the first of them.
    initial : value of every state at time[0], a guess of algebraic ones, which follow from the
        equations; (M,) for an ensemble; or an expression of parameters, such as a**2, by which
        sensitivities are then, too. Integrals that `Model.reduced_index` makes start at zero
        unless given. Of a contact, by its name, whether it presses at the start
        (default: no). Or the `final` state of an earlier run, from which this one goes on as if
        that had not ended.
    parameters : values, those of the model where not given; (M,) for an ensemble.
    inputs : each a number, (N,) with straight lines between the nodes, or a `Signal` at times of
        its own; for an ensemble also (M, N), or a list of M signals. Jumps are hit exactly, as are
        those of equations at times that parameters tell, as of `Heaviside(t - p)`, and steps end
        about pulses and smooth steps of time that are narrow, as of `tanh((t - p) / w)`, single
        ones or trains, and where straight lines bend. Between two nodes a cubic signal is a
        parabola through its values there and halfway, and a warning says where that misses it; in a
        system with events it is what it is.
    method : "rk4", the classical method of order 4 (default); "dormand-prince", adaptive, of order
        5 with dense output (default with events); "radau-5", the same for stiff models and
        differential-algebraic ones of index 1 and 2 (Hairer, Wanner, Solving Ordinary Differential
        Equations II, section IV.8); or implicit with fixed steps, solved to rounding: "radau-1"
        ("backward-euler"), "radau-3", "gauss-2" ("midpoint"), "gauss-4", "gauss-6", "lobatto-2"
        ("trapezoid"), "lobatto-4" ("hermite-simpson"), "lobatto-6", of the order that they name.
        With events: dormand-prince, radau-5, rk4 and trapezoid; steps end exactly at events.
    substeps : steps per interval of the grid, of methods with fixed steps; with events, per longest
        interval. rtol, atol : relative and absolute tolerance of the adaptive methods, one number
        each for all states.
    threads : for ensembles; default: OMP_NUM_THREADS or the number of processors.
    progress : show a bar; None only on a terminal or in a notebook.
    history : what states and inputs with a delay were before time[0], each a number or a `Signal`
        that goes back as far as the delay. What is not given was as it is at time[0]; an input that
        is a `Signal` from before is its own history.

    What ends early (divergence, an expression that is not finite, Newton's method, too many events,
    Ctrl-C) is returned up to there with a warning that names time, cause and remedy, and so is what
    grows beyond any plausible size; see `Trajectory.message` and `Ensemble.failures`. How exact the
    result is, its `error()` says. A model of index 2 or 3 that the method does not treat runs as
    `Model.reduced_index` of it; outputs `constraint_...` show what is lost of constraints.

    Raises `ValueError` for what is missing, does not fit or is not used, as tolerances by fixed
    steps, and for initial values that violate constraints, before anything is compiled.
    """
    check_system(system)
    steps = checked_steps(methods_of(system), method, substeps, rtol, atol)
    asked, system = system, lowered_for_method(system, steps.method)
    initial = _with_guesses(initial, asked, system)
    given = simulation_arguments(
        system, time, initial, parameters, inputs, steps, threads, progress, history
    )
    found: Trajectory | Ensemble
    if isinstance(system, Model):
        given = _started(system, given)
    whole, every = timed(system, given)
    if isinstance(whole, Model):
        found = model_results(whole, every)
    elif given.members is None:
        found = hybrid_trajectory(whole, every)
    else:
        found = hybrid_ensemble(whole, every)
    found = without_inputs(found, every.inputs.keys() - given.inputs.keys())
    unseen = partial(passed_jumps, system, given, found)
    return replace(found, again=partial(_finer, whole, every, unseen))


def _with_guesses(initial: Any, asked: Any, system: Any) -> Any:
    """Initial values with zeros for further algebraic states that a model of lower index has."""
    if system is asked or not isinstance(initial, Mapping):
        return initial
    more = [name for name in system.state_names if name not in asked.state_names]
    return {**dict.fromkeys(more, 0.0), **initial}


def _finer(
    system: Model | Hybrid,
    given: SimulationArguments,
    unseen: Callable[[], tuple[tuple[Lost, ...], str]],
) -> Finer:
    """Repeat a run with finer steps, silently, to estimate its error; unseen : jumps that these
    steps cannot show."""
    finer = finer_steps(given.steps)
    lost: tuple[Lost, ...] = ()
    with quietly():  # an early end is told by its message
        run: Trajectory | Ensemble
        if isinstance(system, Model):
            run = model_results(system, finer_arguments(given, finer))
            lost = lost_roots(system, given, run)
        else:
            made = hybrid_trajectory if given.members is None else hybrid_ensemble
            run = made(system, replace(given, steps=finer.steps))
    about = (run, given.steps.method, finer.words, finer.factor)
    more, words = unseen()
    return Finer(*about, (*lost, *more), words)


def _started(model: Model, given: SimulationArguments) -> SimulationArguments:
    """The arguments with algebraic states that agree with the equations at the start, of a model
    whose index the method can treat; a run that goes on does so from the very values. Raises
    `ValueError` for values that violate a constraint."""
    solved = check_method(model, given.steps.method) or model.index.value == 0
    if (solved and not model.invariants) or given.start is not None:
        return given
    return replace(given, initial=consistent_initial(model, given))


def consistent(
    model: Model,
    time: ArrayLike,
    initial: Mapping[Any, ArrayLike],
    parameters: Mapping[Any, ArrayLike] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    keep: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Initial values of all states that agree with the equations of a differential-algebraic model
    and with its hidden constraints; arguments as of `simulate`.

    keep : states whose values of `initial` stand; the others are guesses, and move as little as it
    takes. None: all but algebraic states stand.

    Raises `ValueError`, naming the equation or the hidden constraint that is violated and by how
    much, where no values are found.
    """
    check_system(model, (Model,))
    given = simulation_arguments(
        model, time, initial, parameters, inputs, checked_steps(methods_of(model), None), 1, False
    )
    if model.index.value is None:
        check_index(model, 0, "")
    kept = None if keep is None else names_of(keep, "keep")
    for name in kept or ():
        check_known(name, model.state_names, f"keep: {name} is not a state")
    found = consistent_initial(model, given, kept)
    return {name: x if x.ndim else float(x) for name, x in found.items()}


def sensitivities(
    system: Model | Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, float] | HybridState,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    method: str | None = None,
    substeps: int = 1,
    rtol: float = 1e-9,
    atol: float = 1e-11,
    progress: bool | None = None,
    history: Mapping[Any, Any] | None = None,
) -> Sensitivities | DelayedSensitivities:
    """A simulation with derivatives of its states and events; arguments as of `simulate`.

    They are those of each step, with the motion of the events: forward in a few directions, or by
    the adjoint with respect to all parameters, initial values and pieces of inputs. The sequence of
    events is that of the run. Jumps of equations that states or parameters move, as of `sign(v)`,
    are events, too. Restitution and friction coefficients are numbers, not parameters.
    Models with delays take fixed steps from node to node, "rk4" (None) or implicit ones, and have
    derivatives by parameters, delays too, and initial values.
    A run with the gradient of one quantity by everything takes the time of two or three simulations
    (measured in `benchmarks/hybrid.py`).

    Raises `ValueError` as `simulate`, for ensembles, for implicit methods but with delays, for
    contacts that end by their height, and for delays in a hybrid model.
    """
    check_system(system)
    model = system if isinstance(system, Model) else system.model
    if isinstance(system, Model) and model.delays:
        methods = methods_of(system, derivatives=True)
        steps = checked_steps(methods, method, substeps, rtol, atol, fixed=methods)
        check_method(system, steps.method)
        given = simulation_arguments(
            system, time, initial, parameters, inputs, steps, 1, progress, history
        )
        whole, every = timed(system, given, alone=True)
        assert isinstance(whole, Model)
        found = delayed_sensitivities(whole, every)
        run = without_inputs(found.run, every.inputs.keys() - given.inputs)
        found = replace(found, run=run, following=given.following)
        moved = moved_by(system, system.parameter_names, (), starts=True)
        if words := moved.sentence([found.run]):
            warn(words, stacklevel=2)
        return found
    if model.delays:
        raise ValueError(
            f"model {model.name} has delays ({model.delays[0].name}), by which there are no "
            "sensitivities over events; simulate it with other values instead"
        )
    if history:
        raise ValueError(f"model {model.name} has no delays, for which a history is")
    if isinstance(system, Model):
        system = _without_events(system)
    methods = methods_of(system, derivatives=True)
    if method is not None:
        check_text(method, "method")
    if method in SCHEMES:
        raise ValueError(f"there are sensitivities for {' and '.join(methods)}, not for {method}")
    steps = checked_steps(methods, method, substeps, rtol, atol)
    given = simulation_arguments(system, time, initial, parameters, inputs, steps, 1, progress)
    return replace(jump_sensitivities(system, given), following=given.following)


@lru_cache(maxsize=32)
def _without_events(model: Model) -> Hybrid:
    """Hybrid model without events, cached per model: compiled code is kept by identity."""
    return Hybrid(model)
