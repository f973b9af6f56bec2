"""Simulation of hybrid models from event to event, its derivatives, and messages on failures."""
