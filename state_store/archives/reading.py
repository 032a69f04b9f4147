"""Reads archived events, and merges them with those that are still in the database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path

from state_store.archives.chain import LINK, STREAM, VERSION, are_linked
from state_store.archives.members import Row, decoded
from state_store.archives.segments import Segment, segments_after
from state_store.sql.connection import Archives, Connection

_BLOCK = 250
_reported: set[Path | str] = set()


class BadArchiveError(ValueError):
    """An archive is missing, or cannot be read. The message is a sentence with its remedy."""

    def __init__(self, place: Path | str, why: str) -> None:
        self.place = place
        super().__init__(f"the archive {place} {why}; put back a copy of it")


def rows_of(segment: Segment, archives: Archives) -> list[Row]:
    """The events of a segment, as they were written. Raises BadArchiveError."""
    path = archives.place(segment.archive)
    try:
        member = archives.part(segment.archive, segment.start, segment.size)
    except OSError as error:
        raise BadArchiveError(path, f"cannot be read: {error.strerror or error}") from error
    if member is None:
        raise BadArchiveError(path, "is missing")
    if len(member) < segment.size:
        raise BadArchiveError(path, "is cut off")
    try:
        rows = decoded(member)
    except ValueError as error:
        raise BadArchiveError(path, f"cannot be read: {error}") from error
    versions = [row[VERSION] for row in rows]
    is_all = versions == [*range(segment.first, segment.last + 1)]
    is_of_stream = all(row[STREAM] == segment.stream for row in rows)
    is_linked = are_linked(rows, segment.root) and [row[LINK] for row in rows][-1:] == [
        segment.link
    ]
    if not (is_all and is_of_stream and is_linked):
        raise BadArchiveError(path, "was changed after it was written")
    return rows


def rows_or_warning(segment: Segment, archives: Archives) -> list[Row]:
    """Like `rows_of`; none, with a warning on stderr, if they cannot be read."""
    try:
        return rows_of(segment, archives)
    except BadArchiveError as error:
        if error.place not in _reported:
            _reported.add(error.place)
            sys.stderr.write(f"WARNING: {error}; its events are left out\n")
        return []


def with_archived(
    blocks: Iterable[list[Row]],
    connection: Connection,
    archives: Archives | None,
    streams: Sequence[str] | None,
    after: int,
    column: int,
) -> Iterator[list[Row]]:
    """Blocks of the database's rows with the archived rows before and between them, ordered by
    `column`, the version or the id. Without `archives` there are none.

    No row is missed if another process archives meanwhile: a block is read before the table of
    segments, and the newest event of a stream stays in the database.
    """
    for block in blocks:
        if archives is None or (column == VERSION and block[0][VERSION] == after + 1):
            yield block  # nothing is missing before it
        else:
            last = block[-1][column]
            found = segments_after(connection, streams, after, by_id=column != VERSION)
            archived = _in_order(found, column, partial(rows_or_warning, archives=archives))
            there = {row[column] for row in block}
            past = (row for row in archived if after < row[column] < last)
            new = (row for row in past if row[column] not in there)
            merged = merge(block, new, key=itemgetter(column)) if found else iter(block)
            while some := list(islice(merged, _BLOCK)):
                yield some
        after = block[-1][column]


def _in_order(
    segments: Iterable[Segment], column: int, read: Callable[[Segment], list[Row]]
) -> Iterator[Row]:
    """The rows of segments in order of their first, each read only when its first row is due."""
    waiting: list[Row] = []
    for segment in segments:
        begin = segment.first if column == VERSION else segment.first_id
        yield from sorted((row for row in waiting if row[column] < begin), key=itemgetter(column))
        waiting = [row for row in waiting if row[column] >= begin] + read(segment)
    yield from sorted(waiting, key=itemgetter(column))
