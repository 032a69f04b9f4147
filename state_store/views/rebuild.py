"""Mend a store from what lies beside it: the journal, tracker.json, and what can be read of it.

Nothing is thrown away: a database that cannot be used is set aside under another name. What is
given up for lost is written into the mended store, so it is told once and not for ever.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state_store.api import StateAPI
from state_store.database import events
from state_store.database.integrity import Problem
from state_store.database.schema import lock_path
from state_store.database.store import DamagedStoreError, EventStore
from state_store.documents import journal
from state_store.documents.errors import CannotRunError
from state_store.tracker.file import read_tracker_file
from state_store.tracker.ingest import ingest_tracker_json
from state_store.views.anchors import REBUILDS, STORE_REBUILT, Anchor, in_journal, lost

_BESIDE = ("", "-wal", "-shm", "-journal")
ACTOR = "rebuild"
_MAX_TOLD = 100


@dataclass(frozen=True, slots=True)
class Health:
    """What is wrong with a store: `damage` when it cannot be opened, `missing` when there is none
    where one has been, `problems` within it, and the anchors that do not hold."""

    damage: str = ""
    missing: str = ""
    problems: tuple[Problem, ...] = ()
    lost: Mapping[Anchor, Problem] | None = None

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong."""
        return not (self.damage or self.missing or self.problems or self.lost)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is wrong, a sentence each."""
        told = list(filter(None, (self.damage, self.missing)))
        anchors = [f"anchor {anchor}: {why.why}" for anchor, why in (self.lost or {}).items()]
        return (*told, *map(str, self.problems), *anchors)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done: the file set aside, if any, and how much came from where."""

    set_aside: Path | None
    journal_entries: int
    tracker_items: int
    given_up: tuple[Anchor, ...]

    def to_json(self) -> dict[str, Any]:
        """As programs get it, and as the store keeps it."""
        return {
            "set_aside": self.set_aside.name if self.set_aside else None,
            "lost": [str(anchor) for anchor in self.given_up],
            "journal_entries": self.journal_entries,
            "tracker_items": self.tracker_items,
        }

    def __str__(self) -> str:
        aside = f"set aside as {self.set_aside}" if self.set_aside else "kept"
        return (
            f"the database was {aside}; {self.tracker_items} events came from the tracker and "
            f"{self.journal_entries} from the journal, {len(self.given_up)} anchors were given up"
        )


def examine(database: Path, anchors: Iterable[Anchor]) -> Health:
    """Look at everything and change nothing; a database that is not there is not made."""
    if not database.exists():
        been_here = lock_path(database).exists() or any(True for _ in anchors)
        return Health(missing=f"{database} is missing" if been_here else "")
    try:
        with EventStore(database) as store:
            return Health(problems=store.verify(), lost=lost(store, anchors))
    except DamagedStoreError as error:
        return Health(damage=f"the database {database} is damaged: {error.why}")


def rebuild(
    database: Path, health: Health, tracker: Path | None, anchors: Iterable[Anchor]
) -> Rebuilt:
    """Make the store usable again; `health` is what `examine` said.

    A store that is whole but for its end, or for items kept beside their events, is mended where
    it is. Raises CannotRunError when the disk says no, InputError for a tracker that is none; the
    tracker is read first, so nothing has been set aside then.
    """
    if tracker and tracker.exists():
        read_tracker_file(tracker)
    mendable = not (health.damage or health.missing) and _only_items(health.problems)
    aside = None if mendable else _set_aside(database)
    entries, _ = journal.load_entries(database.parent)
    with StateAPI(database) as api:
        api.store.rebuild_items()
        gone = tuple(lost(api.store, {*anchors, *in_journal(database.parent)}))
        told = _tell(api, _worth_telling(entries.values(), gone, all_of_them=not mendable))
        items = ingest_tracker_json(api, tracker, ACTOR) if tracker and tracker.exists() else 0
        done = Rebuilt(aside, told, items, gone)
        why = list(health.sentences)[:_MAX_TOLD]
        api.append(REBUILDS, STORE_REBUILT, {**done.to_json(), "why": why}, ACTOR)
    return done


def _only_items(problems: Sequence[Problem]) -> bool:
    return all(problem.kind == "items" for problem in problems)


def _set_aside(database: Path) -> Path | None:
    """Rename the database and what belongs to it; None when there was nothing."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = database.with_name(f"{database.name}.damaged-{stamp}")
    found = None
    try:
        # What belongs to it first: left behind, it would be taken for the new one's.
        for end in reversed(_BESIDE):
            path = database.with_name(database.name + end)
            if path.exists():
                found = path.rename(aside.with_name(aside.name + end))
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(f"{database} cannot be set aside: {why}; move it by hand") from error
    return found and aside


def _worth_telling(
    entries: Iterable[Mapping[str, Any]], gone: Iterable[Anchor], *, all_of_them: bool
) -> list[Mapping[str, Any]]:
    """The entries whose events the store does not hold."""
    streams = {anchor.stream for anchor in gone}
    return [e for e in entries if all_of_them or _stream(e) in streams]


def _tell(api: StateAPI, entries: Iterable[Mapping[str, Any]]) -> int:
    """One event for each entry; how many there were."""
    told = 0
    for entry in sorted(entries, key=lambda e: float(e["timestamp"])):
        api.append(_stream(entry), *_event(entry), actor=ACTOR)
        told += 1
    return told


def _stream(entry: Mapping[str, Any]) -> str:
    return events.wave_stream(str(entry.get("waveId") or "unknown"))


def _event(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What an entry says, as the event that says the same."""
    slug, known = entry["slug"], {"at": entry["timestamp"], "source": "journal"}
    if entry.get("shipped") is True:
        return events.ITEM_SHIPPED, {"slug": slug, "commit": entry.get("commit"), **known}
    verdict = entry.get("verdict") or ("verified" if entry["verified"] else None)
    if verdict is None:
        step = {"number": entry.get("attempt"), "phase": entry["phase"]}
        return events.ATTEMPT_STARTED, {"slug": slug, **step, **known}
    judged = {"slug": slug, "verdict": verdict, "reason": entry.get("error")}
    return events.ITEM_SETTLED, {**judged, **known}
