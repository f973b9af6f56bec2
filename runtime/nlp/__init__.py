"""Nonlinear programs: layout of unknowns, data of trials, callbacks, sparsity, memory."""
