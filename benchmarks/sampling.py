"""How many effective samples per second do samplers draw from the log-density of a fit?

A pendulum with damping, and the force of a muscle whose activation, strength and optimal length are
unknown: NUTS of blackjax by `fit.log_density()` as a function of JAX, four chains in one call, and
emcee by values of all walkers at once. Standard deviations of samples beside those of the fit,
by Student's t.

    python benchmarks/sampling.py [--draws N] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import blackjax
import emcee
import jax
import numpy as np
import sympy as sp
from record import table
from report import leave, machine, number, parsed

import kinesym as ks
from kinesym.symbolic.multibody.muscles import active_force, passive_force

CHAINS, WALKERS, WARM = 4, 32, 300
GRID = np.linspace(0.0, 2.0, 201)  # s


class Drawn(NamedTuple):
    """Samples (draws, chains, n) of y, evaluations of all chains at once, CPU seconds."""

    samples: np.ndarray
    calls: int
    seconds: float


def pendulum() -> Any:
    theta, omega = ks.dynamicsymbols("theta omega")
    p, c = sp.symbols("p c")
    rates = [theta.diff(ks.t) - omega, omega.diff(ks.t) + p * sp.sin(theta) + c * omega]
    return fitted(
        ks.Model("damped_pendulum", [theta, omega], [], [p, c], rates),
        ({p: 10.0, c: 0.2}, {theta: 0.8, omega: 0.0}, {}),
        ({p: (1.0, 40.0), c: ks.log_scale(1e-3, 5.0)}, {theta: None, omega: 0.0}),
        {theta: 0.02},
    )


def muscle() -> Any:
    """Force of a muscle that is excited and stretched; curves of De Groote 2016."""
    a, e, length = ks.dynamicsymbols("activation excitation length")
    strength, optimal, tau = sp.symbols("strength optimal tau")
    share = length / optimal
    force = strength * (a * active_force(share) + passive_force(share))
    model = ks.Model(
        *("muscle", [a], [e, length], [strength, optimal, tau], [tau * a.diff(ks.t) - e + a]),
        outputs={"force": force},
    )
    inputs = {
        e: 0.5 + 0.4 * np.sign(np.sin(9.0 * GRID)),
        length: 0.09 + 0.02 * np.sin(4.0 * GRID),
    }
    return fitted(
        model,
        ({strength: 800.0, optimal: 0.09, tau: 0.06}, {a: 0.1}, inputs),
        (dict.fromkeys((strength, optimal, tau), ks.log_scale()), {a: 0.1}),
        {"force": 10.0},
    )


def fitted(model: Any, truth: tuple[Any, ...], unknown: tuple[Any, ...], std: Any) -> Any:
    """Fit of a model to its own motion with noise, whose standard deviation is not known."""
    (values, start, inputs), rng = truth, np.random.default_rng(1)
    run = ks.simulate(model, GRID, start, values, inputs)
    rows = {name: run[name] + s * rng.standard_normal(GRID.size) for name, s in std.items()}
    trial = ks.Experiment(GRID, inputs=inputs, measurements=rows)
    free, starts = unknown
    return ks.Shooting(model, trial, free, initial=starts).solve(values, optimizer="least-squares")


def by_nuts(density: Any, draws: int) -> Drawn:
    f, keys = ks.export(density, target="jax"), jax.random.split(jax.random.key(0), 3)
    begin = time.process_time()
    warm = blackjax.window_adaptation(blackjax.nuts, f)
    (state, found), _ = jax.jit(warm.run, static_argnums=2)(keys[0], density.best, WARM)
    sampler = blackjax.nuts(f, **found)

    def chain(position: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, info = sampler.step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, sampler.init(position), jax.random.split(key, draws))[1]

    starts = np.tile(state.position, (CHAINS, 1))
    sample = jax.jit(jax.vmap(chain)).lower(starts, jax.random.split(keys[1], CHAINS)).compile()
    warmed = time.process_time()
    print(f"warm-up and compilation by JAX {warmed - begin:.3g} s")
    samples, steps = jax.block_until_ready(sample(starts, jax.random.split(keys[1], CHAINS)))
    seconds = time.process_time() - warmed
    return Drawn(np.moveaxis(np.array(samples), 0, 1), int(np.max(steps, axis=0).sum()), seconds)


def by_emcee(density: Any, draws: int) -> Drawn:
    rng = np.random.default_rng(0)
    start = density.best + 1e-3 * rng.standard_normal((WALKERS, density.size))
    sampler = emcee.EnsembleSampler(WALKERS, density.size, density.value, vectorize=True)
    sampler.random_state = np.random.RandomState(0).get_state()
    state = sampler.run_mcmc(start, WARM)
    sampler.reset()
    begin = time.process_time()
    sampler.run_mcmc(state, draws)
    return Drawn(sampler.get_chain(), 2 * draws, time.process_time() - begin)


SAMPLERS: Mapping[str, Callable[[Any, int], Drawn]] = {"NUTS": by_nuts, "emcee": by_emcee}


def measured(name: str, fit: Any, draws: int) -> list[dict[str, Any]]:
    """One row per sampler: effective samples of the slowest coordinate, and how far standard
    deviations of theta are from those of t intervals."""
    density, rows = fit.log_density().unconstrained, []
    errors = fit.standard_errors()
    freedom = fit.noise[0].freedom
    wide = np.sqrt(freedom / (freedom - 2.0))  # of Student's t
    for sampler, draw in SAMPLERS.items():
        found = draw(density, draws if sampler == "NUTS" else 4 * draws)
        ages = emcee.autocorr.integrated_time(found.samples, tol=0)
        effective = found.samples[..., 0].size / float(np.max(ages))
        spread = density.theta(found.samples.reshape(-1, density.size)).std(axis=0)
        off = [spread[density.names.index(p)] / (wide * s) - 1.0 for p, s in errors.items()]
        rows.append(
            {
                "fit": name,
                "sampler": sampler,
                "unknowns": density.size,
                "samples": found.samples[..., 0].size,
                "effective": effective,
                "CPU [s]": found.seconds,
                "effective per second": effective / found.seconds,
                "call [us]": 1e6 * found.seconds / found.calls,
                "sd off [%]": 100.0 * float(np.max(np.abs(off))),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=500, help="of each chain of NUTS")
    given = parsed(parser)
    jax.config.update("jax_enable_x64", True)
    words, draws = machine("jax", "blackjax", "emcee"), 50 if given.quick else given.draws
    rows = [row for fit in (pendulum, muscle) for row in measured(fit.__name__, fit(), draws)]
    lines = [[v if isinstance(v, str) else number(v) for v in row.values()] for row in rows]
    told = f"{CHAINS} chains in one call, {WALKERS} walkers; after warm-up and compilation."
    leave(given, "sampling", words, [table(list(rows[0]), lines), told], rows)


if __name__ == "__main__":
    main()
