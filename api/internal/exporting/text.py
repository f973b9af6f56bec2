"""Text that all C files begin with, and lines of numbers."""

from __future__ import annotations

#: Letters of a line of numbers.
_WIDTH = 100


def head(title: str) -> str:
    """The first comment of a file."""
    return (
        f"/* {title}\n *\n"
        " * Written by kinesym; whoever uses kinesym owns this file, and may license it as they "
        "like.\n */\n"
    )


def wrapped(text: str) -> str:
    """A long list of numbers on lines of some length."""
    lines, length = [""], 0
    for word in text.split(" "):
        if lines[-1] and length + len(word) + 1 > _WIDTH:
            lines.append("   ")
            length = 3
        lines[-1] += f" {word}" if length else word
        length += len(word) + 1
    return "\n".join(lines)
