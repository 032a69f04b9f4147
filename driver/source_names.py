"""Maps names of the original project's two programs to our modules.

Both programs look names up lazily, so that a command loads only the modules it needs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.item_bridge import build_manifest_item
from driver.backlog.publication_status import note_of
from driver.backlog.tracker import rewrite_items
from driver.domain.ownership import OwnershipError, leaves_tree, parse_owned
from driver.domain.work_item import check_item
from driver.limits.admission import CEILING, HALT, GateClosedError
from state_store.documents import journal
from state_store.documents.errors import CannotRunError, InputError, InvalidValue
from state_store.documents.item_id import id_of
from tools import halt
from tools.settings.load import Settings

_HERE = __name__
WAVE_LOOP = {
    "cost_ceiling": ("tools.cost_ceiling", ""),
    "_safe_slug": ("state_store.documents.journal", "safe_slug"),
    "_quote_arg": ("shlex", "quote"),
    "_write_journal_entry": (_HERE, "_write_journal_entry"),
    "_load_journal_state": (_HERE, "_load_journal_state"),
    "_journal_key_for_item": (_HERE, "_journal_key_for_item"),
    "_should_skip_from_journal": (_HERE, "_should_skip_from_journal"),
    "_validate_repo_path": (_HERE, "_validate_repo_path"),
    "_validate_file_path": (_HERE, "_validate_file_path"),
}
WAVE_SCHEDULER = {
    "run_wave": ("driver.wave_loop", "run_wave"),
    "halt": ("tools.halt", ""),
    "cost_ceiling": ("tools.cost_ceiling", ""),
    "check_gates": (_HERE, "check_gates"),
    "load_tracker_items": ("driver.backlog.tracker", "load_tracker_items"),
    "filter_todo_items": ("driver.backlog.order", "filter_todo_items"),
    "select_disjoint_items": ("driver.backlog.selection", "select_disjoint_items"),
    "build_wave_manifest": (_HERE, "build_wave_manifest"),
    "emit_report": ("driver.scheduler.report", "emit_report"),
    "_normalize_path": (_HERE, "_normalize_path"),
    "_is_valid_owned_path": (_HERE, "_is_valid_owned_path"),
    "_validate_item": (_HERE, "_validate_item"),
    "_write_tracker_status_atomic": (_HERE, "_write_tracker_status_atomic"),
    "_check_halt_file": (_HERE, "_check_halt_file"),
    "_check_cost_ceiling": (_HERE, "_check_cost_ceiling"),
    "_verify_gate_availability": (_HERE, "_verify_gate_availability"),
}


def look_up(names: Mapping[str, tuple[str, str]], module: str, name: str) -> Any:
    """The object of `name` in `names`; a module, if it names no attribute of it. Raises
    AttributeError for an unknown name."""
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, attribute = names[name]
    found = import_module(home)
    return getattr(found, attribute) if attribute else found


Key = tuple[str | None, str]


def _write_journal_entry(
    state_dir: str | Path, slug: str, phase: str, data: Mapping[str, Any], repo: str | None = None
) -> None:
    journal.write_entry(Path(state_dir), slug, phase, data, repo=repo)


def _load_journal_state(state_dir: str | Path) -> dict[Key, dict[str, Any]]:
    """The readable entries by repo and slug."""
    entries, _unreadable = journal.load_entries(Path(state_dir))
    return dict(entries)


def _journal_key_for_item(item: Mapping[str, Any]) -> str:
    """The name of the item's journal file, without its ending."""
    return journal.entry_path(Path(), item["slug"], item.get("repo")).stem


def _should_skip_from_journal(entry: Mapping[str, Any] | None) -> bool:
    """Always False, because a verified item is proven again on the present tree."""
    del entry
    return False


def _validate_repo_path(repo: str) -> str:
    """The path as text. Raises ValueError unless it is an absolute path of a folder."""
    if not Path(repo).is_absolute():
        raise InvalidValue(f"repo {repo} is not absolute")
    if not Path(repo).is_dir():
        raise InvalidValue(f"repo {repo} is no folder")
    return str(Path(repo))


