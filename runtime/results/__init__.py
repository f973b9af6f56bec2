"""What users get: trajectories, ensembles, solutions, fits; their pictures, tables and files."""
