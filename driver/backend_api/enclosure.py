"""The walls around a command, as a backend sees them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol


class Enclosure(Protocol):
    """The walls around one command (`driver.walls`); `name` is their level."""

    @property
    def name(self) -> str:
        """The level as receipts show it."""
        ...

    def run(self, processes: Any, command: Any, *, name: str = "") -> Any:
        """Run a `Command` to its end inside, as `Processes.run` does outside."""
        ...

    def reading(self, paths: Iterable[Path]) -> Enclosure:
        """Give the same walls with `paths` readable as well."""
        ...

    def lending(self, login: Iterable[Any]) -> Enclosure:
        """Give the same walls with copies of the login of an agent's program in its home."""
        ...
