"""Losses of residuals that grow less than squares, so that outliers weigh less."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from kinesym.base.checks import check_choice, positive

#: Usual tuning by name. Huber's and the smooth one keep 95 % of the efficiency of least squares
#: for normal errors; Student's is the number of degrees of freedom of Lange, Little, Taylor (1989),
#: Journal of the American Statistical Association 84.
TUNINGS = {"huber": 1.345, "pseudo-huber": 1.287, "student": 4.0}
#: The loss of errors with the density of Laplace, exp(-|e|)/2, which has no tuning.
LAPLACE = "laplace"

#: q up to which log(1 + q)/q is a series.
_SMALL = 0.01
#: Number of terms of this series: the next one is below rounding.
_TERMS = 9
#: Beyond, the log of the tail of the normal distribution is an asymptotic series.
_FAR = 14.0
#: Number of terms of that series: the next one is below rounding.
_TERMS_FAR = 11


@dataclass(frozen=True)
class Loss:
    """The loss rho(e) of a residual e = (modelled - measured)/std, about e^2 near zero.

    "huber": e^2 up to |e| = c, 2 c |e| - c^2 beyond (Huber 1964, Annals of Mathematical Statistics
    35). "pseudo-huber": 2 c^2 (sqrt(1 + (e/c)^2) - 1). "student": (c + 1) log(1 + e^2/c), twice the
    negative log-likelihood of Student's distribution with c degrees of freedom and the scale std.
    "laplace": 2 |e|, that of Laplace's with the scale std.
    """

    name: str
    tuning: float

    @staticmethod
    def named(name: str, tuning: float | None = None) -> Loss:
        """One of `TUNINGS`, or `LAPLACE`; raises `ValueError` for others and a tuning that is not
        positive, or is none."""
        check_choice(name, (*TUNINGS, LAPLACE), "loss")
        if name == LAPLACE:
            if tuning is not None:
                raise ValueError("the loss laplace has no tuning: its scale is std; leave it out")
            return Loss(name, 1.0)
        return Loss(name, TUNINGS[name] if tuning is None else positive(tuning, "tuning"))

    def cost(self, e: sp.Expr) -> sp.Expr:
        """rho(e)."""
        c = sp.Float(self.tuning)
        if self.name == LAPLACE:
            return 2 * sp.Abs(e)
        if self.name == "huber":
            size = sp.Abs(e)
            return sp.Piecewise((e**2, size <= c), (2 * c * size - c**2, True))
        if self.name == "pseudo-huber":
            return 2 * e**2 / (1 + sp.sqrt(1 + (e / c) ** 2))
        return (c + 1) * sp.log(1 + e**2 / c)

    @property
    def likelihood(self) -> bool:
        """Whether rho is -2 log of a probability density, up to a constant."""
        return self.name in ("student", LAPLACE)

    @property
    def kinked(self) -> bool:
        """Whether rho has a kink at zero."""
        return self.name == LAPLACE

    def slope(self, e: sp.Expr) -> sp.Expr:
        """psi = rho'/2, of a loss that is a likelihood."""
        if self.name == LAPLACE:
            return sp.sign(e)
        c = sp.Float(self.tuning)
        return (c + 1) * e / (c + e**2)

    @property
    def roots_of_information(self) -> tuple[float, float]:
        """Roots of the expected information of a sample on its mean, in standard deviations, and on
        the log of these, of a loss that is a likelihood."""
        if self.name == LAPLACE:
            return 1.0, 1.0
        c = self.tuning
        return ((c + 1.0) / (c + 3.0)) ** 0.5, (2.0 * c / (c + 3.0)) ** 0.5

    def root(self, e: sp.Expr) -> sp.Expr:
        """r with r^2 = rho(e), and the sign of e; e itself where rho has a kink, whose curvature is
        expected to be that of the square."""
        c = sp.Float(self.tuning)
        if self.name == LAPLACE:
            return e
        if self.name == "huber":
            size = sp.Abs(e)
            beyond = sp.sign(e) * sp.sqrt(2 * c * size - c**2)
            return sp.Piecewise((e, size <= c), (beyond, True))
        if self.name == "pseudo-huber":
            return e * sp.sqrt(2 / (1 + sp.sqrt(1 + (e / c) ** 2)))
        q = e**2 / c
        series = sp.Integer(0)
        for k in range(_TERMS, 0, -1):
            series = sp.Rational(1, k) - q * series
        share = sp.Piecewise((series, q < _SMALL), (sp.log(1 + q) / q, True))
        return e * sp.sqrt((c + 1) / c * share)


def log_normal_tail(v: sp.Expr) -> sp.Expr:
    """log(1 - Phi(v)), Phi the distribution function of the normal distribution, for all v."""
    series = sp.Integer(1)
    for k in range(_TERMS_FAR, 0, -1):  # 1 - 1/v^2 (1 - 3/v^2 (1 - 5/v^2 ...
        series = 1 - (2 * k - 1) / v**2 * series
    far = -(v**2) / 2 - sp.log(v) - sp.log(2 * sp.pi) / 2 + sp.log(series)
    return sp.Piecewise((far, v > _FAR), (sp.log(sp.erfc(v / sp.sqrt(2)) / 2), True))
