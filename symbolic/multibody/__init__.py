"""Multibody models of open trees from a table of bodies, by recursive Kane's method."""
