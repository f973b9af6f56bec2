"""Models in the Systems Biology Markup Language."""

from kinesym.models.files.sbml import FileModel, read

__all__ = ["FileModel", "read"]
