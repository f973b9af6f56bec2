from collections.abc import Callable, Iterable
from typing import Any

class Told:
    def __init__(
        self,
        function: Callable[..., Any],
        sentence: Callable[[Callable[..., Any], Iterable[str]], str | None],
    ) -> None: ...
    def __call__(self, *args: Any, **given: Any) -> Any: ...
