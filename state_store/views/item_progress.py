"""The progress of one item of a wave: its phases, use and verdict, folded from its events. Pure.

`wave_progress` folds a whole wave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_store.database import events as names
from state_store.values.lazy_dataclass import dataclass, field

Row = Mapping[str, Any]

WAITING, RUNNING, DONE = "waiting", "running", "done"

# Phases beside those of agents (`build`, `repair`, `review`, and the names in a pipeline).
SET_UP, TEST, SHIPPING = "set-up", "test", "shipping"
PROVIDER, ROOM, TOGETHER = "waiting for the provider", "waiting for room", "tested together"
_CHANGING_ROLES = ("agent", "repair", "helper")


@dataclass(frozen=True, slots=True)
class Span:
    """A phase with its start and end, in seconds since the epoch. `ended` is None while it runs."""

    phase: str
    started: float
    ended: float | None = None
    why: str = ""


@dataclass(slots=True)
class ItemProgress:
    """An item of a wave. `tokens` and `cost_usd` are sums of the known amounts; `unmetered` and
    `unpriced` count the ended dispatches without a known amount. `attempt` is the number of the
    newest dispatch in its phase. `seen` is the time of its last event."""

    slug: str
    state: str = WAITING
    verdict: str | None = None
    reason: str | None = None
    spans: list[Span] = field(default_factory=list)
    tokens: int = 0
    cost_usd: float = 0.0
    unmetered: int = 0
    unpriced: int = 0
    repairs: int = 0
    attempt: int = 0
    backend: str | None = None
    model: str | None = None
    commit: str | None = None
    branch: str | None = None
    shipped: bool = False
    seen: float | None = None

    @property
    def span(self) -> Span | None:
        """The phase that runs now."""
        last = self.spans[-1] if self.spans else None
        return last if last is not None and last.ended is None else None

    @property
    def phase(self) -> str:
        """The word for where the item stands: its phase, else its verdict, else its state."""
        if (span := self.span) is not None:
            return span.phase
        return "shipped" if self.shipped else self.verdict or self.state

    @property
    def is_shipping(self) -> bool:
        """True while its proven work is published."""
        return self.span is not None and self.span.phase == SHIPPING

    @property
    def started(self) -> float | None:
        """The start of its first phase."""
        return self.spans[0].started if self.spans else None

    @property
    def ended(self) -> float | None:
        """The end of its last phase; None while it runs or waits."""
        return self.spans[-1].ended if self.spans and self.state == DONE else None


def apply_item(item: ItemProgress, kind: str, payload: Row, at: float) -> bool:
    if kind == names.ATTEMPT_STARTED:
        item.repairs += payload.get("phase") == "repair"
        _judge(item, {"verdict": None, "reason": None})
        open_phase(item, str(payload.get("phase") or "build"), at)
    elif kind == names.PHASE_ENTERED:
        _enter(item, payload, at)
    elif kind == names.PHASE_FINISHED:
        _finish_phase(item, payload, at)
    elif kind in (names.ATTEMPT_JUDGED, names.ITEM_SETTLED):
        _judge(item, payload)
        if kind == names.ITEM_SETTLED:
            close_phase(item, at)
            item.state = DONE
    elif kind == names.REVIEW_STARTED:
        open_phase(item, names.REVIEW, at)
    elif kind == names.REVIEW_JUDGED:
        close_phase(item, at)
    elif kind == names.ITEM_SHIPPING:
        item.commit, item.branch = payload.get("commit"), payload.get("branch")
        open_phase(item, SHIPPING, at)
    elif kind == names.ITEM_SHIPPED:
        item.commit, item.shipped = payload.get("commit"), True
        close_phase(item, at)
        item.state = DONE
    else:
        return False
    return True


def _enter(item: ItemProgress, payload: Row, at: float) -> None:
    """Without a phase the item ends, for a run that has lost it to another one."""
    since, phase = since_of(payload, at), text_of(payload.get("phase"))
    if phase:
        open_phase(item, phase, since, text_of(payload.get("why")))
        return
    _judge(item, payload)
    close_phase(item, since)
    item.state = DONE


def _finish_phase(item: ItemProgress, receipt: Row, at: float) -> None:
    """A receipt closes the phase that runs. No event tells the start of a test, so a test runs from
    the end of the agent on, until a receipt or the next agent shows what it was."""
    if receipt.get("recalled"):
        return
    role, status, took = receipt.get("role"), receipt.get("status"), receipt.get("durationMs")
    if role == "gate":
        name = SET_UP if receipt.get("kind") == "setup" else TEST
        start = at - took / 1000 if isinstance(took, int | float) else at
        if item.span is None or item.span.phase != name:
            open_phase(item, name, min(start, at))
    close_phase(item, at)
    changed = receipt.get("inputTree") != receipt.get("outputTree")
    if role in _CHANGING_ROLES and status == "completed" and changed:
        open_phase(item, TEST, at)
    elif status in ("completed", "stalled") and item.verdict is not None:
        item.state = DONE


def _judge(item: ItemProgress, payload: Row) -> None:
    item.verdict = text_of(payload.get("verdict")) or None
    item.reason = text_of(payload.get("reason")) or None


def open_phase(item: ItemProgress, phase: str, at: float, why: str = "") -> None:
    running = item.span
    item.state = RUNNING
    if running is not None and (running.phase, running.why) == (phase, why):
        return
    if running is not None and running.phase == TEST:
        item.spans.pop()  # there was no test, see `_finish_phase`
    close_phase(item, at)
    item.spans.append(Span(phase, at, why=why))


def close_phase(item: ItemProgress, at: float) -> None:
    if item.spans:
        item.spans[-1] = ended(item.spans[-1], at)


def ended(span: Span, at: float) -> Span:
    if span.ended is not None:
        return span
    return Span(span.phase, span.started, max(at, span.started), span.why)


def bill(item: ItemProgress, payload: Row) -> None:
    tokens, cost = payload.get("tokens"), payload.get("cost_usd")
    if isinstance(tokens, int | float):
        item.tokens += int(tokens)
    else:
        item.unmetered += 1
    if isinstance(cost, int | float):
        item.cost_usd += cost
    else:
        item.unpriced += 1


def since_of(payload: Row, at: float) -> float:
    since = payload.get("since")
    return min(float(since), at) if isinstance(since, int | float) else at


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
