"""Reads the id of an item, by one rule for tracker, manifest and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from state_store.values.columns import column

MAX_NUMBER = 10**18


def id_of(item: Mapping[str, Any]) -> str | None:
    """The item's id as text, or None.

    A number is valid; an empty text or half a surrogate pair is not.
    """
    found = item.get("id")
    if isinstance(found, str):  # first, because a replay runs this a million times
        return found if found.strip() and (found.isascii() or is_unicode(found)) else None
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found) if abs(found) < MAX_NUMBER else None
    return None


def plain_ids(items: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """`id_of` of each item in a third of the time; None if one is no text of ASCII."""
    ids = list(column(items, "id"))
    return ids if set(map(type, ids)) == {str} and all_plain(ids) else None


def all_plain(ids: Sequence[str]) -> bool:
    """True if each text is the id of an item that has it, as it is, and only ASCII."""
    return "".join(ids).isascii() and all(map(str.strip, ids))


def is_unicode(text: str) -> bool:
    """False for a text with half a surrogate pair, which JSON allows and UTF-8 does not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
