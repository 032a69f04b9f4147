"""Replaces parts of a long file. The file is never in memory as a whole.

People edit the file too, and editors do not use our locks. So only the file that the caller has
seen is replaced.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

from state_store.documents.files import (
    Identity,
    StagedFile,
    disk_trouble,
    identity_at,
    identity_of,
    is_at_rest,
)
from state_store.tracker.base import believe_digest
from state_store.values.lazy_dataclass import dataclass

Splice = tuple[int, int, bytes]  # start, end and the bytes in their place
_PIECE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Replaced:
    """The file that `replace_spliced` has replaced, still open, and the parts that it replaced.
    No program finds that file any more, so it needs no copy. It is closed with this object."""

    source: FileIO
    splices: Sequence[Splice]

    @classmethod
    def of(cls, source: FileIO, splices: Sequence[Splice]) -> Replaced:
        """The file of `source`, which the caller closes."""
        return cls(FileIO(os.dup(source.fileno())), splices)

    def __del__(self) -> None:
        self.source.close()

    def written(self) -> bytes:
        """The bytes that `replace_spliced` wrote. The caller compares their digest."""
        found = BytesIO()
        unread: Any = None
        found.writelines(_pieces(self.source, self.splices, unread, hashlib.sha256()))
        return found.getvalue()


def replace_spliced(
    path: Path, source: FileIO, splices: Sequence[Splice], digest: str, seen: Identity = ()
) -> str | None:
    """Replace parts of the file, in order, if its SHA-256 is `digest`; returns the new one.

    `source` is the open file. Returns None and writes nothing for any other file. A file of the
    identity `seen` has this digest; the caller saw it at rest. Raises CannotRunError.
    """
    with disk_trouble(path):
        identity = identity_of(os.fstat(source.fileno()))
        old, new = None if identity == seen else hashlib.sha256(), hashlib.sha256()
        with StagedFile(path, b"", _pieces(source, splices, old, new)) as staged:
            if old is not None and old.hexdigest() != digest:
                return None
            is_sure = old is None or is_at_rest(identity, time.time_ns())
            if not _is_still(path, identity if is_sure else (), digest):
                return None
            stamp = _stamped(staged.fresh)
            staged.swap_in(sync=True)
            if (now := identity_at(path)) and stamp in now:  # no program has written since
                believe_digest(path, now, new.hexdigest())
    return new.hexdigest()


def _stamped(path: Path) -> int:
    """Set the time of the last write to one that no clock of a file system shows, and return it in
    nanoseconds: while a file has this time, no other program has written it."""
    stamp = time.time_ns() - int.from_bytes(os.urandom(2)) * 100
    os.utime(path, ns=(stamp, stamp))
    return stamp


def _is_still(path: Path, identity: Identity, digest: str) -> bool:
    """True if the file has this identity, or else this digest."""
    with path.open("rb") as stream:
        if identity_of(os.fstat(stream.fileno())) == identity:
            return True
        return hashlib.file_digest(stream, "sha256").hexdigest() == digest


def _pieces(
    source: FileIO, splices: Sequence[Splice], old: Any, new: Any
) -> Iterator[bytes | memoryview]:
    """The pieces of the new file. Each is valid until the next one is asked for. The hash `old`
    gets what is read, unless it is None, and `new` what is written."""
    buffer, at = memoryview(bytearray(_PIECE_BYTES)), 0
    source.seek(0)
    for start, end, written in (*splices, (sys.maxsize, sys.maxsize, b"")):
        for stop, is_kept in ((start, True), (end, False)):
            while at < stop and (size := source.readinto(buffer[: stop - at])):
                at += size
                if old is not None:
                    old.update(buffer[:size])
                if is_kept:
                    new.update(buffer[:size])
                    yield buffer[:size]
        new.update(written)
        yield written
