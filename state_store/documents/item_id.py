"""The id of an item: the one rule by which tracker, manifest and store find it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_NUMBER = 10**18


def id_of(item: Mapping[str, Any]) -> str | None:
    """The item's id as text, None without one.

    A number counts; an empty text and half a surrogate pair do not.
    """
    found = item.get("id")
    if isinstance(found, str):  # first, for it is asked a million times in a replay
        return found if found.strip() and (found.isascii() or is_unicode(found)) else None
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found) if abs(found) < MAX_NUMBER else None
    return None


def is_unicode(text: str) -> bool:
    """False for a text with half of a surrogate pair, which JSON may hold and UTF-8 may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
