"""Reads a long tracker block by block, with the place of each item in the text.

A parse of 100,000 items makes a million objects, which takes most of its memory. Here only some
hundred items exist at a time. What the strict parser refuses is refused here too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from state_store.documents import strict_json
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.json_document import list_start, read_json_text, skip
from state_store.tracker.file import ERRORS, listed, read_listed
from state_store.values.lazy_dataclass import dataclass, field

BLOCK = 250
EachBlock = Callable[[int, Sequence[Any]], None]


@dataclass(slots=True)
class TrackerText:
    """The text of a tracker, whose bytes have the SHA-256 `digest`, and its entries: their ids
    (`id_of`, None for an entry that is no object), starts and ends. `fields` are the names of all
    fields of each block of entries."""

    digest: str
    text: str
    ids: list[str | None] = field(default_factory=list)
    starts: array[int] = field(default_factory=lambda: array("Q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))
    fields: list[set[str]] = field(default_factory=list)


def scanned(path: Path, each_block: EachBlock = lambda _, __: None) -> TrackerText:
    """Read a tracker, and call `each_block` with the number of the first entry of each block and
    its entries. Raises as `read_tracker_file` does, maybe after some of the calls."""
    digest, text = read_json_text(path, *ERRORS)
    found = TrackerText(digest, text)
    try:
        after = _scan(found, each_block)
        start = list_start(text, "items")
        listed(path, strict_json.parse((text[:start] + "[]" + text[after:]).lstrip("\ufeff")))
    except (ValueError, StopIteration, IndexError, RecursionError):
        read_listed(path)  # raises the reason
        raise
    return found


def _scan(found: TrackerText, each_block: EachBlock) -> int:
    """Find the entries. Returns the position after the list."""
    decoder: Any = strict_json.DECODER  # its scanner, which is faster, is no public name
    text, scan, block = found.text, decoder.scan_once, list[Any]()
    at = skip(text, list_start(text, "items") + 1)
    is_more, between = text[at] != "]", "\0"
    while is_more:
        entry, end = scan(text, at)
        found.starts.append(at)
        found.ends.append(end)
        block.append(entry)
        if text.startswith(between, end):  # what stands between most of the entries
            at = end + len(between)
        else:
            at = skip(text, end)
            is_more = text[at] == ","
            if is_more:
                at = skip(text, at + 1)
                between = text[end:at]
            elif text[at] != "]":
                raise ValueError("the list of items does not end")
        if len(block) == BLOCK or not is_more:
            _add(found, block, each_block)
            block = []
    return at + 1


def _add(found: TrackerText, block: Sequence[Any], each_block: EachBlock) -> None:
    each_block(len(found.ids), block)
    if set(map(type, block)) == {dict}:
        found.ids += plain_ids(block) or map(id_of, block)
        found.fields.append(set(chain.from_iterable(block)))
    else:
        found.ids += [id_of(entry) if isinstance(entry, dict) else None for entry in block]
        found.fields.append(set())
