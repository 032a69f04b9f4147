"""Reads JSON files that people write, and edits them without changing the rest of the text.

`strict_json` and `files` decide which content is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state_store.documents import strict_json
from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, MissingFileError, read_bytes
from state_store.values.lazy_dataclass import dataclass

MAX_BYTES = 100_000_000

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A file's content: the parsed `value`, the `text`, and `digest`, the SHA-256 of its bytes."""

    value: Any
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Member:
    """A `"key": value` of an object, with the text positions of key and value."""

    key: str
    start: int
    value_start: int
    value_end: int


def read_json(
    path: Path,
    what: str,
    absent: str = "name an existing file",
    decoder: json.JSONDecoder | None = None,
) -> JsonDocument:
    """Read a whole file. Every fault is an InputError.

    `what` names the file in error messages. `absent` is the advice if the file is missing.
    `decoder` is a decoder from `strict_json`, or None.
    """
    with _named(path, what, absent):
        return parse_json(read_bytes(path, MAX_BYTES), decoder)


def read_json_text(path: Path, what: str, absent: str) -> tuple[str, bytes, str]:
    """The SHA-256, the bytes and the text of a file that `read_json` would read, not parsed."""
    with _named(path, what, absent):
        data = read_bytes(path, MAX_BYTES)
        digest, text = _decoded(data)
        return digest, data, text


@contextmanager
def _named(path: Path, what: str, absent: str) -> Iterator[None]:
    """Every fault inside becomes an InputError with the name of the file."""
    try:
        yield
    except BadFileError as fault:
        remedy = absent if isinstance(fault, MissingFileError) else "correct it"
        raise InputError(f"the {what} {path} {fault.why}; {remedy}") from fault
    except InputError as fault:
        raise InputError(f"the {what} {path} is not usable JSON: {fault}; correct it") from fault


def parse_json(data: bytes, decoder: json.JSONDecoder | None = None) -> JsonDocument:
    """Parse UTF-8 JSON, with or without a byte order mark. Raises InputError naming the fault."""
    digest, text = _decoded(data)
    del data  # saves memory for a long file
    try:
        value = strict_json.parse(text.removeprefix(_BYTE_ORDER_MARK), decoder)
    except ValueError as fault:  # bad JSON, a number of too many digits
        raise InputError(str(fault)) from fault
    return JsonDocument(value, text, digest)


def _decoded(data: bytes) -> tuple[str, str]:
    """The SHA-256 and the text of the bytes. Raises InputError if they are not UTF-8."""
    try:
        return hashlib.sha256(data).hexdigest(), data.decode()
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def item_spans(text: str, key: str) -> Iterator[tuple[Any, int, int]]:
    """Yields value, start and end of each element of the list at `key`, or of the top-level list.

    `parse_json` must have accepted `text` before, so nothing is checked again here.
    """
    at = skip(text, list_start(text, key) + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield value, at, end
        at = _after_comma(text, end)


def members(text: str, start: int) -> Iterator[Member]:
    """The members of the object at `start` in a text that was parsed before."""
    at = skip(text, start + 1)
    while text[at] != "}":
        key, end = strict_json.DECODER.raw_decode(text, at)
        value_start = skip(text, skip(text, end) + 1)
        _, value_end = strict_json.DECODER.raw_decode(text, value_start)
        yield Member(key, at, value_start, value_end)
        at = _after_comma(text, value_end)


def object_with(text: str, start: int, end: int, changes: Mapping[str, Any]) -> str:
    """The text of the non-empty object text[start:end] with `changes` set.

    Changed values are replaced in place. New keys follow the last key, in its layout.
    """
    there = list(members(text, start))
    pieces, at = [], start
    for member in there:
        if member.key in changes:
            pieces += [text[at : member.value_start], _dumped(text, changes[member.key])]
            at = member.value_end
    last = there[-1]
    pieces.append(text[at : last.value_end])
    lead = text[len(text[start : last.start].rstrip(" \t\r\n")) + start : last.start]
    for key in changes:
        if all(member.key != key for member in there):
            pieces.append(f",{lead}{_dumped(text, key)}: {_dumped(text, changes[key])}")
    return "".join([*pieces, text[last.value_end : end]])


def list_with(text: str, key: str, added: Sequence[Mapping[str, Any]]) -> str:
    """The text with `added` at the end of the list at `key`, in the layout of its last element."""
    if not added:
        return text
    start, last = list_start(text, key), None
    for _, begin, stop in item_spans(text, key):
        last = (begin, stop)
    end = skip(text, last[1] if last else start + 1)  # the list's `]`
    if last is None:
        lead, many_lines = "\n" + _indent_of(text, start) + "  ", True
        closing = "\n" + _indent_of(text, start)
    else:
        lead = text[len(text[: last[0]].rstrip(" \t\r\n")) : last[0]]
        many_lines = "\n" in text[last[0] : last[1]]
        closing = text[last[1] : end]
    body = f",{lead}".join(object_text(text, item, lead, many_lines=many_lines) for item in added)
    before = text[: start + 1] if last is None else text[: last[1]] + ","
    return f"{before}{lead}{body}{closing}{text[end:]}"


def object_text(text: str, value: Mapping[str, Any], lead: str, *, many_lines: bool) -> str:
    """`value` as JSON, to follow the white space `lead` in `text`."""
    if not many_lines:
        return _dumped(text, value)
    indent = lead.rpartition("\n")[2]
    return _dumped(text, value, indent=2).replace("\n", "\n" + indent)


def list_start(text: str, key: str) -> int:
    """The position of the `[` of the list at `key`, or of the top-level list."""
    start = skip(text, len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0)
    if text[start] == "[":
        return start
    at = skip(text, start + 1)
    while True:  # not `members`, which would read the whole list to tell its end
        found, end = _DECODER.raw_decode(text, at)
        value_start = skip(text, skip(text, end) + 1)
        if found == key:
            return value_start
        _, end = _DECODER.raw_decode(text, value_start)
        at = _after_comma(text, end)


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dumped(text: str, value: Any, indent: int | None = None) -> str:
    plain = json.dumps(value, ensure_ascii=text.isascii(), allow_nan=False, indent=indent)
    try:
        plain.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8, in the reason of an item
        return json.dumps(value, allow_nan=False, indent=indent)
    return plain


def _after_comma(text: str, at: int) -> int:
    at = skip(text, at)
    return skip(text, at + 1) if text[at] == "," else at


def skip(text: str, at: int) -> int:
    """The position of the next character that is no white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at
