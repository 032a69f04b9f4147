"""Anchors: earlier heads of streams, stored outside the database to detect loss.

A chain of links does not show a missing end. Journal entries and commit trailers contain the length
of a wave's stream at their time; a shorter stream has lost acknowledged events. A rebuild records
the anchors it could not restore, and they are not reported again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from state_store.database.errors import rebuild_command
from state_store.database.integrity import Head, Problem
from state_store.database.interface import Store
from state_store.documents.errors import CannotRunError
from state_store.documents.journal_facts import journal_facts
from state_store.place import name_of
from state_store.values.lazy_dataclass import dataclass

TRAILER = "State-Anchor"
REBUILDS = "rebuilds"
STORE_REBUILT = "store_rebuilt"
LINK_CHARS = 16
_SHAPE = re.compile(r"(?P<stream>\S+)@(?P<version>[1-9][0-9]{0,17}):(?P<link>[0-9a-f]{16})")


class LostRowsError(CannotRunError):
    """The store is consistent, but has lost acknowledged events."""


@dataclass(frozen=True, slots=True, order=True)
class Anchor:
    """A head of a stream. `link` is a prefix of the event's hash. Its text is
    `stream@version:link`."""

    stream: str
    version: int
    link: str

    @classmethod
    def of(cls, stream: str, head: Head) -> Anchor | None:
        """The anchor of a stream's head; None without events."""
        version, link = head
        return cls(stream, version, link[:LINK_CHARS]) if version else None

    @classmethod
    def parse(cls, text: object) -> Anchor | None:
        """Parse the text of an anchor; None for anything else."""
        found = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        return cls(found["stream"], int(found["version"]), found["link"]) if found else None

    def __str__(self) -> str:
        return f"{self.stream}@{self.version}:{self.link}"


def in_journal(state_dir: Path, *, only_replaced: bool = False) -> set[Anchor]:
    """The anchors of all journal entries, as `journal_facts` gives them. Raises CannotRunError if
    the folder cannot be listed."""
    entries = journal_facts(state_dir, only_replaced=only_replaced).latest.values()
    return set(parsed(entry.get("anchor") for entry in entries))


def parsed(texts: Iterable[object]) -> Iterator[Anchor]:
    """The anchors among `texts`."""
    return filter(None, map(Anchor.parse, texts))


def lost(store: Store, anchors: Iterable[Anchor]) -> dict[Anchor, Problem]:
    """The fault of each failing anchor that no rebuild has given up.

    A rebuild gives up whole streams, because a commit may contain a later head than the journal.
    """
    given_up: set[str] = set()
    for event in store.scan(REBUILDS):
        payload: Any = event["payload"]
        if event["type"] == STORE_REBUILT and isinstance(payload, dict):
            given_up |= {anchor.stream for anchor in parsed(payload.get("lost") or ())}
    kept = ((a.stream, a.version, a.link) for a in set(anchors) if a.stream not in given_up)
    heads = sorted(kept)  # of tuples, in a tenth of the time
    there = store.links_of([head[:2] for head in heads])
    found: dict[Anchor, Problem] = {}
    for stream, version, link in heads:
        if not there.get((stream, version), "").startswith(link):
            for problem in store.check_anchor({stream: (version, link)}):
                found[Anchor(stream, version, link)] = problem
    return found


def check_kept(store: Store, state_dir: Path) -> None:
    """Raise LostRowsError if the journal names events that the store does not contain.

    Called before any other work, because new events would hide the gap.
    """
    missing = lost(store, in_journal(state_dir, only_replaced=True))
    if not missing:
        return
    first, more = next(iter(missing.values())), len(missing) - 1
    others = f" (and {more} more)" if more else ""
    raise LostRowsError(
        f"{name_of(store.path)} has lost recorded events: {first}{others}; restore a newer copy "
        f"of it, or {rebuild_hint(state_dir)}"
    )


def rebuild_hint(state_dir: Path, repo: Path | None = None) -> str:
    """The remedy for lost events. `repo` also gives up events that only its commits name."""
    there = f" --repo {repo}" if repo else ""
    return f"rebuild it: {rebuild_command(state_dir)}{there}"
