"""The backlog of a cycle: tracker file and store are kept in sync, and items are claimed.

Users edit the file, machines write the store; a sync brings each side's changes to the other.
Items are claimed before they are built and stay claimed until the tracker has their results, so no
other scheduler of this state folder takes them in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from driver.backlog.retry_policy import opened
from driver.backlog.selection import CONFLICT, LEASED_ELSEWHERE, Selection, Skipped
from driver.backlog.tracker import Edit, withdrawn
from driver.domain.item_key import resource_of
from driver.run_state.leases import LeasedElsewhereError, LeaseManager
from driver.run_state.run_registry import clear_up
from driver.run_state.state_folder import prepare_state_dir
from driver.scheduler.context import Cycle, place_of
from state_store.api import StateAPI
from state_store.database import events
from state_store.database.interface import StoreTransaction
from state_store.database.projections import tracker_document
from state_store.documents.errors import TidegateError
from state_store.documents.files import write_json_atomic
from state_store.documents.item_id import id_of
from state_store.documents.item_status import CLAIMED, TODO, is_open
from state_store.documents.journal_facts import keep_facts
from state_store.place import has_begun
from state_store.tracker.base import digest_of, load_seen
from state_store.tracker.file import real_path
from state_store.tracker.ingest import sync_tracker
from state_store.values.lazy_dataclass import dataclass, replace
from state_store.views.anchors import check_kept
from state_store.write_api import STATE_DB_FILENAME

ACTOR = "scheduler"
TRACKER = "tracker.json"


def resource(item: Mapping[str, Any], repo: Path | None) -> str:
    """The name of an item's lease; `repo` is its repository if it names none itself."""
    return resource_of(place_of(item, repo), item["slug"])


@dataclass(frozen=True)
class Backlog:
    """A tracker and its store. `leases` are this cycle's."""

    api: StateAPI
    leases: LeaseManager
    tracker: Path

    @classmethod
    @contextmanager
    def opened(cls, cycle: Cycle) -> Iterator[Backlog]:
        """Open the store and clear up after dead runs; leases are released at the end."""
        with ExitStack() as stack:
            api = stack.enter_context(StateAPI(cycle.state_dir / STATE_DB_FILENAME))
            check_kept(api.store, cycle.state_dir)
            keep_facts(cycle.state_dir)
            for line in clear_up(cycle.state_dir, cycle.environ):
                cycle.progress.say(line)
            leases = stack.enter_context(LeaseManager(api.store, cycle.settings.limits.lease_s))
            yield cls(api, leases, cycle.tracker)

    def sync(self) -> dict[str, Skipped]:
        """Merge file and store; returns the items, by id, on which the two contradict each other.

        Such an item must not be built before the user says which side counts. Raises InputError
        for a tracker that cannot be read.
        """
        conflicts = sync_tracker(self.api, self.tracker).conflicts
        return {c.item_id: Skipped(c.item_id, CONFLICT, detail=str(c)) for c in conflicts}

    @contextmanager
    def claimed(self, resources: Mapping[str, str]) -> Iterator[None]:
        """Mark items, whose leases this cycle holds, as claimed.

        Writing their results gives them back; the end of the block does so only after an error.
        """
        self.write({name: (leased, _claimed) for name, leased in resources.items()})
        try:
            yield
        except BaseException:
            with suppress(TidegateError):
                self.write({name: (leased, opened) for name, leased in resources.items()})
            raise

    def write(self, edits: Mapping[str, tuple[str, Edit]]) -> tuple[str, ...]:
        """Apply edits, each (leased resource, edit), to items by id; returns the unknown ids.

        Raises LeasedElsewhereError for an item whose lease was lost, once all others are written,
        and TidegateError if the file cannot be read or written; the store then has the changes, and
        the next sync writes them out.
        """
        self.sync()
        lost: list[LeasedElsewhereError] = []
        try:
            unknown = self._write(edits)
        except LeasedElsewhereError:  # the other items' changes are written one by one
            unknown = []
            for name, edit in edits.items():
                try:
                    unknown += self._write({name: edit})
                except LeasedElsewhereError as error:
                    lost.append(error)
        self.sync()
        if lost:
            raise lost[0]
        return tuple(unknown)

    def withdrawn(self, names: Collection[str]) -> Mapping[str, str]:
        """`tracker.withdrawn` of the tracker as it is now. A file that is unchanged since the last
        full sync has the items of the store, which are read in no time."""
        store, path = self.api.store, real_path(self.tracker)
        seen = load_seen(store, path)
        if seen is not None and seen.digest == digest_of(path):
            items = map(store.item, names)
            if all(item is not None and is_open(item) for item in items):
                return {}
        return withdrawn(self.tracker, names)

    def _write(self, edits: Mapping[str, tuple[str, Edit]]) -> list[str]:
        """All of the edits in one commit."""
        unknown: list[str] = []

        def job(transaction: StoreTransaction) -> None:
            unknown.clear()
            for item_id, (_, edit) in edits.items():
                item = transaction.item(item_id)
                if item is None:
                    unknown.append(item_id)
                elif fields := dict(edit(item)):
                    changed = {**fields, "id": item_id}
                    transaction.append(events.TRACKER, events.ITEM_UPDATED, changed, ACTOR)

        self.leases.effect([leased for leased, _ in edits.values()], job)
        return unknown


def _claimed(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": CLAIMED} if item.get("status") == TODO else {}


def sync_with_others(cycle: Cycle) -> None:
    """Merge the tracker with a store that other machines share, before it is read: what they did
    counts, and a machine without the file gets one. Makes no tables."""
    database = cycle.state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        return
    prepare_state_dir(cycle.state_dir, cycle.settings.environ)
    with StateAPI(database) as api:
        sync_tracker(api, cycle.tracker)


def is_only_in_store(cycle: Cycle) -> bool:
    """True if the default tracker file is missing, and the store has items."""
    database = cycle.state_dir / STATE_DB_FILENAME
    is_default = cycle.tracker.parent.resolve() == cycle.state_dir.resolve()
    if not is_default or cycle.tracker.exists() or not has_begun(database):
        return False
    with StateAPI(database) as api:
        return api.store.head(events.TRACKER)[0] > 0


def with_items_of_store(cycle: Cycle, until_the_end: ExitStack) -> Cycle:
    """The cycle with a file of the store's items, which is there only for a look."""
    folder = Path(until_the_end.enter_context(TemporaryDirectory(prefix="tidegate-")))
    with StateAPI(cycle.state_dir / STATE_DB_FILENAME) as api:
        write_json_atomic(folder / TRACKER, tracker_document(api.store.items()))
    return replace(cycle, tracker=folder / TRACKER)


def refused_claims(cycle: Cycle, selection: Selection, backlog: Backlog) -> dict[str, Skipped]:
    """Claim the selected items; returns those, by id, that another run holds."""
    refused = {}
    backlog.leases.take_all([resource(item, cycle.repo) for item in selection.selected])
    for item in selection.selected:
        try:
            backlog.leases.take(resource(item, cycle.repo))
        except LeasedElsewhereError as held:
            name = str(id_of(item))
            refused[name] = Skipped(name, LEASED_ELSEWHERE, detail=str(held))
    return refused
