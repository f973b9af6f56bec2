"""Arguments of problems, checked and written as one model with conditions.

Stages: `question` holds the arguments; `formulation` is the list of rewrites for collocation, of
which `sensors`, `conditions`, `phases`, `process_noise`, `equation_delays`, `known_jump_inputs` and
`known_events_collocation` each have one; `symbolic_problem` is what code is made of, `pipeline`
compiles it, `per_trial` has the data. For simulations there is `simulation_arguments`, for fits by
simulation `shooting_arguments`, `shooting_checks` and `shooting_program`.
"""
