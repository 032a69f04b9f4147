"""Finds the items whose content a remote refuses, from its words. Pure.

A remote may refuse a file for its size, a secret, a path or the message of a commit. Such a refusal
concerns some items of a batch only. Other refusals concern the branch or the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from driver.domain.results import Change
from driver.git.push_result import FAILED, HOOK, PROTECTED
from driver.terminal.safe_text import bounded, safe_line
from state_store.values.lazy_dataclass import dataclass

# The kinds of a push's refusal that may be about content.
_KINDS = (HOOK, PROTECTED, FAILED)
_OF_THE_BRANCH = re.compile(
    r"protected branch|through an? (?:pull|merge) request|not allowed to push|required status check"
    r"|currently checked out|deny updating a hidden ref|cannot create|creations being restricted",
    re.IGNORECASE,
)
_HEX = re.compile(r"\b[0-9a-f]{7,64}\b")
_MAX_QUOTED = 600


@dataclass(frozen=True, slots=True)
class Content:
    """The part of a push that belongs to one item."""

    slug: str
    commit: str
    changes: tuple[Change, ...]


def may_be_about_content(kind: str | None, words: str) -> bool:
    """True if a refusal of this kind may depend on the content of the commits."""
    return kind in _KINDS and _OF_THE_BRANCH.search(words) is None


def named_in(words: str, batch: Sequence[Content]) -> dict[str, str]:
    """The items that the remote's words name by a path, a commit or a blob, each with the lines
    about it. An id that several items have names none of them."""
    found: dict[str, str] = {}
    for item in batch:
        others = {one.commit for one in batch if one is not item}
        commit = item.commit if item.commit not in others else ""
        lines = [line for line in _lines(words) if _names(line, item.changes, commit)]
        if lines:
            found[item.slug] = quoted(lines)
    return found


def quoted(lines: Iterable[str]) -> str:
    """Lines of a remote as one bounded sentence."""
    return bounded(safe_line("; ".join(dict.fromkeys(lines))), _MAX_QUOTED)


def said(words: str) -> str:
    """The words of the remote, without the lines of git itself, as one bounded sentence."""
    return quoted(_lines(words)) or quoted(words.splitlines())


def _lines(words: str) -> list[str]:
    """The lines of the remote."""
    found = (line.strip() for line in words.splitlines())
    told = (line.removeprefix("remote:").strip() for line in found if line.startswith("remote:"))
    return [line for line in told if line]


def _names(line: str, changes: Sequence[Change], commit: str) -> bool:
    """True if the line has an id of the commit or of a file's new content, or a path."""
    blobs = [change.blob for change in changes if change.blob]
    ids = [one for one in (commit, *blobs) if one]
    if any(one.startswith(part) for part in _HEX.findall(line) for one in ids):
        return True
    return any(_has_path(line, change.path) for change in changes)


def _has_path(line: str, path: str) -> bool:
    # A path inside a longer path or word is another one.
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-]|\.\w)", line) is not None