def _validate_file_path(file_path: str, repo_root: str | Path) -> None:
    """Raises ValueError for a path that no item of this repository may own."""
    try:
        owned = parse_owned(file_path)
    except OwnershipError as error:
        raise InvalidValue(str(error)) from error
    if leaves_tree(Path(repo_root), owned.path):
        raise InvalidValue(f"{file_path} is reached through a link that leaves {repo_root}")


def build_wave_manifest(
    selected_items: Iterable[Mapping[str, Any]], driver: AgentDriver
) -> tuple[dict[str, Any], list[str]]:
    """A manifest of the valid items, and the ids of the invalid items."""
    built: list[dict[str, Any]] = []
    failed: list[str] = []
    for item in selected_items:
        try:
            built.append(build_manifest_item(driver, item))
        except ValueError:
            failed.append(str(item.get("id")))
    manifest = {
        "wave_id": str(uuid.uuid4()),
        "items": built,
        "wave_description": f"{len(built)} items",
    }
    return manifest, failed


def _check_halt_file(state_dir: str | Path | None = None) -> tuple[bool, str | None]:
    """Returns (True, reason) if the state folder is halted, else (False, None)."""
    folder, halt = _state_dir(state_dir), _scheduler().halt
    if not halt.is_halted(folder):
        return False, None
    return True, str((halt.get_halt_info(folder) or {}).get("reason") or "halted")


def _check_cost_ceiling(state_dir: str | Path | None = None) -> tuple[bool, str | None]:
    """Returns (True, reason) if the wave ceiling is reached, else (False, None). Raises
    RuntimeError if the gate fails."""
    folder = _state_dir(state_dir)
    check = _scheduler().cost_ceiling.check
    answer = check(spent=None, period="wave", state_dir=folder, trip=False)
    if answer.get("error"):
        raise RuntimeError(str(answer["error"]))
    return (True, answer.get("reason")) if answer.get("exceeded") else (False, None)


def check_gates(state_dir: Path, settings: Settings) -> None:
    """Ask `halt` and `cost_ceiling` of the scheduler's module, which a caller may have replaced: a
    new wave has spent nothing. Raises GateClosedError."""
    is_halted, why = _check_halt_file(state_dir)
    if is_halted:
        raise GateClosedError(HALT, str(why))
    answer = _scheduler().cost_ceiling.check(
        spent=0,
        period="wave",
        state_dir=state_dir,
        trip=False,
        config={"limits": {"max_wave_tokens": settings.limits.max_wave_tokens}},
    )
    if answer.get("exceeded"):
        raise GateClosedError(CEILING, str(answer.get("reason") or "cost ceiling"), answer)


def _scheduler() -> Any:
    return import_module("driver.wave_scheduler")


def _verify_gate_availability() -> tuple[bool, str | None]:
    """Always (True, None), because this module imports both gates."""
    return True, None


def _state_dir(named: str | Path | None) -> Path:
    return halt.resolve_state_dir() if named is None else Path(named)


def _write_tracker_status_atomic(
    tracker_path: Path | str,
    items_to_update: Iterable[str],
    new_status: str,
    wave_id: str,
    expected_hash: str | None = None,
) -> tuple[bool, str | None]:
    """Set a status and the wave. With `expected_hash`, refuses a changed file."""
    wanted = set(map(str, items_to_update))

    def change(item: Mapping[str, Any]) -> Mapping[str, Any]:
        if id_of(item) not in wanted:
            return {}
        notes = f"{item.get('notes') or ''} {note_of(wave_id)}".strip()
        return {"status": new_status, "notes": notes}

    try:
        written = rewrite_items(Path(tracker_path), change, expected_hash)
    except (InputError, CannotRunError) as fault:
        return False, str(fault)
    return (True, None) if written else (False, "tracker_conflict")


def _validate_item(item: Mapping[str, Any]) -> tuple[bool, str | None]:
    """Returns (True, None) or (False, first reason); an item without an id is valid here."""
    _, problems = check_item(item)
    return (False, problems[0].reason) if problems else (True, None)


def _is_valid_owned_path(path: str) -> bool:
    try:
        parse_owned(path)
    except OwnershipError:
        return False
    return True


def _normalize_path(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./").lower()
