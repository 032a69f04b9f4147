"""An agent program inside of walls: the home, the login and the rights that it has there.

A stub takes the place of Claude Code; `test_real_agents_in_walls` has the real programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.backends.registry import driver_from
from tests.support.walls import CLOSED_LEVELS, needs
from tests.support.waves import Scene, built, item, verdicts

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the walls are Linux's"
)
LOGIN = {"claudeAiOauth": {"accessToken": "sk-ant-oat01-old", "expiresAt": 1}}
STUB = r"""#!/usr/bin/env python3
import json, os, subprocess, sys
from pathlib import Path

home, login = Path.home(), Path.home() / ".claude" / ".credentials.json"
test = subprocess.run("python3 -m unittest -q test_it", shell=True, capture_output=True)
def can_read(path):
    try:
        return bool(Path(path).read_bytes())
    except OSError:
        return False
seen = {
    "home": str(home),
    "temporary": os.environ.get("TMPDIR"),
    "mode": sys.argv[sys.argv.index("--permission-mode") + 1],
    "sandbox": os.environ.get("IS_SANDBOX"),
    "has_login": json.loads(login.read_bytes()) == LOGIN,
    "variables": sorted(os.environ),
    "reads": [path for path in SECRETS if can_read(path)],
    "test": test.returncode,
    "compiled": (home / ".cache" / "go-build" / "std").exists(),
    "prompt": sys.stdin.read(),
}
(home / ".profile").write_text("echo planted\n")
renewed = {"accessToken": "sk-ant-oat01-new", "expiresAt": 2}
login.write_text(json.dumps({"claudeAiOauth": renewed}))
Path("seen.json").write_text(json.dumps(seen))
usage = {"input_tokens": 1, "output_tokens": 1}
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done",
    "usage": usage, "modelUsage": {"m": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.01}},
    "total_cost_usd": 0.01, "num_turns": 1, "permission_denials": []}))
"""
FILES = {
    "CLAUDE.md": "OF-THE-BASE\n",
    "test_it.py": "import os, unittest\n\n\nclass T(unittest.TestCase):\n"
    "    def test_seen(self):\n        self.assertTrue(os.path.exists('seen.json'))\n",
}
A_GOOD = "python3 -m unittest -q test_it"


def seen_at(
    folder: Path, level: str, config: str = "", test: str = A_GOOD, rounds: int = 0
) -> Mapping[str, Any]:
    """What the agent of a wave at this level wrote down about its place."""
    needs(level)
    folder = folder.resolve()
    environ = {"TIDEGATE_SANDBOX_LEVEL": level, "SSH_AUTH_SOCK": "/s", "AWS_SECRET_KEY": "k"}
    scene = Scene(
        folder,
        FILES,
        config=f'[backend]\nname = "claude"\ncommand = ["{folder}/bin/claude"]\n{config}',
        environ=environ,
    )
    home = folder / "home"
    (home / ".claude").mkdir()
    (home / ".claude" / ".credentials.json").write_text(json.dumps(LOGIN), encoding="utf-8")
    (home / "secret").write_text("s", encoding="utf-8")
    (folder / "bin").mkdir()
    secrets = [str(home / "secret"), str(scene.repo.path / "CLAUDE.md")]
    program = folder / "bin" / "claude"
    text = STUB.replace("SECRETS", repr(secrets)).replace("LOGIN", repr(LOGIN))
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    settings = scene.settings
    driver = driver_from(settings.backend, settings.environ)
    report = scene.run(driver, [item("a", "seen.json", test, repairCap=rounds)])
    assert verdicts(report) == {"a": "verified"}, built(report)["a"]["error"]
    [shipped] = report["shipped_repos"]
    seen: Mapping[str, Any] = json.loads(scene.repo.git("show", f"{shipped['sha']}:seen.json"))
    assert not (home / ".profile").exists()
    return seen


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "limits", "none"])
def test_it_has_a_home_of_its_own_with_a_copy_of_its_login(tmp_path: Path, level: str) -> None:
    seen = seen_at(tmp_path, level)
    assert not seen["home"].startswith(str(tmp_path.resolve() / "home"))
    assert seen["temporary"]
    assert seen["has_login"]
    kept = json.loads((tmp_path / "home" / ".claude" / ".credentials.json").read_bytes())
    assert kept["claudeAiOauth"]["accessToken"] == "sk-ant-oat01-new"  # renewed, and given back
    assert not {"SSH_AUTH_SOCK", "AWS_SECRET_KEY"} & {*seen["variables"]}
    assert "OF-THE-BASE" in seen["prompt"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_it_begins_with_what_its_test_compiled_on_the_base(tmp_path: Path, level: str) -> None:
    compiles = "mkdir -p ~/.cache/go-build && touch ~/.cache/go-build/std"
    asks = f"{compiles} && grep -q '\"compiled\": true' seen.json"
    one_by_one = "[limits]\nmax_parallel_tests = 1\n"
    assert seen_at(tmp_path, level, one_by_one, asks, rounds=2)["compiled"]


@pytest.mark.more
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_inside_of_closed_walls_it_may_do_all_and_reaches_nothing(
    tmp_path: Path, level: str
) -> None:
    seen = seen_at(tmp_path, level)
    assert (seen["mode"], seen["sandbox"], seen["reads"]) == ("bypassPermissions", "1", [])


@pytest.mark.more
def test_without_closed_walls_it_has_to_ask(tmp_path: Path) -> None:
    seen = seen_at(tmp_path, "limits")
    assert (seen["mode"], seen["sandbox"]) == ("acceptEdits", None)
