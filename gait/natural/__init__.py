"""Natural coordinates as in the papers: points and unit vectors, constraints and multipliers."""
