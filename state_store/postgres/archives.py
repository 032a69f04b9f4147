"""Archives in a table of the schema, so that every machine reads them.

A row has the compressed events of many streams. The server reads the part that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from state_store.sql.connection import Connection


class TableArchives:
    """The table `archives`. `reader` gives a connection to read it."""

    def __init__(self, reader: Callable[[], Connection]) -> None:
        self._reader = reader

    def place(self, number: int) -> str:
        """The row of an archive, for people."""
        return f"{number} of the table archives"

    def part(self, number: int, start: int, size: int) -> bytes | None:
        """Some bytes of an archive; None if it is missing."""
        query = "SELECT substring(body FROM ? FOR ?) FROM archives WHERE number = ?"
        row = self._reader().execute(query, (start + 1, size, number)).fetchone()
        return None if row is None else bytes(row[0])

    def size(self, number: int) -> int:
        """The bytes of an archive."""
        query = "SELECT length(body) FROM archives WHERE number = ?"
        found: int = self._reader().execute(query, (number,)).fetchone()[0]
        return found

    def newest(self) -> int:
        """The number of the newest archive; 0 without any."""
        query = "SELECT COALESCE(MAX(number), 0) FROM archives"
        found: int = self._reader().execute(query, ()).fetchone()[0]
        return found

    @contextmanager
    def staged(self, body: bytes) -> Iterator[_Staged]:
        """Hold the content until the transaction writes it."""
        yield _Staged(body, self)


class _Staged:
    def __init__(self, body: bytes, archives: TableArchives) -> None:
        self._body, self._archives = body, archives

    def keep(self, connection: Connection, number: int) -> str:
        """Write the row, in the open transaction."""
        connection.execute("INSERT INTO archives(number, body) VALUES(?, ?)", (number, self._body))
        return self._archives.place(number)
