"""The items people look at, kept by the transaction that appends the event that changes them.

Knows no item: what an event does to one is a fold that is handed in. Replaying is for audits.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from state_store.event_rows import COLUMNS, Event, Row, decode, decode_rows, encode, to_event
from state_store.item_id import id_of

Fold = Callable[[dict[str, Any] | None, Mapping[str, Any]], dict[str, Any] | None]
_BLOCK = 1000


@dataclass(slots=True)
class Kept:
    """One item: the event that made it, the version that changed it last, and itself."""

    position: int
    version: int
    item: dict[str, Any]


def keep(connection: sqlite3.Connection, fold: Fold, event: Event) -> None:
    """Bring the item that `event` is about up to date."""
    key = _key(event["payload"])
    if key is None:
        return
    stream, version = event["stream"], event["version"]
    row = connection.execute(
        "SELECT json FROM items WHERE stream = ? AND id = ?", (stream, key)
    ).fetchone()
    before = decode(row[0]) if row else None
    after = fold(before, event)
    if after is None or after is before:
        return
    connection.execute(
        "INSERT INTO items(position, stream, id, json, version) VALUES(?,?,?,?,?) "
        "ON CONFLICT(stream, id) DO UPDATE SET json = excluded.json, version = excluded.version",
        (event["id"], stream, key, encode(after), version),
    )


def one(connection: sqlite3.Connection, stream: str, key: str) -> Kept | None:
    """The item of that id."""
    row = connection.execute(
        "SELECT position, version, json FROM items WHERE stream = ? AND id = ?", (stream, key)
    ).fetchone()
    return Kept(row[0], row[1], decode(row[2])) if row else None


def every(connection: sqlite3.Connection, stream: str) -> Iterator[tuple[str, Kept]]:
    """All items in the order they were first seen, with their ids. ValueError: one is damaged."""
    cursor = connection.execute(  # in the order of the table: an index would have to be sorted
        "SELECT id, position, version, json FROM items NOT INDEXED WHERE stream = ? "
        "ORDER BY position",
        (stream,),
    )
    while rows := cursor.fetchmany(_BLOCK):
        items = decode(f"[{','.join([row[3] for row in rows])}]")
        for (key, position, version, _), item in zip(rows, items, strict=True):
            yield key, Kept(position, version, item)


def replayed(
    connection: sqlite3.Connection,
    stream: str,
    fold: Fold,
    unreadable: Callable[[Row, str], None],
) -> dict[str, Kept]:
    """The items as the events alone give them."""
    found: dict[str, Kept] = {}
    with collector_paused():
        for rows in _in_written_order(connection, stream):
            for row, payload in decode_rows(rows, unreadable):
                replay(found, fold, row, payload)
    return found


def replay(found: dict[str, Kept], fold: Fold, row: Row, payload: Any) -> None:
    """Let one event change the item it is about among those found so far."""
    key = id_of(payload) if isinstance(payload, dict) else None
    if key is None:
        return
    kept = found.get(key)
    if kept is None:
        if (made := fold(None, to_event(row, payload))) is not None:
            found[key] = Kept(row[0], row[6], made)
        return
    after = fold(kept.item, to_event(row, payload))
    if after is not None and after is not kept.item:
        kept.item, kept.version = after, row[6]


def replace_all(connection: sqlite3.Connection, stream: str, items: Mapping[str, Kept]) -> None:
    """Make the kept items these."""
    connection.execute("DELETE FROM items WHERE stream = ?", (stream,))
    connection.executemany(
        "INSERT INTO items(position, stream, id, json, version) VALUES(?,?,?,?,?)",
        (
            (kept.position, stream, key, encode(kept.item), kept.version)
            for key, kept in items.items()
        ),
    )


def blocks(connection: sqlite3.Connection, stream: str, after: int = 0) -> Iterator[list[Row]]:
    """The rows of a stream beyond a version, a thousand at a time; holds no read open between."""
    while True:
        rows = fetch(
            connection,
            f"SELECT {COLUMNS} FROM events WHERE stream = ? AND version > ? "
            f"ORDER BY version LIMIT {_BLOCK}",
            (stream, after),
        )
        if not rows:
            return
        yield rows
        after = rows[-1][6]


def fetch(connection: sqlite3.Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    """All rows of a query; text that is no UTF-8 (a flipped bit) comes with replacements."""
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if hasattr(error, "sqlite_errorcode"):  # SQLite's own; decoding is Python's
            raise
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.text_factory = str


def _in_written_order(connection: sqlite3.Connection, stream: str) -> Iterator[list[Row]]:
    query = (  # through the table: by way of the index each row would be looked up
        f"SELECT {COLUMNS} FROM events NOT INDEXED WHERE id > ? AND stream = ? "
        f"ORDER BY id LIMIT {_BLOCK}"
    )
    after = 0
    while rows := fetch(connection, query, (after, stream)):
        yield rows
        after = rows[-1][0]


@contextmanager
def collector_paused() -> Iterator[None]:
    """A replay makes millions of objects and no cycle; looking for some is a third of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _key(payload: object) -> str | None:
    return id_of(payload) if isinstance(payload, dict) else None
