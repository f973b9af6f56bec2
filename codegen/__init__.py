"""Code generation from a symbolic problem to C: graph, derivatives, kernels, printer, interpreter.

The order of the stages is `lower` -> `derive` -> `kernel` -> `emit`; `transcribe` and `evaluate`
show it for collocation and for plain model functions.
"""
