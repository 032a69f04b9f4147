"""Archives old events: puts them into a file beside the database, and deletes them there.

An archive is written and flushed first. One transaction then gives it its number and name, records
it as an event, and deletes what it has. A process may be killed at any point, and several may
archive at once: an event is never in neither place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from state_store.archives.chain import LINK, START, STREAM, VERSION, are_linked
from state_store.archives.members import Row, encoded, split
from state_store.archives.segments import (
    FOLDER,
    Segment,
    all_segments,
    archive_path,
    archives_in,
    last_archived,
    newest_archive,
    note,
    put,
    segment_with,
)
from state_store.database.connections import FEW_PAGES, looked_into
from state_store.database.event_rows import COLUMNS
from state_store.database.events import (
    AGENT_TRACES,
    ARCHIVES,
    ORCHESTRATOR_STATUS,
    WAVE_PREFIX,
    WAVES_ARCHIVED,
)
from state_store.database.kept_items import fetch
from state_store.database.schema import ARCHIVES_SINCE, INSERT_EVENT_AT
from state_store.database.store import EventStore
from state_store.documents.errors import InputError
from state_store.documents.files import read_bytes, remove_file
from state_store.documents.journal import stored_slug
from state_store.place import reading
from state_store.sql.addresses import address_of
from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import dataclass
from state_store.views.anchors import LINK_CHARS, Anchor

ACTOR = "gc"
_MOST = 4 * 2**20  # bytes of payloads in an archive: others wait while it is noted
_LEAST = 2**16  # less is left to a later time, as an archive is a file
# The newest events of these stay whatever their age, because each cycle reads them.
_KEPT = {AGENT_TRACES: 3_000, ORCHESTRATOR_STATUS: 500, "claims": 2_000}
_LARGEST = 2**30  # bytes of a file


@dataclass(frozen=True, slots=True)
class Part:
    """Events of a stream that may be archived."""

    stream: str
    first: int
    last: int
    size: int


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive that was written. `streams` and `events` count what it has."""

    path: Path | str
    streams: int
    events: int


@dataclass(frozen=True, slots=True)
class Old:
    """The old parts of a database, archives that it does not name, and whether much of its file has
    no content."""

    parts: tuple[Part, ...]
    unnoted: tuple[Path, ...]
    is_sparse: bool


