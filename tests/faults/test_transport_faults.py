"""Every way in which a model server lets a request down, at each request of a conversation.

A dispatch here takes three requests: two answers that cannot be used, which are billed, then a good
one. A fault that may pass is waited out and the dispatch succeeds; any other ends it.
"""

from __future__ import annotations

import gzip
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.backend_api.driver import FAILURE_COULD_NOT_RUN, WorkerRequest, WorkerResult
from driver.backend_api.provider_fault import TRANSIENT, FaultKind
from driver.backend_api.throttle import Throttle
from driver.backends.openai_compatible import OpenAICompatibleDriver
from tests.support.processes import patient
from tests.support.raw_server import (
    Act,
    Call,
    RawServer,
    completion,
    document,
    error,
    patch,
    raw,
    response,
    says,
)

GOOD = patch({"a.txt": "new"})
ANSWERS = (says("no JSON"), says("{"), says(GOOD))
STALL_S = 0.3  # where nobody answers at all
ANSWERS_S = 0.8  # where somebody answers before or after, on a busy machine
BOUND_S = 120.0
WHOLE = json.dumps(completion(GOOD)).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Fault:
    """`known` is False where a client cannot tell whether a model worked for the request, None
    where that depends on who is quicker."""

    act: Act
    kind: FaultKind
    known: bool | None = True


def silent(call: Call) -> None:
    call.ending.wait()


def drips(call: Call) -> None:
    for byte in WHOLE:
        call.send((HEAD if byte == WHOLE[0] else b"") + bytes([byte]))
        if call.ending.wait(0.05):
            return


def drips_head(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not call.ending.wait(0.05):
        call.send(b"x")


def endless(call: Call) -> None:
    call.send(HEAD + b"\r\n")
    while True:
        call.send(b" " * 1_000_000)


def resets_in_body(call: Call) -> None:
    call.send(response(WHOLE[:40], length=len(WHOLE)))
    call.reset()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
KINDS = FaultKind
FAULTS: dict[str, Fault] = {
    "reset before the request": Fault(Act(Call.reset, reads=False), KINDS.DROPPED, known=None),
    "closed without an answer": Fault(Act(lambda call: None), KINDS.DROPPED, known=False),
    "not HTTP": Fault(raw(b"SSH-2.0-OpenSSH_9\r\n"), KINDS.DROPPED, known=False),
    "silence": Fault(Act(silent), KINDS.SILENT, known=False),
    "a byte now and then": Fault(Act(drips), KINDS.SILENT, known=False),
    "a head without end": Fault(Act(drips_head), KINDS.SILENT, known=False),
    "reset in the answer": Fault(Act(resets_in_body, 150), KINDS.MALFORMED, known=False),
    "cut body": Fault(
        raw(response(WHOLE[:40], length=len(WHOLE)), 150), KINDS.MALFORMED, known=False
    ),
    "cut body without a length": Fault(
        raw(HEAD + b"\r\n" + WHOLE[:40], 150), KINDS.MALFORMED, known=False
    ),
    "cut after a whole document": Fault(
        raw(response(WHOLE, length=len(WHOLE) + 9), 150), KINDS.MALFORMED, known=False
    ),
    "cut chunk": Fault(raw(CHUNKED + chunk(WHOLE)[:30], 150), KINDS.MALFORMED, known=False),
    "no last chunk": Fault(raw(CHUNKED + chunk(WHOLE[:40]), 150), KINDS.MALFORMED, known=False),
    "a body without end": Fault(Act(endless, 150), KINDS.MALFORMED, known=False),
    "compressed": Fault(
        raw(response(gzip.compress(WHOLE), Content_Encoding="gzip"), 150),
        KINDS.MALFORMED,
        known=False,
    ),
    "a page": Fault(
        raw(response(b"<html>Sign in</html>", content_type="text/html")),
        KINDS.MALFORMED,
        known=False,
    ),
    "a stream": Fault(
        raw(response(b"data: {}\n\n", content_type="text/event-stream")),
        KINDS.MALFORMED,
        known=False,
    ),
    "not JSON": Fault(raw(response(b"upstream gone")), KINDS.MALFORMED, known=False),
    "a key twice": Fault(
        raw(response(b'{"choices": [], "choices": []}')), KINDS.MALFORMED, known=False
    ),
    "too deep": Fault(raw(response(b'{"a":' + b"[" * 200_000)), KINDS.MALFORMED, known=False),
    "no choices": Fault(document({"choices": []}), KINDS.MALFORMED, known=False),
    "an error under 200": Fault(
        document({"error": {"code": 502, "message": "upstream"}}), KINDS.OVERLOADED, known=False
    ),
    "an error text under 200": Fault(
        document({"error": "the model crashed"}), KINDS.MALFORMED, known=False
    ),
    "a late rate limit under 200": Fault(
        document({"object": "error", "message": "slow", "code": 429}),
        KINDS.RATE_LIMITED,
        known=False,
    ),
    "500": Fault(error("500 Internal Server Error"), KINDS.OVERLOADED),
    "502 with a page": Fault(
        raw(response(b"<html>", "502 Bad Gateway", "text/html")), KINDS.OVERLOADED
    ),
    "503 loading": Fault(
        error("503 Service Unavailable", "Loading model", type="unavailable_error"),
        KINDS.OVERLOADED,
    ),
    "529": Fault(error("529 Overloaded", "Overloaded"), KINDS.OVERLOADED),
    "429": Fault(
        error("429 Too Many Requests", "slow down", headers={"Retry_After": "0"}),
        KINDS.RATE_LIMITED,
    ),
    "429 without credit": Fault(
        error("429 Too Many Requests", "quota", code="insufficient_quota"), KINDS.NO_CREDIT
    ),
    "402": Fault(error("402 Payment Required", "more credits"), KINDS.NO_CREDIT),
    "401": Fault(error("401 Unauthorized", "Incorrect API key provided"), KINDS.BAD_KEY),
    "403": Fault(error("403 Forbidden"), KINDS.BAD_KEY),
    "400": Fault(error("400 Bad Request", "messages: too long"), KINDS.BAD_REQUEST),
    "404 for the model": Fault(
        error("404 Not Found", "The model `m.1` does not exist", code="model_not_found"),
        KINDS.UNKNOWN_MODEL,
    ),
    "404 for the address": Fault(
        raw(response(b"404 page not found", "404 Not Found", "text/plain")), KINDS.BAD_REQUEST
    ),
    "sent elsewhere": Fault(
        raw(response(b"", "307 Temporary Redirect", Location="http://localhost:9/v1")),
        KINDS.BAD_REQUEST,
    ),
    "sent to a file": Fault(
        raw(response(b"", "302 Found", Location="file:///etc/hostname")), KINDS.BAD_REQUEST
    ),
}
POSITIONS = {"first": 0, "second": 1, "last": 2}


class Dispatched:
    """One dispatch against a script, and what it cost in time."""

    def __init__(self, acts: list[Act], workspace: Path, **options: object) -> None:
        (workspace / "a.txt").write_text("old", encoding="utf-8")
        with RawServer(acts) as server:
            self.server = server
            self.driver = OpenAICompatibleDriver(
                server.url,
                "m.1",
                environ={},
                throttle=Throttle(retries=2, cap_s=0.02),
                **{"stall_s": _patience_s(acts), "timeout_s": BOUND_S, **options},  # type: ignore[arg-type]
            )
            began = time.monotonic()
            request = WorkerRequest("do it", ("a.txt",), str(workspace))
            self.result: WorkerResult = self.driver.dispatch_worker(request)
            self.took_s = time.monotonic() - began
        self.text = (workspace / "a.txt").read_text(encoding="utf-8")
        self.names = sorted(path.name for path in workspace.iterdir())


def _patience_s(acts: list[Act]) -> float:
    silence = [act.play in (silent, drips, drips_head) for act in acts]
    if not any(silence):
        return BOUND_S
    return patient(STALL_S if all(silence) else ANSWERS_S)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_is_waited_out_or_ends_the_dispatch(
    name: str, position: str, tmp_path: Path
) -> None:
    fault, at = FAULTS[name], POSITIONS[position]
    done = Dispatched([*ANSWERS[:at], fault.act, *ANSWERS[at:]], tmp_path)
    result = done.result
    assert done.took_s < BOUND_S
    if fault.kind in TRANSIENT:
        assert (result.ok, result.error, done.text) == (True, None, "new")
        assert done.server.calls == 4
    else:
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.kind is fault.kind
        assert done.server.calls == at + 1
        assert done.text == "old"
    assert done.names == ["a.txt"]
    known = fault.known if fault.known is not None else result.tokens_spent is not None
    assert result.tokens_spent == (done.server.billed if known else None)
    assert done.driver.get_unmetered_dispatches() == (0 if known else 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in FAULTS if FAULTS[name].kind in TRANSIENT])
