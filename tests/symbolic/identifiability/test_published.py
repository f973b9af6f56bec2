"""Verdicts on models whose identifiable functions are published."""

import numpy as np
import pytest

from kinesym.symbolic.prime_field import rank
from symbolic.identifiability.published import OF_PARAMETERS, OF_STATES, read
