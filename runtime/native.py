"""The compiled extension, under a name that tools which only read Python can follow."""

from kinesym.runtime._native import ABI, ADD, LATE, SET, SUM, Call, Library

__all__ = ["ABI", "ADD", "LATE", "SET", "SUM", "Call", "Library"]
