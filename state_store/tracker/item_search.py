"""Finds a few items in the text of a long tracker without a look at the others. Pure.

To read a tracker of 100,000 items takes longer than to write it. So an item is looked for by its
id, and its place is believed only if the layout leaves no doubt.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from state_store.documents.item_id import id_of
from state_store.documents.json_document import list_start, skip

_DECODER = json.JSONDecoder()
Span = tuple[Any, int, int]  # item, start and end in the text


def spans_of(text: str, ids: Collection[str]) -> list[Span] | None:
    """The items with these ids, in order; None if they cannot be found without doubt. The text must
    have been accepted by `parse_json` before.

    Every item must begin as the first one does, on a line of its own. An id that stands twice, and
    a bracket in a text that is not balanced, leave a doubt.
    """
    opening = list_start(text, "items")
    first = skip(text, opening + 1)
    lead = text[opening + 1 : first]
    if text[first] != "{" or "\n" not in lead:
        return None
    found = []
    for name in ids:
        key = f'"id": {json.dumps(name, ensure_ascii=text.isascii())}'
        at = text.find(key, first)
        if at < 0 or text.find(key, at + 1) >= 0:
            return None
        start = text.rfind(f"{lead}{{", opening, at) + len(lead)
        if start < first or text[start - len(lead) - 1] not in "[,":
            return None
        item, end = _DECODER.raw_decode(text, start)
        if not (at < end and isinstance(item, dict) and id_of(item) == name):
            return None
        found.append((item, start, end))
    found.sort(key=lambda span: span[1])
    return found if _are_in_the_list(text, opening, found) else None


def _are_in_the_list(text: str, opening: int, spans: list[Span]) -> bool:
    """True if each span is in the list itself, not in a list or an object of another item."""
    at, braces, brackets = opening + 1, 0, 0
    for _, start, _ in spans:
        braces += text.count("{", at, start) - text.count("}", at, start)
        brackets += text.count("[", at, start) - text.count("]", at, start)
        if braces or brackets:
            return False
        at = start
    return True
