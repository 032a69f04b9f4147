"""What a wave has to remember, and the memory of one that keeps nothing.

The real one, which writes into the store, is `wave_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from driver.backend_api.driver import Usage
from driver.domain import phase_receipt, reviews
from driver.domain.item_key import ItemKey
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import BUILD, REPAIR, REVIEW, Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review
from driver.run_state.leases import LeaseManager
from state_store.api import StateAPI
from state_store.database import events
from state_store.database.store import Note
from state_store.views.anchors import Anchor


class EventLog(Protocol):
    """The store as a wave needs it. All but `begin` and `end` raise LeasedElsewhereError.

    `note` lets the journal say it: after the question whose the item is, before the answer counts.
    """

    def begin(self, slugs: Sequence[str]) -> None:
        """The wave starts."""

    def end(self, abort_reason: str | None) -> None:
        """The wave is over."""

    def knows(self, wave_id: str) -> bool:
        """Whether a wave began in this store."""

    def take_all(self, subjects: Sequence[ItemKey]) -> None:
        """Hold those of the items that nobody else has, before the first of them is begun."""

    def take(self, subject: ItemKey) -> None:
        """Hold the item from now on."""

    def still_ours(self, subject: ItemKey) -> bool:
        """Whether nobody has taken the item over."""

    def dispatched(
        self, subject: ItemKey, phase: str, number: int, model: str | None, note: Note
    ) -> None:
        """An agent is about to be started."""

    def judged(self, subject: ItemKey, attempt: Attempt, note: Note) -> None:
        """An attempt has its verdict."""

    def reviewing(self, subject: ItemKey, number: int, tree: str, model: str | None) -> None:
        """A reviewer is about to be started."""

    def reviewed(self, subject: ItemKey, review: Review, note: Note) -> None:
        """A review has its word."""

    def phased(self, subject: ItemKey, done: PhaseReceipt, number: int | None, note: Note) -> None:
        """A phase of the item is over; `number` is that of its dispatch, where an agent was asked
        that neither builds nor reviews."""

    def settled(self, subject: ItemKey, outcome: ItemOutcome, note: Note) -> None:
        """The item has its verdict."""

    def shipping(self, shipped: Mapping[ItemKey, str], branch: str, note: Note) -> None:
        """Commits are about to be published; all of the items must still be ours."""

    def shipped(self, subject: ItemKey, commit: str, note: Note) -> None:
        """The item's commit is where it was meant to go."""

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        """A pull request was asked for, of this wave or an earlier one."""

    def anchor(self) -> Anchor | None:
        """How far the wave's stream is, to be written down outside the store."""


class NullEventLog:
    """A wave without a state folder: nothing is kept, and nobody else can know of its items."""

    def begin(self, slugs: Sequence[str]) -> None:
        del slugs

    def end(self, abort_reason: str | None) -> None:
        del abort_reason

    def knows(self, wave_id: str) -> bool:
        del wave_id
        return False

    def take_all(self, subjects: Sequence[ItemKey]) -> None:
        del subjects

    def take(self, subject: ItemKey) -> None:
        del subject

    def still_ours(self, subject: ItemKey) -> bool:
        del subject
        return True

    def dispatched(
        self, subject: ItemKey, phase: str, number: int, model: str | None, note: Note
    ) -> None:
        del subject, phase, number, model
        note()

    def judged(self, subject: ItemKey, attempt: Attempt, note: Note) -> None:
        del subject, attempt
        note()

    def reviewing(self, subject: ItemKey, number: int, tree: str, model: str | None) -> None:
        del subject, number, tree, model

    def reviewed(self, subject: ItemKey, review: Review, note: Note) -> None:
        del subject, review
        note()

    def phased(self, subject: ItemKey, done: PhaseReceipt, number: int | None, note: Note) -> None:
        del subject, done, number
        note()

    def settled(self, subject: ItemKey, outcome: ItemOutcome, note: Note) -> None:
        del subject, outcome
        note()

    def shipping(self, shipped: Mapping[ItemKey, str], branch: str, note: Note) -> None:
        del shipped, branch
        note()

    def shipped(self, subject: ItemKey, commit: str, note: Note) -> None:
        del subject, commit
        note()

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        del wave_id, step

    def anchor(self) -> Anchor | None:
        return None


