"""Ready-made models of the literature, one function each; values carry units and source."""

from kinesym.models.n_link import n_link_pendulum_on_cart
from kinesym.models.pendulum import pendulum
from kinesym.models.quiet_standing import cip
from kinesym.models.standing import standing, standing_plant

__all__ = ["cip", "n_link_pendulum_on_cart", "pendulum", "standing", "standing_plant"]
