"""Meaning of models and problems: frozen, validated, free of numbers and of code generation."""
