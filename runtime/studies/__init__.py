"""Many tasks on many workers: what a worker does, who gets what, and what is kept of it."""
