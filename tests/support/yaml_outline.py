"""Enough of YAML to look at a workflow: tables, lists, one-line values and text blocks.

Refuses what it does not know, so that a template stays within what can be looked at.
"""

from __future__ import annotations

import re
from typing import Any

_KEY = re.compile(r"""("[^"]+"|'[^']+'|[^\s:#"'\[{][^:#]*?)\s*:(?:\s+(.*))?$""")
Lines = list[tuple[int, str]]


def outline(text: str) -> Any:
    """The document as tables, lists and texts; every value on one line is a text."""
    assert "\t" not in text
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines()]
    value, rest = _read(_skipped(lines), 0)
    assert not _skipped(rest), rest[0]
    return value


def _skipped(lines: Lines) -> Lines:
    while lines and (not lines[0][1] or lines[0][1].startswith("#")):
        lines = lines[1:]
    return lines


def _read(lines: Lines, depth: int) -> tuple[Any, Lines]:
    lines = _skipped(lines)
    if not lines or lines[0][0] < depth:
        return None, lines
    depth = lines[0][0]
    return _list(lines, depth) if lines[0][1].startswith("- ") else _table(lines, depth)


def _list(lines: Lines, depth: int) -> tuple[list[Any], Lines]:
    found = []
    while (lines := _skipped(lines)) and lines[0][0] == depth and lines[0][1].startswith("- "):
        body = lines[0][1][2:].strip()
        if _KEY.match(body) and body[0] not in "'\"":
            value, lines = _table([(depth + 2, body), *lines[1:]], depth + 2)
        else:
            value, lines = _value(body, lines[1:], depth)
        found.append(value)
    return found, lines


def _table(lines: Lines, depth: int) -> tuple[dict[str, Any], Lines]:
    found: dict[str, Any] = {}
    while (lines := _skipped(lines)) and lines[0][0] == depth and not lines[0][1].startswith("- "):
        match = _KEY.match(lines[0][1])
        assert match, f"no key: {lines[0][1]}"
        key = match[1].strip("'\"")
        assert key not in found, f"twice: {key}"
        found[key], lines = _value((match[2] or "").strip(), lines[1:], depth)
    return found, lines


def _value(told: str, lines: Lines, depth: int) -> tuple[Any, Lines]:
    if told in ("|", ">", "|-", ">-"):
        count = next((n for n, (d, text) in enumerate(lines) if text and d <= depth), len(lines))
        return "\n".join(text for _, text in lines[:count]).strip(), lines[count:]
    if told and not told.startswith("#"):
        assert told[0] not in "[&*!{" or told == "{}", told
        quoted = len(told) > 1 and told[0] == told[-1] and told[0] in "'\""
        return told[1:-1] if quoted else told, lines
    # A list may stand as deep as its key.
    inner = _skipped(lines)
    deep = inner and inner[0][0] == depth and inner[0][1].startswith("- ")
    return _read(lines, depth if deep else depth + 1)
