"""Whether what is stored is what was written: links, gaps, payloads, kept items, anchors outside.

Reads only. SQLite's own checks see neither a flipped bit in a row nor commits that are missing.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from state_store.event_rows import COLUMNS, START, Row, decode_rows, row_hash
from state_store.kept_items import Fold, every, fetch, replayed

Head = tuple[int, str]  # version, link in hex
Linked = tuple[int, float, str, str, str, str, int, bytes]  # a Row and its link
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `kind`: database, link, gap, payload, items or anchor."""

    kind: str
    stream: str
    version: int
    why: str

    def __str__(self) -> str:
        where = f"stream {self.stream}, event {self.version}: " if self.stream else ""
        return f"{where}{self.why}"


def examine(connection: sqlite3.Connection, folds: Mapping[str, Fold]) -> Iterator[Problem]:
    """Everything that is wrong with a database, by what it says about itself."""
    for (said,) in connection.execute("PRAGMA integrity_check").fetchall():
        if said != "ok":
            yield Problem("database", "", 0, said)
    yield from _check_events(connection)
    for stream, fold in folds.items():
        yield from _check_items(connection, stream, fold)


def heads(connection: sqlite3.Connection) -> dict[str, Head]:
    """The last version and link of each stream; the cost is per stream, not per event."""
    found: dict[str, Head] = {}
    stream = ""
    while row := connection.execute(
        "SELECT MIN(stream) FROM events WHERE stream > ?", (stream,)
    ).fetchone():
        stream = row[0]
        if stream is None:
            break
        found[stream] = head(connection, stream)
    return found


def head(connection: sqlite3.Connection, stream: str) -> Head:
    """The last version and link of a stream; (0, "") when it has no event."""
    row = connection.execute(
        "SELECT version, hash FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1",
        (stream,),
    ).fetchone()
    return (row[0], row[1].hex()) if row else (0, "")


def compare(connection: sqlite3.Connection, anchor: Mapping[str, Head]) -> Iterator[Problem]:
    """What an anchor (heads as they were once) says and the database does not hold (any more)."""
    for stream, (version, link) in sorted(anchor.items()):
        row = connection.execute(
            "SELECT hash FROM events WHERE stream = ? AND version = ?", (stream, version)
        ).fetchone()
        if row is None and version > 0:
            last, _ = head(connection, stream)
            yield Problem("anchor", stream, version, f"it is lost; the last one left is {last}")
        elif row is not None and row[0].hex() != link:
            yield Problem("anchor", stream, version, "it is another than the one that was recorded")


def _check_events(connection: sqlite3.Connection) -> Iterator[Problem]:
    last: dict[str, tuple[int, bytes]] = {}
    for rows in _all_rows(connection):
        for row in rows:
            yield from _check_link(row, last)
        yield from _check_payloads([row[:7] for row in rows])


def _check_link(row: Linked, last: dict[str, tuple[int, bytes]]) -> Iterator[Problem]:
    _, ts, actor, stream, kind, payload, version, link = row
    before, before_link = last.get(stream, (0, START))
    if version != before + 1:
        yield Problem("gap", stream, version, f"it follows event {before}")
    elif row_hash(before_link, (ts, actor, stream, kind, payload, version)) != link:
        yield Problem("link", stream, version, "it is not what was written")
    last[stream] = (version, link)


def _check_payloads(rows: list[Row]) -> list[Problem]:
    damaged: list[Problem] = []

    def unreadable(row: Row, why: str) -> None:
        damaged.append(Problem("payload", row[3], row[6], f"its payload is no JSON: {why}"))

    deque(decode_rows(rows, unreadable), maxlen=0)
    return damaged


def _named_already(_row: Row, _why: str) -> None:
    """Damaged payloads are found when the events are checked."""


def _check_items(connection: sqlite3.Connection, stream: str, fold: Fold) -> Iterator[Problem]:
    expected = replayed(connection, stream, fold, _named_already)
    try:
        for key, kept in every(connection, stream):
            wanted = expected.pop(key, None)
            if kept != wanted:
                yield Problem("items", stream, kept.version, f"item {key} is not as its events say")
    except (ValueError, sqlite3.OperationalError) as error:
        yield Problem("items", stream, 0, f"a kept item cannot be read: {error}")
    for key, wanted in expected.items():
        yield Problem("items", stream, wanted.version, f"item {key} is missing")


def _all_rows(connection: sqlite3.Connection) -> Iterator[list[Linked]]:
    after = 0
    while rows := fetch(
        connection,
        f"SELECT {COLUMNS}, hash FROM events WHERE id > ? ORDER BY id LIMIT {_BLOCK}",
        (after,),
    ):
        yield rows
        after = rows[-1][0]
