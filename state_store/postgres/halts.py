"""The row that halts all machines. Its statements need no turn of a writer."""

from __future__ import annotations

import secrets

from state_store.postgres.driver import driver
from state_store.sql.addresses import HaltRow
from state_store.sql.connection import Connection

_PUT = (
    "INSERT INTO halts VALUES(1, ?, ?, ?, extract(epoch FROM clock_timestamp())::float8) "
    "ON CONFLICT(number) DO UPDATE SET key = excluded.key, reason = excluded.reason, "
    "made_by = excluded.made_by, since = excluded.since RETURNING key, reason, made_by, since"
)


def row(connection: Connection) -> HaltRow | None:
    """The halt, if it is set."""
    try:
        found = connection.execute("SELECT key, reason, made_by, since FROM halts").fetchone()
    except driver().errors.UndefinedTable:  # of an older version, which had no such halt
        return None
    return HaltRow(*found) if found else None


def put(connection: Connection, reason: str, by: str) -> HaltRow:
    """Set the halt."""
    text = reason.replace("\0", "")  # which PostgreSQL stores in no text
    return HaltRow(*connection.execute(_PUT, (secrets.token_hex(8), text, by)).fetchone())


def drop(connection: Connection) -> bool:
    """End the halt; False if there was none."""
    return connection.execute("DELETE FROM halts").rowcount > 0
