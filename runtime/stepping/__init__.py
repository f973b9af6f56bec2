"""Time stepping: trajectories, systems with events, sensitivities, shooting and its optimisers."""
