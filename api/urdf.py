"""Models of robots in the Unified Robot Description Format."""

from kinesym.keywords import told_names
from kinesym.models.files.urdf import parse, read

__all__ = ["parse", "read"]

told_names(globals(), __all__)
