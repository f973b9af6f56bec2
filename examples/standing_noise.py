"""Errors in variables: what a noisy input does to identified gains, over ten noise draws.

The study of `standing`, repeated with the true platform acceleration as input, with the noisy one
taken as exact, and with the acceleration as an unknown trajectory that is measured. Errors are
relative to the fit of noise-free data in the same formulation, which leaves out the (small) errors
of the grid and of a between its samples: what remains of the mean is bias due to noise.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.standing import GAINS, add_noise, identify, simulate

TREATMENTS = {"true": "true a", "noisy": "noisy a taken as exact", "estimated": "a estimated"}


def fits(time, clean, seed):
    """Identified gains (8,) of the three treatments for one draw of the noise."""
    noisy = add_noise(clean, seed)
    solutions = {
        "true": identify(time, {**noisy, "a": clean["a"]}),
        "noisy": identify(time, noisy),
        "estimated": identify(time, noisy, acceleration="unknown"),
    }
    return {name: [s.parameters[k] for k in GAINS] for name, s in solutions.items()}


def study(seeds=range(10), nodes=6000):
    """Relative errors of the gains [%], (seeds, 8), and those of noise-free data, (8,)."""
    time, clean = simulate(nodes)
    true = np.array([ks.models.standing().values[k] for k in GAINS])
    draws = [fits(time, clean, seed) for seed in seeds]
    errors = {k: 100.0 * (np.array([d[k] for d in draws]) / true - 1.0) for k in TREATMENTS}
    exact = [identify(time, clean).parameters[k] for k in GAINS]
    joint = [identify(time, clean, acceleration="unknown").parameters[k] for k in GAINS]
    free = {"true": exact, "noisy": exact, "estimated": joint}
    return errors, {k: 100.0 * (np.array(v) / true - 1.0) for k, v in free.items()}


def table(errors, free):
    """Bias and spread of every gain and treatment, as text."""
    rows = ["gain " + "".join(f"{text:>26}" for text in TREATMENTS.values())]
    for j, name in enumerate(GAINS):
        rest = [errors[k][:, j] - free[k][j] for k in TREATMENTS]
        cells = [f"{e.mean():+7.2f} +- {e.std(ddof=1):5.2f}" for e in rest]
        rows.append(f"{name} " + "".join(f"{cell:>26}" for cell in cells))
    return "\n".join(rows)


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Ten draws; table and picture of bias and spread."""
    errors, free = study(nodes=nodes or 6000)
    print("bias due to noise and spread from draw to draw [% of the true gain]\n")
    print(table(errors, free))
    fig, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for shift, (name, text) in zip((-0.2, 0.0, 0.2), TREATMENTS.items(), strict=True):
        bias, spread = (errors[name] - free[name]).mean(axis=0), errors[name].std(axis=0, ddof=1)
        axis.errorbar(np.arange(8) + shift, bias, spread, fmt="o", capsize=3, label=text)
    axis.axhline(0.0, color="0.6", lw=0.8)
    axis.set_xticks(range(8), GAINS)
    axis.set_ylabel("error of the gain [%]")
    axis.legend()
    fig.suptitle("Errors in variables: mean and standard deviation over ten draws of the noise")
    path = out / "standing_noise.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
