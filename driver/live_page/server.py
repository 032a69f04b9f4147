"""The HTTP server of the live page, on loopback only.

Each connection has a thread, a time limit for its whole request, and bounded headers; there are
only so many connections.
"""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from driver.live_page import guard, item_files
from driver.live_page.feed import Feed
from driver.live_page.page import page
from driver.terminal.safe_text import safe_line
from state_store.documents.errors import TidegateError
from state_store.redaction.installed import redacted_value
from tools import halt

MOST_CONNECTIONS, MOST_STREAMS = 48, 12
MOST_HEADER_BYTES = 16_384
PATIENCE_S = 10.0  # for the whole request, and for each write
_PING_S = 15.0
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
REASON = "stopped on the live page"


class LivePageServer(ThreadingHTTPServer):
    """Serves one feed. `token` allows to stop the runs."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(
        self,
        feed: Feed,
        token: str,
        environ: Mapping[str, str],
        port: int = 0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.feed, self.token, self.environ = feed, token, environ
        self.patience_s = patience_s
        self.is_over = threading.Event()
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, or close it if there are too many."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away or are slow are no news."""


class _Hurried(io.RawIOBase):
    """The bytes of a connection for a limited time, however slowly they come."""

    def __init__(self, connection: socket.socket, limit_s: float) -> None:
        self._connection, self._until = connection, time.monotonic() + limit_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Bounded(io.RawIOBase):
    """The first bytes of a connection; beyond the limit it seems to have ended."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    @property
    def is_whole(self) -> bool:
        """True if the limit was not reached."""
        return self._left > 0

    def readline(self, size: int | None = -1) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        line: bytes = self._file.readline(wanted)
        self._left -= len(line)
        return line

    def read(self, size: int = -1) -> bytes:
        body: bytes = self._file.read(min(size, guard.MOST_BODY_BYTES)) if size > 0 else b""
        return body


class _Handler(BaseHTTPRequestHandler):
    server: LivePageServer
    rfile: _Bounded  # type: ignore[assignment]
    server_version, sys_version = "tidegate", ""

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.patience_s)
        self.rfile.close()
        hurried = io.BufferedReader(_Hurried(self.connection, self.server.patience_s))
        self.rfile = _Bounded(hurried, MOST_HEADER_BYTES)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def do_GET(self) -> None:
        """Answer a reader."""
        if self._is_refused(changes=False):
            return
        try:
            parts = urlsplit(self.path)
        except ValueError:  # half an address
            self._tell(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        words = [word for word in parts.path.split("/") if word]
        if not words:
            nonce = secrets.token_urlsafe(16)
            self._answer(HTTPStatus.OK, page(nonce).encode(), _HTML, nonce)
        elif words == ["events"]:
            self._stream()
        elif len(words) == 3 and words[0] == "items" and words[1].isascii() and words[1].isdigit():
            self._item(int(words[1][:6]), words[2], parse_qs(parts.query))
        else:
            self._tell(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Stop the runs, for one who has the token."""
        if self._is_refused(changes=True):
            return
        if self.path != "/stop":
            self._tell(HTTPStatus.NOT_FOUND, "there is no such page")
        elif not guard.is_token(self.headers.get(guard.TOKEN_HEADER), self.server.token):
            self._tell(HTTPStatus.FORBIDDEN, "this is not the token")
        else:
            try:
                halt.halt(REASON, self.server.feed.state_dir)
                self._tell(HTTPStatus.OK, "the runs are being stopped")
            except TidegateError as error:
                self._tell(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _is_refused(self, *, changes: bool) -> bool:
        is_clear = self.rfile.is_whole and not guard.is_ambiguous(self.headers.keys())
        headers = dict(self.headers.items()) if is_clear else {}
        why = guard.refusal(headers, self.server.server_port, changes=changes)
        length = self.headers.get("Content-Length", "0")
        if not why and not (
            length.isascii() and length.isdigit() and int(length[:9]) <= guard.MOST_BODY_BYTES
        ):
            why = "the request is too long"
        elif not why:
            self.rfile.read(int(length))
        self.connection.settimeout(self.server.patience_s)
        if why:
            self._tell(HTTPStatus.FORBIDDEN, why)
        return bool(why)

    def _item(self, index: int, what: str, query: Mapping[str, list[str]]) -> None:
        item, feed = self.server.feed.item(index), self.server.feed
        if item is None or what not in ("output", "diff"):
            self._tell(HTTPStatus.NOT_FOUND, "there is no such item")
        elif what == "output":
            name = query.get("name", [""])[0]
            self._json(item_files.output(feed, item, name))
        else:
            self._json(item_files.change(feed, item, self.server.environ))

    def _stream(self) -> None:
        """Send what is new until the client or the server goes away."""
        if not self.server.streams.acquire(blocking=False):
            self._tell(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream", "")
            version = -1
            while not self.server.is_over.is_set():
                is_new = self.server.feed.wait(version, _PING_S)
                if is_new or version < 0:
                    version, message = self.server.feed.since(version)
                    text = json.dumps(redacted_value(message))
                    self.wfile.write(f"data: {text}\n\n".encode())
                else:
                    self.wfile.write(b": nothing new\n\n")
                # At most a few states a second, however much happens.
                self.server.is_over.wait(0.4)
        finally:
            self.server.streams.release()

    def _tell(self, status: HTTPStatus, text: str) -> None:
        self._json({"said": text}, status)

    def _json(self, document: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._answer(status, json.dumps(redacted_value(document)).encode(), _JSON, "")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, nonce: str) -> None:
        with contextlib.suppress(OSError):
            self._head(status, kind, nonce, len(body))
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, nonce: str, size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.send_header("Connection", "close")
        for name, value in guard.security_headers(nonce or "none").items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, *_: Any) -> None:
        """Tells the fault of a request that is no HTTP, or of a method that there is not."""
        self.connection.settimeout(self.server.patience_s)
        self._tell(HTTPStatus(code), safe_line(message or HTTPStatus(code).phrase)[:200])

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""
