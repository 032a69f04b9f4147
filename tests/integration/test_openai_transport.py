"""One completion over HTTP: where the key goes, and what is said when there is no answer."""

from __future__ import annotations

import gc
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from http.client import HTTPMessage

import pytest

from driver.backend_api.provider_fault import FaultKind
from driver.backends.http.exchange import Exchange, Watch
from driver.backends.http.reply import TransportError
from driver.backends.http.server import (
    LOCAL_KEY,
    Server,
    _AuthStripRedirectHandler,
    complete,
    default_openai_transport,
)
from driver.backends.openai_compatible import make_openai_compatible_transport
from tests.support.raw_server import (
    Act,
    RawServer,
    completion,
    document,
    error,
    raw,
    response,
    says,
)

KEY = "sk-live-0123456789abcdef"
KEYS = {"MY_KEY": KEY}
PAYLOAD = {"model": "m", "messages": [{"role": "user", "content": "caf\u00e9"}]}
CODES = (301, 302, 303, 307, 308)
ANSWER = says("yes")


@pytest.fixture
def elsewhere() -> Iterator[RawServer]:
    with RawServer([ANSWER]) as server:
        yield server


def redirect(code: int, location: str) -> Act:
    return raw(response(b"", f"{code} Moved", Location=location))


def ask(url: str, key_name: str = "MY_KEY", timeout_s: float = 5.0) -> dict[str, object]:
    return complete(Server(url, key_name), PAYLOAD, KEYS, Watch(timeout_s))


def test_a_request_is_one_post_with_the_key_and_asks_for_no_compression() -> None:
    with RawServer([ANSWER]) as server:
        assert ask(server.url) == completion("yes")
    (got,) = server.received
    assert got.line == "POST /v1/chat/completions HTTP/1.1"
    assert got.document == PAYLOAD
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert got.headers["accept-encoding"] == "identity"
    assert got.headers["content-type"] == "application/json"


@pytest.mark.parametrize("code", CODES)
def test_another_server_sees_neither_key_nor_prompt(code: int, elsewhere: RawServer) -> None:
    away = redirect(code, f"{elsewhere.url}/chat/completions")
    with RawServer([away]) as server, pytest.raises(TransportError, match="another") as refused:
        ask(server.url)
    assert refused.value.fault.kind is FaultKind.BAD_REQUEST
    assert elsewhere.received == []


@pytest.mark.parametrize("code", CODES)
def test_the_same_server_keeps_the_key(code: int) -> None:
    acts = [redirect(code, "/v2/chat/completions"), ANSWER]
    with RawServer(acts) as server:
        assert ask(server.url) == completion("yes")
    _, second = server.received
    assert second.headers["authorization"] == f"Bearer {KEY}"
    assert second.line.split()[1] == "/v2/chat/completions"
    if code >= 307:
        assert second.line.startswith("POST")
        assert second.document == PAYLOAD


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/hostname",
        "ftp://127.0.0.1/x",
        "http://169.254.169.254/latest",
        "http://example.org/v1",
        "https://user:word@example.org/",
    ],
)
@pytest.mark.parametrize("code", CODES)
def test_nobody_is_sent_to_where_nothing_may_be_sent(code: int, location: str) -> None:
    with RawServer([redirect(code, location)]) as server, pytest.raises(TransportError) as caught:
        ask(server.url)
    assert caught.value.fault.kind is FaultKind.BAD_REQUEST
    assert server.calls == 1


@pytest.mark.parametrize("code", CODES)
def test_a_ring_of_redirects_ends_and_is_no_lost_connection(code: int) -> None:
    with RawServer([redirect(code, "/v1/again")]) as server, pytest.raises(TransportError) as ended:
        ask(server.url)
    assert server.calls == 2
    assert "in a circle" in str(ended.value)
    assert (ended.value.fault.kind, ended.value.billed) == (FaultKind.BAD_REQUEST, False)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "there", ["https://other.example/x", "https://api.example:8443/x", "https://API.example/x"]
)
def test_the_handler_strips_every_header_that_may_be_a_key(
    method: str, code: int, there: str
) -> None:
    secrets = {"Authorization": "a", "Api-Key": "b", "X-Api-Key": "c", "Cookie": "d"}
    data = b"{}" if method == "POST" else None
    request = urllib.request.Request(
        "https://api.example/x", data, {**secrets, "X-Kept": "1"}, method=method
    )
    same = "API" in there
    try:
        new = _AuthStripRedirectHandler().redirect_request(
            request,
            None,  # type: ignore[arg-type]
            code,
            "Moved",
            HTTPMessage(Message().policy),
            there,
        )
    except urllib.request.HTTPError:
        assert (method, same) == ("POST", False)
        return
    assert new is not None
    kept = {name.lower() for name in new.headers} & {name.lower() for name in secrets}
    assert len(kept) == (4 if same else 0)
    assert new.get_header("X-kept") == "1"


def test_the_key_is_hidden_in_whatever_comes_back() -> None:
    told = error("401 Unauthorized", f"Incorrect API key provided: {KEY}")
    echo = document({**completion(f"your key is {KEY}"), "debug": KEY})
    with RawServer([told, echo]) as server:
        with pytest.raises(TransportError, match=r"provided: \[key\]") as caught:
            ask(server.url)
        answered = ask(server.url)
    assert KEY not in str(caught.value) + repr(caught.value) + repr(caught.value.fault)
    assert KEY not in json.dumps(answered)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://192.168.1.5/v1", "ftp://h/"])
