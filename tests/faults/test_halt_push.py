"""A push that a halt finds under way may end by itself, but not for ever."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes import eventually
from tests.support.repos import hook
from tests.support.stage import PASSES, WAITING_S, Stage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
PATIENCE_S = 0.5
QUICK = f"""red_first = "off"
canary = false
[limits]
halt_push_s = {PATIENCE_S}
"""


def test_a_push_that_outlasts_a_halt_is_ended_and_finished_by_the_next_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path, QUICK, remote=True)
    with ExitStack() as ending:
        ending.callback(stage.marked.end)
        remote, pushing = stage.scene.remote, tmp_path / "pushing"
        assert remote
        hook(remote.path / "hooks", "pre-receive", f"touch {pushing}; sleep 600")
        stage.plan({"done1": PASSES}, repairCap=0)
        with stage.started() as program:
            assert eventually(pushing.exists, WAITING_S), stage.said()
            (stage.state / ".HALT").write_text('{"reason": "enough"}', encoding="utf-8")
            out, _ = program.communicate(timeout=WAITING_S)
        report = json.loads(out)
        (shipment,) = report["shipped_repos"]
        assert (program.returncode, report["shipped"]) == (3, []), stage.said()
        assert (shipment["error"], shipment["push_error"]) == ("git_push_failed", "interrupted")
        assert remote.git("branch", "--list", "--format=%(refname:short)").split() == ["main"]
        assert eventually(lambda: not stage.marked.alive(), WAITING_S)

        (stage.state / ".HALT").unlink()
        (remote.path / "hooks" / "pre-receive").unlink()
        assert stage.next_run("--resume")["shipped"] == ["done1"]
        (branch,) = {*remote.git("branch", "--format=%(refname:short)").split()} - {"main"}
        assert remote.git("rev-parse", branch).strip() == shipment["sha"]
        assert stage.begun()["done1"] == 1
