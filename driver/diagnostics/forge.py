"""What `doctor` asks about pull requests, where `[ship] pr` wants them: who would make them.

Nothing is made or spent; a log-in is looked up here, and tried only where the network is allowed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from driver.execution.processes import Captured, capture
from driver.git.private_git import Repository, find_remote
from driver.pull_requests.forge import GH, NONE, environment_of, names_of
from driver.terminal.check_result import CheckResult, failed, passed, warned
from state_store.documents.errors import TidegateError
from tools.settings.load import Settings

NAME = "pull_requests"
_TIMEOUT_S = 20.0
# What GitHub gives to an app, and so to a workflow's job.
_APPS_TOKEN = "ghs_"


def check_pull_requests(
    settings: Settings, repository: Repository, *, network: bool
) -> Iterator[CheckResult]:
    """Whether a pushed branch could become a pull request; nothing where none is wanted."""
    if settings.ship.pr == NONE:
        return
    if settings.ship.pr_command:
        yield _command(settings)
    else:
        yield _gh(settings, repository, network=network)
        yield from _actions(settings)


def _command(settings: Settings) -> CheckResult:
    program = settings.ship.pr_command[0]
    found = shutil.which(program, path=settings.environ.get("PATH"))
    if found is None:
        remedy = "install it, or correct [ship] pr_command"
        return failed(NAME, f"{program} is not there", remedy)
    return passed(NAME, f"made by {found}")


def _gh(settings: Settings, repository: Repository, *, network: bool) -> CheckResult:
    program = shutil.which(GH, path=settings.environ.get("PATH"))
    if program is None:
        return failed(NAME, "gh is not installed", "install it, or set [ship] pr_command")
    name = _asked(settings, repository)
    if not name:
        detail = "the remote's address names no repository of a forge"
        return failed(NAME, detail, "set GH_REPO to HOST/OWNER/NAME, or [ship] pr_command")
    host = name.split("/")[0] if name.count("/") == 2 else "github.com"
    asked = ("status",) if network else ("token",)
    done = _run(settings, repository.top, (program, "auth", *asked, "--hostname", host))
    if not done.ok:
        remedy = f"gh auth login --hostname {host}, or set GH_TOKEN"
        return failed(NAME, f"gh is not logged in to {host}", remedy)
    tried = "" if network else ", not asked (--network asks it)"
    return passed(NAME, f"made by {program} at {name}{tried}")


def _asked(settings: Settings, repository: Repository) -> str:
    try:
        remote = find_remote(repository, settings.environ, settings.ship.remote)
    except TidegateError:  # told by the check of the remote
        remote = None
    url, address = (remote.url, remote.address) if remote else ("", "")
    return names_of(url, address, settings.environ.get("GH_REPO", ""))[0]


def _run(settings: Settings, folder: Path, argv: tuple[str, ...]) -> Captured:
    env = environment_of(settings.environ)
    return capture(argv, cwd=folder, env=env, timeout_s=_TIMEOUT_S)


def _actions(settings: Settings) -> Iterator[CheckResult]:
    environ = settings.environ
    token = environ.get("GH_TOKEN") or environ.get("GITHUB_TOKEN") or ""
    if environ.get("GITHUB_ACTIONS") == "true" and token.startswith(_APPS_TOKEN):
        detail = "GitHub starts no checks on what a workflow's built-in token made"
        remedy = "if GH_TOKEN is that one, give it a token of an app or a bot account"
        yield warned(f"{NAME}.token", detail, remedy)
