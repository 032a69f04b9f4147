"""Makes foreign text safe to print: bounds its length and escapes control characters."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any


def safe_line(text: str) -> str:
    """`text` on one line, with unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def safe_text(text: str) -> str:
    """`text` with all control characters escaped except line breaks and tabs."""
    return "\n".join(
        "\t".join(safe_line(cell) for cell in line.split("\t"))
        for line in text.replace("\r\n", "\n").split("\n")
    )


def bounded(text: str, limit: int) -> str:
    """`text`, or its head and tail with a line between them that counts the missing characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def shortened(text: Any, limit: int) -> Any:
    """`text` cut at `limit` characters, with three dots. Other values stay unchanged."""
    if not isinstance(text, str) or len(text) <= limit:
        return text
    return text[: limit - 3] + "..."


def describe_verdict(verdict: str, reason: str | None) -> str:
    """Returns `verdict: reason`, or only the reason if it begins with the verdict."""
    if not reason:
        return verdict
    return reason if reason.startswith(f"{verdict}: ") else f"{verdict}: {reason}"


def counted(number: int, what: str) -> str:
    """`1 item`, `2 items`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def with_note(notes: object, note: str) -> object:
    """Appends `note` to an item's `notes`. Notes that are not a text stay unchanged."""
    return f"{notes or ''} {note}".strip() if isinstance(notes, str | None) else notes


GO_ON = "; to go on: "


def without_remedy(reason: str) -> str:
    """Returns `reason` without the command to go on, which is shown only once."""
    return reason.partition(GO_ON)[0]


def describe_run(kind: str, duration_s: float) -> str:
    """Describes the end of a test run, such as `timed out after 9.0 s`."""
    return f"{kind.replace('_', ' ')} after {duration_s:.1f} s"


def typed(*words: str | Path) -> str:
    """A command quoted for this system's shell."""
    return " ".join(_quoted(str(word)) for word in words)


def _quoted(word: str) -> str:
    # The shells of Windows do not know single quotes.
    if os.name == "nt":
        return f'"{word}"' if not word or set(word) & set(" &()^,;=") else word
    return shlex.quote(word)
