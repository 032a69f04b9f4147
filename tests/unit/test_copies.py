"""Large folders are copied and removed by programs, with the same result as by Python."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from driver.filesystem.tree import snapshot
from driver.preparation.copies import copy_folder, remove_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX systems")

WITH, WITHOUT = {"PATH": os.environ["PATH"]}, {"PATH": "/nowhere"}


def large(folder: Path) -> Path:
    """More files than are copied one by one, with odd names, modes and links."""
    for number in range(260):
        path = folder / f"-p{number % 7}" / f"a b {number}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
        os.utime(path, ns=(1_000_000_000, 2_000_000_000 + number))
    (folder / "-p0" / "a b 0.js").chmod(0o755)
    (folder / "link").symlink_to("-p1/a b 1.js")
    (folder / "broken").symlink_to("/nowhere/at all")
    (folder / "empty").mkdir(mode=0o750)
    return folder


def contents(folder: Path) -> dict[str, object]:
    seen = dict[str, object]()
    for path, (mode, *_) in snapshot(folder).items():
        whole = folder / path
        if stat.S_ISLNK(mode):
            seen[path] = mode, str(whole.readlink())
        elif stat.S_ISREG(mode):
            seen[path] = mode, whole.read_bytes(), whole.stat().st_mtime_ns, whole.stat().st_nlink
        else:
            seen[path] = mode
    return seen


@pytest.mark.parametrize("environ", [WITH, WITHOUT], ids=["with cp", "without cp"])
def test_a_copy_is_the_same_and_apart(tmp_path: Path, environ: Mapping[str, str]) -> None:
    source = large(tmp_path / "s")
    before = contents(source)
    copy_folder(source, tmp_path / "deep" / "er" / "t", environ)
    assert contents(tmp_path / "deep" / "er" / "t") == before
    for number in range(7, 14):
        (tmp_path / "deep" / "er" / "t" / f"-p{number % 7}" / f"a b {number}.js").write_text("x")
    assert contents(source) == before


def test_pipes_and_sockets_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = large(tmp_path / "s")
    before = contents(source)
    os.mkfifo(source / "pipe")
    monkeypatch.chdir(source)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        copy_folder(source, tmp_path / "t", WITH)
    assert contents(tmp_path / "t") == before


@pytest.mark.parametrize("what", ["file", "link", "small"])
def test_small_things_are_copied_too(tmp_path: Path, what: str) -> None:
    source = tmp_path / "s"
    if what == "file":
        source.write_text("x")
    elif what == "link":
        source.symlink_to("elsewhere")
    else:
        (source / "in").mkdir(parents=True)
    copy_folder(source, tmp_path / "t", WITH)
    same = (tmp_path / "t").lstat().st_mode, (tmp_path / "t").is_symlink()
    assert same == (source.lstat().st_mode, source.is_symlink())


@pytest.mark.parametrize("environ", [WITH, WITHOUT], ids=["with rm", "without rm"])
def test_removal_follows_no_link(tmp_path: Path, environ: Mapping[str, str]) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    top = large(tmp_path / "-rf")
    (top / "to kept").symlink_to(kept)
    (top / "empty").chmod(0)
    remove_folder(top, environ)
    remove_folder(top, environ)  # nothing is there
    (tmp_path / "link").symlink_to(kept)
    remove_folder(tmp_path / "link", environ)
    assert sorted(os.listdir(tmp_path)) == ["kept"]  # noqa: PTH208 - links as well
    assert (kept / "file").exists()
