"""Night after night as in CI: a fresh clone each time, no terminal, and a state folder that was
restored, lost, or restored as it was the day before yesterday.

What is checked is read from the remote and from a log that the agents write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.programs import DEADLINE_S, SCHEDULER, Ran, git, item
from tests.support.repos import SANDBOX

# Says which item was built; the item's prompt is of no further use.
AGENT = 'echo "$TIDEGATE_ITEM" >> {log}; echo good > "$TIDEGATE_ITEM.txt"\n'
NIGHTS = 5
NO_TERMINAL = ("sh", "-c", 'exec "$@" 0<&-', "sh")


class Nights:
    """A remote, its issues, and the machine that a job gets every night."""

    def __init__(self, home: Path) -> None:
        self.home, self.remote = home, home / "remote.git"
        self.log = home / "built"
        (home / "agent.sh").write_text(AGENT.format(log=self.log), encoding="utf-8")
        self.people = home / "people"
        self.people.mkdir()
        self.person("init", "-q", "-b", "main")
        self.person("commit", "-q", "--allow-empty", "-m", "start")
        git(home, "clone", "-q", "--bare", str(self.people), str(self.remote))
        self.person("remote", "add", "origin", str(self.remote))

    def person(self, *args: str) -> str:
        return git(self.people, *args)

    def merge(self, branch: str) -> None:
        """A person squashes a branch on to main, as forges do, and deletes it."""
        self.person("fetch", "-q", "origin")
        self.person("merge", "-q", "--ff-only", "origin/main")
        self.person("merge", "-q", "--squash", f"origin/{branch}")
        self.person("commit", "-q", "--no-edit")
        self.person("push", "-q", "origin", "main", f":{branch}")

    def branches(self) -> list[str]:
        shown = ("for-each-ref", "--format=%(refname:short)", "refs/heads/wave")
        return git(self.remote, *shown).split()

    def night(
        self,
        number: int,
        issues: Sequence[Mapping[str, Any]],
        *,
        detached: bool = False,
        prefix: Sequence[str] = (),
    ) -> Ran:
        """One job: clone, make the tracker from the issues where it lacks them, run, keep."""
        here = self.home / f"night-{number}"
        git(self.home, "clone", "-q", str(self.remote), str(here / "project"))
        if detached:
            git(here / "project", "checkout", "-q", "--detach")
        state = here / "state"
        tracker = state / "tracker.json"
        kept = self.home / "cache"
        if kept.exists():
            shutil.copytree(kept, state)
        state.mkdir(exist_ok=True)
        there = json.loads(tracker.read_text())["items"] if tracker.exists() else []
        names = {one["id"] for one in there}
        there += [one for one in issues if one["id"] not in names]
        tracker.write_text(json.dumps({"items": there}), encoding="utf-8")
        if prefix:
            for path in (here / "project").rglob("*"):
                path.chmod(path.stat().st_mode & 0o555)
        return self._run(here, state, tracker, prefix)

    def _run(self, here: Path, state: Path, tracker: Path, prefix: Sequence[str]) -> Ran:
        config = here / "config.toml"
        work, agent = here / "work", json.dumps(["sh", str(self.home / "agent.sh")])
        config.write_text(
            f'[backend]\nname = "command"\ncommand = {agent}\n[review]\nmode = "off"\n'
            f"[workspace]\nroot = {json.dumps(str(work))}\n",
            encoding="utf-8",
        )
        words = ("--execute", "--tracker", tracker, "--config", config, "--state-dir", state)
        # One night has no stdin at all; the others begin with what is loaded already.
        alone = (*prefix, *NO_TERMINAL) if prefix or here.name == "night-1" else ()
        done = warm.run(
            [*alone, *PYTHON, str(SCHEDULER), *map(str, words)],
            cwd=here / "project",
            env={"PATH": os.environ["PATH"], SANDBOX: "none"},  # no HOME, no TERM
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def keep(self, number: int) -> None:
        """What the job saves at its end."""
        shutil.rmtree(self.home / "cache", ignore_errors=True)
        shutil.copytree(self.home / f"night-{number}" / "state", self.home / "cache")

    def lose(self) -> None:
        shutil.rmtree(self.home / "cache", ignore_errors=True)

    def built(self) -> Counter[str]:
        return Counter(self.log.read_text().split())

    def told(self) -> Counter[str]:
        """How many commits tell of each item, on main and on wave branches that are not merged."""
        messages = git(self.remote, "log", "--branches", "--format=%B")
        return Counter(re.findall(r"Item-Slug: (\S+)", messages))  # a squash indents them


def issue(number: int) -> dict[str, Any]:
    slug = f"i{number}"
    return item(slug, testCmd=f"grep -qx good {slug}.txt", prompt=f"Do {slug}.")


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes what a job has no use for")
@pytest.mark.parametrize(
    "states",
    [
        pytest.param(("restored",) * NIGHTS, marks=pytest.mark.sweep),
        pytest.param(("lost",) * NIGHTS, marks=pytest.mark.sweep),
        ("restored", "lost", "restored", "yesterday", "yesterday"),
        pytest.param(
            ("restored", "yesterday", "lost", "restored", "yesterday"), marks=pytest.mark.sweep
        ),
    ],
    ids=["always restored", "always lost", "restored twice", "restored, lost"],
)
def test_five_nights_lose_and_double_nothing(tmp_path: Path, states: Sequence[str]) -> None:
    nights = Nights(tmp_path)
    issues = [issue(0)]
    for number, state in enumerate(states):
        issues.append(issue(number + 1))
        if state == "lost":
            nights.lose()
        done = nights.night(number, issues, detached=number == 2)
        assert done.code == 0, done.err
        # Whose state is restored twice runs once more with what the night before began with.
        if not (number + 1 < NIGHTS and states[number + 1] == "yesterday"):
            nights.keep(number)
        if number in (1, 3):
            nights.merge(nights.branches()[0])
    every = Counter(one["slug"] for one in issues)
    assert nights.built() == every
    assert nights.told() == every
    last = nights.night(NIGHTS, issues)
    assert (last.code, last.report["items_selected"]) == (0, [])
    assert nights.built() == every


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes what a job has no use for")
def test_what_one_night_shipped_the_next_does_not_do_again(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    assert nights.night(0, [issue(1)]).code == 0
    nights.keep(0)
    again = nights.night(1, [issue(1)], detached=True)
    assert (again.code, again.report["items_selected"]) == (0, [])
    assert nights.built() == nights.told() == Counter(["i1"])


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes what a job has no use for")
def test_without_its_state_a_dropped_branch_is_done_again_and_a_changed_issue_too(
    tmp_path: Path,
) -> None:
    nights = Nights(tmp_path)
    issues = [issue(1), issue(2)]
    assert nights.night(0, issues).code == 0
    (branch,) = nights.branches()
    # As it says something else now, it is something else to do; the other is on its way still.
    changed = [issue(1), {**issue(2), "prompt": "Do i2, and well."}]
    done = nights.night(1, changed)
    assert done.report["items_selected"] == ["I2"], done.err
    assert [(one["id"], one["what"]) for one in done.report["items_followed"]] == [("I1", "found")]
    nights.person("push", "-q", "origin", f":{branch}")
    again = nights.night(2, [issue(1)])
    assert again.report["items_selected"] == ["I1"], again.err
    assert nights.built() == Counter({"i1": 2, "i2": 2})


@pytest.mark.more
def test_a_checkout_that_may_not_be_written_is_built_from_and_pushed_from(tmp_path: Path) -> None:
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX rights")
    prefix: Sequence[str] = ("env",)
    if os.geteuid() == 0:  # may write anywhere, but for this
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to give that up")
        prefix = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    nights = Nights(tmp_path)
    done = nights.night(0, [issue(1)], detached=True, prefix=prefix)
    assert done.code == 0, done.err
    assert nights.told() == Counter(["i1"])
    assert "the branch is on the remote only" in done.err
    again = nights.night(1, [issue(1)], prefix=prefix)
    assert (again.code, again.report["items_selected"]) == (0, [])
