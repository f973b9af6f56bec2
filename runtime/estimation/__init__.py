"""Estimation from samples with noise, however their residuals are found."""
