"""Names the streams and event types, and defines an event as a value.

No other module spells these names. `projections` applies events to views. docs/state.md describes
the payloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_store.values.lazy_dataclass import dataclass

TRACKER = "tracker"
ITEM_CREATED = "item_created"
ITEMS_IMPORTED = "items_imported"  # some hundred at once, of a long tracker
ITEM_UPDATED = "item_updated"
ITEM_FIELDS_REMOVED = "item_fields_removed"
ITEM_ARCHIVED = "item_archived"

ORCHESTRATOR_STATUS = "orchestrator_status"
PHASE_CHANGED = "phase_changed"
DECISION_LOCKED = "decision_locked"
NEXT_STEPS_UPDATED = "next_steps_updated"
AUDIT_FINDINGS_RECORDED = "audit_findings_recorded"

META = "meta"
PHASE_SET = "phase_set"

AGENT_TRACES = "agent_traces"
AGENT_DISPATCHED = "agent_dispatched"
AGENT_WORKING = "agent_working"
AGENT_STALLED = "agent_stalled"
AGENT_DONE = "agent_done"
AGENT_COMPLETED = "agent_completed"
AGENT_FAILED = "agent_failed"
AGENT_BILLED = "agent_billed"

REVIEW = "review"  # the phase
_COUNTED_TOGETHER = ("build", "repair", "resume")

WAVE_PREFIX = "wave:"
WAVE_STARTED = "wave_started"
ATTEMPT_STARTED = "attempt_started"
ATTEMPT_JUDGED = "attempt_judged"
REVIEW_STARTED = "review_started"
REVIEW_JUDGED = "review_judged"
PHASE_FINISHED = "phase_finished"
PHASE_ENTERED = "phase_entered"
ITEM_SETTLED = "item_settled"
ITEM_SHIPPING = "item_shipping"
ITEM_SHIPPED = "item_shipped"
PULL_REQUEST = "pull_request"
WAVE_FINISHED = "wave_finished"

ARCHIVES = "archives"
WAVES_ARCHIVED = "waves_archived"


def wave_stream(wave_id: str) -> str:
    """The stream of a wave's events."""
    return WAVE_PREFIX + wave_id


def agent_id(wave_id: str, item: str, phase: str, number: int) -> str:
    """The name of a dispatch in traces. Builds and repairs are numbered together."""
    counted = str(number) if phase in _COUNTED_TOGETHER else f"{phase}-{number}"
    return f"{wave_id}/{item}/{counted}"


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event. `uid` is the same in every store with a copy. `ts` is the time of the first
    recording, in seconds since the epoch. `version` counts from 1 in the stream of this store."""

    uid: str
    ts: float
    stream: str
    type: str
    payload: Mapping[str, Any]
    actor: str
    version: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Event:
        """The event in a dict of `EventStore.read`."""
        return cls(*(row[name] for name in cls.__slots__))
