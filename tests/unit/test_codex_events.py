"""The events as version 0.171.0 wrote them against a scripted server, one file for each ending."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, FAILURE_NONE, Usage
from driver.backend_api.provider_fault import FaultKind
from driver.backends.cli.codex_events import read_events
from driver.backends.cli.json_output import answer_in

STREAMS = Path(__file__).parents[1] / "support" / "codex_streams"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FREE = Usage(0, 0, 0.0)
THREAD = '{"type":"thread.started","thread_id":"0001"}'
TURN = '{"type":"turn.started"}'

ENDINGS = [
    ("success", FAILURE_NONE, None, Usage(6600, 102)),
    ("limit_once", FAILURE_NONE, None, Usage(2200, 34)),
    ("structured", FAILURE_NONE, None, Usage(2200, 34)),
    ("no_usage", FAILURE_NONE, None, Usage()),
    ("rate_limited", FAILURE_COULD_NOT_RUN, FaultKind.RATE_LIMITED, FREE),
    ("rate_limited_after_work", FAILURE_COULD_NOT_RUN, FaultKind.RATE_LIMITED, Usage()),
    ("usage_limit", FAILURE_COULD_NOT_RUN, FaultKind.USAGE_LIMIT, FREE),
    ("no_quota", FAILURE_COULD_NOT_RUN, FaultKind.NO_CREDIT, FREE),
    ("bad_key", FAILURE_COULD_NOT_RUN, FaultKind.BAD_KEY, FREE),
    ("unknown_model", FAILURE_COULD_NOT_RUN, FaultKind.UNKNOWN_MODEL, FREE),
    ("bad_request", FAILURE_AGENT, None, FREE),
    ("server_error", FAILURE_COULD_NOT_RUN, FaultKind.OVERLOADED, Usage()),
    ("overloaded", FAILURE_COULD_NOT_RUN, FaultKind.OVERLOADED, Usage()),
    ("reset", FAILURE_COULD_NOT_RUN, FaultKind.DROPPED, Usage()),
    ("cut", FAILURE_COULD_NOT_RUN, FaultKind.DROPPED, Usage()),
    ("incomplete", FAILURE_AGENT, None, Usage()),
]


def lines_of(name: str) -> list[str]:
    return (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("name", "failure", "kind", "usage"), ENDINGS, ids=[e[0] for e in ENDINGS])
def test_the_last_turn_decides(
    name: str, failure: str, kind: FaultKind | None, usage: Usage
) -> None:
    reply = read_events(lines_of(name), NOW)
    assert (reply.started, reply.finished) == (True, True)
    assert (reply.failure, reply.fault and reply.fault.kind, reply.usage) == (failure, kind, usage)
    assert bool(reply.error) == (failure != FAILURE_NONE)


def test_every_captured_stream_is_in_the_table() -> None:
    assert {path.stem for path in STREAMS.glob("*.jsonl")} == {ending[0] for ending in ENDINGS}


def test_a_used_up_plan_says_when_it_works_again() -> None:
    fault = read_events(lines_of("usage_limit"), NOW).fault
    assert fault is not None
    assert fault.resets_at == datetime(2026, 11, 30, 0, 53, tzinfo=UTC).timestamp()


def test_the_servers_own_words_are_taken_out_of_their_object() -> None:
    assert read_events(lines_of("bad_request"), NOW).error == "the request is malformed"


def test_a_reconnection_is_no_failure() -> None:
    assert read_events(lines_of("limit_once"), NOW).text == "survived"


def test_the_use_of_all_turns_is_added_up() -> None:
    turn = {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 7}}
    lines = [THREAD, TURN, json.dumps(turn), TURN, json.dumps(turn)]
    assert read_events(lines, NOW).usage == Usage(200, 14)


def test_one_turn_without_a_told_use_makes_the_sum_unknown_but_for_its_least() -> None:
    told = {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 7}}
    silent = {"type": "turn.completed", "usage": {"input_tokens": 0, "output_tokens": 0}}
    lines = [THREAD, TURN, json.dumps(told), TURN, json.dumps(silent)]
    assert read_events(lines, NOW).usage == Usage(least_tokens=107)


@pytest.mark.parametrize("use", [{"input_tokens": -1}, {"input_tokens": "many"}, None, 7])
def test_numbers_that_cannot_be_are_unknown_use(use: object) -> None:
    line = json.dumps({"type": "turn.completed", "usage": use})
    assert read_events([THREAD, TURN, line], NOW).usage == Usage()


@pytest.mark.parametrize("last", [[], [TURN]])
def test_without_the_end_of_a_turn_the_run_failed(last: list[str]) -> None:
    reply = read_events([THREAD, *last], NOW)
    assert (reply.finished, reply.failure, reply.usage) == (False, FAILURE_AGENT, Usage())


@pytest.mark.parametrize(
    "noise", ["", "words", "[1]", '{"type": 7}', '{"type":"newer"}', "[" * 100_000]
)
def test_lines_of_no_known_kind_are_passed_over(noise: str) -> None:
    lines = [line for known in lines_of("success") for line in (noise, known)]
    assert read_events(lines, NOW).text == "Done: wrote hello.txt"


def test_a_warning_about_the_model_is_no_failure() -> None:
    warning = {"type": "item.completed", "item": {"type": "error", "message": "unknown model"}}
    lines = lines_of("success")
    reply = read_events([lines[0], json.dumps(warning), *lines[1:]], NOW)
    assert (reply.failure, reply.error) == (FAILURE_NONE, "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1, "a": 2}', None),
        ('{"a": NaN}', None),
        ("not json", None),
        ("[1]", None),
        ("[" * 100_000, None),
    ],
)
def test_only_an_object_is_a_structured_answer(text: str, value: object) -> None:
    assert answer_in(text) == value
