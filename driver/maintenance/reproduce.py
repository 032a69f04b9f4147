"""Reproduces the proof of a shipped commit: finds it, checks it out, tests it, and compares. The
earlier receipt is in the state folder. Without it, the commit's own trailers state the claim: this
tree, green by this command. The repository and the state are not changed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.driver import CommandResult
from driver.backends.cli.endings import command_result
from driver.domain.commit_message import (
    ITEM_ID,
    ITEM_SLUG,
    PROVED_TREE,
    TEST_COMMAND,
    WAVE_ID,
    WORK_DIR,
    items_of,
    trailers_in,
)
from driver.domain.results import RunKind, TestRun, receipts_in, receipts_of_evidence
from driver.execution.process_marks import new_key, new_mark
from driver.execution.processes import Command, Processes
from driver.filesystem.tree import remove_tree
from driver.git.command import private_environment, run_git, text
from driver.git.private_git import PrivateGit, Repository, open_repository
from driver.git.repository import read_from
from driver.maintenance.past_waves import objects_in, past_waves
from driver.policy import known_red
from driver.run_state.slots import slot_if_wanted
from driver.runners.result import Counts, Doubt
from driver.scheduler.context import repository_in_sight
from driver.terminal.safe_text import counted
from driver.test_command.invocations import Command as Words
from driver.verification.reports import counting
from driver.verification.test_run import Test, counted_run, run_of, test_environment
from driver.walls.wall import Role
from driver.walls.wave_walls import walls_of
from driver.workspace.clone_context import CloneContext
from driver.workspace.root import workspace_root
from driver.workspace.setup import preparation
from state_store.documents.errors import CannotRunError, InputError
from state_store.values.lazy_dataclass import dataclass, replace
from tools.settings.load import Settings, process_environment
from tools.settings.load import load as load_settings

_RUN = "reproduce"


@dataclass(frozen=True, slots=True)
class ProvenCommit:
    """A commit, its `tree`, and the claimed proof; `then` is the receipt. `disowned` means that the
    wave has receipts of the item, but none of this tree."""

    commit: str
    tree: str
    proved_tree: str
    command: str
    work_dir: str
    then: TestRun | None
    disowned: bool = False


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The result of the repeated test; `differences` are sentences."""

    shipped: ProvenCommit
    now: TestRun
    differences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        then = self.shipped.then
        return {
            "commit": self.shipped.commit,
            "tree": self.shipped.tree,
            "same": not self.differences,
            "differences": list(self.differences),
            "then": then.to_json() if then else None,
            "now": self.now.to_json(),
        }


def find(repo: Repository, settings: Settings, wave: str, item: str) -> ProvenCommit:
    """The commit of `item` (slug or id) that `wave` shipped. A unique prefix of the wave's id is
    enough. Raises InputError if there is none, or if several waves have this prefix."""
    begun = list(_commits_of(repo, settings, wave)) if wave else []
    waves = {trailers[WAVE_ID] for _, trailers in begun}
    if len(waves - {wave}) > 1 and wave not in waves:
        names = ", ".join(sorted(waves))
        raise InputError(f"{wave!r} may be any of {names}: give more of the wave's id")
    wave = wave if wave in waves or not waves else waves.pop()
    receipts = tuple(_receipts(settings.state_dir, wave, item))
    named = [
        (commit, trailers)
        for commit, trailers in begun
        if trailers[WAVE_ID] == wave and item in (trailers[ITEM_SLUG], trailers[ITEM_ID])
    ]
    if not named:
        raise InputError(
            f"no commit here is of item {item!r} of wave {wave!r}: name both as the"
            " report does, and fetch the branch that it was shipped to"
        )
    commit, trailers = named[0]
    tree = trailers["tree"]
    then = next((run for run in receipts if run.tree == tree and run.green), None)
    return ProvenCommit(
        commit=commit,
        tree=tree,
        proved_tree=trailers[PROVED_TREE],
        command=then.command if then else trailers[TEST_COMMAND],
        work_dir=then.work_dir if then else trailers.get(WORK_DIR, "."),
        then=then,
        disowned=bool(receipts) and then is None,
    )


