"""Ready-made models of the literature, one function each; values have units and a source."""

from kinesym.models.bicycle import whipple_bicycle
from kinesym.models.closed_chains import (
    bricard,
    cartesian_pendulum,
    flexible_slider_crank,
    four_bar,
    squeezer,
)
from kinesym.models.n_link import n_link_pendulum_on_cart
from kinesym.models.pendulum import pendulum
from kinesym.models.quiet_standing import cip
from kinesym.models.ship import cartip, grm3d, person_on_ship, psm3d, sim3d
from kinesym.models.standing import standing, standing_plant

__all__ = [
    "bricard",
    "cartesian_pendulum",
    "cartip",
    "cip",
    "flexible_slider_crank",
    "four_bar",
    "grm3d",
    "n_link_pendulum_on_cart",
    "pendulum",
    "person_on_ship",
    "psm3d",
    "sim3d",
    "squeezer",
    "standing",
    "standing_plant",
    "whipple_bicycle",
]
