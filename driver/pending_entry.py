"""A journal entry between its flush and the moment from which it counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from state_store.files import PreparedFile


class PendingEntry:
    """A journal entry that is flushed and does not count yet; None where nothing is journaled.

    `counted` is told of the file once it is in place.
    """

    def __init__(
        self, file: PreparedFile | None, counted: Callable[[PreparedFile], None] | None = None
    ) -> None:
        self._file = file
        self._counted = counted
        self.counts = False

    def __enter__(self) -> PendingEntry:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and not self.counts:
            self._file.drop()

    def put(self) -> Path | None:
        """Let it count, and return the folder to flush. Raises CannotRunError."""
        if self._file is None:
            return None
        self._file.swap_in()
        self.counts = True
        if self._counted is not None:
            self._counted(self._file)
        return self._file.path.parent
