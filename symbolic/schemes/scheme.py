"""What a discretisation scheme is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    """One-step collocation of 0 = f(x', x, u, p, t) on an interval of length h.

    With x_0, x_1 the values at the two nodes, the defect of the interval is
    `f((d_0 x_0 + d_1 x_1)/h, s_0 x_0 + s_1 x_1, s_0 u_0 + s_1 u_1, p, t_0 + c h)`.

    derivative : (d_0, d_1), with d_0 + d_1 = 0.
    state : (s_0, s_1), with s_0 + s_1 = 1.
    time : c in [0, 1].
    quadrature : (w_0, w_1), so that the integral of g over the interval is h (w_0 g_0 + w_1 g_1).
    order : order of convergence for smooth problems.
    reference : source.
    """

    name: str
    derivative: tuple[float, float]
    state: tuple[float, float]
    time: float
    quadrature: tuple[float, float]
    order: int
    reference: str

    def __post_init__(self) -> None:
        for what, weights, total in (
            ("derivative", self.derivative, 0.0),
            ("state", self.state, 1.0),
            ("quadrature", self.quadrature, 1.0),
        ):
            if abs(sum(weights) - total) > 1e-14:
                raise ValueError(f"scheme {self.name}: {what} weights must sum to {total:g}")