class StoreEventLog:
    """Events of one wave in one store."""

    def __init__(self, api: StateAPI, leases: LeaseManager, wave_id: str, backend: str) -> None:
        self._api = api
        self._leases = leases
        self._wave_id = wave_id
        self._stream = events.wave_stream(wave_id)
        self._backend = backend

    def begin(self, slugs: Sequence[str]) -> None:
        """The wave starts."""
        payload = {"wave_id": self._wave_id, "items": list(slugs)}
        self._api.append(self._stream, events.WAVE_STARTED, payload, actor="wave")

    def end(self, abort_reason: str | None) -> None:
        """The wave is over."""
        payload = {"aborted": abort_reason is not None, "abort_reason": abort_reason}
        self._api.append(self._stream, events.WAVE_FINISHED, payload, actor="wave")

    def knows(self, wave_id: str) -> bool:
        """Whether a wave began in this store."""
        return self._api.store.head(events.wave_stream(wave_id))[0] > 0

    def take_all(self, subjects: Sequence[ItemKey]) -> None:
        """Hold those of the items that nobody else has, before the first of them is begun."""
        self._leases.take_all([subject.resource for subject in subjects])

    def take(self, subject: ItemKey) -> None:
        """Hold the item from now on."""
        self._leases.take(subject.resource)

    def still_ours(self, subject: ItemKey) -> bool:
        """Whether nobody has taken the item over."""
        return self._leases.holds(subject.resource)

    def dispatched(
        self, subject: ItemKey, phase: str, number: int, model: str | None, note: Note
    ) -> None:
        """An agent is about to be started."""
        agent = self._agent(subject, phase, number)
        traced = {**agent, "phase": phase, "backend": self._backend, "model": model}
        step = {"slug": subject.slug, "number": number, "phase": phase}
        begun = (self._stream, events.ATTEMPT_STARTED, step)
        # A later agent of a pipeline adds to an attempt; its phase tells when it is over.
        at_work = [begun] if phase in (BUILD, REPAIR) else []
        trace = (events.AGENT_TRACES, events.AGENT_DISPATCHED, traced)
        self._write([subject], note, *at_work, trace)

    def judged(self, subject: ItemKey, attempt: Attempt, note: Note) -> None:
        """An attempt has its verdict."""
        good = attempt.verdict is Verdict.VERIFIED
        kind = events.AGENT_COMPLETED if good else events.AGENT_FAILED
        traced = {**self._agent(subject, attempt.phase, attempt.number), **_cost(attempt)}
        step = {
            "slug": subject.slug,
            "number": attempt.number,
            "verdict": str(attempt.verdict),
            "reason": attempt.reason or None,
            "tree": attempt.tree,
            "evidence": attempt.evidence_json(),
        }
        self._write(
            [subject],
            note,
            (self._stream, events.ATTEMPT_JUDGED, step),
            (events.AGENT_TRACES, kind, traced),
        )

    def reviewing(self, subject: ItemKey, number: int, tree: str, model: str | None) -> None:
        """A reviewer is about to be started."""
        step = {"slug": subject.slug, "round": number, "tree": tree}
        traced = {**self._agent(subject, REVIEW, number), "phase": REVIEW, "model": model}
        self._write(
            [subject],
            _nothing,
            (self._stream, events.REVIEW_STARTED, step),
            (events.AGENT_TRACES, events.AGENT_DISPATCHED, traced),
        )

    def reviewed(self, subject: ItemKey, review: Review, note: Note) -> None:
        """A review has its word; one that nobody was asked for is no agent's."""
        step = {"slug": subject.slug, **review.to_json()}
        done = review.word != reviews.ReviewWord.UNDECIDED
        kind = events.AGENT_COMPLETED if done else events.AGENT_FAILED
        traced = {**self._agent(subject, REVIEW, review.number), **_cost_of_review(review)}
        trace = [(events.AGENT_TRACES, kind, traced)] if review.worker_id is not None else []
        self._write([subject], note, (self._stream, events.REVIEW_JUDGED, step), *trace)

    def phased(self, subject: ItemKey, done: PhaseReceipt, number: int | None, note: Note) -> None:
        """A phase of the item is over."""
        step = {"slug": subject.slug, **done.to_json()}
        trace = []
        if number is not None:
            good = done.status == phase_receipt.COMPLETED
            kind = events.AGENT_COMPLETED if good else events.AGENT_FAILED
            traced = {**self._agent(subject, done.phase, number), **_cost_of_phase(done)}
            trace = [(events.AGENT_TRACES, kind, traced)]
        self._write([subject], note, (self._stream, events.PHASE_FINISHED, step), *trace)

    def settled(self, subject: ItemKey, outcome: ItemOutcome, note: Note) -> None:
        """The item has its verdict."""
        step = {"slug": subject.slug, "verdict": str(outcome.verdict), "reason": outcome.reason}
        self._write([subject], note, (self._stream, events.ITEM_SETTLED, step))

    def shipping(self, shipped: Mapping[ItemKey, str], branch: str, note: Note) -> None:
        """Commits are about to be published; all of the items must still be ours."""
        steps = [
            {"slug": s.slug, "commit": commit, "branch": branch} for s, commit in shipped.items()
        ]
        self._write(shipped, note, *((self._stream, events.ITEM_SHIPPING, step) for step in steps))

    def shipped(self, subject: ItemKey, commit: str, note: Note) -> None:
        """The item's commit is where it was meant to go."""
        step = {"slug": subject.slug, "commit": commit}
        self._write([subject], note, (self._stream, events.ITEM_SHIPPED, step))

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        """A pull request was asked for, of this wave or an earlier one."""
        self._api.append(events.wave_stream(wave_id), events.PULL_REQUEST, step, actor="wave")

    def _write(
        self, subjects: Iterable[ItemKey], note: Note, *entries: tuple[str, str, Any]
    ) -> None:
        self._leases.append([subject.resource for subject in subjects], entries, "wave", note)

    def anchor(self) -> Anchor | None:
        """How far the wave's stream is, to be written down outside the store."""
        return Anchor.of(self._stream, self._api.store.head(self._stream))

    def _agent(self, subject: ItemKey, phase: str, number: int) -> dict[str, Any]:
        return {
            "agent_id": events.agent_id(self._wave_id, subject.slug, phase, number),
            "item": subject.slug,
            "wave": self._wave_id,
            "attempt": number,
        }


def _cost(attempt: Attempt) -> dict[str, Any]:
    return {
        "model": attempt.model,
        **_used(attempt.usage, attempt.duration_s),
        "verdict": str(attempt.verdict),
        "error": attempt.reason or None,
    }


def _cost_of_review(review: Review) -> dict[str, Any]:
    return {
        "backend": review.backend,
        "model": review.model,
        **_used(review.usage, review.duration_s),
        "verdict": str(review.word),
        "error": review.reason or None,
    }


def _cost_of_phase(done: PhaseReceipt) -> dict[str, Any]:
    return {
        "backend": done.engine.name if done.engine else None,
        "model": done.engine.model if done.engine else None,
        **_used(done.usage, done.duration_ms / 1000),
        "verdict": done.status,
        "error": done.reason or None,
    }


def _used(usage: Usage, duration_s: float) -> dict[str, Any]:
    return {
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "tokens": usage.total_tokens,
        "cost_usd": usage.cost_usd,
        "duration_s": round(duration_s, 3),
    }


def _nothing() -> None:
    return
