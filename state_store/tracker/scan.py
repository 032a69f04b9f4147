"""Reads a long tracker block by block, with the place of each item in the file.

A parse of 100,000 items makes a million objects, which takes most of its memory. Here only some
hundred items exist at a time, and later those that are asked for. What the strict parser refuses is
refused here too.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from state_store.documents import strict_json
from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, identity_at, open_regular, read_bytes
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.json_document import MAX_BYTES, list_start, read_json_text, skip
from state_store.tracker.base import known_digest
from state_store.tracker.file import ERRORS, listed, require_sound
from state_store.tracker.spliced_file import Replaced
from state_store.values.columns import Block
from state_store.values.lazy_dataclass import dataclass, field

BLOCK = 250
LONG = 2**20  # bytes; a shorter tracker is parsed in milliseconds
_MOST_GROWN = 100
EachBlock = Callable[[int, Sequence[Any]], None]
Edited = tuple[int, bytes, bytes]  # the number of an entry, its text before and after


def _places() -> array[int]:
    return array("Q")


@dataclass(slots=True)
class ScannedTracker:
    """The entries of a tracker whose bytes have the SHA-256 `digest`: their ids (`id_of`, None for
    an entry that is no object), and where they start and end in the file. `fields` are the names of
    all fields of each block, while they are known; `edits` is what this process has changed since
    the scan, and `replaced` the file before the newest of its writes. `grown` are entries that have
    grown, with the number of bytes, since `starts` and `ends` were true."""

    path: Path
    digest: str
    is_ascii: bool = True
    ids: list[str | None] = field(default_factory=list)
    starts: array[int] = field(default_factory=_places)
    ends: array[int] = field(default_factory=_places)
    fields: list[set[str]] = field(default_factory=list)
    edits: list[Edited] = field(default_factory=list)
    data: bytes | None = None
    replaced: Replaced | None = None
    grown: list[tuple[int, int]] = field(default_factory=list)

    def place_of(self, number: int) -> tuple[int, int]:
        """The start and the end of an entry in the file as it is now."""
        before = sum(size for other, size in self.grown if other < number)
        own = sum(size for other, size in self.grown if other == number)
        return self.starts[number] + before, self.ends[number] + before + own

    def text_of(self, number: int) -> bytes:
        """The text of an entry. Raises InputError if the file is another one now."""
        start, end = self.place_of(number)
        if self.data is None:
            before = identity_at(self.path)
            if known_digest(self.path) == (before, self.digest):
                # What this cannot read, the whole file's digest judges.
                with suppress(OSError, BadFileError), open_regular(self.path) as stream:
                    stream.seek(start)
                    found = stream.read(end - start)
                    if identity_at(self.path) == before:
                        return found
            self._load()
            assert self.data is not None
        return self.data[start:end]

    def entry(self, number: int) -> Any:
        """An entry."""
        return strict_json.parse_foreign(self.text_of(number))

    def _load(self) -> None:
        """Read the whole file, whose bytes must be those that were scanned."""
        data = read_bytes(self.path, MAX_BYTES)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise InputError(f"the tracker {self.path} changed while it was read; run again")
        self.data = data

    def edited(self, edits: Sequence[Edited], digest: str, replaced: Replaced) -> None:
        """Note the edits that made the file another one, in the order of the file."""
        self.grown += [(number, len(after) - len(before)) for number, before, after in edits]
        if len(self.grown) > _MOST_GROWN:
            self.settle()
        self.edits += edits
        self.fields.clear()
        self.forget()
        self.digest, self.replaced = digest, replaced

    def settle(self) -> None:
        """Make `starts` and `ends` true again."""
        moved = [0] * (len(self.ids) + 1)
        for number, size in self.grown:
            moved[number + 1] += size
        moved = list(accumulate(moved))
        self.starts = array("Q", map(int.__add__, self.starts, moved))
        self.ends = array("Q", map(int.__add__, self.ends, moved[1:]))
        self.grown.clear()

    def forget(self) -> None:
        """Drop the text from memory, and the file that was replaced."""
        self.data = self.replaced = None


class Entries(Sequence[Any]):
    """The entries of a scanned tracker, each parsed when it is asked for."""

    def __init__(self, tracker: ScannedTracker) -> None:
        self._tracker = tracker

    def __len__(self) -> int:
        return len(self._tracker.ids)

    def __getitem__(self, number: Any) -> Any:
        return self._tracker.entry(number)


_known: dict[str, ScannedTracker] = {}  # by real path


def remember(tracker: ScannedTracker) -> None:
    """Keep the newest scan of a file, for a later change of it."""
    _known[os.path.realpath(tracker.path)] = tracker


def scanned_before(path: Path, digest: str | None) -> ScannedTracker | None:
    """The scan of the file by this process if its bytes still have this SHA-256."""
    found = _known.get(os.path.realpath(path))
    return found if found is not None and found.digest == digest else None


def scanned(path: Path, each_block: EachBlock = lambda _, __: None) -> ScannedTracker:
    """Read a tracker, and call `each_block` with the number of the first entry of each block and
    its entries. Raises as `read_tracker_file` does, maybe after some of the calls."""
    digest, data, text = read_json_text(path, *ERRORS)
    found = ScannedTracker(path, digest, text.isascii(), data=data)
    try:
        after = _scan(found, text, each_block)
        start = list_start(text, "items")
        listed(path, strict_json.parse((text[:start] + "[]" + text[after:]).lstrip("\ufeff")))
    except (ValueError, StopIteration, IndexError, RecursionError):
        require_sound(path)  # raises the reason
        raise
    if not found.is_ascii:
        found.starts, found.ends = _in_bytes(text, found.starts, found.ends)
    return found


def _scan(found: ScannedTracker, text: str, each_block: EachBlock) -> int:
    """Find the entries. Returns the position after the list."""
    decoder: Any = strict_json.DECODER  # its scanner, which is faster, is no public name
    scan, block = decoder.scan_once, list[Any]()
    start = list_start(text, "items")
    if text[start] != "[":
        raise ValueError("the items are no list")
    at = skip(text, start + 1)
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


def _add(found: ScannedTracker, block: Sequence[Any], each_block: EachBlock) -> None:
    if set(map(type, block)) == {dict}:
        items = Block(block)
        each_block(len(found.ids), items)
        found.ids += plain_ids(items) or map(id_of, items)
        found.fields.append(items.fields)
    else:
        each_block(len(found.ids), block)
        found.ids += [id_of(entry) if isinstance(entry, dict) else None for entry in block]
        found.fields.append(set())


def _in_bytes(
    text: str, starts: Iterable[int], ends: Iterable[int]
) -> tuple[array[int], array[int]]:
    """Places in a text, counted in bytes of UTF-8."""
    pairs = list(zip(starts, ends, strict=True))
    marks = [0, *chain.from_iterable(pairs)]
    sizes = (len(text[begin:end].encode()) for begin, end in pairwise(marks))
    found = list(accumulate(sizes))
    return array("Q", found[0::2]), array("Q", found[1::2])
