"""Whatever a model server sends, only faults and unusable answers come of it, and soon."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import pytest

from driver.backend_api.driver import Usage
from driver.backend_api.json_schema import shape_problem
from driver.backends.http.chat_answer import Unusable, answer_text, read_answer, says_something
from driver.backends.http.chat_usage import Bill
from driver.backends.http.patch_protocol import WORKER_PATCH_SCHEMA, ScopeError, Shown, patch_files
from driver.backends.http.reply import HttpAnswer, TransportError, read_reply
from driver.backends.http.request_shape import Shape, payload, without_refused
from driver.domain.ownership import parse_owned
from tests.support.raw_server import completion, patch

OWNED = Shown((parse_owned("a.txt"), parse_owned("docs/")), ())
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2.5, 10**30, 1e308, "", " ", "\0", "\ud800", "a.txt", "../x", "/x",
    "length", "error", "</think>", "{", "{}", patch({"b": "x"}), [], [[]], ["a"], [1], [None], {},
    {"a": 1}, {"message": 5}, {"error": {"code": "x"}}, {"code": 429}, [{"type": "text"}],
    [{"function": {"arguments": 5}}], [{"function": None}], {"cached_tokens": -1}, "\u00e9" * 50,
]  # fmt: skip
BYTES = (
    b"\0", b"\xff", b"{", b"}", b"[", b"NaN", b'"', b"\\ud800", b",", b"1e999", b"\xef\xbb\xbf",
)  # fmt: skip
HEADERS: list[dict[str, str]] = [
    {}, {"retry-after": "\u0663"}, {"retry-after": "1e999"}, {"retry-after": "Mon, 1"},
    {"retry-after": "Thu, 01 Jan 9999 00:00:00 -2359"}, {"content-type": "\x1b"},
    {"content-type": "text/html"}, {"content-encoding": "br"}, {"retry-after-ms": "x"},
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a document with each of its keys."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return []
    return [(value, key) for key in keys] + [p for key in keys for p in places(value[key])]


def a_document(chance: random.Random) -> Any:
    document: Any = completion(patch({"a.txt": "x", "docs/b.md": "y"}))
    if chance.random() < 0.3:
        document = {"error": {"message": "m", "code": "c", "param": "temperature", "type": "t"}}
    document = copy.deepcopy(document)
    for _ in range(chance.randrange(4)):
        holder, key = chance.choice(places(document))
        holder[key] = copy.deepcopy(chance.choice(ODD))
    if chance.random() < 0.2:
        document[chance.choice(["usage", "choices", "error", "detail"])] = chance.choice(ODD)
    return document if chance.random() < 0.95 else chance.choice(ODD)


def some_bytes(chance: random.Random) -> bytes:
    body = bytearray(json.dumps(a_document(chance)).encode())
    for _ in range(chance.randrange(3) if chance.random() < 0.4 else 0):
        at = chance.randrange(len(body) + 1)
        body[at : at + chance.randrange(4)] = chance.choice(BYTES)
    return bytes(body[: chance.randrange(len(body) + 1)] if chance.random() < 0.1 else body)


def told(error: TransportError) -> None:
    assert len(str(error)) < 3000
    assert str(error).isprintable()
    without_refused(Shape(), error, payload(Shape(), "m", [], ("P", WORKER_PATCH_SCHEMA)))


def meet(chance: random.Random) -> None:
    status = chance.choice([200, 200, 200, 204, 301, 400, 404, 429, 500, 529, 999])
    answer = HttpAnswer(status, "R", chance.choice(HEADERS), some_bytes(chance))
    bill = Bill("gpt-6-luna")
    try:
        document = read_reply(answer, 1.8e9)
    except TransportError as error:
        told(error)
        return
    bill.add(document)
    usage = bill.usage
    assert usage == Usage() or (usage.total_tokens or 0) >= 0
    answer_text(document)
    says_something(document)
    value = read_answer(document, WORKER_PATCH_SCHEMA)
    if isinstance(value, Unusable):
        assert value.reason
        return
    assert shape_problem(value, WORKER_PATCH_SCHEMA) is None
    try:
        files = patch_files(value, OWNED)
    except (ScopeError, ValueError):
        return
    assert all(path == "a.txt" or path.startswith("docs/") for path in files)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(5))
def test_no_answer_breaks_us(seed: int) -> None:
    chance = random.Random(seed)
    began = time.thread_time()
    for _ in range(2000):
        meet(chance)
    assert time.thread_time() - began < 10


@pytest.mark.sweep
def test_no_answer_of_many_breaks_us() -> None:
    chance = random.Random()
    for _ in range(200_000):
        meet(chance)
