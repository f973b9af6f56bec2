"""Text that all C files begin with."""

from __future__ import annotations

from importlib.metadata import version


def head(title: str) -> str:
    """The first comment of a file."""
    return (
        f"/* {in_comment(title)}\n *\n"
        f" * Written by kinesym {version('kinesym')}; whoever uses kinesym owns this file, and may "
        "license it as they\n * like.\n */\n"
    )


def in_comment(text: str) -> str:
    """Text that neither ends a comment nor begins another."""
    return text.replace("*/", "* /").replace("/*", "/ *")
