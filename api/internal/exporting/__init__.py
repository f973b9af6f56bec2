"""Files is written for programs of others: one module for each target."""
