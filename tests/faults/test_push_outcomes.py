"""A remote that does not take what is shipped to it, in every way that remotes have.

For each way: nothing is forced, the commits stay on a branch here, the report has the way's own
word, the tracker keeps the item and says why, the exit code is 1; and the next run, once the remote
lets it, ships what is owed without an agent.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from driver.wave_scheduler import run_wave_scheduler
from tests.support.repos import Checkout, hook
from tests.support.waves import Agent, Scene, ScriptedDriver, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are shell scripts")
NOT_SHIPPED = 1


class Closed(http.server.BaseHTTPRequestHandler):
    """A git host that lets nobody in."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def closed_host() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/x.git"
        finally:
            server.shutdown()


Refusal = Callable[[Scene], AbstractContextManager[None]]


def refused_by(words: str) -> Refusal:
    @contextmanager
    def put_up(scene: Scene) -> Iterator[None]:
        assert scene.remote
        hooks = scene.remote.path / "hooks"
        hook(hooks, "pre-receive", f"echo '{words}' >&2; exit 1")
        yield
        (hooks / "pre-receive").unlink()

    return put_up


@contextmanager
def elsewhere(scene: Scene, url: str = "http://127.0.0.1:1/x.git") -> Iterator[None]:
    assert scene.remote
    scene.repo.git("remote", "set-url", "origin", url)
    yield
    scene.repo.git("remote", "set-url", "origin", str(scene.remote.path))


@contextmanager
def nobody_let_in(scene: Scene) -> Iterator[None]:
    with closed_host() as url, elsewhere(scene, url):
        yield


@contextmanager
def moved_away(scene: Scene) -> Iterator[None]:
    assert scene.remote
    away = scene.remote.path.rename(scene.folder / "moved.git")
    yield
    away.rename(scene.remote.path)


@contextmanager
def read_only(scene: Scene) -> Iterator[None]:
    """A folder that the account which ssh logs in to may not write."""
    assert scene.remote
    account = ""
    if os.geteuid() == 0:  # who may write everywhere
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to be another user")
        account = "setpriv --reuid=65534 --clear-groups"
    top = Path(tempfile.mkdtemp(prefix="tidegate-test-"))  # pytest's own are for one user only
    top.chmod(0o755)
    served = Path(shutil.move(scene.remote.path, top / "remote.git"))
    (served / "objects").chmod(0o555)
    login = scene.folder / "login"
    login.write_text(
        "#!/bin/sh\nfor last; do :; done\nexport HOME=/ GIT_CONFIG_COUNT=1"
        " GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'\n"
        f'exec {account} sh -c "$last"\n'
    )
    login.chmod(0o755)
    scene.repo.git("config", "core.sshCommand", str(login))
    try:
        with elsewhere(scene, f"ssh://localhost{served}"):
            yield
    finally:
        (served / "objects").chmod(0o755)
        shutil.move(served, scene.remote.path)
        top.rmdir()


REFUSALS: dict[str, tuple[str, Refusal]] = {
    "protected": ("protected", refused_by("error: GH006: Protected branch update failed")),
    "hook": ("hook", refused_by("no Mondays")),
    "no network": ("unreachable", elsewhere),
    "disappears": ("gone", moved_away),
    "no rights": ("no_rights", nobody_let_in),
    "read-only": ("no_rights", read_only),
}


def scene_in(folder: Path, mode: str, test: str = "grep -q good a.txt") -> Scene:
    config = f'[ship]\nmode = "{mode}"\n'
    scene = Scene(folder, {"a.txt": "base\n"}, remote=True, config=config)
    todo = {"id": "A", "status": "todo", **item("a", "a.txt", test)}
    (folder / "tracker.json").write_text(json.dumps({"items": [todo]}))
    return scene


def cycle(scene: Scene, *steps: Any, max_items: int = 5) -> tuple[dict[str, Any], int]:
    """A cycle of the scheduler, with agents that do `steps`; how many were started is told, too."""
    driver = ScriptedDriver({"a": list(steps)}, environ=scene.environ)
    report = run_wave_scheduler(
        scene.folder / "tracker.json",
        max_items,
        driver=driver,
        state_dir=scene.state,
        options=scene.options(),
    )
    return report, len(driver.requests)


def tracked(scene: Scene) -> dict[str, Any]:
    [found] = json.loads((scene.folder / "tracker.json").read_text())["items"]
    return dict(found)


def heads(place: Checkout) -> dict[str, str]:
    told = place.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
    return dict(line.split(" ") for line in told.splitlines())


