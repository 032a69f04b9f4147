"""Compares the present phase in STATE.md with the store's, and resolves a difference.

Git is the authority by default. Reading never creates a database.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from state_store.api import StateAPI
from state_store.database import events as names
from state_store.database.store import EventStore
from state_store.documents.files import read_text, write_text_atomic

GIT, STORE = "git", "store"
NOOP, RESOLVED, REFUSED, UNSUPPORTED = "noop", "resolved", "refused", "unsupported"

_HEADING = re.compile(r"^## Phase: `([^`\r\n]+)`", re.MULTILINE)


def read_git_phase(state_md: str | Path) -> str | None:
    """The phase in the heading of STATE.md, or None. Raises InputError."""
    found = _HEADING.search(read_text(Path(state_md)))
    return found.group(1).strip() or None if found else None


def read_store_phase(db: str | Path) -> str | None:
    """The newest phase in the store; None without phase or database."""
    if not Path(db).exists():
        return None
    with StateAPI(db) as api:
        phase = api.project("orchestrator_status")["phase"]
    return phase if isinstance(phase, str) else None


def write_store_phase(db: str | Path, phase: str, actor: str = "reconcile") -> int:
    """Record the phase in stream `meta` and return the version of the event."""
    with EventStore(db) as store:
        return store.append(names.META, names.PHASE_SET, {"phase": phase}, actor)


def decide_resolution(
    git: str | None, store: str | None, authority: str = GIT
) -> tuple[bool, str | None, str | None]:
    """(True if the phases differ, side to write, phase to write). The side is None if there is
    nothing to write. Raises ValueError for an unknown authority."""
    if authority not in (GIT, STORE):
        raise ValueError(f"the authority is {GIT!r} or {STORE!r}, not {authority!r}")
    if git == store:
        return False, None, None
    return (True, STORE, git) if authority == GIT else (True, GIT, store)


def detect_drift(state_md: str | Path, db: str | Path) -> dict[str, Any]:
    """`{drift, git_phase, store_phase}`. Raises InputError if STATE.md cannot be read."""
    git, store = read_git_phase(state_md), read_store_phase(db)
    return {"drift": git != store, "git_phase": git, "store_phase": store}


def resolve_drift(state_md: str | Path, db: str | Path, authority: str = GIT) -> dict[str, Any]:
    """Write the authority's phase to the other side. Returns `detect_drift` with `action`.

    Actions: noop (the phases agree), resolved (written), refused (the authority has no phase),
    unsupported (STATE.md has no phase heading).
    """
    found = detect_drift(state_md, db)
    drift, target, value = decide_resolution(found["git_phase"], found["store_phase"], authority)
    if not drift:
        return {**found, "action": NOOP}
    if value is None:
        return {**found, "action": REFUSED}
    if target == STORE:
        write_store_phase(db, value)
        return {**found, "action": RESOLVED}
    text, heading = read_text(Path(state_md)), f"## Phase: `{value}`"
    if not _HEADING.search(text) or not _HEADING.fullmatch(heading):
        return {**found, "action": UNSUPPORTED}
    write_text_atomic(Path(state_md), _HEADING.sub(lambda _: heading, text, count=1))
    return {**found, "action": RESOLVED}
