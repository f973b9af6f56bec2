"""What adapters share: grids of nodes, names of unknowns, errors from a Jacobian of residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from motionbench.declare import labels_of
from motionbench.reference import instants
from motionbench.suite import Record, stop_of

#: Singular values below this share of the largest (of columns of unit length) are zero.
SINGULAR = 1e-6


def refuse(statement: Mapping[str, Any], **reasons: bool) -> None:
    """Refuse a statement for the first reason that holds, in words."""
    for words, holds in reasons.items():
        if holds:
            raise NotImplementedError(words.replace("_", " "))


def has(statement: Mapping[str, Any], kind: str) -> bool:
    """Whether an input is of this kind: exact, measured, unknown, random."""
    return any(row["kind"] == kind for row in statement["inputs"].values())


def nodes(statement: Mapping[str, Any], most: int = 20_000) -> np.ndarray:
    """Nodes of a collocation: all times of samples and of inputs; only those of inputs that are
    measured or random, which are unknown there; every tenth of more than `most`."""
    own = [
        row["every"]
        for row in statement["inputs"].values()
        if row["kind"] in ("measured", "random")
    ]
    stop = stop_of(statement)
    steps = own or [row["every"] for row in statement["inputs"].values()]
    rows = [step * np.arange(np.ceil(stop / step - 1e-9) + 1) for step in steps]
    if not own:
        rows += [np.zeros(1), *map(instants, statement["clocks"].values())]
    found = np.unique(np.concatenate(rows).round(9))
    found = found[found <= stop + 1e-9]
    return found if len(found) <= most else np.union1d(found[::10], found[-1])


def scoped(statement: Mapping[str, Any], trial: int) -> dict[str, str]:
    """Names of unknowns in the equations of a trial, and in answers."""
    found, row = {}, statement["trials"][trial]
    for name, each in statement["unknown"].items():
        label = {"all": "", "subject": f"[{row.get('subject')}]", "trial": f"[{trial}]"}[
            each["scope"]
        ]
        found[name] = name + label
    return found


def bounds_of(statement: Mapping[str, Any]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Names of all parameters to find, low, high, guess."""
    rows = [
        each
        for each in statement["unknown"].values()
        for _ in labels_of(each["scope"], statement["trials"])
    ]
    low, high, guess = (
        np.array([float(row[key]) for row in rows]) for key in ("low", "high", "guess")
    )
    return statement["report"], low, high, guess


def series(statement: Mapping[str, Any], record: Record, trial: int, name: str) -> tuple:
    """Times and samples of a channel, without those that are missing."""
    columns = record[f"{statement['measured'][name]['clock']}.{trial}.csv"]
    there = np.isfinite(columns[name])
    return columns["t"][there], columns[name][there]


def errors_of(jacobian: np.ndarray, names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """Standard errors of the first unknowns, by name, and which of them cannot be known, from the
    Jacobian of residuals over their standard deviations."""
    size = np.linalg.norm(jacobian, axis=0)
    scaled = jacobian / np.where(size > 0.0, size, 1.0)
    _, s, vt = np.linalg.svd(scaled, full_matrices=False)
    lost = s < SINGULAR * s[0]
    variance = (vt[~lost] ** 2 / s[~lost, None] ** 2).sum(axis=0) / np.where(
        size > 0, size, 1.0
    ) ** 2
    far = (np.abs(vt[lost]) > 1e-2).any(axis=0) | (size == 0.0)
    errors = {name: float(np.sqrt(v)) for name, v in zip(names, variance, strict=False)}
    unknown = [name for name, out in zip(names, far, strict=False) if out]
    return {k: v for k, v in errors.items() if k not in unknown}, unknown


def spreads(residuals: Mapping[str, Sequence[np.ndarray]], unknowns: int) -> dict[str, float]:
    """Standard deviations from residuals by channel; the unknowns are shared among all samples."""
    whole = sum(len(row) for rows in residuals.values() for row in rows)
    found = {}
    for name, rows in residuals.items():
        all_ = np.concatenate(rows)
        found[name] = float(np.sqrt(all_ @ all_ / (len(all_) * (1.0 - unknowns / whole))))
    return found
