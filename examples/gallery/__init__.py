"""Gallery: published problems, those of opty, as `Collocation` problems: `kinesym run NAME`.

Each module has `problem(nodes)`, a `Collocation`, and `solve(nodes)`. Nodes and discretisation are
those of the peer, mostly backward Euler, so that costs can be compared digit for digit; with
`scheme="radau-5"` there are more digits of the motion itself. See docs/gallery/index.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def shown(solve: Callable[..., Any], *names: str) -> Callable[[Path, int | None], list[Path]]:
    """The `main` of a module: solve, print the result, and draw trajectories of these names."""

    def main(out: Path, nodes: int | None = None) -> list[Path]:
        solution = solve() if nodes is None else solve(nodes)
        print(solution)
        path = out / f"{solve.__module__.rsplit('.', 1)[-1]}.png"
        figure = solution.plot(names=names or None)
        figure.savefig(path, dpi=120)
        return [path]

    return main
