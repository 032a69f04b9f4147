"""A tracker's docket from run to run, in the state folder: an unchanged tracker is hashed, not
parsed.

Only ever a shortcut. It counts for the bytes it was made from and the program that made it, it
is passed over when anything about it is odd, and nobody misses it when it is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from driver.docket import Docket, docket_of
from driver.ranked import Ranked
from state_store.errors import CannotRunError
from state_store.files import BadFileError, read_bytes, write_bytes_atomic
from state_store.kept_items import collector_paused
from state_store.tracker_base import digest_of
from state_store.tracker_file import real_path
from state_store.tracker_glance import glance_at

FILE_NAME = "tracker_docket.jsonl"
LAYOUT = 1
_WORTH_KEEPING = 2**20  # bytes of a tracker; a smaller one is parsed in a few milliseconds


class TrackerReader:
    """A tracker as it was last read: parsed and judged anew only when its bytes are others."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Keep nothing of it in memory: a long tracker is large."""
        self._docket: Docket | None = None
        self._is_kept = False

    def read(self, path: Path, state_dir: Path, *, keep: bool) -> Docket:
        """What is in the file now; with `keep` the next run may know it too, where there is a
        state folder that takes it. Raises InputError, as `glance_at`."""
        known = self._docket or _found(path, state_dir)
        if known is None or digest_of(path) != known.digest:
            self.forget()
            with collector_paused():  # of a million objects it would look at each, many times
                known = docket_of(glance_at(path))
        elif self._docket is None:
            self._is_kept = True
        self._docket = known
        if keep and not self._is_kept and state_dir.is_dir():
            self._is_kept = True
            _keep(path, state_dir, known)
        return known


def _keep(path: Path, state_dir: Path, docket: Docket) -> None:
    if path.stat().st_size < _WORTH_KEEPING:
        return
    body = json.dumps(_plain(docket)).encode()
    head = {**_made_from(path), "digest": docket.digest, "body": hashlib.sha256(body).hexdigest()}
    with suppress(CannotRunError):  # a folder that is not ours to write, a full disk
        write_bytes_atomic(state_dir / FILE_NAME, f"{json.dumps(head)}\n".encode() + body)


def _plain(docket: Docket) -> list[Any]:
    todo = docket.todo
    return [
        *(todo.items, todo.names, todo.levels),
        *(list(docket.faults.items()), docket.linked, docket.shipped),
        *(docket.problems, docket.strays, sorted(docket.twice)),
    ]


def _found(path: Path, state_dir: Path) -> Docket | None:
    """What was kept of a tracker of this name, perhaps of other bytes; None where that is
    nothing that can be used."""
    try:
        head, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        said = json.loads(head)
        made_from = _made_from(path)
        if {key: said.get(key) for key in made_from} != made_from:
            return None
        if said["body"] != hashlib.sha256(body).hexdigest():
            return None
    except (BadFileError, ValueError, RecursionError, AttributeError, LookupError, TypeError):
        return None
    return _docket(str(said["digest"]), body)


def _docket(digest: str, body: bytes) -> Docket:
    todo, names, levels, faults, linked, shipped, problems, strays, twice = json.loads(body)
    return Docket(
        digest=digest,
        todo=Ranked(todo, names, levels),
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
    folders = (Path(__file__).parent, Path(sys.modules["state_store"].__path__[0]))
    files = sorted(
        (entry.name, found.st_size, found.st_mtime_ns)
        for folder in folders
        for entry in os.scandir(folder)
        if entry.name.endswith(".py") and (found := entry.stat())
    )
    return hashlib.sha256(repr((sys.version, files)).encode()).hexdigest()
