"""A scheduler killed between two repositories' shipments or requests, and started again, leaves
each item shipped once and each branch proposed once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.forges import fake_gh
from tests.support.killing import Yard
from tests.support.repos import Checkout, make_bare, make_repo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
CONFIG = '[review]\nmode = "off"\n[ship]\npr = "draft"\n'


def slugs_on(remote: Checkout) -> list[str]:
    refs = remote.git("for-each-ref", "--format=%(refname)", "refs/heads/wave").split()
    shown = "--format=%(trailers:key=Item-Slug,valueonly,separator=)"
    return [slug for ref in refs for slug in remote.git("log", shown, f"main..{ref}").split()]


@pytest.mark.parametrize(
    "point",
    [
        "git.before_push@2",
        pytest.param("propose.made", marks=pytest.mark.sweep),
        pytest.param("git.after_push@2", marks=pytest.mark.sweep),
        pytest.param("propose.before_asking", marks=pytest.mark.sweep),
        pytest.param("propose.before_asking@2", marks=pytest.mark.sweep),
        pytest.param("propose.made@2", marks=pytest.mark.sweep),
    ],
)
def test_a_kill_between_two_shipments_doubles_and_loses_nothing(point: str, tmp_path: Path) -> None:
    yard = Yard(tmp_path, slugs=("a", "b"), config=CONFIG)
    gh = fake_gh(tmp_path / "gh")
    yard.environ |= {"PATH": f"{gh.bin}{os.pathsep}{yard.environ['PATH']}"}
    other = make_repo(tmp_path / "other", yard.environ, {"base.txt": "base\n"})
    remote = make_bare(tmp_path / "other.git", yard.environ)
    other.git("remote", "add", "origin", str(remote.path))
    other.git("push", "-q", "-u", "origin", "main")
    for name, (here, there) in {"a": (yard.repo, yard.remote), "b": (other, remote)}.items():
        here.git("remote", "set-url", "--push", "origin", str(there.path))
        here.git("remote", "set-url", "origin", f"https://github.com/me/{name}.git")
    places = {"a": str(yard.repo.path), "b": str(other.path)}
    yard.track(*(yard.item(slug, repo=repo) for slug, repo in places.items()))
    assert yard.run(f"{point}=kill").code == -signal.SIGKILL
    again, undone = yard.run_until_done()
    assert (again, undone) == (1, [])
    assert (slugs_on(yard.remote), slugs_on(remote)) == (["a"], ["b"])
    assert yard.dispatched() == {"a": 1, "b": 2}
    assert sorted(request["repo"] for request in gh.requests) == ["me/a", "me/b"]
    assert len(gh.created) == 2
    assert yard.marked.alive() == []
