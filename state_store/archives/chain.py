"""Links each event of a stream to the event before it, by a hash. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

START = b""  # the hash before the first row of a stream
# The columns of a row of the table of events, which an archive keeps.
ID, TS, ACTOR, STREAM, TYPE, PAYLOAD, VERSION, LINK = range(8)


def row_hash(previous: bytes, row: Sequence[Any]) -> bytes:
    """The link of a row: a hash of the previous link and of all columns except the id.

    `row` is (ts, actor, stream, type, payload, version). The lengths make it unambiguous.
    """
    ts, actor, stream, kind, payload, version = row
    sizes = f"{version} {ts!r} {len(stream)} {len(actor)} {len(kind)} "
    text = f"{sizes}{stream}{actor}{kind}{payload}"
    return hashlib.sha256(previous + text.encode("utf-8")).digest()


def are_linked(rows: Iterable[Sequence[Any]], link: bytes) -> bool:
    """True if each row has the link that follows from the row before it, and the first that from
    `link`. `rows` are as in the table of events."""
    return all((link := row_hash(link, row[TS:LINK])) == row[LINK] for row in rows)
