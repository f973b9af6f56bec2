"""The continuous adjoint of a model: itself a model, in reversed time.

Gradients of J = phi(x_T) + integral of psi(x', x, u, p, t) dt along solutions of 0 = F(x', x, u, p,
t), by conjugate variables that are integrated backwards from the end T.
There are two forms, see `forms`.
"""

from kinesym.symbolic.adjoint.model import FORMS, Adjoint, adjoint

__all__ = ["FORMS", "Adjoint", "adjoint"]
