"""A set-up command that a halt ends is no fault of the set-up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.waves import Scene, built, item, verdicts, writes
from tools.halt import HALT_FILE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="set-up for a POSIX shell")


@pytest.mark.parametrize("before", [0, 1], ids=["in the workspace", "in the proving tree"])
def test_an_item_whose_set_up_was_ended_by_a_halt_is_halted(tmp_path: Path, before: int) -> None:
    done, switch = tmp_path / "done", tmp_path / "state" / HALT_FILE
    done.touch()
    halts = f"if [ $(wc -l < {done}) -eq {before} ]; then touch {switch}; sleep 60; fi"
    setup = json.dumps(f"{halts}; echo x >> {done}")
    config = f'[verify]\nred_first = "off"\n[workspace]\nsetup = [{setup}]\n'
    scene = Scene(tmp_path, {"a.txt": "base\n"}, config=config)
    task = item("a", "a.txt", "grep -q good a.txt", requireAdversarialReview=False)
    report, driver = scene.play({"a": writes(a__txt="good\n")}, [task])
    assert (report["abort_reason"], verdicts(report)) == ("halted", {"a": "halted"})
    assert built(report)["a"]["error"].startswith("halted: without a reason")
    assert len(driver.requests) == before
