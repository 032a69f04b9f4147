"""Makes one HTTP request, bounded in time and size, that a server cannot redirect elsewhere.

Owns connections, redirects and the body. The key and a body go only to the first server. A proxy is
used only if it is given.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import IO, Any

from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.http.endpoint import address_problem, endpoint, is_loopback
from driver.backends.http.reply import HttpAnswer, TransportError, malformed
from driver.terminal.safe_text import safe_line
from state_store.values.lazy_dataclass import dataclass, field

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_CONNECT_S = 30.0
_POLL_S = 0.05  # the longest delay of a cancellation
_CHUNK = 65_536
_SECRET_HEADERS = frozenset(
    {"authorization", "api-key", "x-api-key", "proxy-authorization", "cookie"}
)
_REPEATED = (307, 308)  # these keep method and body; the others turn a POST into a GET


@dataclass(frozen=True, slots=True)
class Watch:
    """Limits of one request: `timeout_s` for all of it, and an event that cancels it.

    `heard` is called at each part of the answer.
    """

    timeout_s: float = 120.0
    cancelled: threading.Event = field(default_factory=threading.Event)
    heard: Callable[[], None] = lambda: None


class CancelledRequestError(TransportError):
    """The request was cancelled by us."""


class Exchange:
    """A request in its own thread, so that no wait can exceed its time limit."""

    def __init__(
        self,
        request: urllib.request.Request,
        watch: Watch,
        *,
        proxy: str | None = None,
        follow: bool = True,
    ) -> None:
        """A redirect counts as an answer if `follow` is false."""
        self._follow = follow
        self._request = request
        self._watch = watch
        self._proxy = proxy
        self._deadline = time.monotonic() + watch.timeout_s
        self._sockets: list[socket.socket] = []
        self._asked = self._answering = False
        self._answer: HttpAnswer | None = None
        self._error: Exception | None = None
        self._done = threading.Event()

    def run(self) -> HttpAnswer:
        """The answer, with any status. Raises TransportError."""
        thread = threading.Thread(target=self._work, name="model-request", daemon=True)
        thread.start()
        while True:
            left = self._deadline - time.monotonic()
            if self._watch.cancelled.is_set() or left <= 0:
                for sock in tuple(self._sockets):
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                raise self._given_up()
            if self._done.wait(min(_POLL_S, left)):
                break
        thread.join(1.0)
        if self._answer is None:
            raise self._translated(self._error)
        return self._answer

    def _given_up(self) -> TransportError:
        if self._watch.cancelled.is_set():
            fault = ProviderFault(FaultKind.DROPPED, "the request was cancelled")
            return CancelledRequestError(fault, billed=self._asked)
        text = f"the server gave no whole answer within {self._watch.timeout_s:.3g} s"
        return TransportError(ProviderFault(FaultKind.SILENT, text), billed=self._asked)

    def _work(self) -> None:
        try:
            self._answer = self._exchange()
        except (OSError, http.client.HTTPException, TransportError, ValueError) as error:
            self._error = error
        finally:
            self._done.set()

    def _exchange(self) -> HttpAnswer:
        left = max(0.01, self._deadline - time.monotonic())
        try:
            response: Any = self._opener().open(self._request, timeout=left)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            self._answering = True
            self._watch.heard()
            headers = {name.lower(): value for name, value in response.headers.items()}
            body = self._body(response, headers)
            return HttpAnswer(response.status, str(response.reason or ""), headers, body)

    def _body(self, response: Any, headers: Mapping[str, str]) -> bytes:
        announced = headers.get("content-length", "").strip()
        parts, size = [], 0
        while part := response.read1(_CHUNK):
            self._watch.heard()
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise malformed(f"it is larger than {MAX_ANSWER_BYTES} bytes")
        if announced.isdigit() and announced.lstrip("0") != str(size).lstrip("0"):
            raise malformed(f"it ends after {size} of {announced[:12]} bytes")
        return b"".join(parts)

    def _opener(self) -> urllib.request.OpenerDirector:
        # Built by hand: build_opener adds file:, ftp: and data:, and the environment's proxies.
        opener = urllib.request.OpenerDirector()
        handlers = [
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
            _Opening(self),
        ]
        if self._follow:
            handlers.append(AuthStripRedirectHandler())
        if self._proxy is not None:
            handlers.append(urllib.request.ProxyHandler({"https": self._proxy}))
        for handler in handlers:
            opener.add_handler(handler)
        return opener

    def dial(
        self, address: tuple[str, int], timeout: float, source: tuple[str, int] | None = None
    ) -> socket.socket:
        """A connected socket. A missing host costs a bounded time, not a whole dispatch."""
        sock = socket.create_connection(address, min(timeout, _CONNECT_S), source)
        self._sockets.append(sock)
        try:
            if self._proxy is None:
                _check_peer(sock, loopback=is_loopback(address[0]))
        except OSError:
            sock.close()
            raise
        sock.settimeout(timeout)
        return sock

    def asked(self, sock: socket.socket | None) -> None:
        """Record that the whole request was sent."""
        self._asked = True
        if sock is not None:
            self._sockets.append(sock)

    def _translated(self, error: Exception | None) -> TransportError:
        if isinstance(error, TransportError):
            return error
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError) and time.monotonic() >= self._deadline:
            return self._given_up()  # the socket noticed the cancellation first
        if self._answering:
            return malformed(f"it is cut off ({_named(reason)})")
        shown = endpoint(self._request.full_url).shown
        if isinstance(reason, ssl.SSLCertVerificationError):
            text = f"{shown} has no certificate that is trusted here ({reason.verify_message})"
            return TransportError(ProviderFault(FaultKind.BAD_REQUEST, text))
        if isinstance(reason, _ForbiddenError):
            return TransportError(ProviderFault(FaultKind.BAD_REQUEST, f"{shown}: {reason}"))
        through = " through the proxy" if self._proxy is not None else ""
        text = f"no answer from {shown}{through}: {_named(reason)}"
        return TransportError(ProviderFault(FaultKind.DROPPED, text), billed=self._asked)


class _ForbiddenError(OSError):
    """A name led to a forbidden address."""


class _Opening(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Opens http and https with connections of the exchange."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(context=_trust())
        self._exchange = exchange

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(partial(_connection, _Plain, self._exchange), req)

    def https_open(self, req: urllib.request.Request) -> Any:
        make = partial(_connection, _Encrypted, self._exchange, context=_trust())
        return self.do_open(make, req)


class AuthStripRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects. A server with another scheme, host or port gets no key and no body."""

    max_redirections = 3

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The redirected request. Raises HTTPError if it is forbidden."""
        try:
            same = endpoint(newurl).origin == endpoint(req.full_url).origin
        except ValueError as error:
            why = f"redirected to a forbidden address: {error}"
            raise urllib.error.HTTPError(req.full_url, code, why, headers, fp) from error
        passed = getattr(req, "redirect_dict", {})  # urllib's count of visited addresses
        refusal = ""
        if req.data is not None and not same:
            # Another server gets no body, and its answer to a bare GET, perhaps on this machine,
            # is not the answer of a model.
            refusal = "redirected to another server, which does not get the request"
        elif newurl in passed or len(passed) >= self.max_redirections:
            refusal = "redirected in a circle or too often"
        if refusal:
            raise urllib.error.HTTPError(req.full_url, code, refusal, headers, fp)
        if code in _REPEATED:
            method, sent = req.get_method(), dict(req.headers)
            new: urllib.request.Request | None = urllib.request.Request(
                newurl, data=req.data, headers=sent, method=method
            )
        else:
            new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and not same:
            for name in [name for name in new.headers if name.lower() in _SECRET_HEADERS]:
                new.remove_header(name)
        if fp is not None:
            fp.close()  # else urllib reads this body, which may never end
        return new


class _Plain(http.client.HTTPConnection):
    exchange: Exchange

    def getresponse(self) -> http.client.HTTPResponse:
        self.exchange.asked(self.sock)
        return super().getresponse()


class _Encrypted(http.client.HTTPSConnection):
    exchange: Exchange

    def getresponse(self) -> http.client.HTTPResponse:
        self.exchange.asked(self.sock)
        return super().getresponse()


def _connection(
    kind: type[_Plain | _Encrypted], exchange: Exchange, host: str, **options: Any
) -> _Plain | _Encrypted:
    connection = kind(host, **options)
    connection.exchange = exchange
    # The peer is checked before TLS and before anything is sent, for which there is no public hook.
    connection._create_connection = exchange.dial  # type: ignore[union-attr]
    return connection


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _check_peer(sock: socket.socket, *, loopback: bool) -> None:
    """Raise _ForbiddenError if the name led to a forbidden address."""
    peer = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
    peer = getattr(peer, "ipv4_mapped", None) or peer
    if loopback and not peer.is_loopback:
        raise _ForbiddenError("this name is not an address of this machine")
    if (problem := address_problem(peer)) is not None:
        raise _ForbiddenError(problem)


def _named(reason: object) -> str:
    return safe_line(str(reason))[:200] or type(reason).__name__
