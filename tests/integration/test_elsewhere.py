"""What others shipped of the same items: found on the remote, and never shipped a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.git.private_git import PrivateGit, find_remote, open_repository
from driver.git.push import FENCE, Sending, send
from driver.git.push_result import MOVED, PushResult
from driver.git.remote import Remote
from tests.support.programs import Project, Ran, git, item
from tests.support.repos import hook, make_bare, make_repo, user_environ

pytestmark = pytest.mark.in_walls


def told(done: Ran) -> list[tuple[str, str]]:
    return [(one["id"], one["what"]) for one in done.report.get("items_followed", ())]


def with_remote(project: Project) -> Path:
    remote = project.home / "remote.git"
    git(project.home, "clone", "-q", "--bare", str(project.top), str(remote))
    project.git("remote", "add", "origin", str(remote))
    return remote


class Sender:
    """A repository with a remote, and two commits that are to be branches there."""

    def __init__(self, folder: Path) -> None:
        environ = user_environ(folder / "home")
        user = make_repo(folder / "repo", environ, {"a": "a"})
        self.bare = make_bare(folder / "remote.git", environ)
        user.git("remote", "add", "origin", str(self.bare.path))
        self.first = user.git("rev-parse", "HEAD")
        self.second = user.commit({"b": "b"})
        repository = open_repository(user.path, environ)
        self.git = PrivateGit.create(folder / "private.git", repository, environ)
        remote = find_remote(repository, environ)
        assert remote is not None
        self.remote: Remote = remote

    def send(self, commit: str, branch: str, fence: str | None) -> PushResult:
        sending = Sending(commit, branch, None, fence)
        return send(self.git.path, self.git.environ, self.remote, sending)

    def refs(self) -> dict[str, str]:
        shown = self.bare.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split() for line in shown)


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path)


def test_branch_and_fence_move_together_and_who_finds_the_fence_moved_moves_neither(
    sender: Sender,
) -> None:
    assert sender.send(sender.first, "wave/1", "") == PushResult(True)
    there = {"refs/heads/wave/1": sender.first, FENCE: sender.first}
    assert sender.refs() == there
    late = sender.send(sender.second, "wave/2", "")
    assert (late.ok, late.kind) == (False, MOVED)
    assert sender.refs() == there
    assert sender.send(sender.second, "wave/2", sender.first).ok
    assert sender.refs()[FENCE] == sender.second
    back = sender.send(sender.first, "wave/3", sender.second)  # it is no branch: it may go back
    assert (back.ok, sender.refs()[FENCE]) == (True, sender.first)


@pytest.mark.more
def test_a_fence_that_moves_while_the_push_is_on_its_way_holds_it_back(sender: Sender) -> None:
    moves = f"git update-ref {FENCE} {sender.first}"
    hook(sender.bare.path / "hooks", "pre-receive", f"unset GIT_QUARANTINE_PATH; {moves}")
    sender.bare.git("fetch", "-q", str(sender.git.path.parent / "repo"), "main")
    late = sender.send(sender.second, "wave/2", "")
    assert (late.ok, late.kind) == (False, MOVED), late
    assert sender.refs() == {FENCE: sender.first}


@pytest.mark.more
@pytest.mark.parametrize("setting", ["receive.hideRefs=refs/tidegate", "receive.advertiseAtomic=0"])
def test_a_remote_that_takes_no_fence_is_shipped_to_and_that_is_told(
    project: Project, setting: str
) -> None:
    remote = with_remote(project)
    git(remote, "config", *setting.split("="))
    project.track(item("a"))
    done = project.schedule()
    assert done.code == 0, done.err
    branch = done.report["branch"]
    assert git(remote, "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/main",
        f"refs/heads/{branch}",
    ]
    assert (
        f"does not take {FENCE}" in done.report["items_shipped"][0]["buildRecord"]["ship_warning"]
    )


@pytest.mark.more
def test_only_the_same_task_counts_and_a_person_may_ask_for_it_again(project: Project) -> None:
    with_remote(project)
    project.track(item("a"), item("b"))
    first = project.schedule()
    assert first.code == 0, first.err
    branch = first.report["branch"]
    project.state = project.home / "another"
    project.track(item("a"), item("b", title="Other words for people", testCmd="grep good b.txt"))
    second = project.schedule()
    assert told(second) == [("A", "found")]
    assert second.report["items_selected"] == ["B"]
    a = project.item_now("A")
    assert (a["status"], a["notes"]) == ("in_progress", f"[wave {first.report['wave_id'][:8]}]")
    assert a["shipped"] == {
        "wave": first.report["wave_id"],
        "commit": a["shipped"]["commit"],
        "branch": branch,
        "target": "main",
    }
    project.track({**a, "status": "todo"})  # who writes that has seen the note
    third = project.schedule()
    assert (third.code, told(third)) == (0, []), third.err
    assert [one["slug"] for one in third.report["items_shipped"]] == ["a"]


@pytest.mark.more
def test_what_was_merged_is_done_in_a_tracker_that_knows_nothing_of_it(project: Project) -> None:
    project.track(item("a"), item("b"))
    first = project.schedule()
    project.git("merge", "-q", "--squash", first.report["branch"])
    project.git("commit", "-q", "--no-edit")
    project.state = project.home / "another"
    project.track(item("a"), item("b", id="B2"))  # an id that no commit has
    second = project.schedule("--max-items", "1")
    assert told(second) == [("A", "merged")]
    a = project.item_now("A")
    merged = project.git("rev-parse", "main").strip()
    assert (a["status"], a["shipped"]["merged"]) == ("done", merged)
