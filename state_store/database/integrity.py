"""Checks the store: links, gaps and payloads of events, items, publications, external anchors.
Reads only.

SQLite's own checks find neither a flipped bit in a row nor missing commits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from state_store.archives.chain import LINK, START, STREAM, TS, VERSION, row_hash
from state_store.archives.examination import bridges, examine_archives
from state_store.archives.reading import BadArchiveError, rows_of
from state_store.archives.segments import segment_with, segments_after
from state_store.database.event_rows import COLUMNS, Row, decode_rows
from state_store.database.kept_items import (
    Fold,
    Kept,
    blocks,
    every,
    fetch,
    replay,
)
from state_store.database.publications import damaged_rows
from state_store.documents.errors import CannotRunError
from state_store.documents.interpreter import collector_paused
from state_store.sql.connection import Archives, Connection, Readable
from state_store.values.lazy_dataclass import dataclass

ARCHIVE = "archive"  # a kind of problem
Head = tuple[int, str]  # version, link in hex
_BLOCK = 1000
_MANY = 20_000  # events, which take as long as some thousand streams
_MOST_PLACES = 400  # in one query: older versions of SQLite take 999 values


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of the store. `kind`: database, link, gap, payload, items, publications, anchor, or
    archive, whose number is `version`."""

    kind: str
    stream: str
    version: int
    why: str

    def __str__(self) -> str:
        where = f"stream {self.stream}, event {self.version}: " if self.stream else ""
        return f"{where}{self.why}"


def examine(database: Readable, folds: Mapping[str, Fold]) -> Iterator[Problem]:
    """Find every fault within the database and its archives."""
    connection, archives = database.reader(), database.archives
    for message in database.faults():
        yield Problem("database", "", 0, message)
    replayed: dict[str, dict[str, Kept]] = {stream: {} for stream in folds}
    with collector_paused():
        known = bridges(connection) if archives else {}
        yield from _check_events(connection, folds, replayed, known)
        for stream, expected in replayed.items():
            yield from _check_items(connection, stream, expected)
    for why in damaged_rows(connection):
        yield Problem("publications", "", 0, why)
    for number, why in examine_archives(connection, archives) if archives else ():
        yield Problem(ARCHIVE, "", number, why)


_LAST_EVENTS = (  # of each stream: the cost is per stream, not per event
    "WITH RECURSIVE streams(name) AS (SELECT MIN(stream) FROM events WHERE stream > '' "
    "UNION ALL SELECT (SELECT MIN(stream) FROM events WHERE stream > name) FROM streams "
    "WHERE name IS NOT NULL) "
    "SELECT stream, version, hash, id FROM streams CROSS JOIN events "
    "ON stream = name AND version = (SELECT MAX(version) FROM events WHERE stream = name)"
)


def heads(connection: Connection) -> dict[str, Head]:
    """The last version and link of each stream."""
    rows = connection.execute(_LAST_EVENTS)
    return {stream: (version, link.hex()) for stream, version, link, _ in rows}


def last_id(connection: Connection) -> int:
    """The id of the last event of all streams; 0 without events."""
    return connection.execute("SELECT MAX(id) FROM events").fetchone()[0] or 0


def streams_since(connection: Connection, after: int, prefix: str) -> list[str]:
    """The streams with this prefix that have events after an id."""
    if last_id(connection) - after > _MANY:
        names = [row[0] for row in connection.execute(_LAST_EVENTS) if row[3] > after]
    else:
        query = "SELECT DISTINCT stream FROM events NOT INDEXED WHERE id > ?"
        names = [name for (name,) in connection.execute(query, (after,))]
    return sorted(name for name in names if name.startswith(prefix))


def head(connection: Connection, stream: str) -> Head:
    """The last version and link of a stream; (0, "") without events."""
    row = connection.execute(
        "SELECT version, hash FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1",
        (stream,),
    ).fetchone()
    return (row[0], row[1].hex()) if row else (0, "")


