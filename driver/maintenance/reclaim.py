"""Removes leftovers of finished and dead runs without loss of work.

A thing is removed only if no live process uses it and its commits also exist elsewhere. Unfinished
work is saved as a patch first. Doubtful things stay and are listed. The user's checkout, index and
config are never written.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from driver.execution.process_identity import RUN_VARIABLE, marked, users_of
from driver.execution.process_marks import carrying_mark
from driver.filesystem.temporary import scratch_folders
from driver.filesystem.tree import remove_tree
from driver.git.branch_view import HEADS, REMOTE_HEADS, BranchView
from driver.maintenance.findings import Found, Scope
from driver.maintenance.handover_leftovers import leftovers_of_machines
from driver.maintenance.leftovers import BRANCH, leftovers
from driver.maintenance.past_waves import live_waves, past_waves
from driver.preparation.copies import remove_folder
from driver.preparation.kept_places import FOLDER, is_ours, places_in, surplus
from driver.preparation.removal import SUFFIX
from driver.publishing.wave_branches import forget, merged_into, pending_refs, wave_branches
from driver.run_state.run_registry import clear_up, dead_runs
from driver.workspace.run_folder import GIT, owner_of, save_unfinished, sentence
from state_store.database.events import WAVE_PREFIX
from state_store.database.store import EventStore
from state_store.documents import journal
from state_store.documents.errors import TidegateError
from state_store.documents.files import BadFileError, read_json
from state_store.documents.journal import stored_slug
from state_store.place import has_begun, name_of, open_store
from state_store.values.lazy_dataclass import dataclass
from state_store.views.archiving import (
    Part,
    archive,
    has_free_pages,
    look_for_old,
    remove_spare,
)
from state_store.write_api import STATE_DB_FILENAME

DAY_S = 86_400.0
_MOMENT_S = 600.0  # longer than Tidegate takes to create and rename any file
_TEMPORARY = re.compile(
    r"\.[0-9a-f]{16}\.tmp|tracker_events\.db\.[0-9a-f]{8}\.new(-wal|-shm|-journal)?"
)

REMOVED, KEPT, WOULD_REMOVE, FAILED = "removed", "kept", "would remove", "failed"
MESSAGE = "told"  # the word in the JSON


@dataclass(frozen=True, slots=True)
class Step:
    """A thing and the result: `done` is REMOVED, KEPT, WOULD_REMOVE, FAILED or MESSAGE."""

    kind: str
    name: str
    done: str
    why: str = ""

    def __str__(self) -> str:
        if self.done == MESSAGE:
            return self.why
        return f"{self.done} {self.kind} {self.name}" + (f": {self.why}" if self.why else "")

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"kind": self.kind, "name": self.name, "done": self.done, "why": self.why or None}


def reclaim(scope: Scope) -> Iterator[Step]:
    """Remove what can be removed, step by step; with `dry` only report it."""
    yield from _dead_runs(scope)
    finders = [
        _temporary_files,
        _scratch,
        _old_runs,
        _old_journal,
        leftovers_of_machines,
        _old_events,
    ]
    if scope.repository is not None:
        finders = [_workspaces, _kept_places, _pending_refs, _branches, *finders]
    for finder in finders:
        for found in finder(scope):
            yield from _carried_out(found, dry=scope.dry)


def _carried_out(found: Found, *, dry: bool) -> Iterator[Step]:
    if found.remove is None:
        yield Step(found.kind, found.name, KEPT, found.why)
    elif dry:
        yield Step(found.kind, found.name, WOULD_REMOVE, found.why)
    else:
        try:
            messages = found.remove()
        except (OSError, TidegateError) as trouble:
            yield Step(found.kind, found.name, FAILED, str(trouble))
        else:
            for line in messages if isinstance(messages, list) else ():
                yield Step(found.kind, found.name, MESSAGE, line)
            yield Step(found.kind, found.name, REMOVED, found.why)


def _dead_runs(scope: Scope) -> Iterator[Step]:
    """End the remaining processes of killed runs, save their work, remove their clones."""
    dead = list(dead_runs(scope.state_dir))
    if scope.dry or not dead:
        yield from (
            Step("run", run.wave_id, WOULD_REMOVE, "it ended without a record of its end")
            for run in dead
        )
        return
    for line in clear_up(scope.state_dir, scope.environ):
        yield Step("run", "", MESSAGE, line)


def _workspaces(scope: Scope) -> Iterator[Found]:
    assert scope.root is not None
    for folder in sorted(scope.root.glob("*/")):
        if folder.name == FOLDER:
            continue
        if folder.name.endswith(SUFFIX) and not folder.is_symlink():
            yield _of_ended_run(scope, folder)
            continue
        is_ours = owner_of(folder) is not None or (folder / GIT / "HEAD").is_file()
        if not folder.is_symlink() and (is_ours or not any(folder.iterdir())):
            yield _workspace(scope, folder)


def _kept_places(scope: Scope) -> Iterator[Found]:
    """Clones and test checkouts that wait for their next use."""
    assert scope.root is not None
    for folder in sorted((scope.root / FOLDER).glob("*/")):
        places = places_in(folder)
        gone = {one.path for one in surplus(places, scope.places)}
        for place in places:
            mb = f"{place.facts.size / 1e6:.0f} MB"
            drop = partial(remove_folder, place.path, scope.environ) if place.path in gone else None
            why = "too old, or too many are kept" if drop else "it waits for its next use"
            yield Found("place", str(place.path), f"{why} ({mb})", drop)
        known = {one.path for one in places}
        for path in folder.iterdir() if is_ours(folder) else ():
            if path not in known and _age_s(path) > _MOMENT_S:
                drop = partial(remove_folder, path, scope.environ)
                yield Found("place", str(path), "it is damaged", drop)


def _of_ended_run(scope: Scope, folder: Path) -> Found:
    """A folder that its run emptied of all work, and left to a process that removes it."""
    if users := users_of(folder.resolve()):
        return Found("workspaces", str(folder), f"process {users[0]} uses it")
    remove = partial(remove_folder, folder, scope.environ)
    return Found("workspaces", str(folder), "its run has ended", remove)


def _workspace(scope: Scope, folder: Path) -> Found:
    owner = owner_of(folder)
    users = users_of(folder.resolve())
    if owner and not users:
        users = marked(RUN_VARIABLE, owner.mark) or carrying_mark(owner.key)
    if owner is not None and owner.is_in_use:
        why = f"the run of wave {owner.wave_id} is under way (process {owner.maker.pid})"
    elif users:
        why = f"process {users[0]} uses it"
    elif (owner is None or owner.is_from_elsewhere) and _is_young(scope, folder):
        why = "its owner cannot be checked (another machine, or a restart), and it is not old"
    else:
        return Found("workspaces", str(folder), "", partial(_saved_and_removed, scope, folder))
    return Found("workspaces", str(folder), why)


def _is_young(scope: Scope, folder: Path) -> bool:
    return _age_s(folder) < max(scope.older_than_s, _MOMENT_S)


def _saved_and_removed(scope: Scope, folder: Path) -> list[str]:
    owner = owner_of(folder)
    wave = stored_slug(owner.wave_id) if owner else folder.name
    saved = list(save_unfinished(folder, scope.state_dir / "runs" / wave, scope.environ))
    messages = [sentence(one, folder) for one in saved]
    if unsaved := [sentence(one, folder) for one in saved if one.patch is None]:
        raise OSError("; ".join(unsaved))
    remove_tree(folder)
    return messages


def _pending_refs(scope: Scope) -> Iterator[Found]:
    repo, environ = scope.repository, scope.environ
    assert repo is not None
    for ref, commit in pending_refs(repo, environ):
        held = BranchView(repo, environ).branches_with(commit, HEADS, REMOTE_HEADS)
        if held:
            drop = _forgetting(scope, ref, commit)
            yield Found("ref", ref, f"{held[0]} has its commits", drop)
        else:
            yield Found("ref", ref, f"no branch has its commits: git branch NAME {commit[:12]}")


def _branches(scope: Scope) -> Iterator[Found]:
    repo, environ = scope.repository, scope.environ
    assert repo is not None
    waves = {wave.wave_id: wave for wave in past_waves(scope.state_dir)}
    for branch in wave_branches(repo, environ):
        wave = waves.get(branch.wave_id)
        start = wave.started_from(repo.top) if wave else None
        home = merged_into(BranchView(repo, environ), branch.commit, start)
        if branch.checked_out:
            yield Found("branch", branch.name, "it is checked out")
        elif not home:
            where = start or repo.branch or "any branch"
            yield Found("branch", branch.name, f"it is not merged into {where}")
        else:
            drop = _forgetting(scope, HEADS + branch.name, branch.commit)
            yield Found("branch", branch.name, f"it is merged into {home}", drop)


def _forgetting(scope: Scope, ref: str, commit: str) -> Callable[[], object]:
    repo = scope.repository
    assert repo is not None
    return partial(forget, repo, ref, commit, scope.environ)


def _temporary_files(scope: Scope) -> Iterator[Found]:
    """Files that a killed writer had not yet renamed."""
    for folder, _, names in os.walk(scope.state_dir):
        for path in (Path(folder, name) for name in sorted(names) if _TEMPORARY.fullmatch(name)):
            if _age_s(path) > _MOMENT_S:
                yield Found("temporary file", str(path), "", path.unlink)


def _scratch(scope: Scope) -> Iterator[Found]:
    """Temporary folders of this user's killed runs. They count as unused by their age."""
    for folder in scratch_folders(scope.environ):
        if not _is_young(scope, folder) and not users_of(folder.resolve()):
            yield Found("scratch folder", str(folder), "", partial(remove_tree, folder))


