"""What a cycle needs of a tracker: its open items in order and judged, and the few others that
count for them. Pure.

Made from a whole tracker once; of most of a long one, which is done, nothing is held. How it
outlives a process is `kept_docket`'s; what is taken of it `intake`'s.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from driver.backlog.dependencies import linked
from driver.backlog.publication_status import is_shipped
from driver.backlog.retry_policy import NEXT
from driver.backlog.selection import OrderedQueue, filter_todo_items, ordered
from driver.backlog.tracker import tracker_problems, validate_item
from state_store.database.kept_items import collector_paused
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import read_bytes, write_bytes_atomic
from state_store.documents.item_id import id_of
from state_store.documents.item_status import FINISHED, IN_PROGRESS
from state_store.tracker.base import digest_of
from state_store.tracker.file import real_path
from state_store.tracker.light_read import TrackerSummary, read_summary
from state_store.write_api import STATE_DB_FILENAME

Item = Mapping[str, Any]
_FINISHED = tuple(FINISHED)  # a status may be anything, also what has no hash


@dataclass(frozen=True, slots=True)
class TrackerIndex:
    """A tracker whose bytes have the SHA-256 `digest`.

    `todo` are its open items, most urgent first; `faults` say, by number in that line, why some
    cannot be built. `linked` are the items that wait for a time or for others, with those others,
    in the tracker's order; `shipped` those on their way to a target. `problems` are the doubles
    that keep a run from starting, `strays` the entries that are no objects, `twice` the ids that
    are nobody's.
    """

    digest: str
    todo: OrderedQueue
    faults: Mapping[int, tuple[str, ...]]
    linked: tuple[Item, ...]
    shipped: tuple[Item, ...]
    problems: tuple[str, ...]
    strays: tuple[str, ...]
    twice: frozenset[str]

    def own_todo(self) -> list[Item]:
        """The open items whose id is theirs alone."""
        return [
            item
            for name, item in zip(self.todo.names, self.todo.items, strict=True)
            if name not in self.twice and id_of(item) is not None
        ]


def index_of(tracker: TrackerSummary) -> TrackerIndex:
    """The docket of a tracker as read."""
    # Most of a long tracker is done, and all that it costs is this.
    unfinished = [item for item in tracker.entries if item.get("status") not in _FINISHED]
    todo = filter_todo_items(unfinished)
    judged = enumerate(map(validate_item, todo))
    pending_ref = [item for item in tracker.entries if item.get("status") == IN_PROGRESS]
    return TrackerIndex(
        digest=tracker.digest,
        todo=ordered(todo),
        faults={number: problems for number, problems in judged if problems},
        linked=_linked(tracker, unfinished),
        shipped=tuple(i for i in pending_ref if is_shipped(i) and _is_own(id_of(i), tracker)),
        problems=tracker_problems(todo, tracker.ambiguous),
        strays=tracker.strays,
        twice=tracker.ambiguous,
    )


def _is_own(name: str | None, tracker: TrackerSummary) -> bool:
    return name is not None and name not in tracker.ambiguous


def _linked(tracker: TrackerSummary, unfinished: Sequence[Item]) -> tuple[Item, ...]:
    timed = {id(item) for item in unfinished if item.get(NEXT) is not None}
    kept = timed.union(map(id, linked(tracker.entries, unfinished)))
    return tuple(item for item in tracker.entries if id(item) in kept) if kept else ()


FILE_NAME = "tracker_docket.jsonl"
LAYOUT = 1
# What comes of a file that was cut short, or that somebody wrote: any part of it may be anything.
_UNUSABLE = (
    InputError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
_WORTH_KEEPING = 2**20  # bytes of a tracker; a smaller one is parsed in a few milliseconds


class TrackerReader:
    """A tracker as it was last read: parsed and judged anew only when its bytes are others."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Keep nothing of it in memory: a long tracker is large."""
        self._docket: TrackerIndex | None = None
        self._is_kept = False

    def read(self, path: Path, state_dir: Path) -> TrackerIndex:
        """What is in the file now. Raises InputError, as `read_summary`."""
        if self._docket is None or digest_of(path) != self._docket.digest:
            self.forget()
            self._docket = _found(path, state_dir)
            self._is_kept = self._docket is not None
        if self._docket is None:
            with collector_paused():  # of a million objects it would look at each, many times
                self._docket = index_of(read_summary(path))
        return self._docket

    def keep(self, path: Path, state_dir: Path) -> None:
        """Let the next run know what was read last, where a store is in the state folder."""
        if self._docket and not self._is_kept and (state_dir / STATE_DB_FILENAME).exists():
            self._is_kept = True
            _keep(path, state_dir, self._docket)


def _keep(path: Path, state_dir: Path, docket: TrackerIndex) -> None:
    # A folder that is not ours to write, a full disk, items nested as deep as can be: so be it.
    with suppress(OSError, CannotRunError, RecursionError):
        if path.stat().st_size < _WORTH_KEEPING:
            return
        body = json.dumps(_plain(docket)).encode()
        seal = hashlib.sha256(body).hexdigest()
        head = json.dumps({**_made_from(path), "digest": docket.digest, "body": seal})
        write_bytes_atomic(state_dir / FILE_NAME, f"{head}\n".encode() + body)


def _plain(docket: TrackerIndex) -> list[Any]:
    todo = docket.todo
    return [
        *(todo.items, todo.names, todo.levels),
        *(list(docket.faults.items()), docket.linked, docket.shipped),
        *(docket.problems, docket.strays, sorted(docket.twice)),
    ]


def _found(path: Path, state_dir: Path) -> TrackerIndex | None:
    """What was kept of the tracker as it is now; None where that is nothing that can be used."""
    try:
        head, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        said, wanted = json.loads(head), _made_from(path)
        if {key: said.get(key) for key in wanted} != wanted:
            return None
        if said["body"] != hashlib.sha256(body).hexdigest() or said["digest"] != digest_of(path):
            return None
        return _docket(str(said["digest"]), json.loads(body))
    except _UNUSABLE:
        return None


def _docket(digest: str, kept: Any) -> TrackerIndex:
    """The way back from `_plain`."""
    items, names, levels, faults, linked, shipped, problems, strays, twice = kept
    return TrackerIndex(
        digest=digest,
        todo=OrderedQueue(tuple(items), tuple(names), tuple(levels)),
        faults={number: tuple(told) for number, told in faults},
        linked=tuple(linked),
        shipped=tuple(shipped),
        problems=tuple(problems),
        strays=tuple(strays),
        twice=frozenset(twice),
    )


def _made_from(path: Path) -> dict[str, Any]:
    # Both spellings: problems name the file as it was asked for.
    return {"layout": LAYOUT, "asked": str(path), "tracker": str(real_path(path)), "by": _program()}


@cache
def _program() -> str:
    """Tells this program from any other version of it: what is wrong with an item is for the code
    to say, and whoever changes that must not have to remember that answers are kept."""
    root = Path(__file__).parents[2]
    files = sorted(
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for folder in ("driver", "state_store")
        for path in (root / folder).rglob("*.py")
    )
    return hashlib.sha256(repr((sys.version, files)).encode()).hexdigest()
