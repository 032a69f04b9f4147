"""Reads the tracker index, and keeps it in a file of the state folder.

The item table cannot replace it: the table has the items in the order of their first sight, not of
the file, and checking 10,000 open items again takes longer than hashing the tracker.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from driver.backlog.tracker_index import IndexBuilder, TrackerIndex
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import (
    identity_at,
    is_at_rest,
    read_bytes,
    write_bytes_atomic,
)
from state_store.documents.interpreter import collector_paused
from state_store.documents.strict_json import parse_foreign
from state_store.place import has_begun
from state_store.tracker.base import believe_digest, digest_of, known_digest
from state_store.tracker.file import entry_problem, real_path
from state_store.tracker.scan import (
    LONG,
    Entries,
    ScannedTracker,
    remember,
    scanned,
)
from state_store.values.columns import Block
from state_store.write_api import STATE_DB_FILENAME

FILE_NAME = "tracker_docket.jsonl"
LAYOUT = 5
_NUMBERS = "Q"  # the type of the numbers in the file
_NUMBERED = ("open_numbers", "levels", "linked_numbers", "shipped_numbers", "claimed", "nameless")
# The errors of a truncated or forged file: any part of it may be anything.
_UNUSABLE = (InputError, OSError, ValueError, LookupError, TypeError, AttributeError,
             OverflowError)  # fmt: skip


class TrackerReader:
    """Reads a tracker, and parses and checks it again only after its bytes changed."""

    def __init__(self) -> None:
        self._index: TrackerIndex | None = None
        self._scan: ScannedTracker | None = None
        self._kept = ""  # the digest that the file in the state folder is of

    def forget(self) -> None:
        """Drop the tracker's text from memory; for a long tracker it is large."""
        if self._scan is not None:
            self._scan.forget()

    def read(self, path: Path, state_dir: Path) -> TrackerIndex:
        """The index of the file as it is now. Raises InputError, as `read_summary` does."""
        index = self._caught_up()
        if index is None or digest_of(path) != index.digest:
            self._index = self._scan = None
            if (found := _found(path, state_dir)) is not None:
                self._scan, self._index = found
                self._kept = self._index.digest
        if self._index is None:
            before, now = identity_at(path), time.time_ns()
            with collector_paused():  # the collector would visit many objects many times
                self._scan, self._index = _indexed(path)
            if before and is_at_rest(before, now) and identity_at(path) == before:
                believe_digest(path, before, self._index.digest)  # it is not hashed again
        return self._index

    def keep(self, path: Path, state_dir: Path) -> None:
        """Write the index for the next run, if the state folder has a store. What this process has
        changed in the tracker since it read it is in it. Writes none if the folder cannot be
        written, the disk is full, or an item is nested too deeply."""
        scan = self._scan
        if self._index is None or scan is None or not has_begun(state_dir / STATE_DB_FILENAME):
            return
        with suppress(OSError, CannotRunError, InputError, ValueError):
            if path.stat().st_size < LONG or scan.digest != digest_of(path):
                return
            index = self._caught_up()
            if index is not None and index.digest != self._kept:
                _keep(path, state_dir, scan, index)
                self._kept = index.digest

    def _caught_up(self) -> TrackerIndex | None:
        """The index with what this process has changed in the tracker; None if it has none."""
        if self._index is not None and self._scan is not None and self._scan.edits:
            edits = [
                (n, parse_foreign(old), parse_foreign(new)) for n, old, new in self._scan.edits
            ]
            self._scan.edits.clear()
            self._index = self._index.changed(edits, self._scan.digest)
        return self._index


def _indexed(path: Path) -> tuple[ScannedTracker, TrackerIndex]:
    builder, objections = IndexBuilder(), list[str]()

    def each_block(first: int, block: Sequence[Any]) -> None:
        if isinstance(block, Block):
            builder.add(first, block)
            return
        for number, entry in enumerate(block, start=first):
            if isinstance(entry, dict):
                builder.add(number, Block([entry]))
            else:
                objections.append(entry_problem(path, number + 1))

    scan = scanned(path, each_block)
    if scan.data is not None and len(scan.data) >= LONG:
        remember(scan)
    index = builder.index(scan.digest, Entries(scan), scan.ids, objections)
    return scan, index


