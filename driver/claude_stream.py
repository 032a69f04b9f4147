"""What the lines of `claude -p --output-format stream-json` mean. Pure: text in, a reply out.

Owns the judgement of the result line. The exit code and how the process ended are the adapter's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.agent_driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, FAILURE_NONE, Usage
from driver.usage import amount, count

ERROR_CHARACTERS = 2000
DENIALS_NAMED = 5

# Key wrong, model or address unknown, too slow, too many: nothing the agent did. 5xx joins them.
_ENVIRONMENT_STATUS = frozenset({401, 402, 403, 404, 407, 408, 429})

# The CLI gives these no status, or (credit) the status of a bad request.
_ENVIRONMENT_WORDS = (
    "not logged in",
    "failed to authenticate",
    "invalid api key",
    "credit balance is too low",
    "unable to connect",
    "request timed out",
    "connection error",
    "overloaded",
    "empty or malformed response",
)

_INPUT_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the stream says of one run. `started` is False when the CLI never began a session."""

    started: bool = False
    finished: bool = False
    failure: str = FAILURE_AGENT
    error: str = ""
    text: str = ""
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    structured: dict[str, Any] | None = None


def read_stream(lines: Iterable[str]) -> Reply:
    """The reply in these lines; lines that are no JSON object or of unknown type are passed over.

    Without a result line the run failed and its usage is unknown: what `assistant` lines carry is
    preliminary.
    """
    first: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    for line in lines:
        event = _event(line)
        if event.get("type") == "system" and event.get("subtype") == "init":
            first = first or event
        elif event.get("type") == "result":
            last = event
    model = _text(first or {}, "model") or None
    if last is None:
        error = "claude ended without a result"
        return Reply(started=first is not None, error=error, model=model)
    return _judge(last, model)


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
    return Usage(0, 0, 0.0) if _turned_down(result) else Usage()


def _event(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _judge(result: Mapping[str, Any], model: str | None) -> Reply:
    text, structured = _said(result), result.get("structured_output")
    failed = result.get("is_error") is not False
    return Reply(
        started=True,
        finished=True,
        failure=_failure(result, text) if failed else FAILURE_NONE,
        error=(text or "claude reported an error without words")[:ERROR_CHARACTERS]
        if failed
        else "",
        text="\n".join(filter(None, (text, _denials(result)))),
        model=_main_model(result) or model,
        usage=usage_of(result),
        structured=structured if isinstance(structured, dict) else None,
    )


def _failure(result: Mapping[str, Any], text: str) -> str:
    status = result.get("api_error_status")
    if isinstance(status, int) and (status in _ENVIRONMENT_STATUS or status >= 500):
        return FAILURE_COULD_NOT_RUN
    if any(words in text.lower() for words in _ENVIRONMENT_WORDS):
        return FAILURE_COULD_NOT_RUN
    return FAILURE_AGENT


def _turned_down(result: Mapping[str, Any]) -> bool:
    if _models(result) or result.get("is_error") is False:
        return False
    return isinstance(result.get("api_error_status"), int) or "not logged in" in (
        _said(result).lower()
    )


def _said(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    told = [str(error) for error in errors] if isinstance(errors, list) else []
    return _text(result, "result") or "; ".join(told)


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
        target = _text(asked, "command") or _text(asked, "file_path")
    return f"{_text(denial, 'tool_name')} {target}".strip()[:200]


def _main_model(result: Mapping[str, Any]) -> str:
    def written(name: str) -> int:
        use = _models(result)[name]
        tokens = use.get("outputTokens") if isinstance(use, Mapping) else None
        return tokens if isinstance(tokens, int) else 0

    return max(_models(result), key=written, default="")


def _models(result: Mapping[str, Any]) -> Mapping[str, Any]:
    models = result.get("modelUsage")
    return models if isinstance(models, dict) else {}


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