def look_for_old(database: Path, before: float, live: Collection[str]) -> Old:
    """Find what is old, by a look that changes no file. Raises as opening the store would."""
    if address_of(database.parent) is not None:
        with reading(database) as (connection, version):
            parts = list[Part]()
            if version >= ARCHIVES_SINCE:  # else the next run makes the tables
                parts = _old_parts(connection, before, live, has_archives=True)
            return Old(tuple(parts), (), is_sparse=False)
    # Without a run nobody writes, and the newest events are not old.
    with looked_into(database, without_log=not live) as (connection, version):
        has_archives = version >= ARCHIVES_SINCE
        parts = _old_parts(connection, before, live, has_archives=has_archives)
        spare = _unnoted(connection, database.parent) if has_archives else ()
        query = "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
        pages, free = connection.execute(query).fetchone()
        return Old(tuple(parts), tuple(spare), is_sparse=free > max(pages // 4, FEW_PAGES))


def missing_archives(database: Path) -> list[Path]:
    """The archives of a database that are not there, or not of their size, by a look that changes
    nothing."""
    sizes: dict[int, int] = {}
    with looked_into(database) as (connection, version):
        for one in all_segments(connection) if version >= ARCHIVES_SINCE else ():
            sizes[one.archive] = sizes.get(one.archive, 0) + one.size
    there = archives_in(database.parent)
    return [
        archive_path(database.parent, number)
        for number, size in sorted(sizes.items())
        if number not in there or there[number].stat().st_size != size
    ]


def _old_parts(
    connection: Connection, before: float, live: Collection[str], *, has_archives: bool
) -> list[Part]:
    """The events that are older than a time: whole streams of waves that are not `live`, which are
    names of folders, and the beginnings of other long streams. No item is computed from them."""
    query = (
        "SELECT stream, MAX(version), MAX(ts), SUM(LENGTH(payload)) FROM events "
        "WHERE stream >= ? AND stream < ? GROUP BY stream HAVING COUNT(*) > 1 ORDER BY MIN(id)"
    )
    found = [
        Part(stream, 1 + (last_archived(connection, stream) if has_archives else 0), last, size)
        for stream, last, newest, size in fetch(connection, query, (WAVE_PREFIX, "wave;"))
        if newest < before and stored_slug(stream.removeprefix(WAVE_PREFIX)) not in live
    ]
    for stream, kept in _KEPT.items():
        archived = last_archived(connection, stream) if has_archives else 0
        found += _beginning(connection, stream, before, kept, archived)
    return found if sum(part.size for part in found) >= _LEAST else []


def _beginning(
    connection: Connection, stream: str, before: float, kept: int, archived: int
) -> Iterator[Part]:
    """The events of a stream before the first that is not old, in parts."""
    query = (
        "SELECT version, LENGTH(payload) FROM events WHERE stream = ?1 AND version > ?4 "
        "AND version <= (SELECT MAX(version) FROM events WHERE stream = ?1) - ?2 "
        "AND version < COALESCE((SELECT MIN(version) FROM events WHERE stream = ?1 AND ts >= ?3), "
        "4611686018427387904) ORDER BY version"
    )
    first = version = size = 0
    for version, length in connection.execute(query, (stream, kept, before, archived)).fetchall():
        first, size = first or version, size + length
        if size >= _MOST:
            yield Part(stream, first, version, size)
            first = size = 0
    if first:
        yield Part(stream, first, version, size)


def archive(store: EventStore, parts: Sequence[Part]) -> Iterator[Archived]:
    """Archive the parts, some in each file. Raises CannotRunError, and then leaves out the rest.

    A part with an event that is damaged, or that is not ours, stays in the database.
    """
    if store.connections.archives is None:
        with store.transaction():
            pass  # a file of an earlier version gets the table with the first write
    while parts:
        size = count = 0
        while count < len(parts) and size < _MOST:
            size, count = size + parts[count].size, count + 1
        if done := _archived(store, parts[:count]):
            yield done
        parts = parts[count:]


def _archived(store: EventStore, parts: Sequence[Part]) -> Archived | None:
    """Write an archive. None if nothing can be archived, or another process was faster."""
    members: list[tuple[list[Row], bytes, bytes]] = []
    for part in parts:
        with store.connections.translated:
            rows, root = _rows(store.connections.reader(), part)
        with suppress(ValueError):  # else it stays
            members.append((rows, root, _encoded(part, rows, root)))
    archives = store.connections.archives
    body = b"".join(member for _, _, member in members)
    if not body or archives is None:
        return None
    with archives.staged(body) as staged, store.transaction() as transaction:
        number = max(newest_archive(transaction.connection), archives.newest()) + 1
        segments, start = list[Segment](), 0
        for rows, root, member in members:
            segments.append(Segment.of(rows, root, number, start, len(member)))
            start += len(member)
        if not note(transaction.connection, segments):
            return None
        described = _described(archives.place(number), segments)
        transaction.append(ARCHIVES, WAVES_ARCHIVED, described, ACTOR)
        place = staged.keep(transaction.connection, number)
        transaction.flush_at_end(place.parent if isinstance(place, Path) else None)
    return Archived(place, len(segments), sum(len(rows) for rows, _, _ in members))


def _rows(connection: Connection, part: Part) -> tuple[list[Row], bytes]:
    """The events of a part, and the link before the first."""
    query = (
        f"SELECT {COLUMNS}, hash FROM events WHERE stream = ? AND version BETWEEN ? AND ? "
        "ORDER BY version"
    )
    rows = fetch(connection, query, (part.stream, max(part.first - 1, 1), part.last))
    if part.first == 1:
        return rows, START
    if rows and rows[0][VERSION] == part.first - 1:
        return rows[1:], rows[0][LINK]
    before = segment_with(connection, part.stream, part.first - 1)
    return rows, before.link if before else START


def _encoded(part: Part, rows: Sequence[Row], root: bytes) -> bytes:
    """The member of a part. Raises ValueError if its events are not those that were written."""
    if [row[VERSION] for row in rows] != [*range(part.first, part.last + 1)] or not are_linked(
        rows, root
    ):
        raise ValueError("an event is missing or was changed")
    return encoded(rows)


def _described(place: Path | str, segments: Sequence[Segment]) -> dict[str, Any]:
    """The payload of the event, with the anchor of each stream's newest event."""
    heads = [str(Anchor.of(one.stream, (one.last, one.link.hex()))) for one in segments]
    file = f"{FOLDER}/{place.name}" if isinstance(place, Path) else place
    return {"file": file, "heads": heads}


def has_free_pages(store: EventStore) -> bool:
    """True if more than a quarter of the database's file has no content."""
    with store.connections.translated:
        return store.connections.is_sparse


def unnoted(store: EventStore) -> list[Path]:
    """Archives that no segment names: their process was killed, or the database is an older
    copy."""
    with store.connections.translated:
        return _unnoted(store.connections.reader(), store.path.parent)


def _unnoted(connection: Connection, state_dir: Path) -> list[Path]:
    known = {one.archive for one in all_segments(connection)}
    return [path for number, path in archives_in(state_dir).items() if number not in known]


def remove_spare(store: EventStore, path: Path) -> bool:
    """Remove an archive that is not noted, if the store has all of its events without it."""
    with store.transaction():  # nobody notes an archive meanwhile
        if path not in unnoted(store):
            return False
        try:
            rows = [row for _, rows in split(read_bytes(path, _LARGEST)) for row in rows]
        except (ValueError, InputError):
            return False
        links = {(row[STREAM], row[VERSION]): row[LINK].hex()[:LINK_CHARS] for row in rows}
        there = store.links_of(list(links))
        if any(there.get(place, "")[:LINK_CHARS] != link for place, link in links.items()):
            return False
        return remove_file(path)


def adopt(store: EventStore) -> tuple[frozenset[str], set[int]]:
    """Note the archives in a store that was just made; the streams that it has so, and the archives
    that cannot be read."""
    segments, bad = list[Segment](), set[int]()
    newest: dict[str, Row] = {}
    for number, path in sorted(archives_in(store.path.parent).items()):
        try:
            start = 0
            for member, rows in split(read_bytes(path, _LARGEST)):
                before = newest.get(rows[0][3])
                version, root = (before[6], before[7]) if before else (0, START)
                if rows[-1][6] > version:  # else it was noted again, in another archive
                    if rows[0][6] != version + 1 or not are_linked(rows, root):
                        raise ValueError("it does not follow what is known")
                    segments.append(Segment.of(rows, root, number, start, len(member)))
                    newest[rows[0][3]] = rows[-1]
                start += len(member)
        except (ValueError, InputError):
            bad.add(number)
    with store.transaction() as transaction:
        transaction.connection.executemany(INSERT_EVENT_AT, list(newest.values()))
        put(transaction.connection, segments)
    return frozenset(newest), bad
