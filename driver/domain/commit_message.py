"""What shipped work is called: refs, the wave branch, each commit's subject and trailers. Pure.

The names of the trailers are `trailers`'.
"""

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
# What git is to look for in the messages of commits: a shipped item.
SHIPMENT = rf"^[[:space:]]*{ITEM_ID}: "
_OF_AN_ITEM = frozenset({ITEM_ID, ITEM_TASK, ITEM_SLUG, TEST_COMMAND, WORK_DIR})


def items_of(trailers: Iterable[str]) -> list[dict[str, str]]:
    """For each item of a commit what its trailers, lines of `Name: value`, say of it."""
    common: dict[str, str] = {}
    items: list[dict[str, str]] = []
    for name, _, value in (line.partition(": ") for line in trailers):
        if name == ITEM_ID:
            items.append({})
        (items[-1] if name in _OF_AN_ITEM and items else common)[name] = value
    return [{**common, **item} for item in items]


MAX_SUBJECT_CHARS = 72


def commit_message(
    item: WorkItem,
    wave_id: str,
    proved_tree: str,
    anchor: str | None = None,
    *,
    work_dir: str = ".",
) -> str:
    """Subject from the title or slug, then the trailers that later runs find items by; `anchor`
    says how far the store was."""
    lines = _trailers(wave_id, [(item, work_dir)], proved_tree, anchor)
    return "\n".join([_subject(item.title or item.slug), "", *lines]) + "\n"


def batch_message(
    items: Sequence[tuple[WorkItem, str]],
    wave_id: str,
    proved_tree: str,
    anchor: str | None = None,
) -> str:
    """The same for one commit of several items, each with its work folder; the trailers of an item
    stand together and begin with its Item-Id."""
    if len(items) == 1:
        item, work_dir = items[0]
        return commit_message(item, wave_id, proved_tree, anchor, work_dir=work_dir)
    told = ", ".join(item.slug for item, _ in items)
    body = [f"- {_subject(f'{item.slug}: {item.title or item.slug}')}" for item, _ in items]
    lines = _trailers(wave_id, items, proved_tree, anchor)
    return "\n".join([_subject(f"{len(items)} items: {told}"), "", *body, "", *lines]) + "\n"


def _trailers(
    wave_id: str,
    items: Sequence[tuple[WorkItem, str]],
    proved_tree: str,
    anchor: str | None,
) -> list[str]:
    pairs = [
        (WAVE_ID, wave_id),
        *(pair for item, work_dir in items for pair in _of_item(item, work_dir)),
        (PROVED_TREE, proved_tree),
        *([(TRAILER, anchor)] if anchor else []),
    ]
    return [f"{name}: {safe_line(value)}" for name, value in pairs]


def _of_item(item: WorkItem, work_dir: str) -> Iterator[tuple[str, str]]:
    yield ITEM_ID, item_name(item)
    yield ITEM_TASK, task_of(item)
    yield ITEM_SLUG, item.slug
    yield TEST_COMMAND, command_text(item.test_command)
    if work_dir != ".":
        yield WORK_DIR, work_dir


def item_name(item: WorkItem) -> str:
    """What trailers call an item."""
    return safe_line(item.item_id or item.slug).strip()


def task_of(item: WorkItem) -> str:
    """A name for what was asked for, the same in every tracker and checkout: other words, files or
    another test make it another task, whatever its id is."""
    asked = (item.prompt, sorted(item.owns_files), item.test_command)
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _subject(text: str) -> str:
    line = safe_line(" ".join(text.split()))
    return line if len(line) <= MAX_SUBJECT_CHARS else line[: MAX_SUBJECT_CHARS - 3] + "..."


PENDING_REFS = "refs/tidegate/"


def pending_ref(tip: str) -> str:
    """The ref that keeps a line of commits in the user's repository until its branch does."""
    return f"{PENDING_REFS}{tip}"


def branch_names(wave_id: str, date: str) -> Iterator[str]:
    """`wave/<date>-<id>`, and what to take instead where that is taken: names that git accepts,
    short for the long ids that waves give themselves."""
    name = f"wave/{date}-{_short(wave_id)}"
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def is_branch_of(name: str, wave_id: str) -> bool:
    """Whether a branch has a name that this wave may have given it."""
    dated = rf"wave[/-]\d{{4}}-\d\d-\d\d-{re.escape(_short(wave_id))}(-\d+)?"
    return re.fullmatch(dated, name) is not None


def _short(wave_id: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", wave_id).strip("-") or "wave"
    return safe[:8] if re.fullmatch(r"[0-9a-f-]{32,36}", safe) else safe[:60]
