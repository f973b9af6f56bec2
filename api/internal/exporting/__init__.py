"""Files and objects for programs of others, one module per target."""
