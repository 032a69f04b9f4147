"""A dispatch whose run was killed is not shown as running for ever."""

from __future__ import annotations

import json
from pathlib import Path

from driver.run_state.run_registry import noted
from state_store.api import StateAPI
from tests.support.programs import ROOT, run

STATE = ROOT / "tools" / "state.py"


def test_a_dispatch_runs_only_while_its_run_does(tmp_path: Path) -> None:
    with StateAPI(tmp_path / "tracker_events.db") as api:
        for wave in ("dead", "alive"):
            told = {"agent_id": f"{wave}/a/1", "item": "a", "wave": wave, "attempt": 1}
            api.append("agent_traces", "agent_dispatched", {**told, "phase": "build"})
        ended = {"agent_id": "dead/b/1", "wave": "dead", "tokens": 3, "verdict": "verified"}
        api.append("agent_traces", "agent_completed", ended)
    run_dir = tmp_path / "runs" / "alive"
    run_dir.mkdir(parents=True)
    with noted(run_dir, "alive", ()):
        done = run(STATE, "traces", "--json", "--state-dir", tmp_path, cwd=tmp_path)
        found = json.loads(done.out)
    states = {agent["id"]: agent["state"] for agent in found["agents"]}
    assert states == {"alive/a/1": "dispatched", "dead/a/1": "lost", "dead/b/1": "completed"}
    assert found["totals"]["running"] == 1
    afterwards = json.loads(
        run(STATE, "traces", "--json", "--state-dir", tmp_path, cwd=tmp_path).out
    )
    assert afterwards["totals"]["running"] == 0
