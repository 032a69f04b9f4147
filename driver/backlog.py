"""The backlog while a cycle works on it: tracker file and store kept alike, items claimed.

People edit the file, machines write the store; a sync brings each side's changes to the other.
Items are claimed before they are built and stay claimed until the tracker says what became of
them, so no other scheduler of this state folder takes them in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.leasing import LeasedElsewhereError, Leases
from driver.progress import Progress
from driver.runs import clear_up
from driver.subject import resource_of
from driver.tracker import Edit
from state_store import events
from state_store.api import StateAPI
from state_store.ingest import sync_tracker
from state_store.instance import get_instance_id
from state_store.merge import MergeConflict

DATABASE = "tracker_events.db"


def place_of(item: Mapping[str, Any], repo: Path | None) -> str | None:
    """The repository an item is built in, as its lease names it; `repo` where it names none."""
    place = Path(item["repo"]) if item.get("repo") else repo
    return str(place.resolve()) if place else None


@dataclass(frozen=True)
class Backlog:
    """A tracker and its store. `leases` are this cycle's."""

    api: StateAPI
    leases: Leases
    tracker: Path

    @classmethod
    @contextmanager
    def opened(
        cls, state_dir: Path, tracker: Path, environ: Mapping[str, str], progress: Progress
    ) -> Iterator[Backlog]:
        """Open the store and clear up after the dead, who would keep their items else; leases
        taken meanwhile are given back at the end."""
        with ExitStack() as stack:
            api = stack.enter_context(StateAPI(state_dir / DATABASE))
            for line in clear_up(state_dir, api.store, environ):
                progress.say(line)
            leases = stack.enter_context(Leases(api.store, get_instance_id()))
            yield cls(api, leases, tracker)

    def sync(self) -> dict[str, MergeConflict]:
        """Bring file and store together; conflicts by item id, whose items must not be worked on.

        Raises InputError for a tracker that cannot be read.
        """
        report = sync_tracker(self.api, self.tracker)
        return {conflict.item_id: conflict for conflict in report.conflicts}

    def claim(self, place: str | None, slug: str) -> str:
        """Hold an item from now on; "" or the sentence that says who has it."""
        try:
            self.leases.take(resource_of(place, slug))
        except LeasedElsewhereError as held:
            return str(held)
        return ""

    def write(self, edits: Mapping[str, tuple[str | None, str, Edit]]) -> tuple[str, ...]:
        """Change items, by id, as the edits say; each is (place, slug, edit).

        Returns the ids that are not there. Raises LeasedElsewhereError for an item that was lost,
        and TidegateError when the file cannot be read or written; the store then has the changes,
        and the next sync writes them out.
        """
        unknown: list[str] = []
        for item_id, (place, slug, edit) in edits.items():
            with self.leases.effect(resource_of(place, slug)) as transaction:
                item = transaction.item(item_id)
                if item is None:
                    unknown.append(item_id)
                    continue
                fields: dict[str, Any] = {"id": item_id, **edit(item)}
                transaction.append(events.TRACKER, events.ITEM_UPDATED, fields, "scheduler")
        self.sync()
        return tuple(unknown)
