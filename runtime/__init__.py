"""Numerics: compiled libraries, experiments, solvers and results. Nothing here needs SymPy: a built
library runs in a process without it.

Stages: `library` compiles and opens kernels, `native` runs them; `signals` are measured data and
inputs; `simulation`, `delays` and `hybrid` integrate in time; `nlp` assembles the nonlinear program
of collocation, `ipopt` solves it, and `shooting` fits simulations to data; `statistics` computes
covariances and intervals; `results` are solutions and trajectories; `studies` run many tasks.
"""

import os

# Threads that wait for others sleep: those that spin, as libgomp's do else, take the processor from
# the ones they wait for, and cost a third of a short solve. Read once, when libgomp is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
