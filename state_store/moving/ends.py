"""`Source` and `Target` are what a copy asks of the two databases.

The files of this package implement them for SQLite; `state_store/postgres/ends.py` for a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from state_store.documents.clock import Instant
from state_store.sql.connection import Readable
from state_store.sql.tables import Table


class End(Readable, Protocol):
    """An end of a copy."""

    @property
    def name(self) -> str:
        """The database for people, without a password."""

    @property
    def state_dir(self) -> Path | None:
        """The state folder that has the database; None for a server."""

    @property
    def translated(self) -> AbstractContextManager[None]:
        """A block in which the database's errors become errors with a remedy."""

    def has(self, table: Table) -> bool:
        """True if the database has this table; one of an older version may lack some."""

    def now(self) -> Instant:
        """The time by which its leases end."""

    def close(self) -> None:
        """Close the connections."""


class Source(End, Protocol):
    """A store at one moment: later writes are not seen."""

    def renewed(self) -> None:
        """See what was written until now."""

    def halt_reason(self) -> str | None:
        """The reason of its halt; None if it is not halted."""


class Target(End, Protocol):
    """A store that is filled, out of sight of all other programs until its end."""

    @property
    def is_begun(self) -> bool:
        """True if an earlier copy left its part."""

    @property
    def has_rows(self) -> bool:
        """True if other programs see a store with rows there."""

    def begin(self) -> None:
        """Make the tables, out of sight, or go on with those of an earlier copy. Raises
        StoreBusyError if another copy is at work there."""

    def start_over(self) -> None:
        """Empty all tables that were begun."""

    def transaction(self) -> AbstractContextManager[None]:
        """A block that is committed durably at its end."""

    def clear(self, table: Table) -> None:
        """Delete the rows of a table that an earlier copy left."""

    def put(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""

    def count_on(self, tables: Sequence[Table], token: int) -> None:
        """Let all sequences go on after the rows that are there, tokens after `token`."""

    def put_halt(self, reason: str) -> None:
        """Halt the runs of the new store."""

    def finish(self) -> None:
        """Show the store to all programs, at once and whole."""
