"""The program that a test is called by lies outside of the repository, where agents can reach."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.waves import Agent, Scene, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


def _program(path: Path, code: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("where", ["late/judge", "early/judge"])
def test_work_beside_a_replaced_program_of_its_test_does_not_ship(
    tmp_path: Path, where: str
) -> None:
    path = f"{tmp_path}/early:{tmp_path}/late:{os.environ['PATH']}"
    scene = Scene(tmp_path, {"a.txt": ""}, environ={"PATH": path})
    _program(tmp_path / "late/judge", 1)

    def cheats(agent: Agent) -> None:
        agent.write({"a.txt": "wrong\n"})
        _program(tmp_path / where, 0)

    report, _ = scene.play({"a": cheats}, [item("a", "a.txt", ["judge", "a.txt"])])
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    assert "judge" in built(report)["a"]["error"]


@pytest.mark.more
def test_a_program_that_stays_as_it_was_is_believed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": ""}, environ={"PATH": f"{tmp_path}/b:{os.environ['PATH']}"})
    _program(tmp_path / "b/judge", 0)
    writes = lambda agent: agent.write({"a.txt": "right\n"})  # noqa: E731
    report, _ = scene.play({"a": writes}, [item("a", "a.txt", "judge a.txt")])
    assert verdicts(report) == {"a": "verified"}
