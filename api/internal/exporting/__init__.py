"""What is written for other programs, one module per target."""