def is_kept(scene: Scene, report: dict[str, Any], word: str) -> str:
    """What every refusal has in common; the commit that is kept."""
    assert report["exit_code"] == NOT_SHIPPED
    [repo] = report["wave"]["shipped_repos"]
    told = (repo["push_error"], repo["committed"], repo["pushed"])
    assert told == (word, True, False), repo["error_detail"]
    assert repo["branch"].startswith("wave/")
    assert heads(scene.repo)[repo["branch"]] == repo["sha"]
    entry = tracked(scene)
    assert (entry["status"], entry.get("attempts") or 0) == ("todo", 0)
    assert repo["branch"] in entry["lastError"]
    return str(repo["sha"])


def ships_what_is_owed(scene: Scene, mode: str) -> str:
    """The next run, without an agent; the commit that it shipped."""
    report, agents = cycle(scene)
    assert (report["exit_code"], agents) == (0, 0), scene.said.getvalue()
    assert scene.remote
    now, sha = heads(scene.remote), report["sha"]
    onto = "main" if mode == "current" else report["branch"]
    assert now[onto] == sha
    assert (tracked(scene)["status"], tracked(scene)["lastError"]) == ("in_progress", None)
    assert report["wave"]["shipped_repos"][0]["pushed"] is True
    if mode == "current":
        assert heads(scene.repo)["main"] == sha
        assert (scene.repo.path / "a.txt").read_text() == "good\n"
    return str(sha)


# A few in the default run, all in the sweep.
AT_ONCE = {("protected", "current"), ("disappears", "branch")}
MATRIX = [
    pytest.param(way, mode, marks=() if (way, mode) in AT_ONCE else pytest.mark.sweep)
    for way in REFUSALS
    for mode in ("branch", "current")
]


@pytest.mark.more
@pytest.mark.parametrize(("way", "mode"), MATRIX)
def test_a_remote_that_refuses_gets_the_same_commits_from_the_next_run(
    tmp_path: Path, way: str, mode: str
) -> None:
    scene = scene_in(tmp_path, mode)
    assert scene.remote
    word, put_up = REFUSALS[way]
    before = heads(scene.remote)
    with put_up(scene):
        kept = is_kept(scene, cycle(scene, writes(a__txt="good\n"))[0], word)
        again, agents = cycle(scene)
        assert (is_kept(scene, again, word), agents) == (kept, 0)
    assert heads(scene.remote) == before
    assert ships_what_is_owed(scene, mode) == kept


@pytest.mark.parametrize("mode", ["branch", pytest.param("current", marks=pytest.mark.sweep)])
def test_a_branch_that_advances_twice_gets_the_work_from_the_next_run_proven_anew(
    tmp_path: Path, mode: str
) -> None:
    scene = scene_in(tmp_path / "scene", mode, f"sh {tmp_path}/test.sh")
    assert scene.remote
    others = Checkout(tmp_path / "others", scene.environ)
    scene.repo.git("clone", "-q", str(scene.remote.path), str(others.path))

    def agent(it: Agent) -> None:
        others.commit({"first.txt": "1\n"})
        others.git("push", "-q")
        it.write({"a.txt": "good\n"})

    # Proven again on the first commit of theirs, the test is the time of the second.
    second = f"git -C {others.path} commit -q --allow-empty -m second; git -C {others.path} push -q"
    who = "export GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@x GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o"
    (tmp_path / "test.sh").write_text(
        "grep -q good a.txt || exit 1\ntest -e first.txt || exit 0\n"
        f"mkdir {tmp_path}/once || exit 0\n{who}\n{second}\n"
    )
    report, _ = cycle(scene, agent)
    [repo] = report["wave"]["shipped_repos"]
    assert (report["exit_code"], repo["error"]) == (NOT_SHIPPED, "target_advanced"), (
        scene.said.getvalue()
    )
    assert heads(scene.remote) == {"main": others.git("rev-parse", "HEAD")}
    assert heads(scene.repo)[repo["branch"]] == repo["sha"]
    assert tracked(scene)["status"] == "todo"
    assert ships_what_is_owed(scene, mode) != repo["sha"]
    line = scene.remote.git("log", "--format=%s", "-3", repo_branch(scene, mode)).splitlines()
    assert line == ["a", "second", "a commit"]


def repo_branch(scene: Scene, mode: str) -> str:
    assert scene.remote
    return next(name for name in heads(scene.remote) if (name == "main") == (mode == "current"))


@pytest.mark.more
def test_what_is_owed_goes_before_what_is_more_urgent(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, "branch")
    with moved_away(scene):
        kept = is_kept(scene, cycle(scene, writes(a__txt="good\n"))[0], "gone")
    old = tracked(scene)
    urgent = {"id": "U", "status": "todo", "priority": "P1", **item("u", "u.txt", "false")}
    (tmp_path / "tracker.json").write_text(json.dumps({"items": [urgent, old]}))
    report, agents = cycle(scene, max_items=1)
    assert (report["items_selected"], report["exit_code"], agents) == (["A"], 0, 0)
    assert report["sha"] == kept
