"""tracker.json, the backlog that people edit: its items checked, and changed one by one.

A change re-reads the file under a lock and touches only the values it sets, so what people edited
meanwhile stays. The file's shape is `tracker_file`'s; which items a wave takes is decided in
`selection`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from driver.domain.ownership import comparison_key
from driver.domain.work_item import item_problems
from state_store.documents.errors import InputError
from state_store.documents.files import replace_unchanged
from state_store.documents.item_id import id_of
from state_store.documents.item_status import is_open
from state_store.documents.locks import locked
from state_store.tracker.file import read_tracker_file, real_path, rewritten
from state_store.tracker.merge import Change, Item

Edit = Callable[[Item], Mapping[str, Any]]


def load_tracker_items(path: Path | str) -> list[Item]:
    """The tracker's items, or none when it is missing or broken."""
    try:
        return list(read_tracker_file(Path(path)).entries)
    except InputError:
        return []


def validate_item(item: Item) -> tuple[str, ...]:
    """Why an item cannot be built, each as "reason: detail"; empty when it can.

    Reasons: no_file_ownership, invalid_ownsFiles_entries, invalid_path, missing_or_empty_slug,
    missing_or_empty_prompt, missing_or_empty_testCmd, missing_id, and invalid_<key> for any other
    key the manifest would refuse.
    """
    problems = [f"{problem.reason}: {problem.text}" for problem in item_problems(item)]
    if item.get("id") is None:
        problems.append("missing_id: an item needs an id for its status to be written back")
    return tuple(problems)


def tracker_problems(
    items: Sequence[Item], twice: Collection[str] | None = None
) -> tuple[str, ...]:
    """Ids and slugs that make a todo item ambiguous, each as "reason: detail".

    An id must be the only one in the tracker; a slug only among the todo items, for finished work
    may have had the same name. `twice` are the ids that stand there twice, where they are known.
    """
    todo = list(filter(is_open, items))
    twice = _repeated(map(id_of, items)) if twice is None else twice
    open_ids = set(map(id_of, todo)) if twice else ()
    ids = sorted(name for name in twice if name in open_ids)
    slugs = _repeated(comparison_key(str(item["slug"])) for item in todo if item.get("slug"))
    return (
        *(f"duplicate_id: two items have the id {name!r}; give each its own" for name in ids),
        *(f"duplicate_slug: two todo items have the slug {name!r}; rename one" for name in slugs),
    )


def withdrawn(path: Path, names: Collection[str]) -> dict[str, str]:
    """By id, why people want those items of a wave no more: gone from the file, or given a status
    that is not open. What cannot be read, or whose id stands there twice, is still wanted."""
    try:
        file = read_tracker_file(path)
    except InputError:
        return {}
    unclear = file.ambiguous
    told = ((name, _no_more(file.items.get(name))) for name in names if name not in unclear)
    return {name: why for name, why in told if why}


def _no_more(item: Item | None) -> str:
    if item is None:
        return "deleted from the tracker while the wave ran; what was built is kept as a patch"
    if is_open(item):
        return ""
    return (
        f"its status was set to {json.dumps(item.get('status'))} in the tracker while the wave ran;"
        " with todo again, the next wave proves and ships what was built"
    )


def rewrite_items(path: Path, edit: Edit, expected: str | None = None) -> bool:
    """Set what `edit` answers for each item as it is in the file now; all else keeps its text.

    False, and nothing written, when the file's SHA-256 is not `expected`. Raises InputError for a
    tracker that cannot be read, CannotRunError when it cannot be written.
    """
    path = real_path(path)
    if not path.is_file():
        read_tracker_file(path)  # says why not; a lock would be made beside what is not there
    with locked(path):
        while True:
            file = read_tracker_file(path)
            if expected not in (None, file.digest):
                return False
            text = rewritten(file.text, partial(_change, edit))
            if text == file.text or replace_unchanged(path, text.encode(), file.digest):
                return True


def _change(edit: Edit, item: Item) -> Change:
    fields = edit(item)
    return Change({k: v for k, v in fields.items() if k not in item or item[k] != v})


def _repeated(names: Iterable[str | None]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name is not None and name in seen:
            twice[name] = None
        seen.add(name or "")
    return list(twice)
