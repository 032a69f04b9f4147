"""Editing JSON in its text: the values asked for change, every other character stays."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from state_store.documents.errors import InputError
from state_store.documents.json_document import (
    item_spans,
    list_with,
    members,
    object_with,
    parse_json,
)


def a_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [a_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 7:
        return {a_text(chance): a_value(chance, depth + 1) for _ in range(chance.randrange(4))}
    plain = (None, True, chance.randrange(-9, 99), 0.5, a_text(chance), "")
    return plain[kind]


def a_text(chance: random.Random) -> str:
    return "".join(chance.choices('ab"\\/{}[],: \n\t\u00e9\U0001f600\ud800', k=chance.randrange(6)))


def laid_out(chance: random.Random, value: Any) -> str:
    def gap() -> str:
        return "".join(chance.choices(" \t\r\n", k=chance.randrange(3)))

    def listed(parts: list[str], marks: str) -> str:
        return gap() + marks[0] + ",".join(parts) + (gap() if not parts else "") + marks[1] + gap()

    def plain(part: Any) -> str:
        text = json.dumps(part, ensure_ascii=chance.random() < 0.5)
        return text if text.isprintable() or text.isascii() else json.dumps(part)

    if isinstance(value, list):
        return listed([laid_out(chance, part) for part in value], "[]")
    if isinstance(value, dict):
        pairs = value.items()
        return listed(
            [gap() + plain(k) + gap() + ":" + laid_out(chance, v) for k, v in pairs], "{}"
        )
    return gap() + plain(value) + gap()


def test_setting_members_is_the_same_as_in_the_parsed_value() -> None:
    chance = random.Random(30)
    for _ in range(1500):
        items = [a_value(chance) for _ in range(chance.randrange(4))]
        items.insert(chance.randrange(len(items) + 1), {"k": 1, a_text(chance): a_value(chance)})
        document: Any = {"a": a_value(chance), "items": items, "z": a_value(chance)}
        if chance.random() < 0.5:
            document = items
        text = laid_out(chance, document)
        assert parse_json(text.encode()).value == document
        spans = list(item_spans(text, "items"))
        assert [value for value, _, _ in spans] == items
        wanted = {"k": a_value(chance), "new": a_value(chance), a_text(chance): a_value(chance)}
        for at, (value, start, end) in enumerate(spans):
            if isinstance(value, dict) and value:
                changed = text[:start] + object_with(text, start, end, wanted) + text[end:]
                found = json.loads(changed)
                found = found if isinstance(document, list) else found["items"]
                assert found == [*items[:at], {**value, **wanted}, *items[at + 1 :]]


def test_adding_elements_is_the_same_as_in_the_parsed_value() -> None:
    chance = random.Random(31)
    for _ in range(500):
        items = [a_value(chance) for _ in range(chance.randrange(3))]
        added = [{"k": a_value(chance), a_text(chance): 1} for _ in range(chance.randrange(3))]
        document: Any = items
        if chance.random() < 0.7:
            document = {"a": a_value(chance), "items": items, "z": a_value(chance)}
        text = chance.choice(["", "\ufeff"]) + laid_out(chance, document)
        found = parse_json(list_with(text, "items", added).encode()).value
        assert (found["items"] if isinstance(found, dict) else found) == items + added
        assert isinstance(found, list) or {**found, "items": items} == document


def test_added_elements_are_laid_out_like_the_last_one() -> None:
    text = '{\n  "items": [\n    {\n      "a": 1\n    }\n  ]\n}\n'
    once = '    {\n      "a": 1\n    }'
    assert list_with(text, "items", [{"a": 1}]) == text.replace(once, f"{once},\n{once}")
    assert list_with("[ {} ]", "items", [{"a": 1}]) == '[ {}, {"a": 1} ]'


def test_a_member_is_found_where_it_stands() -> None:
    text = '{ "a" : [1, {"b": 2}] , "b":"}" }'
    found = [(m.key, text[m.value_start : m.value_end]) for m in members(text, 0)]
    assert found == [("a", '[1, {"b": 2}]'), ("b", '"}"')]


def test_an_unchanged_object_keeps_every_character() -> None:
    text = '{"a" :1.50 ,  "b":"\\u00fc"  }'
    assert object_with(text, 0, len(text), {}) == text


@pytest.mark.parametrize(
    "data", [b'{"a":1,"b":{"c":1,"c":2}}', b"[NaN]", b"[1e400]", b"\xed\xa0\x80"]
)
def test_what_other_readers_would_see_differently_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_json(data)