def _old_runs(scope: Scope) -> Iterator[Found]:
    live, left = live_waves(scope.state_dir), leftovers(scope.state_dir, scope.environ)
    kept = {one.wave: one.item for one in left if one.kind == BRANCH}
    for wave in past_waves(scope.state_dir):
        folder = wave.folder
        if folder.name in live or _youngest_s(folder) < scope.older_than_s:
            continue
        if wave.patches:
            why = f"it has work that was not shipped: {wave.patches[0]}"
            yield Found("outputs", str(folder), why)
        elif folder.name in kept:
            yield Found("outputs", str(folder), f"branch {kept[folder.name]} is not merged")
        else:
            yield Found("outputs", str(folder), "", partial(remove_tree, folder))


def _old_journal(scope: Scope) -> Iterator[Found]:
    """Journal entries of shipped and merged items. Other entries are needed: without them, a resume
    would build the item again."""
    repo = scope.repository
    if repo is None or live_waves(scope.state_dir):
        return
    branches = BranchView(repo, scope.environ)
    for path in sorted((scope.state_dir / journal.FOLDER).glob("*.json")):
        entry: Any = None
        with suppress(BadFileError):
            entry = read_json(path)
        if not isinstance(entry, dict) or entry.get("shipped") is not True:
            continue
        written = entry.get("timestamp")
        if not isinstance(written, int | float) or time.time() - written < scope.older_than_s:
            continue
        if branches.is_in_head(str(entry.get("commit") or "")):
            yield Found("journal entry", str(path), "it is shipped and merged", path.unlink)


