"""A key in the user's environment reaches the agent that needs it, and nothing and nobody else.

One wave for each kind of backend, with a repair in it: everything it leaves on disk, says, sends to
its model and starts is searched for the key.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.agent_waves import Place, Task, Wave, a_number, make_place, mark, run_wave
from tests.support.beside import beside
from tests.support.model_script import Conversation, Fault, Say, Scenario, Step, Structured
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.skipif(os.name == "nt", reason="scripts are not programs on Windows")

KEY = "sk-needed-8b1f0c6e"
FOREIGN = {
    "AWS_SECRET_ACCESS_KEY": "foreign-1-8b1f0c6e",
    "GITHUB_TOKEN": "foreign-2-8b1f0c6e",
    "SOME_PASSWORD": "foreign-3-8b1f0c6e",
}
SECRETS = (KEY, *FOREIGN.values())

AGENT = """\
#!{python} -S
import json, os, sys
from pathlib import Path
slug, phase = os.environ["TIDEGATE_ITEM"], os.environ["TIDEGATE_PHASE"]
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(json.dumps([sys.argv, dict(os.environ), sys.stdin.read()]) + "\\n")
number = 6 if (slug, phase) == ("bravo", "build") else 7
Path(slug + ".py").write_text("def value():\\n    return %d\\n" % number, encoding="utf-8")
for line in {lines!r}:
    print(line)
"""
GIT = """\
#!/bin/sh
env >> '{log}'
exec '{git}' "$@"
"""
CLAUDE = (
    {"type": "system", "subtype": "init", "model": "m"},
    {"type": "result", "subtype": "success", "is_error": False, "result": "", "modelUsage": {}},
)
CODEX = (
    {"type": "thread.started", "thread_id": "1"},
    {"type": "turn.started"},
    {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}},
)


@dataclass(frozen=True)
class Backend:
    """Settings for a program and an address, the variable of the key, what a program prints."""

    settings: Callable[[str, str], str]
    variable: str
    prints: tuple[Mapping[str, object], ...] = ()


BACKENDS = {
    "command": Backend(
        lambda program, _: f'name = "command"\ncommand = ["{program}"]\nenv = ["AGENT_API_KEY"]\n',
        "AGENT_API_KEY",
    ),
    "claude": Backend(
        lambda program, _: f'name = "claude"\ncommand = ["{program}"]\n',
        "ANTHROPIC_API_KEY",
        CLAUDE,
    ),
    "codex-cli": Backend(
        lambda program, url: (
            f'name = "codex-cli"\ncommand = ["{program}"]\nmodel = "m"\n'
            f'base_url = "{url}"\napi_key_env = "LAB_API_KEY"\n'
        ),
        "LAB_API_KEY",
        CODEX,
    ),
    "openai-compatible": Backend(
        lambda _, url: (
            f'name = "openai-compatible"\nmodel = "m"\nbase_url = "{url}"\n'
            'api_key_env = "LAB_API_KEY"\n'
        ),
        "LAB_API_KEY",
    ),
}


def patch(slug: str, number: int) -> Structured:
    file = {"path": f"{slug}.py", "contents": f"def value():\n    return {number}\n"}
    return Structured({"files": [file], "summary": "", "done": True})


MODEL = Scenario(
    [
        Conversation(mark("alpha"), [patch("alpha", 7)]),
        Conversation(rf"(?s){mark('bravo')}.*AssertionError", [patch("bravo", 7)]),
        Conversation(mark("bravo"), [patch("bravo", 6)]),
    ]
)


def task(slug: str, log: Path) -> Task:
    """Its test keeps its environment where we can see it, and prints it into a repair's prompt."""
    plain = a_number(slug)
    told = (
        "import json\nimport os\n\nprint(dict(os.environ))\n"
        f"with open({str(log)!r}, 'a') as log:\n"
        "    log.write(json.dumps(dict(os.environ)) + '\\n')\n"
    )
    return Task(slug, plain.prompt, plain.unfinished, told + plain.test)


@dataclass(frozen=True)
class Traces:
    """What a wave left behind, beside what is on disk below `root`."""

    root: Path
    seen: Path
    place: Place
    wave: Wave
    server: ModelServer
    command_lines: frozenset[str]
    holders: frozenset[str]

    def logged(self, name: str) -> str:
        path = self.seen / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@contextmanager
