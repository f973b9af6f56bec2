"""Behind the face: what is asked, simulations of it, fits of it, and files for programs of others.

Stages: `problems` checks what is given and writes it as one model with conditions, `running`
simulates it, `fitting` solves it and judges what was found; `exporting` hands it to others. Nothing
here is public.
"""
