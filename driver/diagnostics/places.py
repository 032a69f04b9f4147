"""Checks the repository, the remote, the state folder and the workspaces of a run.

Changes nothing. It tests a folder by writing a temporary file without a name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.backlog.tracker import tracker_problems, validate_item
from driver.diagnostics.forge import check_pull_requests
from driver.diagnostics.machine import check_disk, nearest_folder
from driver.git.command import GitError, redacted
from driver.git.private_git import Repository, find_remote, open_repository, toplevel_of
from driver.git.remote import Remote, why_unreachable
from driver.git.repository import check_usable
from driver.git.user_hooks import HOOKS, HOOKS_REMEDY, hooks_folder, missing_hooks
from driver.preparation.kept_places import folder_of, places_in
from driver.preparation.removal import SUFFIX
from driver.run_state.plan import Shipping
from driver.run_state.state_folder import check_state_dir
from driver.scheduler.context import repository_in_sight
from driver.terminal.check_result import CheckResult, failed, failed_as, passed, tried, warned
from driver.terminal.commands import program_command
from driver.terminal.safe_text import counted, typed
from driver.wave.preflight import shipping_checks, target_checks
from driver.workspace.repository_info import RepositoryInfo
from driver.workspace.root import workspace_root
from state_store.database.schema import look
from state_store.documents.errors import CannotRunError, InputError, TidegateError
from state_store.documents.item_status import is_open
from state_store.place import has_begun, server_of
from state_store.sql.addresses import address_of
from state_store.tracker.file import read_tracker_file
from state_store.values.lazy_dataclass import dataclass
from state_store.views.archiving import missing_archives
from state_store.views.store_summary import Error, StoreSummary
from state_store.write_api import STATE_DB_FILENAME, TRACKER_FILENAME
from tools.halt import describe, get_halt_info
from tools.settings.load import Settings

TOOLS = Path(__file__).resolve().parents[2] / "tools"
REMOTE_TIMEOUT_S = 20.0
_MOST_OFFSET_S = 5.0


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a run. `top` is None outside a repository, `repository` is None if it is not
    usable, `workspaces` is None if the folder is unknown."""

    settings: Settings
    top: Path | None = None
    repository: Repository | None = None
    workspaces: Path | None = None

    @property
    def state_dir(self) -> Path:
        """The state folder, which may not exist."""
        return Path(os.path.realpath(self.settings.state_dir))

    @property
    def written_by_agents(self) -> tuple[Path, ...]:
        """The folders with untrusted programs: the workspaces and the repository."""
        return tuple(path for path in (self.top, self.workspaces) if path is not None)


def repository_named(repo: str | None, environ: Mapping[str, str]) -> Path | None:
    """Returns the checkout of `repo`, or of the current folder. Raises InputError if `repo` is in
    no repository."""
    if repo is None:
        return repository_in_sight((Path.cwd(),))
    if not Path(repo).is_dir():
        raise InputError(f"--repo {repo} is not a folder: name a folder inside a git repository")
    top = toplevel_of(Path(repo), environ)
    if top is None:
        raise InputError(f"--repo {repo} is in no git repository: name one, or run git init there")
    return top


def repository_at(top: Path, settings: Settings) -> tuple[Repository | None, CheckResult]:
    """Opens the repository as a run does; None with a failed check if that fails."""
    try:
        repository = open_repository(top, settings.environ)
        check_usable(repository, settings.environ)
    except GitError as error:
        return None, failed("repository", str(error), "run git status there for the cause")
    except TidegateError as error:
        return None, failed_as("repository", error)
    at = f"{repository.top} at {repository.head[:12]}"
    if repository.branch is None:
        detail = f"{at}, on no branch (detached HEAD): waves start from that commit"
        return repository, warned("repository", detail, "git switch to the branch you mean")
    return repository, passed("repository", f"{at} on {repository.branch}")


def workspaces_of(settings: Settings, repository: Repository) -> tuple[Path | None, CheckResult]:
    """Returns the folder of the workspaces, and the check that it is writable."""
    try:
        root = workspace_root(settings.workspace.root, settings.environ, repository)
    except InputError as error:
        return None, failed_as("workspaces", error)
    if problem := why_not_writable(root):
        remedy = "allow it, or set [workspace] root to another folder"
        return root, failed("workspaces", problem, remedy)
    apart = nearest_folder(root).stat().st_dev != repository.objects.stat().st_dev
    note = ", on another file system than the repository" if apart else ""
    return root, passed("workspaces", f"{root}{note}{_in_wait(root, repository)}")


