"""Checks if a project is ready for a wave: repository, branch, halt, status, tracker.

These are the checks of the original project. `tools/doctor.py` checks the machine, and the engine
checks the items of a wave.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.wave_preflight")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

MAIN_BRANCHES = frozenset({"main", "master"})
HEARTBEAT_S, STATUS_S = 200, 300
NOT_READY = 1
NAMES = {
    "git_repo": "Git repository",
    "feature_branch": "Feature branch (not main/master)",
    "clean_tree": "Working tree clean",
    "halt": "No .HALT sentinel",
    "phase_drift": "STATE.md phase consistent with orchestrator-status.json (warning-level)",
    "signs_of_life": "Heartbeats and orchestrator status fresh",
    "tracker": "state/tracker.json parses as JSON",
    "secret_scan": "secret_scan importable",
}


def run_checks(
    root_dir: str | Path | None = None,
    state_dir: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{ready, checks: [{id, name, ok, detail}]} of a project, by default the current folder."""
    top = Path.cwd() if root_dir is None else Path(root_dir).absolute()
    folder = resolve_state_dir(top, config) if state_dir is None else Path(state_dir)
    checks = [
        {"id": check, "name": NAMES[check], "ok": ok, "detail": detail}
        for check, ok, detail in _looks(top, folder)
    ]
    return {"ready": all(check["ok"] for check in checks), "checks": checks}


def _looks(top: Path, folder: Path) -> Iterator[tuple[str, bool, str]]:
    from tools.halt import describe, get_halt_info

    inside = is_git_repo(top)
    yield "git_repo", inside, str(top) if inside else f"{top} is in no git repository"
    branch = get_current_branch(top) if inside else None
    detail = branch or "no branch is checked out"
    on_main = f"{detail}: work on a branch of its own" if branch in MAIN_BRANCHES else detail
    yield "feature_branch", branch is not None and branch not in MAIN_BRANCHES, on_main
    clean, changed = is_working_tree_clean(top) if inside else (False, "no repository")
    yield "clean_tree", clean, changed or "clean"
    halted = get_halt_info(folder)
    yield "halt", halted is None, f"halted: {describe(halted)}" if halted else "not halted"
    written = parse_state_md_phase(folder / "STATE.md") or parse_state_md_phase(top / "STATE.md")
    phase = parse_orchestrator_status_phase(folder / "orchestrator-status.json")
    drift = " [WARN: drift detected]" if written and phase and written != phase else ""
    yield "phase_drift", True, f"STATE.md={written or 'none'} status.json={phase or 'none'}{drift}"
    yield "signs_of_life", *_signs_of_life(folder)
    yield "tracker", *_tracker(folder / "tracker.json")
    importable, why_not = can_import_secret_scan()
    yield "secret_scan", importable, why_not or "importable"


def load_config(root_dir: str | Path | None = None) -> dict[str, Any]:
    """`aesop.config.json` of a project; {} if there is none. Raises InputError."""
    from state_store.documents.errors import InputError
    from state_store.documents.files import MissingFileError, read_json
    from tools.settings.sources import SOURCE_FILE

    path = Path(root_dir or ".") / SOURCE_FILE
    try:
        found = read_json(path)
    except MissingFileError:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a JSON object")
    return found


def resolve_state_dir(
    root_dir: str | Path | None = None, config: Mapping[str, Any] | None = None
) -> Path:
    """The state folder of a run in `root_dir`, or of `config`."""
    from tools.settings import load as settings

    root = Path(root_dir or ".").absolute()
    if config is not None:
        return settings.place_state_dir(config.get("state_root"), cwd=root)
    return settings.resolve_state_dir(project=root, cwd=root)


def parse_state_md_phase(state_md_path: str | Path) -> str | None:
    """The phase in the heading of a STATE.md; None if missing or unreadable."""
    from state_store.documents.errors import InputError
    from state_store.views.phase import read_git_phase

    try:
        return read_git_phase(state_md_path)
    except InputError:
        return None


def parse_orchestrator_status_phase(status_json_path: str | Path) -> str | None:
    """The phase in an orchestrator-status.json; None if missing or unreadable."""
    phase = _object(Path(status_json_path)).get("phase")
    return phase if isinstance(phase, str) and phase else None


def check_orchestrator_status_freshness(
    status_json_path: str | Path, threshold_s: float
) -> tuple[bool, int, str | None]:
    """(is stale, age in whole seconds, reason or None). A missing status is stale."""
    from state_store.documents.heartbeats import status_staleness

    return status_staleness(Path(status_json_path), threshold_s)


def is_git_repo(root_dir: str | Path) -> bool:
    """Returns True for a folder in a checkout."""
    from driver.git.private_git import toplevel_of
    from tools.settings.load import process_environment

    return toplevel_of(Path(root_dir), process_environment()) is not None


def get_current_branch(root_dir: str | Path) -> str | None:
    """The checked out branch; None on a detached HEAD or outside a repository."""
    done = _git(root_dir, "symbolic-ref", "-q", "--short", "HEAD")
    return done.strip() or None if done is not None else None


