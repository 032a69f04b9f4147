"""A run that finds everything shipped already says where it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from driver.reports.summary_lines import summary_lines
from tests.support.waves import Scene, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a test for a POSIX shell")


@pytest.mark.parametrize("pushed", [False, True])
def test_a_run_whose_items_are_all_on_their_branch_already_names_it(
    tmp_path: Path, pushed: bool
) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n"}, remote=pushed)
    items = [item("a", "a.txt", "grep -q good a.txt")]
    first, _ = scene.play({"a": writes(a__txt="good\n")}, items)
    again, driver = scene.play({}, items, wave_id="w2", resume=True)
    assert (again["exit_code"], verdicts(again), driver.requests) == (0, {"a": "verified"}, [])
    assert (again["branch"], again["sha"]) == (first["branch"], first["sha"])
    where = "pushed" if pushed else "in this repository only"
    assert f"branch {first['branch']}: {where}" in summary_lines(again)
