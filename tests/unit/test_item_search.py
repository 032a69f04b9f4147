"""Items are found in a tracker's text by their id, and never where a doubt is left."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from state_store.documents.item_id import id_of
from state_store.documents.json_document import item_spans
from state_store.tracker.item_search import spans_of


def written(items: list[Any], *, indent: int | None = 2, **more: Any) -> str:
    return json.dumps({**more, "version": 1, "items": items}, indent=indent)


ITEMS: list[Any] = [
    {"id": f"T-{n}", "slug": f"s{n}", "ownsFiles": ["a", "b"], "shipped": {"wave": "w"}}
    for n in range(12)
]


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_items_are_found_where_they_stand(indent: int) -> None:
    for text in (written(ITEMS, indent=indent), json.dumps(ITEMS, indent=indent),
                 written(ITEMS, indent=indent, other=[{"x": "{"}])):  # fmt: skip
        places = [span for span in item_spans(text, "items") if span[0]["id"] in ("T-1", "T-11")]
        assert spans_of(text, ["T-11", "T-1"]) == places


@pytest.mark.parametrize(
    "text",
    [
        written(ITEMS, indent=None),
        written(ITEMS[2:]),
        written([{**ITEMS[0], "notes": 'was "id": "T-1"'}, {"id": "T-1", "a": {"id": "T-1"}}]),
        written([{**ITEMS[0], "prompt": "an open {"}, ITEMS[1]]),
        written([{**ITEMS[0], "parts": [{"id": "T-1"}]}]),
        written([{**ITEMS[0], "parts": ITEMS[1:3]}]).replace("\n        {", "\n    {"),
        written([7, ITEMS[1]]),
        written([]),
        written(ITEMS).replace('"id": "T-1",', '"id" : "T-1",'),
        written(ITEMS).replace('"id": "T-1",', '"id": "T\\u002d1",'),
    ],
)
def test_a_doubt_is_no_find(text: str) -> None:
    json.loads(text)
    assert spans_of(text, ["T-1"]) is None


def test_no_layout_leads_to_a_wrong_place() -> None:
    found = 0
    for seed in range(400):
        chance = random.Random(seed)
        items = [{"id": f"T-{n}", "k": chance.choice(("{", "[", "x", '"id": "T-2"', [{"id": "T-3"}],
                                                      {"id": "T-1", "k": 1}, ITEMS[:2]))}
                 for n in range(chance.randint(1, 6))]  # fmt: skip
        text = written(items, indent=chance.choice((0, 1, 2)))
        for _ in range(chance.randint(0, 3)):  # the layout of a person in a hurry
            text = text.replace("\n" + " " * chance.randint(1, 8), "\n  ", chance.randint(1, 9))
        name = f"T-{chance.randint(0, 3)}"
        right = [span for span in item_spans(text, "items") if id_of(span[0]) == name]
        seen = spans_of(text, [name])
        assert seen in (None, right)
        found += seen is not None
    assert found > 50