def reproduce(shipped: ProvenCommit, repo: Repository, settings: Settings) -> Reproduction:
    """Test the commit in a temporary folder. Raises CannotRunError if the set-up fails or the test
    cannot be run."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-reproduce-"))
    try:
        now = _test(shipped, repo, settings, folder.resolve())
        if shipped.then is not None:
            now = known_red.accepted(now, shipped.then.known_red, shipped.then.exit_code)
    finally:
        remove_tree(folder)
    if now.kind is RunKind.COULD_NOT_RUN:
        raise CannotRunError(now.reason)
    return Reproduction(shipped, now, tuple(_differences(shipped, now, settings)))


def _test(shipped: ProvenCommit, repo: Repository, settings: Settings, folder: Path) -> TestRun:
    processes, key = Processes(), new_key()
    git = PrivateGit.create(folder / "private.git", repo, settings.environ)
    walls = walls_of(settings, None, (repo.top,), processes)
    objects = read_from(git.path / "objects")
    prepare = preparation(settings, processes, key, repo.top, walls, objects)
    root = folder / "workspaces"
    context = CloneContext(root, git, replace(repo, head=shipped.commit), prepare)
    wanted = slot_if_wanted(shipped.command, settings.verify.env)
    with context.test_checkout(shipped.tree) as checkout, wanted as own:
        environment = {**test_environment(settings), **checkout.environment, **own}
        top = checkout.path / shipped.work_dir

        reports = folder / "reports"
        inside = walls.around(Role.TEST, replace(context.places(checkout.path), written=(reports,)))

        def once(command: Words, variables: Mapping[str, str]) -> CommandResult:
            limit, marked = settings.verify.timeout_s, {**variables, **new_mark(key)}
            asked = Command(counting(command), top, marked, limit, output=folder / "test")
            return replace(command_result(inside.run(processes, asked)), sandbox=inside.name)

        result, found = counted_run(shipped.command, top, environment, reports, once)
        test = Test(shipped.command, shipped.work_dir, base="")
        run = run_of(test, shipped.tree, result, checkout.tampered(), settings, found)
    return replace(run, purpose=_RUN, environment=tuple(sorted(environment)))


def _differences(shipped: ProvenCommit, now: TestRun, settings: Settings) -> Iterator[str]:
    if shipped.proved_tree != shipped.tree:
        yield f"the commit holds tree {shipped.tree}, but {shipped.proved_tree} was proven"
    if shipped.disowned:
        yield "the wave's report has receipts of the item, but none of them is green on this tree"
    then = shipped.then
    kind, code = (then.kind, then.exit_code) if then else (RunKind.GREEN, 0)
    if (now.kind, now.exit_code) != (kind, code):
        yield f"the test was {kind} (exit {code}), but now is {now.kind} (exit {now.exit_code})"
        yield from _cause(now, settings)
    if then and then.counts != now.counts:
        yield f"the runner counted {_described(then.counts)}, but now {_described(now.counts)}"


def _cause(now: TestRun, settings: Settings) -> Iterator[str]:
    """The last line that the test printed, and the settings that this configuration may lack."""
    if last := next((line for line in reversed(now.output.splitlines()) if line.strip()), ""):
        yield f"the last line of its output: {last.strip()[:300]}"
    absent = [key for key in ("setup", "copy") if not getattr(settings.workspace, key)]
    if absent and now.kind is not RunKind.GREEN:
        read = ", ".join(map(str, settings.files)) or "none was read"
        yield (
            f"no [workspace] {' and no '.join(absent)} is set here (config files: {read}); if the"
            " wave had what the test needs from there, name its config file with --config"
        )


def _described(counts: Counts | Doubt | None) -> str:
    if isinstance(counts, Counts):
        tests = counted(counts.ran, "test")
        return f"{tests} of {counts.runner}, {counts.failed} failed, {counts.skipped} skipped"
    return f"nothing ({counts.reason})" if counts else "nothing"


def _commits_of(
    repo: Repository, settings: Settings, wave: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """The commits of waves whose ids begin with `wave`, on any branch, the newest first. Each item
    of a commit comes with its trailers and `tree`."""
    trailers = "%(trailers:only=true)"
    asked = (f"--git-dir={repo.git_dir}", "log", "--all", "-z", "--fixed-strings",
             f"--grep={WAVE_ID}: ", f"--format=%H%x1E%T%x1E{trailers}")  # fmt: skip
    env = private_environment(settings.environ, repo.git_dir)
    for entry in text(run_git(asked, cwd=repo.top, env=env).stdout).split("\0"):
        if not entry.strip():
            continue
        commit, tree, lines = entry.split("\x1e", 2)
        needed = {ITEM_SLUG, ITEM_ID, TEST_COMMAND, PROVED_TREE}
        for values in items_of(trailers_in(lines)):
            if values.get(WAVE_ID, "").startswith(wave) and needed <= values.keys():
                yield commit, {**values, "tree": tree}


def _receipts(state_dir: Path, wave: str, item: str) -> Iterator[TestRun]:
    """The receipts of the item's tests in the wave's report."""
    for past in past_waves(state_dir):
        if past.wave_id != wave:
            continue
        for record in past.built:
            if item in (record.get("slug"), record.get("id")):
                whole = past.whole(record)
                yield from receipts_in(whole.get("together"))
                for attempt in objects_in(whole.get("attempts")):
                    yield from receipts_of_evidence(attempt.get("evidence"))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings and the repository: the given one, else the current folder's, else None."""

    settings: Settings
    repository: Repository | None

    @property
    def state_dir(self) -> Path:
        """The state folder, which may not exist."""
        return Path(os.path.realpath(self.settings.state_dir))

    @property
    def workspaces(self) -> Path | None:
        """The folder for the workspaces of runs on this repository."""
        if self.repository is None:
            return None
        environ = self.settings.environ
        return workspace_root(self.settings.workspace.root, environ, self.repository)


def surroundings(
    repo: str | None, state_dir: str | None, config: str | None = None
) -> Surroundings:
    """Read the settings and the repository. Raises InputError if either is invalid."""
    environ = process_environment()
    top = Path(repo) if repo else repository_in_sight((Path.cwd(),))
    repository = open_repository(top, environ) if top else None
    project = repository.top if repository else None
    named = Path(config) if config else None
    settings = load_settings(project=project, config=named, flags={"state_dir": state_dir})
    return Surroundings(settings, repository)


def existing_state(found: Surroundings) -> Path:
    """The state folder. Raises InputError if it does not exist."""
    if not found.state_dir.is_dir():
        raise InputError(f"there is no state folder {found.state_dir}: name it with --state-dir")
    return found.state_dir
