"""Text of others made inert for a forge: it shows what it says, and calls, closes, links nothing.

A forge reads descriptions more than once: as Markdown, and as plain text again where one becomes
the message of a merge. So nothing here relies on Markdown alone: what would act is broken by a
blank, and what stands in a fence is indented too, so that it neither ends the fence nor begins a
line. Pure.
"""

from __future__ import annotations

import re

from driver.terminal.safe_text import bounded, safe_line, safe_text

_INDENT = "    "  # a fence that is indented as far ends nothing
_BROKEN_BAR = "\N{BROKEN BAR}"
# What calls a person, names an issue or a request, or is an address.
_ACTS = re.compile(r"@(?=\S)|#(?=\w)|!(?=\d)|GH-(?=\d)|:(?=//)|www\.(?=\S)", re.IGNORECASE)
_RUN = re.compile("`+")
_CELL_CHARS = 60


def escaped(text: str) -> str:
    """`text` with a blank after every sign that a forge would act on."""
    return _ACTS.sub(r"\g<0> ", text)


def plain(text: str, limit: int) -> str:
    """One line that may stand where a forge reads no Markdown, such as a title."""
    short = " ".join(text[: limit * 4].split())
    return _cut(escaped(safe_line(short)), limit)


def cell(text: str) -> str:
    """One line as code, to stand in a table; a dash for nothing."""
    line = plain(text, _CELL_CHARS).replace("|", _BROKEN_BAR).replace("`", "'")
    return f"`{line}`" if line else "-"


def fenced(text: str, limit: int) -> str:
    """Lines as a block of code of at most about `limit` characters."""
    body = bounded(escaped(safe_text(bounded(text, limit))).strip("\n"), limit)
    fence = "`" * max(3, 1 + max(map(len, _RUN.findall(body)), default=0))
    lines = "\n".join(_INDENT + line for line in body.split("\n"))
    return f"{fence}text\n{lines}\n{fence}"


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[: limit - 3] + "..."
