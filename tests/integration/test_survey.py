"""Git is asked once about each place, however often a cycle thinks about it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.errors import InputError
from tests.support.programs import Project, environment, git, item, make_template

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="puts a shell script before git")


def test_what_was_found_is_not_asked_for_again(tmp_path: Path) -> None:
    top = make_template(tmp_path / "repo")
    survey = RepositoryInfo(environment(tmp_path))
    assert survey.top_of(top / "sub") == top
    survey.check_repository(top)
    shutil.rmtree(top / ".git")
    assert survey.top_of(top / "sub") == top
    survey.check_repository(top)
    assert survey.top_of(tmp_path) is None


def test_a_repository_that_was_refused_is_looked_at_again(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    survey = RepositoryInfo(environment(tmp_path))
    with pytest.raises(InputError, match="has no commit yet"):
        survey.check_repository(top)
    git(top, "commit", "-q", "--allow-empty", "-m", "start")
    survey.check_repository(top)


@POSIX_ONLY
def test_more_items_in_one_place_take_no_more_looks_at_it(tmp_path: Path) -> None:
    project = Project(tmp_path, make_template(tmp_path / "template"))
    log, wrapper = tmp_path / "log", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho run >> {log}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    env = environment(tmp_path)
    counts = []
    for number in (1, 1, 4):  # the first run may be the only one that asks for git's version
        project.track(*(item(f"i{n}") for n in range(number)))
        done = project.schedule("--dry-run", env={**env, "PATH": f"{wrapper.parent}:{env['PATH']}"})
        assert len(done.report["items_selected"]) == number
        counts.append(len(log.read_text().split()))
        log.unlink()
    assert counts[1] == counts[2]
