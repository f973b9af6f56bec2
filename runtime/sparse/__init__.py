"""Patterns of sparse matrices, and where the outputs of kernel calls lie in them."""