def links_of(
    connection: Connection, places: Sequence[tuple[str, int]], archives: Archives | None
) -> dict[tuple[str, int], str]:
    """The links of events by stream and version, of archived ones as an anchor has them; a missing
    event has none."""
    found: dict[tuple[str, int], str] = {}
    for start in range(0, len(places), _MOST_PLACES):
        part = places[start : start + _MOST_PLACES]
        marks = ",".join(["(?,?)"] * len(part))
        query = (  # the order of a cross join makes SQLite look up each place in the index
            f"WITH asked(stream, version) AS (VALUES {marks}) SELECT e.stream, e.version, e.hash "
            "FROM asked a CROSS JOIN events e ON (e.stream, e.version) = (a.stream, a.version)"
        )
        values = [value for place in part for value in place]
        found |= {(row[0], row[1]): row[2].hex() for row in connection.execute(query, values)}
    for place in places if archives else ():
        if place not in found and (segment := segment_with(connection, *place)):
            found[place] = segment.link_at(place[1])
    return found


def links(connection: Connection, stream: str, archives: Archives | None) -> dict[int, str]:
    """The link of each event of a stream by version. Raises CannotRunError if an archive cannot be
    read."""
    found: dict[int, str] = {}
    segments = segments_after(connection, [stream], 0, by_id=False) if archives else ()
    try:
        for segment in segments:
            assert archives
            found |= {row[VERSION]: row[LINK].hex() for row in rows_of(segment, archives)}
    except BadArchiveError as error:
        raise CannotRunError(str(error)) from error
    query = "SELECT version, hash FROM events WHERE stream = ? ORDER BY version"
    return found | {version: link.hex() for version, link in fetch(connection, query, (stream,))}


def compare(
    connection: Connection, anchor: Mapping[str, Head], archives: Archives | None
) -> Iterator[Problem]:
    """Find heads of an earlier `anchor` that the database does not contain.

    A prefix of a link is enough.
    """
    for stream, (version, link) in sorted(anchor.items()):
        there = links_of(connection, [(stream, version)], archives).get((stream, version))
        if there is None and version > 0:
            last, _ = head(connection, stream)
            yield Problem("anchor", stream, version, f"it is lost; the last event is {last}")
        elif there is not None and not there.startswith(link[: len(there)]):
            yield Problem("anchor", stream, version, "it is not the recorded event")


def _check_events(
    connection: Connection,
    folds: Mapping[str, Fold],
    replayed: Mapping[str, dict[str, Kept]],
    links: Mapping[tuple[str, int], bytes],
) -> Iterator[Problem]:
    """Find faults of the events, and replay their items into `replayed`."""
    last: dict[str, tuple[int, bytes]] = {}
    found: list[Problem] = []

    def unreadable(row: Row, why: str) -> None:
        found.append(
            Problem("payload", row[STREAM], row[VERSION], f"its payload is no JSON: {why}")
        )

    query = f"SELECT {COLUMNS}, hash FROM events WHERE id > ? ORDER BY id LIMIT ?"
    for rows in blocks(connection, query, size=_BLOCK):
        for row in rows:
            stream, version, link = row[STREAM], row[VERSION], row[LINK]
            before, before_link = last.get(stream, (0, START))
            last[stream] = (version, link)
            if version != before + 1 and (stream, version) in links:  # the others were archived
                before, before_link = version - 1, links[stream, version]
            if version != before + 1:
                found.append(Problem("gap", stream, version, f"it follows event {before}"))
            elif row_hash(before_link, row[TS:LINK]) != link:
                found.append(Problem("link", stream, version, "it was changed after the write"))
        for row, payload in decode_rows(rows, unreadable):
            if fold := folds.get(row[STREAM]):
                replay(replayed[row[STREAM]], fold, row, payload)
        yield from found
        found.clear()


def _check_items(
    connection: Connection, stream: str, expected: dict[str, Kept]
) -> Iterator[Problem]:
    try:
        for key, kept in every(connection, stream):
            wanted = expected.pop(key, None)
            if kept != wanted:
                yield Problem("items", stream, kept.version, f"item {key} differs from its events")
    except (ValueError, sqlite3.OperationalError) as error:
        yield Problem("items", stream, 0, f"a kept item cannot be read: {error}")
    for key, wanted in expected.items():
        yield Problem("items", stream, wanted.version, f"item {key} is missing")
