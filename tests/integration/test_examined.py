"""One look at two trees tells what three would: their changes, the patch, and what is forged."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.git.private_git import PrivateGit, open_repository
from tests.support.repos import make_repo, user_environ

BASE = {
    "a.txt": "one\n",
    "d/b.txt": "two\n",
    "gone/c": "c\n",
    "d/kept": "k\n",
    "was/a folder": "f\n",
}
ODD = ("with space", 'quo"te', "\u00fcml/\u00e9", "-dash", "line\nbreak", "*", "d/new")


@pytest.fixture
def git(tmp_path: Path) -> PrivateGit:
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "user", environ, BASE)
    return PrivateGit.create(tmp_path / "private", open_repository(user.path, environ), environ)


def collected(git: PrivateGit, place: Path, index: Path, base: str) -> str:
    git.checkout(base, place, index)
    (place / "gone" / "c").unlink()
    (place / "a.txt").write_bytes(b"\0\0binary\0\0")
    (place / "d" / "b.txt").chmod(0o755)
    (place / "d" / "kept").unlink()
    (place / "d" / "kept").mkdir()
    (place / "d" / "kept" / "within").write_text("a folder now")
    (place / "was").joinpath("a folder").unlink()
    (place / "was").rmdir()
    (place / "was").write_text("a file now")
    (place / "link").symlink_to("a.txt")
    for name in ODD:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("x")
    return git.collect(place, index, ())


def test_an_examination_tells_changes_and_patch_like_the_looks_at_each(
    git: PrivateGit, tmp_path: Path
) -> None:
    base = git.tree_of(open_repository(tmp_path / "user", git.environ).head)
    tree = collected(git, tmp_path / "place", tmp_path / "index", base)
    found = git.examined(base, tree)
    assert found.changes == git.changes(base, tree)
    assert len(found.changes) == len(ODD) + 8
    assert found.patch == git.patch(base, tree)
    assert git.apply(base, found.patch) == tree
    assert found.forged == ()
    same = git.examined(tree, tree)
    assert (same.changes, same.patch, same.forged) == ((), b"", ())
