"""Compares the present phase in STATE.md with the store's, and resolves a difference.

Git is the authority by default. Reading never creates a database.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from state_store.api import StateAPI
from state_store.database import events as names
from state_store.documents.files import MissingFileError, read_text, write_text_atomic
from state_store.place import has_begun, open_store

GIT, STORE = "git", "store"
NOOP, RESOLVED, REFUSED, UNSUPPORTED = "noop", "resolved", "refused", "unsupported"

FIELD = "phase"

_HEADING = re.compile(r"^##[ \t]*Phase:[ \t]*`([^`\r\n]+)`", re.MULTILINE)
_WHY_NOT = {
    REFUSED: "the side that counts has no phase",
    UNSUPPORTED: "STATE.md has no heading that could take the phase",
}


def read_git_phase(state_md_path: str | Path) -> str | None:
    """The phase in the heading of STATE.md; None without file or heading. Raises InputError."""
    try:
        found = _HEADING.search(read_text(Path(state_md_path)))
    except MissingFileError:
        return None
    return found.group(1).strip() or None if found else None


def read_store_phase(db_path: str | Path) -> str | None:
    """The newest phase in the store; None without phase or database."""
    if not has_begun(Path(db_path)):
        return None
    with StateAPI(db_path) as api:
        phase = api.project("orchestrator_status")["phase"]
    return phase if isinstance(phase, str) else None


def write_store_phase(db_path: str | Path, phase: str, actor: str = "reconcile") -> int:
    """Record the phase in stream `meta` and return the version of the event."""
    with open_store(db_path) as store:
        return store.append(names.META, names.PHASE_SET, {"phase": phase}, actor)


def decide_resolution(
    git_value: str | None, store_value: str | None, authority: str
) -> tuple[bool, str | None, str | None]:
    """(True if the phases differ, side to write, the phase that counts). The side is None if there
    is nothing to write. Raises ValueError for an unknown authority."""
    if authority not in (GIT, STORE):
        raise ValueError(f"the authority is {GIT!r} or {STORE!r}, not {authority!r}")
    if git_value == store_value:
        return False, None, git_value
    return (True, STORE, git_value) if authority == GIT else (True, GIT, store_value)


def detect_drift(state_md_path: str | Path, db_path: str | Path) -> dict[str, Any]:
    """The report of both phases: `drift`, `fields` with one entry for the phase, and its values as
    `git_phase` and `store_phase`. Raises InputError if STATE.md cannot be read."""
    return _report(read_git_phase(state_md_path), read_store_phase(db_path), GIT)


def resolve_drift(
    state_md_path: str | Path, db_path: str | Path, authority: str = GIT
) -> dict[str, Any]:
    """Write the authority's phase to the other side. Returns the report of what is now, with
    `action` and, if nothing could be written, `reason`.

    Actions: noop (the phases agree), resolved (written), refused (the authority has no phase),
    unsupported (STATE.md has no phase heading).
    """
    git, store = read_git_phase(state_md_path), read_store_phase(db_path)
    drift, target, value = decide_resolution(git, store, authority)
    if not drift:
        return _report(git, store, authority, NOOP)
    if value is None:
        return _report(git, store, authority, REFUSED)
    if target == STORE:
        write_store_phase(db_path, value)
        return _report(git, value, authority, RESOLVED)
    heading = f"## Phase: `{value}`"
    if git is None or not _HEADING.fullmatch(heading):
        return _report(git, store, authority, UNSUPPORTED)
    text = _HEADING.sub(lambda _: heading, read_text(Path(state_md_path)), count=1)
    write_text_atomic(Path(state_md_path), text)
    return _report(value, store, authority, RESOLVED)


def _report(
    git: str | None, store: str | None, authority: str, action: str | None = None
) -> dict[str, Any]:
    drift, target, _ = decide_resolution(git, store, authority)
    done: dict[str, Any] = {} if action is None else {"action": action}
    if action in _WHY_NOT:
        done["reason"] = _WHY_NOT[action]
    field = {
        "field": FIELD,
        "authority": authority,
        "git_value": git,
        "store_value": store,
        "drift": drift,
        "fix_target": target,
        **done,
    }
    return {"drift": drift, "fields": [field], "git_phase": git, "store_phase": store, **done}
