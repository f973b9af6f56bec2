"""Examples: each module has `main(out, nodes)`, which prints its results and returns its pictures.

Run them with `kinesym run NAME`.
"""
