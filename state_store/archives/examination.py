"""Checks the archives: each file is there and whole, and the table names nothing else. Reads
only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from state_store.archives.chain import START
from state_store.archives.reading import BadArchiveError, rows_of
from state_store.archives.segments import Segment, all_segments
from state_store.sql.connection import Archives, Connection


def bridges(connection: Connection) -> dict[tuple[str, int], bytes]:
    """The link before the newest archived event of each segment, and before the event after it, by
    stream and version: the two that may be the first of their stream in the database."""
    found: dict[tuple[str, int], bytes] = {}
    for one in all_segments(connection):
        found[one.stream, one.last] = one.before
        found[one.stream, one.last + 1] = one.link
    return found


def examine_archives(connection: Connection, archives: Archives) -> Iterator[tuple[int, str]]:
    """A sentence about each faulty archive, with its number. Archive 0 stands for the table."""
    by_archive: dict[int, list[Segment]] = {}
    ends: dict[str, tuple[int, bytes]] = {}
    for one in all_segments(connection):
        by_archive.setdefault(one.archive, []).append(one)
        last, link = ends.get(one.stream, (0, START))
        ends[one.stream] = (one.last, one.link)
        if (one.first, one.root) != (last + 1, link) or one.last < one.first:
            yield 0, f"the archived events of stream {one.stream} do not follow event {last}"
    yield from _lost_ends(connection, ends)
    for number, segments in sorted(by_archive.items()):
        try:
            _check(number, segments, archives)
        except BadArchiveError as error:
            what = ", ".join(one.stream for one in segments[:2])
            more = f" and {len(segments) - 2} more streams" if len(segments) > 2 else ""
            yield number, f"{error}. It has events of {what}{more}"


def _lost_ends(
    connection: Connection, ends: dict[str, tuple[int, bytes]]
) -> Iterator[tuple[int, str]]:
    """The newest event of a stream is never without a copy in the database."""
    query = "SELECT MAX(version) FROM events WHERE stream = ?"
    for stream, (last, _) in ends.items():
        newest = connection.execute(query, (stream,)).fetchone()[0] or 0
        if newest < last:
            yield 0, f"stream {stream} ends at event {newest}, but event {last} was archived"


def _check(number: int, segments: Iterable[Segment], archives: Archives) -> None:
    """Raise BadArchiveError unless the archive has these segments and no more."""
    end = 0
    for one in sorted(segments, key=lambda one: one.start):
        rows_of(one, archives)
        end = one.start + one.size
    if archives.size(number) != end:
        raise BadArchiveError(archives.place(number), "was changed after it was written")