def _in_wait(root: Path, repository: Repository) -> str:
    """The kept places, and the folders whose removal has not ended."""
    kept, note = places_in(folder_of(root, repository.top)), ""
    if kept:
        mb = sum(place.facts.size for place in kept) / 1e6
        note = f"; {counted(len(kept), 'place')} of {mb:.0f} MB kept for later waves"
    if leaving := sum(1 for _ in root.glob(f"*{SUFFIX}")):
        note += f"; {counted(leaving, 'folder')} of ended runs being removed"
    return note


def check_places(places: Places, *, network: bool) -> Iterator[CheckResult]:
    """Runs the checks that need no backend. `network` allows them to contact the remote."""
    yield check_state(places)
    yield check_database(places.state_dir)
    yield check_halt(places.state_dir)
    yield check_tracker(places.state_dir / TRACKER_FILENAME)
    yield check_disk("disk.state", places.state_dir)
    if places.workspaces is not None:
        yield check_disk("disk.workspaces", places.workspaces)
    if places.repository is not None:
        settings, top, ship = places.settings, places.repository.top, places.settings.ship
        if settings.workspace.copy:
            yield check_copied(top, settings.workspace.copy)
        yield check_history(places.repository)
        yield check_hooks(settings, places.repository)
        yield check_remote(settings, places.repository, network=network)
        survey = RepositoryInfo(settings.environ)
        # If the branch is not here, the check asks the remote for it.
        if ship.target and (network or survey.has_branch(top, ship.target)):
            yield from target_checks(top, survey, ship, ship.target)
        yield from shipping_checks(top, survey, ship, Shipping(ship.mode))
        yield from check_pull_requests(settings, places.repository, network=network)
    yield check_identity(places.settings)


def check_state(places: Places) -> CheckResult:
    """Checks that the state folder is writable and lies in no workspace."""
    state, root = places.state_dir, places.workspaces
    remedy = "name another folder with --state-dir or state_dir"
    try:
        check_state_dir(state, places.top)
    except InputError as error:
        return failed_as("state", error)
    if problem := why_not_writable(state):
        return failed("state", problem, remedy)
    if root is not None and state.is_relative_to(Path(os.path.realpath(root))):
        return failed("state", f"{state} lies in {root}, where agents work", remedy)
    if root is not None and Path(os.path.realpath(root)).is_relative_to(state):
        detail = f"agents work in {root}, inside of it"
        return warned("state", detail, "set [workspace] root to another folder")
    return passed("state", str(state) if state.exists() else f"{state}, not created yet")


def why_not_writable(folder: Path) -> str:
    """Returns the reason why `folder` is not writable, or ""."""
    there = nearest_folder(folder)
    if there != folder.absolute() and folder.exists():
        return f"{folder} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return f"{there} cannot be written: {error.strerror or error}"


def check_database(state_dir: Path) -> CheckResult:
    """Checks that a run can open the database, and that its archives are there.
    `tools/verify_state.py` reads all of it."""
    if address_of(state_dir) is not None:
        return _check_server(state_dir)
    database = state_dir / STATE_DB_FILENAME
    detail = str(database) if database.exists() else "not created yet"
    gone: list[Path] = []

    def look_at_all() -> None:
        look(database)
        if database.exists():
            gone.extend(missing_archives(database))

    found = tried("database", look_at_all, detail)
    if gone:
        which = f"{gone[0]} and {len(gone) - 1} more" if gone[1:] else str(gone[0])
        why = f"{detail}: events of past waves are not there: {which} is missing or incomplete"
        return warned("database", why, "put back a copy of the file; no run needs it")
    return found


def _check_server(state_dir: Path) -> CheckResult:
    """Checks the server that many machines share: reached, its version, rights and clock."""
    try:
        found = server_of(state_dir)
    except TidegateError as error:
        return failed_as("database", error)
    if not found.may_write:
        remedy = (
            "grant CREATE on the database or the schema to make the tables, or on tables that are "
            "there: SELECT, INSERT, UPDATE, DELETE, and USAGE on the schema and its sequences"
        )
        return failed("database", f"{found.name}: the user may not write there", remedy)
    detail = f"{found.name} on PostgreSQL {found.version}, round trip {found.round_trip_ms:.1f} ms"
    if abs(found.offset_s) > _MOST_OFFSET_S:
        away = f"{detail}; this machine's clock differs from its by {found.offset_s:.0f} s"
        return warned("database", away, "set the clock; leases go by the server's")
    return passed("database", detail)


