"""A pull request that cannot be asked for hides no other one and no other news."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.pull_requests.body import Proposed, PullRequest
from driver.scheduler.pending_requests import keys_about
from tests.support.forges import fake_gh
from tests.support.repos import hook
from tests.support.waves import Scene, built, item, writes

FILES = {"a.txt": "base\n", "b.txt": "base\n"}
OFF = '[review]\nmode = "off"\n[verify]\ncanary = false\nred_first = "off"\n'
MADE = Proposed("r", "b", "c", "w", made=PullRequest("u", 7, "open"))
NOT_MADE = Proposed("r", "b", "c", "w", error="no network")


def good(name: str) -> dict[str, Any]:
    return item(name, f"{name}.txt", ["grep", "-qx", "good", f"{name}.txt"])


@pytest.mark.skipif(sys.platform == "win32", reason="a hook for a POSIX shell")
def test_a_branch_that_was_just_pushed_is_asked_for_though_earlier_ones_are_not_known(
    tmp_path: Path,
) -> None:
    gh = fake_gh(tmp_path / "gh")
    path = f"{gh.bin}{os.pathsep}{os.environ['PATH']}"
    config = f'{OFF}[ship]\npr = "draft"\n'
    scene = Scene(tmp_path, FILES, remote=True, config=config, environ={"PATH": path})
    assert scene.remote
    scene.repo.git("remote", "set-url", "origin", "https://github.com/acme/widgets.git")
    scene.repo.git("remote", "set-url", "--push", "origin", str(scene.remote.path))
    scene.play({"a": writes(a__txt="good\n")}, [good("a")])
    journal = shlex.quote(str(scene.state / "journal"))
    hook(scene.remote.path / "hooks", "post-receive", f"mv {journal} {journal}.away; : > {journal}")
    later, _ = scene.play(
        {"b": writes(b__txt="good\n")}, [good("a"), good("b")], wave_id="w2", resume=True
    )
    [shipped] = [o for o in later["shipped_repos"] if o["sha"] == built(later)["b"]["commit"]]
    assert shipped["pr"] is not None
    assert any(shipped["branch"] in str(call["argv"]) for call in gh.created)
    [lost] = [one for one in later["pull_requests"] if one["pr"] is None]
    assert (lost["branch"], "journal" in lost["prError"]) == ("", True)


@pytest.mark.parametrize(
    ("asked", "code", "left"),
    [
        ((MADE,), 0, {}),
        ((MADE,), 3, {}),
        ((MADE, NOT_MADE), 0, {"success": False, "exit_code": 1, "error": "no network"}),
        ((MADE, NOT_MADE), 3, {}),
    ],
)
def test_a_request_that_could_not_be_made_changes_no_exit_code_but_that_of_success(
    asked: tuple[Proposed, ...], code: int, left: dict[str, Any]
) -> None:
    told = keys_about(asked, {"success": code == 0, "exit_code": code})
    assert len(told.pop("pull_requests")) == len(asked)
    assert told == left
