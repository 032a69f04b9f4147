"""A model server made of bytes, for all that a proper one would never do.

Each POST meets the next act of the script; the last act answers all later ones too. An act writes
what it likes to the socket, and what it billed is its own word. The list of models is told to
whoever asks for it.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

MODELS = {"object": "list", "data": [{"id": "local", "object": "model"}]}
USED = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}


@dataclass(frozen=True)
class Received:
    """One request, as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Call:
    """One connection: the request on it, and the socket to answer on."""

    sock: socket.socket
    ending: threading.Event
    request: Received | None = None

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reset(self) -> None:
        """Close so that the other side sees a reset and not an end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


@dataclass(frozen=True)
class Act:
    """What happens to one request, and the tokens that a model would have billed for it."""

    play: Callable[[Call], object]
    billed: int = 0
    reads: bool = True


@dataclass
class RawServer:
    """`with RawServer(acts) as server:` listens at `server.url`; on exit all threads end."""

    acts: Sequence[Act]
    received: list[Received] = field(default_factory=list)
    billed: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._calls = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def calls(self) -> int:
        return self._calls

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ending.is_set():
                sock, _ = self._listener.accept()
                self._open.append(sock)
                thread = threading.Thread(target=self._serve, args=(sock,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            call = Call(sock, self._ending)
            if self._next().reads:
                call.request = read_request(sock)
                if call.request.line.split()[1].endswith("/models"):
                    call.send(response(json.dumps(MODELS).encode()))
                    return
            with self._lock:
                act = self._next()
                self._calls += 1
                self.billed += act.billed
                if call.request is not None:
                    self.received.append(call.request)
            act.play(call)

    def _next(self) -> Act:
        return self.acts[min(self._calls, len(self.acts) - 1)]


def read_request(sock: socket.socket) -> Received:
    with sock.makefile("rb") as stream:
        line = stream.readline().decode().strip()
        headers = {}
        while field_line := stream.readline().strip():
            name, _, value = field_line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return Received(line, headers, stream.read(int(headers.get("content-length", 0))))


def response(
    body: bytes,
    status: str = "200 OK",
    content_type: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> bytes:
    told = {
        "Content-Type": content_type,
        "Content-Length": str(len(body) if length is None else length),
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def completion(content: str | None, usage: object = USED, **message: object) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": "stop",
    }
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


def patch(files: dict[str, str], summary: str = "done") -> str:
    named = [{"path": path, "contents": text} for path, text in files.items()]
    return json.dumps({"files": named, "summary": summary, "done": True})


def says(content: str | None, usage: object = USED, billed: int = 150, **message: object) -> Act:
    """The model's answer."""
    return document(completion(content, usage, **message), billed)


def document(value: object, billed: int = 0, status: str = "200 OK", **headers: Any) -> Act:
    """Any JSON, with any status."""
    body = json.dumps(value).encode()
    return Act(lambda call: call.send(response(body, status, **headers)), billed)


def raw(data: bytes, billed: int = 0) -> Act:
    return Act(lambda call: call.send(data), billed)


def error(status: str, message: str = "no", **more: object) -> Act:
    """OpenAI's error body; `headers` among `more` are sent as headers."""
    headers = more.pop("headers", {})
    assert isinstance(headers, dict)
    said = {"message": message, "type": None, "param": None, "code": None, **more}
    return document({"error": said}, status=status, **headers)
