"""What became of items since the last cycle: shipped ones that were merged or dropped, claims of
runs that are gone, and open items that another state folder has shipped.

Owns the order: look in git, then write what changed under the items' leases. What the looks mean is
`shipped_items`'. Whatever cannot be looked at stays as it is, and is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from driver.backlog.publication_status import (
    Merged,
    PublicationStatus,
    PublishedItem,
    Shipped,
    adopted_fields,
    by_task,
    is_noted,
    is_shipped,
    settled_fields,
    status_of,
)
from driver.backlog.retry_policy import opened
from driver.backlog.tracker import Edit
from driver.domain.commit_message import item_name, task_of
from driver.domain.item_fields import InvalidValueError, slug_of, text_of
from driver.domain.ownership import OwnedPath, OwnershipError, parse_owned
from driver.domain.work_item import check_item
from driver.git.private_git import open_repository
from driver.publishing.fenced_push import told
from driver.publishing.merged import RemoteView, UnaskedError
from driver.run_state.leases import LeasedElsewhereError
from driver.run_state.state_folder import prepare_state_dir
from driver.scheduler.backlog import Backlog, resource
from driver.scheduler.context import Cycle, by_repository
from state_store.database.events import wave_stream
from state_store.database.store import EventStore
from state_store.documents.errors import TidegateError
from state_store.documents.item_id import id_of
from state_store.documents.item_status import CLAIMED, is_open
from state_store.write_api import STATE_DB_FILENAME

Item = Mapping[str, Any]

_SHALLOW = (
    "{} is gone, and whether it was merged cannot be told in a shallow clone: fetch the whole"
    " history (git fetch --unshallow, fetch-depth: 0)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What has become of one item, and the sentence about it."""

    item: Item
    shipped: Shipped
    what: PublicationStatus
    detail: str
    merged: str = ""
    sighting: PublishedItem | None = None


@dataclass(slots=True)
class _Look:
    """All that was found, and what is to be told of what could not be found out."""

    found: list[_Found] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def follow_up(cycle: Cycle) -> dict[str, Any]:
    """Bring shipped and abandoned items up to date; the answer is the cycle report's keys about it.

    Nothing is raised but InputError, for a tracker that cannot be read: a cycle that cannot tell
    what became of earlier work can still do the next.
    """
    docket = cycle.docket()
    todo = docket.own_todo()
    look = _Look()
    for top, mine in by_repository(cycle, [*docket.shipped, *todo]).items():
        _look_into(cycle, top, mine, look)
    claimed = [item for item in todo if item.get("status") == CLAIMED]
    edits: dict[str, tuple[Item, Edit]] = {str(id_of(item)): (item, opened) for item in claimed}
    edits |= {
        str(id_of(one.item)): (one.item, partial(_settled, one))
        for one in look.found
        if one.what
        in (PublicationStatus.MERGED, PublicationStatus.DROPPED, PublicationStatus.FOUND)
    }
    written = _write(cycle, edits, look) if edits else set()
    return _report(cycle, look, written)


def _settled(one: _Found, item: Item) -> dict[str, Any]:
    if one.sighting is not None:
        return adopted_fields(item, one.sighting, one.shipped.target, one.merged)
    return settled_fields(item, one.shipped, one.what, one.merged)


def _look_into(cycle: Cycle, top: Path, items: Sequence[Item], look: _Look) -> None:
    try:
        repository = open_repository(top, cycle.environ)
        with RemoteView.opened(repository, cycle.settings, cycle.keeps) as outlook:
            wanted = cycle.settings.ship.target or ""
            found = list(_fates(outlook, filter(is_shipped, items), wanted, look))
            found += _taken_over(cycle, outlook, filter(is_open, items))
    except (UnaskedError, TidegateError, OSError) as trouble:
        # What others may have shipped is asked once more before anything of ours is pushed.
        if not any(map(is_shipped, items)):
            return
        look.warnings.append(f"whether what shipped from {top} was merged is not known: {trouble}")
        return
    look.found += found
    look.warnings += [f"{id_of(one.item)}: {one.detail}" for one in found if _is_told(one)]


def _is_told(one: _Found) -> bool:
    return bool(one.detail) and one.what in (PublicationStatus.WAITS, PublicationStatus.UNKNOWN)


def _taken_over(cycle: Cycle, outlook: RemoteView, items: Iterable[Item]) -> Iterator[_Found]:
    """The open items that waves which this state folder knows nothing of have shipped: as another
    one did, or this one before it was lost."""
    items = list(items)
    if not items:
        return
    target, tip = outlook.target(cycle.settings.ship.target or "")
    there = by_task(outlook.sightings(target, tip))
    works = ((item, check_item(item)[0]) for item in items) if there else ()
    for item, work in works:
        if work is None:
            continue
        seen = there.get((item_name(work), task_of(work)), ())
        strange = (o for o in seen if not is_noted(item, o.wave) and not _knows(cycle, o.wave))
        if one := next(strange, None):
            merged = "" if one.branch else one.commit
            what = PublicationStatus.FOUND if one.branch else PublicationStatus.MERGED
            detail = told(one) if one.branch else f"merged: {merged[:12]} has it"
            yield _Found(item, Shipped(target=target), what, detail, merged, one)


