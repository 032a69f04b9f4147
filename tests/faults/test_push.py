"""A signal while the work is on its way to the remote: no push outlives the program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.processes import MARKER, Marked, eventually
from tests.support.repos import hook
from tests.support.waves import Scene, built, item

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
PROGRAM = Path(__file__).resolve().parents[2] / "driver" / "wave_loop.py"
GONE_WITHIN_S = 2.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@beside
def test_no_push_outlives_the_program(folder: Path, number: int, code: int) -> None:
    scene, marked = Scene(folder, {"a.txt": "base\n"}, remote=True), Marked(folder)
    assert scene.remote
    pushing, hooks = folder / "pushing", scene.remote.path / "hooks"
    hook(hooks, "pre-receive", f"touch {pushing}; sleep 60")
    agent = ["sh", "-c", "echo good > a.txt"]
    config = f'[backend]\nname = "command"\ncommand = {json.dumps(agent)}\ntier = 1\n'
    (folder / "tidegate.toml").write_text(config, encoding="utf-8")
    manifest = {"items": [item("a", "a.txt", "grep -q good a.txt")]}
    (folder / "m.json").write_text(json.dumps(manifest), encoding="utf-8")
    flags = ("--manifest", "m.json", "--config", "tidegate.toml", "--state-dir", "state")
    argv = [*PYTHON, str(PROGRAM), "--git", "--repo", "repo", *flags]
    env = {**scene.environ, MARKER: marked.marker, "PYTHONDONTWRITEBYTECODE": "1"}

    def start() -> warm.Program:
        return warm.start(
            argv, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    try:
        with start() as program:
            try:
                assert eventually(pushing.exists, 30.0)
                assert marked.alive()
                program.send_signal(number)
                out, err = program.communicate(timeout=60)
            finally:
                program.kill()
        assert eventually(lambda: not marked.alive(), GONE_WITHIN_S)
    finally:
        marked.end()
    assert (program.returncode, "Traceback" in err) == (code, False)
    assert scene.remote.git("branch", "--list", "--format=%(refname:short)") == "main"
    assert scene.repo.git("branch", "--list", "wave/*") != ""
    if number != signal.SIGKILL:
        report = json.loads(out)
        assert (report["abort_reason"], report["shipped"]) == ("interrupted", [])
        assert "it may have reached the remote" in built(report)["a"]["ship_error"]
    hook(hooks, "pre-receive", "exit 0")
    with start() as program:
        out, err = program.communicate(timeout=60)
    assert (program.returncode, json.loads(out)["shipped"]) == (0, ["a"]), err
