"""Libraries of compiled C: compiler, cache, and the manifest of the code generator."""
