"""Commit messages and branch names of published work: refs, wave branch, subject, trailers.
Pure."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count

from driver.domain.findings import Grade
from driver.domain.prompts import command_text
from driver.domain.work_item import WorkItem
from driver.terminal.safe_text import safe_line
from state_store.values.lazy_pattern import lazy_pattern
from state_store.views.anchors import TRAILER

WAVE_ID = "Wave-Id"
ITEM_ID = "Item-Id"
ITEM_TASK = "Item-Task"
ITEM_SLUG = "Item-Slug"
TEST_COMMAND = "Test-Command"
WORK_DIR = "Work-Dir"
PROVED_TREE = "Proved-Tree"
EVIDENCE = "Evidence"  # the grade of an item's evidence
# Git's search pattern for commit messages that name a published item.
SHIPMENT = rf"^[[:space:]]*{ITEM_ID}: "
# Rules for messages often allow 72 columns.
_MAX_COLUMNS = 71
# Git searches messages for the beginning of these lines.
_SEARCHED = frozenset({WAVE_ID, ITEM_ID})
# Never where a reader could not tell the break from the text: beside another space, and behind a
# backslash, which at the end of a line means that the word goes on.
_BREAK = lazy_pattern(r"(?<=[^\s\\]) (?=\S)")
_TRAILER = lazy_pattern(r"([A-Za-z][A-Za-z0-9-]*):(?: (.*))?")
_OF_AN_ITEM = frozenset({ITEM_ID, ITEM_TASK, ITEM_SLUG, TEST_COMMAND, WORK_DIR, EVIDENCE})
MAX_SUBJECT_CHARS = 72
PENDING_REFS = "refs/tidegate/"


def items_of(trailers: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """The trailers of each item of a commit."""
    common: dict[str, str] = {}
    items: list[dict[str, str]] = []
    for name, value in trailers:
        if name == ITEM_ID:
            items.append({})
        (items[-1] if name in _OF_AN_ITEM and items else common)[name] = value
    return [{**common, **item} for item in items]


def trailers_in(message: str) -> list[tuple[str, str]]:
    """Every trailer in a message, also if the message is indented in another one. Lines with more
    indentation than their trailer continue it."""
    found: list[tuple[str, str]] = []
    indent: int | None = None
    for line in message.splitlines():
        text = line.strip()
        width = len(line) - len(line.lstrip())
        if indent is not None and text and width > indent:
            name, value = found[-1]
            cut = value.endswith("\\")
            found[-1] = name, value[:-1] + text if cut else f"{value} {text}".strip()
        elif trailer := _TRAILER.fullmatch(text):
            found.append((trailer[1], trailer[2] or ""))
            indent = width
        else:
            indent = None
    return found


def unfolded(value: str) -> str:
    """A trailer's value as `git log` unfolds it, with words joined that were broken to fold it.
    Only for values without a space of their own."""
    return value.replace("\\ ", "")


def commit_message(
    items: Sequence[tuple[WorkItem, str]],
    wave_id: str,
    proved_tree: str,
    anchor: str | None = None,
    grades: Mapping[str, Grade | None] | None = None,
) -> str:
    """The commit message: subject, and the trailers by which later runs find the items. `items` are
    pairs of an item and its work dir. A single item gives its title or slug as the subject. The
    trailers of an item begin with its Item-Id. `anchor` is the state of the event store.
    `grades` has the grade of the evidence by slug."""
    item, _ = items[0]
    subject = item.title or item.slug
    body: list[str] = []
    if len(items) > 1:
        subject = f"{len(items)} items: {', '.join(item.slug for item, _ in items)}"
        body = [_subject(f"- {item.slug}: {item.title or item.slug}") for item, _ in items]
        body.append("")
    trailers = [(WAVE_ID, wave_id)]
    for item, work_dir in items:
        trailers += [(ITEM_ID, item_name(item)), (ITEM_TASK, task_of(item)), (ITEM_SLUG, item.slug)]
        trailers.append((TEST_COMMAND, command_text(item.test_command)))
        if work_dir != ".":
            trailers.append((WORK_DIR, work_dir))
        if grade := (grades or {}).get(item.slug):
            trailers.append((EVIDENCE, grade))
    trailers += [(PROVED_TREE, proved_tree), *([(TRAILER, anchor)] if anchor else [])]
    lines = [line for name, value in trailers for line in _folded(name, safe_line(value).strip())]
    return "\n".join([_subject(subject), "", *body, *lines]) + "\n"


def item_name(item: WorkItem) -> str:
    """The name of an item in trailers."""
    return safe_line(item.item_id or item.slug).strip()


def task_of(item: WorkItem) -> str:
    """A digest of the prompt, files and test command. It does not depend on the id, tracker or
    checkout."""
    asked = (item.prompt, sorted(item.owns_files), item.test_command)
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _subject(text: str) -> str:
    line = safe_line(" ".join(text.split()))
    if _columns(line) <= MAX_SUBJECT_CHARS:
        return line
    return _fitting(line, MAX_SUBJECT_CHARS - 3).rstrip() + "..."


def _folded(name: str, value: str) -> list[str]:
    """The lines of a trailer. Further lines begin with a space, as git reads them. A word that is
    too long for a line is broken, with a backslash before the break."""
    line, lines = f"{name}:", list[str]()
    for word in _BREAK.split(value):
        if _columns(f"{line} {word}") > _MAX_COLUMNS and (lines or name not in _SEARCHED):
            lines.append(line)
            line = ""
        line += f" {word}"
        while _columns(line) > _MAX_COLUMNS:
            # Spaces at the beginning of the next line would be lost.
            piece = _cut(line, len(_fitting(line, _MAX_COLUMNS - 1)))
            lines.append(f"{piece}\\")
            line = f" {line[len(piece) :]}"
    return [one.rstrip() for one in (*lines, line) if one.strip()]


def _cut(line: str, at: int) -> str:
    """The line up to `at`, or less if a space would come next."""
    ends = (end for end in range(at, 1, -1) if not line[end].isspace())
    return line[: next(ends, at)]


def _fitting(text: str, columns: int) -> str:
    """The longest beginning of a text that fits into the columns."""
    widths = accumulate(map(_columns, text))
    return text[: sum(width <= columns for width in widths)]


def _columns(text: str) -> int:
    """The columns that a text takes in a terminal: two for wide characters."""
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def pending_ref(tip: str) -> str:
    """The ref that keeps commits in the user's repository until a branch has them."""
    return f"{PENDING_REFS}{tip}"


def branch_names(wave_id: str, date: str) -> Iterator[str]:
    """`wave/<date>-<id>`, then the same name with a number, without end. Generated ids are
    shortened."""
    name = f"wave/{date}-{_short(wave_id)}"
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def is_branch_of(name: str, wave_id: str) -> bool:
    """True for a branch name that this wave may have chosen."""
    dated = rf"wave[/-]\d{{4}}-\d\d-\d\d-{re.escape(_short(wave_id))}(-\d+)?"
    return re.fullmatch(dated, name) is not None


def _short(wave_id: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", wave_id).strip("-") or "wave"
    return safe[:8] if re.fullmatch(r"[0-9a-f-]{32,36}", safe) else safe[:60]
