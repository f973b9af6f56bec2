"""Time stepping with delays: windows, past of the states, exact derivatives of fixed steps."""
