"""Reconciles the tracker with git: shipped items that were merged or dropped, claims of runs that
are gone, and open items that another state folder has published.

First git is read, then changes are written under the items' leases. An item whose state cannot be
read stays as it is, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from driver.backlog.order import OrderedQueue, ordered
from driver.backlog.publication_status import (
    Merged,
    PublicationStatus,
    Shipped,
    adopted_fields,
    by_task,
    is_noted,
    settled_fields,
    status_of,
)
from driver.backlog.retry_policy import opened
from driver.backlog.tracker import Edit
from driver.backlog.tracker_index import TrackerIndex
from driver.domain.commit_message import item_name, task_of
from driver.domain.item_fields import InvalidValueError, slug_of, text_of
from driver.domain.ownership import OwnedPath, OwnershipError, parse_owned
from driver.domain.work_item import check_item
from driver.git.private_git import open_repository
from driver.publishing.fenced_push import describe
from driver.publishing.merged import RemoteView, UnaskedError
from driver.run_state.event_log import began_here
from driver.run_state.leases import LeasedElsewhereError
from driver.run_state.state_folder import prepare_state_dir
from driver.scheduler.backlog import Backlog, resource
from driver.scheduler.context import Cycle, by_repository
from driver.terminal.safe_text import safe_line
from state_store.database.interface import StoreTransaction
from state_store.database.publications import DROPPED, MERGED
from state_store.documents.errors import TidegateError
from state_store.documents.item_id import id_of
from state_store.place import has_begun, open_store
from state_store.values.lazy_dataclass import dataclass
from state_store.write_api import STATE_DB_FILENAME

Item = Mapping[str, Any]

_SHALLOW = (
    "{} is gone, and whether it was merged cannot be told in a shallow clone: fetch the whole"
    " history (git fetch --unshallow, fetch-depth: 0)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """The status of one item, a sentence about it, and the fields that it sets in the tracker."""

    item: Item
    status: PublicationStatus
    detail: str
    edit: Edit


def follow_up(cycle: Cycle) -> dict[str, Any]:
    """Bring shipped and abandoned items up to date; returns the cycle report's keys about it.

    Raises only InputError, for an unreadable tracker: a cycle that cannot tell the status of
    earlier work can still do the next.
    """
    index = cycle.tracker_index()
    found: list[_Found] = []
    warnings: list[str] = []
    shipped_at, open_at = by_repository(cycle, index.shipped), _by_repository(cycle, index)
    for top in {**shipped_at, **open_at}:
        shipped = shipped_at.get(top, [])
        try:
            repository = open_repository(top, cycle.environ)
            with RemoteView.opened(repository, cycle.settings, cycle.keeps) as view:
                wanted = cycle.settings.ship.target or ""
                here = list(_shipped_items(view, shipped, wanted, warnings))
                if top in open_at:
                    here += _published_elsewhere(cycle, view, open_at[top])
        except (UnaskedError, TidegateError, OSError) as trouble:
            # The push asks again whether another state folder has published open items.
            if shipped:
                warnings.append(
                    f"whether what shipped from {top} was merged is not known: {trouble}"
                )
            continue
        found += here
        warnings += [f"{id_of(o.item)}: {o.detail}" for o in here if o.detail and _is_open(o)]
    edits: dict[str, tuple[Item, Edit]] = {
        str(id_of(item)): (item, opened) for item in index.own_claimed()
    }
    edits |= {str(id_of(one.item)): (one.item, one.edit) for one in found if not _is_open(one)}
    written = _write(cycle, edits, _ends(found), warnings) if edits else set()
    followed = [
        {"id": name, "what": str(one.status), "detail": one.detail}
        for one in found
        if (name := str(id_of(one.item))) in written
    ]
    for line in (*(f"{one['id']}: {one['detail']}" for one in followed), *warnings):
        cycle.progress.say(line)
    keys = (("items_followed", followed), ("follow_up_warnings", warnings))
    return {key: value for key, value in keys if value}


def _is_open(one: _Found) -> bool:
    return one.status in (PublicationStatus.WAITS, PublicationStatus.UNKNOWN)


def _by_repository(cycle: Cycle, index: TrackerIndex) -> dict[Path, OrderedQueue]:
    """The open items by their repository. A long backlog, of which none names its own, is not
    read for it."""
    todo = index.own_todo()
    if index.has_repo:
        return {top: ordered(items) for top, items in by_repository(cycle, todo.items).items()}
    repo = cycle.repo
    top = cycle.repositories.top_of(repo) if repo and repo.is_absolute() else None
    return {top: todo} if top is not None and todo.names else {}


def _published_elsewhere(cycle: Cycle, view: RemoteView, todo: OrderedQueue) -> Iterator[_Found]:
    """The open items that a wave unknown to this state folder has published: a wave of another
    state folder, or of this one before its store was lost."""
    target, tip = view.target(cycle.settings.ship.target or "")
    there = by_task(view.published_items(target, tip))
    named = {name for name, _ in there}  # a long backlog is not checked for a few names
    names: Sequence[str] = todo.names if named else ()
    together = "".join(names)
    if not together.isprintable() or not together.isascii():
        names = list(map(safe_line, names))
    mine = [todo.items[n] for n, name in enumerate(names) if name.strip() in named]
    works = ((item, check_item(item)[0]) for item in mine)
    for item, work in works:
        if work is None:
            continue
        seen = there.get((item_name(work), task_of(work)), ())
        foreign = (o for o in seen if not is_noted(item, o.wave) and not _knows(cycle, o.wave))
        if one := next(foreign, None):
            merged = "" if one.branch else one.commit
            status = PublicationStatus.FOUND if one.branch else PublicationStatus.MERGED
            detail = describe(one) if one.branch else f"merged: {merged[:12]} has it"
            edit = partial(adopted_fields, one=one, target=target, merged=merged)
            yield _Found(item, status, detail, edit)


def _knows(cycle: Cycle, wave: str) -> bool:
    """True if the wave began in this state folder."""
    database = cycle.state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        return False
    with open_store(database) as store:
        return began_here(store, wave)


Branches = Sequence[tuple[str, Merged]]


def _shipped_items(
    view: RemoteView, items: Iterable[Item], wanted: str, warnings: list[str]
) -> Iterator[_Found]:
    """The status of shipped items; each target branch is examined once, however many items went
    there. The successors of a target that is gone are examined too; `wanted` is today's target, ""
    if none is configured."""
    by_target: dict[str, list[tuple[Item, Shipped]]] = {}
    for item in items:
        if shipped := Shipped.of(item):
            by_target.setdefault(shipped.target, []).append((item, shipped))
    for target, pairs in by_target.items():
        successors = view.successors(target, wanted)
        onto = {shipped.onto for _, shipped in pairs}
        tips = {name: view.tip(name) for name in (target, *(successors or ()))}
        branches = [(tip, view.merged(name, tip, onto)) for name, tip in tips.items()]
        whole = not view.repository.shallow and successors != []
        found = [_shipped_item(view, branches, *pair, whole=whole) for pair in pairs]
        yield from found
        waiting = ", ".join(str(id_of(one.item)) for one in found if _is_open(one))
        if successors is not None and waiting:
            looked = f"; {' and '.join(successors)} was looked at instead" if successors else ""
            warnings.append(
                f"{target}, which {waiting} shipped for, is not on the remote any more{looked}:"
                " name the branch that took its place as [ship] target"
            )


def _shipped_item(
    view: RemoteView, branches: Branches, item: Item, shipped: Shipped, *, whole: bool
) -> _Found:
    name = str(id_of(item))
    merged = next(filter(None, (found.find(name, shipped) for _, found in branches)), "")
    is_kept = not merged and view.is_kept(shipped)
    if not merged and not is_kept and shipped.commit:  # perhaps merged without our trailers
        owned, work = list[OwnedPath](), check_item(item)[0]
        with suppress(OwnershipError):
            owned = [parse_owned(o, work.work_dir) for o in work.owns_files] if work else []
        tips = (tip for tip, _ in branches if view.has_all_of(shipped.commit, tip, owned))
        merged = next(tips, "")
    status = status_of(shipped, merged, is_kept=is_kept, whole=whole)
    edit = partial(settled_fields, shipped=shipped, end=status, merged=merged)
    return _Found(item, status, _detail(view, shipped, status, merged), edit)


def _detail(view: RemoteView, shipped: Shipped, status: PublicationStatus, merged: str) -> str:
    if status is PublicationStatus.MERGED:
        return f"merged: {merged[:12]} has it"
    if status is PublicationStatus.DROPPED:
        return f"{shipped.branch} was deleted and not merged: it is to do again"
    if status is PublicationStatus.UNKNOWN:
        return _SHALLOW.format(shipped.branch) if view.repository.shallow else ""
    unpushed = view.heads is not None and shipped.branch not in view.heads
    if shipped.branch and unpushed and view.branches.tip(shipped.branch):
        return f"{shipped.branch} is here only: push it, or delete it to have the item done again"
    return ""


def _ends(found: Iterable[_Found]) -> dict[str, tuple[str, str]]:
    """The commit and the end, by id, of items that were merged or dropped."""
    ends = {PublicationStatus.MERGED: MERGED, PublicationStatus.DROPPED: DROPPED}
    return {
        str(id_of(one.item)): (shipped.commit, ends[one.status])
        for one in found
        if one.status in ends and (shipped := Shipped.of(one.item)) and shipped.commit
    }


def _write(
    cycle: Cycle,
    edits: Mapping[str, tuple[Item, Edit]],
    ends: Mapping[str, tuple[str, str]],
    warnings: list[str],
) -> set[str]:
    """Write the edits of items that no other run holds; returns the ids that were written. Their
    publications come to their `ends`."""
    prepare_state_dir(cycle.state_dir, cycle.environ)
    try:
        with Backlog.opened(cycle) as backlog:
            free = {
                name: (resource(item, cycle.repo), edit)
                for name, (item, edit) in edits.items()
                if _is_free(cycle, backlog, item)
            }
            held_back = backlog.sync()
            mine = {name: one for name, one in free.items() if name not in held_back}
            written = mine.keys() - set(backlog.write(mine)) if mine else set()
            if over := [ends[name] for name in written if name in ends]:

                def end(transaction: StoreTransaction) -> int:
                    for commit, state in over:
                        transaction.publications.end(commit, state, transaction.now.wall_s)
                    return len(over)

                backlog.api.store.joined(end)
            return written
    except (TidegateError, OSError) as trouble:
        warnings.append(f"what became of earlier items is not noted in the tracker: {trouble}")
        return set()


def _is_free(cycle: Cycle, backlog: Backlog, item: Item) -> bool:
    """Take the item's lease, if no other run has it and slug and repository are valid."""
    try:
        slug_of(item.get("slug"))
        text_of(item.get("repo") or "")
        backlog.leases.take(resource(item, cycle.repo))
    except (InvalidValueError, LeasedElsewhereError):
        return False
    return True
