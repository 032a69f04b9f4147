"""Makes text of agents, tests and backlogs safe for each surface that shows it.

One rule is below all: `safe_line` escapes everything that is not printable, which includes control
characters, signs that change the direction of text, signs of no width, and half surrogate pairs.
Each surface adds its own: `log_line` for a terminal or a log, `safe_text` for several lines,
`html_text`, `xml_text`, `workflow_message` for a command of GitHub Actions, and the module
`terminal/markdown.py` for Markdown. Nothing else may show such text.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

# Letters and signs that have no ink: fillers of Hangul, blank Braille, selectors of variants, tags.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0"
    "\U000e0100-\U000e01ef]"
)

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_MOST_OF_IT = 0.7  # of a text that stays when it is cut before a word
_NOT_ASCII = re.compile("[^ -~]")


def safe_line(text: str) -> str:
    """`text` on one line, with unprintable characters escaped."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return _NOT_ASCII.sub(_seen, text)


def _seen(match: re.Match[str]) -> str:
    """A character that shows itself, or its escape. Python calls some letters without any ink
    printable."""
    char = match[0]
    if char.isprintable() and not _UNSEEN.match(char):
        return char
    return char.encode("unicode_escape").decode()


def safe_text(text: str) -> str:
    """`text` with all control characters escaped except line breaks and tabs."""
    return _by_cells(text, safe_line)


def log_line(text: str) -> str:
    """A line for a terminal or a log. In a job of GitHub Actions it is no command to the job: such
    a command begins a line with two colons, or has `##[` anywhere."""
    line = safe_line(text).replace("##[", "# #[")
    return line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line


def log_text(text: str) -> str:
    """Like `log_line`, for several lines; tabs are kept."""
    return _by_cells(text, log_line)


def _by_cells(text: str, safe: Callable[[str], str]) -> str:
    """`text` with `safe` applied between its tabs and ends of lines."""
    return "\n".join(
        "\t".join(map(safe, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n")
    )


def workflow_message(text: str) -> str:
    """The message of our own command to a job of GitHub Actions."""
    return safe_line(text).replace("##[", "# #[").replace("%", "%25")


def workflow_property(text: str) -> str:
    """The value of a property of such a command, for example of `file`."""
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")


def html_text(text: str) -> str:
    """`text` for an element or an attribute of HTML."""
    return safe_text(text).translate(_ENTITIES)


def xml_text(text: str) -> str:
    """`text` for an element or an attribute of XML 1.0, which forbids most control characters."""
    return html_text(text)


def json_text(document: str) -> str:
    """A JSON document that is no command to a job of GitHub Actions; its values are the same."""
    return document.replace("##[", "#\\u0023[")


def bounded(text: str, limit: int) -> str:
    """`text`, or its head and tail with a line between them that counts the missing characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def shortened(text: Any, limit: int) -> Any:
    """`text` cut at `limit` characters, with three dots, after a whole word unless the last one is
    long. Other values stay unchanged."""
    if not isinstance(text, str) or len(text) <= limit:
        return text
    head = text[: limit - 3]
    whole = head if text[limit - 3].isspace() else head.rpartition(" ")[0]
    return f"{whole.rstrip() if len(whole) > len(head) * _MOST_OF_IT else head}..."


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
    import shlex  # noqa: PLC0415 - every program loads this module, and few need a shell's rules

    return shlex.quote(word)
