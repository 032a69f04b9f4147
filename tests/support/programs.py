"""The two command lines as a user runs them, on small real repositories with scripted agents."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from driver.reports.documents import join
from tests.support import warm
from tests.support.interpreter import ALONE, PYTHON
from tests.support.repos import SANDBOX

Main = Callable[[Sequence[str]], int]

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = ROOT / "driver" / "wave_scheduler.py"
LOOP = ROOT / "driver" / "wave_loop.py"
DEADLINE_S = 300
MAIN_THREAD = threading.main_thread()

# Obeys its prompt: each line "DO <python>" is run in the workspace. Two modules take longer to
# load than all else that it does.
AGENT = """
import os, sys, time
for line in sys.stdin.read().splitlines():
    if line.startswith("DO "):
        globals().update((name, __import__(name)) for name in ("json", "pathlib") if name in line)
        exec(line[3:])
"""

_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


@dataclass(frozen=True)
class Ran:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """stdout as its one JSON document, with the details that it names."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return join(document)

    @property
    def verdicts(self) -> dict[str, str]:
        """By slug, of a scheduler's wave."""
        return {record["slug"]: record["verdict"] for record in self.report["wave"]["built"]}

    def said(self) -> str:
        """The one sentence on stderr, without its prefix."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("tidegate: ")
        return lines[0].removeprefix("tidegate: ")


class Project:
    """A repository, its configuration and a place beside it; `run` runs a program in it."""

    def __init__(self, home: Path, template: Path) -> None:
        self.home = home
        environment(home)
        self.top = home / "repo"
        shutil.copytree(template, self.top, symlinks=True)
        self.agent = home / "agent.py"
        self.agent.write_text(AGENT, encoding="utf-8")
        self.configure()
        self.state = home / "state"
        self.tracker = home / "tracker.json"

    def configure(self, text: str = "", command: Sequence[str] | None = None) -> None:
        """Write the configuration; without `command` it names the scripted agent."""
        argv = [*ALONE, str(self.agent)] if command is None else list(command)
        self.config = self.home / "config.toml"
        self.config.write_text(
            f'[backend]\nname = "command"\ncommand = {json.dumps(argv)}\n'
            f'[review]\nmode = "off"\n[workspace]\nroot = {json.dumps(str(self.home / "work"))}\n'
            f"{text}",
            encoding="utf-8",
        )

    def track(self, *items: Mapping[str, Any], bare: bool = False) -> Path:
        """Write the tracker."""
        document = list(items) if bare else {"version": 1, "items": list(items)}
        self.tracker.write_text(json.dumps(document, indent=1), encoding="utf-8")
        return self.tracker

    def manifest(self, *items: Mapping[str, Any], **keys: Any) -> Path:
        """Write a manifest."""
        path = self.home / "manifest.json"
        path.write_text(json.dumps({"items": list(items), **keys}), encoding="utf-8")
        return path

    def item_now(self, name: str | int) -> dict[str, Any]:
        """An item of the tracker as it stands in the file."""
        document = json.loads(self.tracker.read_text(encoding="utf-8"))
        items = document["items"] if isinstance(document, dict) else document
        return next(item for item in items if item["id"] == name)

    def schedule(self, *flags: str | Path, **how: Any) -> Ran:
        """`wave_scheduler.py --execute` with this project's places; in a process of its own where
        `how` is about that."""
        words = ("--execute", "--tracker", self.tracker, *self.places(), *flags)
        return self._run(SCHEDULER, words, how)

    def loop(self, *flags: str | Path, **how: Any) -> Ran:
        """`wave_loop.py --git` with this project's places."""
        return self._run(LOOP, ("--git", *self.places(), *flags), how)

    def _run(self, program: Path, words: Sequence[str | Path], how: Mapping[str, Any]) -> Ran:
        apart = how.keys() - {"cwd", "env"} or threading.current_thread() is not MAIN_THREAD
        start = run if apart else run_here
        return start(program, *words, **{"cwd": self.home, **how})

    def places(self) -> tuple[str | Path, ...]:
        """The flags that name this project's places."""
        return ("--repo", self.top, "--config", self.config, "--state-dir", self.state)

    def git(self, *args: str) -> str:
        """What git prints about the repository."""
        return git(self.top, *args)

    def branches(self) -> list[str]:
        """All branches but main."""
        names = self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        return [name for name in names if name != "main"]


