"""The tables of a store as data, for a copy into another kind of database.

Each table of either kind has to be named here, or the copy would leave it out unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from state_store.sql.connection import Connection

_BLOCK = 1_000
_BEFORE_ALL = -(2**62)


class Table(NamedTuple):
    """A table that is copied. Its rows are read in the order of `key`, their first column."""

    name: str
    key: str
    others: str
    has_words_as_keys: bool = False
    counts: bool = False  # the key comes from a sequence

    @property
    def columns(self) -> str:
        """All columns, as statements name them."""
        return f"{self.key}, {self.others}"


EVENTS = Table("events", "id", "ts, actor, stream, type, payload, version, hash")
SNAPSHOTS = Table("snapshots", "id", "ts, stream, event_version, projection, checksum", counts=True)
LEASES = Table(
    "leases", "resource", "token, holder, boot_id, expires_at, expires_wall, ttl", True
)  # fmt: skip
OTHERS = (
    Table("items", "position", "stream, id, json, version"),
    Table("item_blocks", "position", "stream, first, version, ids, fields"),
    LEASES,
    SNAPSHOTS,
    Table(
        "spend",
        "id",
        "stamp, day, wave, item, number, phase, backend, model, holder, since, until, "
        "reserved_tokens, reserved_usd, settled, tokens, usd, tokens_in, tokens_out, metered, "
        "priced, seconds, verdict, used_model, told",
        counts=True,
    ),
    Table(
        "publications",
        "id",
        "tip, repo, wave, branch, target, state, items, open, changed",
        counts=True,
    ),
)
LEFT_OUT = {
    "archived": "events of archives are copied as rows",
    "archives": "the same events, compressed",
    "commits": "keys of transactions that a process asks for within seconds",
    "halts": "a halt is set anew, as a row or as a file",
    "migrations": "each database has those of its own kind",
    "unshipped": "unshipped work, which is also in the state folder that made it",
    "outputs": "copies for other machines of files in state folders",
    "copying": "only there while a copy is under way",
    "sqlite_sequence": "SQLite counts by itself",
    "events.key": "a process asks for it within seconds",
}


def blocks_of(
    connection: Connection, table: Table, after: str | int | None = None
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table after a key, some at a time, in the order of their keys."""
    query = (
        f"SELECT {table.columns} FROM {table.name} WHERE {table.key} > ? "
        f"ORDER BY {table.key} LIMIT ?"
    )
    if after is None:
        after = "" if table.has_words_as_keys else _BEFORE_ALL
    while rows := connection.execute(query, (after, _BLOCK)).fetchall():
        yield rows
        after = rows[-1][0]


def count_of(connection: Connection, table: Table) -> int:
    """The number of its rows."""
    found: int = connection.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone()[0]
    return found