def _keep(path: Path, state_dir: Path, scan: ScannedTracker, index: TrackerIndex) -> None:
    scan.settle()
    named = dict(zip(index.open_numbers, index.names, strict=True))
    ids = json.dumps(scan.ids).encode()
    columns = [
        *(array(_NUMBERS, numbers).tobytes() for numbers in (scan.starts, scan.ends)),
        *(array(_NUMBERS, getattr(index, name)).tobytes() for name in _NUMBERED),
    ]
    small = {
        "ascii": scan.is_ascii,
        "named": {n: name for n, name in named.items() if scan.ids[n] != name},
        "faults": list(index.faults.items()),
        "has_repo": index.has_repo,
        "problems": index.problems,
        "non_objects": index.non_objects,
        "twice": sorted(index.twice),
        "statuses": index.statuses,
        "sizes": [len(ids), *map(len, columns)],
    }
    body = b"".join([json.dumps(small).encode(), b"\n", ids, *columns])
    seal = hashlib.sha256(body).hexdigest()
    identity, digest = known_digest(path) or ((), "")
    at_rest = {"identity": identity} if digest == index.digest else {}
    facts = {**_made_from(path), "digest": index.digest, "body": seal, **at_rest}
    write_bytes_atomic(state_dir / FILE_NAME, f"{json.dumps(facts)}\n".encode() + body)


def _found(path: Path, state_dir: Path) -> tuple[ScannedTracker, TrackerIndex] | None:
    """The kept index of the tracker as it is now; None if there is no valid one."""
    try:
        head, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        found, wanted = parse_foreign(head), _made_from(path)
        if {key: found.get(key) for key in wanted} != wanted:
            return None
        if found["body"] != hashlib.sha256(body).hexdigest():
            return None
        if found.get("identity"):  # the file need not be read, if it was not written since
            believe_digest(path, tuple(found["identity"]), found["digest"])
        if found["digest"] != digest_of(path):
            return None
        scan, index = _from_bytes(path, str(found["digest"]), body)
    except _UNUSABLE:
        return None
    remember(scan)
    return scan, index


def _from_bytes(path: Path, digest: str, body: bytes) -> tuple[ScannedTracker, TrackerIndex]:
    """The inverse of `_keep`. Raises one of `_UNUSABLE` for an invalid record."""
    head, _, rest = body.partition(b"\n")
    kept, at, parts = parse_foreign(head), 0, list[bytes]()
    for size in kept["sizes"]:
        parts.append(rest[at : at + size])
        at += size
    if at != len(rest):
        raise ValueError("the sizes are of another record")
    ids = list(parse_foreign(parts[0]))
    starts, ends, *columns = (array(_NUMBERS, part) for part in parts[1:])
    numbered = {n: part.tolist() for n, part in zip(_NUMBERED, columns, strict=True)}
    numbers = numbered["open_numbers"]
    named = {int(n): str(name) for n, name in kept["named"].items()}
    scan = ScannedTracker(path, digest, bool(kept["ascii"]), ids, starts, ends)
    if not len(ids) == len(scan.starts) == len(scan.ends):
        raise ValueError("the columns differ")
    return scan, TrackerIndex(
        digest=digest,
        entries=Entries(scan),
        names=[named.get(n) or ids[n] for n in numbers] if named else [ids[n] for n in numbers],
        faults={number: tuple(why) for number, why in kept["faults"]},
        has_repo=bool(kept["has_repo"]),
        problems=tuple(kept["problems"]),
        non_objects=tuple(kept["non_objects"]),
        twice=frozenset(kept["twice"]),
        statuses=dict(kept["statuses"]),
        **numbered,
    )


def _made_from(path: Path) -> dict[str, Any]:
    # Both spellings: messages name the file by the path given.
    where = {"asked": str(path), "tracker": str(real_path(path))}
    return {"layout": LAYOUT, "order": sys.byteorder, **where, "by": _program()}


@cache
def _program() -> str:
    """A fingerprint of this version of the program. The code decides which items are faulty, so
    changed code must build the index again."""
    root = Path(__file__).parents[2]
    files = sorted(
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for folder in ("driver", "state_store")
        for path in (root / folder).rglob("*.py")
    )
    return hashlib.sha256(repr((sys.version, files)).encode()).hexdigest()
