"""Time stepping with delays: windows, the course so far, exact derivatives of fixed steps."""
