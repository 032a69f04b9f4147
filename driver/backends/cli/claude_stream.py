"""What the lines of `claude -p --output-format stream-json` mean. Pure: text in, a reply out.

Owns the judgement of the result line. The exit code and how the process ended are the adapter's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, FAILURE_NONE, Usage
from driver.backend_api.fault_words import fault_in
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.usage import NOTHING_SPENT, amount, count
from driver.backend_api.usage_limits import is_nothing_but_used_up
from driver.backends.cli.agent_reply import Reply
from driver.backends.cli.json_output import mapping_at, objects_in, text_at

ERROR_CHARACTERS = 2000
DENIALS_NAMED = 5

_INPUT_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_MESSAGE_KEYS = (
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
)


@dataclass(slots=True)
class _Seen:
    """The lines that count, as far as they have come."""

    first: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    retry: Mapping[str, Any] = field(default_factory=dict)
    limit: Mapping[str, Any] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> None:
        match event.get("type"), event.get("subtype"):
            case "system", "init":
                self.first = self.first or event
            case "system", "api_retry":
                self.retry = event
            case "rate_limit_event", _:
                self.limit = mapping_at(event, "rate_limit_info")
            case "result", _:
                self.last = event
            case "assistant", _:
                self._count(mapping_at(event, "message"))

    def _count(self, message: Mapping[str, Any]) -> None:
        # One answer comes as several lines, and each tells its use as far as it had come.
        use, answer = mapping_at(message, "usage"), text_at(message, "id")
        with suppress(ValueError):
            told = sum(count(use, key) or 0 for key in _MESSAGE_KEYS)
            self.answers[answer] = max(told, self.answers.get(answer, 0))

    @property
    def least(self) -> Usage:
        """What the answers had told when nothing sums them up."""
        return Usage(least_tokens=sum(self.answers.values()))


def read_stream(lines: Iterable[str], now: datetime) -> Reply:
    """The reply in these lines; lines that are no JSON object or of unknown type are passed over.
    `now`, with its zone, is when they were read: a used-up plan names a time of day.

    Without a result line the run failed and its usage is unknown: what `assistant` lines carry is
    preliminary, and so the least that it was.
    """
    seen = _Seen()
    for event in objects_in(lines):
        seen.take(event)
    model = text_at(seen.first or {}, "model") or None
    if seen.last is None:
        error = "claude ended without a result"
        return Reply(started=seen.first is not None, error=error, model=model, usage=seen.least)
    reply = _judge(seen.last, model, _fault(seen, seen.last, now))
    return replace(reply, usage=seen.least) if reply.usage == Usage() else reply


def usage_of(result: Mapping[str, Any]) -> Usage:
    """Tokens summed over `modelUsage`, cost as the CLI reckons it.

    Cache reads and cache writes count as input tokens. All zeros mean that the server told no
    usage, which is unknown, except where a request was turned down before any model answered.
    """
    models = [use for use in _models(result).values() if isinstance(use, Mapping)]
    try:
        tokens_in = sum(count(use, key) or 0 for use in models for key in _INPUT_KEYS)
        tokens_out = sum(count(use, "outputTokens") or 0 for use in models)
        cost = amount(result, "total_cost_usd")
    except ValueError:
        return Usage()
    if tokens_in + tokens_out > 0:
        return Usage(tokens_in, tokens_out, cost)
    return NOTHING_SPENT if _turned_down(result) else Usage()


def _judge(result: Mapping[str, Any], model: str | None, fault: ProviderFault | None) -> Reply:
    text, structured = _said(result), result.get("structured_output")
    failed = fault is not None or result.get("is_error") is not False
    return Reply(
        started=True,
        finished=True,
        failure=_failure(fault) if failed else FAILURE_NONE,
        error=(text or "claude reported an error without words")[:ERROR_CHARACTERS]
        if failed
        else "",
        text="\n".join(filter(None, (text, _denials(result)))),
        model=_main_model(result) or model,
        usage=usage_of(result),
        structured=structured if isinstance(structured, dict) else None,
        fault=fault,
    )


def _failure(fault: ProviderFault | None) -> str:
    return FAILURE_AGENT if fault is None else FAILURE_COULD_NOT_RUN


def _fault(seen: _Seen, result: Mapping[str, Any], now: datetime) -> ProviderFault | None:
    text, status = _said(result), result.get("api_error_status")
    if result.get("is_error") is False and not is_nothing_but_used_up(text):
        return None
    if text_at(result, "subtype").startswith("error_max") or result.get("stop_reason") == "refusal":
        return None  # its own limits and its model's word, whatever the text may quote
    fault = fault_in(
        text,
        now,
        status=status if isinstance(status, int) else None,
        retry_after_s=_seconds(seen.retry, "retry_delay_ms"),
    )
    if fault is None or seen.limit.get("status") != "rejected":
        return fault
    if fault.kind not in (FaultKind.USAGE_LIMIT, FaultKind.RATE_LIMITED):
        return fault
    when = _number(seen.limit, "resetsAt")
    when = fault.resets_at if when is None else when
    return replace(fault, kind=FaultKind.USAGE_LIMIT, resets_at=when)


def _seconds(event: Mapping[str, Any], key: str) -> float | None:
    told = _number(event, key)
    return None if told is None else told / 1000


def _number(event: Mapping[str, Any], key: str) -> float | None:
    try:
        return amount(event, key)
    except ValueError:
        return None


def _turned_down(result: Mapping[str, Any]) -> bool:
    if _models(result) or result.get("is_error") is False:
        return False
    return isinstance(result.get("api_error_status"), int) or "not logged in" in (
        _said(result).lower()
    )


def _said(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    told = [str(error) for error in errors] if isinstance(errors, list) else []
    return text_at(result, "result") or "; ".join(told)


def _denials(result: Mapping[str, Any]) -> str:
    denials = result.get("permission_denials")
    if not isinstance(denials, list) or not denials:
        return ""
    named = [_denial(denial) for denial in denials if isinstance(denial, dict)]
    more = f" and {len(named) - DENIALS_NAMED} more" if len(named) > DENIALS_NAMED else ""
    return f"permission denied: {'; '.join(named[:DENIALS_NAMED])}{more}"


def _denial(denial: Mapping[str, Any]) -> str:
    asked = denial.get("tool_input")
    target = ""
    if isinstance(asked, dict):
        target = text_at(asked, "command") or text_at(asked, "file_path")
    return f"{text_at(denial, 'tool_name')} {target}".strip()[:200]


def _main_model(result: Mapping[str, Any]) -> str:
    def written(name: str) -> int:
        use = _models(result)[name]
        tokens = use.get("outputTokens") if isinstance(use, Mapping) else None
        return tokens if isinstance(tokens, int) else 0

    return max(_models(result), key=written, default="")


def _models(result: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_at(result, "modelUsage")
