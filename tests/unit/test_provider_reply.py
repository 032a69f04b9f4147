"""What an HTTP answer means: tables of what servers really send."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from driver.backend_api.provider_fault import FaultKind
from driver.backends.http.reply import (
    MAX_RETRY_AFTER_S,
    HttpAnswer,
    TransportError,
    checked_document,
    complaint_in,
    foreign_error,
    read_reply,
    retry_after_s,
)

NOW = 1_800_000_000.0
GOOD = {"choices": [{"message": {"content": "x"}}]}
K = FaultKind


def answer(status: int, value: object, **headers: str) -> HttpAnswer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    told = {"content-type": "application/json", **headers}
    return HttpAnswer(status, "Reason", told, body)


def refused(status: int, value: object, **headers: str) -> TransportError:
    with pytest.raises(TransportError) as caught:
        read_reply(answer(status, value, **headers), NOW)
    return caught.value


def openai(message: str = "no", code: object = None, kind: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json; charset=utf-8"},
        {"content-type": "application/vnd.api+json"},
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-encoding": "identity"},
    ],
)
def test_a_document_is_read_whatever_json_is_called(headers: dict[str, str]) -> None:
    assert read_reply(answer(200, GOOD, **headers), NOW) == GOOD
    assert read_reply(answer(200, b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), **headers), NOW)


@pytest.mark.parametrize(
    ("status", "value", "kind"),
    [
        (401, openai("Incorrect API key provided"), K.BAD_KEY),
        (403, openai("Country not supported"), K.BAD_KEY),
        (403, openai("no access to model `m`", "model_not_found"), K.UNKNOWN_MODEL),
        (400, openai("API key not valid. Please pass a valid API key."), K.BAD_KEY),
        (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}], K.BAD_REQUEST),
        (400, openai("Your credit balance is too low to access the API."), K.NO_CREDIT),
        (400, openai("Invalid model name passed in model=gpt-9", "400"), K.UNKNOWN_MODEL),
        (400, openai("This model's maximum context length is 8192"), K.BAD_REQUEST),
        (402, openai("Insufficient credits", 402), K.NO_CREDIT),
        (404, openai('model "llama3.1" not found, try pulling it first'), K.UNKNOWN_MODEL),
        (404, openai("The model `gpt-4o` does not exist", "model_not_found"), K.UNKNOWN_MODEL),
        (404, openai("No endpoints found for a/b."), K.UNKNOWN_MODEL),
        (404, {"error": "No models loaded. Please load a model."}, K.UNKNOWN_MODEL),
        (404, b"404 page not found", K.BAD_REQUEST),
        (404, {"detail": "Not Found"}, K.BAD_REQUEST),
        (408, openai(), K.OVERLOADED),
        (413, b"", K.BAD_REQUEST),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, K.BAD_REQUEST),
        (429, openai("see your api keys", "rate_limit_exceeded"), K.RATE_LIMITED),
        (429, openai("You exceeded your current quota", "insufficient_quota"), K.NO_CREDIT),
        (429, {"error": {"type": "usage_limit_reached", "resets_at": 5}}, K.USAGE_LIMIT),
        (429, {"error": {"message": "slow", "code": "429"}}, K.RATE_LIMITED),
        (500, openai("The model not found in cache"), K.OVERLOADED),
        (501, openai(), K.BAD_REQUEST),
        (503, openai("Loading model", 503, "unavailable_error"), K.OVERLOADED),
        (529, b"<html>", K.OVERLOADED),
        (307, b"", K.BAD_REQUEST),
    ],
)  # fmt: skip
def test_a_refusal_has_the_kind_that_its_status_and_words_mean(
    status: int, value: object, kind: FaultKind
) -> None:
    error = refused(status, value)
    assert (error.fault.kind, error.fault.status) == (kind, status)
    assert str(error).startswith(f"OpenAI API request failed: HTTP Error {status}: Reason")
    assert error.billed is (status == 408)


@pytest.mark.parametrize(
    ("value", "kind", "billed"),
    [
        ({"error": {"code": 429, "message": "slow"}}, K.RATE_LIMITED, True),
        ({"error": {"code": 502, "message": "x"}, "choices": []}, K.OVERLOADED, True),
        ({"error": {"message": "rate limit"}}, K.RATE_LIMITED, True),
        ({"error": "engine overloaded"}, K.OVERLOADED, True),
        ({"error": "who knows"}, K.MALFORMED, True),
        ({"errors": [{"message": "invalid_request"}]}, K.BAD_REQUEST, False),
        ({"object": "error", "message": "bad", "code": 400}, K.BAD_REQUEST, False),
        ({"message": "Unauthorized", "code": "x"}, K.BAD_KEY, False),
        ({"error": {"message": "no such model"}}, K.UNKNOWN_MODEL, False),
        ([{"error": {"code": 503, "message": "x"}}], K.OVERLOADED, True),
        ({"choices": [{"error": {"code": 502, "message": "cut"}}]}, K.OVERLOADED, True),
        ({"choices": None}, K.MALFORMED, True),
        ({"choices": ["x"]}, K.MALFORMED, True),
        ("text", K.MALFORMED, True),
        (["x"], K.MALFORMED, True),
    ],
)
def test_an_error_inside_200_is_one(value: object, kind: FaultKind, billed: bool) -> None:
    error = refused(200, value)
    assert (error.fault.kind, error.billed) == (kind, billed)


def test_an_empty_error_beside_an_answer_is_none() -> None:
    document = {**GOOD, "error": None}
    assert checked_document(document) == document


@pytest.mark.parametrize("value", [None, "", {}, [], 5, {"error": {}}, {"message": "m"}])
def test_what_reports_no_error_is_no_complaint(value: object) -> None:
    assert complaint_in(value) is None


def test_openais_error_text_has_code_and_message() -> None:
    error = refused(400, openai("too long", "context_length_exceeded"))
    assert str(error).endswith("Reason [context_length_exceeded, too long]")


def test_a_message_is_bounded_and_harmless() -> None:
    error = refused(400, openai("\x1b[2J" + "x" * 10_000))
    assert len(str(error)) < 1000
    assert "\x1b" not in str(error)


def test_the_time_at_which_a_plan_works_again_is_kept() -> None:
    error = refused(429, {"error": {"type": "usage_limit_reached", "resets_at": 1.9e9}})
    assert error.fault.resets_at == 1.9e9


IN_A_MINUTE = format_datetime(datetime.fromtimestamp(NOW + 60, UTC), usegmt=True)
LONG_AGO = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": IN_A_MINUTE}, 60.0),
        ({"retry-after": IN_A_MINUTE.replace(" GMT", "")}, 60.0),
        ({"retry-after": LONG_AGO}, 0.0),
        ({"retry-after": "86400"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"llm_provider-retry-after": "7"}, 7.0),
        ({"retry-after": "soon", "llm_provider-retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ],
)
def test_the_wait_that_is_asked_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds
    assert refused(429, openai(), **headers).fault.retry_after_s == seconds


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("OpenAI API request failed: HTTP Error 429: Too Many"), K.RATE_LIMITED),
        (RuntimeError("HTTP Error 401: Unauthorized"), K.BAD_KEY),
        (RuntimeError("OPENAI_API_KEY is not set"), K.BAD_REQUEST),
        (TimeoutError("timed out"), K.SILENT),
        (ConnectionResetError(), K.DROPPED),
        (ValueError("no JSON"), K.MALFORMED),
    ],
)
def test_an_error_of_somebodys_own_transport_has_a_kind_too(
    error: Exception, kind: FaultKind
) -> None:
    assert foreign_error(error).fault.kind is kind