def test_a_fault_without_end_could_not_run_and_says_which(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    done = Dispatched([fault.act], tmp_path)
    assert done.result.failure == FAILURE_COULD_NOT_RUN
    assert done.result.fault is not None
    assert done.result.fault.kind is fault.kind
    assert done.server.calls == (2 if fault.kind is FaultKind.SILENT else 3)
    assert done.text == "old"
    assert done.took_s < BOUND_S


def test_the_time_of_a_dispatch_bounds_all_its_requests(tmp_path: Path) -> None:
    done = Dispatched([Act(drips)], tmp_path, timeout_s=0.5, stall_s=None)
    assert done.result.fault is not None
    assert done.result.fault.kind is FaultKind.SILENT
    assert 0.5 <= done.took_s < BOUND_S


def test_nobody_listening_costs_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = OpenAICompatibleDriver(
        f"http://127.0.0.1:{port}/v1", "m", environ={}, throttle=Throttle(retries=1, cap_s=0.01)
    )
    result = driver.dispatch_worker(WorkerRequest("x", (), str(tmp_path)))
    assert result.fault is not None
    assert result.fault.kind is FaultKind.DROPPED
    assert result.tokens_spent == 0
    assert f"127.0.0.1:{port}" in (result.error or "")


def test_plain_speech_where_tls_is_expected_is_a_dropped_connection(tmp_path: Path) -> None:
    plain = Act(lambda call: call.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), reads=False)
    with RawServer([plain]) as server:
        driver = OpenAICompatibleDriver(
            server.url.replace("http:", "https:"),
            "m",
            environ={},
            throttle=Throttle(retries=0),
        )
        result = driver.dispatch_worker(WorkerRequest("x", (), str(tmp_path)))
    assert result.fault is not None
    assert result.fault.kind is FaultKind.DROPPED
    assert result.tokens_spent == 0


def test_cancelling_ends_a_request_at_once(tmp_path: Path) -> None:
    began: list[float] = []
    drivers: list[OpenAICompatibleDriver] = []

    def cancels(call: Call) -> None:
        began.append(time.monotonic())
        drivers[0].cancel()
        call.ending.wait()

    with RawServer([Act(cancels)]) as server:
        drivers.append(OpenAICompatibleDriver(server.url, "m", environ={}))
        result = drivers[0].dispatch_worker(WorkerRequest("x", (), str(tmp_path)))
        assert time.monotonic() - began[0] < BOUND_S
    assert result.failure == "cancelled"
    assert result.tokens_spent is None
