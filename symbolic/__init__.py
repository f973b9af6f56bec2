"""What a model and a problem mean: frozen, validated, free of numbers and of code generation."""
