"""Takes over the work of runs of other machines, as if they had been runs of this one.

Nothing is believed: the work has to be the one that the store names, and it may be no larger than
this machine allows. Then it lies in the state folder like that of a killed run, and is proven
again before anything rests on it (`pipeline_run/resume.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.agents.attempt import against
from driver.domain import phase_receipt
from driver.domain.results import Verdict
from driver.git.command import text
from driver.git.private_git import GitError
from driver.git.push_result import PushResult
from driver.git.remote import fetch_refs, refs_on
from driver.handover.remote_refs import is_place_of
from driver.pipeline import position
from driver.run_state.context import ItemRun, Wave
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import Observed
from driver.workspace.saved_patch import Origin, step_patch, with_origin
from state_store.documents.errors import CannotRunError
from state_store.documents.failpoints import failpoint
from state_store.documents.files import write_bytes_atomic, write_text_atomic
from state_store.documents.journal import stored_slug
from state_store.sql.unshipped import Unshipped, unpacked

_EVIDENCE = "not-taken-over.txt"
_PUBLISHED = ("commit", "tip", "branch", "target", "shipped")


class _RefusedError(CannotRunError):
    """The work is not what it has to be."""


def take_over(wave: Wave) -> None:
    """Put the work of other machines' runs on the wave's items into the state folder. Items that
    another run holds stay as they are."""
    store, keys = wave.recorder.store, [item.key for item in wave.items]
    rows = store.read_unshipped(lambda book: book.of([key.slug for key in keys])) or {}
    for item in wave.items:
        if (row := rows.get(item.slug)) is not None and row.place.ref and _is_place(row, wave):
            wave.handover.inherit(item, row.place.ref)
    theirs = {slug: row for slug, row in rows.items() if row.folder != store.folder}
    mine = [item for item in wave.items if _is_about(item, theirs.get(item.slug))]
    if not mine:
        return
    wave.recorder.acquire_all(keys)
    mine = [item for item in mine if wave.recorder.still_ours(item.key)]
    for context in wave.repositories.values():
        some = {item: theirs[item.slug] for item in mine if item.repository is context}
        there = _on_remote(context, [row for row in some.values() if _has_ref(row, wave)])
        for item, row in some.items():
            _take(item, row, context, there)


def _is_about(item: ItemRun, row: Unshipped | None) -> bool:
    """True for work on the same request, on this base or another."""
    return row is not None and row.entry.get("task") == item.key.task_key


def _is_place(row: Unshipped, wave: Wave) -> bool:
    return is_place_of(row.place, wave.settings.state.schema, row.slug)


def _has_ref(row: Unshipped, wave: Wave) -> bool:
    """True for work that is to be fetched: what is too large stays on the remote."""
    is_small = row.place.size <= wave.settings.state.unshipped_max
    return bool(row.place.ref) and is_small and _is_place(row, wave)


def _on_remote(context: CloneContext, rows: Sequence[Unshipped]) -> Mapping[str, str] | PushResult:
    """The refs of the work, fetched as far as they have the commits that the store names."""
    if not rows or context.remote is None:
        return {}
    git, remote = context.git, context.remote
    there = refs_on(git.path, git.environ, remote, *(row.place.ref for row in rows))
    if isinstance(there, PushResult):
        return there
    good = [row.place.ref for row in rows if there.get(row.place.ref) == row.place.commit]
    done = fetch_refs(git.path, git.environ, remote, good)
    return there if done.ok else done


def _take(
    item: ItemRun, row: Unshipped, context: CloneContext, there: Mapping[str, str] | PushResult
) -> None:
    runs, wave_id = item.wave.state_dir / "runs", str(row.entry.get("waveId"))
    folder = runs / stored_slug(wave_id) / stored_slug(item.slug)
    entry, where = _entry_for(row), f"from {row.host}, {row.path}"
    wanted = position.last_tree(phase_receipt.from_json(entry.get("phases"))) or entry.get("tree")
    if wanted and wanted == row.place.tree:
        try:
            patch = _checked(item, row, context, there)
            origin = Origin(row.place.base, context.repository.top)
            write_bytes_atomic(folder / step_patch(wanted), with_origin(patch, origin))
            failpoint("handover.fetched")
            item.say(f"goes on with work {where}, which is proven again here")
        except (_RefusedError, GitError) as no:
            said = f"the work {where} is not used, and the item is built anew: {no}"
            write_text_atomic(item.scratch / _EVIDENCE, f"{said}\n")
            item.say(said)
    item.wave.recorder.taken_over(item.key, entry)
    failpoint("handover.taken")


def _entry_for(row: Unshipped) -> dict[str, Any]:
    """The entry without what is only known to the state folder of the other run: commits that it
    published are found on the remote, by their trailers."""
    entry = {key: value for key, value in row.entry.items() if key not in _PUBLISHED}
    if entry.get("phase") == "shipping":
        entry["phase"] = "verified"
    return entry


def _checked(
    item: ItemRun, row: Unshipped, context: CloneContext, there: Mapping[str, str] | PushResult
) -> bytes:
    """The patch of the work. Raises _RefusedError if it is not what the store names, or may not be
    shipped."""
    git, place, most = context.git, row.place, item.wave.settings.state.unshipped_max
    if not _is_place(row, item.wave):
        raise _RefusedError("the store's row names no place of such work")
    if place.size > most:
        raise _RefusedError(f"it has {place.size} bytes, and [state] unshipped_max is {most}")
    if place.ref:
        _require_commit(context, row, there)
    else:
        _require_patch(item, row, context)
    changes = git.changes(git.tree_of(place.base), place.tree)
    judgement = against(item, Observed(changes, place.tree))
    if judgement is not None and judgement.verdict is not Verdict.NO_CHANGE:
        raise _RefusedError(judgement.reason)
    patch = git.patch(git.tree_of(place.base), place.tree)
    if len(patch) > most:
        raise _RefusedError(f"it has {len(patch)} bytes, and [state] unshipped_max is {most}")
    return patch


def _require_commit(
    context: CloneContext, row: Unshipped, there: Mapping[str, str] | PushResult
) -> None:
    place = row.place
    if context.remote is None:
        raise _RefusedError(f"it is at {place.ref} on a remote that this repository has not")
    if isinstance(there, PushResult):
        raise _RefusedError(f"{place.ref} cannot be fetched: {there.reason}")
    found = there.get(place.ref, "nothing")
    if found != place.commit:
        raise _RefusedError(f"{place.ref} is at {found}, and the store names {place.commit}")
    head = text(context.git.commit_text(place.commit)).partition("\n\n")[0].splitlines()
    facts = [line for line in head if line.startswith(("tree ", "parent "))]
    if facts != [f"tree {place.tree}", f"parent {place.base}"]:
        raise _RefusedError(f"{place.commit} is no change of {place.base} to {place.tree}")


def _require_patch(item: ItemRun, row: Unshipped, context: CloneContext) -> None:
    name, git = step_patch(row.place.tree), context.git
    store = item.wave.recorder.store
    body = store.read_unshipped(lambda book: book.output(row.wave, item.slug, name))
    if body is None:
        raise _RefusedError(f"the store has no {name} of it")
    patch = unpacked(body, item.wave.settings.state.unshipped_max)
    made = git.apply(git.tree_of(row.place.base), patch) if patch else ""
    if made != row.place.tree:
        raise _RefusedError(f"the store's {name} makes {made or 'nothing'} of {row.place.base}")
