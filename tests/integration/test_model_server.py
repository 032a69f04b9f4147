"""The scripted model server itself, asked over HTTP as an agent would ask it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.model_script import (
    Conversation,
    Fault,
    Say,
    Scenario,
    Step,
    Structured,
    TokenUse,
    read_file,
    shell,
    write_file,
)
from tests.support.model_server import Billed, ModelServer

TOOLS = ("Read", "Write", "Bash")
SCENARIO = Scenario(
    [
        Conversation("ALPHA", [read_file("a.py"), write_file("a.py", "A = 1\n"), Say("done A")]),
        Conversation(
            "BRAVO",
            [
                Step(shell("ls"), usage=TokenUse(1, 2, 3, 4)),
                Step(Say("done B"), fault=Fault(429, {"retry-after": "7"}, times=2)),
            ],
        ),
        Conversation("CHARLIE", [Structured({"verdict": "pass"})]),
        Conversation("DELTA", [Step(Say("never said"), fault=Fault(529, times=None))]),
    ],
    usage=TokenUse(100, 10, 20, 5),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(SCENARIO) as running:
        yield running


def connect(server: ModelServer) -> http.client.HTTPConnection:
    where = urlsplit(server.url)
    return http.client.HTTPConnection(str(where.hostname), where.port, timeout=10)


def request(
    prompt: str, turns: int = 0, tools: tuple[str, ...] = TOOLS, **more: Any
) -> dict[str, Any]:
    """A request in which the model has already spoken `turns` times."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for _ in range(turns):
        heard = [{"type": "tool_result", "tool_use_id": "t", "content": "ALPHA BRAVO"}]
        messages += [{"role": "assistant", "content": []}, {"role": "user", "content": heard}]
    offered = [{"name": name} for name in tools]
    return {"model": "m", "messages": messages, "tools": offered, **more}


def post(
    server: ModelServer, body: Mapping[str, Any], path: str = "/v1/messages?beta=true"
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = connect(server)
    try:
        connection.request("POST", path, json.dumps(body))
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


def message(server: ModelServer, body: Mapping[str, Any]) -> dict[str, Any]:
    status, _, text = post(server, body)
    assert status == 200, text
    document: dict[str, Any] = json.loads(text)
    return document


def events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


def test_the_model_turns_in_the_request_pick_the_step(server: ModelServer) -> None:
    blocks = [message(server, request("do ALPHA", n))["content"][0] for n in (0, 1, 2, 7)]
    assert [block.get("name", block.get("text")) for block in blocks] == [
        "Read",
        "Write",
        "done A",
        "done A",
    ]
    assert blocks[1]["input"] == {"file_path": "a.py", "content": "A = 1\n"}


def test_a_request_repeated_gets_the_same_answer(server: ModelServer) -> None:
    first, second = (message(server, request("do ALPHA", 1)) for _ in range(2))
    assert first["content"][0]["input"] == second["content"][0]["input"]


def test_agents_side_by_side_each_get_their_own_script(server: ModelServer) -> None:
    asked = [request(f"do {word}") for word in ("ALPHA", "BRAVO", "CHARLIE") * 10]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda body: message(server, body)["content"][0], asked))
    told = [block.get("name", block.get("text")) for block in answers]
    assert told == ["Read", "Bash", '{"verdict": "pass"}'] * 10
    assert server.billed.requests == 30


@pytest.mark.parametrize("system", ["be ALPHA", [{"type": "text", "text": "be ALPHA"}]])
def test_the_system_prompt_picks_a_script_too(server: ModelServer, system: Any) -> None:
    assert message(server, request("hello", system=system))["content"][0]["name"] == "Read"


def test_what_a_tool_printed_never_picks_a_script(server: ModelServer) -> None:
    assert message(server, request("do CHARLIE", 1))["stop_reason"] == "end_turn"


def test_a_stream_says_what_the_whole_answer_says(server: ModelServer) -> None:
    whole = message(server, request("do ALPHA", 1))
    _, headers, text = post(server, request("do ALPHA", 1, stream=True))
    sent = events(text)
    opened, closed = sent[0]["message"], sent[-2]
    assert headers["Content-Type"] == "text/event-stream"
    assert [event["type"] for event in sent] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert json.loads(sent[2]["delta"]["partial_json"]) == whole["content"][0]["input"]
    assert opened["usage"] | closed["usage"] == whole["usage"]
    assert closed["delta"]["stop_reason"] == whole["stop_reason"] == "tool_use"


def test_a_structured_answer_uses_the_tool_where_one_is_offered(server: ModelServer) -> None:
    block = message(server, request("do CHARLIE", tools=("StructuredOutput",)))["content"][0]
    assert (block["name"], block["input"]) == ("StructuredOutput", {"verdict": "pass"})


def test_the_bill_is_the_sum_of_what_was_answered(server: ModelServer) -> None:
    for body in (request("ALPHA"), request("ALPHA", 1, stream=True), request("BRAVO")):
        post(server, body)
    assert server.billed_for("ALPHA") == Billed(200, 20, 40, 10, requests=2)
    assert server.billed_for("BRAVO") == Billed(1, 2, 3, 4, requests=1)
    assert server.billed == Billed(201, 22, 43, 14, requests=3)


def test_a_fault_strikes_as_often_as_scripted_and_costs_nothing(server: ModelServer) -> None:
    replies = [post(server, request("do BRAVO", 1, stream=True)) for _ in range(3)]
    assert [status for status, _, _ in replies] == [429, 429, 200]
    assert replies[0][1]["retry-after"] == "7"
    assert json.loads(replies[0][2])["error"]["type"] == "rate_limit_error"
    assert server.billed.requests == 1


def test_a_fault_without_a_count_never_ends(server: ModelServer) -> None:
    assert {post(server, request("do DELTA"))[0] for _ in range(5)} == {529}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (request("nobody's word"), "no conversation"),
        (request("do ALPHA", tools=("Bash", "Edit")), "['Bash', 'Edit']"),
    ],
    ids=["no script", "no such tool"],
)
def test_what_the_script_cannot_answer_is_refused_and_says_why(
    server: ModelServer, body: Mapping[str, Any], told: str
) -> None:
    status, _, text = post(server, body)
    assert status == 400
    assert told in json.loads(text)["error"]["message"]
    assert server.billed.requests == 0


def test_only_the_known_paths_answer(server: ModelServer) -> None:
    assert post(server, request("do ALPHA"), path="/v1/other")[0] == 404
    connection = connect(server)
    connection.request("HEAD", "/")
    assert connection.getresponse().status == 200
    connection.close()


def test_the_end_closes_the_port_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with ModelServer(SCENARIO) as server:
        kept, silent = connect(server), connect(server)
        kept.request("POST", "/v1/messages", json.dumps(request("do ALPHA")))
        kept.getresponse().read()
        silent.connect()
        port = urlsplit(server.url).port
        assert port
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    kept.close()
    silent.close()
