"""What the status says when one run has ended and another one is still at work."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from driver.run_state.run_registry import noted
from state_store.api import StateAPI
from tools import state


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert state.main(["status", "--json", "--state-dir", str(folder)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert isinstance(told, dict)
    return told


def enter(api: StateAPI, wave: str, phase: str) -> None:
    api.append("orchestrator_status", "phase_changed", {"phase": phase, "cycle": wave})


def test_a_run_that_ended_idle_hides_none_that_is_at_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        api = stack.enter_context(StateAPI(tmp_path / "tracker_events.db"))
        enter(api, "w1", "dispatch")
        enter(api, "dead", "dispatch")
        enter(api, "w2", "idle")
        assert shown(tmp_path, capsys)["phase"] == "idle"
        with noted(tmp_path / "runs" / "w1", "w1", ()):
            told = shown(tmp_path, capsys)
            assert (told["phase"], told["cycle"]) == ("dispatch", told["running"][0])
            assert [one["wave_id"] for one in told["running"]] == ["w1"]
        assert "running" not in shown(tmp_path, capsys)


def test_a_wave_without_a_scheduler_is_at_work_too_and_a_persons_phase_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        StateAPI(tmp_path / "tracker_events.db") as api,
        noted(tmp_path / "runs" / "w1", "w1", ()),
    ):
        api.append("wave:w1", "wave_started", {"wave_id": "w1", "items": []})
        told = shown(tmp_path, capsys)
        assert told["phase"] == "dispatch"
        api.append("meta", "phase_set", {"phase": "mine"})
        told = shown(tmp_path, capsys)
        assert (told["phase"], told["cycle"]["wave_id"]) == ("mine", "w1")
