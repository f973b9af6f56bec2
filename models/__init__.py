"""Ready-made models of the literature, one function each; values have units and a source."""

from typing import TYPE_CHECKING

from kinesym.base.lazy import lazy_names

if TYPE_CHECKING:
    from kinesym.models.balance import standing as standing
    from kinesym.models.balance import standing_plant as standing_plant
    from kinesym.models.bicycle import whipple_bicycle as whipple_bicycle
    from kinesym.models.closed_chains import bricard as bricard
    from kinesym.models.closed_chains import cartesian_pendulum as cartesian_pendulum
    from kinesym.models.closed_chains import flexible_slider_crank as flexible_slider_crank
    from kinesym.models.closed_chains import four_bar as four_bar
    from kinesym.models.closed_chains import squeezer as squeezer
    from kinesym.models.n_link import n_link_pendulum_on_cart as n_link_pendulum_on_cart
    from kinesym.models.quiet_standing import cip as cip
    from kinesym.models.ship import cartip as cartip
    from kinesym.models.ship import grm3d as grm3d
    from kinesym.models.ship import person_on_ship as person_on_ship
    from kinesym.models.ship import psm3d as psm3d
    from kinesym.models.ship import sim3d as sim3d
    from kinesym.models.simple_pendulum import pendulum as pendulum

__getattr__, __all__ = lazy_names(__name__, __file__)