def _old_events(scope: Scope) -> Iterator[Found]:
    """Events of ended waves, which an archive keeps, and pages without events."""
    database = scope.state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        return
    live = live_waves(scope.state_dir)
    try:
        old = look_for_old(database, time.time() - scope.older_than_s, live)
    except TidegateError as trouble:
        yield Found("past events", name_of(database), str(trouble))
        return
    for path in old.unnoted:
        yield Found("archive", str(path), "", partial(_spare_removed, database, path))
    if old.parts or old.is_sparse:
        waves = sum(part.stream.startswith(WAVE_PREFIX) for part in old.parts)
        aged = f"{waves} waves are old" if waves else "events of long streams are old"
        why = aged if old.parts else "the database has free pages"
        remove = partial(_archived, database, old.parts, is_alone=not live)
        yield Found("past events", name_of(database), why, remove)


def _spare_removed(database: Path, path: Path) -> None:
    with EventStore(database) as store:
        if not remove_spare(store, path):
            raise OSError("the database does not name it and lacks events of it: put back a copy")


def _archived(database: Path, parts: Sequence[Part], *, is_alone: bool) -> list[str]:
    with open_store(database) as store:
        line = "{0.events} events of {0.streams} streams are in {0.path} now"
        lines = [line.format(done) for done in archive(store, parts)]
        if freed := store.connections.compact(whole=is_alone):
            lines.append(f"{freed} pages of the database were given back")
        elif has_free_pages(store):
            lines.append("the database becomes smaller with the next gc while no wave runs")
    return lines


def _youngest_s(folder: Path) -> float:
    """The age of the newest change in a folder."""
    ages = [_age_s(folder)]
    for inside, folders, names in os.walk(folder):
        ages += [_age_s(Path(inside, name)) for name in (*folders, *names)]
    return min(ages)


def _age_s(path: Path) -> float:
    with suppress(OSError):
        return time.time() - path.lstat().st_mtime
    return 0.0
