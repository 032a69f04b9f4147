"""The trailers of shipped commits: what they are called, and how they are read. Pure."""

from __future__ import annotations

from collections.abc import Iterable

WAVE_ID = "Wave-Id"
ITEM_ID = "Item-Id"
ITEM_TASK = "Item-Task"
ITEM_SLUG = "Item-Slug"
TEST_COMMAND = "Test-Command"
WORK_DIR = "Work-Dir"
PROVED_TREE = "Proved-Tree"
# What git is to look for in the messages of commits: a shipped item.
SHIPMENT = rf"^[[:space:]]*{ITEM_ID}: "
_OF_AN_ITEM = frozenset({ITEM_ID, ITEM_TASK, ITEM_SLUG, TEST_COMMAND, WORK_DIR})


def items_of(trailers: Iterable[str]) -> list[dict[str, str]]:
    """For each item of a commit what its trailers, lines of `Name: value`, say of it."""
    common: dict[str, str] = {}
    items: list[dict[str, str]] = []
    for name, _, value in (line.partition(": ") for line in trailers):
        if name == ITEM_ID:
            items.append({})
        (items[-1] if name in _OF_AN_ITEM and items else common)[name] = value
    return [{**common, **item} for item in items]
