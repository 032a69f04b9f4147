"""The row that halts all machines.

Its statements need no turn of a writer. They name the schema, because a pooler may give them to
the session of another project.
"""

from __future__ import annotations

import secrets

from state_store.postgres.driver import driver
from state_store.sql.addresses import HaltRow
from state_store.sql.connection import Connection

_PUT = (
    'INSERT INTO "{}".halts VALUES(1, ?, ?, ?, extract(epoch FROM clock_timestamp())::float8) '
    "ON CONFLICT(number) DO UPDATE SET key = excluded.key, reason = excluded.reason, "
    "made_by = excluded.made_by, since = excluded.since RETURNING key, reason, made_by, since"
)


def row(connection: Connection, schema: str) -> HaltRow | None:
    """The halt, if it is set."""
    try:
        asked = f'SELECT key, reason, made_by, since FROM "{schema}".halts'
        found = connection.execute(asked).fetchone()
    except driver().errors.UndefinedTable:  # of an older version, which had no such halt
        return None
    return HaltRow(*found) if found else None


def put(connection: Connection, schema: str, reason: str, by: str) -> HaltRow:
    """Set the halt."""
    text = reason.replace("\0", "")  # which PostgreSQL stores in no text
    return HaltRow(
        *connection.execute(_PUT.format(schema), (secrets.token_hex(8), text, by)).fetchone()
    )


def drop(connection: Connection, schema: str) -> bool:
    """End the halt; False if there was none."""
    return connection.execute(f'DELETE FROM "{schema}".halts').rowcount > 0
