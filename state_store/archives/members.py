"""Encodes and decodes events of an archive: a gzip member with a line of JSON for each. Pure.

Members stand one after the other in a file, so any program for gzip reads the whole of it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

# id ts actor stream type payload version hash, as in the table of events
Row = tuple[Any, ...]
_GZIP = 31  # zlib's name of a gzip header around the largest window
_KEYS = ("id", "ts", "actor", "stream", "type", "version", "hash")
_PAYLOAD = ',"payload":'  # no text of JSON has it, because its quotes would be escaped


def encoded(rows: Sequence[Row]) -> bytes:
    """The member of some rows. Raises ValueError if they could not be read back as they are."""
    text = "".join(map(_line, rows))
    if [*_rows(text)] != [*rows]:
        raise ValueError("it has a payload of several lines, or of another program")
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(text.encode("ascii")) + packer.flush()


def decoded(member: bytes) -> list[Row]:
    """The rows of one member. Raises ValueError if it is damaged."""
    found = [*split(member)]
    if len(found) != 1:
        raise ValueError("it is not one part")
    return found[0][1]


def split(archive: bytes) -> Iterator[tuple[bytes, list[Row]]]:
    """Each member of an archive, with its rows. Raises ValueError where it is damaged."""
    while archive:
        reader = zlib.decompressobj(_GZIP)
        try:
            text = reader.decompress(archive)
        except zlib.error as error:
            raise ValueError("it was changed") from error
        if not reader.eof:
            raise ValueError("it is cut off")
        member = archive[: len(archive) - len(reader.unused_data)]
        yield member, [*_rows(text.decode("ascii"))]
        archive = reader.unused_data


def _line(row: Row) -> str:
    number, ts, actor, stream, kind, payload, version, link = row
    head = dict(zip(_KEYS, (number, ts, actor, stream, kind, version, link.hex()), strict=True))
    return f"{json.dumps(head, separators=(',', ':'))[:-1]}{_PAYLOAD}{payload}}}\n"


def _rows(text: str) -> Iterator[Row]:
    for line in text.removesuffix("\n").split("\n"):
        head, mark, rest = line.partition(_PAYLOAD)
        if not mark or not rest.endswith("}"):
            raise ValueError("a line is no event")
        try:
            found = json.loads(f"{head}}}")
            number, ts, actor, stream, kind, version, link = (found[key] for key in _KEYS)
            yield number, ts, actor, stream, kind, rest[:-1], version, bytes.fromhex(link)
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("a line is no event") from error
