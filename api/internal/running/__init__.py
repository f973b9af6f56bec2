"""Simulations: of a model, from event to event, with delays.

Stages: `consistent_starts` finds where a motion may begin, `jump_steps` and `jump_events` end steps
where equations jump, `model_run`, `hybrid_run`, `delayed_run` and `hybrid_delays` simulate,
`finer_steps` tells their error.
"""
