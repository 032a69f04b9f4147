"""A model behind a loopback port, scripted by the test, for running real agent programs offline.

Owns the script, which step answers a request, and the bill of what was answered. A wire format is
one class (`AnthropicMessages` is the first); another is a sibling and a line in `WIRE_FORMATS`.
Does not start agents, and judges nothing: what an agent did is looked up in its folder.

The step is the number of model turns already in the request, so agents may run side by side and a
repeated request gets the same answer. Only how often a fault struck is remembered.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol, Self

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens of one answer; `input_tokens` counts neither cache reads nor cache writes."""

    input_tokens: int = 700
    output_tokens: int = 40
    cache_read: int = 300
    cache_write: int = 50


@dataclass(frozen=True, slots=True)
class Billed:
    """Tokens of a number of answers; an error is no answer and costs nothing."""

    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int
    requests: int


@dataclass(frozen=True, slots=True)
class Say:
    """The model answers with text and ends its turn."""

    text: str


@dataclass(frozen=True, slots=True)
class UseTool:
    """The model calls a tool; a request that does not offer it is refused, naming those offered."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Structured:
    """The model gives an object: by tool where the agent offers one for it, else as JSON text."""

    value: Json

    def spoken(self, tools: frozenset[str]) -> Say | UseTool:
        if "StructuredOutput" in tools:
            return UseTool("StructuredOutput", self.value)
        return Say(json.dumps(self.value))


Action = Say | UseTool | Structured


def read_file(path: str) -> UseTool:
    """Claude Code overwrites only files that its session has read."""
    return UseTool("Read", {"file_path": path})


def write_file(path: str, content: str) -> UseTool:
    """A relative path is relative to the agent's current directory."""
    return UseTool("Write", {"file_path": path, "content": content})


def shell(command: str) -> UseTool:
    return UseTool("Bash", {"command": command})


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in place of a step's answer, the first `times` times; None means for ever."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = 1
    message: str = "scripted fault"


@dataclass(frozen=True, slots=True)
class Step:
    """What the model does in one turn; without `usage` it costs what the scenario says."""

    action: Action
    usage: TokenUse | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whatever its wire format: what people said in it and how far it has come."""

    text: str
    turns: int
    tools: frozenset[str]
    model: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the model says where the pattern `match` is found in the system or user text.

    A bare action is a step without extras. The last step answers all later turns too.
    """

    match: str
    steps: Sequence[Step | Action]

    def step(self, turns: int) -> Step:
        chosen = self.steps[min(turns, len(self.steps) - 1)]
        return chosen if isinstance(chosen, Step) else Step(chosen)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The first conversation that matches answers; a request that none matches is refused."""

    conversations: Sequence[Conversation]
    usage: TokenUse = field(default_factory=TokenUse)

    def find(self, asked: Asked) -> tuple[str | None, Step]:
        """The conversation's pattern and the step that is its turn."""
        for talk in self.conversations:
            if re.search(talk.match, asked.text):
                return talk.match, talk.step(asked.turns)
        return None, Step(Say(""), fault=refusal("no conversation of the scenario matches"))


