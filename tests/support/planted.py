"""A small project, a test command, and what the planted test says about it, by real runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.runners.canary import CanaryVerdict, Judged, canary_verdict, is_read, plan_canary
from driver.runners.counts import Counts, Doubt, count_tests
from driver.runners.runner import Canary

PYTHON = sys.executable
DEADLINE_S = 300
Command = str | tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str


def write(top: Path, files: Mapping[str, str]) -> None:
    """Lay files down; paths have slashes."""
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def listing(top: Path) -> frozenset[str]:
    """The tree's files."""
    return frozenset(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())


def run(command: Command, top: Path) -> Run:
    """Run it as a proving tree's test, with nothing of ours in its environment."""
    argv = ("bash", "-o", "pipefail", "-c", command) if isinstance(command, str) else command
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    env = {
        **kept,
        "HOME": str(top),
        "PYTHONDONTWRITEBYTECODE": "1",
        "npm_config_update_notifier": "false",
    }
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        argv,
        cwd=top,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=DEADLINE_S,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Proof:
    """The run without the planted test, and the verdict of the one with it."""

    plain: Run
    counts: Counts | Doubt | None
    judged: Judged


def prove(command: Command, top: Path, changed: tuple[str, ...], nonce: str = "k7q2x") -> Proof:
    """Run the command, then with the planted test: alone too, when it was not found."""
    plain = run(command, top)
    real = count_tests(command, plain.out, plain.err)
    files = listing(top)
    texts = {name: (top / name).read_text(encoding="utf-8") for name in files if is_read(name)}
    canary = plan_canary(command, files, changed, nonce, texts=texts)
    assert isinstance(canary, Canary), canary
    write(top, {canary.path: canary.text})
    judged = _judged(canary, canary.command, top, real)
    if judged.verdict is CanaryVerdict.UNSEEN and canary.alone is not None:
        judged = _judged(canary, canary.alone, top, None)
    return Proof(plain, real, judged)


def _judged(canary: Canary, command: Command, top: Path, real: Counts | Doubt | None) -> Judged:
    ended = run(command, top)
    now = count_tests(command, ended.out, ended.err)
    text = f"{ended.out}\n{ended.err}"
    return canary_verdict(canary, ended.code, text, now, real, str(top))
