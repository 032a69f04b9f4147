"""The fast writer of indented JSON gives the text of `json.dumps`, and refuses what it refuses."""

from __future__ import annotations

import json
import random
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from state_store.documents.indented_json import indented


class _Word(StrEnum):
    ONE = 'a "word"'


class _Number(IntEnum):
    TWO = 2


_LEAVES: list[Any] = [
    *(None, True, False, 0, -1, 2**70, 0.1, -0.0, 1e300, 5e-324, "", "text", 'a "b" \\ \n\t\x00'),
    *("\u00e9\u2028\U0001f600", "\udc80", _Word.ONE, _Number.TWO, [], {}, (), float("nan")),
    *(float("inf"), -float("inf")),
]


def _document(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(4) if depth else 0
    if kind == 1:
        return [_document(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 2:
        return tuple(_document(chance, depth - 1) for _ in range(chance.randrange(4)))
    if kind == 3:
        names: list[Any] = ["a", "b \u00e9", "", "c\n", 1, None, True, 2.5, _Word.ONE]
        return {chance.choice(names): _document(chance, depth - 1) for _ in range(4)}
    return chance.choice(_LEAVES)


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_every_document_reads_as_json_writes_it(*, ensure_ascii: bool) -> None:
    chance = random.Random(7)
    for _ in range(3000):
        document = _document(chance, 4)
        written = json.dumps(document, indent=2, ensure_ascii=ensure_ascii)
        assert indented(document, ensure_ascii=ensure_ascii) == written


@pytest.mark.parametrize("bad", [{1, 2}, b"bytes", {"a": [object()]}, {(1, 2): 3}])
def test_what_is_no_json_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError):
        indented(bad)


def test_a_number_that_is_none_is_refused_on_request() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        indented({"a": float("nan")}, allow_nan=False)


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        indented(circle)
