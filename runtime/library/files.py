"""C that is printed when somebody reads it: most libraries are found without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any


class Files(Mapping[str, str]):
    """Translation units by file name.

    digest : of the value from which they are printed; the same digest, the same files. printed :
    makes them.
    """

    def __init__(self, digest: str, printed: Callable[[], Mapping[str, str]]) -> None:
        self.digest, self._printed = digest, printed

    @cached_property
    def _files(self) -> Mapping[str, str]:
        return self._printed()

    def __getitem__(self, name: str) -> str:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __reduce__(self) -> tuple[Any, ...]:
        return Files.of, (self.digest, dict(self._files))

    @classmethod
    def of(cls, digest: str, files: Mapping[str, str]) -> Files:
        """Files that are printed already."""
        return cls(digest, lambda: files)
