"""Numbers: building and calling model libraries, experiments, solvers and results.

Nothing here needs SymPy: a built library runs in a process without it.
"""
