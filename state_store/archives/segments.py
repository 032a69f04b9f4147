"""The table `archived`: which events lie in which archive, so that the database needs no longer
have them.

A segment has successive events of one stream. The newest event of a stream stays in the database,
too. So the heads of streams, and the links of all later events, are there without a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from state_store.archives.chain import ID, LINK, STREAM, VERSION
from state_store.archives.members import Row
from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import dataclass

FOLDER = "archive"
_SHORT = 8  # bytes of a link, as anchors have them
_NAMES = "stream, first, last, first_id, last_id, root, before, link, links, archive, start, size"
STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS archived(
        stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        first_id INTEGER NOT NULL, last_id INTEGER NOT NULL, root BLOB NOT NULL,
        before BLOB NOT NULL, link BLOB NOT NULL, links BLOB NOT NULL,
        archive INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY(stream, first)) WITHOUT ROWID""",
    """CREATE TRIGGER IF NOT EXISTS archived_never_changes BEFORE UPDATE ON archived
        BEGIN SELECT RAISE(ABORT, 'archives are append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS archived_never_goes BEFORE DELETE ON archived
        BEGIN SELECT RAISE(ABORT, 'archives are append-only'); END""",
    "DROP TRIGGER IF EXISTS events_never_go",
    """CREATE TRIGGER events_never_go BEFORE DELETE ON events
        WHEN NOT EXISTS (SELECT 1 FROM archived
            WHERE stream = OLD.stream AND OLD.version BETWEEN first AND last)
        OR NOT EXISTS (SELECT 1 FROM events WHERE stream = OLD.stream AND version > OLD.version)
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Events `first` to `last` of a stream in an archive, at its bytes from `start` on. `root` is
    the link before its first event, `before` the one before its last, `link` its last. `links` has
    the beginnings of all."""

    stream: str
    first: int
    last: int
    first_id: int
    last_id: int
    root: bytes
    before: bytes
    link: bytes
    links: bytes
    archive: int
    start: int
    size: int

    @classmethod
    def of(cls, rows: Sequence[Row], root: bytes, archive: int, start: int, size: int) -> Segment:
        """The segment of these rows, one after the other in their stream."""
        before = rows[-2][LINK] if len(rows) > 1 else root
        links = b"".join(row[LINK][:_SHORT] for row in rows)
        first, last = rows[0], rows[-1]
        ends = first[VERSION], last[VERSION], first[ID], last[ID]
        return cls(first[STREAM], *ends, root, before, last[LINK], links, archive, start, size)

    def link_at(self, version: int) -> str:
        """The beginning of an event's link, in hex; "" for an event of another segment."""
        at = (version - self.first) * _SHORT
        return self.links[at : at + _SHORT].hex() if self.first <= version <= self.last else ""


def archive_path(state_dir: Path, number: int) -> Path:
    """The file of an archive."""
    return state_dir / FOLDER / f"{number}.jsonl.gz"


def archives_in(state_dir: Path) -> dict[int, Path]:
    """The archives that are there, by number."""
    found = (state_dir / FOLDER).glob("*.jsonl.gz")
    numbered = ((path.name.partition(".")[0], path) for path in found)
    return {int(name): path for name, path in sorted(numbered) if name.isascii() and name.isdigit()}


def all_segments(connection: Connection) -> Iterator[Segment]:
    """Every segment, by stream and version."""
    return _segments(connection, "TRUE", ())


def segments_after(
    connection: Connection, streams: Sequence[str] | None, after: int, *, by_id: bool
) -> list[Segment]:
    """The segments of some streams, or of all, with events after a version or an id, in its
    order."""
    last, first = ("last_id", "first_id") if by_id else ("last", "first")
    where = f"{last} > ?"
    if streams is not None:
        where += f" AND stream IN ({', '.join('?' * len(streams))})"
    found = _segments(connection, f"{where} ORDER BY {first}", (after, *(streams or ())))
    return list(found)


def segment_with(connection: Connection, stream: str, version: int) -> Segment | None:
    """The segment with an event; None if it was not archived."""
    where = "stream = ? AND first <= ? AND last >= ?"
    return next(_segments(connection, where, (stream, version, version)), None)


def last_archived(connection: Connection, stream: str) -> int:
    """The version of the newest archived event of a stream; 0 without one."""
    return max((one.last for one in _segments(connection, "stream = ?", (stream,))), default=0)


def newest_archive(connection: Connection) -> int:
    """The number of the newest archive of the table; 0 without one."""
    newest: int = connection.execute("SELECT MAX(archive) FROM archived").fetchone()[0] or 0
    return newest


def put(connection: Connection, segments: Iterable[Segment]) -> None:
    """Note segments that lie in archives."""
    marks = ", ".join("?" * 12)
    rows = [tuple(getattr(one, name) for name in _NAMES.split(", ")) for one in segments]
    connection.executemany(f"INSERT INTO archived({_NAMES}) VALUES({marks})", rows)


def _is_here(connection: Connection, segment: Segment) -> bool:
    """True if the database has each event of the segment."""
    count = "SELECT COUNT(*) FROM events WHERE stream = ? AND version BETWEEN ? AND ?"
    ends = segment.stream, segment.first, segment.last
    there: int = connection.execute(count, ends).fetchone()[0]
    return there == segment.last - segment.first + 1


def note(connection: Connection, segments: Sequence[Segment]) -> bool:
    """Note segments that an archive has, and delete their events here, without the newest of a
    stream. False, and no change, if another process has archived some of them meanwhile."""
    if not all(_is_here(connection, one) for one in segments):
        return False
    put(connection, segments)
    connection.executemany(
        "DELETE FROM events WHERE stream = ?1 AND version BETWEEN ?2 AND ?3 "
        "AND version < (SELECT MAX(version) FROM events WHERE stream = ?1)",
        [(one.stream, one.first, one.last) for one in segments],
    )
    return True


def _segments(connection: Connection, where: str, values: tuple[object, ...]) -> Iterator[Segment]:
    rows = connection.execute(f"SELECT {_NAMES} FROM archived WHERE {where}", values).fetchall()
    yield from (Segment(*row) for row in rows)
