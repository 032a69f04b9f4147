"""Watched fields of the tracker: settings of a proof that changed while a wave ran.

Users can edit the tracker at any time, but an agent may reach it as well. So a change is reported
if later waves prove by the field. A changed request of a claimed item is reported too: the wave
ships the request that it took.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from driver.backlog.tracker import load_tracker_items
from state_store.documents.errors import CannotRunError
from state_store.documents.files import open_regular
from state_store.documents.item_id import id_of
from state_store.documents.item_status import CLAIMED, is_open
from state_store.tracker.base import digest_of
from state_store.tracker.scan import scanned_before

_PROOF = (
    "testCmd",
    "ownsFiles",
    "workDir",
    "baseline",
    "fewerTests",
    "moreSkipped",
    "exclusive",
    "needs",
    "repairCap",
    "pipeline",
)
_PIECE_BYTES = 2**20
_REQUEST = ("slug", "title", "prompt")

Fields = Mapping[str, Mapping[str, str]]


class WatchedTracker:
    """A tracker while a wave runs. Its fields are only compared if its bytes changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = digest_of(path)
        scan = scanned_before(path, self._digest)
        self._replaced = scan.replaced if scan is not None else None
        # A wave may take hours, and a tracker may be long, so what it is now is in a file without a
        # name: the one that the claim has replaced, else a copy.
        self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open
        if self._digest is None or self._replaced is not None:
            return
        try:
            with open_regular(path) as stream:
                shutil.copyfileobj(stream, self._copy, _PIECE_BYTES)
        except OSError as error:
            why = f"the tracker {path} cannot be copied: {error.strerror or error}"
            raise CannotRunError(f"{why}; make room in {tempfile.gettempdir()}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.close()

    def warning(self) -> str:
        """The warning of `changed_fields` about the time since this object was made."""
        if digest_of(self._path) == self._digest:
            return ""
        if self._replaced is not None:
            before = self._replaced.written()
        else:
            self._copy.seek(0)
            before = self._copy.read()
        if self._digest not in (None, hashlib.sha256(before).hexdigest()):
            return f"{self._path} was changed before it was copied, or its copy was: check it"
        with tempfile.TemporaryDirectory() as folder:
            old = Path(folder, "tracker.json")
            old.write_bytes(before)
            return changed_fields(watched_fields(old), watched_fields(self._path))


def watched_fields(tracker: Path) -> Fields:
    """The watched fields of each open item, as JSON texts by item id. The request of a claimed item
    is watched too."""
    found: dict[str, dict[str, str]] = {}
    for item in load_tracker_items(tracker):
        item_id = id_of(item)
        if item_id is not None and is_open(item):
            keys = (*_REQUEST, *_PROOF) if item.get("status") == CLAIMED else _PROOF
            found[item_id] = {key: json.dumps(item.get(key), sort_keys=True) for key in keys}
    return found


def changed_fields(before: Fields, now: Fields) -> str:
    """A warning that names the changed fields of items that are still open; "" for none."""
    changed: list[str] = []
    for item_id in sorted(before.keys() & now.keys()):
        was, is_now = before[item_id], now[item_id]
        keys = [key for key in (*_REQUEST, *_PROOF) if key in was and key in is_now]
        keys = [key for key in keys if was[key] != is_now[key]]
        if keys:
            changed.append(f"{' and '.join(keys)} of {item_id}")
    if not changed:
        return ""
    return (
        "changed in the tracker while the wave ran; this wave still uses the old values;"
        f" check that you made the change: {', '.join(changed)}"
    )
