"""Replaces secret values in bytes, texts and JSON values by the name of the secret. Thread safe.

The time is linear. Eight aligned bytes of a text are looked up in a set of all eight bytes of all
spellings, so a text without secrets costs the same for one secret and for fifty.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from state_store.redaction import spellings
from state_store.redaction.spellings import SHORTEST

_WORD = 8
_SURE = 2 * _WORD - 1  # any text so long has eight aligned bytes in it
_BLOCK = 4096
_UNSAFE = re.compile(r"[^A-Za-z0-9_./-]")


class _Needle(NamedTuple):
    name: str
    spelled: bytes


class _View:
    """The needles of one view, and the search for them."""

    def __init__(
        self,
        made: Callable[[bytes], bytes],
        dropped: bytes,
        needles: Sequence[_Needle],
    ) -> None:
        self.of, self._dropped = made, dropped
        # The longest first: a part of a secret must not hide the whole.
        self.needles = sorted(needles, key=lambda one: -len(one.spelled))
        self._short = [one for one in self.needles if len(one.spelled) < _SURE]
        self._words: dict[int, list[_Needle]] = {}
        for one in self.needles[: len(self.needles) - len(self._short)]:
            for at in range(len(one.spelled) - _WORD + 1):
                word = int.from_bytes(one.spelled[at : at + _WORD], sys.byteorder)
                there = self._words.setdefault(word, [])
                if one not in there[-1:]:
                    there.append(one)
        self._known = frozenset(self._words)

    def spans(self, blank: bytes) -> list[tuple[int, int, str]]:
        """(start, end, name) of each found needle in `blank`, in any order."""
        view = self.of(blank)
        words = memoryview(view)[: len(view) // _WORD * _WORD].cast("Q")
        asked = [one for one in self._short if one.spelled in view]
        if not self._known.isdisjoint(words):
            hit = self._known.intersection(words)
            asked += dict.fromkeys(one for word in hit for one in self._words[word])
        found = [
            (at, at + len(one.spelled), one.name) for one in asked for at in _places(view, one)
        ]
        if not found:
            return []
        places = self._originals(blank, sorted({at for s, e, _ in found for at in (s, e - 1)}))
        return [(places[start], places[end - 1] + 1, name) for start, end, name in found]

    def open_end(self, blank: bytes) -> tuple[int, str] | None:
        """The place of a needle's beginning at the end of `blank`, and its name."""
        tail = self.of(blank[-4 * self.longest :])
        best: tuple[int, str] | None = None
        for one in self.needles:
            at = tail.find(one.spelled[:_WORD], max(0, len(tail) - len(one.spelled) + 1))
            while at >= 0 and not one.spelled.startswith(tail[at:]):
                at = tail.find(one.spelled[:_WORD], at + 1)
            if at >= 0 and (best is None or at < best[0]):
                best = (at, one.name)
        if best is None:
            return None
        before = max(0, len(blank) - 4 * self.longest)
        return before + self._originals(blank[before:], [best[0]])[best[0]], best[1]

    @property
    def longest(self) -> int:
        """The length of the longest needle."""
        return len(self.needles[0].spelled) if self.needles else 0

    def _originals(self, blank: bytes, places: Sequence[int]) -> dict[int, int]:
        """The places in `blank` of sorted places in its view."""
        found: dict[int, int] = {}
        seen, wanted = 0, iter(places)
        place = next(wanted, None)
        for start in range(0, len(blank), _BLOCK):
            block = blank[start : start + _BLOCK]
            kept = len(block.translate(None, self._dropped))
            if place is not None and place < seen + kept:
                here = [at for at, byte in enumerate(block) if byte not in self._dropped]
                while place is not None and place < seen + kept:
                    found[place] = start + here[place - seen]
                    place = next(wanted, None)
            if place is None:
                break
            seen += kept
        return found


