"""Small trees are written and read as git does it, whatever is on disk."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from driver.domain.results import Change
from driver.git.private_git import PrivateGit, open_repository
from driver.tree_files.index_file import entries_in
from driver.tree_files.small_trees import SmallTrees, write_small
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from tests.support.repos import Checkout, make_repo, user_environ

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="git writes all trees elsewhere")
NAMES = ("a", "a/b", "a/b/c", "d.py", "d/x.py", "d/y/z.py", "e e/\u00e9.txt", "f~1", "-g", "link")
EDITED = ("a.txt", "b", "b/c", "b/c/d", "b.c", "new", "e/f/g")
HARMFUL = (
    *("../x", "a/../b", "./a", "/a", "a//b", "a/", "..", ".git/hooks/x", "a/.GIT/x", ".git./x"),
    *("git~1/x", "a\\b", "c:/x", "a\nb", ".gitattributes", "x/.GitModules", "\u200c.git/x"),
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return user_environ(tmp_path / "home")


@pytest.fixture
def user(tmp_path: Path, environ: dict[str, str]) -> Checkout:
    return make_repo(tmp_path / "user", environ, {"a.txt": "a\n"})


def on_disk(top: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in top.rglob("*"):
        seen = path.lstat()
        body = os.fsencode(path.readlink()) if path.is_symlink() else b""
        body = path.read_bytes() if stat.S_ISREG(seen.st_mode) else body
        found[str(path.relative_to(top))] = seen.st_mode, body
    return found


def random_files(git: PrivateGit, dice: random.Random) -> dict[str, tuple[str, str]]:
    files: dict[str, tuple[str, str]] = {}
    for name in dice.sample(NAMES, dice.randint(1, 7)):
        if any(one.startswith(f"{name}/") or name.startswith(f"{one}/") for one in files):
            continue
        mode = dice.choice(("100644", "100644", "100755", "120000"))
        files[name] = mode, git.store(f"text {dice.randint(1, 3)}".encode())
    return files


def disturb(top: Path, dice: random.Random) -> None:
    """What an agent or test may do to the folder between two trees."""
    for name in dice.sample(NAMES, 3):
        path = top / name
        if path.is_symlink() or path.is_file():
            dice.choice((path.unlink, lambda path=path: path.write_bytes(b"other")))()
        elif path.is_dir():
            shutil.rmtree(path)
            path.symlink_to(dice.choice((".", "/nowhere", "..")))


@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_that_of_git(user: Checkout, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    empty = git.tree_with(git.tree_of(repo.head), [])
    gone = [Change(path, None, None, "100644", None) for path in git.paths_in(empty)]
    empty = git.tree_with(empty, gone)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    for _ in range(8):
        files = random_files(git, dice)
        changes = [Change(path, *entry, None, None) for path, entry in files.items()]
        tree = git.tree_with(empty, changes)
        write_small(files, git.contents, ours, tmp_path / "index", "sha1")
        shutil.rmtree(theirs)
        theirs.mkdir()
        (tmp_path / "index-theirs").unlink(missing_ok=True)
        git.switch(tree, theirs, tmp_path / "index-theirs")
        mine = {path: entry for path, entry in on_disk(ours).items() if path in files}
        assert mine == {p: e for p, e in on_disk(theirs).items() if p in files}
        told = {path: name for path, _, name in entries_in(tmp_path / "index", "sha1")}
        assert told == {path: name for path, (_, name) in files.items()}
        assert git.tampered(ours, tmp_path / "index") == ()
        asked = ["git", f"--git-dir={git.path}", "ls-files", "-s", "--debug"]
        env = {**git.env, "GIT_INDEX_FILE": str(tmp_path / "index")}
        assert subprocess.run(asked, env=env, check=True, capture_output=True).returncode == 0
        disturb(ours, dice)


def edit(top: Path, dice: random.Random) -> None:
    """What an agent may do between two looks at its files."""
    for name in dice.sample(EDITED, 3):
        path = top / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        above = [one for one in path.parents if one.is_relative_to(top)]
        if any(one.is_file() or one.is_symlink() for one in above):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if dice.random() < 0.8:
            path.write_text(f"text {dice.randint(1, 3)}")
            path.chmod(dice.choice((0o644, 0o755)))
        elif dice.random() < 0.5:
            path.symlink_to("a.txt")


@pytest.mark.more
@pytest.mark.parametrize("seed", range(3))
def test_what_was_edited_is_noted_as_by_git(user: Checkout, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    top, index = tmp_path / "top", tmp_path / "index"
    base = git.tree_of(repo.head)
    git.checkout(base, top, index)
    for _ in range(8):
        edit(top, dice)
        tree = git.collect(top, index, ())
        fresh = tmp_path / "fresh-index"
        fresh.unlink(missing_ok=True)
        at = ["git", f"--git-dir={git.path}", f"--work-tree={top}"]
        env = {**git.env, "GIT_INDEX_FILE": str(fresh)}
        subprocess.run([*at, "add", "-A"], cwd=top, env=env, check=True)
        theirs = subprocess.run([*at, "write-tree"], env=env, check=True, capture_output=True)
        assert tree == theirs.stdout.decode().strip()
        assert git.tampered(top, index) == ()
        assert git.staged(index, tree) == ()
        assert git.examined(base, tree).forged == ()


@pytest.mark.parametrize("place", [".gitattributes", "pkg/.gitattributes"])
def test_what_attributes_convert_is_noted_by_git(
    user: Checkout, tmp_path: Path, place: str
) -> None:
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    top, index = tmp_path / "top", tmp_path / "index"
    git.checkout(git.tree_of(repo.head), top, index)
    (top / "pkg").mkdir()
    (top / ".gitignore").write_text(".gitattributes\n")
    (top / place).write_text("* text eol=lf\n")
    (top / "pkg" / "x").write_bytes(b"a\r\n")
    held = git.listed(git.collect(top, index, ()))
    assert git.blob(held["pkg/x"][1]) == b"a\n"


def test_an_object_that_is_there_already_is_written_again(user: Checkout, tmp_path: Path) -> None:
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    top, index = tmp_path / "top", tmp_path / "index"
    base = git.tree_of(repo.head)
    git.checkout(base, top, index)
    (top / "a.txt").write_text("b\n")
    name = git.name_of(b"b\n")
    forged = git.path / "objects" / name[:2] / name[2:]
    forged.parent.mkdir()
    forged.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    tree = git.collect(top, index, ())
    assert git.examined(base, tree).forged == ()
    assert git.blob(name) == b"b\n"


def test_nothing_behind_a_link_is_written(user: Checkout, tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    top.mkdir()
    (outside / "x").write_text("theirs")
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    files = {"lib/x": ("100644", git.store(b"ours")), "y": ("100644", git.store(b"ours"))}
    write_small(files, git.contents, top, tmp_path / "index", "sha1")
    shutil.move(top / "lib", outside / "lib")
    (top / "lib").symlink_to(outside / "lib")
    (top / "y").unlink()
    (top / "y").symlink_to(outside / "x")
    (outside / "lib" / "x").write_text("evil")
    write_small(files, git.contents, top, tmp_path / "index", "sha1")
    assert (outside / "x").read_text() == "theirs"
    assert (outside / "lib" / "x").read_text() == "evil"
    assert not (top / "lib").is_symlink()
    assert (top / "lib" / "x").read_text() == (top / "y").read_text() == "ours"
    (top / "lib").rename(tmp_path / "moved")
    (top / "lib").symlink_to(tmp_path / "moved")
    write_small({"y": files["y"]}, git.contents, top, tmp_path / "index", "sha1")
    assert (tmp_path / "moved" / "x").exists()


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_names_are_left_to_git(name: str) -> None:
    small = SmallTrees()
    small.begin("c", "t", {"a": ("100644", "1" * 40)})
    assert small.files_of("t") is not None
    small.derive("t", "u", [(name, "100644", "2" * 40)])
    assert small.files_of("u") is None
    other = SmallTrees()
    other.begin("c", "t", {name: ("100644", "1" * 40)})
    assert other.files_of("t") is None


@pytest.mark.parametrize(
    "changed",
    [("a/b", "100644", "2" * 40), ("s", "160000", "2" * 40)],
    ids=["a file that is a folder", "a submodule"],
)
def test_odd_trees_are_left_to_git(changed: tuple[str, str, str]) -> None:
    small = SmallTrees()
    small.begin("c", "t", {"a": ("100644", "1" * 40)})
    small.derive("t", "u", [changed])
    assert small.files_of("u") is None


@pytest.mark.more
def test_a_large_file_is_left_to_git(environ: dict[str, str], tmp_path: Path) -> None:
    user = make_repo(tmp_path / "repo", environ, {"a": "a", "large": "x" * 9_000_000})
    repo = open_repository(user.path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    context = CloneContext(tmp_path / "root", git, repo, Preparation())
    assert git.small.files_of(context.base_tree) is not None
    assert (context.workspace("x").top / "large").stat().st_size == 9_000_000
    assert git.small.files_of(context.base_tree) is None
