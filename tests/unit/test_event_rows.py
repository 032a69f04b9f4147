"""Payloads decoded many at a time are what each of them says alone."""

from __future__ import annotations

import json

import pytest

from state_store.database.event_rows import encode, without_ids


def test_payloads_that_begin_with_an_id_are_what_they_say() -> None:
    said = [{"id": "a", "p": "x", "q": [1]}, {"id": "b", "p": "x", "q": [1]}, {"id": "c"}]
    found = without_ids([encode(payload) for payload in said])
    assert found is not None
    names, rests = found
    assert [{"id": name, **rest} for name, rest in zip(names, rests, strict=True)] == said
    assert rests[0] is rests[1]


@pytest.mark.parametrize(
    "odd",
    [
        '{"p":1,"id":"b"}',
        '{"id":7,"p":1}',
        '{"id":"b","p":1,"id":"c"}',
        '{"id":"b","id":""}',
        '{"id":"b\\n"}',
        '{"id":"b\\""}',
        '{"id":"b\n"}',
        '{"id":"b"',
        '{"id":"b",}',
        '{"id":"b"},{"id":"c"}',
        '{"id":"b","p":NaN}',
        '{"id": "b"}',
        '"id"',
        "null",
        "",
    ],
)
def test_a_payload_that_may_be_something_else_is_decoded_by_itself(odd: str) -> None:
    plain = json.dumps({"id": "a", "p": 1}, separators=(",", ":"))
    assert without_ids([plain, odd]) is None
