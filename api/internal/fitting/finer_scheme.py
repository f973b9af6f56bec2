"""Finer scheme on the same intervals, against which the error of a scheme is measured."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.linalg import null_space
from scipy.special import roots_jacobi

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.defects import Finer
from kinesym.symbolic.schemes.scheme import CollocationScheme, lagrange


@cache
def finer(scheme: CollocationScheme) -> Finer:
    """Finer scheme to compare with: the Radau IIA method of least higher order."""
    c = radau_nodes((scheme.order + 1) // 2 + 1)
    knots = np.append(0.0, c)
    stages = np.array(scheme.nodes)
    extend = _integrals(stages, c) if scheme.explicit_start else scheme.states(c)
    return Finer(
        nodes=stages,
        weights=np.array(scheme.weights),
        matrix=np.array(scheme.matrix),
        at_knots=scheme.explicit_start,
        values=scheme.states(stages),
        rates=scheme.rates(stages),
        fine_nodes=c,
        fine_weights=_integrals(c, np.ones(1))[0],
        fine_rates=lagrange(knots, c, derivative=True),
        extend=extend,
        extend_inputs=scheme.inputs(c),
        back=lagrange(knots, scheme.knots),
        back_stages=lagrange(c, stages),
        beside=_beside(scheme.inputs(c)[:, scheme.explicit_start :], _integrals(c, np.ones(1))[0]),
    )


def _beside(courses: Array, weights: Array) -> Array:
    """Courses at nodes (f, q) that have nothing in common with others (f, s), by the integrals of
    their products with these weights of the nodes."""
    root = np.sqrt(weights)[:, None]
    return np.asarray(null_space((root * courses).T) / root)


def radau_nodes(stages: int) -> Array:
    """Nodes of Radau IIA (Hairer, Wanner, Solving Ordinary Differential Equations II, IV.5): 1, and
    the zeros of the Jacobi polynomial P_(s-1)^(1,0), moved from (-1, 1) to (0, 1)."""
    inner = roots_jacobi(stages - 1, 1.0, 0.0)[0] if stages > 1 else np.zeros(0)
    return np.append(0.5 * (np.asarray(inner) + 1.0), 1.0)


def _integrals(nodes: Array, places: Array) -> Array:
    """Integrals from 0 to each place of the polynomials through values at nodes, (k, s)."""
    powers = np.arange(1, len(nodes) + 1)
    moments = places[:, None] ** powers / powers
    return np.asarray(moments @ np.linalg.inv(nodes[:, None] ** (powers - 1)))
