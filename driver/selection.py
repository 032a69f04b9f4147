"""Which tracker items the next wave takes: priority first, then age, and no file owned twice.

Works on the tracker's plain objects and is pure. Greedy on purpose: a more important item is
never left out to fit in several less important ones.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from driver.item_fields import is_absolute
from driver.manifest import ItemProblem, ownership_problems
from driver.ownership import Conflict, OwnedPath, OwnershipMap, parse_owned
from state_store.item_id import id_of

Item = Mapping[str, Any]

OVERLAP = "overlap"
MAX_ITEMS = "max_items"
LEASED_ELSEWHERE = "leased_elsewhere"
CONFLICT = "tracker_conflict"

_PRIORITIES = {"P1": 1, "P2": 2, "P3": 3}
# A number of this size cannot be seconds; JavaScript writes dates as milliseconds.
_LEAST_MILLISECONDS = 10**11
_MOST_MILLISECONDS = 10**15


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item left out: `reason` is one of this module's words, `clash` the item in its way."""

    id: str
    reason: str
    clash: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a wave takes, most urgent first, and why each other item is not in it."""

    selected: tuple[Item, ...]
    skipped: tuple[Skipped, ...]


def order_key(item: Item) -> tuple[int, float, int]:
    """Sorts by priority (P1 to P3, anything else as P3), then age, then number of files.

    Items of unknown age come last in their priority: whoever dates an item gets served by date.
    """
    files = item.get("ownsFiles")
    count = len(files) if isinstance(files, list | tuple) else 0
    return _priority(item.get("priority")), _created(item), count


def select_disjoint(
    items: Iterable[Item], max_count: int, default_repo: str | None = None
) -> Selection:
    """Up to `max_count` items, in order, none owning a file of another.

    `default_repo` is the repository of the items that name none, so that both spellings meet.
    """
    taken = OwnershipMap()
    selected: list[Item] = []
    skipped: list[Skipped] = []
    for item in sorted(items, key=order_key):
        name = _name(item)
        if len(selected) >= max_count:
            skipped.append(Skipped(name, MAX_ITEMS))
        elif left_out := _take(taken, name, item, default_repo):
            skipped.append(left_out)
        else:
            selected.append(item)
    return Selection(tuple(selected), tuple(skipped))


def filter_todo_items(items: Iterable[Item]) -> list[Item]:
    """The items whose status is "todo", most urgent first."""
    return sorted((item for item in items if item.get("status") == "todo"), key=order_key)


def select_disjoint_items(items: Sequence[Item], max_count: int) -> tuple[list[Item], list[str]]:
    """`select_disjoint` as plain lists: the items taken, the ids of those left out."""
    selection = select_disjoint(items, max_count)
    return list(selection.selected), [left_out.id for left_out in selection.skipped]


def _take(taken: OwnershipMap, name: str, item: Item, default_repo: str | None) -> Skipped | None:
    placed, problem = _placed(item, default_repo)
    if problem:
        return Skipped(name, problem.reason, detail=problem.text)
    for owned in placed:
        if found := taken.clash(None, owned):
            other, held = found
            mine, theirs = _as_written(item, default_repo, owned.path, held.path)
            conflict = Conflict(mine, owned.key, None, (other, name), theirs)
            return Skipped(name, OVERLAP, other, conflict.describe())
    taken.add(name, None, placed)
    return None


def _placed(
    item: Item, default_repo: str | None
) -> tuple[tuple[OwnedPath, ...], ItemProblem | None]:
    """The owned paths below the item's repository, so that all repositories compare in one map."""
    problem = next(iter(ownership_problems(item)), None)
    if problem:
        return (), problem
    top, folder = _top(item, default_repo)
    placed = (parse_owned(entry, folder) for entry in item["ownsFiles"])
    return tuple(OwnedPath(posixpath.join(top, p.path), p.is_dir) for p in placed), None


def _top(item: Item, default_repo: str | None) -> tuple[str, str]:
    """The repository, without its leading slash, and the folder in it."""
    folder = item.get("workDir") or "."
    top = item.get("repo") or default_repo or ""
    if is_absolute(folder):
        top, folder = folder, "."
    return posixpath.normpath(top.replace("\\", "/")).strip("/"), folder


def _as_written(item: Item, default_repo: str | None, *paths: str) -> list[str]:
    """Placed paths as they stand in their repository, where that is the item's."""
    top, _ = _top(item, default_repo)
    return [path.removeprefix(f"{top}/") for path in paths]


def _name(item: Item) -> str:
    return id_of(item) or str(item.get("slug") or "")


def _priority(value: object) -> int:
    return _PRIORITIES.get(value, 3) if isinstance(value, str) else 3


def _created(item: Item) -> float:
    value = item.get("createdAt", item.get("created_at"))
    if isinstance(value, str):
        return _seconds_of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf
    if not abs(value) < _MOST_MILLISECONDS:  # also true for NaN
        return math.inf
    return value / 1000 if value >= _LEAST_MILLISECONDS else float(value)


def _seconds_of_text(text: str) -> float:
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return math.inf
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
