"""Examples: each module has `main(out, nodes)`, which prints its results and returns its pictures.

Run them with `kinesym run NAME`. Those of more than 300 lines are in `studies`, problems of optimal
control and identification in `gallery`.
"""
