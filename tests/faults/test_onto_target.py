"""A shipment on to the user's branch that is cut off is completed by the next run, or kept."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.support.killing import Yard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
KILLED = -signal.SIGKILL
CONFIG = '[ship]\nmode = "current"\n'


def killed_at(yard: Yard, point: str) -> None:
    ended = yard.run(f"{point}=kill")
    assert ended.code == KILLED, ended.err


AT_ONCE = {("git.before_push", True), ("git.after_push", False)}
MATRIX = [
    pytest.param(point, more, marks=() if (point, more) in AT_ONCE else pytest.mark.sweep)
    for point in ("git.before_push", "git.after_push", "git.before_merge", "git.after_merge")
    for more in (False, True)
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("point", "more"), MATRIX)
def test_what_a_kill_cut_off_is_completed_with_the_same_commits(
    tmp_path: Path, point: str, more: bool
) -> None:
    yard = Yard(tmp_path, slugs=("a", "c"), config=CONFIG)
    base = yard.repo.git("rev-parse", "main")
    yard.track(yard.item("a"), *([] if more else [yard.item("c")]))
    killed_at(yard, point)
    first = yard.dispatched()
    yard.track(yard.item("a"), yard.item("c"))
    done = yard.run()
    assert done.code == 0, done.err
    assert yard.dispatched() - first == ({"c": 1} if more else {})
    assert set(yard.statuses().values()) == {"in_progress"}
    line = yard.remote.git("log", "--format=%s", f"{base}..main").split()
    assert line == ["c", "a"]
    assert f"log --stat {base[:12]}..main" in done.err
    assert yard.repo.git("rev-parse", "main") == yard.remote.git("rev-parse", "main")
    assert yard.repo.git("status", "--porcelain", "--untracked-files=no") == ""
    assert yard.repo.git("for-each-ref", "refs/tidegate", "refs/heads/wave") == ""


@pytest.mark.more
def test_without_a_remote_what_is_in_the_way_keeps_it_on_a_branch_until_it_is_gone(
    tmp_path: Path,
) -> None:
    yard = Yard(tmp_path, slugs=("a",), config=CONFIG)
    yard.repo.git("remote", "remove", "origin")
    killed_at(yard, "git.before_merge")
    (yard.repo.path / "a.txt").write_text("unsaved\n")
    refused = yard.run()
    assert (refused.code, yard.statuses()) == (1, {"A": "todo"})
    [repo] = refused.report["wave"]["shipped_repos"]
    assert repo["branch"].startswith("wave/")
    assert yard.repo.git("rev-parse", repo["branch"]) == repo["sha"]
    assert f"kept on branch {repo['branch']}, but not yet on main" in refused.err
    assert (yard.repo.path / "a.txt").read_text() == "unsaved\n"
    (yard.repo.path / "a.txt").unlink()
    done = yard.run()
    assert (done.code, yard.dispatched()) == (0, {"a": 1}), done.err
    assert yard.repo.git("rev-parse", "main") == repo["sha"]
    assert (yard.repo.path / "a.txt").read_text() == "good\n"


@pytest.mark.more
def test_what_moved_on_meanwhile_gets_the_work_proven_anew(tmp_path: Path) -> None:
    yard = Yard(tmp_path, slugs=("a",), config=CONFIG)
    killed_at(yard, "git.before_push")
    theirs = yard.repo.commit({"theirs.txt": "t\n"})
    yard.repo.git("push", "-q", "--no-verify", "origin", "main")
    done = yard.run()
    assert (done.code, yard.dispatched()) == (0, {"a": 1}), done.err
    assert yard.remote.git("rev-parse", "main~1") == theirs
    assert yard.repo.git("rev-parse", "main") == yard.remote.git("rev-parse", "main")
