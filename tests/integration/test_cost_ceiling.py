"""The ceiling counts what it should, and stops whenever it cannot count."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tests.support import warm
from tests.support.interpreter import PYTHON
from tools import cost_ceiling, halt

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime.now(UTC)


def limits(**values: Any) -> dict[str, Any]:
    return {"limits": values}


def row(stamp: datetime | str, tokens_in: int | str, out: int | str, wave: str = "7") -> str:
    when = stamp if isinstance(stamp, str) else stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"| {when} | waverun | haiku | 12 | {tokens_in} | {out} | OK | build | {wave} |\n"


def ledger(state: Path, *rows: str) -> Path:
    path = state / "ledger" / "OUTCOMES-LEDGER.md"
    path.parent.mkdir(parents=True)
    names = "| Timestamp | Agent | Model | s | In | Out | Verdict | Phase | Wave |"
    head = f"# Outcomes\n\n{names}\n{'|---' * 9}|\n"
    path.write_text(head + "".join(rows), encoding="utf-8")
    return path


def run(*arguments: str, cwd: Path, zone: str = "UTC") -> subprocess.CompletedProcess[str]:
    environ = {
        "HOME": str(cwd),
        "TZ": zone,
        "PATH": os.environ["PATH"],
        "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
    }
    return warm.run(
        [*PYTHON, ROOT / "tools" / "cost_ceiling.py", *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("spent", "ceiling", "exceeded"),
    [(99, 100, False), (100, 100, True), (101, 100, True), (0, 0, True), (10**12, None, False)],
)
def test_a_ceiling_is_reached_by_spending_as_much(
    tmp_path: Path, spent: int, ceiling: int | None, exceeded: bool
) -> None:
    config = limits(max_wave_tokens=ceiling)
    answer = cost_ceiling.check(spent=spent, config=config, state_dir=tmp_path)
    assert set(answer) == {"period", "ceiling", "spent", "exceeded", "tripped", "reason"}
    assert (answer["spent"], answer["ceiling"]) == (spent, ceiling)
    assert answer["exceeded"] is answer["tripped"] is halt.is_halted(tmp_path) is exceeded


def test_a_breach_halts_only_when_asked_to_and_keeps_an_earlier_reason(tmp_path: Path) -> None:
    config = limits(max_wave_tokens=1)
    answer = cost_ceiling.check(spent=5, config=config, state_dir=tmp_path, trip=False)
    assert (answer["exceeded"], answer["tripped"]) == (True, False)
    assert not halt.is_halted(tmp_path)
    halt.halt("by hand", tmp_path)
    assert cost_ceiling.check(spent=5, config=config, state_dir=tmp_path)["tripped"]
    assert (halt.get_halt_info(tmp_path) or {})["reason"] == "by hand"


def test_the_day_is_the_utc_day_and_old_rows_are_past(tmp_path: Path) -> None:
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    abroad = midnight.astimezone(UTC).strftime("%Y-%m-%dT02:00:00+02:00")
    ledger(
        tmp_path,
        row("2020-01-01T00:00:00Z", 10**9, 10**9),
        row(midnight - timedelta(seconds=1), 1000, 1000),
        row(midnight, 1, 10),
        row(abroad, 100, "-"),
        row(midnight.strftime("%Y-%m-%dT00:00:01"), 5000, 0),
    )
    config = limits(max_daily_tokens=6000)
    answer = cost_ceiling.check(period="daily", config=config, state_dir=tmp_path)
    assert (answer["spent"], answer["exceeded"]) == (5111, False)


@pytest.mark.parametrize("zone", ["XXX-14", "XXX+12"])
def test_a_row_without_a_zone_is_utc_wherever_it_is_read(tmp_path: Path, zone: str) -> None:
    stamps = [NOW - timedelta(minutes=90), NOW - timedelta(minutes=1)]
    ledger(tmp_path / "state", *(row(f"{one:%Y-%m-%dT%H:%M:%S}", 5, 0) for one in stamps))
    answer = run("--check", "--window", "60", cwd=tmp_path, zone=zone)
    assert json.loads(answer.stdout)["spent"] == 5


def test_a_wave_counts_its_own_rows(tmp_path: Path) -> None:
    ledger(tmp_path, row(NOW, 500, 0, "6"), row(NOW, 20, 3, "7"), row(NOW, 9, 9, ""))
    config = limits(max_wave_tokens=400)
    for wave, spent in ((7, 23), ("6", 500), ("8", 0)):
        answer = cost_ceiling.check(config=config, state_dir=tmp_path, wave=wave, trip=False)
        assert (answer["spent"], answer["exceeded"]) == (spent, spent >= 400)


def test_a_wave_without_a_name_counts_this_utc_day_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AESOP_WAVE", raising=False)
    today = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    ledger(tmp_path, row("2020-01-01T00:00:00Z", 9000, 0), row(today, 500, 0), row(today, 8, 0, ""))
    for ceiling, exceeded in ((400, True), (508, True), (600, False)):
        config = limits(max_wave_tokens=ceiling)
        answer = cost_ceiling.check(config=config, state_dir=tmp_path, trip=False)
        assert (answer["spent"], answer["exceeded"]) == (508, exceeded)
        assert "UTC day" in answer["reason"]
    monkeypatch.setenv("AESOP_WAVE", "7")
    named = cost_ceiling.check(config=limits(max_wave_tokens=9501), state_dir=tmp_path)
    assert (named["spent"], named["reason"]) == (9500, None)


def test_the_command_without_a_wave_stops_at_what_the_day_has_spent(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("limits.max_wave_tokens = 400", encoding="utf-8")
    ledger(tmp_path / "state", row(NOW.replace(hour=0, minute=0, second=0), 500, 0, "6"))
    done = run("--check", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["spent"]) == (1, 500)
    assert "UTC day" in done.stderr


def test_a_row_without_a_time_stops_because_its_tokens_would_not_count(tmp_path: Path) -> None:
    for first in ("-", ""):
        folder = tmp_path / f"state{first}"
        ledger(folder, row(NOW, 1, 1), row(first, 500, 0))
        answer = cost_ceiling.check(config=limits(max_wave_tokens=9), state_dir=folder, wave=7)
        stops(answer, folder)
        assert "line 6 is no row" in answer["error"]


def test_a_window_counts_the_last_minutes(tmp_path: Path) -> None:
    ledger(tmp_path, row(NOW - timedelta(hours=2), 100, 0), row(NOW, 5, 0))
    answer = cost_ceiling.check(config=limits(), state_dir=tmp_path, window_minutes=60)
    assert answer["spent"] == 5
    assert cost_ceiling.read_ledger_total_tokens(tmp_path) == 105
    assert cost_ceiling.read_ledger_total_tokens(tmp_path, "wave", 60) == 5
    start, end = cost_ceiling.calculate_window_bounds(60, NOW)
    assert (start, end) == (NOW - timedelta(hours=1), NOW)


@pytest.mark.parametrize("spent", [float("nan"), float("inf"), -1, True, "5"])
def test_spending_that_is_no_amount_stops(tmp_path: Path, spent: Any) -> None:
    stops(cost_ceiling.check(spent=spent, config=limits(), state_dir=tmp_path), tmp_path)


@pytest.mark.parametrize("ceiling", ["5 million", "5000000", -1, True, 1.5, float("nan"), [], {}])
@pytest.mark.parametrize("period", ["wave", "daily"])
def test_a_ceiling_that_is_no_number_stops(tmp_path: Path, period: str, ceiling: Any) -> None:
    config = limits(max_wave_tokens=ceiling, max_daily_tokens=ceiling)
    stops(cost_ceiling.check(spent=0, period=period, config=config, state_dir=tmp_path), tmp_path)
    with pytest.raises(InputError, match="whole number"):
        cost_ceiling.get_ceiling(config, period)


@pytest.mark.parametrize("minutes", [0, -5, float("nan"), float("inf"), 1e300, "5"])
def test_a_window_that_is_no_time_stops(tmp_path: Path, minutes: Any) -> None:
    answer = cost_ceiling.check(config=limits(), state_dir=tmp_path, window_minutes=minutes)
    stops(answer, tmp_path)


@pytest.mark.parametrize(
    "bad",
    [
        "| 2026-13-01T00:00:00Z | a | m | 1 | 2 | 3 | OK | build | 7 |\n",
        row(NOW, "many", 3),
        row(NOW, -5, 3),
        "| 2026-01-01T00:00:00Z | a |\n",
    ],
)
def test_a_ledger_with_a_row_nobody_can_count_stops_and_names_it(tmp_path: Path, bad: str) -> None:
    ledger(tmp_path, row(NOW, 1, 1), bad)
    answer = cost_ceiling.check(period="daily", config=limits(), state_dir=tmp_path)
    stops(answer, tmp_path)
    assert "OUTCOMES-LEDGER.md line 6" in answer["error"]


def test_a_ledger_that_is_no_file_stops(tmp_path: Path) -> None:
    (tmp_path / cost_ceiling.LEDGER).mkdir(parents=True)
    stops(cost_ceiling.check(period="daily", config=limits(), state_dir=tmp_path), tmp_path)


def test_an_unknown_period_stops(tmp_path: Path) -> None:
    stops(cost_ceiling.check(spent=0, period="hourly", config={}, state_dir=tmp_path), tmp_path)


def test_a_halt_that_cannot_be_set_is_told_with_the_breach(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = limits(max_wave_tokens=1)
    answer = cost_ceiling.check(spent=2, config=config, state_dir=tmp_path / "file" / "state")
    assert answer["exceeded"]
    assert "2 of 1" in answer["reason"]


def stops(answer: dict[str, Any], state: Path) -> None:
    assert (answer["exceeded"], answer["tripped"]) == (True, False)
    assert answer["error"]
    assert answer["error"] in answer["reason"]
    assert not halt.is_halted(state)


def test_reading_creates_nothing_and_changes_no_variable(tmp_path: Path) -> None:
    before = dict(os.environ)
    for period in ("wave", "daily"):
        assert cost_ceiling.check(period=period, config=limits(), state_dir=tmp_path)["spent"] == 0
    assert list(tmp_path.iterdir()) == []
    assert dict(os.environ) == before


def test_the_command_line_tells_by_exit_code_and_json(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("limits.max_wave_tokens = 100", encoding="utf-8")
    under = run("--check", "--spent", "99", cwd=tmp_path)
    assert (under.returncode, under.stderr) == (0, "")
    assert json.loads(under.stdout)["ceiling"] == 100
    assert not (tmp_path / "state").exists()
    over = run("--check", "--spent", "100", "--state-dir", "elsewhere", cwd=tmp_path)
    assert over.returncode == 1
    assert json.loads(over.stdout)["tripped"]
    assert over.stderr == "cost_ceiling: wave cost ceiling reached: 100 of 100 tokens spent\n"
    assert halt.is_halted(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("--check", "--period", "hourly"), 2),
        (("--check", "--spent", "x"), 2),
        (("--check", "--spent", "nan"), 1),
        (("--check", "--spent", "-1"), 1),
        (("--check", "--window", "0"), 1),
    ],
)
def test_a_question_that_cannot_be_answered_is_not_a_yes(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr


def test_a_broken_config_is_no_licence_to_spend(tmp_path: Path) -> None:
    (tmp_path / "aesop.config.json").write_text('{"limits": ', encoding="utf-8")
    done = run("--check", "--spent", "0", cwd=tmp_path)
    assert done.returncode == 1
    assert "aesop.config.json" in json.loads(done.stdout)["error"]
