"""Rebuilds a store from the journal, tracker.json and its readable events.

An unusable database is renamed, not deleted. Anchors that are given up are written into the new
store, so that they are reported only once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from state_store.api import StateAPI
from state_store.database import events
from state_store.database.integrity import ARCHIVE, Problem
from state_store.database.interface import Store
from state_store.database.schema import lock_path
from state_store.database.store import DamagedStoreError
from state_store.documents import journal
from state_store.documents.errors import CannotRunError
from state_store.place import has_begun, name_of, open_store
from state_store.sql.addresses import address_of
from state_store.tracker.file import read_tracker_file
from state_store.tracker.ingest import ingest_tracker_json
from state_store.values.lazy_dataclass import dataclass
from state_store.views.anchors import REBUILDS, STORE_REBUILT, Anchor, in_journal, lost
from state_store.views.archiving import adopt
from state_store.views.publications import import_publications

_SUFFIXES = ("", "-wal", "-shm", "-journal")
ACTOR = "rebuild"
_MOST_REASONS = 100


@dataclass(frozen=True, slots=True)
class Health:
    """The faults of a store: `damage` if it cannot be opened, `missing` if there is no database,
    `problems` inside, and the `lost` anchors."""

    damage: str = ""
    missing: str = ""
    problems: tuple[Problem, ...] = ()
    lost: Mapping[Anchor, Problem] | None = None

    @property
    def is_whole(self) -> bool:
        """True without faults."""
        return not (self.damage or self.missing or self.problems or self.lost)

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence for each fault."""
        unusable = filter(None, (self.damage, self.missing))
        anchors = [f"anchor {anchor}: {why.why}" for anchor, why in (self.lost or {}).items()]
        return (*unusable, *map(str, self.problems), *anchors)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild: the renamed file, if any, and the events from each source."""

    set_aside: Path | None
    journal_entries: int
    tracker_items: int
    given_up: tuple[Anchor, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form for programs and for the store."""
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
    """Find the faults of a store. Changes nothing."""
    if not has_begun(database):
        been_here = lock_path(database).exists() or any(True for _ in anchors)
        return Health(missing=f"{name_of(database)} is missing" if been_here else "")
    try:
        with open_store(database) as store:
            given_up = archives_given_up(store)
            found = (p for p in store.verify() if (p.kind, p.version) not in given_up)
            return Health(problems=tuple(found), lost=lost(store, anchors))
    except DamagedStoreError as error:
        return Health(damage=f"the database {database} is damaged: {error.why}")


def rebuild(
    database: Path, health: Health, tracker: Path | None, anchors: Iterable[Anchor]
) -> Rebuilt:
    """Make the store usable again. `health` is the result of `examine`.

    A store with only a lost end, wrong items or a lost archive is repaired in its file. Raises
    CannotRunError if a write fails. Raises InputError for an invalid tracker, before any change.
    """
    if tracker and tracker.exists():
        read_tracker_file(tracker)
    in_place = not (health.damage or health.missing)
    mendable = in_place and all(_is_mendable(problem) for problem in health.problems)
    if not mendable and address_of(database.parent) and has_begun(database):
        raise CannotRunError(f"{name_of(database)} has to be restored from a backup of its server")
    aside = None if mendable else _set_aside(database)
    unread = {problem.version for problem in health.problems if problem.kind == ARCHIVE}
    entries, _ = journal.load_entries(database.parent)
    whole = frozenset[str]()
    if not mendable:
        with open_store(database) as store:
            whole, unread = adopt(store)
    with StateAPI(database) as api:
        api.store.rebuild_items()
        gone = tuple(lost(api.store, {*anchors, *in_journal(database.parent)}))
        streams = {anchor.stream for anchor in gone}  # only these lack events in a repaired store
        if not mendable:
            streams |= {_stream(e) for e in entries.values()} - whole
        lacking = [e for e in entries.values() if _stream(e) in streams]
        for entry in sorted(lacking, key=lambda e: float(e["timestamp"])):
            api.append(_stream(entry), *_event(entry), actor=ACTOR)
        import_publications(api.store, database.parent, is_lost=True)
        items = ingest_tracker_json(api, tracker, ACTOR) if tracker and tracker.exists() else 0
        done = Rebuilt(aside, len(lacking), items, gone)
        why = list(health.sentences)[:_MOST_REASONS]
        told = {**done.to_json(), "why": why, "archives": sorted(unread)}
        api.append(REBUILDS, STORE_REBUILT, told, ACTOR)
    return done


def archives_given_up(store: Store) -> set[tuple[str, int]]:
    """The problems, by kind and number, of archives that a rebuild could not read."""
    told = (event["payload"] for event in store.scan(REBUILDS) if event["type"] == STORE_REBUILT)
    return {(ARCHIVE, number) for payload in told for number in payload.get("archives") or ()}


def _is_mendable(problem: Problem) -> bool:
    """Archive 0 is the table of archives, which is not repaired in place."""
    return problem.kind == "items" or (problem.kind == ARCHIVE and problem.version > 0)


def _set_aside(database: Path) -> Path | None:
    """Rename the database and its log files; None if there was none."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = database.with_name(f"{database.name}.damaged-{stamp}")
    found = None
    try:
        # Log and journal first, because the new database would read files left behind.
        for end in reversed(_SUFFIXES):
            path = database.with_name(database.name + end)
            if path.exists():
                found = path.rename(aside.with_name(aside.name + end))
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(f"{database} cannot be set aside: {why}; move it by hand") from error
    return found and aside


def _stream(entry: Mapping[str, Any]) -> str:
    return events.wave_stream(str(entry.get("waveId") or "unknown"))


def _event(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type and payload of the event for a journal entry."""
    slug, known = entry["slug"], {"at": entry["timestamp"], "source": "journal"}
    if entry.get("shipped") is True:
        return events.ITEM_SHIPPED, {"slug": slug, "commit": entry.get("commit"), **known}
    verdict = entry.get("verdict") or ("verified" if entry["verified"] else None)
    if verdict is None:
        step = {"number": entry.get("attempt"), "phase": entry["phase"]}
        return events.ATTEMPT_STARTED, {"slug": slug, **step, **known}
    judged = {"slug": slug, "verdict": verdict, "reason": entry.get("error")}
    return events.ITEM_SETTLED, {**judged, **known}
