"""Shipped work is looked for where it may have gone: taken in part, under another target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.git.private_git import PrivateGit, open_repository
from driver.publishing import published_history as history
from driver.publishing.published_history import History
from state_store.write_api import STATE_DB_FILENAME
from tests.support.programs import Project, Ran, git, item
from tests.support.repos import Checkout, make_repo, user_environ

pytestmark = pytest.mark.in_walls

BRANCH = "wave/2026-01-31-w1"
TRAILERS = "Wave-Id: w1\n" + "".join(f"Item-Id: {n}\nItem-Slug: {n.lower()}\n" for n in "AB")


def told(done: Ran) -> dict[str, str]:
    return {one["id"]: one["what"] for one in done.report.get("items_followed", ())}


def shipped_as_one(project: Project) -> list[dict[str, Any]]:
    """Items A and B in one commit of a wave branch; what it did not ship holds every cycle up."""
    base = project.git("rev-parse", "main").strip()
    project.git("checkout", "-q", "-b", BRANCH)
    for name in ("a.txt", "b.txt"):
        (project.top / name).write_text("good", encoding="utf-8")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", f"2 items: a, b\n\n{TRAILERS}")
    kept = {"wave": "w1", "commit": project.git("rev-parse", "HEAD").strip(),
            "branch": BRANCH, "target": "main", "onto": base}  # fmt: skip
    project.git("checkout", "-q", "main")
    never = {"nextAttemptAt": "2999-01-01T00:00:00Z"}
    return [item(n, status="in_progress", shipped=kept, **never) for n in ("a", "b")]


def test_of_one_commit_for_several_items_those_whose_files_were_taken_are_done(
    project: Project,
) -> None:
    project.track(*shipped_as_one(project))
    project.git("checkout", "-q", BRANCH, "--", "a.txt")
    project.git("commit", "-q", "-m", "only the first")
    project.git("branch", "-q", "-D", BRANCH)
    assert told(project.schedule()) == {"A": "merged", "B": "dropped"}
    assert [project.item_now(name)["status"] for name in "AB"] == ["done", "todo"]


def renamed(project: Project, name: str, default: str) -> Path:
    """A remote on which main was renamed since the project was cloned from it."""
    remote = project.home / "remote.git"
    git(project.home, "clone", "-q", "--bare", str(project.top), str(remote))
    project.git("remote", "add", "origin", str(remote))
    project.git("fetch", "-q", "origin")
    git(remote, "branch", "-q", "-m", "main", name)
    git(remote, "symbolic-ref", "HEAD", f"refs/heads/{default}")
    return remote


def merge_there(project: Project, remote: Path, target: str) -> None:
    other = project.home / "other"
    git(project.home, "clone", "-q", "-b", target, str(remote), str(other))
    git(other, "merge", "-q", "--no-edit", f"origin/{BRANCH}")
    git(other, "commit", "-q", "--allow-empty", "-m", "and more")
    git(other, "push", "-q", "origin", target, f":{BRANCH}")


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "flags"), [("trunk", ()), ("next", ("--target", "next"))], ids=["default", "settings"]
)
def test_work_whose_target_was_renamed_is_looked_for_where_that_is_now(
    project: Project, name: str, flags: tuple[str, ...]
) -> None:
    items = shipped_as_one(project)
    remote = renamed(project, name, "trunk" if name == "trunk" else "nowhere")
    project.track(*items)
    waiting = project.schedule(*flags)
    assert told(waiting) == {}
    assert waiting.report["follow_up_warnings"] == [
        f"main, which A, B shipped for, is not on the remote any more; {name} was looked at"
        " instead: name the branch that took its place as [ship] target"
    ]
    project.git("branch", "-q", "-D", BRANCH)
    merge_there(project, remote, name)
    done = project.schedule(*flags)
    assert told(done) == {"A": "merged", "B": "merged"}
    assert "follow_up_warnings" not in done.report


@pytest.mark.more
def test_a_target_that_is_gone_without_a_successor_is_told_once_and_drops_nothing(
    project: Project,
) -> None:
    items = shipped_as_one(project)
    remote = renamed(project, "trunk", "nowhere")
    merge_there(project, remote, "trunk")
    project.git("branch", "-q", "-D", BRANCH)
    project.track(*items)
    done = project.schedule()
    (warning,) = done.report["follow_up_warnings"]
    assert warning.startswith("main, which A, B shipped for, is not on the remote any more: name")
    assert [project.item_now(name)["status"] for name in "AB"] == ["in_progress"] * 2


@pytest.mark.more
def test_a_target_that_was_never_on_the_remote_is_where_it_always_was(project: Project) -> None:
    items = shipped_as_one(project)
    remote = project.home / "remote.git"
    git(project.home, "init", "-q", "--bare", str(remote))
    project.git("remote", "add", "origin", str(remote))
    project.git("push", "-q", "origin", BRANCH)
    project.track(*items)
    assert "follow_up_warnings" not in project.schedule().report


# What a history tells, without walking through all of it each time


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path), {"a.txt": "base\n"})


class Walked:
    """A history of `repo`, and what each look at it found."""

    def __init__(self, repo: Checkout, folder: Path) -> None:
        repository = open_repository(repo.path, user_environ(folder))
        (folder / "state").mkdir()
        (folder / "state" / STATE_DB_FILENAME).touch()
        self.repo, self.history = repo, History.kept(folder / "state", repository, "main")
        self.git = PrivateGit.create(folder / "ours.git", repository, user_environ(folder))

    def ship(self, name: str) -> str:
        message = f"{name}\n\nWave-Id: w\nItem-Id: {name}\nItem-Task: t\n"
        self.repo.git("commit", "-q", "--allow-empty", "-m", message)
        return self.tip

    @property
    def tip(self) -> str:
        return self.repo.git("rev-parse", "HEAD").strip()

    def found(self) -> list[str]:
        return sorted(one.item for one in self.history.shipments(self.git, self.tip))

    def believes(self, tip: str, *names: str) -> None:
        """Have it kept that the history of `tip` tells of these."""
        assert self.history.file is not None
        listed = [["w", name, "t", "0" * 40] for name in names]
        self.history.file.write_text(json.dumps({"tip": tip, "found": listed}), encoding="utf-8")


@pytest.fixture
def walked(repo: Checkout, tmp_path: Path) -> Walked:
    return Walked(repo, tmp_path)


def test_only_what_is_new_in_a_history_is_walked_through(walked: Walked) -> None:
    before = walked.ship("A")
    assert walked.found() == ["A"]
    walked.believes(before, "known")  # what is kept is not asked for again
    walked.repo.git("checkout", "-q", "-b", "old", "HEAD^")
    walked.ship("B")
    walked.repo.git("checkout", "-q", "main")
    walked.repo.git("merge", "-q", "--no-ff", "-m", "of long ago", "old")
    assert walked.found() == ["B", "known"]
    assert walked.found() == ["B", "known"]


def test_a_history_that_was_rewritten_is_walked_through_anew(walked: Walked) -> None:
    walked.ship("A")
    walked.ship("B")
    assert walked.found() == ["A", "B"]
    walked.repo.git("reset", "-q", "--hard", "HEAD~2")
    walked.ship("C")
    assert walked.found() == ["C"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kept", ["{", "[]", '{"tip": 7, "found": []}', '{"found": [["x"]]}'])
def test_what_is_kept_of_a_history_and_cannot_be_read_is_found_again(
    walked: Walked, kept: str
) -> None:
    walked.ship("A")
    assert walked.found() == ["A"]
    assert walked.history.file is not None
    walked.history.file.write_text(kept, encoding="utf-8")
    assert walked.found() == ["A"]


def test_nothing_is_kept_of_a_history_that_is_cut_off_or_where_there_is_no_store(
    repo: Checkout, tmp_path: Path
) -> None:
    environ = user_environ(tmp_path)
    clone = tmp_path / "clone"
    repo.git("commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo.path}", str(clone))
    whole, cut = (open_repository(path, environ) for path in (repo.path, clone))
    assert History.kept(tmp_path, whole, "main") == History()
    (tmp_path / STATE_DB_FILENAME).touch()
    assert History.kept(tmp_path, whole, "main").file is not None
    assert History.kept(tmp_path, cut, "main") == History()
    assert history.FOLDER not in {path.name for path in tmp_path.iterdir()}
