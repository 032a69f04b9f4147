"""`Connection` runs statements, and `Connections` begins and ends transactions.

Each kind of database has its own. The tables' SQL is the part that SQLite and PostgreSQL have in
common, with `?` for values. What only one of them can do is behind these two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Rows(Protocol):
    """The result of a statement, as cursors of Python's databases give it."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were written."""

    @property
    def lastrowid(self) -> int | None:
        """The id of the row that was inserted last."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchmany(self, size: int = ..., /) -> list[Any]:
        """At most `size` further rows."""

    def fetchall(self) -> list[Any]:
        """All further rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements. A `sqlite3.Connection` is one."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows:
        """Run one statement with its values."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each of many rows."""


class Staged(Protocol):
    """The content of a new archive, which no segment names yet."""

    def keep(self, connection: Connection, number: int) -> Path | str:
        """Make it the archive of this number, in the open transaction, and return its place."""


class Archives(Protocol):
    """The archives of one database, wherever they lie."""

    def place(self, number: int) -> Path | str:
        """The place of an archive, for people."""

    def part(self, number: int, start: int, size: int) -> bytes | None:
        """Some bytes of an archive, fewer if it is shorter; None if it is missing. Raises
        OSError."""

    def size(self, number: int) -> int:
        """The bytes of an archive that is there."""

    def newest(self) -> int:
        """The number of the newest archive that is there; 0 without any."""

    def staged(self, body: bytes) -> AbstractContextManager[Staged]:
        """Store the content of a new archive; it is removed at the end unless it was kept."""


class Readable(Protocol):
    """A database whose rows can be checked."""

    def reader(self) -> Connection:
        """A connection for reading; inside a transaction of this thread the one that sees it."""

    @property
    def archives(self) -> Archives | None:
        """The archives of events; None if the tables have all events."""

    def faults(self) -> Iterable[str]:
        """The damage that the database itself finds in its files."""


class Connections(Readable, Protocol):
    """The connections of this process to one database, for all of its threads."""

    @property
    def version(self) -> int:
        """The version of the tables; an older one lacks what later versions added."""

    @property
    def is_writing(self) -> bool:
        """True if this thread has a transaction open."""

    @property
    def guesses_hold(self) -> bool:
        """False if another process may have written since this one's last commit, and a row that
        is there already would spoil the transaction."""

    @property
    def translated(self) -> AbstractContextManager[None]:
        """A block in which the database's errors become errors with a remedy. One block may be
        entered within another, and by several threads at once."""

    def begin(self) -> Connection:
        """Begin the one transaction that writes now; `end` must follow. Errors are not
        translated."""

    def end(self, *, good: bool) -> None:
        """Commit durably, or roll back. Errors are not translated."""

    def repeated(self, write: Callable[[], T]) -> T:
        """Do a write, and again while the database asks for that, a few times at most."""

    def next_token(self, connection: Connection, newest: int) -> int:
        """A token above all that were given out for a resource; `newest` is the last of them."""

    def wait(self, timeout_s: float) -> None:
        """Return after a commit of any process, or some time earlier or later; at the latest after
        `timeout_s`."""

    @property
    def is_sparse(self) -> bool:
        """True if much of the database's file has no content, which `compact` can give back."""

    def compact(self, *, whole: bool) -> int:
        """Give free pages back, and return their number; `whole` allows that all others wait."""

    def close(self) -> None:
        """Close every connection of this process. A later use opens new connections."""

    def start_in_child(self) -> None:
        """Prepare for use after a fork: keep the parent's connections untouched."""


@contextmanager
def writing(connections: Connections) -> Iterator[Connection]:
    """A transaction. Any error inside rolls it back.

    Entering raises StoreBusyError if another process does not end its write.
    """
    with connections.translated:
        connection = connections.begin()
        try:
            yield connection
        except BaseException:
            connections.end(good=False)
            raise
        connections.end(good=True)
