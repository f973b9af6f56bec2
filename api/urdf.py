"""Models of robots in the Unified Robot Description Format."""

from kinesym.models.files.urdf import parse, read

__all__ = ["parse", "read"]
