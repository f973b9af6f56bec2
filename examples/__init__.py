"""A graded gallery: each script is one complete study, from the model to the figure."""
