"""Intake: the items of the tracker that a cycle takes now, and the manifest of their wave.

Reads the tracker and checks that repositories and work folders exist; creates nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from driver.backends.item_bridge import build_manifest_item
from driver.backlog.dependencies import waiting
from driver.backlog.item_filter import names_of
from driver.backlog.order import OrderedQueue, name_of
from driver.backlog.retry_policy import in_backoff
from driver.backlog.selection import (
    Selection,
    Skipped,
    SkippedItems,
    select_disjoint,
    select_ordered,
)
from driver.backlog.tracker_index import TrackerIndex
from driver.domain.work_item import INVALID_COMMAND, MAX_PROBLEMS_SHOWN, command_problems_of
from driver.scheduler.context import TOOL_CHECKOUT, Cycle, named_repo, place_of, wave_request
from driver.scheduler.report import AllBrokenError
from driver.terminal.safe_text import counted
from driver.wave.planning import check
from driver.wave.preflight import PreflightError
from state_store.database.publications import Publication
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.interpreter import collector_paused
from state_store.documents.item_id import id_of
from state_store.tracker.file import read_tracker_file
from state_store.views.publications import known_publications

Pending = Callable[[], dict[str, list[Publication]]]  # open publications by slug, read once


@collector_paused()  # the index and the selection create no reference cycles
def taken(cycle: Cycle, held_back: Mapping[str, Skipped]) -> Selection:
    """The items of the next wave, maybe none, and why each other is not among them.

    `held_back` are open items, by id, that must not be taken. Raises InputError for an unreadable
    tracker, or if every remaining item is broken.
    """
    if cycle.max_items < 1:
        raise InputError(f"--max-items {cycle.max_items}: at least 1 item is needed")
    index = cycle.tracker_index()
    if index.problems:
        raise InputError(index.problems)
    not_open = _not_open(cycle, index)
    queue = index.todo
    pending = cache(partial(_pending_by_slug, cycle))
    held_back = {**_not_yet(cycle, index, pending), **held_back}
    asked, others = cycle.item_filter.split(queue.items)
    named = [number for number in asked if queue.names[number] in held_back] if held_back else []
    apart = {n: held_back[queue.names[n]] for n in named if id_of(queue.items[n]) is not None}
    todo = [number for number in asked if number not in apart] if apart else asked
    broken = [Skipped("", "not_an_object", detail=entry) for entry in index.non_objects]
    for number in todo if index.faults else ():
        if number in index.faults:
            reason, _, detail = index.faults[number][0].partition(": ")
            broken.append(Skipped(name_of(queue.items[number]), reason, detail=detail))
    faults = index.faults
    sound = queue.part([n for n in todo if n not in faults] if faults else todo)
    _check_own_checkout(cycle, sound.items)
    selection, homeless = _select_at_home(cycle, sound, pending)
    examined, full = selection.left_out.before, selection.left_out.full
    broken += [one for one in examined if one.reason == INVALID_COMMAND]
    broken += homeless
    waiting = (one for one in examined if one.reason != INVALID_COMMAND)
    skipped = SkippedItems([*broken, *not_open, *apart.values(), *waiting], full, others)
    if broken and not selection.selected and not apart:
        shown = broken[:MAX_PROBLEMS_SHOWN]
        problems = [f"item {item.id or '(no id)'}: {item.detail}" for item in shown]
        if more := len(broken) - len(shown):
            problems.append(f"and {more} more problems")
        raise AllBrokenError(problems, replace(selection, skipped=skipped))
    return replace(selection, skipped=skipped)


def _not_open(cycle: Cycle, index: TrackerIndex) -> list[Skipped]:
    """The items that were asked for by name and are not open. Searches the whole tracker for a name
    that no open item has, to say which item it is of."""
    if not cycle.item_filter.only:
        return []
    open_names = {name for item in index.todo.items for name in names_of(item)}
    if open_names.issuperset(cycle.item_filter.only):
        return []
    return cycle.item_filter.not_open(read_tracker_file(cycle.tracker).entries)


def _not_yet(cycle: Cycle, index: TrackerIndex, pending: Pending) -> dict[str, Skipped]:
    """Items that wait for a dependency, and items in backoff unless they were named."""
    linked = index.linked
    resting = {} if cycle.item_filter.only else in_backoff(linked, datetime.now(UTC))
    for name in _pending_ids(cycle, linked, pending) if resting else ():
        resting.pop(name, None)
    if not linked:
        return resting
    from driver.scheduler.dependencies_in_base import absent  # noqa: PLC0415 - by need

    return {**resting, **waiting(linked, absent=absent(cycle, linked))}


def _select_at_home(
    cycle: Cycle, queue: OrderedQueue, pending: Pending
) -> tuple[Selection, list[Skipped]]:
    """Disjoint items whose repository and work folder exist, and the items without: a fault of one
    item neither stops the others nor takes their place."""
    first = _pending_ids(cycle, queue.items, pending)
    default_repo = str(cycle.repo) if cycle.repo else None
    homeless: dict[str, Skipped] = {}
    while True:
        real, limit, asked = cache(os.path.realpath), cycle.max_items, command_problems_of
        if first:
            selection = select_disjoint(queue.items, limit, default_repo, first, real, asked)
        else:
            selection = select_ordered(queue, limit, default_repo, real, asked)
        lost = ((name_of(item), _homeless(cycle, item)) for item in selection.selected)
        fresh = {name: skipped for name, skipped in lost if skipped}
        if not fresh:
            return selection, list(homeless.values())
        homeless |= fresh
        queue = queue.part([n for n, name in enumerate(queue.names) if name not in fresh])


def _pending_by_slug(cycle: Cycle) -> dict[str, list[Publication]]:
    pending: dict[str, list[Publication]] = {}
    for one in known_publications(cycle.state_dir, only_open=True):
        for slug in one.open_slugs:
            pending.setdefault(slug, []).append(one)
    return pending


def _pending_ids(cycle: Cycle, items: Iterable[Mapping[str, Any]], pending: Pending) -> list[str]:
    """The ids of items whose publication is pending: they go first, and wait for nothing."""
    by_slug = pending()
    same_name = (item for item in items if str(item.get("slug")) in by_slug) if by_slug else ()
    return [
        str(id_of(item))
        for item in same_name
        if any(
            one.is_of(named_repo(item), place_of(item, cycle.repo)) for one in by_slug[item["slug"]]
        )
    ]


def _homeless(cycle: Cycle, item: Mapping[str, Any]) -> Skipped | None:
    if cycle.options is None:
        return None  # a caller of the functions: `run_wave`, or its replacement, decides
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


def manifest_of(cycle: Cycle, selection: Selection, wave_id: str) -> dict[str, Any]:
    """The manifest of the selected items for `run_wave`."""
    chosen: Iterable[Mapping[str, Any]] = selection.selected
    # A wave's items name their repository all or none.
    if cycle.repo is not None and any(item.get("repo") for item in chosen):
        chosen = [{**item, "repo": item.get("repo") or str(cycle.repo)} for item in chosen]
    items = []
    for item in chosen:
        # The backend's model and policy, unless the item sets its own.
        asked = {key: value for key, value in item.items() if value is not None}
        try:
            built = build_manifest_item(cycle.driver, item)
        except ValueError as error:
            raise InputError(str(error)) from error
        if "verificationTier" in asked:  # then the values of the backend's tier do not apply
            built = {"model": built["model"]}
        items.append({**item, **built, **asked})
    return {
        "wave_id": wave_id,
        "items": items,
        "wave_description": f"{counted(len(items), 'item')} from {cycle.tracker.name}",
    }
