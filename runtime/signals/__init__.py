"""Inputs over time, trials, motions of a base, stimulation."""
