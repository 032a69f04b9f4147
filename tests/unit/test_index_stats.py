"""The stat data in an index are those of the files that git wrote."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.filesystem.tree import snapshot
from driver.preparation.index_stats import differing
from driver.tree_files.index_file import noted_in
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stat data of POSIX")
LONG = "/".join(["n" * 200] * 15) + "/file"  # longer than an index entry has room to say
FILES = {"a": "1\n", "ab": "", "d/e/f": "2\n", "d/name\nof two lines": "3\n", LONG: "4\n"}


@pytest.fixture(params=["sha1", "sha256"])
def top(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    environ = user_environ(tmp_path / "home", GIT_DEFAULT_HASH=request.param)
    repo = make_repo(tmp_path / "r", environ, FILES)
    (repo.path / "link").symlink_to("a")
    (repo.path / "run.sh").write_text("x")
    (repo.path / "run.sh").chmod(0o755)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "second")
    return repo.path


def wrong_in(top: Path, **products: str) -> list[str]:
    seen = snapshot(top)
    algorithm = "sha256" if "sha256" in (top / ".git/config").read_text() else "sha1"
    noted = noted_in(top / ".git/index", algorithm)
    assert noted.keys() == {*FILES, "link", "run.sh"}
    made = {path: seen[path] for path in products.values()}
    return differing(seen, {}, noted, made)


def test_all_files_are_as_git_noted_them(top: Path) -> None:
    assert wrong_in(top) == []


CHANGES: dict[str, Callable[[Path], object]] = {
    "a": lambda top: (top / "a").write_text("2\n"),
    "run.sh": lambda top: (top / "run.sh").chmod(0o700),
    "link": lambda top: ((top / "link").unlink(), (top / "link").symlink_to("b")),
    "d/e/f": lambda top: ((top / "d/e/f").unlink(), (top / "d/e/f").mkdir()),
    "ab": lambda top: (top / "ab").unlink(),
    LONG: lambda top: (top / LONG).write_text("5\n"),
    "new": lambda top: (top / "new").write_text(""),
    "d/empty": lambda top: (top / "d/empty").mkdir(),
}


@pytest.mark.parametrize("path", CHANGES)
def test_every_other_file_is_named(top: Path, path: str) -> None:
    CHANGES[path](top)
    assert wrong_in(top) == [path]


def test_products_may_lie_beside_the_files_of_git(top: Path) -> None:
    (top / "out").mkdir()
    (top / "out" / "built").write_text("")
    assert {*wrong_in(top)} == {"out", "out/built"}
    assert wrong_in(top, one="out", two="out/built") == []


def test_what_was_right_and_is_the_same_is_right(top: Path) -> None:
    (top / "new").write_text("")
    seen = snapshot(top)
    assert differing(seen, seen, {}, {}) == []
    assert "new" in differing(seen, {**seen, "new": (1,)}, {}, {})


def test_an_index_of_another_format_is_told(top: Path) -> None:
    index = top / ".git/index"
    subprocess.run(["git", "update-index", "--index-version", "4"], cwd=top, check=True)
    with pytest.raises(ValueError, match="version 4"):
        noted_in(index, "sha1")
    index.write_bytes(b"DIRC\0\0\0\2\0\0\0\5")
    with pytest.raises(ValueError, match="cut off"):
        noted_in(index, "sha1")