def is_working_tree_clean(root_dir: str | Path) -> tuple[bool, str | None]:
    """(True, None) if no tracked file differs from the last commit, else (False, reason)."""
    status = _git(root_dir, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
    if status is None:
        return False, "git status failed"
    changed = [entry[3:] for entry in status.split("\0") if entry[3:]]
    if not changed:
        return True, None
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return False, f"changed: {', '.join(changed[:3])}{more}"


def can_import_secret_scan() -> tuple[bool, str | None]:
    """(True, None) if the secret scan can be imported, else (False, reason)."""
    try:
        import_module("tools.secret_scan")
    except Exception as error:  # noqa: BLE001 - whatever a broken module raises
        return False, f"it cannot be imported: {error!r}"
    return True, None


def scan_backlog_items(
    tracker_path: str | Path, work_dir: str | Path, ledger_path: str | Path | None = None
) -> dict[str, Any]:
    """{success, items: [{id, title, flags: [{type, detail}]}], ledger_stats, summary} of the items
    with the status `todo`. Flags: missing_ownership, stale_reference, ownership_overlap."""
    from tools.backlog_scan import scan

    ledger = Path(ledger_path) if ledger_path else None
    return scan(Path(tracker_path), Path(work_dir), ledger, _overlaps)


def _overlaps(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Yields (later, earlier, path) for what two items would both write, by the engine's rules."""
    from driver.domain.item_fields import is_absolute
    from driver.domain.ownership import find_conflicts, parse_owned
    from driver.domain.work_item import ownership_problems

    owners = []
    for number, item in enumerate(items):
        folder = item.get("workDir") or "."
        if not ownership_problems(item) and not is_absolute(folder):
            paths = tuple(parse_owned(entry, folder) for entry in item["ownsFiles"])
            owners.append((str(number), item.get("repo"), paths))
    for conflict in find_conflicts(owners):
        earlier, later = conflict.slugs
        yield int(later), int(earlier), conflict.file


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="wave_preflight.py", description="Is the project ready for a wave?")
    add = parser.add_argument
    add("--root", metavar="DIR", default=".", help="the project (default: the current folder)")
    add("--state-root", metavar="DIR", help="its state folder (default: that of the settings)")
    add("--tracker", metavar="FILE", help="look through this backlog instead; never fails")
    add("--ledger", metavar="FILE", help="with --tracker: also sum up this ledger")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code: 0 ready, 1 not, 2 usage."""
    from tools.program import program

    parser = build_parser()

    def run(args: argparse.Namespace) -> int:
        if args.ledger and not args.tracker:
            parser.error("--ledger goes with --tracker")
        return _advise(args) if args.tracker else _check(args)

    return program(parser, run, argv)


def _check(args: argparse.Namespace) -> int:
    from driver.terminal.safe_text import safe_line
    from tools.program import show

    found = run_checks(args.root, args.state_root)
    lines = ["wave_preflight: is the project ready for a wave?"]
    for number, check in enumerate(found["checks"], start=1):
        lines.append(f"{number}. {check['name']}: {'PASS' if check['ok'] else 'FAIL'}")
        lines.append(f"   {check['detail']}")
    failed = [check["id"] for check in found["checks"] if not check["ok"]]
    lines.append(f"FAIL: not ready: {', '.join(failed)}" if failed else "PASS: ready")
    show(found, map(safe_line, lines), as_json=args.json)
    return 0 if found["ready"] else NOT_READY


def _advise(args: argparse.Namespace) -> int:
    from driver.terminal.safe_text import safe_line
    from tools.program import show

    found = scan_backlog_items(args.tracker, args.root, args.ledger)
    flags = ((item["id"], flag) for item in found["items"] for flag in item["flags"])
    lines = [f"{name}  {flag['type']}  {flag['detail']}" for name, flag in flags]
    lines.append(found.get("error") or found["summary"])
    show(found, map(safe_line, lines), as_json=args.json)
    return 0


def _signs_of_life(folder: Path) -> tuple[bool, str]:
    """False and the ages of all signs if one is stale. A missing sign is none: no program has to
    give one."""
    from state_store.documents.heartbeats import heartbeat_staleness, status_staleness

    signs = (
        ("heartbeat", folder / ".watchdog-heartbeat", heartbeat_staleness, HEARTBEAT_S),
        ("status", folder / "orchestrator-status.json", status_staleness, STATUS_S),
    )
    any_stale, lines = False, []
    for name, path, staleness_of, threshold_s in signs:
        if not path.exists():
            lines.append(f"no {name}")
            continue
        is_stale, age, why = staleness_of(path, threshold_s)
        any_stale = any_stale or is_stale
        lines.append(f"{name}: {why or f'{age} seconds old'}")
    return not any_stale, ", ".join(lines)


def _tracker(path: Path) -> tuple[bool, str]:
    from state_store.documents.errors import InputError
    from state_store.tracker.file import read_tracker_file

    try:
        return True, f"{len(read_tracker_file(path).entries)} items"
    except InputError as error:
        return False, str(error)


def _object(path: Path) -> dict[str, Any]:
    from state_store.documents.errors import InputError
    from state_store.documents.files import read_json

    try:
        found = read_json(path)
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def _git(root: str | Path, *args: str) -> str | None:
    from driver.git.command import GitError, run_git, text, user_environment
    from tools.settings.load import process_environment

    try:
        env = user_environment(process_environment())
        return text(run_git(args, cwd=Path(root), env=env).stdout)
    except GitError:
        return None


if __name__ == "__main__":
    sys.exit(main())
