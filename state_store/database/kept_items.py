"""The item table. The transaction that appends an event also updates its item.

The caller supplies the fold that applies an event to an item. Replays are for audits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from state_store.database import item_blocks
from state_store.database.event_rows import (
    COLUMNS,
    Event,
    Payload,
    Row,
    decode,
    decode_rows,
    encode,
    to_event,
    without_ids,
)
from state_store.documents.interpreter import collector_paused
from state_store.documents.item_id import id_of
from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import dataclass

Item = dict[str, Any]
_BLOCK = 250  # rows that fit into the processor's cache
_INSERT = "INSERT INTO items(position, stream, id, json, version) VALUES(?,?,?,?,?)"
MADE_FROM_ITEMS = "items:"  # and a stream: the snapshot of a view that was made from its items
_MERGES = None  # replaces the type of a merging event in rows read for a replay
_LAST = 2**63 - 1  # the last position
_UNLESS_MERGING = ", ".join(f"CASE WHEN type = ?1 THEN NULL ELSE {column} END" for column in
                            ("ts", "actor", "stream", "type"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fold:
    """The effect of events on items: `apply` returns the item after an event, or the same object.

    An event of type `merges` sets the fields of its payload in an existing item. An event of type
    `creates` makes its payload the item if there is none. A replay handles these two types without
    a call. An event of type `imports` has the items of a block, as if an event of type `creates`
    had made each.
    """

    apply: Callable[[Item | None, Mapping[str, Any]], Item | None]
    merges: str | None = None
    creates: str | None = None
    imports: str | None = None


@dataclass(slots=True)
class Kept:
    """An item with the id of its creating event and the version of its last change."""

    position: int
    version: int
    item: Item


def create(
    connection: Connection, stream: str, position: int, version: int, key: str, text: str
) -> bool:
    """Make the payload of a creating event the item with this id; False if there is one."""
    if item_blocks.holding(connection, stream, key):
        return False
    made = connection.execute(
        f"{_INSERT} ON CONFLICT(stream, id) DO NOTHING", (position, stream, key, text, version)
    )
    return bool(made.rowcount)


def create_all(
    connection: Connection,
    stream: str,
    position: int,
    version: int,
    payloads: Iterable[tuple[str, str]],
) -> None:
    """`create` for the ids and payloads of events that follow each other from here on."""
    rows = (
        (position + number, stream, key, text, version + number)
        for number, (key, text) in enumerate(payloads)
    )
    connection.executemany(_INSERT, rows)


def keep(connection: Connection, fold: Fold, event: Event, key: str) -> None:
    """Apply `event` to its item, whose id is `key`."""
    stream, version = event["stream"], event["version"]
    before, position = _with_row(connection, stream, key), event["id"]
    if before is None and (found := item_blocks.created(connection, stream, key)):
        position, before = found
    after = fold.apply(before, event)
    if after is None or after is before:
        return
    connection.execute(
        f"{_INSERT} ON CONFLICT(stream, id) "
        "DO UPDATE SET json = excluded.json, version = excluded.version",
        (position, stream, key, encode(after), version),
    )


def one(connection: Connection, stream: str, key: str) -> Item | None:
    """The item with this id, or None."""
    if (item := _with_row(connection, stream, key)) is not None:
        return item
    found = item_blocks.created(connection, stream, key)
    return found[1] if found else None


def _with_row(connection: Connection, stream: str, key: str) -> Item | None:
    row = connection.execute(
        "SELECT json FROM items WHERE stream = ? AND id = ?", (stream, key)
    ).fetchone()
    return decode(row[0]) if row else None


def every(connection: Connection, stream: str, version: int = 0) -> Iterator[tuple[str, Kept]]:
    """The items with their ids, in order of creation, without those whose last change was not after
    `version`. Raises ValueError for a damaged item."""
    after = -1
    for block in item_blocks.every(connection, stream, version):
        yield from _rows(connection, stream, version, (after, block.first))
        after = block.last
        places = (block.first - 1, block.last + 1)
        changed = {kept.position: kept for _, kept in _rows(connection, stream, version, places)}
        items = item_blocks.items_in(connection, block)
        for position, item in enumerate(items, start=block.first):
            yield item["id"], changed.get(position) or Kept(position, block.version, item)
    yield from _rows(connection, stream, version, (after, _LAST))


def _rows(
    connection: Connection, stream: str, version: int, between: tuple[int, int]
) -> Iterator[tuple[str, Kept]]:
    """The items that have rows, at the positions between two."""
    cursor = connection.execute(  # in the order of the table: an index would have to be sorted
        "SELECT id, position, version, json FROM items NOT INDEXED "
        "WHERE stream = ? AND version > ? AND position > ? AND position < ? ORDER BY position",
        (stream, version, *between),
    )
    while rows := cursor.fetchmany(_BLOCK):
        items = decode(f"[{','.join([row[3] for row in rows])}]")
        for (key, position, version, _), item in zip(rows, items, strict=True):
            yield key, Kept(position, version, item)


def having(connection: Connection, stream: str, field: str, value: Any = None) -> list[Item]:
    """The items with a field, in order of creation; None stands for any value. Only those whose
    text has the field are decoded."""
    text = f"{encode(field)}:" + ("" if value is None else encode(value))
    rows = connection.execute(
        "SELECT position, json FROM items NOT INDEXED WHERE stream = ? AND instr(json, ?) > 0",
        (stream, text),
    )
    found = {position: decode(item) for position, item in rows}
    for block in item_blocks.having(connection, stream, field):
        found |= _unchanged(connection, stream, block)
    items = (found[position] for position in sorted(found))
    return [item for item in items if field in item and value in (None, item[field])]


def _unchanged(connection: Connection, stream: str, block: item_blocks.Block) -> dict[int, Item]:
    """The items of a block that have no row, by position."""
    rows = connection.execute(
        "SELECT position FROM items NOT INDEXED WHERE stream = ? AND position BETWEEN ? AND ?",
        (stream, block.first, block.last),
    )
    changed = {position for (position,) in rows}
    items = enumerate(item_blocks.items_in(connection, block), start=block.first)
    return {position: item for position, item in items if position not in changed}


def changed_since(connection: Connection, stream: str, version: int) -> Iterator[tuple[int, Item]]:
    """The items of events after a version, each with its position in the order of creation."""

    def rows(after: int, before: int) -> Iterator[tuple[int, Item]]:
        found = _rows(connection, stream, version, (after, before))
        return ((kept.position, kept.item) for _, kept in found)

    after = -1
    for block in item_blocks.every(connection, stream, version):
        yield from rows(after, block.first)
        after, changed = block.last, dict(rows(block.first - 1, block.last + 1))
        items = enumerate(item_blocks.items_in(connection, block), start=block.first)
        yield from ((at, changed.get(at, item)) for at, item in items) if changed else items
    yield from rows(after, _LAST)


def replayed(
    connection: Connection,
    stream: str,
    fold: Fold,
    unreadable: Callable[[Row, str], None],
) -> dict[str, Kept]:
    """The items computed from the events alone.

    Reads only id, payload and version of events of type `fold.merges`, because objects of the other
    columns take longer than reading them. `_whole` adds them if needed.
    """
    query = (  # a table scan, because the index would look up each row
        f"SELECT id, {_UNLESS_MERGING}, payload, version FROM events NOT INDEXED "
        "WHERE stream = ?2 AND id > ?3 ORDER BY id LIMIT ?4"
    )
    found: dict[str, Kept] = {}
    with collector_paused():
        for rows in blocks(connection, query, (fold.merges, stream)):
            if (alike := without_ids([row[5] for row in rows])) is not None:
                _replay_block(found, fold, zip(rows, *alike, strict=True), connection)
                continue
            for row, payload in decode_rows(
                rows, lambda row, why: unreadable(_whole(connection, row), why)
            ):
                replay(found, fold, _whole(connection, row), payload)
    return found


def _replay_block(
    found: dict[str, Kept],
    fold: Fold,
    rows: Iterable[tuple[Row, str, Payload]],
    connection: Connection,
) -> None:
    """Apply rows with their item's id and the other fields of their payload.

    Runs a million times, so it handles `fold.merges` and `fold.creates` without calls.
    """
    for row, name, payload in rows:
        kept = found.get(name)
        if kept is None and row[4] == fold.creates and name.strip():
            found[name] = Kept(row[0], row[6], {"id": name, **payload})
            continue
        if kept is None or row[4] is not _MERGES:
            replay(found, fold, _whole(connection, row), {"id": name, **payload})
            continue
        item, kept.version = kept.item, row[6]
        item.update(payload)
        if type(item["id"]) is not str:
            item["id"] = name


def replay(found: dict[str, Kept], fold: Fold, row: Row, payload: Any) -> None:
    """Apply one event to its item in `found`, or to its items."""
    if row[4] is not None and row[4] == fold.imports:
        for position, item in item_blocks.expanded(payload, row[0]):
            replay(found, fold, (position, *row[1:4], fold.creates, None, row[6]), item)
        return
    key = id_of(payload) if isinstance(payload, dict) else None
    if key is None:
        return
    kept = found.get(key)
    if kept is None:
        if (made := fold.apply(None, to_event(row, payload))) is not None:
            found[key] = Kept(row[0], row[6], made)
        return
    after = fold.apply(kept.item, to_event(row, payload))
    if after is not None and after is not kept.item:
        kept.item, kept.version = after, row[6]


def replace_all(connection: Connection, stream: str, items: Mapping[str, Kept]) -> None:
    """Replace the item table by `items`. Writes only changed items. A view that was made from the
    damaged ones goes too."""
    connection.execute("DELETE FROM snapshots WHERE stream = ?", (f"{MADE_FROM_ITEMS}{stream}",))
    item_blocks.remove_all(connection, stream)
    same: set[str] = set()
    stale: list[tuple[int]] = []
    rows = connection.execute(  # as bytes, because a row with a flipped bit must be replaced too
        "SELECT position, CAST(id AS BLOB), CAST(json AS BLOB), version FROM items NOT INDEXED "
        "WHERE stream = ?",
        (stream,),
    )
    for position, raw, text, version in rows:
        key = raw.decode("utf-8", "surrogateescape")
        kept = items.get(key)
        if (
            kept is not None
            and (kept.position, kept.version) == (position, version)
            and encode(kept.item).encode("ascii") == text
        ):
            same.add(key)
        else:
            stale.append((position,))
    connection.executemany("DELETE FROM items WHERE position = ?", stale)
    connection.executemany(
        _INSERT,
        (
            (kept.position, stream, key, encode(kept.item), kept.version)
            for key, kept in items.items()
            if key not in same
        ),
    )


def blocks(
    connection: Connection,
    query: str,
    values: tuple[Any, ...] = (),
    after: int = 0,
    column: int = 0,
    size: int = _BLOCK,
) -> Iterator[list[Row]]:
    """The rows of a query, `size` at a time, without an open read in between.

    The query must be ordered by `column`. Its last two parameters are the lower bound of that
    column, at first `after`, and the number of rows.
    """
    while rows := fetch(connection, query, (*values, after, size)):
        yield rows
        after = rows[-1][column]


def fetch(connection: Connection, query: str, values: tuple[Any, ...]) -> list[Any]:
    """All rows of a query. Replaces bytes that are not UTF-8 (flipped bits)."""
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if hasattr(error, "sqlite_errorcode"):  # SQLite's errors; decoding errors have none
            raise
    assert isinstance(connection, sqlite3.Connection)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.text_factory = str


def _whole(connection: Connection, row: Row) -> Row:
    if row[4] is not _MERGES:
        return row
    [whole] = fetch(connection, f"SELECT {COLUMNS} FROM events WHERE id = ?", (row[0],))
    return tuple(whole)
