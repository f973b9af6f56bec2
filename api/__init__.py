"""kinesym: symbolic models of motion, compiled to C, identified from measured data.

Names are loaded when they are first used, so that the parts that need no SymPy start without it.
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from kinesym.base.lazy import lazy_names

if TYPE_CHECKING:
    from kinesym import gait as gait
    from kinesym import hybrid as hybrid
    from kinesym import mjcf as mjcf
    from kinesym import models as models
    from kinesym import multibody as multibody
    from kinesym import osim as osim
    from kinesym import petab as petab
    from kinesym import sbml as sbml
    from kinesym import urdf as urdf
    from kinesym.bundles import Bundle as Bundle
    from kinesym.bundles import bundle as bundle
    from kinesym.collocation import Collocation as Collocation
    from kinesym.continuous_adjoint import ContinuousAdjoint as ContinuousAdjoint
    from kinesym.cross_validation import cross_validate as cross_validate
    from kinesym.designing import design as design
    from kinesym.exporting import export as export
    from kinesym.forecasting import forecast as forecast
    from kinesym.gait.support import Interruption as Interruption
    from kinesym.gait.support import Support as Support
    from kinesym.gait.support import center_of_pressure as center_of_pressure
    from kinesym.gait.support import interruptions as interruptions
    from kinesym.gait.support import support_loads as support_loads
    from kinesym.internal.problems.compiled import compile as compile
    from kinesym.internal.problems.conditions import at as at
    from kinesym.internal.problems.conditions import during as during
    from kinesym.internal.problems.controls import continuous as continuous
    from kinesym.internal.problems.controls import held as held
    from kinesym.internal.problems.controls import linear as linear
    from kinesym.internal.problems.parameters import log_scale as log_scale
    from kinesym.internal.problems.parameters import lognormal as lognormal
    from kinesym.internal.problems.parameters import normal as normal
    from kinesym.internal.problems.parameters import per as per
    from kinesym.internal.problems.parameters import per_trial as per_trial
    from kinesym.internal.problems.parameters import prior as prior
    from kinesym.internal.problems.phases import Phase as Phase
    from kinesym.internal.problems.phases import Phases as Phases
    from kinesym.internal.problems.sensors import sensor as sensor
    from kinesym.inverse import ground_reaction as ground_reaction
    from kinesym.inverse import inverse_dynamics as inverse_dynamics
    from kinesym.listing import show as show
    from kinesym.regressors import Regressor as Regressor
    from kinesym.regressors import regressor as regressor
    from kinesym.runtime.results.bands import Bands as Bands
    from kinesym.runtime.results.bootstrap import Bootstrap as Bootstrap
    from kinesym.runtime.results.compare import nrmse as nrmse
    from kinesym.runtime.results.comparison import Comparison as Comparison
    from kinesym.runtime.results.comparison import compare as compare
    from kinesym.runtime.results.cross_validation import CrossValidation as CrossValidation
    from kinesym.runtime.results.design import Design as Design
    from kinesym.runtime.results.ensemble import Ensemble as Ensemble
    from kinesym.runtime.results.fit import Fit as Fit
    from kinesym.runtime.results.forecast import Forecast as Forecast
    from kinesym.runtime.results.influence import InfluenceMeasures as InfluenceMeasures
    from kinesym.runtime.results.left_out import LeftOut as LeftOut
    from kinesym.runtime.results.multistart import MultiStart as MultiStart
    from kinesym.runtime.results.profile import Profile as Profile
    from kinesym.runtime.results.solution import Solution as Solution
    from kinesym.runtime.results.trajectory import Trajectory as Trajectory
    from kinesym.runtime.signals.censored import censored as censored
    from kinesym.runtime.signals.experiment import Experiment as Experiment
    from kinesym.runtime.signals.history import UnknownHistory as UnknownHistory
    from kinesym.runtime.signals.motion import Motion as Motion
    from kinesym.runtime.signals.motion import Recording as Recording
    from kinesym.runtime.signals.signal import Signal as Signal
    from kinesym.runtime.signals.sines import sines as sines
    from kinesym.runtime.signals.steady import steady as steady
    from kinesym.shooting import Shooting as Shooting
    from kinesym.simulation import consistent as consistent
    from kinesym.simulation import sensitivities as sensitivities
    from kinesym.simulation import simulate as simulate
    from kinesym.study import Study as Study
    from kinesym.symbolic.delayed import delayed as delayed
    from kinesym.symbolic.function import function as function
    from kinesym.symbolic.homotopy import homotopy as homotopy
    from kinesym.symbolic.model import Model as Model
    from kinesym.symbolic.names import dynamicsymbols as dynamicsymbols
    from kinesym.symbolic.names import t as t
    from kinesym.symbolic.objective import Integral as Integral
    from kinesym.symbolic.objective import LeastSquares as LeastSquares
    from kinesym.symbolic.objective import Terminal as Terminal
    from kinesym.symbolic.objective import at_end as at_end
    from kinesym.symbolic.objective import at_start as at_start
    from kinesym.symbolic.objective import integral as integral
    from kinesym.symbolic.objective import l1 as l1
    from kinesym.symbolic.objective import periodic as periodic
    from kinesym.symbolic.objective import total_variation as total_variation
    from kinesym.symbolic.polynomial import PolynomialFit as PolynomialFit
    from kinesym.symbolic.polynomial import polynomial_fit as polynomial_fit
    from kinesym.symbolic.smooth import smooth_abs as smooth_abs
    from kinesym.symbolic.smooth import smooth_max as smooth_max
    from kinesym.symbolic.smooth import smooth_min as smooth_min
    from kinesym.symbolic.smooth import smooth_step as smooth_step
    from kinesym.symbolic.table import table as table

_load, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    return importlib.metadata.version("kinesym") if name == "__version__" else _load(name)


def __dir__() -> list[str]:
    return __all__
