"""What a discretisation scheme is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    """A one-step method on an interval of length h with nodes 0 and 1.

    quadrature : (w_0, w_1), so that the integral of g over the interval is h (w_0 g_0 + w_1 g_1).
    order : order of convergence for smooth problems.
    reference : source.
    """

    name: str
    quadrature: tuple[float, float]
    order: int
    reference: str

    def __post_init__(self) -> None:
        _check_sum(self.name, "quadrature", self.quadrature, 1.0)


@dataclass(frozen=True)
class StageScheme(Scheme):
    """Collocation of 0 = f(x', x, u, p, t) at one point of the interval.

    With x_0, x_1 the values at the two nodes, the defect of the interval is
    `f((d_0 x_0 + d_1 x_1)/h, s_0 x_0 + s_1 x_1, s_0 u_0 + s_1 u_1, p, t_0 + c h)`.

    derivative : (d_0, d_1), with d_0 + d_1 = 0.
    state : (s_0, s_1), with s_0 + s_1 = 1.
    time : c in [0, 1].
    """

    derivative: tuple[float, float]
    state: tuple[float, float]
    time: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sum(self.name, "derivative", self.derivative, 0.0)
        _check_sum(self.name, "state", self.state, 1.0)


@dataclass(frozen=True)
class NodeScheme(Scheme):
    """A method on the explicit derivatives x' = f(x, u, p, t) at the nodes.

    rates : (b_0, b_1), with b_0 + b_1 = 1; the defect of the interval is
        `(x_1 - x_0)/h - b_0 f(x_0, u_0, p, t_0) - b_1 f(x_1, u_1, p, t_0 + h)`, where an input that
        is held has the value u_0 at both. None: the states follow by explicit steps, there are no
        defects.
    """

    rates: tuple[float, float] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rates is not None:
            _check_sum(self.name, "rates", self.rates, 1.0)


@dataclass(frozen=True, kw_only=True)
class ExplicitScheme(NodeScheme):
    """An explicit Runge-Kutta method: x' is k_s at the stages s, at t_0 + c_s h and
    x_0 + h (A_s0 k_0 + A_s1 k_1 + ...), and x_1 = x_0 + h (b_0 k_0 + b_1 k_1 + ...).

    nodes : c, the first one 0. matrix : rows of A, s numbers in row s. weights : b.
    error : weights of all k, with x' at the end last, of the error by which steps are chosen; None:
        steps are fixed.
    dense : weights of all k, likewise, of D in the state at the share s of a step,
        `x_0 + s (d + (1 - s) (e + s (f + (1 - s) h D)))`, with d = x_1 - x_0 and e, f such that it
        has the rates of both ends; None: D = 0.
    """

    rates: None = None
    nodes: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    error: tuple[float, ...] | None = None
    dense: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sum(self.name, "stage", self.weights, 1.0)
        for c, row in zip(self.nodes, self.matrix, strict=True):
            _check_sum(self.name, "matrix", row, c)
        for name in ("error", "dense"):
            _check_sum(self.name, name, getattr(self, name) or (), 0.0)
        if [len(row) for row in self.matrix] != list(range(len(self.weights))):
            raise ValueError(f"scheme {self.name}: row s of the matrix must have s numbers")

    @property
    def tableau(self) -> dict[str, object]:
        """All numbers for the loops: rows of `a` lead to the stages, the last one to the end."""
        stages = len(self.weights)
        rows = [[*row, *[0.0] * (stages - len(row))] for row in (*self.matrix, self.weights)]
        return {
            "order": self.order,
            "c": [*self.nodes, 1.0],
            "a": rows,
            "error": list(self.error or ()),
            "dense": list(self.dense or ()),
        }


def _check_sum(name: str, what: str, weights: tuple[float, ...], total: float) -> None:
    if abs(sum(weights) - total) > 1e-14:
        raise ValueError(f"scheme {name}: {what} weights must sum to {total:g}")
