"""Fits by simulation: trials as functions of few unknowns, optimisers, inference."""
