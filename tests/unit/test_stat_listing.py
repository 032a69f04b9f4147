"""The stat data of a large folder, listed by `find`, are those that Python reads."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.filesystem.tree import snapshot
from driver.preparation.stat_listing import StatListing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="GNU find")


def disguised(path: Path) -> None:
    before = path.stat()
    path.write_text("Y\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_by_its_equal(path: Path) -> None:
    before, own = path.stat(), path.read_bytes()
    path.unlink()
    path.write_bytes(own)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda top: None,
    "an edit with its time set back": lambda top: disguised(top / "d1" / "1"),
    "an equal file": lambda top: replaced_by_its_equal(top / "d1" / "1"),
    "a mode": lambda top: (top / "d1" / "1").chmod(0o4711),
    "a mode of a folder": lambda top: (top / "d1").chmod(0o1700),
    "a deletion": lambda top: (top / "d1" / "1").unlink(),
    "a new file": lambda top: (top / "d1" / "new").write_text(""),
    "a hidden file": lambda top: (top / ".hidden").write_text(""),
    "a new folder": lambda top: (top / "new").mkdir(),
    "a line break in a name": lambda top: (top / "a\nb").write_text(""),
    "a name that is no text": lambda top: (top / os.fsdecode(b"\xff")).write_text(""),
    "a name like an option": lambda top: (top / "-printf").write_text(""),
    "a name like a pattern": lambda top: (top / "a*[b]?\\").mkdir(),
    "a file for a folder": lambda top: (
        (top / "empty").rmdir(),
        (top / "empty").write_text(""),
    ),
    "a link": lambda top: (top / "link").symlink_to("d1"),
    "a link to nowhere": lambda top: (top / "link").symlink_to("/nowhere"),
    "a second name of a file": lambda top: os.link(top / "d1" / "1", top / "d2" / "second"),
    "a pipe": lambda top: os.mkfifo(top / "pipe"),
    "a time before 1970": lambda top: os.utime(top / "d1" / "1", ns=(0, -1_500_000_000)),
    "a time in the far future": lambda top: os.utime(top / "d1" / "1", ns=(0, 2**33 * 10**9 + 7)),
    "a time of zero": lambda top: os.utime(top / "d1" / "1", ns=(0, 0)),
    "a large file": lambda top: os.truncate(top / "d1" / "1", 1 << 33),
    "everything": lambda top: [path.unlink() for path in top.rglob("*/?*") if path.is_file()],
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for folder in range(6):
        (tmp_path / "top" / f"d{folder}").mkdir(parents=True)
        for number in range(100):
            (tmp_path / "top" / f"d{folder}" / str(number)).write_text("X\n")
    (tmp_path / "top" / "empty").mkdir()
    return tmp_path / "top"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", CHANGES)
def test_every_change_is_listed_as_python_reads_it(top: Path, what: str) -> None:
    listing = StatListing(top, expected=600)
    before = listing.look()
    assert before == snapshot(top, without=())
    assert listing.look() is before  # so it was listed, not read by Python
    CHANGES[what](top)
    after = listing.look()
    assert after == snapshot(top, without=())
    assert (after == before) is (what == "nothing")


def test_a_socket_is_listed(top: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        try:
            os.chdir(top)  # the path of a socket must be short
            server.bind("socket")
        finally:
            os.chdir(here)
        assert StatListing(top, expected=600).look() == snapshot(top, without=())


@pytest.mark.parametrize("apart", [".git", "d1", "d2/5", "a*[b]?\\"])
def test_folders_that_are_left_out(top: Path, apart: str) -> None:
    for name in (".git", "a*[b]?\\", "axb", "d3/.git"):
        (top / name).mkdir()
        (top / name / "x").write_text("")
    listing = StatListing(top, without=(apart,), expected=600)
    assert listing.look() == snapshot(top, without=(apart,)) == listing.look()


def test_single_paths_with_all_that_is_in_them(top: Path) -> None:
    names = ("d1", "d2/5", "gone", "link", "-name", "d3")
    (top / "link").symlink_to("d4")
    (top / "-name").write_text("")
    listing = StatListing(top, names, expected=600)
    whole = snapshot(top, without=())
    wanted = {p: s for p, s in whole.items() if p in names or p.startswith(("d1/", "d3/"))}
    assert listing.look() == wanted
    assert StatListing(top, names).look() == wanted
    (top / "d1" / "new").write_text("")
    assert listing.look().keys() == wanted.keys() | {"d1/new"}


def test_a_listing_of_a_folder_that_was_moved(top: Path) -> None:
    listing = StatListing(top, ("d1", "d2", "d3", "d4", "d5", "d0"), expected=600)
    before = listing.look()
    moved = top.with_name("moved")
    top.rename(moved)
    assert listing.at(moved).look() == before
    disguised(moved / "d1" / "1")
    differing = {p for p, one in listing.at(moved).look().items() if before[p] != one}
    assert differing == {"d1/1"}


def test_a_folder_that_may_not_be_read_is_told(top: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    listing = StatListing(top, expected=600)
    listing.look()
    (top / "d1").chmod(0)
    with pytest.raises(PermissionError):
        listing.look()
    (top / "d1").chmod(0o700)


def test_a_folder_that_is_gone_is_told(top: Path) -> None:
    listing = StatListing(top, expected=600)
    listing.look()
    top.rename(top.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        listing.look()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("what", CHANGES)
def test_content_is_read_the_same_by_program_and_python(top: Path, what: str) -> None:
    if what == "a large file":
        pytest.skip("takes a while")
    CHANGES[what](top)
    whole = StatListing(top, by_content=True).look()
    names = [path.name for path in top.iterdir()]
    parts = [StatListing(top, (name,), by_content=True).look() for name in names]
    assert whole == {path: one for part in parts for path, one in part.items()}
    assert {p: one[:5] for p, one in whole.items()} == snapshot(top, without=())


def test_equal_times_with_other_content_are_told_apart(top: Path) -> None:
    listing = StatListing(top, by_content=True, expected=600)
    before = listing.look()
    inode = (top / "d1" / "1").stat().st_ino
    with (top / "d1" / "1").open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:1] = b"Y" if view[:1] == b"X" else b"X"
    after = listing.look()
    assert (top / "d1" / "1").stat().st_ino == inode
    assert [path for path in after if after[path][5:] != before[path][5:]] == ["d1/1"]


def test_a_file_that_may_not_be_read_has_no_digest(top: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (top / "d1" / "1").chmod(0)
    assert StatListing(top, by_content=True).look()["d1/1"][5] == -errno.EACCES
