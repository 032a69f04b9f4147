"""Parses the small subset of YAML in front matter of Markdown files, and refuses the rest.

Known are `key: value`, texts plain, quoted or as `|` and `>` blocks, whole numbers, `true`,
`false`, `null`, lists in brackets and lists of `- ` lines. `yes` and `1.10` are texts. Nested
tables, anchors, tags and duplicate keys are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

FENCE = "---"

_KEY = re.compile(r"([A-Za-z_][\w .-]*?)[ \t]*:(?:[ \t]+(.*))?$")
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")
_UNKNOWN = re.compile(r"[&*!|>%@`{}]")


class FrontMatterError(ValueError):
    """A line cannot be parsed. The message has its number."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


def split(text: str) -> tuple[dict[str, Any] | None, str]:
    """The front matter of a Markdown text, or None, and the text below it.

    Raises FrontMatterError.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        return None, text
    ends = [n for n, line in enumerate(lines) if n and line.rstrip() in (FENCE, "...")]
    if not ends:
        raise FrontMatterError(1, f"the front matter has no {FENCE} at its end")
    return parse(lines[1 : ends[0]], first_line=2), "\n".join(lines[ends[0] + 1 :])


def parse(lines: Sequence[str], first_line: int = 1) -> dict[str, Any]:
    """Parse lines of YAML to a table. Raises FrontMatterError."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(lines):
        number, line = first_line + at, lines[at].rstrip()
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.match(line)
        if match is None:
            raise FrontMatterError(number, "is no `key: value` (tables in tables are not known)")
        key, value = match[1], (match[2] or "").strip()
        if key in found:
            raise FrontMatterError(number, f"{key!r} stands twice")
        below = _below(lines, at)
        found[key] = _value(number, value, lines[at : at + below])
        at += below
    return found


def _below(lines: Sequence[str], at: int) -> int:
    """Counts the lines from `at` on that belong to the key above: indented lines and a list."""
    end = at
    for number in range(at, len(lines)):
        line = lines[number]
        if line.startswith((" ", "\t", "- ")) or line.rstrip() == "-":
            end = number + 1
        elif line.strip():
            break
    return end - at


def _value(number: int, value: str, below: Sequence[str]) -> Any:
    if re.fullmatch(r"[|>][+-]?(?:[ \t]+#.*)?", value):
        return _block(number, value, below)
    rest = [(number + n, line.strip()) for n, line in enumerate(below, start=1)]
    rest = [(n, line) for n, line in rest if line and not line.startswith("#")]
    if not rest:
        return _scalar(number, value)
    if _COMMENT.sub("", value).strip():
        raise FrontMatterError(rest[0][0], "goes on with a value that ended on its own line")
    entries = []
    for n, line in rest:
        if line != "-" and not line.startswith("- "):
            raise FrontMatterError(n, "is no list entry (tables in tables are not known)")
        body = line[1:].strip()
        if body[:1] not in ("'", '"') and _KEY.match(_COMMENT.sub("", body).strip()):
            raise FrontMatterError(n, "is a table in a list, which is not known")
        entries.append(_scalar(n, body))
    return entries


def _block(number: int, mark: str, below: Sequence[str]) -> str:
    indents = [len(line) - len(line.lstrip(" ")) for line in below if line.strip()]
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in below):
        raise FrontMatterError(number, "a block is indented with spaces, not tabs")
    depth = min(indents, default=0)
    lines = [line[depth:].rstrip() for line in below]
    while lines and not lines[-1]:
        lines.pop()
    text = "\n".join(lines)
    if mark.startswith(">"):
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", text).replace("\n\n", "\n")
    return text if mark[1:2] == "-" or not text else text + "\n"


def _scalar(number: int, value: str) -> Any:
    if value[:1] in ("'", '"'):
        text, rest = _quoted(number, value)
        if _COMMENT.sub("", rest).strip():
            raise FrontMatterError(number, "the value goes on after its closing quote")
        return text
    value = _COMMENT.sub("", value).strip()
    if value.startswith("["):
        return _list(number, value)
    if _UNKNOWN.match(value):
        raise FrontMatterError(number, f"{value[0]!r} at the start needs quotes around the value")
    if re.search(r":(?:[ \t]|$)", value):
        raise FrontMatterError(number, "holds ': ', which needs quotes around the value")
    if value in _WORDS:
        return _WORDS[value]
    return int(value) if _WHOLE.fullmatch(value) else value


def _quoted(number: int, value: str) -> tuple[str, str]:
    """The text between quotes, and the rest of the line."""
    if value[0] == "'":
        match = re.match(r"'((?:[^']|'')*)'", value)
        if match is None:
            raise FrontMatterError(number, "has no closing quote on its line")
        return match[1].replace("''", "'"), value[match.end() :]
    match = re.match(r'"(?:[^"\\]|\\.)*"', value)
    try:
        if match is None:
            raise FrontMatterError(number, "has no closing quote on its line")
        return str(json.loads(match[0], strict=False)), value[match.end() :]
    except json.JSONDecodeError as error:
        raise FrontMatterError(number, f"has an escape that is not known: {error.msg}") from error


def _list(number: int, value: str) -> list[Any]:
    if not value.endswith("]"):
        raise FrontMatterError(number, "a list in brackets ends on its own line")
    entries: list[Any] = []
    rest = value[1:-1].strip()
    while rest:
        if rest[0] in "'\"":
            entry, rest = _quoted(number, rest)
            entries.append(entry)
            gap = rest.strip()
            if gap and not gap.startswith(","):
                raise FrontMatterError(number, "entries of a list are set apart by commas")
            rest = gap[1:].strip()
            continue
        head, _, rest = rest.partition(",")
        if re.search(r"[\[\]]", head):
            raise FrontMatterError(number, "lists in lists are not known")
        if head.strip():
            entries.append(_scalar(number, head.strip()))
        rest = rest.strip()
    return entries
