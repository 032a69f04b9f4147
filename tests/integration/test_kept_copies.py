"""Copies of `[workspace] copy` move from one test checkout to the next, as they were laid."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.preparation.kept_copies import KeptCopies, KeptCopy
from tests.support.repos import frozen

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="change times of POSIX")


@pytest.fixture
def copies(tmp_path: Path) -> KeptCopies:
    deps = tmp_path / "user" / "deps"
    for package in range(25):
        (deps / f"p{package}" / "lib").mkdir(parents=True)
        for number in range(10):
            (deps / f"p{package}" / "lib" / f"{number}.js").write_text(f"{package} {number}\n")
    (deps / "bin").symlink_to("p1/lib")
    (deps / ".git" / "objects").mkdir(parents=True)
    (deps / ".git" / "HEAD").write_text("x\n")
    (tmp_path / "user" / ".env").write_text("A=1\n")
    names = ("deps", ".env")
    return KeptCopies(tmp_path / "user", names, dict(os.environ), tmp_path / "spare")


def disguised(path: Path) -> None:
    before = path.stat()
    with path.open("r+") as stream:
        stream.write("X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def linked_elsewhere(deps: Path) -> None:
    elsewhere = deps.parent.parent / "user" / "deps" / "p2"
    shutil.rmtree(deps / "p1")
    (deps / "p1").symlink_to(elsewhere)


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda deps: None,
    "an edit": lambda deps: (deps / "p1/lib/1.js").write_text("other\n"),
    "an edit with its time set back": lambda deps: disguised(deps / "p1/lib/1.js"),
    "an edit through a link": lambda deps: disguised(deps / "bin/2.js"),
    "a mode": lambda deps: (deps / "p1/lib/1.js").chmod(0o755),
    "a mode of a folder": lambda deps: (deps / "p1/lib").chmod(0o700),
    "a deletion": lambda deps: (deps / "p1/lib/1.js").unlink(),
    "a package that is gone": lambda deps: shutil.rmtree(deps / "p1"),
    "a package that is a file": lambda deps: (
        shutil.rmtree(deps / "p1"),
        (deps / "p1").write_text("x"),
    ),
    "a file that is a folder": lambda deps: (
        (deps / "p1/lib/1.js").unlink(),
        (deps / "p1/lib/1.js").mkdir(),
        (deps / "p1/lib/1.js/x").write_text("x"),
    ),
    "a link that leads elsewhere": linked_elsewhere,
    "a link that is a file": lambda deps: (
        (deps / "bin").unlink(),
        (deps / "bin").write_text("x"),
    ),
    "a cache": lambda deps: (
        (deps / ".cache/a").mkdir(parents=True),
        (deps / ".cache/a/b").write_text("x"),
    ),
    "a file in a git dir": lambda deps: (deps / ".git" / ".git").write_text("x"),
    "a pipe": lambda deps: os.mkfifo(deps / "p1" / "pipe"),
    "a single file": lambda deps: (deps.parent / ".env").write_text("A=2\n"),
    "everything": shutil.rmtree,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("what", CHANGES)
def test_what_a_test_changes_in_its_copy_is_put_back(
    copies: KeptCopies, tmp_path: Path, what: str
) -> None:
    place, users = tmp_path / "1", frozen(tmp_path / "user")
    kept = copies.lay(place)
    as_laid = frozen(place)
    CHANGES[what](place / "deps")
    assert kept.put_back()
    assert frozen(place) == as_laid
    assert frozen(tmp_path / "user") == users
    assert kept.put_back()
    kept.give_back()
    assert not (place / "deps").exists()
    assert moved(copies.lay(tmp_path / "2"), kept)
    assert frozen(tmp_path / "2") == as_laid


def moved(now: KeptCopy, before: KeptCopy) -> bool:
    return {**now.seen, ".env": ()} == {**before.seen, ".env": ()}


def test_two_copies_share_no_file(copies: KeptCopies, tmp_path: Path) -> None:
    places = [copies.lay(tmp_path / str(number)).place for number in range(2)]
    numbers = [{path.stat().st_ino for path in place.rglob("*.js")} for place in places]
    numbers.append({path.stat().st_ino for path in (tmp_path / "user").rglob("*.js")})
    assert len(set.union(*numbers)) == 3 * 250
    assert copies.changed() == ()


def test_a_copy_that_is_changed_while_it_waits_is_made_again(
    copies: KeptCopies, tmp_path: Path
) -> None:
    first = copies.lay(tmp_path / "1")
    as_laid = frozen(tmp_path / "1")
    first.give_back()
    (waiting,) = (tmp_path / "spare").iterdir()
    disguised(waiting / "deps/p1/lib/1.js")
    second = copies.lay(tmp_path / "2")
    assert not moved(second, first)
    assert frozen(tmp_path / "2") == as_laid


def test_a_source_that_changed_meanwhile_is_never_mixed_in(
    copies: KeptCopies, tmp_path: Path
) -> None:
    kept = copies.lay(tmp_path / "1")
    (kept.place / "deps/p1/lib/1.js").unlink()
    (tmp_path / "user/deps/p1/lib/1.js").write_text("newer\n")
    assert not kept.put_back()
    assert copies.changed() == ("deps",)


def test_nothing_behind_a_link_to_the_folder_above_is_touched(tmp_path: Path) -> None:
    deps = tmp_path / "user" / "app" / "deps"
    deps.mkdir(parents=True)
    (deps / "1.js").write_text("1\n")
    copies = KeptCopies(tmp_path / "user", ("app/deps",), dict(os.environ), tmp_path / "spare")
    kept = copies.lay(tmp_path / "1")
    users = frozen(tmp_path / "user")
    shutil.rmtree(tmp_path / "1" / "app")
    (tmp_path / "1" / "app").symlink_to(tmp_path / "user" / "app")
    assert not kept.put_back()
    assert frozen(tmp_path / "user") == users
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "app").symlink_to(tmp_path / "user" / "app")
    with pytest.raises(OSError, match="link"):
        copies.lay(tmp_path / "2")
    assert frozen(tmp_path / "user") == users


@pytest.mark.more
@pytest.mark.parametrize("what", CHANGES)
def test_the_next_agent_finds_the_copy_of_the_last_one_as_it_was_laid(
    copies: KeptCopies, tmp_path: Path, what: str
) -> None:
    first, users = copies.lay_for_agent(tmp_path / "1"), frozen(tmp_path / "user")
    as_laid = frozen(tmp_path / "1")
    inode = (tmp_path / "1/deps/p9/lib/9.js").stat().st_ino
    CHANGES[what](tmp_path / "1" / "deps")
    first.put_aside()
    assert not (tmp_path / "1" / "deps").exists()
    copies.lay_for_agent(tmp_path / "2")
    assert frozen(tmp_path / "2") == as_laid
    assert frozen(tmp_path / "user") == users
    moved = (tmp_path / "2/deps/p9/lib/9.js").stat().st_ino == inode
    assert moved is (what != "everything")


def test_what_an_agent_could_write_never_moves_to_a_test(
    copies: KeptCopies, tmp_path: Path
) -> None:
    agents = copies.lay_for_agent(tmp_path / "1")
    inodes = {path.stat().st_ino for path in (tmp_path / "1").rglob("*.js")}
    agents.put_aside()
    copies.lay(tmp_path / "2")
    assert inodes.isdisjoint(path.stat().st_ino for path in (tmp_path / "2").rglob("*.js"))


def test_nothing_behind_a_link_in_place_of_a_clone_is_moved(
    copies: KeptCopies, tmp_path: Path
) -> None:
    first, users = copies.lay_for_agent(tmp_path / "1"), frozen(tmp_path / "user")
    (tmp_path / "1").rename(tmp_path / "elsewhere")
    (tmp_path / "1").symlink_to(tmp_path / "user")
    first.put_aside()
    assert frozen(tmp_path / "user") == users
    copies.lay_for_agent(tmp_path / "2")
    assert frozen(tmp_path / "2") == frozen(tmp_path / "elsewhere")
