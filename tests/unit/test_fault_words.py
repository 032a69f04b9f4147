"""What the CLIs print when their provider fails, and what it is called here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from driver.backend_api.fault_words import fault_in, fault_kind
from driver.backend_api.provider_fault import FaultKind

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

SAID = [
    ("Not logged in \u00b7 Please run /login", None, FaultKind.BAD_KEY),
    ("Invalid API key \u00b7 Fix external API key", None, FaultKind.BAD_KEY),
    ("Failed to authenticate. API Error: 401 no", 401, FaultKind.BAD_KEY),
    ("unexpected status 401 Unauthorized: wrong key, url: http://h/v1", None, FaultKind.BAD_KEY),
    ("Missing environment variable: `P_KEY`.", None, FaultKind.BAD_KEY),
    ("forbidden", 403, FaultKind.BAD_KEY),
    ("Credit balance is too low", 400, FaultKind.NO_CREDIT),
    ("Quota exceeded. Check your plan and billing details.", None, FaultKind.NO_CREDIT),
    ("You exceeded your current quota", 429, FaultKind.NO_CREDIT),
    ("To use Codex with your ChatGPT plan, upgrade to Plus", None, FaultKind.NO_CREDIT),
    ("There's an issue with the selected model (m).", 404, FaultKind.UNKNOWN_MODEL),
    ("The model `m` does not exist or you do not have access", 404, FaultKind.UNKNOWN_MODEL),
    ('{"error":{"code":"model_not_found"}}', 400, FaultKind.UNKNOWN_MODEL),
    ("no such path", 404, FaultKind.BAD_REQUEST),
    ("API Error: Request rejected (429)", 429, FaultKind.RATE_LIMITED),
    ("exceeded retry limit, last status: 429 Too Many Requests", None, FaultKind.RATE_LIMITED),
    ("Repeated 529 Overloaded errors", None, FaultKind.OVERLOADED),
    ("We're currently experiencing high demand", None, FaultKind.OVERLOADED),
    ("API Error: 500 This is a server-side issue", 500, FaultKind.OVERLOADED),
    ("exceeded retry limit, last status: 503 Service Unavailable", None, FaultKind.OVERLOADED),
    ("whatever", 599, FaultKind.OVERLOADED),
    ("Request timed out", None, FaultKind.SILENT),
    ("whatever", 408, FaultKind.SILENT),
    ("API Error: Unable to connect to API (ECONNRESET)", None, FaultKind.DROPPED),
    ("stream disconnected before completion: stream closed", None, FaultKind.DROPPED),
    ("error sending request for url (http://h/v1/responses)", None, FaultKind.DROPPED),
    ("API returned an empty or malformed response (HTTP 200)", None, FaultKind.MALFORMED),
    ("5-hour limit reached \u2219 resets 3pm", 429, FaultKind.USAGE_LIMIT),
    ("Prompt is too long", 400, None),
    ("API Error: 400 the request is malformed", 400, None),
    ("Codex ran out of room in the model's context window.", None, None),
    ("Incomplete response returned, reason: max_output_tokens", None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("text", "status", "kind"), SAID)
def test_what_is_said_has_one_name(text: str, status: int | None, kind: FaultKind | None) -> None:
    fault = fault_in(text, NOW, status=status)
    assert (fault and fault.kind) == kind


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (429, "Quota exceeded for requests per minute", FaultKind.RATE_LIMITED),
        (429, "rate limit; the model was not found in your api key's list", FaultKind.RATE_LIMITED),
        (400, "model x: response_format json_schema is not supported", FaultKind.BAD_REQUEST),
        (500, "the model was not found in a cache", FaultKind.OVERLOADED),
        (None, "context length 8192 exceeded by 500 tokens", FaultKind.BAD_REQUEST),
        (None, "who knows", None),
    ],
)
def test_words_decide_only_where_they_say_more_than_the_status(
    status: int | None, words: str, kind: FaultKind | None
) -> None:
    assert fault_kind(status, words) == kind


def test_an_allowance_that_is_back_soon_is_only_a_rate_limit() -> None:
    said = "You have exhausted your capacity on this model. Your quota will reset after "
    soon, later = fault_in(said + "39s.", NOW), fault_in(said + "2h7m23s.", NOW)
    assert soon is not None
    assert later is not None
    assert (soon.kind, soon.retry_after_s) == (FaultKind.RATE_LIMITED, 39.0)
    assert (later.kind, later.retry_after_s) == (FaultKind.USAGE_LIMIT, None)


def test_a_fault_carries_what_was_said_and_when_to_come_back() -> None:
    fault = fault_in("Request rejected (429)", NOW, status=429, retry_after_s=3.0)
    assert fault is not None
    assert (fault.message, fault.status, fault.retry_after_s) == ("Request rejected (429)", 429, 3)
    used_up = fault_in("5-hour limit reached \u2219 resets 3pm", NOW)
    assert used_up is not None
    assert used_up.resets_at == NOW.replace(hour=15).timestamp()
