"""Publication status of shipped items: waiting, merged or dropped. Pure. A shipped item is
`in_progress`. `publishing.merged` finds its commits on the target branch, by their trailers, and
checks that its own branch still exists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from driver.domain.commit_message import ITEM_ID, ITEM_TASK, WAVE_ID, trailers_in
from driver.terminal.safe_text import safe_line, with_note
from state_store.documents.item_status import DONE, IN_PROGRESS, TODO, is_open
from state_store.values.lazy_dataclass import asdict, dataclass, replace

Item = Mapping[str, Any]

KEY = "shipped"
_COMMITS = frozenset({"commit", "onto", "merged"})
_HASH = re.compile("[0-9A-Za-z]*")
_NOTED = re.compile(r"\[wave ([^\s\]]+)\]")


def note_of(wave_id: str) -> str:
    """The note in an item that names the wave that shipped it."""
    return f"[wave {wave_id[:8]}]"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The last shipment of an item; "" for an unknown value. `wave` may have only the first
    characters of the wave's id. `target` is the branch that the wave started from, `onto` its
    commit at the start. `merged` is the commit of the target with the work."""

    wave: str = ""
    commit: str = ""
    branch: str = ""
    target: str = ""
    onto: str = ""
    merged: str = ""

    @classmethod
    def of(cls, item: Item) -> Shipped | None:
        """The shipment in the tracker, else from the notes; None if the item never shipped."""
        kept = item.get(KEY)
        if isinstance(kept, dict):
            texts = {k: v for k in cls.__dataclass_fields__ if isinstance(v := kept.get(k), str)}
            # Commits are passed to git and must not look like an option.
            sound = {k: v for k, v in texts.items() if k not in _COMMITS or _HASH.fullmatch(v)}
            return cls(**sound)
        notes = item.get("notes")
        waves = _NOTED.findall(notes) if isinstance(notes, str) else []
        return cls(wave=waves[-1]) if waves else None

    def to_json(self) -> dict[str, str]:
        """The tracker's JSON form: the known values only."""
        return {key: value for key, value in asdict(self).items() if value}

    def is_in(self, wave: str, commit: str) -> bool:
        """True if a commit of `wave` has this shipment."""
        known = safe_line(self.wave)
        if self.commit:  # the id is whole: wave-1 is not wave-10
            return commit == self.commit or wave == known
        return bool(known) and wave.startswith(known)


@dataclass(frozen=True, slots=True)
class Merged:
    """Shipments in a history: (wave, commit) pairs by item id in the spelling of the messages."""

    of_item: Mapping[str, Sequence[tuple[str, str]]]

    @classmethod
    def of(cls, published: Iterable[PublishedItem]) -> Merged:
        """Groups published items that were found in the history."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in published:
            found.setdefault(one.item, []).append((one.wave, one.commit))
        return cls(found)

    def find(self, item_id: str, shipped: Shipped | None) -> str:
        """The commit with this shipment of an item, or any of its shipments without `shipped`; ""
        for none."""
        there = self.of_item.get(safe_line(item_id).strip(), ())
        return next((c for wave, c in there if shipped is None or shipped.is_in(wave, c)), "")


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """An item's shipment, read from the trailers of a commit. `task` is `commit_message.task_of`,
    "" if unknown. `branch` is the branch of the commit."""

    wave: str
    item: str
    task: str = ""
    commit: str = ""
    branch: str = ""


def published_items_in(message: str, commit: str = "", branch: str = "") -> list[PublishedItem]:
    """Every shipment in a commit message. A squashed commit holds several messages, perhaps
    indented."""
    found, wave = list[PublishedItem](), ""
    for name, value in trailers_in(message):
        if name == WAVE_ID:
            wave = value
        elif name == ITEM_ID and wave:
            found.append(PublishedItem(wave, value, "", commit, branch))
        elif name == ITEM_TASK and found:
            found[-1] = replace(found[-1], task=value)
    return found


def by_task(published: Iterable[PublishedItem]) -> dict[tuple[str, str], list[PublishedItem]]:
    """The shipments by item and task, without shipments of unknown task: an older item may have had
    the same id."""
    found: dict[tuple[str, str], list[PublishedItem]] = {}
    for one in published:
        if one.task:
            found.setdefault((one.item, one.task), []).append(one)
    return found


def is_noted(item: Item, wave: str) -> bool:
    """True if the tracker already names this wave for the item. If such an item is open, the user
    wants it done again."""
    notes = item.get("notes")
    mine = Shipped.of(item)
    return note_of(wave) in (notes if isinstance(notes, str) else "") or (
        mine is not None and mine.wave == wave
    )


def adopted_fields(item: Item, one: PublishedItem, target: str, merged: str) -> dict[str, Any]:
    """The new fields of an open item that a wave of another state folder has shipped. The work is
    on `one.branch`, or in the target as `merged`."""
    if not is_open(item):
        return {}
    kept = Shipped(one.wave, one.commit, one.branch, target, merged=merged)
    notes = with_note(item.get("notes"), note_of(one.wave))
    status = DONE if merged else IN_PROGRESS
    return {"status": status, "notes": notes, KEY: kept.to_json()}


class PublicationStatus(StrEnum):
    """The status of a shipped item."""

    FOUND = "found"
    MERGED = "merged"
    WAITS = "waits"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


def status_of(shipped: Shipped, merged: str, *, is_kept: bool, whole: bool) -> PublicationStatus:
    """The status of a shipped item. `merged` is the commit of the target with the work, "" for
    none. `is_kept` is true if its branch, or another branch with its commit, exists. The status is
    never DROPPED without a `whole` view of the history."""
    if merged:
        return PublicationStatus.MERGED
    if is_kept or not shipped.branch:
        return PublicationStatus.WAITS
    return PublicationStatus.DROPPED if whole else PublicationStatus.UNKNOWN


def is_shipped(item: Item) -> bool:
    """True while an item waits for its merge. If a merged item is in progress, the user set it."""
    shipped = Shipped.of(item) if item.get("status") == IN_PROGRESS else None
    return shipped is not None and not shipped.merged


def settled_fields(
    item: Item, shipped: Shipped, end: PublicationStatus, merged: str = ""
) -> dict[str, Any]:
    """The fields to set in the tracker's item; none if its status is no longer `in_progress`."""
    if item.get("status") != IN_PROGRESS or Shipped.of(item) != shipped:
        return {}
    if end is PublicationStatus.MERGED:
        kept = Shipped(**{**asdict(shipped), "merged": merged})
        return {"status": DONE, KEY: kept.to_json()}
    if end is PublicationStatus.DROPPED:
        note = (
            f"[wave {shipped.wave[:8]}: {shipped.branch} was deleted and not merged; to do again]"
        )
        return {"status": TODO, KEY: None, "notes": with_note(item.get("notes"), note)}
    return {}
