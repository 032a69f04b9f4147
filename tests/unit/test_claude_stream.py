"""The result line, as version 2.1.197 wrote it for each kind of ending."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, FAILURE_NONE, Usage
from driver.backend_api.provider_fault import FaultKind
from driver.backends.cli.claude_stream import read_stream, usage_of

STREAMS = Path(__file__).parents[1] / "support" / "claude_streams"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

INIT = (
    '{"type":"system","subtype":"init","cwd":"/w","tools":["Bash","Edit","Read","Write"],'
    '"model":"claude-sonnet-5","permissionMode":"acceptEdits","apiKeySource":"ANTHROPIC_API_KEY"}'
)
ASSISTANT = (
    '{"type":"assistant","message":{"id":"msg_1","role":"assistant","model":"claude-sonnet-5",'
    '"content":[],"usage":{"input_tokens":1200,"output_tokens":1}}}'
)
RETRY = (
    '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":1,"retry_delay_ms":500,'
    '"error_status":429,"error":"rate_limit"}'
)
TWO_CALLS = (
    '"total_cost_usd":0.00957,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":'
    '{"claude-sonnet-5":{"inputTokens":2400,"outputTokens":68,"cacheReadInputTokens":2000,'
    '"cacheCreationInputTokens":200,"webSearchRequests":0,"costUSD":0.00957}}'
)
NO_CALLS = '"total_cost_usd":0,"modelUsage":{}'
NO_USAGE_TOLD = (
    '"total_cost_usd":0,"modelUsage":{"claude-sonnet-5":{"inputTokens":0,"outputTokens":0,'
    '"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0}}'
)
PAID = Usage(4600, 68, 0.00957)
FREE = Usage(0, 0, 0.0)

ENDINGS = {
    "success": (
        '{"subtype":"success","is_error":false,"api_error_status":null,'
        f'"result":"Done: wrote hello.txt",{TWO_CALLS}}}',
        (FAILURE_NONE, PAID),
    ),
    "success, but the server told no usage": (
        '{"subtype":"success","is_error":false,"api_error_status":null,'
        f'"result":"x",{NO_USAGE_TOLD}}}',
        (FAILURE_NONE, Usage()),
    ),
    "too many turns": (
        f'{{"subtype":"error_max_turns","is_error":true,{TWO_CALLS},'
        '"terminal_reason":"max_turns","errors":["Reached maximum number of turns (2)"]}',
        (FAILURE_AGENT, PAID),
    ),
    "over its own budget": (
        f'{{"subtype":"error_max_budget_usd","is_error":true,{TWO_CALLS},'
        '"errors":["Reached maximum budget ($0.001)"]}',
        (FAILURE_AGENT, PAID),
    ),
    "interrupted during a tool": (
        f'{{"subtype":"error_during_execution","is_error":true,{TWO_CALLS},'
        '"terminal_reason":"aborted_tools","errors":["[ede_diagnostic] result_type=user"]}',
        (FAILURE_AGENT, PAID),
    ),
    "refused by the model": (
        '{"subtype":"success","is_error":true,"api_error_status":null,"stop_reason":"refusal",'
        '"result":"API Error: Claude Code is unable to respond to this request, which appears to '
        f'violate our Usage Policy",{TWO_CALLS}}}',
        (FAILURE_AGENT, PAID),
    ),
    "answer too long": (
        '{"subtype":"success","is_error":true,"api_error_status":null,'
        '"result":"API Error: Claude\'s response exceeded the 64000 output token maximum.",'
        f"{TWO_CALLS}}}",
        (FAILURE_AGENT, PAID),
    ),
    "400": (
        '{"subtype":"success","is_error":true,"api_error_status":400,'
        f'"result":"API Error: 400 messages: text is not allowed here",{NO_CALLS}}}',
        (FAILURE_AGENT, FREE),
    ),
    "prompt too long": (
        '{"subtype":"success","is_error":true,"api_error_status":400,'
        f'"result":"Prompt is too long",{NO_CALLS},"terminal_reason":"prompt_too_long"}}',
        (FAILURE_AGENT, FREE),
    ),
    "no credit left": (
        '{"subtype":"success","is_error":true,"api_error_status":400,'
        f'"result":"Credit balance is too low",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "wrong key": (
        '{"subtype":"success","is_error":true,"api_error_status":401,'
        f'"result":"Failed to authenticate. API Error: 401 no",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "no key": (
        '{"subtype":"success","is_error":true,"api_error_status":null,'
        f'"result":"Not logged in \\u00b7 Please run /login",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "no such model": (
        '{"subtype":"success","is_error":true,"api_error_status":404,'
        f'"result":"There\'s an issue with the selected model (m).",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "rate limited": (
        '{"subtype":"success","is_error":true,"api_error_status":429,'
        f'"result":"API Error: Request rejected (429)",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "rate limited after some work": (
        '{"subtype":"success","is_error":true,"api_error_status":429,'
        f'"result":"API Error: Request rejected (429)",{TWO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, PAID),
    ),
    "server down": (
        '{"subtype":"success","is_error":true,"api_error_status":500,'
        f'"result":"API Error: 500 This is a server-side issue",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, FREE),
    ),
    "overloaded without a status": (
        '{"subtype":"success","is_error":true,"api_error_status":null,'
        f'"result":"Repeated 529 Overloaded errors",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, Usage()),
    ),
    "connection lost, perhaps after an answer was made": (
        '{"subtype":"success","is_error":true,"api_error_status":null,'
        f'"result":"API Error: Unable to connect to API (ECONNRESET)",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, Usage()),
    ),
    "another program answers": (
        '{"subtype":"success","is_error":true,"api_error_status":null,"result":"API Error: API '
        f'returned an empty or malformed response (HTTP 200)",{NO_CALLS}}}',
        (FAILURE_COULD_NOT_RUN, Usage()),
    ),
}


def line(ending: str) -> str:
    return ending.replace("{", '{"type":"result",', 1)


@pytest.mark.parametrize(("ending", "expected"), ENDINGS.values(), ids=ENDINGS)
def test_the_result_line_decides(ending: str, expected: tuple[str, Usage]) -> None:
    reply = read_stream([INIT, RETRY, ASSISTANT, line(ending)], NOW)
    told = Usage(least_tokens=1201)  # by the answer before, where the result does not say
    failure, usage = expected
    assert (reply.failure, reply.usage) == (failure, told if usage == Usage() else usage)
    assert (reply.started, reply.finished, reply.model) == (True, True, "claude-sonnet-5")
    assert bool(reply.error) == (reply.failure != FAILURE_NONE)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("400", None),
        ("prompt too long", None),
        ("refused by the model", None),
        ("too many turns", None),
        ("over its own budget", None),
        ("answer too long", None),
        ("success", None),
        ("no credit left", FaultKind.NO_CREDIT),
        ("wrong key", FaultKind.BAD_KEY),
        ("no key", FaultKind.BAD_KEY),
        ("no such model", FaultKind.UNKNOWN_MODEL),
        ("rate limited", FaultKind.RATE_LIMITED),
        ("rate limited after some work", FaultKind.RATE_LIMITED),
        ("server down", FaultKind.OVERLOADED),
        ("overloaded without a status", FaultKind.OVERLOADED),
        ("connection lost, perhaps after an answer was made", FaultKind.DROPPED),
        ("another program answers", FaultKind.MALFORMED),
    ],
)
def test_a_fault_of_the_provider_is_told_from_the_agents_failure(
    ending: str, kind: FaultKind | None
) -> None:
    fault = read_stream([INIT, ASSISTANT, line(ENDINGS[ending][0])], NOW).fault
    assert (fault and fault.kind) == kind


def test_the_delay_that_the_server_asked_for_is_handed_on() -> None:
    fault = read_stream([INIT, RETRY, line(ENDINGS["rate limited"][0])], NOW).fault
    assert fault is not None
    assert (fault.status, fault.retry_after_s) == (429, 0.5)


@pytest.mark.parametrize("is_error", [True, False])
def test_a_used_up_plan_is_told_whether_or_not_it_is_called_an_error(is_error: bool) -> None:
    said = "Claude AI usage limit reached|1780000000"
    result = {"type": "result", "subtype": "success", "is_error": is_error, "result": said}
    reply = read_stream([INIT, json.dumps(result)], NOW)
    assert reply.failure == FAILURE_COULD_NOT_RUN
    assert reply.fault is not None
    assert (reply.fault.kind, reply.fault.resets_at) == (FaultKind.USAGE_LIMIT, 1780000000.0)


@pytest.mark.parametrize(
    ("name", "failure", "kind"),
    [
        ("success", FAILURE_NONE, None),
        ("max_turns", FAILURE_AGENT, None),
        ("api_error", FAILURE_AGENT, None),
        ("rate_limited", FAILURE_COULD_NOT_RUN, FaultKind.RATE_LIMITED),
        ("session_limit", FAILURE_COULD_NOT_RUN, FaultKind.USAGE_LIMIT),
    ],
)
def test_captured_streams_are_read_as_they_were_meant(
    name: str, failure: str, kind: FaultKind | None
) -> None:
    lines = (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    reply = read_stream(lines, NOW)
    assert (reply.failure, reply.fault and reply.fault.kind) == (failure, kind)
    if kind is FaultKind.USAGE_LIMIT:
        assert reply.fault is not None
        assert (reply.fault.resets_at, reply.usage) == (1795977565.0, FREE)


def test_the_line_about_limits_makes_a_429_a_used_up_plan_with_its_time() -> None:
    told = {"status": "rejected", "resetsAt": 1780000000, "rateLimitType": "five_hour"}
    limit = json.dumps({"type": "rate_limit_event", "rate_limit_info": told})
    fault = read_stream([INIT, limit, line(ENDINGS["rate limited"][0])], NOW).fault
    assert fault is not None
    assert (fault.kind, fault.resets_at) == (FaultKind.USAGE_LIMIT, 1780000000.0)


@pytest.mark.parametrize("told", ["9" * 400, "NaN", "-5", "true", '"soon"', "1e400"])
def test_a_time_that_cannot_be_is_not_taken_from_the_lines(told: str) -> None:
    limit = (
        '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": %s}}'
    )
    retry = '{"type": "system", "subtype": "api_retry", "retry_delay_ms": %s}'
    lines = [INIT, limit % told, retry % told, line(ENDINGS["rate limited"][0])]
    fault = read_stream(lines, NOW).fault
    assert fault is not None
    assert (fault.kind, fault.resets_at) == (FaultKind.USAGE_LIMIT, None)
    assert fault.retry_after_s is None


def test_an_allowed_limit_line_changes_nothing() -> None:
    told = {"status": "allowed_warning", "resetsAt": 1780000000}
    limit = json.dumps({"type": "rate_limit_event", "rate_limit_info": told})
    fault = read_stream([INIT, limit, line(ENDINGS["rate limited"][0])], NOW).fault
    assert fault is not None
    assert fault.kind is FaultKind.RATE_LIMITED


def test_an_agent_that_writes_about_limits_has_not_met_one() -> None:
    said = 'Done. The page now says "You\'ve hit your limit" when the server answers 429.'
    result = {"type": "result", "subtype": "success", "is_error": False, "result": said}
    assert read_stream([INIT, json.dumps(result)], NOW).failure == FAILURE_NONE


def test_without_a_result_line_the_run_failed_and_its_use_is_unknown() -> None:
    reply = read_stream([INIT, ASSISTANT], NOW)
    assert (reply.started, reply.finished, reply.failure) == (True, False, FAILURE_AGENT)
    assert reply.usage == Usage(least_tokens=1201)
    assert reply.model == "claude-sonnet-5"


@pytest.mark.parametrize(
    "noise",
    ["", "plain words", "[1, 2]", '{"type": 7}', '{"type":"newer","x":1}', "{" * 5, "[" * 100_000],
)
def test_lines_of_no_known_kind_are_passed_over(noise: str) -> None:
    reply = read_stream([noise, INIT, noise, line(ENDINGS["success"][0]), noise], NOW)
    assert (reply.failure, reply.text) == (FAILURE_NONE, "Done: wrote hello.txt")


def test_denied_tools_are_named_in_the_text() -> None:
    denials = [
        {"tool_name": "Bash", "tool_input": {"command": "python3 -c 'print(1)'"}},
        {"tool_name": "Write", "tool_input": {"file_path": "/etc/x", "content": "1"}},
        *[{"tool_name": f"Tool{n}"} for n in range(6)],
        "not an object",
    ]
    result = {"type": "result", "is_error": False, "result": "no", "permission_denials": denials}
    text = read_stream([INIT, json.dumps(result)], NOW).text
    named = "Bash python3 -c 'print(1)'; Write /etc/x; Tool0; Tool1; Tool2 and 3 more"
    assert text == f"no\npermission denied: {named}"


def test_a_result_that_does_not_say_it_is_no_error_is_one() -> None:
    assert read_stream([INIT, '{"type":"result","result":"Done"}'], NOW).failure == FAILURE_AGENT


def test_tokens_are_summed_over_models_and_the_busiest_is_named() -> None:
    models = {
        "small": {"inputTokens": 1, "outputTokens": 2},
        "large": {"inputTokens": 10, "outputTokens": 20, "cacheReadInputTokens": 100},
    }
    result = {"type": "result", "is_error": False, "total_cost_usd": 1, "modelUsage": models}
    reply = read_stream([INIT, json.dumps(result)], NOW)
    assert (reply.usage, reply.model) == (Usage(111, 22, 1.0), "large")


@pytest.mark.parametrize(
    ("result", "known"),
    [
        ({}, Usage()),
        ({"modelUsage": None}, Usage()),
        ({"modelUsage": {"m": {"inputTokens": -5, "outputTokens": 9}}}, Usage(None, 9)),
        ({"modelUsage": {"m": {"inputTokens": True, "outputTokens": 9}}}, Usage(None, 9)),
        ({"modelUsage": {"m": {"inputTokens": -5}}, "total_cost_usd": 1.0}, Usage(cost_usd=1.0)),
        ({"modelUsage": {"m": {"inputTokens": 5, "outputTokens": 9}}}, Usage(5, 9)),
        (
            {"modelUsage": {"m": {"inputTokens": 5, "outputTokens": 9}}, "total_cost_usd": "1"},
            Usage(5, 9),
        ),
        (
            {"modelUsage": {"m": {"outputTokens": 9, "costUSD": 0.5}}, "total_cost_usd": None},
            Usage(None, 9, 0.5),
        ),
        (
            {"modelUsage": {"m": "many"}, "total_cost_usd": 1.0, "is_error": False},
            Usage(cost_usd=1.0),
        ),
    ],
)
def test_a_number_that_cannot_be_is_unknown_and_the_others_count(
    result: dict[str, Any], known: Usage
) -> None:
    assert usage_of(result) == known


@pytest.mark.parametrize("is_error", [True, False])
def test_cost_and_use_count_without_a_table_of_models(is_error: bool) -> None:
    use = {
        "input_tokens": 100,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 3,
        "output_tokens": 7,
    }
    result = {"is_error": is_error, "total_cost_usd": 42, "usage": use}
    assert usage_of(result) == Usage(123, 7, 42.0)
    assert usage_of({"is_error": is_error, "total_cost_usd": 42}) == Usage(cost_usd=42.0)
    assert usage_of({"is_error": is_error, "usage": {"output_tokens": 7}}) == Usage(None, 7)