@contextlib.contextmanager
def a_project(folder: Path) -> Iterator[Project]:
    """A project for a test that is played beside others; all of it runs in processes of its own."""
    yield Project(folder, _template())


@functools.cache
def _template() -> Path:
    top = Path(tempfile.mkdtemp(prefix="tidegate-project-"))
    atexit.register(shutil.rmtree, top)
    return make_template(top / "repo")


def item(name: str, **fields: Any) -> dict[str, Any]:
    """A todo item that makes `<name>.txt` say "good", with a test that proves it."""
    file = f"{name}.txt"
    return {
        "id": name.upper(),
        "slug": name,
        "status": "todo",
        "ownsFiles": [file],
        "prompt": writes(file),
        "testCmd": says_good(file),
        **fields,
    }


def writes(file: str, text: str = "good") -> str:
    """A prompt that has the scripted agent write one file."""
    return f"DO open({file!r}, 'w').write({text!r})"


def says_good(file: str) -> list[str]:
    """A test that is green when the file says "good"."""
    return ["grep", "-qx", "good", file]


def make_template(path: Path) -> Path:
    """A repository on main with one commit and a clean checkout."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "README.md").write_text("a project\n", encoding="utf-8")
    (path / "sub").mkdir()
    (path / "sub" / "kept.txt").write_text("kept\n", encoding="utf-8")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "start")
    return path


def git(folder: Path, *args: str) -> str:
    """Git's stdout; any failure is an error."""
    done = subprocess.run(
        ("git", *args),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **_GIT},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return done.stdout


def environment(home: Path, **more: str) -> dict[str, str]:
    """A plain user's environment: nothing of ours, no TERM, a HOME with nothing but a temporary
    folder, so that what a killed program leaves there goes with the test."""
    own = home / "home"
    temporary = own / ".tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    names = ("PATH", "SYSTEMROOT", SANDBOX)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "HOME": str(own), "TMPDIR": str(temporary), **more}


def run(
    program: Path | Sequence[str],
    *flags: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    **options: Any,
) -> Ran:
    """Run a program file, or `-m name`, to its end in a process of its own, stdin at its end."""
    named = (str(program),) if isinstance(program, Path) else tuple(program)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    done = warm.run(
        [*prefix, *PYTHON, *named, *map(str, flags)],
        cwd=cwd,
        env=environment(cwd) if env is None else env,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
        **{**streams, **options},
    )
    return Ran(done.returncode, done.stdout or "", done.stderr or "")


def run_here(
    program: Path, *flags: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> Ran:
    """The same without a new interpreter, for rules that are not about the process: this process
    is that user in that folder meanwhile."""
    main: Main = import_module(".".join(program.relative_to(ROOT).with_suffix("").parts)).main
    with contextlib.chdir(cwd), _as_environment(environment(cwd) if env is None else env):
        return call(main, *flags)


def call(main: Main, *words: str | Path) -> Ran:
    """A program's `main` called from a test: how it ended, and what it and its children printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _standard_files(out.fileno(), err.fileno()):
            try:
                code = main([str(word) for word in words])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Ran(int(code), *(_content(file) for file in (out, err)))


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextlib.contextmanager
def _standard_files(*outputs: int) -> Iterator[None]:
    """stdin at its end, stdout and stderr these descriptors, also for whatever is started."""
    kept = [os.dup(number) for number in range(3)]
    with Path(os.devnull).open("rb") as nothing:
        for number, source in enumerate((nothing.fileno(), *outputs)):
            os.dup2(source, number)
    out, err = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8")
        for number in (1, 2)
    )
    try:
        with out, err, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        for number, source in enumerate(kept):
            os.dup2(source, number)
            os.close(source)


@contextlib.contextmanager
def _as_environment(env: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def tree_hash(top: Path) -> str:
    """The names, kinds, modes and bytes of everything below `top`, links not followed."""
    whole = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        seen = path.lstat()
        body = b""
        if path.is_symlink():
            body = os.fsencode(path.readlink())
        elif path.is_file():
            body = path.read_bytes()
        whole.update(f"{path.relative_to(top)}\0{seen.st_mode}\0{len(body)}\0".encode())
        whole.update(body)
    return whole.hexdigest()
