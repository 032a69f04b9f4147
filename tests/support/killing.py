"""A yard for killing schedulers: three items, quick agents, a bare remote, a look from outside.

What is checked after each kill is read from the remote, the tracker file, the process table and
the user's checkout, never from what the program says.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from state_store.database.store import EventStore
from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.processes import MARKER, Marked, eventually
from tests.support.programs import SCHEDULER, Ran
from tests.support.repos import Checkout, frozen, hook, make_bare, make_repo, user_environ

ITEMS = ("a", "b", "c")
RUN_LIMIT_S = 300.0
GONE_WITHIN_S = 2.0

# `b` is bad at first and has to be repaired. Whatever of ours reaches an agent is noted.
AGENT = """\
echo "$TIDEGATE_ITEM" >> {folder}/dispatched
[ -z "$TIDEGATE_FAIL" ] || echo agent >> {folder}/leaked
{slow}
case $TIDEGATE_ITEM$TIDEGATE_ATTEMPT in
b1|red*) echo bad > "$TIDEGATE_ITEM.txt" ;;
*) echo good > "$TIDEGATE_ITEM.txt" ;;
esac
"""


@dataclass
class Pace:
    """How long agents, tests and pushes take, in seconds; in a window that is wide enough even a
    rare kill finds it."""

    agent: float = 0.0
    test: float = 0.0
    push: float = 0.0


@dataclass
class Tally:
    """What a sweep saw, and what must not be: `violations` are sentences."""

    runs: int = 0
    kills: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.kills += other.kills
        self.violations += other.violations

    def line(self, what: str, **more: Any) -> str:
        told = "".join(f" {name}={value}" for name, value in more.items())
        counts = f"kills={self.kills} runs={self.runs} violations={len(self.violations)} target=0"
        return f"\n{what} {counts}{told}\n"


class Yard:
    """One user's repository, remote, tracker and state folder."""

    def __init__(
        self,
        folder: Path,
        *,
        slugs: Sequence[str] = ITEMS,
        pace: Pace | None = None,
        config: str = "",
        agent: str = AGENT,
    ) -> None:
        self.folder = folder
        self.slugs = tuple(slugs)
        pace = pace or Pace()
        self.environ = user_environ(folder / "home")
        self.repo, self.remote = _repository(folder, self.environ)
        if pace.push:
            hook(self.remote.path / "hooks", "pre-receive", f"sleep {pace.push}")
        self.state, self.tracker = folder / "state", folder / "tracker.json"
        slow = f"sleep {pace.agent}" if pace.agent else ""
        (folder / "agent.sh").write_text(agent.format(folder=folder, slow=slow))
        (folder / "tidegate.toml").write_text(_config(folder, config))
        test = f"sleep {pace.test}; " if pace.test else ""
        leak = f'if [ -n "$TIDEGATE_FAIL" ]; then echo test >> {folder}/leaked; fi'
        self.tests = {s: f"{test}{leak} && grep -qx good {s}.txt" for s in slugs}
        self.track(*(self.item(slug) for slug in slugs))
        self.marked = Marked(folder)
        self.before = self._checkout()

    def item(self, slug: str, **more: Any) -> dict[str, Any]:
        """An item of the tracker; its id is the slug in capitals."""
        return {
            "id": slug.upper(),
            "slug": slug,
            "status": "todo",
            "ownsFiles": [f"{slug}.txt"],
            "prompt": f"Do {slug}.",
            "testCmd": self.tests[slug],
            **more,
        }

    def track(self, *items: Mapping[str, Any]) -> None:
        self.tracker.write_text(json.dumps({"items": items}, indent=1), encoding="utf-8")

    def statuses(self) -> dict[str, str]:
        """The items' statuses in the tracker's file, by id."""
        items = json.loads(self.tracker.read_text(encoding="utf-8"))["items"]
        return {item["id"]: item["status"] for item in items}

    def argv(self) -> list[str]:
        """The scheduler's command line."""
        flags = ("--tracker", self.tracker, "--repo", self.repo.path, "--state-dir", self.state)
        config = ("--config", self.folder / "tidegate.toml")
        return [*PYTHON, *map(str, (SCHEDULER, "--execute", *flags, *config))]

    @contextmanager
    def running(self, fail: str = "", prefix: Sequence[str] = ()) -> Iterator[warm.Program]:
        """The scheduler at work; whatever becomes of it, it is gone at the end."""
        armed = {"TIDEGATE_FAIL": fail} if fail else {}
        program = warm.start(
            [*prefix, *self.argv()],
            cwd=self.folder,
            env={**self.environ, MARKER: self.marked.marker, **armed},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield program
        finally:
            program.kill()
            program.communicate()

    def run(self, fail: str = "", prefix: Sequence[str] = ()) -> Ran:
        """The scheduler, to its end."""
        with self.running(fail, prefix) as program:
            out, err = program.communicate(timeout=RUN_LIMIT_S)
        return Ran(program.returncode, out, err)

    def run_until_done(self, restarts: int = 3) -> tuple[int, list[str]]:
        """Restart until all is shipped; how often that was needed, and what is wrong then."""
        said: list[str] = []
        for number in range(1, restarts + 1):
            ran = self.run()
            said.append(f"run {number} ended with {ran.code}: {ran.err[-1500:]}")
            if set(self.statuses().values()) == {"in_progress"}:
                return number, []
        return restarts, [f"not done after {restarts} restarts", *said]

    def commits(self, place: Checkout | None = None) -> dict[str, list[Shipped]]:
        """By item id, what the wave branches of the remote (or of `place`) hold."""
        place = place or self.remote
        found: dict[str, list[Shipped]] = {}
        trailer = "%(trailers:key={},valueonly,separator=)".format
        asked = f"%H %T {trailer('Proved-Tree')} {trailer('Item-Id')}"
        for branch in place.git("for-each-ref", "--format=%(refname)", "refs/heads/wave").split():
            for line in place.git("log", f"--format={asked}", f"main..{branch}").splitlines():
                commit, tree, proved, name = line.split(" ", 3)
                found.setdefault(name, []).append(Shipped(branch, commit, tree, proved))
        return found

    def wrong(self, *, clean_clone: bool = False) -> list[str]:
        """Every way in which what is to be seen now differs from what was promised."""
        found = [*self._wrong_commits(), *self._wrong_surroundings()]
        if clean_clone:
            found += self._red_in_a_clean_clone()
        return found

    def _wrong_commits(self) -> Iterator[str]:
        for where, place in (("remote", self.remote), ("repository", self.repo)):
            shipped = self.commits(place)
            for slug in self.slugs:
                count = len(shipped.get(slug.upper(), ()))
                if count != 1:
                    yield f"{where}: {count} commits of {slug}: {shipped}"
            for one in (one for several in shipped.values() for one in several):
                if one.tree != one.proved:
                    yield f"{where}: {one} is not what was proven"

    def _wrong_surroundings(self) -> Iterator[str]:
        if not eventually(lambda: not self.marked.alive(), GONE_WITHIN_S):
            yield f"orphans: {[_cmdline(pid) for pid in self.marked.alive()]}"
        wanted = {slug.upper(): "in_progress" for slug in self.slugs}
        if self.statuses() != wanted:
            yield f"tracker: {self.statuses()}"
        if (now := self._checkout()) != self.before:
            yield f"checkout: {sorted(set(now.items()) ^ set(self.before.items()))}"
        if (self.folder / "leaked").exists():
            yield "TIDEGATE_FAIL reached an agent or a test"
        with EventStore(self.state / "tracker_events.db") as store:
            yield from (f"store: {problem}" for problem in store.verify())

    def _red_in_a_clean_clone(self) -> Iterator[str]:
        clone = self.folder / "clean"
        for name, several in self.commits().items():
            for one in several:
                shutil.rmtree(clone, ignore_errors=True)
                self.remote.git("clone", "-q", "--shared", str(self.remote.path), str(clone))
                Checkout(clone, self.environ).git("checkout", "-q", one.commit)
                test = ["sh", "-c", self.tests[name.lower()]]
                if subprocess.run(test, cwd=clone, check=False).returncode:
                    yield f"{name} is red in a clean clone"

    def dispatched(self) -> Counter[str]:
        """How many agents were started, by slug."""
        log = self.folder / "dispatched"
        return Counter(log.read_text().split() if log.exists() else ())

    def _checkout(self) -> dict[str, str]:
        """All of the user's checkout but what a ship may add to it: wave branches and their log."""
        ours = (".git/refs/heads/wave", ".git/logs/refs/heads/wave", ".git/refs/tidegate")
        return {
            name: digest
            for name, digest in frozen(self.repo.path).items()
            if not name.startswith(ours)
        }


@functools.cache
def _template() -> Path:
    """The folder of a repository with one commit that it has pushed to its remote, to be copied."""
    top = Path(tempfile.mkdtemp(prefix="tidegate-yard-"))
    atexit.register(shutil.rmtree, top)
    environ = user_environ(top / "home")
    repo = make_repo(top / "repo", environ, {"base.txt": "base\n"})
    remote = make_bare(top / "remote.git", environ)
    repo.git("remote", "add", "origin", str(remote.path))
    repo.git("push", "-q", "-u", "--no-verify", "origin", "main")
    return top


def _repository(folder: Path, environ: Mapping[str, str]) -> tuple[Checkout, Checkout]:
    """A user's repository and its remote."""
    template = _template()
    repo, remote = (Checkout(folder / name, environ) for name in ("repo", "remote.git"))
    for made in (repo, remote):
        shutil.copytree(template / made.path.name, made.path)
    config = repo.path / ".git" / "config"
    config.write_text(config.read_text().replace(str(template), str(folder)))
    return repo, remote


@dataclass(frozen=True)
class Shipped:
    """A commit on a branch; `proved` is the tree that its trailer says was tested."""

    branch: str
    commit: str
    tree: str
    proved: str


def _config(folder: Path, more: str) -> str:
    agent = json.dumps(["sh", str(folder / "agent.sh")])
    passed = f'env = ["{MARKER}", "TIDEGATE_FAIL"]'
    return (
        f'[backend]\nname = "command"\ncommand = {agent}\ntier = 1\n{passed}\n'
        f"[verify]\n{passed}\n"
        f'[workspace]\nroot = "{folder / "work"}"\n{more}'
    )


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return f"{pid} (gone)"
