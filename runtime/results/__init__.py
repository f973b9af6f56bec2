"""Results: trajectories, ensembles, solutions and fits, with their figures, tables and files."""
