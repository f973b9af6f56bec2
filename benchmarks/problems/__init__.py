"""Published problems of optimal control and identification, by kind: a function for each, which
takes the number of nodes and returns its statement and what its source says of the solution."""
