"""`Speaker`: a connection of psycopg that runs the tables' SQL.

The differences are few: how values are marked, hints for SQLite's planner, and the ids of events,
which have to rise in the order of commits and so are no sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from state_store.database.schema import INSERT_EVENT
from state_store.database.spend import INSERT_USE

_NEW_EVENT = (
    "INSERT INTO events(id, ts, actor, stream, type, payload, version, hash) VALUES("
    "(SELECT COALESCE(MAX(id), 0) + 1 FROM events), ?,?,?,?,?,?,?)"
)
_HINT = re.compile(r" NOT INDEXED\b")
_JOIN = re.compile(r"\bCROSS JOIN (\w+(?: \w)?) ON\b")
_BYTES = re.compile(r"CAST\((\w+) AS BLOB\)")
_MARK = re.compile(r"\?(\d*)")


@lru_cache(maxsize=512)
def spoken(sql: str) -> str:
    """The statement as PostgreSQL reads it."""
    text = _NEW_EVENT if sql == INSERT_EVENT else sql
    text = _BYTES.sub(r"convert_to(\1, 'UTF8')", _JOIN.sub(r"JOIN \1 ON", _HINT.sub("", text)))
    numbers = count(1)
    return _MARK.sub(lambda mark: f"${mark[1] or next(numbers)}", text)


class PgRows:
    """The result of a statement."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        """The number of rows that were written."""
        found: int = self._cursor.rowcount
        return found

    @property
    def lastrowid(self) -> int | None:
        """The id that `RETURNING` gave; None after another statement."""
        if self._cursor.description is None:
            return None
        number: int = self._cursor.fetchone()[0]
        return number

    def fetchone(self) -> Any:
        """The next row, or None."""
        return self._cursor.fetchone()

    def fetchmany(self, size: int = 1, /) -> list[Any]:
        """At most `size` further rows."""
        return list(self._cursor.fetchmany(size))

    def fetchall(self) -> list[Any]:
        """All further rows."""
        return list(self._cursor.fetchall())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)


class Speaker:
    """Runs the tables' SQL on `raw`, a connection of psycopg."""

    __slots__ = ("_process", "last_id", "raw")

    def __init__(self, raw: Any) -> None:
        self.raw, self._process = raw, os.getpid()
        self.last_id: int | None = None  # of the events, as far as it is known

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PgRows:
        """Run one statement with its values."""
        if sql is INSERT_EVENT or sql == INSERT_EVENT:
            cursor = self.raw.execute(f"{spoken(sql)} RETURNING id", parameters)
            self.last_id = cursor.fetchone()[0]
            cursor.scroll(0, mode="absolute")
            return PgRows(cursor)
        if sql.startswith("INSERT INTO events"):
            self.last_id = None
        statement = f"{spoken(sql)} RETURNING id" if sql == INSERT_USE else spoken(sql)
        return PgRows(self.raw.execute(statement, parameters))

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        """Run one statement for each of many rows."""
        self.last_id = None
        with self.raw.cursor() as cursor:
            cursor.executemany(spoken(sql), parameters)

    def script(self, text: str) -> list[tuple[str, Any]]:
        """Run statements without values in one message; the tag and first row of each."""
        cursor, found = self.raw.execute(text, prepare=False), []
        while True:
            row = cursor.fetchone() if cursor.description is not None else None
            found.append((str(cursor.statusmessage), row))
            if not cursor.nextset():
                return found

    @property
    def is_usable(self) -> bool:
        """False once the connection was lost."""
        return not (self.raw.closed or self.raw.broken)

    def close(self) -> None:
        """Close the connection; it may be lost already."""
        self.raw.close()

    def __del__(self) -> None:
        if os.getpid() == self._process:  # in a child it is still the parent's
            self.close()


class Reader:
    """Runs each query on the connection that is free then."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[str, Sequence[Any]], PgRows]) -> None:
        self._read = read

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PgRows:
        """Run a query."""
        return self._read(sql, parameters)

    def executemany(self, sql: str, _: object, /) -> None:
        """Refuse to write outside of a transaction."""
        raise RuntimeError(f"no transaction is open for: {sql}")
