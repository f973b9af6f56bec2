"""Models of MuJoCo: their bodies and joints."""

from kinesym.keywords import told_names
from kinesym.models.files.mjcf import parse, read

__all__ = ["parse", "read"]

told_names(globals(), __all__)
