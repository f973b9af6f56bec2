"""Time stepping of smooth models with compiled kernels."""
