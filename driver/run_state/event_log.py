"""The events of one wave in its store, each written only while the leases of its items hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from driver.domain.item_key import ItemKey
from driver.run_state.leases import LeaseManager
from driver.run_state.steps import Step
from state_store.api import StateAPI
from state_store.database import events
from state_store.database.interface import Change, Note, Store, StoreTransaction
from state_store.database.publications import PROPOSED, Publication
from state_store.views.anchors import Anchor


class EventLog:
    """The stream of a wave. Anchors may name a store that `is_kept` beyond the wave."""

    def __init__(self, api: StateAPI, leases: LeaseManager, wave_id: str, *, is_kept: bool) -> None:
        self.leases = leases
        self._api = api
        self._wave_id = wave_id
        self._stream = events.wave_stream(wave_id)
        self._is_kept = is_kept

    @property
    def store(self) -> Store:
        """The store, for readers of the wave's progress."""
        return self._api.store

    def begin(self, slugs: Sequence[str], **facts: Any) -> None:
        """The wave starts; `facts` are its ceilings and the length of the queue behind it."""
        payload = {"wave_id": self._wave_id, "items": list(slugs), **facts}
        if folder := self._api.store.folder:
            payload["folder"] = folder
        self._api.append(self._stream, events.WAVE_STARTED, payload, actor="wave")

    def note(self, phases: Sequence[Mapping[str, Any]]) -> None:
        """Phases of items or of the wave, for people; see `PhaseNotes`. They need no lease."""
        if phases:
            entries = [(events.PHASE_ENTERED, dict(phase)) for phase in phases]
            self._api.append_many(self._stream, entries, actor="wave")

    def end(self, abort_reason: str | None) -> None:
        """The wave is over."""
        payload = {"aborted": abort_reason is not None, "abort_reason": abort_reason}
        self._api.append(self._stream, events.WAVE_FINISHED, payload, actor="wave")

    def knows(self, wave_id: str) -> bool:
        """True if a wave, this one or another, began in this state folder."""
        return wave_id == self._wave_id or began_here(self._api.store, wave_id)

    def record(
        self, steps: Mapping[ItemKey, Step], on_commit: Note, change: Change = lambda _: None
    ) -> None:
        """Append the events of one step of each item, all or none, while the items' leases hold.

        `on_commit` is called after the leases were checked and before the transaction commits;
        `change` adds to the transaction. Raises LeasedElsewhereError and CannotRunError, and then
        nothing is written.
        """
        entries: list[tuple[str, str, Any]] = []
        for key, step in steps.items():
            entries += [
                (self._stream, kind, {"slug": key.slug, **facts}) for kind, facts in step.events
            ]
            if (trace := step.trace) is not None:
                agent = {
                    "agent_id": events.agent_id(self._wave_id, key.slug, trace.phase, trace.number),
                    "item": key.slug,
                    "wave": self._wave_id,
                    "attempt": trace.number,
                }
                entries.append((events.AGENT_TRACES, trace.kind, {**agent, **trace.facts}))
        self.leases.append([key.resource for key in steps], entries, "wave", on_commit, change)

    def publications(
        self, *, only_open: bool = False, commits: Collection[str] | None = None
    ) -> tuple[Publication, ...]:
        """All publications of the store, or those with open items or with one of `commits`, the
        oldest first."""
        return self._api.store.publications(only_open=only_open, commits=commits)

    def change(self, keys: Sequence[ItemKey], change: Change) -> None:
        """Change rows that are no events while the items' leases hold. Raises as `record`."""
        self.leases.append([key.resource for key in keys], (), "wave", change=change)

    def advance(self, tip: str, state: str) -> None:
        """A publication came as far as `state`."""

        def job(transaction: StoreTransaction) -> int:
            transaction.publications.advance(tip, state, transaction.now.wall_s)
            return 0

        self._api.store.joined(job)

    def proposed(self, wave_id: str, facts: Mapping[str, Any]) -> None:
        """A pull request was asked for, of this wave or an earlier one."""
        write_proposed(self._api, wave_id, facts, "wave")

    def anchor(self) -> Anchor | None:
        """The end of the wave's stream, to be written down outside the store."""
        return (
            Anchor.of(self._stream, self._api.store.head(self._stream)) if self._is_kept else None
        )


def began_here(store: Store, wave_id: str) -> bool:
    """True if a wave began in the store's state folder; other machines may share the store."""
    stream = events.wave_stream(wave_id)
    if not store.folder:
        return store.head(stream)[0] > 0
    first = next(store.scan(stream), None)
    payload = first["payload"] if first else None
    return isinstance(payload, dict) and payload.get("folder") == store.folder


def write_proposed(api: StateAPI, wave_id: str, facts: Mapping[str, Any], actor: str) -> None:
    """A pull request was asked for; `facts` say what came of it."""
    stream = events.wave_stream(wave_id)

    def job(transaction: StoreTransaction) -> int:
        if facts["state"] is not None:
            book = transaction.publications
            book.advance(str(facts["commit"]), PROPOSED, transaction.now.wall_s)
        return transaction.append(stream, events.PULL_REQUEST, dict(facts), actor)

    api.store.joined(job)
