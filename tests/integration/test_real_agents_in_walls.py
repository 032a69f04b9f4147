"""Real Claude Code and Codex at each level of the walls: what they are told, run, see and reach.

Skipped where a program is not installed; docs/drivers.md says how to install and name them. Their
model is a scripted server, so no network is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.agent_waves import ROOT, Place, Task, Wave, end_of, make_place
from tests.support.model_script import (
    Action,
    Conversation,
    Say,
    Scenario,
    Step,
    UseTool,
    read_file,
    shell,
    write_file,
)
from tests.support.model_server import ModelServer
from tests.support.walls import CLOSED_LEVELS

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.sweep,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's"),
]
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
NOBODY = 65534
TEST = "python3 -m unittest test_sums"
UNFINISHED = "def add(a, b):\n    return None\n"
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
SECRET, OF_THE_CHECKOUT = "the-secret-of-the-home", "only-in-the-checkout"
SUMS = Task(
    "sums",
    "The function in sums.py is to add its two numbers.",
    UNFINISHED,
    "import unittest\n\nfrom sums import add\n\n\n"
    "class Sums(unittest.TestCase):\n"
    "    def test_two_and_two(self):\n        self.assertEqual(add(2, 3), 5, 'the sum is wrong')\n",
)


@dataclass(frozen=True)
class Agent:
    """A program: its settings, and how its model writes a file and runs a command."""

    name: str
    settings: Callable[[str, str], str]
    read: Callable[[str], Action]
    write: Callable[[str, str, str], Action]
    run: Callable[[str], Action]
    key: str

    @property
    def program(self) -> str:
        named = os.environ.get(f"TIDEGATE_TEST_{self.name.upper()}") or shutil.which(self.name)
        if named is None:
            pytest.skip(f"no program {self.name} on PATH or in TIDEGATE_TEST_{self.name.upper()}")
        return named


def patch(path: str, old: str, new: str) -> Action:
    lines = [f"-{old.splitlines()[-1]}", f"+{new.splitlines()[-1]}"]
    text = "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"])
    return UseTool("apply_patch", text)


CLAUDE = Agent(
    "claude",
    lambda program, _: f'[backend]\nname = "claude"\ncommand = [{json.dumps(program)}]\n',
    read_file,
    lambda path, _, new: write_file(path, new),
    shell,
    "ANTHROPIC_API_KEY",
)
CODEX = Agent(
    "codex",
    lambda program, url: (
        f'[backend]\nname = "codex-cli"\ncommand = [{json.dumps(program)}]\n'
        f'model = "gpt-5.5"\nbase_url = "{url}/v1"\napi_key_env = "LOCAL_API_KEY"\n'
    ),
    lambda path: UseTool("exec_command", {"cmd": f"cat {path}"}),
    patch,
    lambda command: UseTool("exec_command", {"cmd": command}),
    "LOCAL_API_KEY",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user of this machine may enter."""
    with tempfile.TemporaryDirectory(prefix="tidegate-walls-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@dataclass
class Scene:
    """A wave of one item by one program at one level, as root or as another user."""

    folder: Path
    agent: Agent
    level: str
    user: int | None

    def play(self, moves: Callable[[Place, Agent], Sequence[Action]]) -> tuple[Wave, str]:
        """Run the wave; returns it with all that the program told its model."""
        talk = list[Conversation]()
        scenario = Scenario(talk)
        with ModelServer(scenario) as server:
            settings = self.agent.settings(self.agent.program, server.url)
            settings += f'[sandbox]\nlevel = "{self.level}"\n'
            place = make_place(self.folder, [SUMS], settings)
            (place.home / "secret.txt").write_text(SECRET, encoding="utf-8")
            (place.repo / "new.txt").write_text(OF_THE_CHECKOUT, encoding="utf-8")
            tracker = json.loads((place.state / "tracker.json").read_bytes())
            tracker["items"][0] |= {"testCmd": TEST, "repairCap": 0}
            (place.state / "tracker.json").write_text(json.dumps(tracker), encoding="utf-8")
            for name, text in {
                "CLAUDE.md": "Be kind. CLAUDE-OF-BASE",
                "AGENTS.md": "AGENTS-OF-BASE",
            }.items():
                (place.repo / name).write_text(text, encoding="utf-8")
            place.git("add", "CLAUDE.md", "AGENTS.md")
            place.git("commit", "--quiet", "--message=Instructions")
            place.git("push", "--quiet")
            (place.repo / "CLAUDE.md").write_text("CLAUDE-OF-THE-CHECKOUT", encoding="utf-8")
            talk.append(Conversation("sums", [Step(m) for m in moves(place, self.agent)]))
            if self.user is not None:
                for top, folders, files in os.walk(self.folder):
                    for name in (".", *folders, *files):
                        os.chown(Path(top) / name, self.user, self.user, follow_symlinks=False)
            wave = end_of(self._start(place, server.url))
            told = json.dumps([exchange.body for exchange in server.exchanges])
            place.clean_up()
        return wave, told

    def _start(self, place: Place, url: str) -> subprocess.Popen[str]:
        python = [sys.executable] if self.user is None else [SYSTEM_PYTHON]
        command = [*python, "-B", str(ROOT / "driver" / "wave_scheduler.py"), "--execute"]
        command += ["--tracker", str(place.state / "tracker.json")]
        command += ["--repo", str(place.repo), "--state-dir", str(place.state)]
        path = os.environ["PATH"] if self.user is None else "/usr/local/bin:/usr/bin:/bin"
        reach = {"ANTHROPIC_BASE_URL": url, self.agent.key: "the-key-of-this-test"}
        return subprocess.Popen(
            command,
            cwd=place.home,
            env={**place.environment, "PATH": path, **reach},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )


def looks_once(place: Place, agent: Agent) -> list[Action]:
    """An agent that sees its test fail, corrects its work, and sees it pass."""
    del place
    write = agent.write
    return [
        agent.read("sums.py"),
        write("sums.py", UNFINISHED, WRONG),
        agent.run(TEST),
        write("sums.py", WRONG, RIGHT),
        agent.run(TEST),
        agent.run("git diff --stat"),
        Say("It is done."),
    ]


def reaches_out(place: Place, agent: Agent) -> list[Action]:
    """An agent that does its work, and tries to read and write what is not its own."""
    repo, home, state = place.repo, place.home, place.state
    return [
        agent.read("sums.py"),
        agent.write("sums.py", UNFINISHED, RIGHT),
        agent.run(f"cat {home}/secret.txt; cat {repo}/new.txt; ls {state}; echo $HOME $TMPDIR"),
        agent.run(f"echo x >> {repo}/sums.py; echo x > {home}/planted; echo x > {state}/.HALT"),
        agent.run("git -c user.name=a -c user.email=a@b commit -qam mine; git stash list; pwd"),
        agent.run("echo x > ~/.profile; touch $TMPDIR/mine && echo may-write-there"),
        Say("It is done."),
    ]


@pytest.fixture(params=[None, NOBODY], ids=["as root", "as another user"])
def user(request: pytest.FixtureRequest) -> int | None:
    """The user who runs the wave; None is the one who runs the tests."""
    found: int | None = request.param
    if found is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return found


@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "limits", "none"])
@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_it_is_told_the_bases_instructions_and_sees_its_test_as_we_do(
    folder: Path, agent: Agent, level: str, user: int | None
) -> None:
    wave, told = Scene(folder, agent, level, user).play(looks_once)
    assert wave.exit_code == 0, wave.stderr
    assert wave.shipped == {"sums"}, wave.stdout
    assert "CLAUDE-OF-BASE" in told
    assert "AGENTS-OF-BASE" in told
    assert "CLAUDE-OF-THE-CHECKOUT" not in told
    assert "the sum is wrong" in told  # its own run of the test said why
    assert "Ran 1 test" in told
    assert "sums.py | " in told  # and it reads git
    assert wave.report["wave"]["repairsUsed"] == 0


@pytest.mark.parametrize("level", CLOSED_LEVELS)
@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_inside_it_reaches_nothing_that_is_not_its_own(
    folder: Path, agent: Agent, level: str, user: int | None
) -> None:
    wave, told = Scene(folder, agent, level, user).play(reaches_out)
    assert wave.shipped == {"sums"}, wave.stderr
    assert "may-write-there" in told.replace("echo may-write-there", "")
    assert SECRET not in told
    assert OF_THE_CHECKOUT not in told
    assert not (folder / "home" / "planted").exists()
    assert not (folder / "home" / ".profile").exists()
    assert not (folder / "state" / ".HALT").exists()
    assert (folder / "repo" / "sums.py").read_text(encoding="utf-8") == UNFINISHED
    assert "dropped from its own git: it committed" in wave.stderr
