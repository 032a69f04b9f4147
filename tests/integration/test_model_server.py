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


def chat(prompt: str, turns: int = 0, **more: Any) -> dict[str, Any]:
    spoken = [{"role": "assistant", "content": None}, {"role": "tool", "content": "ALPHA"}]
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": prompt}]
    offered = [{"type": "function", "function": {"name": name}} for name in TOOLS]
    return {"model": "m", "messages": messages + spoken * turns, "tools": offered, **more}


def responses(prompt: str, turns: int = 0, **more: Any) -> dict[str, Any]:
    spoken = [{"type": "function_call"}, {"type": "function_call_output", "output": "ALPHA"}]
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
    offered = [{"type": "function", "name": name} for name in TOOLS]
    return {"model": "m", "input": [asked, *spoken * turns], "tools": offered, **more}


def generate(prompt: str, turns: int = 0) -> dict[str, Any]:
    heard = {"role": "user", "parts": [{"functionResponse": {"response": {"text": "ALPHA"}}}]}
    asked = {"role": "user", "parts": [{"text": prompt}]}
    declared = {"functionDeclarations": [{"name": name} for name in TOOLS]}
    contents = [asked, *[{"role": "model", "parts": []}, heard] * turns]
    return {"contents": contents, "tools": [declared]}


CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
GEMINI = "/v1beta/models/m:generateContent"
GEMINI_STREAM = "/v1beta/models/m:streamGenerateContent?alt=sse"


def ok(server: ModelServer, body: Mapping[str, Any], path: str) -> str:
    status, _, text = post(server, body, path)
    assert status == 200, text
    return text


class TestChatCompletions:
    def test_a_tool_call_and_its_bill(self, server: ModelServer) -> None:
        document = json.loads(ok(server, chat("do ALPHA", 1), CHAT))
        (choice,) = document["choices"]
        (call,) = choice["message"]["tool_calls"]
        assert (choice["finish_reason"], call["function"]["name"]) == ("tool_calls", "Write")
        assert json.loads(call["function"]["arguments"])["content"] == "A = 1\n"
        used = document["usage"]
        assert (used["prompt_tokens"], used["completion_tokens"]) == (125, 10)
        assert used["prompt_tokens_details"] == {"cached_tokens": 20}
        assert server.billed == Billed(100, 10, 20, 5, requests=1)

    @pytest.mark.parametrize("wanted", [True, False])
    def test_a_stream_tells_its_use_only_where_it_is_asked(
        self, server: ModelServer, wanted: bool
    ) -> None:
        asked = chat("do ALPHA", 2, stream=True, stream_options={"include_usage": wanted})
        text = ok(server, asked, CHAT)
        assert text.endswith("data: [DONE]\n\n")
        chunks = events(text.removesuffix("data: [DONE]\n\n"))
        said = [part["delta"].get("content") for c in chunks for part in c["choices"]]
        assert said == ["done A", None]
        assert [c["usage"]["total_tokens"] for c in chunks if "usage" in c] == [135] * wanted

    def test_an_error_has_this_formats_shape(self, server: ModelServer) -> None:
        status, headers, text = post(server, chat("do BRAVO", 1), CHAT)
        assert (status, headers["retry-after"]) == (429, "7")
        assert json.loads(text)["error"]["type"] == "rate_limit_error"


class TestResponses:
    def test_a_stream_says_what_the_whole_answer_says(self, server: ModelServer) -> None:
        whole = json.loads(ok(server, responses("do ALPHA"), RESPONSES))
        sent = events(ok(server, responses("do ALPHA", stream=True), RESPONSES))
        assert [event["type"] for event in sent] == [
            "response.created",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
        (item,) = sent[-1]["response"]["output"]
        assert (item["type"], item["name"]) == ("function_call", "Read")
        assert item["arguments"] == whole["output"][0]["arguments"]
        assert sent[-1]["response"]["usage"] == whole["usage"]
        assert whole["usage"]["input_tokens"] == 125

    def test_text_comes_as_a_delta_and_a_message(self, server: ModelServer) -> None:
        sent = events(ok(server, responses("do ALPHA", 2, stream=True), RESPONSES))
        deltas = [event["delta"] for event in sent if event["type"].endswith("text.delta")]
        (item,) = sent[-1]["response"]["output"]
        assert deltas == [item["content"][0]["text"]] == ["done A"]


class TestGenerateContent:
    def test_a_stream_says_what_the_whole_answer_says(self, server: ModelServer) -> None:
        whole = json.loads(ok(server, generate("do ALPHA", 1), GEMINI))
        (streamed,) = events(ok(server, generate("do ALPHA", 1), GEMINI_STREAM))
        assert streamed == whole
        (part,) = whole["candidates"][0]["content"]["parts"]
        assert part["functionCall"]["name"] == "Write"
        used = whole["usageMetadata"]
        assert (used["promptTokenCount"], used["cachedContentTokenCount"]) == (125, 20)
        assert used["totalTokenCount"] == 135


class TestBrokenAnswers:
    def serve(self, fault: Fault) -> ModelServer:
        return ModelServer(Scenario([Conversation("", [Step(Say("hello"), fault=fault)])]))

    def test_a_cut_answer_breaks_off_and_is_billed(self) -> None:
        with self.serve(Fault(cut_after=20)) as server:
            with pytest.raises(http.client.IncompleteRead):
                post(server, chat("x"), CHAT)
            assert server.billed.requests == 1
            assert post(server, chat("x"), CHAT)[0] == 200

    def test_a_body_can_be_anything_and_is_not_billed(self) -> None:
        with self.serve(Fault(body="<html>", content_type="text/html")) as server:
            status, headers, text = post(server, chat("x"), CHAT)
            assert (status, headers["Content-Type"], text) == (200, "text/html", "<html>")
            assert server.billed.requests == 0

    def test_silence_lasts_until_the_server_ends(self) -> None:
        connection = None
        with self.serve(Fault(hangs=True)) as server:
            connection = connect(server)
            connection.request("POST", CHAT, json.dumps(chat("x")))
            assert connection.sock is not None
            connection.sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.getresponse()
            assert server.billed.requests == 0
        connection.close()

    def test_an_aside_answers_what_agents_ask_for_themselves(self) -> None:
        scenario = Scenario([Conversation("", [shell("ls")])], aside=Say("a title"))
        with ModelServer(scenario) as server:
            bare = chat("x") | {"tools": []}
            said = json.loads(ok(server, bare, CHAT))["choices"][0]["message"]["content"]
            assert said == "a title"


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
