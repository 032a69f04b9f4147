"""Shipped items until they are merged: what is kept of a shipment, and what becomes of it.

Pure. An item is `in_progress` from its ship on; what its commits' trailers say on the target branch
and whether its branch is still there are facts that `landed` looks up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from driver.domain.commit_message import ITEM_ID, ITEM_TASK, WAVE_ID
from driver.terminal.safe_text import safe_line, with_note
from state_store.documents.item_status import DONE, IN_PROGRESS, TODO, is_open

Item = Mapping[str, Any]

KEY = "shipped"
_COMMITS = frozenset({"commit", "onto", "merged"})
_HASH = re.compile("[0-9A-Za-z]*")
_NOTED = re.compile(r"\[wave ([^\s\]]+)\]")


def note_of(wave_id: str) -> str:
    """What an item's notes say of a wave that shipped it."""
    return f"[wave {wave_id[:8]}]"


@dataclass(frozen=True, slots=True)
class Shipped:
    """What is known of an item's last shipment; "" is unknown. `wave` may be the first characters
    of the wave's id only, `target` is the branch that the wave started from, `onto` the commit it
    was at, `merged` the commit of the target that has the work."""

    wave: str = ""
    commit: str = ""
    branch: str = ""
    target: str = ""
    onto: str = ""
    merged: str = ""

    @classmethod
    def of(cls, item: Item) -> Shipped | None:
        """As the tracker has it, else as far as the notes tell; None for what never shipped."""
        kept = item.get(KEY)
        if isinstance(kept, dict):
            known = {key: kept.get(key) for key in cls.__dataclass_fields__}
            return cls(
                **{key: v for key, v in known.items() if isinstance(v, str) and _can_be(key, v)}
            )
        notes = item.get("notes")
        waves = _NOTED.findall(notes) if isinstance(notes, str) else []
        return cls(wave=waves[-1]) if waves else None

    def to_json(self) -> dict[str, str]:
        """As the tracker keeps it: what is known."""
        return {key: value for key, value in asdict(self).items() if value}


def _can_be(key: str, value: str) -> bool:
    """Whether it still is what it can be: git, which is asked about a commit, knows options too."""
    return key not in _COMMITS or bool(_HASH.fullmatch(value))


@dataclass(frozen=True, slots=True)
class Merged:
    """What a history has of shipments: by item id, as messages spell it, (wave, commit) each."""

    of_item: Mapping[str, Sequence[tuple[str, str]]]

    @classmethod
    def of(cls, sightings: Iterable[PublishedItem]) -> Merged:
        """Of shipments that were seen in the history."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in sightings:
            found.setdefault(one.item, []).append((one.wave, one.commit))
        return cls(found)

    def find(self, item_id: str, shipped: Shipped | None) -> str:
        """The commit that has an item's shipment, or any of its without `shipped`; else ""."""
        there = self.of_item.get(safe_line(item_id).strip(), ())
        mine = (c for wave, c in there if shipped is None or _is(wave, c, shipped))
        return next(mine, "")


def _is(wave: str, commit: str, shipped: Shipped) -> bool:
    known = safe_line(shipped.wave)
    if shipped.commit:  # then all of the wave's name is known: wave-1 is not wave-10
        return commit == shipped.commit or wave == known
    return bool(known) and wave.startswith(known)


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """A shipment as a commit tells of it; `task` is `ship_names.task_of`, "" where it is not told,
    `branch` where the commit was found."""

    wave: str
    item: str
    task: str = ""
    commit: str = ""
    branch: str = ""


def published_items_in(message: str, commit: str = "", branch: str = "") -> list[PublishedItem]:
    """Every shipment that a commit message tells of, wherever in it: who squashes commits puts
    their messages one below the other, perhaps indented."""
    found, wave = list[PublishedItem](), ""
    for line in message.splitlines():
        name, _, value = line.strip().partition(": ")
        if name == WAVE_ID:
            wave = value
        elif name == ITEM_ID and wave:
            found.append(PublishedItem(wave, value, "", commit, branch))
        elif name == ITEM_TASK and found:
            found[-1] = replace(found[-1], task=value)
    return found


def by_task(sightings: Iterable[PublishedItem]) -> dict[tuple[str, str], list[PublishedItem]]:
    """The shipments by item and task. One that does not tell its task may be of an item that had
    the id before, and is left out."""
    found: dict[tuple[str, str], list[PublishedItem]] = {}
    for one in sightings:
        if one.task:
            found.setdefault((one.item, one.task), []).append(one)
    return found


def is_noted(item: Item, wave: str) -> bool:
    """Whether the tracker knows that this wave shipped the item: then a person wants it again."""
    notes = item.get("notes")
    mine = Shipped.of(item)
    return note_of(wave) in (notes if isinstance(notes, str) else "") or (
        mine is not None and mine.wave == wave
    )


def taken_over(item: Item, one: PublishedItem, target: str, merged: str) -> dict[str, Any]:
    """The fields that say of an open item that another state folder's wave has shipped it: it is on
    `one.branch`, or in the target as `merged`."""
    if not is_open(item):
        return {}
    kept = Shipped(one.wave, one.commit, one.branch, target, merged=merged)
    notes = with_note(item.get("notes"), note_of(one.wave))
    status = DONE if merged else IN_PROGRESS
    return {"status": status, "notes": notes, KEY: kept.to_json()}


class Fate(StrEnum):
    """What has become of a shipped item."""

    FOUND = "found"
    MERGED = "merged"
    WAITS = "waits"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Facts:
    """`merged` is the commit of the target that has the work, "" for none; `is_kept` whether the
    branch, or another with its commit, is there; `whole` whether all of the history can be seen."""

    merged: str
    is_kept: bool
    whole: bool = True


def fate(shipped: Shipped, facts: Facts) -> Fate:
    """What has become of an item. Only who can look everywhere may say that work is gone."""
    if facts.merged:
        return Fate.MERGED
    if facts.is_kept or not shipped.branch:
        return Fate.WAITS
    return Fate.DROPPED if facts.whole else Fate.UNKNOWN


def is_shipped(item: Item) -> bool:
    """Whether an item is on its way to the target. One that was there once, and is in progress
    again, is so by a person's hand."""
    shipped = Shipped.of(item) if item.get("status") == IN_PROGRESS else None
    return shipped is not None and not shipped.merged


def settled(item: Item, shipped: Shipped, end: Fate, merged: str = "") -> dict[str, Any]:
    """The fields to set in an item as it is now; none where somebody has moved it on meanwhile."""
    if item.get("status") != IN_PROGRESS or Shipped.of(item) != shipped:
        return {}
    if end is Fate.MERGED:
        kept = Shipped(**{**asdict(shipped), "merged": merged})
        return {"status": DONE, KEY: kept.to_json()}
    if end is Fate.DROPPED:
        note = (
            f"[wave {shipped.wave[:8]}: {shipped.branch} was deleted and not merged; to do again]"
        )
        return {"status": TODO, KEY: None, "notes": with_note(item.get("notes"), note)}
    return {}
