"""Which items of the tracker a cycle takes now, and the manifest of their wave.

Reads the tracker and looks whether homes exist; nothing is made. The choice itself is
`selection`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.item_bridge import build_manifest_item
from driver.backlog.dependencies import waiting
from driver.backlog.item_filter import names_of
from driver.backlog.retry_policy import in_backoff
from driver.backlog.selection import (
    OrderedQueue,
    Selection,
    Skipped,
    name_of,
    select_disjoint,
    select_ordered,
)
from driver.backlog.tracker_index import TrackerIndex
from driver.publishing.pending import PendingItems
from driver.scheduler.context import TOOL_CHECKOUT, Cycle, named_repo, place_of, wave_request
from driver.scheduler.dependencies_in_base import absent
from driver.terminal.safe_text import counted
from driver.wave.planning import check
from driver.wave.preflight import PreflightError
from state_store.database.kept_items import collector_paused
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.item_id import id_of
from state_store.tracker.file import read_tracker_file


@collector_paused()  # neither a docket nor a choice makes cycles to be looked for
def taken(cycle: Cycle, held_back: Mapping[str, Skipped]) -> Selection:
    """The items of the next wave, maybe none, and why each other is not among them.

    `held_back`, by id, are items to do that are known to be out of the question.

    Raises InputError for a tracker nobody can read, or when every item left is broken.
    """
    if cycle.max_items < 1:
        raise InputError(f"--max-items {cycle.max_items}: at least 1 item is needed")
    docket = cycle.docket()
    if docket.problems:
        raise InputError(docket.problems)
    _check_names(cycle, docket)
    line = docket.todo
    held_back = {**_not_yet(cycle, docket), **held_back}
    asked, others = cycle.wanted.split(line.items)
    named = [number for number in asked if line.names[number] in held_back]
    apart = {n: held_back[line.names[n]] for n in named if id_of(line.items[n]) is not None}
    todo = [number for number in asked if number not in apart]
    broken = [Skipped("", "not_an_object", detail=stray) for stray in docket.strays]
    broken += [
        _broken(line.items[number], docket.faults[number])
        for number in todo
        if number in docket.faults
    ]
    sound = line.part([number for number in todo if number not in docket.faults])
    _check_own_checkout(cycle, sound.items)
    selection, homeless = _select_at_home(cycle, sound)
    broken += homeless
    if broken and not selection.selected and not apart:
        raise InputError([f"item {item.id or '(no id)'}: {item.detail}" for item in broken])
    skipped = (*broken, *apart.values(), *selection.skipped, *others)
    return replace(selection, skipped=skipped)


def _check_names(cycle: Cycle, docket: TrackerIndex) -> None:
    """A name that is no open item's is looked for in the whole tracker, to say what it is."""
    if not cycle.wanted.only:
        return
    open_names = {name for item in docket.todo.items for name in names_of(item)}
    if not open_names.issuperset(cycle.wanted.only):
        cycle.wanted.check_names(read_tracker_file(cycle.tracker).entries)


def _not_yet(cycle: Cycle, docket: TrackerIndex) -> dict[str, Skipped]:
    """What waits for its time, unless it was asked for by name, and for what it depends on."""
    linked = docket.linked
    rest = {} if cycle.wanted.only else in_backoff(linked, datetime.now(UTC))
    for name in _owed(cycle, linked) if rest else ():
        rest.pop(name, None)
    return {**rest, **waiting(linked, absent=absent(cycle, linked))}


def _select_at_home(cycle: Cycle, line: OrderedQueue) -> tuple[Selection, list[Skipped]]:
    """Disjoint items whose repository and work folder are there, and those that have none: one
    item's slip must neither stop the others nor take their place."""
    first = _owed(cycle, line.items)
    homeless: dict[str, Skipped] = {}
    while True:
        selection = _select(cycle, line, first)
        lost = ((name_of(item), _homeless(cycle, item)) for item in selection.selected)
        fresh = {name: skipped for name, skipped in lost if skipped}
        if not fresh:
            return selection, list(homeless.values())
        homeless |= fresh
        line = line.part([n for n, name in enumerate(line.names) if name not in fresh])


def _select(cycle: Cycle, line: OrderedQueue, first: Sequence[str]) -> Selection:
    default_repo = str(cycle.repo) if cycle.repo else None
    real = cache(os.path.realpath)
    if not first:
        return select_ordered(line, cycle.max_items, default_repo, real)
    return select_disjoint(line.items, cycle.max_items, default_repo, first, real)


def _owed(cycle: Cycle, items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The ids of those that are built and on their way: they go first, and wait for nothing."""
    owed = PendingItems(cycle.state_dir)
    if not owed.slugs:
        return []
    called_so = (item for item in items if str(item.get("slug")) in owed.slugs)
    return [
        str(id_of(item))
        for item in called_so
        if owed.has(item["slug"], named_repo(item), place_of(item, cycle.repo))
    ]


def _homeless(cycle: Cycle, item: Mapping[str, Any]) -> Skipped | None:
    if cycle.options is None:
        return None  # a caller of the functions: run_wave, or what stands in its place, decides
    try:
        check(wave_request(cycle, {"items": [item]}), dry=True)
    except PreflightError as error:
        return Skipped(str(id_of(item)), error.abort_reason, detail=str(error))
    except InputError as error:
        return Skipped(str(id_of(item)), "invalid_repo_path", detail=str(error))
    except CannotRunError as error:
        if not item.get("repo"):
            raise
        return Skipped(str(id_of(item)), "invalid_repo_path", detail=str(error))
    return None


def _check_own_checkout(cycle: Cycle, items: Iterable[Mapping[str, Any]]) -> None:
    if cycle.repo is not None or all(item.get("repo") for item in items):
        return
    if any(
        folder.resolve().is_relative_to(TOOL_CHECKOUT)
        for folder in (cycle.tracker.parent, Path.cwd())
    ):
        raise InputError(
            f"the only repository in sight is Tidegate's own checkout {TOOL_CHECKOUT}:"
            " name yours with --repo DIR"
        )


def _broken(item: Mapping[str, Any], problems: Sequence[str]) -> Skipped:
    reason, _, detail = problems[0].partition(": ")
    return Skipped(name_of(item), reason, detail=detail)


def manifest_of(cycle: Cycle, selection: Selection, wave_id: str) -> dict[str, Any]:
    """The wave of the selected items, as `run_wave` takes it."""
    try:
        items = [_manifest_item(cycle.driver, item) for item in _placed(cycle, selection)]
    except ValueError as error:
        raise InputError(str(error)) from error
    return {
        "wave_id": wave_id,
        "items": items,
        "wave_description": f"{counted(len(items), 'item')} from {cycle.tracker.name}",
    }


def _manifest_item(driver: AgentDriver, item: Mapping[str, Any]) -> dict[str, Any]:
    """The item with its backend's model and policy, but for what it asks for itself."""
    asked = {key: value for key, value in item.items() if value is not None}
    built = build_manifest_item(driver, item)
    if "verificationTier" in asked:  # then the knobs of the backend's tier are not its own
        built = {"model": built["model"]}
    return {**item, **built, **asked}


def _placed(cycle: Cycle, selection: Selection) -> Iterable[Mapping[str, Any]]:
    """A wave's items name their repository all or none; where one does, the rest learn theirs."""
    items = selection.selected
    if cycle.repo is None or not any(item.get("repo") for item in items):
        return items
    return [{**item, "repo": item.get("repo") or str(cycle.repo)} for item in items]
