"""Callers of the source put its `driver/` or `tools/` first on sys.path and import bare names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "driver": [
        *("agent_driver", "backend_config", "claude_code_driver", "codex_driver"),
        *("openai_compatible_driver", "openai_transport", "tidegate", "verification_policy"),
        *("wave_bridge", "wave_loop", "wave_scheduler"),
    ],
    "tools": [
        *("common", "cost_ceiling", "cost_projection", "doctor", "fleet_ledger", "halt"),
        *("heartbeat", "init", "intake", "stall_check", "wave_resume"),
        *("orchestrator_status", "reconcile", "recover", "reproduce", "secret_scan", "state"),
        *("verify_state", "wave_ledger_hook", "wave_preflight", "wave_templates"),
    ],
}


def run(text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", text], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("folder", NAMES)
def test_every_name_can_be_imported_one_after_the_other(folder: str, tmp_path: Path) -> None:
    text = f"""
import importlib, json, sys
sys.path.insert(0, {str(ROOT / folder)!r})
before = list(sys.path)
for name in {NAMES[folder]!r}:
    importlib.import_module(name)
import secrets, sys
kept = sys.path[:len(before)] == before
print(json.dumps([kept, secrets.token_hex(2).isalnum(), sys.modules["__main__"].__name__]))
"""
    done = run(text, tmp_path)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [True, True, "__main__"]


def test_one_name_of_each_folder_alone_is_enough(tmp_path: Path) -> None:
    for folder, names in NAMES.items():
        for name in names[::4]:
            text = f"import sys\nsys.path.insert(0, {str(ROOT / folder)!r})\nimport {name}\n"
            assert run(text, tmp_path).stderr == "", name


def test_a_flat_module_is_the_module_of_the_package(tmp_path: Path) -> None:
    text = f"""
import sys
for folder in ({str(ROOT / "tools")!r}, {str(ROOT / "driver")!r}):
    sys.path.insert(0, folder)
import halt, wave_loop, wave_scheduler, codex_driver
import tools.halt, driver.wave_loop, driver.wave_scheduler, driver.codex_driver
assert halt is tools.halt and wave_loop is driver.wave_loop
assert wave_scheduler is driver.wave_scheduler and codex_driver is driver.codex_driver
"""
    done = run(text, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", ["tools/halt.py", "driver/wave_loop.py"])
def test_a_program_run_as_a_file_does_not_import_from_its_own_folder(
    program: str, tmp_path: Path
) -> None:
    text = (
        f"import runpy, sys\nsys.path.insert(0, {str((ROOT / program).parent)!r})\n"
        f"sys.argv = ['x', '--help']\n"
        f"try:\n    runpy.run_path({str(ROOT / program)!r}, run_name='__main__')\n"
        f"except SystemExit as ended:\n    print(ended.code, sys.path[0])\n"
    )
    done = run(text, tmp_path)
    assert done.stdout.splitlines()[-1] == f"0 {ROOT}"
