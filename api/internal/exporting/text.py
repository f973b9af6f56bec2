"""Text that all C files begin with."""

from __future__ import annotations


def head(title: str) -> str:
    """The first comment of a file."""
    return (
        f"/* {title.replace('*/', '* /')}\n *\n"
        " * Written by kinesym; whoever uses kinesym owns this file, and may license it as they "
        "like.\n */\n"
    )
