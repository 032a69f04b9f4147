"""A folder counts as unchanged only where no change can hide behind stat data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.checkout_guard.fingerprint import CheckoutWatch
from driver.filesystem.change_detector import ChangeDetector
from driver.filesystem.tree import newest_of, snapshot
from driver.git.private_git import open_repository
from tests.support.repos import make_repo, user_environ

LATER_NS = 10**10


def later() -> int:
    """Files seem to be old: nobody can set back when they changed."""
    return time.time_ns() + LATER_NS


def an_hour_ago(top: Path, *files: Path) -> ChangeDetector:
    wait_for_the_next_tick(top)
    return ChangeDetector(top, files, now_ns=later)


def wait_for_the_next_tick(top: Path) -> None:
    probe = top.parent / "probe"
    newest = newest_of(snapshot(top))
    probe.touch()
    while probe.stat().st_ctime_ns <= newest:
        probe.touch()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "one.txt").write_text("one")
    return tmp_path / "top"


def test_what_changed_a_moment_ago_may_have_changed_again(top: Path) -> None:
    assert ChangeDetector(top, ()).mark() is None


def test_a_folder_in_which_nothing_happened_is_still(top: Path) -> None:
    stillness = an_hour_ago(top)
    assert stillness.mark() is not None
    assert stillness.mark() == stillness.mark()


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "sub" / "one.txt").write_text("two"),
        lambda top: (top / "sub" / "one.txt").chmod(0o700),
        lambda top: (top / "sub" / "one.txt").unlink(),
        lambda top: (top / "sub" / "new.txt").write_text(""),
        lambda top: (top / "sub").chmod(0o700),
        lambda top: (top / "link").symlink_to("sub"),
        lambda top: (top.parent / "elsewhere").write_text("new"),
    ],
    ids=["content", "mode", "deleted", "new", "folder", "link", "elsewhere"],
)
def test_every_change_is_one(top: Path, change: Callable[[Path], object]) -> None:
    stillness = an_hour_ago(top, top.parent / "elsewhere")
    before = stillness.mark()
    change(top)
    assert stillness.mark() not in (None, before)


def test_a_folder_that_stood_in_for_another_while_git_looked_is_a_change(top: Path) -> None:
    (top / "evil").mkdir()
    (top / "evil" / "one.txt").write_text("evil")
    (top / "evil").rename(top.parent / "evil")
    stillness = an_hour_ago(top)
    (top / "sub").rename(top.parent / "good")
    (top.parent / "evil").rename(top / "sub")
    wait_for_the_next_tick(top.parent)
    before = stillness.mark()
    (top / "sub").rename(top.parent / "evil")
    (top.parent / "good").rename(top / "sub")
    (top / "sub").rename(top.parent / "good")
    (top.parent / "evil").rename(top / "sub")
    assert stillness.mark() not in (None, before)


def test_what_tidegate_writes_itself_is_no_change(top: Path) -> None:
    (top / "state").mkdir()
    stillness = ChangeDetector(top, (), [top, top / "state", top.parent / "elsewhere"], later)
    wait_for_the_next_tick(top)
    before = stillness.mark()
    (top / "state" / "entry.json").write_text("new")
    assert stillness.mark() == before
    (top / "new.txt").write_text("new")
    assert stillness.mark() not in (None, before)


def test_a_repository_inside_moves_without_a_file_of_the_outer_one(top: Path) -> None:
    (top / "sub" / ".git").write_text("gitdir: elsewhere")
    assert an_hour_ago(top).mark() is None


def test_a_folder_of_many_files_is_left_to_git(top: Path) -> None:
    for number in range(3001):
        (top / str(number)).touch()
    stillness = an_hour_ago(top)
    assert stillness.mark() is None
    assert stillness.mark() is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("one.txt", "two", ("file one.txt",)),
        ("new.txt", "new", ("file new.txt",)),
        (".gitignore", "*.tmp\n", ("file .gitignore", "file one.tmp")),
        (".git/info/exclude", "*.tmp\n", ("file one.tmp", "info/exclude")),
        ("../home/ignored", "*.tmp\n", ("file one.tmp",)),
    ],
    ids=["content", "new", "rules", "own rules", "rules everywhere"],
)
def test_a_checkout_that_was_still_is_asked_of_git_again_after_any_change(
    tmp_path: Path, path: str, text: str, named: tuple[str, ...]
) -> None:
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "repo", environ, {"one.txt": "one"})
    user.git("config", "core.excludesFile", str(tmp_path / "home" / "ignored"))
    user.write({"one.tmp": ""})
    wait_for_the_next_tick(user.path)
    repo = open_repository(user.path, environ)
    watch = CheckoutWatch(repo, environ, tmp_path / "scratch", now_ns=later)
    before = watch.look()
    assert before.differences(watch.look()) == ()
    (user.path / path).write_text(text)
    assert before.differences(watch.look()) == named


def test_a_large_file_that_got_its_old_time_back_is_a_change(tmp_path: Path) -> None:
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "repo", environ, {"one.txt": "one"})
    for large in (user.path / "data", user.path / ".git" / "hooks" / "pre-push"):
        large.parent.mkdir(exist_ok=True)
        large.write_bytes(b"a" * (2 << 20))
    repo = open_repository(user.path, environ)
    watch = CheckoutWatch(repo, environ, tmp_path / "scratch")
    before = watch.look()
    wait_for_the_next_tick(user.path)
    for large in (user.path / "data", user.path / ".git" / "hooks" / "pre-push"):
        seen = large.stat()
        large.write_bytes(b"b" * (2 << 20))
        os.utime(large, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert before.differences(watch.look()) == ("file data", "hooks")
