"""Building C and keeping what was built; what the code generator says of it."""