def watched() -> Iterator[tuple[set[str], set[str]]]:
    """Command lines with a secret in them, and those of programs that have the key."""
    shown: set[str] = set()
    holders: set[str] = set()
    over = threading.Event()
    me = str(os.getpid())

    def look() -> None:
        while not over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):  # it is over, or another user's
                    if process.name == me:
                        continue
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    environment = (process / "environ").read_bytes().decode("utf-8", "replace")
                    if any(secret in command for secret in SECRETS):
                        shown.add(command)
                    if KEY in environment:
                        holders.add(command)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield shown, holders
    finally:
        over.set()
        thread.join()


def program(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def run(backend: Backend, tmp_path: Path, scenario: Scenario) -> Traces:
    seen, root = tmp_path / "seen", tmp_path / "machine"
    for folder in (seen, root, seen / "bin"):
        folder.mkdir()
    lines = [json.dumps(line) for line in backend.prints]
    script = AGENT.format(python=sys.executable, log=str(seen / "agents"), lines=lines)
    agent = program(seen / "the-agent", script)
    program(seen / "bin" / "git", GIT.format(log=seen / "gits", git=shutil.which("git")))
    with ModelServer(scenario) as server:
        table = f"[backend]\n{backend.settings(agent, f'{server.url}/v1')}"
        settings = f'{table}\n[review]\nmode = "off"\n'
        place = make_place(
            root, [task(slug, seen / "tests") for slug in ("alpha", "bravo")], settings
        )
        path = f"{seen / 'bin'}{os.pathsep}{place.environment['PATH']}"
        with watched() as (shown, holders):
            wave = run_wave(place, {backend.variable: KEY, "PATH": path, **FOREIGN})
    return Traces(root, seen, place, wave, server, frozenset(shown), frozenset(holders))


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def files_with_a_secret(root: Path) -> list[str]:
    return [
        str(path)
        for path in root.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and secrets_in(path.read_bytes().decode("utf-8", "replace"))
    ]


def objects_of(repository: Path) -> str:
    """All that a repository holds, unpacked."""
    command = ["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode(
        "utf-8", "replace"
    )


# A program of any kind and a server; those that name a program of their own are in the sweep.
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name",
    [
        "command",
        "openai-compatible",
        pytest.param("claude", marks=pytest.mark.sweep),
        pytest.param("codex-cli", marks=pytest.mark.sweep),
    ],
)
@beside
def test_a_key_goes_to_the_agent_and_nowhere_else(folder: Path, name: str) -> None:
    backend = BACKENDS[name]
    left = run(backend, folder, MODEL)
    assert left.wave.exit_code == 0, left.wave.stderr + left.wave.stdout
    (bravo,) = [b for b in left.wave.report["wave"]["built"] if b["slug"] == "bravo"]
    assert bravo["repairs"] == 1
    assert files_with_a_secret(left.root) == []
    assert [secrets_in(objects_of(repo)) for repo in (left.place.repo, left.place.remote)] == [
        [],
        [],
    ]
    assert secrets_in(left.wave.stdout + left.wave.stderr) == []
    assert left.command_lines == frozenset()
    assert secrets_in(left.logged("tests")) == []
    assert left.logged("gits")
    assert KEY not in left.logged("gits")  # the others may be what it logs in with
    for line in left.logged("agents").splitlines():
        argv, environment, prompt = json.loads(line)
        assert secrets_in(" ".join(argv) + prompt) == []
        assert {n: v for n, v in environment.items() if v in SECRETS} == {backend.variable: KEY}
    for exchange in left.server.exchanges:
        assert secrets_in(json.dumps(exchange.body)) == []
        told = {n.lower(): v for n, v in exchange.headers.items() if secrets_in(v)}
        assert told == {"authorization": f"Bearer {KEY}"}
    assert [command for command in left.holders if not needs_a_key(command)] == []


def needs_a_key(command: str) -> bool:
    return "wave_scheduler.py" in command or "the-agent" in command


@pytest.mark.more
@beside
def test_a_server_that_repeats_the_key_in_its_error_does_not_bring_it_out(folder: Path) -> None:
    fault = Fault(401, times=None, message=f"Incorrect API key provided: {KEY}.")
    scenario = Scenario([Conversation("", [Step(Say(""), fault=fault)])])
    left = run(BACKENDS["openai-compatible"], folder, scenario)
    assert left.wave.exit_code in (1, 4)
    assert "[key]" in left.wave.stdout + left.wave.stderr
    assert secrets_in(left.wave.stdout + left.wave.stderr) == []
    assert files_with_a_secret(left.root) == []
