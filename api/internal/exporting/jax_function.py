"""Functions of JAX around compiled code: right-hand sides, simulations, log-densities.

They are callbacks with derivatives of our own: `jax.jit`, `jax.grad` and `jax.vmap` work, members
of a batch share one call, and derivatives are of first order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import count, shown, threads
from kinesym.base.extras import required
from kinesym.codegen.stepping import swept
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.arrays import Array, time_grid
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.simulation.stepper import Stepper
from kinesym.runtime.simulation.swept import Swept
from kinesym.symbolic.model import Model


def model_function(
    model: Model, time: ArrayLike | None = None, substeps: int = 1
) -> Callable[..., Any]:
    """Function of JAX of a model: its right-hand side f(x, u, p, t), (n,), or, with nodes `time`
    (N,), the simulation f(p, x0, u), states (n, N), of inputs u (m, N) with straight lines between
    the nodes.

    x, u, p are in the order of `model.state_names`, `input_names` and `parameter_names`; t is 0 and
    u empty where not given. substeps : steps of Runge-Kutta ("rk4") per interval. The derivative of
    the right-hand side is its Jacobian, forwards and backwards; that of the simulation is the
    adjoint of its steps, exact but backwards only. A simulation that fails is NaN from there on.
    Raises `ValueError` for models with delays or without an explicit x'.
    """
    jax, made = _jax(), _compiled(model)
    if time is None:
        return _right_hand_side(jax, model, made)
    nodes, parts = time_grid(time), count(substeps, "substeps")
    return _simulation(jax, model, made, nodes, parts)


def density_function(what: LogDensity | Trials) -> Callable[..., Any]:
    """Function of JAX of a log-density, f(theta), (n,) in the order of its `names`; of a fit that
    of `fit.log_density()`. Value and gradient are of one call."""
    jax = _jax()
    density = what if isinstance(what, LogDensity) else what.log_density()
    scalar, row = _shape(jax), _shape(jax, density.size)
    rows = partial(_rows, (1,))

    def values(theta: ArrayLike) -> Array:
        (theta,), batch = rows(theta)
        return np.reshape(density.value(theta), batch)

    def both(theta: ArrayLike) -> tuple[Array, Array]:
        (theta,), batch = rows(theta)
        found, slopes = density.value_and_gradient(theta)
        return np.reshape(found, batch), slopes.reshape(*batch, density.size)

    @jax.custom_jvp
    def log_density(theta: Any) -> Any:
        return _called(jax, values, scalar, theta)

    @log_density.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        value, slopes = _called(jax, both, (scalar, row), *primals)
        return value, slopes @ tangents[0]

    return partial(_checked, jax, log_density, {"theta": (density.size,)})


# -- of models ------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _compiled(model: Model) -> Swept:
    """The compiled steps of a model, kept for the next function of it."""
    return Swept(Stepper.of(realise(swept(model)), "rk4"), threads(None))


def _right_hand_side(jax: Any, model: Model, made: Swept) -> Callable[..., Any]:
    n, m, r = made.sizes
    rows = partial(_rows, (1, 1, 1, 0))

    def values(*given: ArrayLike) -> Array:
        points, batch = rows(*given)
        return made.rates(*points).reshape(*batch, n)

    def both(*given: ArrayLike) -> tuple[Array, Array]:
        points, batch = rows(*given)
        found, slopes = made.slopes(*points)
        return found.reshape(*batch, n), slopes.reshape(*batch, n, -1)

    shapes = _shape(jax, n), _shape(jax, n, n + m + r + 1)

    @jax.custom_jvp
    def rhs(*given: Any) -> Any:
        return _called(jax, values, shapes[0], *given)

    @rhs.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        rates, slopes = _called(jax, both, shapes, *primals)
        return rates, slopes @ jax.numpy.concatenate([*tangents[:3], tangents[3][None]])

    expected = {"x": (n,), "u": (m,), "p": (r,), "t": ()}

    def f(x: Any, u: Any = (), p: Any = (), t: Any = 0.0) -> Any:
        return _checked(jax, rhs, expected, x, u, p, t)

    return f


def _simulation(
    jax: Any, model: Model, made: Swept, nodes: Array, parts: int
) -> Callable[..., Any]:
    (n, m, r), jnp = made.sizes, jax.numpy
    shares = np.arange(parts * (len(nodes) - 1) + 1) / parts
    time = np.interp(shares, np.arange(len(nodes)), nodes)
    rows, N = partial(_rows, (1, 1, 2)), len(time)
    whole = _shape(jax, n, N)

    def states(*given: ArrayLike) -> Array:
        (p, initial, u), batch = rows(*given)
        return made.states(time, p, initial, u).reshape(*batch, n, N)

    def pulled(*given: ArrayLike) -> tuple[Array, ...]:
        (p, u, course, slopes), batch = _rows((1, 2, 2, 2), *given)
        found = made.pulled(time, p, u, course, slopes)
        return tuple(each.reshape(*batch, *each.shape[1:]) for each in found)

    @jax.custom_vjp
    def simulated(p: Any, initial: Any, u: Any) -> Any:
        return _called(jax, states, whole, p, initial, u)

    def forward(p: Any, initial: Any, u: Any) -> Any:
        course = simulated(p, initial, u)
        return course, (p, u, course)

    def backward(kept: Any, slopes: Any) -> Any:
        shapes = (_shape(jax, r), _shape(jax, n), _shape(jax, m, N))
        return _called(jax, pulled, shapes, *kept, slopes)

    simulated.defvjp(forward, backward)
    left = np.minimum(shares.astype(int), len(nodes) - 2)
    share = shares - left
    expected = {"p": (r,), "x0": (n,), "u": (m, len(nodes))}

    def at_nodes(p: Any, initial: Any, u: Any) -> Any:
        fine = (1.0 - share) * u[:, left] + share * u[:, left + 1]
        return simulated(p, initial, fine)[:, ::parts]

    def f(p: Any, x0: Any, u: Any = None) -> Any:
        u = jnp.zeros((0, len(nodes))) if u is None else u
        return _checked(jax, at_nodes, expected, p, x0, u)

    return f


# -- what all share -------------------------------------------------------------------------


def _jax() -> Any:
    """The package. Raises `NotInstalled` without it, `ValueError` for single precision."""
    jax = required("jax")
    _check_precision(jax)
    return jax


def _check_precision(jax: Any) -> None:
    if not jax.config.jax_enable_x64:
        raise ValueError(
            "JAX computes in single precision here, compiled code in double: first of all say "
            "jax.config.update('jax_enable_x64', True)"
        )


def _shape(jax: Any, *shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float64)


def _called(jax: Any, function: Callable[..., Any], shapes: Any, *given: Any) -> Any:
    """Call of a function of arrays with any axes of batches before their own, equal ones."""
    return jax.pure_callback(function, shapes, *given, vmap_method="broadcast_all")


def _rows(axes: Sequence[int], *given: ArrayLike) -> tuple[list[Array], tuple[int, ...]]:
    """Arrays with one axis of members before as many of their own, and the axes of the batch."""
    arrays = [np.asarray(each, dtype=np.float64) for each in given]
    batch = arrays[0].shape[: arrays[0].ndim - axes[0]]
    members = int(np.prod(batch))
    pairs = zip(arrays, axes, strict=True)
    return [a.reshape(members, *a.shape[a.ndim - own :]) for a, own in pairs], batch


def _checked(
    jax: Any, function: Callable[..., Any], expected: dict[str, tuple[int, ...]], *given: Any
) -> Any:
    """Call with arrays of these shapes; raises `ValueError` naming another."""
    _check_precision(jax)
    arrays = []
    for (name, shape), value in zip(expected.items(), given, strict=True):
        array = jax.numpy.asarray(value, dtype=np.float64)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {shown(array.shape)}, expected {shape}")
        arrays.append(array)
    return function(*arrays)
