"""Checks that pull requests can be made, if `[ship] pr` is set.

Changes and spends nothing. The log-in is tried only if the network is allowed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from driver.execution.processes import capture
from driver.git.private_git import Repository, find_remote
from driver.pull_requests.forge import GH, NONE, environment_of, names_of
from driver.terminal.check_result import CheckResult, failed, passed, warned
from state_store.documents.errors import TidegateError
from tools.settings.load import Settings

NAME = "pull_requests"
_TIMEOUT_S = 20.0
# The prefix of GitHub's tokens for apps, which include workflow jobs.
_APPS_TOKEN = "ghs_"


def check_pull_requests(
    settings: Settings, repository: Repository, *, network: bool
) -> Iterator[CheckResult]:
    """Checks that a pushed branch can become a pull request. Yields nothing if `pr` is off."""
    if settings.ship.pr == NONE:
        return
    environ = settings.environ
    if settings.ship.pr_command:
        program = settings.ship.pr_command[0]
        found = shutil.which(program, path=environ.get("PATH"))
        remedy = "install it, or correct [ship] pr_command"
        missing = failed(NAME, f"{program} was not found", remedy)
        yield passed(NAME, f"made by {found}") if found else missing
        return
    yield _gh(settings, repository, network=network)
    token = environ.get("GH_TOKEN") or environ.get("GITHUB_TOKEN") or ""
    if environ.get("GITHUB_ACTIONS") == "true" and token.startswith(_APPS_TOKEN):
        detail = "GitHub runs no checks on pull requests made with a workflow's built-in token"
        remedy = "if GH_TOKEN is that token, replace it by the token of an app or a bot account"
        yield warned(f"{NAME}.token", detail, remedy)


def _gh(settings: Settings, repository: Repository, *, network: bool) -> CheckResult:
    program = shutil.which(GH, path=settings.environ.get("PATH"))
    if program is None:
        return failed(NAME, "gh is not installed", "install it, or set [ship] pr_command")
    try:
        remote = find_remote(repository, settings.environ, settings.ship.remote)
    except TidegateError:  # the remote check reports this error
        remote = None
    url, address = (remote.url, remote.address) if remote else ("", "")
    name = names_of(url, address, settings.environ.get("GH_REPO", ""))[0]
    if not name:
        detail = "the remote's address names no repository of a forge"
        return failed(NAME, detail, "set GH_REPO to HOST/OWNER/NAME, or [ship] pr_command")
    host = name.split("/")[0] if name.count("/") == 2 else "github.com"
    argv = (program, "auth", "status" if network else "token", "--hostname", host)
    env = environment_of(settings.environ)
    done = capture(argv, cwd=repository.top, env=env, timeout_s=_TIMEOUT_S)
    if not done.ok:
        remedy = f"gh auth login --hostname {host}, or set GH_TOKEN"
        return failed(NAME, f"gh is not logged in to {host}", remedy)
    tried = "" if network else ", not contacted (--network contacts it)"
    return passed(NAME, f"made by {program} at {name}{tried}")
