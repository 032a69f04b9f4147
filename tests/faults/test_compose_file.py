"""The commands of the compose file, run as processes: one set-up, then three workers at once.

There is no container here. The folders of the containers are folders of the test.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreter import PYTHON
from tests.support.postgres import Server
from tests.support.programs import ROOT, git
from tests.support.yaml_outline import outline
from tools.starter import CI_TEMPLATES

pytestmark = [pytest.mark.more, pytest.mark.skipif(sys.platform == "win32", reason="needs sh")]
SLUGS = ("a", "b", "c", "d", "e")


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A committed project, its exported backlog, and a program `tidegate`."""
    found = importlib.util.find_spec("psycopg")
    packages = str(Path(found.origin).parents[1]) if found and found.origin else ""
    program = tmp_path / "bin" / "tidegate"
    program.parent.mkdir()
    start = " ".join([*PYTHON, str(ROOT / "driver" / "tidegate.py")])
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec {start} "$@"\n')
    program.chmod(0o755)
    project, backlog = tmp_path / "project", tmp_path / "backlog"
    for folder in (project, backlog, tmp_path / "remote"):
        folder.mkdir()
    git(project, "init", "-q", "-b", "main")
    agent = json.dumps(["sh", "-c", 'echo good > "$TIDEGATE_ITEM.txt"'])
    settings = f'[backend]\nname = "command"\ncommand = {agent}\n[review]\nmode = "off"\n'
    (project / "tidegate.toml").write_text(settings)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "start")
    items = [
        {
            "id": slug.upper(),
            "slug": slug,
            "status": "todo",
            "prompt": f"Do {slug}.",
            "ownsFiles": [f"{slug}.txt"],
            "testCmd": f"grep -qx good {slug}.txt",
        }
        for slug in SLUGS
    ]
    (backlog / "backlog.json").write_text(json.dumps({"version": 1, "items": items}))
    return tmp_path


def started(
    service: dict[str, Any], folders: Path, server: Server, machine: str, schema: str
) -> subprocess.Popen[str]:
    """The command of a service on a machine of its own."""
    script = str(service["command"][-1]).replace("$$", "$")
    work = folders / machine
    work.mkdir()
    for name in ("project", "backlog", "remote"):
        script = script.replace(f" /{name}", f" {folders / name}")
    script = script.replace("/work", str(work))
    environ = {
        "PATH": f"{folders / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(work),
        "TIDEGATE_STATE_URL": server.url,
        "TIDEGATE_STATE_SCHEMA": schema,
    }
    words = [*service["command"][:-1], script]
    return subprocess.Popen(
        words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_three_workers_ship_each_item_once(folders: Path, postgres: Server) -> None:
    services = outline((CI_TEMPLATES / "compose.yml").read_text(encoding="utf-8"))["services"]
    schema = postgres.new_schema()
    setup = started(services["setup"], folders, postgres, "setup", schema)
    out, _ = setup.communicate(timeout=120)
    assert setup.returncode == 0, out
    said = []
    for night in range(4):
        workers = [
            started(services["worker"], folders, postgres, f"worker-{night}-{number}", schema)
            for number in range(int(services["worker"]["deploy"]["replicas"]))
        ]
        said += [worker.communicate(timeout=300)[0] for worker in workers]
        shipped = git(
            folders / "remote" / "project.git",
            *("log", "--branches=wave/*", "--not", "main"),
            "--format=%(trailers:key=Item-Id,valueonly,separator=)",
        ).split()
        if len(shipped) >= len(SLUGS):
            break
    assert sorted(shipped) == [slug.upper() for slug in SLUGS], said
