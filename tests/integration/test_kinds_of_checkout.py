"""Kinds of repositories and checkouts that users have: work ships from each, or one sentence says
why not before anybody is dispatched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import Checkout, make_bare, make_repo
from tests.support.waves import Scene, built, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts")
FILES = {"a.txt": "base\n", "far/away.txt": "far\n"}
GOOD = "grep -q good a.txt && test -e far/away.txt"
LFS = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


def sha256(scene: Scene) -> None:
    scene.repo = make_repo(scene.folder / "two", scene.environ, FILES, "--object-format=sha256")
    scene.remote = make_bare(scene.folder / "two.git", scene.environ, "--object-format=sha256")
    scene.repo.git("remote", "add", "origin", str(scene.remote.path))
    scene.repo.git("push", "-q", "-u", "origin", "main")


def cloned(scene: Scene, *options: str) -> None:
    assert scene.remote
    scene.repo.commit({"second.txt": "2\n"})
    scene.repo.git("push", "-q")
    scene.remote.git("config", "uploadpack.allowFilter", "true")
    place = scene.folder / "clone"
    scene.repo.git("clone", "-q", *options, f"file://{scene.remote.path}", str(place))
    scene.repo = Checkout(place, scene.environ)


def shallow(scene: Scene) -> None:
    cloned(scene, "--depth=1")


def partial(scene: Scene) -> None:
    cloned(scene, "--filter=blob:none")


def sparse(scene: Scene) -> None:
    scene.repo.git("sparse-checkout", "set", "--no-cone", "/a.txt")
    assert not (scene.repo.path / "far").exists()


def worktree(scene: Scene) -> None:
    place = scene.folder / "linked"
    scene.repo.git("worktree", "add", "-q", "-b", "topic", str(place))
    scene.repo = Checkout(place, scene.environ)


def submodule(scene: Scene) -> None:
    inner = make_repo(scene.folder / "inner", scene.environ, {"in.txt": "x\n"})
    add = ("submodule", "--quiet", "add", str(inner.path), "vendored")
    scene.repo.git("-c", "protocol.file.allow=always", *add)
    scene.repo.commit({})
    scene.repo.git("push", "-q")


def lfs(scene: Scene) -> None:
    for key in ("clean", "smudge", "process"):
        scene.repo.git("config", f"filter.lfs.{key}", "no-such-git-lfs")
    commit = ("-c", "filter.lfs.process=", "-c", "filter.lfs.clean=cat")
    scene.repo.write({".gitattributes": LFS, "big.bin": POINTER})
    for name in ("big.bin", "a.txt"):  # old enough for git to know by the date that it is as it was
        os.utime(scene.repo.path / name, (10**9, 10**9))
    scene.repo.git(*commit, "add", "-A")
    scene.repo.git(*commit, "commit", "-qm", "large files")
    scene.repo.git("config", "filter.lfs.required", "true")
    scene.repo.git("push", "-q", "--no-verify")


KINDS: dict[str, Callable[[Scene], None]] = {
    made.__name__: made for made in (sha256, shallow, partial, sparse, worktree, submodule, lfs)
}
# The rest is for the sweep: what differs between the modes is the same for most.
AT_ONCE = {("sha256", "current"), ("partial", "branch"), ("sparse", "current"), ("lfs", "current"),
           ("submodule", "branch"), ("worktree", "current"), ("shallow", "current")}  # fmt: skip
MATRIX = [
    pytest.param(kind, mode, marks=() if (kind, mode) in AT_ONCE else pytest.mark.sweep)
    for kind in KINDS
    for mode in ("branch", "current")
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "mode"), MATRIX)
def test_work_ships_from_it(tmp_path: Path, kind: str, mode: str) -> None:
    scene = Scene(tmp_path, FILES, remote=True)
    KINDS[kind](scene)
    branch = scene.repo.git("branch", "--show-current")
    before = scene.repo.git("rev-parse", "HEAD")
    git = {"expectTopLevel": str(scene.repo.path), "mode": mode}
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", GOOD)], git=git)
    assert (report["shipped"], report["exit_code"]) == (["a"], 0), scene.said.getvalue()
    assert scene.remote
    assert scene.remote.git("rev-parse", report["branch"]) == report["sha"]
    assert scene.repo.git("rev-parse", f"{report['sha']}^") == before
    assert scene.files_in(report["sha"]) == {"a.txt": "M"}
    if mode == "current":
        assert report["branch"] == branch
        assert scene.repo.git("rev-parse", "HEAD") == report["sha"]
        assert (scene.repo.path / "a.txt").read_text() == "good\n"
        assert built(report)["a"]["ship_warning"] is None


def bare(scene: Scene) -> Path:
    assert scene.remote
    return scene.remote.path


def unborn(scene: Scene) -> Path:
    scene.repo.git("init", "-q", str(scene.folder / "new"))
    return scene.folder / "new"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "said"), [(bare, "has no checkout"), (unborn, "no commit yet")])
def test_what_nothing_can_ship_from_is_told_in_a_sentence(
    tmp_path: Path, kind: Callable[[Scene], Path], said: str
) -> None:
    scene = Scene(tmp_path, FILES, remote=True)
    top = kind(scene)
    items = [item("a", "a.txt", GOOD, repo=str(top))]
    report, driver = scene.play({}, items, git={"expectTopLevel": None, "mode": "branch"})
    assert (report["aborted"], driver.requests, report["exit_code"]) == (True, [], 2)
    assert said in report["error"]
    assert len(report["error"].splitlines()) == 1
