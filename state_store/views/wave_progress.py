"""The progress of a wave: phase, use and verdict of each item, folded from the wave's events.

The live screen, `status`, `logs`, notices and the live page show this fold. It reads two streams,
the wave's own and `agent_traces`, and may be continued event by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from state_store.database import events as names
from state_store.database.interface import Store
from state_store.views.item_progress import (
    DONE,
    RUNNING,
    WAITING,
    ItemProgress,
    Row,
    Span,
    apply_item,
    bill,
    close_phase,
    ended,
    open_phase,
    since_of,
    text_of,
)


class WaveProgress:
    """The fold. `apply` takes the events of both streams in the order of writing; events of other
    waves and of unknown types change nothing."""

    def __init__(self, wave_id: str) -> None:
        self.wave_id = wave_id
        self.started: float | None = None
        self.finished: float | None = None
        self.aborted = False
        self.abort_reason: str | None = None
        self.ceilings: dict[str, float] = {}
        self.queued: int | None = None
        self.items: dict[str, ItemProgress] = {}
        self.spans: list[Span] = []  # phases of the whole wave
        self.bills = 0  # ended dispatches, also those without a known amount
        self.last_id = 0
        self._billed: set[str] = set()

    def apply(self, event: Row) -> bool:
        """Take in one event; False if it is of another wave or not understood."""
        payload, kind = event["payload"], event["type"]
        self.last_id = max(self.last_id, event.get("id") or 0)
        if not isinstance(payload, Mapping):
            return False
        if event["stream"] == names.AGENT_TRACES:
            return self._apply_trace(kind, payload, event["ts"])
        if event["stream"] != names.wave_stream(self.wave_id):
            return False
        return self._apply_wave(kind, payload, event["ts"])

    def count(self, state: str) -> int:
        """The number of items in a state. The work on an item that is being shipped is done."""
        states = (DONE if item.is_shipping else item.state for item in self.items.values())
        return sum(one == state for one in states)

    @property
    def span(self) -> Span | None:
        """The phase of the whole wave that runs now, such as the common test."""
        last = self.spans[-1] if self.spans else None
        return last if last is not None and last.ended is None else None

    @property
    def tokens(self) -> int:
        """The known tokens of all dispatches."""
        return sum(item.tokens for item in self.items.values())

    @property
    def cost_usd(self) -> float:
        """The known cost of all dispatches."""
        return round(sum(item.cost_usd for item in self.items.values()), 6)

    @property
    def awaits_bill(self) -> bool:
        """True if agents have begun, and none has told what it cost."""
        return not self.bills and any(item.backend or item.attempt for item in self.items.values())

    @property
    def is_cost_known(self) -> bool:
        """False if the sum is zero only because no dispatch has told its cost."""
        return self.cost_usd > 0 or not self.is_lower_bound

    @property
    def is_unmetered(self) -> bool:
        """True if some dispatch has no known tokens."""
        return any(item.unmetered for item in self.items.values())

    @property
    def is_lower_bound(self) -> bool:
        """True if some dispatch has no known amount."""
        return any(item.unmetered or item.unpriced for item in self.items.values())

    def to_json(self) -> dict[str, Any]:
        """The JSON form for the live page and `status --json`; times are seconds since the
        epoch."""
        return {
            "version": 1,
            "wave_id": self.wave_id,
            "started": self.started,
            "finished": self.finished,
            "aborted": self.aborted,
            "abort_reason": self.abort_reason,
            "ceilings": dict(self.ceilings),
            "queued": self.queued,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "lower_bound": self.is_lower_bound,
            "counts": {state: self.count(state) for state in (DONE, RUNNING, WAITING)},
            "phase": self.span.phase if self.span else None,
            "spans": [asdict(span) for span in self.spans],
            "items": [
                {**asdict(item), "phase": item.phase, "cost_usd": round(item.cost_usd, 6)}
                for item in self.items.values()
            ],
        }

    def _apply_wave(self, kind: str, payload: Row, at: float) -> bool:
        if kind == names.WAVE_STARTED:
            self._begin(payload, at)
        elif kind == names.WAVE_FINISHED:
            self._finish(payload, at)
        elif kind == names.PHASE_ENTERED and self.finished is not None:
            return False  # written too late
        elif kind == names.PHASE_ENTERED and not payload.get("slug"):
            self._enter_wave(payload, at)
        elif isinstance(payload.get("slug"), str):
            item = self._item(payload["slug"])
            item.seen = at
            return apply_item(item, kind, payload, at)
        else:
            return False
        return True

    def _begin(self, payload: Row, at: float) -> None:
        """A resumed wave begins again: what ran when it was killed runs no more."""
        for item in self.items.values():
            close_phase(item, item.seen or at)
            item.state = DONE if item.shipped else WAITING
        self.spans[:] = [ended(span, at) for span in self.spans]
        self.started, self.finished = self.started or at, None
        self.aborted, self.abort_reason = False, None
        slugs = payload.get("items")
        for slug in slugs if isinstance(slugs, list | tuple) else ():
            self._item(str(slug))
        ceilings, queued = payload.get("ceilings"), payload.get("queued")
        known = ceilings.items() if isinstance(ceilings, Mapping) else ()
        self.ceilings = {str(k): v for k, v in known if isinstance(v, int | float)}
        self.queued = queued if isinstance(queued, int) else None

    def _finish(self, payload: Row, at: float) -> None:
        reason = payload.get("abort_reason")
        self.finished, self.abort_reason = at, reason if isinstance(reason, str) else None
        self.aborted = bool(payload.get("aborted", reason is not None))
        self.spans[:] = [ended(span, at) for span in self.spans]
        for item in self.items.values():
            close_phase(item, at)
            item.state = DONE

    def _enter_wave(self, payload: Row, at: float) -> None:
        """A phase of the whole wave ends the one before it; without a name none follows."""
        since = since_of(payload, at)
        self.spans[:] = [ended(span, since) for span in self.spans]
        if phase := payload.get("phase"):
            self.spans.append(Span(str(phase), since, why=str(payload.get("why") or "")))

    def _item(self, slug: str) -> ItemProgress:
        return self.items.setdefault(slug, ItemProgress(slug))

    def _apply_trace(self, kind: str, payload: Row, at: float) -> bool:
        if payload.get("wave") != self.wave_id or not isinstance(payload.get("item"), str):
            return False
        item, agent = self._item(payload["item"]), str(payload.get("agent_id"))
        item.seen = at
        if kind == names.AGENT_DISPATCHED:
            open_phase(item, text_of(payload.get("phase")) or "build", at)
            number = payload.get("attempt")
            item.attempt = number if isinstance(number, int) else item.attempt
            item.backend = text_of(payload.get("backend")) or item.backend
        elif kind == names.AGENT_BILLED:
            self._billed.add(agent)
            self._bill(item, payload)
        elif kind not in (names.AGENT_COMPLETED, names.AGENT_FAILED):
            return False
        elif agent not in self._billed:  # an end repeats the bill; without a state folder is none
            self._bill(item, payload)
        item.model = text_of(payload.get("model")) or item.model
        return True

    def _bill(self, item: ItemProgress, payload: Row) -> None:
        self.bills += 1
        bill(item, payload)


def read_progress(store: Store, wave_id: str) -> WaveProgress:
    """The progress of a wave in a store. Its last event's id is `last_id`; later events may be
    applied to it (`later_events`)."""
    found = WaveProgress(wave_id)
    first = next(store.scan(names.wave_stream(wave_id)), None)
    if first is not None:
        found.last_id = first["id"] - 1
        for event in later_events(store, found):
            found.apply(event)
            is_end = found.finished is not None
            if is_end and store.head(event["stream"])[0] == event["version"]:
                break  # the store may hold years of later events
    return found


def later_events(store: Store, progress: WaveProgress) -> Iterator[Row]:
    """The events of the wave's two streams after those that were applied."""
    streams = (names.wave_stream(progress.wave_id), names.AGENT_TRACES)
    return store.scan_several(streams, progress.last_id)


def catch_up(store: Store, progress: WaveProgress) -> None:
    """Apply what the store has of the wave by now."""
    for event in later_events(store, progress):
        progress.apply(event)


def fold(wave_id: str, events: Iterable[Row]) -> WaveProgress:
    """The progress after these events."""
    found = WaveProgress(wave_id)
    for event in events:
        found.apply(event)
    return found
