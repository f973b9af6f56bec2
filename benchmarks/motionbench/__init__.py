"""A suite of identification problems of mechanics, with known truth, for every tool: see README.md.

Needs NumPy and SciPy; adapters need their tools.
"""
