"""Studies: many tasks on many workers, their dispatch, and the index of their results."""