def test_an_address_that_cannot_be_used_is_told_before_anything_is_sent(url: str) -> None:
    with pytest.raises(TransportError, match="base_url cannot be used"):
        ask(url)


@pytest.mark.parametrize(
    ("url", "needs"),
    [
        ("http://127.0.0.1:1/v1", False),
        ("http://[::1]:1/v1", False),
        ("http://localhost:1/v1", False),
        ("https://localhost.example/v1", True),
        ("https://api.openai.com/v1", True),
    ],
)
def test_only_a_server_on_this_machine_needs_no_key(url: str, needs: bool) -> None:
    problem = Server(url, "MY_KEY").problem({})
    assert (problem is not None) is needs
    assert problem is None or "MY_KEY" in problem
    assert Server(url, "MY_KEY").problem(KEYS) is None


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "gr\u00fcn"])
def test_what_cannot_be_a_key_is_none(value: str) -> None:
    problem = Server("https://h/v1", "MY_KEY").problem({"MY_KEY": value})
    assert problem is not None
    assert value.strip() == "" or value not in problem


def test_without_a_key_a_server_here_is_sent_a_word_that_says_so() -> None:
    with RawServer([ANSWER]) as server:
        complete(Server(server.url, "OTHER"), PAYLOAD, KEYS, Watch())
    assert server.received[0].headers["authorization"] == f"Bearer {LOCAL_KEY}"


def test_the_sources_transports_read_the_key_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer([ANSWER]) as server:
        transport = make_openai_compatible_transport(server.url, "MY_KEY", 5.0)
        for key in ("first-key-1234", "second-key-5678"):
            monkeypatch.setenv("MY_KEY", key)
            monkeypatch.setenv("OPENAI_API_KEY", key)
            assert transport(PAYLOAD) == completion("yes")
            assert default_openai_transport(PAYLOAD, 5.0, server.url) == completion("yes")
    keys = [got.headers["authorization"].split()[1][:5] for got in server.received]
    assert keys == ["first", "first", "secon", "secon"]


def test_the_sources_transports_raise_runtime_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(RuntimeError, match="OPENAI_API_KEY is not set"):
        default_openai_transport(PAYLOAD)
    with pytest.raises(RuntimeError, match="MISSING_KEY"):
        make_openai_compatible_transport("https://localhost.example/v1", "MISSING_KEY", 1)(PAYLOAD)
    refusal = error("400 Bad Request", "too long", code="context_length_exceeded")
    told = r"^OpenAI API request failed: HTTP Error 400: Bad Request \[context_length_exceeded, too"
    with RawServer([refusal]) as server, pytest.raises(RuntimeError, match=told):
        default_openai_transport(PAYLOAD, 5.0, server.url)


# Python 3.11.2, for one, leaves open what a proxy that refuses has answered.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_the_environments_proxy_is_used_only_when_asked_for() -> None:
    proxy = RawServer([Act(lambda call: call.send(b"HTTP/1.1 403 No\r\n\r\n"))])
    with proxy:
        environ = {**KEYS, "HTTPS_PROXY": proxy.origin}
        asked = Server("https://model.invalid/v1", "MY_KEY", ("HTTPS_PROXY",))
        with pytest.raises(TransportError):
            complete(asked, PAYLOAD, environ, Watch(5.0))
        gc.collect()  # or a later test would be told
        assert [got.line.split()[:2] for got in proxy.received] == [
            ["CONNECT", "model.invalid:443"]
        ]
        assert KEY not in str(proxy.received)
        with RawServer([ANSWER]) as here:
            complete(Server(here.url, "MY_KEY", ("HTTPS_PROXY",)), PAYLOAD, environ, Watch(5.0))
        unasked = Server("https://model.invalid/v1", "MY_KEY")
        assert unasked.proxy(environ) is None
        assert len(proxy.received) == 1


class Led:
    """A socket whose name led somewhere."""

    def __init__(self, peer: str) -> None:
        self.peer, self.closed = peer, False

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 443

    def settimeout(self, seconds: float) -> None: ...

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("host", "peer", "allowed"),
    [
        ("model.example", "93.184.216.34", True),
        ("model.example", "10.0.0.5", True),
        ("model.example", "169.254.169.254", False),
        ("model.example", "fe80::1%eth0", False),
        ("model.example", "::ffff:169.254.169.254", False),
        ("localhost", "127.0.0.1", True),
        ("localhost", "::1", True),
        ("localhost", "10.0.0.5", False),
    ],
)
def test_nothing_is_said_to_where_a_name_should_not_lead(
    host: str, peer: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sock = Led(peer)
    monkeypatch.setattr(socket, "create_connection", lambda *_: sock)
    exchange = Exchange(urllib.request.Request(f"https://{host}/v1"), Watch())
    if allowed:
        assert exchange.dial((host, 443), 1.0) is sock  # type: ignore[comparison-overlap]
    else:
        with pytest.raises(OSError, match=r"address|this machine"):
            exchange.dial((host, 443), 1.0)
    assert sock.closed is not allowed


def test_no_thread_and_no_socket_outlives_a_request_that_was_given_up() -> None:
    with RawServer([Act(lambda call: call.ending.wait())]) as server:
        with pytest.raises(TransportError):
            ask(server.url, timeout_s=0.1)
        for thread in threading.enumerate():
            if thread.name == "model-request":
                thread.join(60)
                assert not thread.is_alive()


def test_a_port_that_nobody_serves_is_refused_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransportError) as caught:
        ask(f"http://127.0.0.1:{port}/v1?key=secret")
    assert caught.value.fault.kind is FaultKind.DROPPED
    assert not caught.value.billed
    assert "secret" not in str(caught.value)
