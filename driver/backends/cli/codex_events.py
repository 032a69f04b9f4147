"""What the lines of `codex exec --json` mean. Pure: text in, a reply out.

Owns the judgement of the last turn. The exit code and how the process ended are the adapter's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, FAILURE_NONE, Usage
from driver.backend_api.fault_words import fault_in
from driver.backend_api.provider_fault import FaultKind
from driver.backend_api.usage import NOTHING_SPENT, count
from driver.backends.cli.agent_reply import Reply
from driver.backends.cli.json_output import mapping_at, object_in, objects_in, text_at

ERROR_CHARACTERS = 2000
_STATUS = re.compile(r"\bstatus:? ([45]\d\d)\b", re.IGNORECASE)

# A provider that answers with one of these has billed nothing for that request.
_TURNED_DOWN = frozenset(
    {
        FaultKind.BAD_KEY,
        FaultKind.BAD_REQUEST,
        FaultKind.UNKNOWN_MODEL,
        FaultKind.NO_CREDIT,
        FaultKind.USAGE_LIMIT,
        FaultKind.RATE_LIMITED,
    }
)


@dataclass(slots=True)
class _Seen:
    """The events, as far as they have come."""

    started: bool = False
    worked: bool = False
    ended: str | None = None
    error: str = ""
    text: str = ""
    uses: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "thread.started":
                self.started = True
            case "turn.started":
                self.ended, self.error = None, ""
            case "item.completed":
                self._item(mapping_at(event, "item"))
            case "turn.completed":
                self.ended, self.error = "completed", ""
                self.uses.append(mapping_at(event, "usage"))
            case "turn.failed":
                self.ended = "failed"
                self.error = text_at(mapping_at(event, "error"), "message") or self.error
            case "error":  # also said of every reconnection, which is no failure yet
                self.error = text_at(event, "message") or self.error

    def _item(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "error":  # such as a model that it knows little of
            return
        self.worked = True
        if item.get("type") == "agent_message":
            self.text = text_at(item, "text")


def read_events(lines: Iterable[str], now: datetime) -> Reply:
    """The reply in these lines; lines that are no JSON object or of unknown type are passed over.

    `now`, with its zone, is when they were read. Without the end of a turn the run failed and its
    use is unknown.
    """
    seen = _Seen()
    for event in objects_in(lines):
        seen.take(event)
    if seen.ended == "completed":
        usage, cached = _used(seen.uses)
        return Reply(True, True, FAILURE_NONE, text=seen.text, usage=usage, cached_tokens=cached)
    return _failed(seen, now)


def _failed(seen: _Seen, now: datetime) -> Reply:
    error = _worded(seen.error)
    fault = fault_in(error, now, status=_status(error)) if error else None
    # A bad request is told by the server's own words, which `_worded` takes out of their object.
    turned_down = error != seen.error.strip() if fault is None else fault.kind in _TURNED_DOWN
    free = turned_down and not seen.worked and not seen.uses
    return Reply(
        started=seen.started,
        finished=seen.ended is not None,
        failure=FAILURE_AGENT if fault is None else FAILURE_COULD_NOT_RUN,
        error=(error or "codex ended without finishing its turn")[:ERROR_CHARACTERS],
        text=seen.text,
        usage=NOTHING_SPENT if free else Usage(),
        fault=fault,
    )


def _used(uses: Sequence[Mapping[str, Any]]) -> tuple[Usage, int]:
    """Summed over the turns, and how much of the input was cached. All zeros mean that the server
    told nothing."""
    try:
        cached = sum(count(use, "cached_input_tokens") or 0 for use in uses)
        tokens_in = sum(count(use, "input_tokens") or 0 for use in uses)
        tokens_out = sum(count(use, "output_tokens") or 0 for use in uses)
    except ValueError:
        return Usage(), 0
    told = all(use.get("input_tokens") or use.get("output_tokens") for use in uses)
    return (Usage(tokens_in, tokens_out) if told else Usage()), cached


def _worded(message: str) -> str:
    """The sentence in a message that is the body of a server's answer."""
    body = object_in(message)
    if body is None:
        return message.strip()
    inner = body.get("error")
    said = inner if isinstance(inner, str) else text_at(mapping_at(body, "error"), "message")
    code = text_at(mapping_at(body, "error"), "code")
    return f"{said} ({code})" if said and code else said or message.strip()


def _status(message: str) -> int | None:
    """The HTTP status that a message names."""
    told = _STATUS.search(message)
    return int(told[1]) if told else None
