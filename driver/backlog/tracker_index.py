"""The tracker index: the checked open items of a tracker in order, and their dependencies.

Most items of a long tracker are done, and the index omits them. It is kept in a file of the state
folder. The item table cannot replace it: the table has the items in the order of their first sight,
not of the file, and checking 10,000 open items again takes longer than hashing the tracker.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from driver.backlog.dependencies import KEY, linked
from driver.backlog.order import OrderedQueue, Unordered, blocks
from driver.backlog.plain_items import faults_in
from driver.backlog.publication_status import is_shipped
from driver.backlog.retry_policy import NEXT
from driver.backlog.tracker import ambiguities, slug_keys
from state_store.database.kept_items import collector_paused
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import (
    identity_at,
    is_at_rest,
    read_bytes,
    write_bytes_atomic,
)
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.item_status import FINISHED, IN_PROGRESS, OPEN
from state_store.tracker.base import believe_digest, digest_of, known_digest
from state_store.tracker.file import real_path
from state_store.tracker.light_read import TrackerSummary, read_summary
from state_store.values.lazy_dataclass import dataclass
from state_store.write_api import STATE_DB_FILENAME

Item = Mapping[str, Any]
_FINISHED = tuple(FINISHED)  # a status can have any type, even an unhashable one
FILE_NAME = "tracker_docket.jsonl"
LAYOUT = 3
# The errors of a truncated or forged file: any part of it may be anything.
_UNUSABLE = (InputError, OSError, ValueError, LookupError, TypeError, AttributeError,
             RecursionError)  # fmt: skip
_WORTH_KEEPING = 2**20  # bytes; a smaller tracker is parsed in milliseconds


@dataclass(frozen=True, slots=True)
class TrackerIndex:
    """The index of a tracker whose bytes have the SHA-256 `digest`.

    `todo` are the open items, most urgent first. `faults` gives, by position in `todo`, the reasons
    why an item cannot be built, without a parser's view of its test command. `linked` are the items
    that wait for a time or for other items, and those other items too, in the tracker's order.
    `shipped` are the items that wait for their merge. `problems` are the duplicate ids and slugs
    that stop a run. `non_objects` has a sentence for each entry that is no object. `twice` are the
    duplicate ids. `statuses` counts all items.
    """

    digest: str
    todo: OrderedQueue
    faults: Mapping[int, tuple[str, ...]]
    linked: tuple[Item, ...]
    shipped: tuple[Item, ...]
    problems: tuple[str, ...]
    non_objects: tuple[str, ...]
    twice: frozenset[str]
    statuses: Mapping[str, int]

    def own_todo(self) -> list[Item]:
        """The open items with a unique id."""
        if not self.twice and plain_ids(self.todo.items):
            return list(self.todo.items)
        return [
            item
            for name, item in zip(self.todo.names, self.todo.items, strict=True)
            if name not in self.twice and id_of(item) is not None
        ]

    def to_json(self) -> list[Any]:
        """All fields except the digest."""
        todo = self.todo
        return [
            *(list(todo.items), todo.names, todo.levels),
            *(list(self.faults.items()), self.linked, self.shipped),
            *(self.problems, self.non_objects, sorted(self.twice), self.statuses),
        ]

    @classmethod
    def from_json(cls, digest: str, kept: Any) -> TrackerIndex:
        """The inverse of `to_json`. Raises one of `_UNUSABLE` for an invalid record."""
        items, names, levels, faults, linked, shipped, problems, non_objects, twice, statuses = kept
        return cls(
            digest=digest,
            todo=OrderedQueue(list(items), list(names), list(levels)),
            faults={number: tuple(why) for number, why in faults},
            linked=tuple(linked),
            shipped=tuple(shipped),
            problems=tuple(problems),
            non_objects=tuple(non_objects),
            twice=frozenset(twice),
            statuses=dict(statuses),
        )


def index_of(tracker: TrackerSummary) -> TrackerIndex:
    """Make the index of a tracker. Pure."""
    todo, faults, slugs = Unordered(), dict[int, tuple[str, ...]](), list[str]()
    asking, timed, shipped = list[Item](), set[int](), list[Item]()
    statuses: Counter[str] = Counter()
    not_own = {None, *tracker.ambiguous}
    for block in blocks(tracker.entries):
        states = [item.get("status") for item in block]
        statuses.update(map(str, states))
        both = list(zip(block, states, strict=True))
        # Most of a long tracker is done; this is the only pass over those items.
        unfinished = [item for item, state in both if state not in _FINISHED]
        asking += [item for item in unfinished if KEY in item]
        timed.update(id(item) for item in unfinished if item.get(NEXT) is not None)
        under_way = [item for item, state in both if state == IN_PROGRESS]
        shipped += [i for i in under_way if is_shipped(i) and id_of(i) not in not_own]
        opened = [item for item, state in both if state in OPEN]
        faults.update((len(todo.items) + number, why) for number, why in faults_in(opened))
        slugs += slug_keys(opened)
        todo.add(opened)
    kept = timed.union(map(id, linked(tracker.entries, asking)))
    order = todo.order()
    return TrackerIndex(
        digest=tracker.digest,
        todo=todo.queue(order),
        faults={n: faults[was] for n, was in enumerate(order) if was in faults} if faults else {},
        linked=tuple(item for item in tracker.entries if id(item) in kept) if kept else (),
        shipped=tuple(shipped),
        problems=ambiguities(tracker.ambiguous, map(id_of, todo.items), slugs),
        non_objects=tracker.non_objects,
        twice=tracker.ambiguous,
        statuses=statuses,
    )


class TrackerReader:
    """Reads a tracker, and parses and checks it again only after its bytes changed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop the index from memory; for a long tracker it is large."""
        self._index: TrackerIndex | None = None
        self._is_kept = False

    def read(self, path: Path, state_dir: Path) -> TrackerIndex:
        """The index of the file as it is now. Raises InputError, as `read_summary` does."""
        if self._index is None or digest_of(path) != self._index.digest:
            self.forget()
            self._index = _found(path, state_dir)
            self._is_kept = self._index is not None
        if self._index is None:
            before, now = identity_at(path), time.time_ns()
            with collector_paused():  # the collector would visit a million objects many times
                self._index = index_of(read_summary(path))
            if before and is_at_rest(before, now) and identity_at(path) == before:
                believe_digest(path, before, self._index.digest)  # it is not hashed again
        return self._index

    def keep(self, path: Path, state_dir: Path) -> None:
        """Write the index for the next run, if the state folder has a store. Writes none if the
        folder cannot be written, the disk is full, or an item is nested too deeply."""
        if not self._index or self._is_kept or not (state_dir / STATE_DB_FILENAME).exists():
            return
        self._is_kept = True
        with suppress(OSError, CannotRunError, RecursionError):
            if path.stat().st_size < _WORTH_KEEPING:
                return
            body = json.dumps(self._index.to_json()).encode()
            seal = hashlib.sha256(body).hexdigest()
            digest_of(path)  # so that it is known, if the file is at rest
            identity, digest = known_digest(path) or ((), "")
            at_rest = {"identity": identity} if digest == self._index.digest else {}
            facts = {**_made_from(path), "digest": self._index.digest, "body": seal, **at_rest}
            head = json.dumps(facts)
            write_bytes_atomic(state_dir / FILE_NAME, f"{head}\n".encode() + body)


def _found(path: Path, state_dir: Path) -> TrackerIndex | None:
    """The kept index of the tracker as it is now; None if there is no valid one."""
    try:
        head, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        found, wanted = json.loads(head), _made_from(path)
        if {key: found.get(key) for key in wanted} != wanted:
            return None
        if found["body"] != hashlib.sha256(body).hexdigest():
            return None
        if found.get("identity"):  # the file need not be read, if it was not written since
            believe_digest(path, tuple(found["identity"]), found["digest"])
        if found["digest"] != digest_of(path):
            return None
        return TrackerIndex.from_json(str(found["digest"]), json.loads(body))
    except _UNUSABLE:
        return None


def _made_from(path: Path) -> dict[str, Any]:
    # Both spellings: messages name the file by the path given.
    return {"layout": LAYOUT, "asked": str(path), "tracker": str(real_path(path)), "by": _program()}


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
