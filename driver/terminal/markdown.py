"""Escapes foreign text for Markdown: it is shown, but calls, closes and links nothing. Pure.

A forge reads a description as Markdown, and again as plain text if it becomes the message of a
merge. So nothing here relies on Markdown alone: a blank breaks every active sign, and text in a
fence is indented too, so that it neither ends the fence nor begins a line.
"""

from __future__ import annotations

import re

from driver.terminal.safe_text import bounded, safe_line, safe_text

_INDENT = "    "  # a fence that is indented as far ends nothing
_BROKEN_BAR = "\N{BROKEN BAR}"
# Text that calls a person, names an issue or a request, or is an address.
_ACTS = re.compile(r"@(?=\S)|#(?=[\w\[])|!(?=\d)|GH-(?=\d)|:(?=//)|www\.(?=\S)", re.IGNORECASE)
_RUN = re.compile("`+")
_LINK = re.compile(r"(\])(?=[(\[:])")
_CELL_CHARS = 60


def escaped(text: str) -> str:
    """`text` with a blank after every sign that a forge would act on."""
    return _ACTS.sub(r"\g<0> ", text)


def plain(text: str, limit: int) -> str:
    """A line for text without Markdown, such as a title."""
    line = escaped(safe_line(" ".join(text[: limit * 4].split())))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def inline(text: str) -> str:
    """A line of plain text for a file of Markdown: no link, picture or element of HTML."""
    line = safe_line(" ".join(text.split())).replace("<", "&lt;").replace("://", ": //")
    return _LINK.sub(r"\1 ", line)


def code(text: str, limit: int) -> str:
    """A line as code, also for a table cell; a dash for an empty text."""
    line = plain(text, limit).replace("|", _BROKEN_BAR).replace("`", "'")
    return f"`{line}`" if line else "-"


def cell(text: str) -> str:
    """A short line as code for a table cell."""
    return code(text, _CELL_CHARS)


def fenced(text: str, limit: int) -> str:
    """A code block of at most about `limit` characters."""
    body = bounded(escaped(safe_text(bounded(text, limit))).strip("\n"), limit)
    fence = "`" * max(3, 1 + max(map(len, _RUN.findall(body)), default=0))
    lines = "\n".join(_INDENT + line for line in body.split("\n"))
    return f"{fence}text\n{lines}\n{fence}"
