"""The backlog as the tools change it: the tracker file, or the store where there is no file.

Where many machines share the store, a change of the file goes to the store at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driver.run_state.state_folder import prepare_state_dir
from state_store.api import StateAPI
from state_store.database import events as names
from state_store.database.store import ConcurrencyConflict
from state_store.documents.errors import TidegateError
from state_store.documents.item_id import id_of
from state_store.place import has_begun, name_of
from state_store.sql.addresses import address_of
from state_store.tracker.file import read_tracker_file
from state_store.tracker.ingest import sync_tracker
from state_store.values.lazy_dataclass import dataclass
from state_store.write_api import STATE_DB_FILENAME
from tools.importers.merge import Item, Plan, write
from tools.settings.load import process_environment, resolve_store

Decide = Callable[[Sequence[Item]], Plan]


@dataclass(frozen=True, slots=True)
class BacklogPlace:
    """`tracker` is the file; with `in_store` there is none, and the store has the items."""

    state_dir: Path
    tracker: Path
    in_store: bool

    @classmethod
    def of(cls, state_dir: str | None, tracker: str | None) -> BacklogPlace:
        """The place by the flags and the settings. A file that is named is the place, even if it
        does not exist yet."""
        folder = resolve_store(state_dir)
        file = Path(tracker) if tracker else folder / "tracker.json"
        in_store = not tracker and not file.exists() and _has_items(folder)
        return cls(folder, file, in_store)

    @property
    def name(self) -> str:
        """The place for people."""
        return name_of(self._database) if self.in_store else str(self.tracker)

    @property
    def _database(self) -> Path:
        return self.state_dir / STATE_DB_FILENAME

    def items(self) -> Sequence[Item]:
        """The items as they are now."""
        if not self.in_store:
            return read_tracker_file(self.tracker).entries if self.tracker.exists() else ()
        if not has_begun(self._database):
            return ()
        with StateAPI(self._database) as api:
            return api.store.items()

    def change(self, decide: Decide, actor: str) -> Plan:
        """Apply the plan that `decide` makes of the items. Raises what it raises, and then nothing
        is changed."""
        if not self.in_store and self.tracker.parent.resolve() != self.state_dir.resolve():
            return write(self.tracker, decide)
        prepare_state_dir(self.state_dir, process_environment())
        if not self.in_store:
            made = write(self.tracker, decide)
            if address_of(self.state_dir) is not None:
                self._tell_others(actor)
            return made
        with StateAPI(self._database) as api:
            while True:
                version, _ = api.store.head(names.TRACKER)
                made = decide(api.store.items())
                drafts = _drafts(made)
                try:
                    if drafts:
                        api.store.append_many(names.TRACKER, drafts, actor, version)
                    return made
                except ConcurrencyConflict:  # another machine has changed an item meanwhile
                    continue

    def _tell_others(self, actor: str) -> None:
        """Bring the file's change to the store. A server that is away loses nothing: the next run
        does it."""
        try:
            with StateAPI(self._database) as api:
                sync_tracker(api, self.tracker, actor)
        except TidegateError as error:
            sys.stderr.write(f"WARNING: only {self.tracker} has the change until a run: {error}\n")


def _has_items(state_dir: Path) -> bool:
    """True if the store is where items belong: many machines share it, or it has some."""
    if address_of(state_dir) is not None:
        return True
    database = state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        return False
    with StateAPI(database) as api:
        return api.store.head(names.TRACKER)[0] > 0


def _drafts(made: Plan) -> list[tuple[str, Any]]:
    """The events of a plan."""
    drafts: list[tuple[str, Any]] = [
        (names.ITEM_CREATED, {**item, "id": id_of(item)}) for item in made.added
    ]
    for name, change in made.changes.items():
        if change.set:
            drafts.append((names.ITEM_UPDATED, {**change.set, "id": name}))
        if change.removed:
            removed = {"id": name, "fields": list(change.removed)}
            drafts.append((names.ITEM_FIELDS_REMOVED, removed))
    return drafts
