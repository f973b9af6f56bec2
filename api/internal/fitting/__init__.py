"""Fits: problems as values, solved and judged.

Stages of collocation: `discretisation` is the nonlinear program, `first_guess` its start, `scaling`
its sizes; `solving` solves it, `attempts` and `ladder` go on where that fails, `grid_refinement`
where the grid is too coarse; `solution_record` is what was found, with its `certificate`,
`curvature`, `inference` and `bands`; `why` tells what fails. Of fits by simulation:
`shooting_problem`, `shooting_ladder`, `shooting_starts`. Of experiments before there are data:
`planned`, `designs`.
"""