def refusal(why: str) -> Fault:
    return Fault(400, times=None, message=f"model server: {why}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and how it was answered; `usage` is None when nothing was billed."""

    conversation: str | None
    turn: int
    status: int
    usage: TokenUse | None
    body: Json


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: one JSON document, or the (name, data) events of a stream."""

    document: Json = field(default_factory=dict)
    events: Sequence[tuple[str, Json]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class WireFormat(Protocol):
    """How requests are read and answers are written; no state and no sockets."""

    def read(self, body: Json) -> Asked: ...
    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply: ...
    def error(self, fault: Fault) -> Reply: ...


class AnthropicMessages:
    """POST /v1/messages of the Anthropic API, as far as agents use it."""

    ERRORS: ClassVar[Mapping[int, str]] = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def read(self, body: Json) -> Asked:
        messages = body["messages"]
        said = [m["content"] for m in messages if m["role"] == "user"]
        return Asked(
            text="\n".join(self._text(content) for content in [body.get("system"), *said]),
            turns=sum(m["role"] == "assistant" for m in messages),
            tools=frozenset(tool["name"] for tool in body.get("tools", ())),
            model=body["model"],
            stream=bool(body.get("stream")),
        )

    @staticmethod
    def _text(content: Any) -> str:
        """Tool results are left out, so that what a command printed never picks a script."""
        if isinstance(content, str):
            return content
        return "\n".join(part["text"] for part in content or () if part["type"] == "text")

    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply:
        block, opened, delta = self._block(action)
        counted = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        }
        stop = {"stop_reason": "end_turn" if isinstance(action, Say) else "tool_use"}
        message = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
        }
        if not asked.stream:
            return Reply(message | stop | {"content": [block], "usage": counted})
        # A stream opens before the model has written: only its end knows the output tokens.
        so_far = counted | {"output_tokens": 1}
        early: Json = {"content": [], "stop_reason": None, "usage": so_far}
        late = {"output_tokens": usage.output_tokens}
        events: list[tuple[str, Json]] = [
            ("message_start", {"message": {**message, **early}}),
            ("content_block_start", {"index": 0, "content_block": opened}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": stop, "usage": late}),
            ("message_stop", {}),
        ]
        return Reply(events=[(name, {"type": name, **data}) for name, data in events])

    @staticmethod
    def _block(action: Say | UseTool) -> tuple[Json, Json, Json]:
        """The content whole, as a stream opens it, and the delta that fills it."""
        if isinstance(action, Say):
            opened: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": action.text}
            return opened | {"text": action.text}, opened, delta
        call_id = f"toolu_{uuid.uuid4().hex}"
        opened = {"type": "tool_use", "id": call_id, "name": action.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(action.arguments)}
        return opened | {"input": action.arguments}, opened, delta

    def error(self, fault: Fault) -> Reply:
        kind = self.ERRORS.get(fault.status, "api_error")
        document = {"type": "error", "error": {"type": kind, "message": fault.message}}
        return Reply(document, status=fault.status, headers=fault.headers)


WIRE_FORMATS: Mapping[str, WireFormat] = {"/v1/messages": AnthropicMessages()}


class ModelServer:
    """`with ModelServer(scenario) as server:` serves at `server.url`; on exit all threads end."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._listener = _Listener(self)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.hang_up()
        self._listener.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        with self._lock:
            return tuple(self._exchanges)

    @property
    def billed(self) -> Billed:
        return self._bill(self.exchanges)

    def billed_for(self, match: str) -> Billed:
        """The part of the bill that the conversation with this pattern ran up."""
        return self._bill(e for e in self.exchanges if e.conversation == match)

    @staticmethod
    def _bill(exchanges: Iterable[Exchange]) -> Billed:
        paid = [e.usage for e in exchanges if e.usage]
        return Billed(
            input_tokens=sum(use.input_tokens for use in paid),
            output_tokens=sum(use.output_tokens for use in paid),
            cache_read=sum(use.cache_read for use in paid),
            cache_write=sum(use.cache_write for use in paid),
            requests=len(paid),
        )

    def respond(self, wire: WireFormat, body: Json) -> Reply:
        """The answer, billed before its first byte leaves: a client may report at its last."""
        asked = wire.read(body)
        name, step = self._scenario.find(asked)
        act = step.action
        action = act.spoken(asked.tools) if isinstance(act, Structured) else act
        usage = step.usage or self._scenario.usage
        with self._lock:
            fault = self._due(step.fault, name, asked.turns) or self._missing(action, asked)
            status, bill = (fault.status, None) if fault else (200, usage)
            self._exchanges.append(Exchange(name, asked.turns, status, bill, body))
        return wire.error(fault) if fault else wire.answer(asked, action, usage)

    def _due(self, fault: Fault | None, name: str | None, turn: int) -> Fault | None:
        if fault is None or fault.times is None:
            return fault
        struck = sum((e.conversation, e.turn) == (name, turn) for e in self._exchanges)
        return fault if struck < fault.times else None

    @staticmethod
    def _missing(action: Say | UseTool, asked: Asked) -> Fault | None:
        if isinstance(action, Say) or action.name in asked.tools:
            return None
        return refusal(f"{action.name} is not among the tools offered: {sorted(asked.tools)}")


class _Listener(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for every one of them
    request_queue_size = 128

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        self._open.discard(request)
        super().close_request(request)

    def hang_up(self) -> None:
        """End kept-alive connections, whose threads would otherwise wait for another request."""
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # that is an agent being ended
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for head and body; unbuffered, each would wait for the last's ack
    server: _Listener

    def log_message(self, *_: Any) -> None:
        """Standard error belongs to the test."""

    def do_HEAD(self) -> None:
        self._send(b"", Reply(), "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wire = WIRE_FORMATS.get(self.path.partition("?")[0])
        if wire is None:
            reply = Reply({"error": f"model server: nothing at {self.path}"}, status=404)
        else:
            reply = self.server.model.respond(wire, body)
        if reply.events:
            lines = (f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in reply.events)
            self._send("".join(lines).encode(), reply, "text/event-stream")
        else:
            self._send(json.dumps(reply.document).encode(), reply, "application/json")

    def _send(self, payload: bytes, reply: Reply, content_type: str) -> None:
        self.send_response(reply.status)
        own = {"Content-Type": content_type, "Content-Length": str(len(payload))}
        for name, value in (own | dict(reply.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)
