"""Opens the store of a state folder, whichever database has its rows.

A database is named by its place in the state folder, `<state>/tracker_events.db`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state_store.database.connections import looked_into
from state_store.database.store import EventStore
from state_store.sql.addresses import HaltRow, ServerFacts, address_of
from state_store.sql.connection import Connection


def open_store(database: str | Path) -> EventStore:
    """The store at this place; its database is created if it is missing."""
    address = address_of(Path(database).parent)
    if address is None:
        return EventStore(database)
    from state_store.postgres.store import PostgresStore  # noqa: PLC0415 - only with a url

    return PostgresStore(database, address)


def has_begun(database: Path) -> bool:
    """True if the store has a database. Creates none."""
    address = address_of(database.parent)
    if address is None:
        return database.exists()
    from state_store.postgres.store import is_there  # noqa: PLC0415 - only with a url

    return is_there(address)


def name_of(database: Path) -> str:
    """The place of the rows, for people."""
    address = address_of(database.parent)
    return str(database) if address is None else address.name.removesuffix(",")


def server_of(state_dir: Path) -> ServerFacts:
    """The facts about the server that has the rows. Raises CannotRunError."""
    from state_store.postgres.store import facts  # noqa: PLC0415 - only with a url

    address = address_of(state_dir)
    assert address
    return facts(address)


def halt_row(state_dir: Path) -> HaltRow | None:
    """The halt of all machines that share the rows of this folder's store. Raises CannotRunError if
    the server cannot be asked."""
    address = address_of(state_dir)
    if address is None:
        return None
    from state_store.postgres.store import halt_row as row_of  # noqa: PLC0415 - only with a url

    return row_of(address)


@contextmanager
def reading(database: Path) -> Iterator[tuple[Connection, int]]:
    """A connection that changes nothing, and the version of the tables. Raises as opening the store
    would."""
    address = address_of(database.parent)
    if address is None:
        with looked_into(database) as found:
            yield found
        return
    from state_store.postgres.store import read_only  # noqa: PLC0415 - only with a url

    with read_only(address) as found:
        yield found
