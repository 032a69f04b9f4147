"""Blocks of items: one event creates some hundred items, and the item table has no rows for them.

A long tracker is taken in by some hundred events instead of one for each item. The event has the
items' JSON, compressed. A row of `item_blocks` names the event, and an item gets a row of its own
with its first change. Each item has a position as if an event of its own had created it: the
event's id leaves room for them, and is the position of the last.
"""

from __future__ import annotations

import base64
import binascii
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from state_store.database.event_rows import decode, encode
from state_store.documents.item_id import all_plain, id_of
from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import dataclass

Item = dict[str, Any]
_END = "\n"  # which no JSON text without layout has
_ID = "id"
_IDS, _FIELDS, _ITEMS = "ids", "fields", "items"


@dataclass(frozen=True, slots=True)
class Block:
    """The block with the positions from `first` to `last`. Its event has the id `last`."""

    first: int
    last: int
    version: int


def packed(ids: Sequence[str], fields: Iterable[str], text: bytes) -> dict[str, Any]:
    """The payload for items with these ids, which all differ. `fields` are the names of all their
    fields, `text` is their JSON list."""
    body = base64.b64encode(zlib.compress(text, 1)).decode("ascii")
    return {_IDS: list(ids), _FIELDS: sorted(fields), _ITEMS: body}


def ids_of(payload: Any) -> list[str] | None:
    """The ids in a payload of `packed`; None for any other."""
    ids = payload.get(_IDS) if isinstance(payload, dict) else None
    if not isinstance(ids, list) or set(map(type, ids)) != {str} or len(set(ids)) < len(ids):
        return None
    named = ({_ID: name} for name in ids)
    return ids if all_plain(ids) or None not in map(id_of, named) else None


def items_of(payload: Any) -> list[Item]:
    """The items in a payload of `packed`, their ids as texts; none if it is not one."""
    ids = ids_of(payload)
    try:
        items = [] if ids is None else decode(_text_of(payload))
    except (ValueError, TypeError, RecursionError):
        return []
    if ids is None or not isinstance(items, list) or len(items) != len(ids):
        return []
    if any(type(item) is not dict for item in items):
        return []
    if [item.get(_ID) for item in items] != ids:
        if list(map(id_of, items)) != ids:
            return []
        for name, item in zip(ids, items, strict=True):
            item[_ID] = name
    return items


def _text_of(payload: Mapping[str, Any]) -> str:
    """Raises ValueError for a damaged payload."""
    try:
        return zlib.decompress(base64.b64decode(payload[_ITEMS], validate=True)).decode()
    except (binascii.Error, zlib.error) as error:
        raise ValueError(str(error)) from error


def add(connection: Connection, stream: str, last: int, version: int, payload: Any) -> None:
    """Make the items of an event with this id and payload a block."""
    ids, fields = payload[_IDS], payload.get(_FIELDS)
    if not isinstance(fields, list):
        fields = set().union(*items_of(payload))
    connection.execute(
        "INSERT INTO item_blocks(position, stream, first, version, ids, fields) "
        "VALUES(?,?,?,?,?,?)",
        (last, stream, last - len(ids) + 1, version, _lines(ids), _lines(fields)),
    )


def remove_all(connection: Connection, stream: str) -> None:
    """Forget the blocks of a stream, whose items must get rows."""
    connection.execute("DELETE FROM item_blocks WHERE stream = ?", (stream,))


def every(connection: Connection, stream: str, after: int = 0) -> list[Block]:
    """The blocks with a version after `after`, in order. A store that no program of this version
    has written to has none."""
    return _blocks(connection, "stream = ? AND version > ? ORDER BY position", (stream, after))


def holding(connection: Connection, stream: str, key: str) -> Block | None:
    """The block with the item of this id, if there is one."""
    where = "stream = ? AND instr(ids, ?) > 0 LIMIT 1"
    found = _blocks(connection, where, (stream, _lines([key])))
    return found[0] if found else None


def having(connection: Connection, stream: str, field: str) -> list[Block]:
    """The blocks that have items with this field."""
    where = "stream = ? AND instr(fields, ?) > 0 ORDER BY position"
    return _blocks(connection, where, (stream, _lines([field])))


def all_ids(connection: Connection, stream: str) -> set[str]:
    """The ids of all items of a stream, in blocks or not."""
    rows = connection.execute("SELECT id FROM items WHERE stream = ?", (stream,))
    found = {key for (key,) in rows}
    for (lines,) in connection.execute("SELECT ids FROM item_blocks WHERE stream = ?", (stream,)):
        found.update(decode(f"[{lines.strip(_END).replace(_END, ',')}]"))
    return found


def _decoded(payload: str) -> list[Item]:
    return items_of(decode(payload))


_decoded_before = lru_cache(maxsize=2)(_decoded)  # for changes of neighbours, one by one


def items_in(
    connection: Connection, block: Block, decoded: Callable[[str], list[Item]] = _decoded
) -> list[Item]:
    """The items of a block as they were created. Raises ValueError if they are damaged."""
    row = connection.execute("SELECT payload FROM events WHERE id = ?", (block.last,)).fetchone()
    items = decoded(row[0] if row else "null")
    if len(items) != block.last - block.first + 1:
        raise ValueError(f"the items of event {block.version} are damaged")
    return items


def created(connection: Connection, stream: str, key: str) -> tuple[int, Item] | None:
    """The position and the item of this id in a block, as it was created."""
    block = holding(connection, stream, key)
    items = items_in(connection, block, _decoded_before) if block else []
    found = (n for n, item in enumerate(items) if item[_ID] == key)
    if block is None or (number := next(found, None)) is None:
        return None
    return block.first + number, deepcopy(items[number])


def expanded(payload: Any, last: int) -> Iterator[tuple[int, Item]]:
    """The items of an event with this id, each with its position."""
    items = items_of(payload)
    return zip(range(last - len(items) + 1, last + 1), items, strict=True)


def _blocks(connection: Connection, where: str, given: tuple[Any, ...]) -> list[Block]:
    query = f"SELECT first, position, version FROM item_blocks WHERE {where}"
    try:
        return [Block(*row) for row in connection.execute(query, given)]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise


def _lines(names: Iterable[str]) -> str:
    # No text has a quote without a backslash, so this splits between the names only.
    listed = encode(list(names))[1:-1].replace('","', f'"{_END}"')
    return f"{_END}{listed}{_END}"
