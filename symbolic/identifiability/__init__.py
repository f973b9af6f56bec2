"""Structural identifiability: what can be known of a model from perfect measurements, exactly.

`question` checks what is asked and `posed` puts it to a `system`: steps (`tape`) whose power series
(`series`) are expanded at random `points` modulo a prime (`field`, `values`); `null` has the
directions in which unknowns change without effect, `combinations` what can be known all the same,
`verdict` says it; `runs` asks it of a record. `real` has the same series in floating point, `fibre`
the other values that give the same outputs, `second` their names and whether they hold, `words`
says them.
"""
