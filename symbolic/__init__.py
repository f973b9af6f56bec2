"""Symbolic models and problems: frozen, validated, without numbers and without generated code.

Stages: `expression` checks what the user writes, and makes it real; `model` is an implicit residual
with outputs; `structure` and `index` find the differentiation index, `reduction` lowers it; `jumps`
and `delayed` mark jumps and delayed signals; `schemes` are collocation and Runge-Kutta methods as
data; `objective` is costs and conditions; `problem` joins all of them into what the code
generator transcribes. `multibody`, `mechanics` and `hybrid` derive models.
"""
