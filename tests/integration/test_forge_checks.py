"""doctor says whether pull requests could be made, without making one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from driver.diagnostics.forge import check_pull_requests
from driver.git.private_git import open_repository
from driver.terminal.check_result import CheckResult, Level
from tests.support.forges import FakeGh, fake_gh
from tests.support.repos import make_repo, user_environ
from tools.settings.load import load

WEB = "https://github.com/acme/widgets.git"


def checks(
    folder: Path, ship: str, environ: Mapping[str, str], *, url: str = WEB, network: bool = False
) -> dict[str, CheckResult]:
    home = user_environ(folder / "home", **environ)
    repo = make_repo(folder / "repo", home, {"a": "a\n"})
    repo.git("remote", "add", "origin", url)
    config = folder / "t.toml"
    config.write_text(f"[ship]\n{ship}\n", encoding="utf-8")
    settings = load(project=repo.path, config=config, environ=home, cwd=folder)
    repository = open_repository(repo.path, home)
    return {c.name: c for c in check_pull_requests(settings, repository, network=network)}


def with_gh(folder: Path) -> tuple[FakeGh, dict[str, str]]:
    gh = fake_gh(folder / "gh")
    return gh, {"PATH": f"{gh.bin}:/usr/bin:/bin"}


def test_nothing_is_looked_at_where_none_is_wanted(tmp_path: Path) -> None:
    assert checks(tmp_path, 'pr = "none"', {}) == {}


@pytest.mark.parametrize(("network", "asked"), [(False, "token"), (True, "status")])
def test_a_log_in_is_tried_only_where_the_network_is_allowed(
    network: bool, asked: str, tmp_path: Path
) -> None:
    gh, environ = with_gh(tmp_path)
    [check] = checks(tmp_path, 'pr = "draft"', environ, network=network).values()
    assert (check.level, [call["argv"] for call in gh.calls]) == (
        Level.OK,
        [["auth", asked, "--hostname", "github.com"]],
    )
    assert "acme/widgets" in check.detail


@pytest.mark.parametrize(
    ("case", "detail"),
    [
        ("missing", "gh is not installed"),
        ("logged out", "not logged in to github.com"),
        ("elsewhere", "names no repository"),
    ],
)
def test_what_would_keep_a_request_from_being_made_is_told(
    case: str, detail: str, tmp_path: Path
) -> None:
    gh, environ = with_gh(tmp_path)
    if case == "missing":
        (gh.bin / "gh").unlink()
    if case == "logged out":
        gh.order(fail="no oauth token found for github.com")
    url = "/srv/git/a.git" if case == "elsewhere" else WEB
    [check] = checks(tmp_path, 'pr = "ready"', environ, url=url).values()
    assert (check.level, bool(check.remedy)) == (Level.FAIL, True)
    assert detail in check.detail


def test_a_command_has_to_be_there(tmp_path: Path) -> None:
    [there] = checks(
        tmp_path / "1", f'pr = "draft"\npr_command = ["{sys.executable}"]', {}
    ).values()
    [gone] = checks(tmp_path / "2", 'pr = "draft"\npr_command = ["no-such"]', {}).values()
    assert (there.level, gone.level) == (Level.OK, Level.FAIL)


def test_a_workflow_is_warned_of_its_built_in_token(tmp_path: Path) -> None:
    _, environ = with_gh(tmp_path)
    environ |= {"GITHUB_ACTIONS": "true", "GH_TOKEN": "ghs_0123456789"}
    found = checks(tmp_path, 'pr = "draft"', environ)
    assert found["pull_requests.token"].level is Level.WARN
