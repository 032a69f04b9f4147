"""The index of items in memory, as a reader makes it of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.backlog.order import blocks
from driver.backlog.tracker_index import IndexBuilder, TrackerIndex
from state_store.documents.item_id import id_of
from state_store.values.columns import Block


def index_of(items: Sequence[Mapping[str, Any]]) -> TrackerIndex:
    """The index of a tracker with these items."""
    builder, first = IndexBuilder(), 0
    for block in blocks(items):
        builder.add(first, Block(block))
        first += len(block)
    return builder.index("", items, list(map(id_of, items)), ())