class Redactor:
    """Replaces the values of `secrets`, by name. Without secrets it changes nothing."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.secrets = dict(secrets)

    def data(self, data: bytes, *, skip: int = 0, open_ended: bool = False) -> bytes:
        """The bytes with `[NAME]` for each secret, without the first `skip` bytes, in which a
        secret may begin. `open_ended` data may go on later, so the beginning of a secret at its end
        is replaced too."""
        if not self.secrets or len(data) < SHORTEST:
            return data[skip:]
        found = self._spans(data, open_ended=open_ended)
        seen = [(max(start - skip, 0), end - skip, name) for start, end, name in found]
        return _replaced(data[skip:], [one for one in seen if one[1] > 0])

    def text(self, text: str) -> str:
        """The text with `[NAME]` for each secret; the same object if it holds none."""
        if not self.secrets or len(text) < SHORTEST:
            return text
        data = text.encode("utf-8", "surrogatepass")
        found = self._spans(data, open_ended=False)
        return _replaced(data, found).decode("utf-8", "surrogatepass") if found else text

    def value(self, value: Any) -> Any:
        """A JSON value with its texts redacted, also those that are keys."""
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(key) if isinstance(key, str) else key: self.value(one)
                for key, one in value.items()
            }
        return [self.value(one) for one in value] if isinstance(value, list | tuple) else value

    def holds(self, data: bytes) -> bool:
        """True if the data hold a secret."""
        return bool(self.secrets) and bool(self._spans(data, open_ended=False))

    def stream(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks of a long text, redacted also across their borders."""
        if not self.secrets:
            yield from blocks
            return
        margin, waiting = self.margin, b""
        for block in blocks:
            waiting += block
            if len(waiting) < 4 * margin:
                continue
            found = self._spans(waiting, open_ended=False)
            cut = len(waiting) - margin
            cut = max([cut, *(end for start, end, _ in found if start < cut < end)])
            yield _replaced(waiting[:cut], [one for one in found if one[1] <= cut])
            waiting = waiting[cut:]
        yield self.data(waiting)

    @property
    def margin(self) -> int:
        """The number of bytes that a secret may take in a text, however it is spelled."""
        return 1024 + 4 * max(view.longest for view in self._views) if self.secrets else 0

    def _spans(self, data: bytes, *, open_ended: bool) -> list[tuple[int, int, str]]:
        """The places of all secrets, in order and without overlaps."""
        blank = spellings.blanked(data)
        found = [span for view in self._views for span in view.spans(blank)]
        for view in self._views if open_ended else ():
            if begun := view.open_end(blank):
                found.append((begun[0], len(data), begun[1]))
        joined: list[tuple[int, int, str]] = []
        for first, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
            # A backslash before it would escape the replacement.
            before = data[max(0, first - 64) : first]
            start = first - (len(before) - len(before.rstrip(b"\\")))
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
            else:
                joined.append((start, end, name))
        return joined

    @cached_property
    def _views(self) -> tuple[_View, _View]:
        plain: dict[bytes, str] = {}
        digits: dict[bytes, str] = {}
        for name, value in self.secrets.items():
            for piece in spellings.pieces_of(value):
                for spelled in spellings.plain_needles(piece):
                    plain.setdefault(spelled, name)
                for spelled in spellings.hex_needles(piece):
                    digits.setdefault(spelled, name)
        return (
            _View(spellings.plain_view, spellings.GLUE, _needles(plain)),
            _View(spellings.hex_view, spellings.HEX_GLUE + spellings.HEX_GLUE.upper(),
                  _needles(digits)),
        )  # fmt: skip


def _needles(found: Mapping[bytes, str]) -> list[_Needle]:
    return [_Needle(name, spelled) for spelled, name in found.items() if len(spelled) >= SHORTEST]


def _places(view: bytes, one: _Needle) -> Iterator[int]:
    """The places of a needle in a view; they do not overlap."""
    at = view.find(one.spelled)
    while at >= 0:
        yield at
        at = view.find(one.spelled, at + len(one.spelled))


def _replaced(data: bytes, spans: Sequence[tuple[int, int, str]]) -> bytes:
    if not spans:
        return data
    parts, last = list[bytes](), 0
    for start, end, name in spans:
        parts += [data[last:start], f"[{_UNSAFE.sub('_', name)}]".encode()]
        last = end
    return b"".join([*parts, data[last:]])
