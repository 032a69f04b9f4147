"""Anchors: the head of a stream as it was once, written down outside the database to show loss.

A chain of links cannot show that its end is missing. Journal entries and commit trailers say how
long a wave's stream was when they were written; a store that is shorter has lost acknowledged
events. A rebuild writes down the anchors it could not bring back, and they are reported no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state_store.database.errors import rebuild_command
from state_store.database.integrity import Head, Problem
from state_store.database.store import EventStore
from state_store.documents import journal
from state_store.documents.errors import CannotRunError

TRAILER = "State-Anchor"
REBUILDS = "rebuilds"
STORE_REBUILT = "store_rebuilt"
_LINK_CHARS = 16
_SHAPE = re.compile(r"(?P<stream>\S+)@(?P<version>[1-9][0-9]{0,17}):(?P<link>[0-9a-f]{16})")


class LostRowsError(CannotRunError):
    """The store is whole in itself and does not hold all that it once acknowledged."""


@dataclass(frozen=True, slots=True, order=True)
class Anchor:
    """A head; `link` is the start of the event's hash. Its text is `stream@version:link`."""

    stream: str
    version: int
    link: str

    @classmethod
    def of(cls, stream: str, head: Head) -> Anchor | None:
        """The anchor of a stream's head, None while it has no event."""
        version, link = head
        return cls(stream, version, link[:_LINK_CHARS]) if version else None

    @classmethod
    def parse(cls, text: object) -> Anchor | None:
        """An anchor from its text, None for anything else."""
        found = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        return cls(found["stream"], int(found["version"]), found["link"]) if found else None

    def __str__(self) -> str:
        return f"{self.stream}@{self.version}:{self.link}"


def in_journal(state_dir: Path) -> set[Anchor]:
    """The anchors of all journal entries. Raises CannotRunError for a folder it cannot list."""
    entries, _ = journal.load_entries(state_dir)
    return set(parsed(entry.get("anchor") for entry in entries.values()))


def parsed(texts: Iterable[object]) -> Iterator[Anchor]:
    """The anchors among `texts`."""
    return filter(None, map(Anchor.parse, texts))


def lost(store: EventStore, anchors: Iterable[Anchor]) -> dict[Anchor, Problem]:
    """The fault of each anchor that does not hold and that no rebuild has given up.

    A stream is given up whole: a commit may know of a later head of it than the journal did.
    """
    given_up: set[str] = set()
    for event in store.scan(REBUILDS):
        payload: Any = event["payload"]
        if event["type"] == STORE_REBUILT and isinstance(payload, dict):
            given_up |= {anchor.stream for anchor in parsed(payload.get("lost") or ())}
    found: dict[Anchor, Problem] = {}
    for anchor in sorted(known for known in set(anchors) if known.stream not in given_up):
        for problem in store.check_anchor({anchor.stream: (anchor.version, anchor.link)}):
            found[anchor] = problem
    return found


def check_kept(store: EventStore, state_dir: Path) -> None:
    """Raise LostRowsError when the journal names events that the store does not hold.

    Called before anything is done: new events would hide the gap.
    """
    missing = lost(store, in_journal(state_dir))
    if not missing:
        return
    first, more = next(iter(missing.values())), len(missing) - 1
    others = f" (and {more} more)" if more else ""
    raise LostRowsError(
        f"{store.path} has lost what it once held: {first}{others}; put back a newer copy of it, "
        f"or {rebuild_hint(state_dir)}"
    )


def rebuild_hint(state_dir: Path, repo: Path | None = None) -> str:
    """The remedy for lost events; `repo` gives up those that only its commits name, too."""
    there = f" --repo {repo}" if repo else ""
    return f"rebuild it: {rebuild_command(state_dir)}{there}"
