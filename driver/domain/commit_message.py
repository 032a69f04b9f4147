"""Commit messages and branch names of published work: refs, wave branch, subject, trailers.
Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from driver.domain.prompts import command_text
from driver.domain.work_item import WorkItem
from driver.terminal.safe_text import safe_line
from state_store.views.anchors import TRAILER

WAVE_ID = "Wave-Id"
ITEM_ID = "Item-Id"
ITEM_TASK = "Item-Task"
ITEM_SLUG = "Item-Slug"
TEST_COMMAND = "Test-Command"
WORK_DIR = "Work-Dir"
PROVED_TREE = "Proved-Tree"
# Git's search pattern for commit messages that name a published item.
SHIPMENT = rf"^[[:space:]]*{ITEM_ID}: "
_OF_AN_ITEM = frozenset({ITEM_ID, ITEM_TASK, ITEM_SLUG, TEST_COMMAND, WORK_DIR})
MAX_SUBJECT_CHARS = 72
PENDING_REFS = "refs/tidegate/"


def items_of(trailers: Iterable[str]) -> list[dict[str, str]]:
    """The trailers of each item of a commit, from lines of `Name: value`."""
    common: dict[str, str] = {}
    items: list[dict[str, str]] = []
    for name, _, value in (line.partition(": ") for line in trailers):
        if name == ITEM_ID:
            items.append({})
        (items[-1] if name in _OF_AN_ITEM and items else common)[name] = value
    return [{**common, **item} for item in items]


def commit_message(
    items: Sequence[tuple[WorkItem, str]],
    wave_id: str,
    proved_tree: str,
    anchor: str | None = None,
) -> str:
    """The commit message: subject, and the trailers by which later runs find the items. `items` are
    pairs of an item and its work dir. A single item gives its title or slug as the subject. The
    trailers of an item begin with its Item-Id. `anchor` is the state of the event store."""
    item, _ = items[0]
    subject = item.title or item.slug
    body: list[str] = []
    if len(items) > 1:
        subject = f"{len(items)} items: {', '.join(item.slug for item, _ in items)}"
        body = [f"- {_subject(f'{item.slug}: {item.title or item.slug}')}" for item, _ in items]
        body.append("")
    trailers = [(WAVE_ID, wave_id)]
    for item, work_dir in items:
        trailers += [(ITEM_ID, item_name(item)), (ITEM_TASK, task_of(item)), (ITEM_SLUG, item.slug)]
        trailers.append((TEST_COMMAND, command_text(item.test_command)))
        if work_dir != ".":
            trailers.append((WORK_DIR, work_dir))
    trailers += [(PROVED_TREE, proved_tree), *([(TRAILER, anchor)] if anchor else [])]
    lines = [f"{name}: {safe_line(value)}" for name, value in trailers]
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
    return line if len(line) <= MAX_SUBJECT_CHARS else line[: MAX_SUBJECT_CHARS - 3] + "..."


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
