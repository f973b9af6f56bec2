"""Simulations, ensembles and gradients by diffrax, on one thread of a CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stepping import Calls, Case

Array = NDArray[np.float64]


def packages() -> tuple[Any, Any, Any]:
    """jax, jax.numpy and diffrax, in double precision; raises `ImportError` without them."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ.setdefault("XLA_FLAGS", flags)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    return jax, jnp, diffrax


def classical(diffrax: Any) -> Any:
    """The classical method of order 4, which diffrax has not; the error is not used."""

    class Classical(diffrax.AbstractERK):  # type: ignore[misc, name-defined]
        tableau = diffrax.ButcherTableau(
            c=np.array([0.5, 0.5, 1.0]),
            b_sol=np.array([1.0, 2.0, 2.0, 1.0]) / 6.0,
            b_error=np.array([1.0, -1.0, -1.0, 1.0]),
            a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        )
        interpolation_cls = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

        def order(self, terms: Any) -> int:
            return 4

    return Classical()


def stepping_calls(case: Case) -> Calls:
    """Tasks of `stepping.py`: everything compiled by jax, members by `vmap`, the gradient by
    diffrax's own adjoint, discrete with checkpoints."""
    jax, jnp, diffrax = packages()
    (steps, n, _, q, h), form = case.sizes, case.form(jnp.sin, jnp.cos, lambda f: f)
    u = jnp.array(case.u)

    def rates(t: Any, x: Any, p: Any) -> Any:
        at = t / h
        k = jnp.clip(jnp.floor(at).astype(int), 0, steps - 1)
        out, work = np.full(n, 0.0, object), np.full((n, n), 0.0, object)
        form(list(x), u[k] + (at - k) * (u[k + 1] - u[k]), list(p), out, work)
        return jnp.stack(list(out))

    def run(count: int, start: Any, p: Any) -> Any:
        grid = jnp.array(h * np.arange(count + 1))
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(rates),
            classical(diffrax),
            grid[0],
            grid[-1],
            None,
            start,
            p,
            saveat=diffrax.SaveAt(t0=True, steps=True),
            stepsize_controller=diffrax.StepTo(grid),
            max_steps=count,
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=count),
        )
        return found.ys[: count + 1]

    def squares(guess: Any) -> Any:
        p = jnp.concatenate([guess, jnp.array(case.values[q:])])
        return jnp.sum((run(steps, jnp.array(case.start), p) - case.measured) ** 2)

    def call(function: Callable[..., Any], *given: Array) -> tuple[Any, Callable[[Any], Array]]:
        ready, values = jax.jit(function), tuple(map(jnp.array, given))
        return lambda: ready(*values).block_until_ready(), np.asarray

    members = jax.vmap(partial(run, case.few))
    trial = case.trial[:q]
    return {
        "run": call(partial(run, steps), case.start, case.values),
        "ensemble": call(members, case.starts, case.parameters),
        "cost": (call(squares, trial)[0], np.atleast_1d),
        "gradient": call(jax.grad(squares), trial),
    }
