"""Code generation: from symbolic problems to kernels, as C or as instructions of an interpreter.

Stages: `transcribe` applies the collocation scheme to a problem, `stepping` an integrator to a
model, and `evaluate` takes a model as it is; `lower` turns SymPy expressions into a `graph` of
operations; `derive` differentiates the graph, with exact sparsity; `kernel` is one function with
its arguments and outputs; `schedule` cuts its operations into pieces; `c` prints them as C,
`bytecode` as instructions of the machine that needs no compiler.
"""
