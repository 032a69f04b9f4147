"""A model behind a loopback port, scripted by the test, for running real agent programs offline.

Owns the sockets and the bill of what was answered; `model_script` says what that is. Another wire
format is a class beside `AnthropicMessages` and a line in `WIRE_FORMATS`. Starts no agents and
judges nothing: what an agent did is looked up in its folder.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.anthropic_messages import AnthropicMessages
from tests.support.gemini_generate import STREAM, WHOLE, GeminiGenerate
from tests.support.model_script import (
    Asked,
    Fault,
    Json,
    Reply,
    Say,
    Scenario,
    Structured,
    TokenUse,
    UseTool,
    WireFormat,
    refusal,
)
from tests.support.openai_chat import OpenAiChat
from tests.support.openai_responses import OpenAiResponses


@dataclass(frozen=True, slots=True)
class Billed:
    """Tokens of a number of answers; an error is no answer and costs nothing."""

    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int
    requests: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and how it was answered; `usage` is None when nothing was billed.

    `at_s` is the time of its arrival on the monotonic clock.
    """

    conversation: str | None
    turn: int
    status: int
    usage: TokenUse | None
    body: Json
    headers: Mapping[str, str]
    at_s: float


# By how the path ends: clients differ in what they put before it.
WIRE_FORMATS: Mapping[str, WireFormat] = {
    "/v1/messages": AnthropicMessages(),
    "/v1/chat/completions": OpenAiChat(),
    "/v1/responses": OpenAiResponses(),
    WHOLE: GeminiGenerate(),
    STREAM: GeminiGenerate(),
}


def wire_format(path: str) -> WireFormat | None:
    return next((wire for end, wire in WIRE_FORMATS.items() if path.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent to a path that some wire format serves."""

    wire: WireFormat
    path: str
    body: Json
    headers: Mapping[str, str]


NO_FAULT = Fault()


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

    def respond(self, request: Request) -> tuple[Reply, Fault]:
        """The answer, billed before its first byte leaves: a client may report at its last.

        The fault says what happens to it on its way; one without effect is the usual case.
        """
        wire = request.wire
        asked = wire.read(request.path, request.body)
        name, step = self._scenario.find(asked)
        act = step.action
        action = act.spoken(asked.tools) if isinstance(act, Structured) else act
        usage = step.usage or self._scenario.usage
        with self._lock:
            fault = self._due(step.fault, name, asked.turns) or self._missing(action, asked)
            answers = fault is None or fault.answers
            status, bill = fault.status if fault else 200, usage if answers else None
            self._exchanges.append(
                Exchange(
                    name,
                    asked.turns,
                    status,
                    bill,
                    request.body,
                    request.headers,
                    time.monotonic(),
                )
            )
        if fault is None or answers:
            return wire.answer(asked, action, usage), fault or NO_FAULT
        return wire.error(fault), fault

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
        self.ending = threading.Event()
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
        self.ending.set()
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

    def do_GET(self) -> None:
        """The list of models, where clients look whether a server answers."""
        known = self.path.partition("?")[0].endswith("/models")
        models = {"object": "list", "data": [{"id": "local", "object": "model"}]}
        nothing = {"error": {"message": f"model server: nothing at {self.path}"}}
        reply = Reply(models) if known else Reply(nothing, status=404)
        self._send(reply.payload, reply, reply.content_type)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        wire = wire_format(path)
        if wire is None:
            reply = Reply({"error": f"model server: nothing at {self.path}"}, status=404)
            return self._send(reply.payload, reply, reply.content_type)
        reply, fault = self.server.model.respond(Request(wire, path, body, dict(self.headers)))
        return self._strike(reply, fault)

    def _strike(self, reply: Reply, fault: Fault) -> None:
        if fault.hangs:
            self.connection.recv(1)  # until one of us leaves
            self.close_connection = True
            return
        self.server.ending.wait(fault.delay_s)
        payload = reply.payload if fault.body is None else fault.body.encode()
        kind = reply.content_type if fault.body is None else fault.content_type
        self._send(payload, reply, kind, fault.cut_after)

    def _send(
        self, payload: bytes, reply: Reply, content_type: str, cut_after: int | None = None
    ) -> None:
        self.send_response(reply.status)
        own = {"Content-Type": content_type, "Content-Length": str(len(payload))}
        for name, value in (own | dict(reply.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[:cut_after])
        self.close_connection |= cut_after is not None