def _knows(cycle: Cycle, wave: str) -> bool:
    database = cycle.state_dir / STATE_DB_FILENAME
    if not database.exists():
        return False
    with EventStore(database) as store:
        return store.head(wave_stream(wave))[0] > 0


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch that may have items' work: its head, and what has landed there."""

    tip: str
    landed: Merged

    @classmethod
    def of(cls, outlook: RemoteView, target: str, works: Sequence[Shipped]) -> _Branch:
        tip = outlook.tip(target)
        return cls(tip, outlook.landed(target, tip, {shipped.onto for shipped in works}))


def _fates(
    outlook: RemoteView, items: Iterable[Item], wanted: str, look: _Look
) -> Iterator[_Found]:
    """One look at each target branch, however many items went there, and at what has taken the
    place of one that is gone; `wanted` is where work is to go now, "" for nowhere in particular."""
    by_target: dict[str, list[tuple[Item, Shipped]]] = {}
    for item in items:
        if shipped := Shipped.of(item):
            by_target.setdefault(shipped.target, []).append((item, shipped))
    for target, pairs in by_target.items():
        successors = outlook.successors(target, wanted)
        works = [shipped for _, shipped in pairs]
        branches = [_Branch.of(outlook, name, works) for name in (target, *(successors or ()))]
        whole = not outlook.repository.shallow and successors != []
        found = [_fate(outlook, branches, *pair, whole=whole) for pair in pairs]
        yield from found
        if successors is not None:
            look.warnings += _told_of_target(target, successors, found)


def _told_of_target(
    target: str, successors: Sequence[str], found: Iterable[_Found]
) -> Iterator[str]:
    """One sentence about a target that is gone, as long as somebody waits for it."""
    ids = [
        str(id_of(one.item))
        for one in found
        if one.what in (PublicationStatus.WAITS, PublicationStatus.UNKNOWN)
    ]
    if ids:
        looked = f"{' and '.join(successors)} was looked at instead" if successors else ""
        yield (
            f"{target}, which {', '.join(ids)} shipped for, is not on the remote any more"
            f"{looked and '; '}{looked}: name the branch that took its place as [ship] target"
        )


def _fate(
    outlook: RemoteView, branches: Sequence[_Branch], item: Item, shipped: Shipped, *, whole: bool
) -> _Found:
    name = str(id_of(item))
    merged = next(filter(None, (b.landed.find(name, shipped) for b in branches)), "")
    is_kept = not merged and outlook.is_kept(shipped)
    if not merged and not is_kept and shipped.commit:  # under a message of somebody's own
        owned = _owned(item)
        tips = (b.tip for b in branches if outlook.has_all_of(shipped.commit, b.tip, owned))
        merged = next(tips, "")
    what = status_of(shipped, merged, is_kept=is_kept, whole=whole)
    return _Found(item, shipped, what, _detail(outlook, shipped, what, merged), merged)


def _owned(item: Item) -> list[OwnedPath]:
    work = check_item(item)[0]
    try:
        return [parse_owned(entry, work.work_dir) for entry in work.owns_files] if work else []
    except OwnershipError:
        return []


def _detail(outlook: RemoteView, shipped: Shipped, what: PublicationStatus, merged: str) -> str:
    if what is PublicationStatus.MERGED:
        return f"merged: {merged[:12]} has it"
    if what is PublicationStatus.DROPPED:
        return f"{shipped.branch} was deleted and not merged: it is to do again"
    if what is PublicationStatus.UNKNOWN:
        return _SHALLOW.format(shipped.branch) if outlook.repository.shallow else ""
    unpushed = outlook.heads is not None and shipped.branch not in outlook.heads
    if shipped.branch and unpushed and outlook.is_here(shipped.branch):
        return f"{shipped.branch} is here only: push it, or delete it to have the item done again"
    return ""


def _write(cycle: Cycle, edits: Mapping[str, tuple[Item, Edit]], look: _Look) -> set[str]:
    """Write the edits of items that nobody else has; the ids that were."""
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
            return mine.keys() - set(backlog.write(mine)) if mine else set()
    except (TidegateError, OSError) as trouble:
        look.warnings.append(f"what became of earlier items is not noted in the tracker: {trouble}")
        return set()


def _is_free(cycle: Cycle, backlog: Backlog, item: Item) -> bool:
    if not _has_a_place(item):
        return False
    try:
        backlog.leases.take(resource(item, cycle.repo))
    except LeasedElsewhereError:
        return False
    return True


def _has_a_place(item: Item) -> bool:
    """Whether slug and repository are what a lease can be named after; nobody has checked them."""
    try:
        slug_of(item.get("slug"))
        text_of(item.get("repo") or "")
    except InvalidValueError:
        return False
    return True


def _report(cycle: Cycle, look: _Look, written: set[str]) -> dict[str, Any]:
    told = [
        {"id": name, "what": str(one.what), "detail": one.detail}
        for one in look.found
        if (name := str(id_of(one.item))) in written
    ]
    for line in (*(f"{one['id']}: {one['detail']}" for one in told), *look.warnings):
        cycle.progress.say(line)
    return {
        key: value
        for key, value in (("items_followed", told), ("follow_up_warnings", look.warnings))
        if value
    }
