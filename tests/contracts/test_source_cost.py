"""`cost_ceiling`, `cost_projection` and `halt` as callers of the original project use them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tools import cost_ceiling, cost_projection, fleet_ledger, halt

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TIDEGATE_STATE_DIR", "AESOP_WAVE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AESOP_STATE_ROOT", str(tmp_path / "st"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "st"


def spend(tokens: int, wave: Any = None, model: str = "m") -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fleet_ledger.append_ledger_line(stamp, "a", model, 1, tokens, 0, wave=wave)


def test_a_reason_is_none_if_all_is_well_and_speaks_of_cost_otherwise(state: Path) -> None:
    config = {"limits": {"max_wave_tokens": 10}}
    assert cost_ceiling.check(9, "wave", config)["reason"] is None
    assert cost_ceiling.check(9, "wave", {})["reason"] is None
    reached = cost_ceiling.check(10, "wave", config)
    assert "cost" in reached["reason"]
    assert "cost" in (halt.get_halt_info(state) or {})["reason"]


def test_the_ledger_is_summed_by_period_and_window(state: Path) -> None:
    spend(5)
    fleet_ledger.append_ledger_line("2020-01-01T00:00:00Z", "a", "m", 1, 100, 0)
    sums = cost_ceiling.read_ledger_total_tokens
    assert [sums(state), sums(state, "daily"), sums(state, "wave", 5)] == [105, 5, 5]


def test_bad_periods_and_windows_are_value_errors() -> None:
    with pytest.raises(ValueError, match="period"):
        cost_ceiling.get_ceiling({}, "hourly")
    with pytest.raises(ValueError, match="window"):
        cost_ceiling.calculate_window_bounds(0)


def test_a_config_keeps_the_keys_of_other_tools(tmp_path: Path) -> None:
    limits = {"max_wave_tokens": 7, "max_subagents": 3}
    held = {"limits": limits, "scan": ["x"]}
    (tmp_path / "aesop.config.json").write_text(json.dumps(held))
    found = cost_ceiling.load_config()
    assert found["scan"] == halt.load_config()["scan"] == ["x"]
    assert found["limits"].items() >= limits.items()
    assert cost_ceiling.get_ceiling(found, "wave") == 7


def test_a_projection_by_position(state: Path) -> None:
    for model in ("m", "m", "n"):
        spend(300, 5, model)
    found = cost_projection.project(30, 1200, {}, 60)
    assert (found["projected"], found["current"], found["reason"]) == (1800, 900, None)
    assert isinstance(found["projected"], int)
    assert found["by_role"]["n"] == {
        "tokens_in": 300,
        "tokens_out": 0,
        "total": 300,
        "entries": 1,
    }
    alert = cost_projection.check_and_alert(30, 1000, 5, {}, 60)
    assert (alert["alert_level"], alert["fired_alert"]) == ("90", True)
    lines = (state / "SECURITY-ALERTS.log").read_text().splitlines()
    assert [("HIGH" in one, "CRITICAL" in one) for one in lines] == [(True, False), (False, True)]
    assert ["70%" in lines[0], "90%" in lines[1]] == [True, True]


def test_without_a_config_there_is_no_ceiling_and_an_hour() -> None:
    assert cost_projection.get_ceiling(None) is None
    assert cost_projection.get_horizon_minutes(None) == 60


def test_the_command_without_a_mode_projects(capsys: Captured) -> None:
    assert cost_projection.main(["--json"]) == 0
    for wrong in (("--ceiling", "-1"), ("--horizon", "-1"), ("--horizon", "nan")):
        assert cost_projection.main(wrong) == 2
    assert json.loads(capsys.readouterr().out)["is_thin_window"] is True


def test_halt_returns_its_file_and_takes_any_reason(state: Path) -> None:
    assert halt.halt(5) == state / halt.SENTINEL_NAME
    assert (halt.get_halt_info() or {})["reason"] == "5"
    with pytest.raises(ValueError, match="reason"):
        halt.halt(" ")


def test_the_words_of_halt(capsys: Captured) -> None:
    assert halt.main(["--status"]) == 0
    assert halt.main(["set", "stop", "now"]) == 0
    assert halt.main(["--status"]) == 1
    assert halt.main(["--clear"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == ["not halted", "HALTED: stop now", "HALTED: stop now", "cleared"]
