"""IPOPT behind either driver, and its linear solvers."""
