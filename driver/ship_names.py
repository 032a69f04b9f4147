"""What shipped work is called: refs, the wave branch, each commit's subject and trailers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from driver.manifest import WorkItem
from driver.prompts import command_text
from driver.text import safe_line
from state_store.anchors import TRAILER

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
    trailers = {
        "Wave-Id": wave_id,
        "Item-Id": item.item_id or item.slug,
        "Item-Slug": item.slug,
        "Test-Command": command_text(item.test_command),
        **({"Work-Dir": work_dir} if work_dir != "." else {}),
        "Proved-Tree": proved_tree,
        **({TRAILER: anchor} if anchor else {}),
    }
    lines = [f"{name}: {safe_line(value)}" for name, value in trailers.items()]
    return "\n".join([_subject(item.title or item.slug), "", *lines]) + "\n"


def _subject(text: str) -> str:
    line = safe_line(" ".join(text.split()))
    return line if len(line) <= MAX_SUBJECT_CHARS else line[: MAX_SUBJECT_CHARS - 3] + "..."


def on_the_way(tip: str) -> str:
    """The ref that keeps a line of commits in the user's repository until its branch does."""
    return f"refs/tidegate/{tip}"


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