def check_halt(state_dir: Path) -> CheckResult:
    """Checks that the halt switch of this state folder, or of all machines, is off."""
    try:
        info = get_halt_info(state_dir)
    except TidegateError as error:
        return failed_as("halt", error)
    if info is None:
        return passed("halt", "not set")
    words = typed("--clear", "--state-dir", state_dir)
    clear = f"{program_command('halt', TOOLS / 'halt.py')} {words}"
    return warned("halt", f"set: {describe(info)}; no run starts", clear)


def check_tracker(path: Path) -> CheckResult:
    """Checks the default tracker, or the store where there is no file, and the items to do."""
    where = str(path)
    try:
        if path.exists():
            items: Sequence[Mapping[str, Any]] = read_tracker_file(path).entries
        elif items := _items_in_store(path.parent / STATE_DB_FILENAME):
            where = "in the store, without a file"
        else:
            made = program_command("init", TOOLS / "init.py")
            return warned("tracker", f"{path} does not exist", f"{made} creates it, or name yours")
    except TidegateError as error:
        return failed_as("tracker", error)
    todo = list(filter(is_open, items))
    detail = f"{where}: {len(todo)} of {len(items)} items to do"
    problems = [*tracker_problems(items), *(p for item in todo for p in validate_item(item))]
    if not problems:
        return passed("tracker", detail)
    return warned("tracker", f"{detail}; {problems[0]}", f"{len(problems)} in all: see a dry run")


def _items_in_store(database: Path) -> list[dict[str, Any]]:
    """The items of a store; none if it has not begun, or if it cannot be read, which
    `check_database` reports."""
    try:
        if not has_begun(database):
            return []
        with StoreSummary(str(database)) as summary:
            return summary.items()
    except (*Error, ValueError):
        return []


def check_copied(top: Path, paths: Sequence[str]) -> CheckResult:
    """Checks that the checkout holds the paths of `[workspace] copy`."""
    gone = [path for path in paths if not (top / path).exists()]
    if not gone:
        return passed("copy", ", ".join(paths))
    remedy = "create it, or remove it from [workspace] copy"
    return failed("copy", f"not in {top}: {', '.join(gone)}", remedy)


def check_history(repository: Repository) -> CheckResult:
    """Checks that the history is complete, because comparisons of branches need it."""
    if not repository.shallow:
        return passed("history", "whole")
    remedy = "git fetch --unshallow; in CI, check out with fetch-depth: 0"
    return warned("history", "a shallow clone, which lacks older commits", remedy)


def check_hooks(settings: Settings, repository: Repository) -> CheckResult:
    """Names the user's hooks that run at a ship, and warns if their folder is missing."""
    if settings.ship.hooks == "off":
        return passed("hooks", 'none run ([ship] hooks = "off")')
    if missing := missing_hooks(repository, settings.environ):
        return warned("hooks", missing, HOOKS_REMEDY)
    folder = hooks_folder(repository, settings.environ)
    there = [name for name in HOOKS if os.access(folder / name, os.X_OK)]
    return passed("hooks", f"{', '.join(there)} in {folder}" if there else "none")


def check_remote(settings: Settings, repository: Repository, *, network: bool) -> CheckResult:
    """Checks the remote for wave branches. With `network`, it must answer without a prompt."""
    try:
        remote = find_remote(repository, settings.environ, settings.ship.remote)
    except InputError as error:
        return failed("remote", str(error), "correct [ship] remote, or git remote add it")
    except (GitError, CannotRunError) as error:
        return failed("remote", str(error), "correct the remotes that git config --list shows")
    if remote is None:
        return passed("remote", "none: wave branches stay in this repository")
    if not network:
        return passed("remote", f"{_shown(remote)}, not contacted (--network contacts it)")
    problem = why_unreachable(remote, repository, settings.environ, REMOTE_TIMEOUT_S)
    remedy = "log in so that git needs no prompt there, or correct the address"
    detail = f"{_shown(remote)} does not answer: {problem}"
    return failed("remote", detail, remedy) if problem else passed("remote", _shown(remote))


def _shown(remote: Remote) -> str:
    return f"{remote.name} ({redacted(remote.url)})"


def check_identity(settings: Settings) -> CheckResult:
    """Reports the author of commits. It is never the user, so git needs no user name."""
    ship = settings.ship
    return passed("identity", f"commits are by {ship.bot_name} <{ship.bot_email}>")
