"""Parses the output of `codex exec --json`. Pure: text in, a reply out.

Judges the last turn. Ignores the exit code and the end of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from driver.backend_api.fault_words import fault_in
from driver.backend_api.json_parts import count_at, mapping_at, text_at
from driver.backend_api.provider_fault import TRANSIENT, FaultKind
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.agent_reply import Reply, UsageSum
from driver.backends.cli.json_output import object_in, objects_in

ERROR_CHARACTERS = 2000
_STATUS = re.compile(r"\bstatus:? ([45]\d\d)\b", re.IGNORECASE)

# After all other faults the provider has billed nothing for the request.
_PERHAPS_BILLED = TRANSIENT - {FaultKind.RATE_LIMITED}


def read_events(lines: Iterable[str], now: datetime) -> Reply:
    """The reply in `lines`. Skips lines that are not JSON objects or have an unknown type.

    `now`, with its zone, is the time of reading. Without the end of a turn the run failed and its
    use is unknown.
    """
    started, worked, ended, error, text = False, False, "", "", ""
    sums, cached = UsageSum(), 0
    for event in objects_in(lines):
        match event.get("type"):
            case "thread.started":
                started = True
            case "turn.started":
                ended = error = ""
            case "item.completed":
                item = mapping_at(event, "item")
                # An item of type error is a warning, for example about a model without metadata.
                worked = worked or item.get("type") != "error"
                text = text_at(item, "text") if item.get("type") == "agent_message" else text
            case "turn.completed":
                ended, error = "completed", ""
                use = mapping_at(event, "usage")
                sums.add(count_at(use, "input_tokens"), count_at(use, "output_tokens"))
                cached += count_at(use, "cached_input_tokens") or 0
            case "turn.failed":
                ended = "failed"
                error = text_at(mapping_at(event, "error"), "message") or error
            case "error":  # also printed for reconnections, which are not yet a failure
                error = text_at(event, "message") or error
    if ended == "completed":
        return Reply(text=text, usage=sums.usage, cached_tokens=cached)
    words = _sentence_in(error)
    status = _STATUS.search(words)
    fault = fault_in(words, now, status=int(status[1]) if status else None) if words else None
    # A message inside an object comes from the server, which refused the request.
    turned_down = words != error.strip() if fault is None else fault.kind not in _PERHAPS_BILLED
    worked = worked or sums.answers > 0
    usage = NOTHING_SPENT if turned_down and not worked else sums.least
    error = (words or "codex ended without finishing its turn")[:ERROR_CHARACTERS]
    return Reply(started, ended != "", error, fault=fault, text=text, worked=worked, usage=usage)


def _sentence_in(message: str) -> str:
    """The error message in a server's JSON answer, or `message` itself."""
    body = object_in(message) or {}
    inner = body.get("error")
    sentence = inner if isinstance(inner, str) else text_at(mapping_at(body, "error"), "message")
    code = text_at(mapping_at(body, "error"), "code")
    return f"{sentence} ({code})" if sentence and code else sentence or message.strip()
