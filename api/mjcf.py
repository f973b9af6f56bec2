"""Models of MuJoCo: their bodies and joints."""

from kinesym.models.files.mjcf import parse, read

__all__ = ["parse", "read"]
