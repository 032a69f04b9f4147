"""Parses the output of `claude -p --output-format stream-json`. Pure: text in, a reply out.

Judges the result line. Ignores the exit code and the end of the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from driver.backend_api.driver import Usage
from driver.backend_api.fault_words import fault_in
from driver.backend_api.json_parts import amount_at, count_at, mapping_at, text_at
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.usage import NOTHING_SPENT, count
from driver.backend_api.usage_limits import is_nothing_but_used_up
from driver.backends.cli.agent_reply import Reply
from driver.backends.cli.json_output import objects_in

ERROR_CHARACTERS = 2000
DENIALS_NAMED = 5

_INPUT_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_MESSAGE_KEYS = (
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
)

Event = Mapping[str, Any]
_NO_EVENT: Event = {}


def read_stream(lines: Iterable[str], now: datetime) -> Reply:
    """The reply in `lines`. Skips lines that are not JSON objects or have an unknown type. `now`,
    with its zone, is the time of reading, because a used-up plan names a time of day.

    Without a result line the run failed and its usage is unknown. The preliminary usage in
    `assistant` lines is its lower bound.
    """
    first = last = retry = limit = _NO_EVENT
    answers, worked = dict[str, int](), False
    for event in objects_in(lines):
        match event.get("type"), event.get("subtype"):
            case "system", "init":
                first = first or event
            case "system", "api_retry":
                retry = event
            case "rate_limit_event", _:
                limit = mapping_at(event, "rate_limit_info")
            case "result", _:
                last = event
            case "assistant", _:
                # An answer comes as several lines, each with the use so far.
                message = mapping_at(event, "message")
                use, answer = mapping_at(message, "usage"), text_at(message, "id")
                tokens = sum(count_at(use, key) or 0 for key in _MESSAGE_KEYS)
                answers[answer] = max(tokens, answers.get(answer, 0))
                # The CLI itself writes its error messages as answers of this model.
                worked = worked or text_at(message, "model") != "<synthetic>"
    model = text_at(first, "model") or None
    if last:
        reply = _judge(last, model, _fault(last, retry, limit, now))
    else:
        error = "claude ended without a result"
        reply = Reply(bool(first), finished=False, error=error, model=model)
    usage = reply.usage
    if usage.total_tokens is None:
        least = max(sum(answers.values()), usage.known_tokens)
        usage = replace(usage, least_tokens=least)
    return replace(reply, usage=usage, worked=worked)


def usage_of(result: Event) -> Usage:
    """Tokens summed over `modelUsage`, else those of `usage`, and the cost that the CLI reports.

    Each number counts, even if another one is missing or not credible. Cache reads and cache writes
    count as input tokens. If all numbers are zero, the server reported no usage, so it is unknown,
    unless the request was refused before a model answered.
    """
    uses = [use for use in mapping_at(result, "modelUsage").values() if isinstance(use, Mapping)]
    names, written = _INPUT_KEYS, "outputTokens"
    if not uses:
        uses, names, written = [mapping_at(result, "usage")], _MESSAGE_KEYS[:-1], _MESSAGE_KEYS[-1]
    taken = _total((use, name) for use in uses for name in names)
    given = _total((use, written) for use in uses)
    cost = amount_at(result, "total_cost_usd")
    if cost is None:
        parts = [amount_at(use, "costUSD") for use in uses]
        cost = None if None in parts else math.fsum(part or 0.0 for part in parts) or None
    if taken or given:
        return Usage(taken or None, given, cost)
    if cost:
        return Usage(cost_usd=cost)
    if mapping_at(result, "modelUsage") or result.get("is_error") is False:
        return Usage()
    turned_down = isinstance(result.get("api_error_status"), int)
    logged_out = "not logged in" in _message(result).lower()
    return NOTHING_SPENT if turned_down or logged_out else Usage()


def _total(numbers: Iterable[tuple[Event, str]]) -> int | None:
    """The sum of the numbers that are there; None without one, or if one is not credible."""
    found = []
    for use, name in numbers:
        try:
            found.append(count(use, name))
        except ValueError:
            return None
    known = [one for one in found if one is not None]
    return sum(known) if known else None


def _judge(result: Event, model: str | None, fault: ProviderFault | None) -> Reply:
    text, structured = _message(result), result.get("structured_output")
    failed = fault is not None or result.get("is_error") is not False
    error = (text or "an error without words")[:ERROR_CHARACTERS] if failed else ""
    uses = mapping_at(result, "modelUsage")
    written = {name: count_at(mapping_at(uses, name), "outputTokens") or 0 for name in uses}
    status = result.get("api_error_status")
    at_max_turns = text_at(result, "subtype") == "error_max_turns"
    return Reply(
        error=error,
        fault=fault,
        text="\n".join(filter(None, (text, _denials(result)))),
        model=max(written, key=written.__getitem__, default="") or model,
        status=status if isinstance(status, int) else None,
        limit="[backend] max_turns" if at_max_turns else "",
        usage=usage_of(result),
        structured=structured if isinstance(structured, dict) else None,
    )


def _fault(result: Event, retry: Event, limit: Event, now: datetime) -> ProviderFault | None:
    text, status = _message(result), result.get("api_error_status")
    if result.get("is_error") is False and not is_nothing_but_used_up(text):
        return None
    if text_at(result, "subtype").startswith("error_max") or result.get("stop_reason") == "refusal":
        return None  # limits of the CLI and answers of the model are no faults of the provider
    delay_ms = amount_at(retry, "retry_delay_ms")
    fault = fault_in(
        text,
        now,
        status=status if isinstance(status, int) else None,
        retry_after_s=None if delay_ms is None else delay_ms / 1000,
    )
    if fault is None or limit.get("status") != "rejected":
        return fault
    if fault.kind not in (FaultKind.USAGE_LIMIT, FaultKind.RATE_LIMITED):
        return fault
    when = amount_at(limit, "resetsAt")
    when = fault.resets_at if when is None else when
    return replace(fault, kind=FaultKind.USAGE_LIMIT, resets_at=when)


def _message(result: Event) -> str:
    errors = result.get("errors")
    named = [str(error) for error in errors] if isinstance(errors, list) else []
    return text_at(result, "result") or "; ".join(named)


def _denials(result: Event) -> str:
    """A line with the tools that the CLI denied to its model, or ""."""
    denials = result.get("permission_denials")
    if not isinstance(denials, list) or not denials:
        return ""
    named = []
    for denial in [denial for denial in denials if isinstance(denial, dict)]:
        asked = mapping_at(denial, "tool_input")
        target = text_at(asked, "command") or text_at(asked, "file_path")
        named.append(f"{text_at(denial, 'tool_name')} {target}".strip()[:200])
    more = f" and {len(named) - DENIALS_NAMED} more" if len(named) > DENIALS_NAMED else ""
    return f"permission denied: {'; '.join(named[:DENIALS_NAMED])}{more}"
