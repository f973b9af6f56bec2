"""Simulation of hybrid models from event to event, its derivatives, and why it failed."""
