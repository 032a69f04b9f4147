"""The ledger: what it takes, what it keeps when it is rotated, and what its programs say."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from state_store.database.spend import Charge, Purpose, Use
from state_store.documents.errors import InputError
from tools import cost_ceiling, cost_projection, fleet_ledger, wave_ledger_hook
from tools.ledger import writer as ledger_writer
from tools.ledger.rows import HEADER, LEDGER, all_rows, archives, use_line
from tools.ledger.writer import write_uses

STAMP = "2026-11-29T10:00:00Z"


def add(state: Path, **more: Any) -> bool:
    row: dict[str, Any] = {
        "iso_ts": STAMP,
        "agent_type": "waverun",
        "model": "m",
        "duration_sec": 3,
        "tokens_in": 10,
        "tokens_out": 5,
    }
    return fleet_ledger.append_ledger_line(**{**row, **more}, state_dir=state)


def use(number: int, tokens: int = 7) -> Use:
    stamp = f"2026-11-29T10:00:00.{number:06d}Z"
    charge = Charge(tokens, 0, tokens, 0, True, True, 1.0, "OK", "m")
    return Use(number, stamp, Purpose("w", "i", 1, "build", "b", "m"), charge)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert add(tmp_path, phase="a-very-long-phase-name", wave=7, verdict="HUNG")
    assert (tmp_path / LEDGER).read_text().startswith(HEADER)
    (row,) = fleet_ledger.parse_ledger_rows(tmp_path)
    assert row == {
        "iso_ts": STAMP,
        "agent_type": "waverun",
        "model": "m",
        "duration_sec": 3,
        "tokens_in": 10,
        "tokens_out": 5,
        "verdict": "HUNG",
        "phase": "a-very-long-pha",
        "wave": 7,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"iso_ts": "yesterday"},
        {"iso_ts": "2026-13-01T00:00:00Z"},
        {"iso_ts": "2026-11-29"},
        {"iso_ts": ""},
        {"agent_type": "a|b"},
        {"model": "a\nb"},
        {"phase": "a|b"},
        {"wave": "1|2"},
        {"verdict": "GOOD"},
        {"tokens_in": -1},
        {"tokens_out": float("nan")},
        {"tokens_in": "five"},
        {"duration_sec": "long"},
        {"tokens_in": True},
        {"duration_sec": float("inf")},
    ],
    ids=str,
)
def test_what_is_no_row_is_refused_and_nothing_is_made(tmp_path: Path, wrong: Any) -> None:
    for kind in (InputError, ValueError):
        with pytest.raises(kind):
            add(tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_reading_makes_no_file_and_changes_no_environment(tmp_path: Path) -> None:
    before = dict(os.environ)
    assert fleet_ledger.parse_ledger_rows(tmp_path, archived=True) == []
    assert json.loads(fleet_ledger.summary("json", tmp_path))["rows"] == 0
    assert cost_ceiling.read_ledger_total_tokens(tmp_path) == 0
    fleet_ledger.get_ledger_paths(tmp_path)
    fleet_ledger.load_harvest_state(tmp_path)
    cost_projection.project(config={}, state_dir=tmp_path)
    assert (list(tmp_path.iterdir()), dict(os.environ)) == ([], before)


def test_rotation_keeps_header_and_totals(tmp_path: Path) -> None:
    write_uses(tmp_path, [use(n) for n in range(200)])
    assert fleet_ledger.rotate(tmp_path) is None
    write_uses(tmp_path, [use(n) for n in range(200, 450)])
    assert len(archives(tmp_path)) == 1
    text = (tmp_path / LEDGER).read_text()
    assert text.startswith(HEADER)
    assert len(all_rows(tmp_path)) == 450
    assert [row.tokens for row in all_rows(tmp_path)] == [7] * 450
    assert cost_ceiling.read_ledger_total_tokens(tmp_path) == 7 * 450
    assert cost_ceiling.read_ledger_total_tokens(tmp_path, since=datetime(2026, 11, 29, tzinfo=UTC))
    assert json.loads(fleet_ledger.summary("json", tmp_path))["tokens"] == 7 * 450
    write_uses(tmp_path, [use(n) for n in range(450)])
    assert len(all_rows(tmp_path)) == 450, "a row that is there came twice"


def test_a_rotation_that_was_cut_off_counts_no_row_twice(tmp_path: Path) -> None:
    write_uses(tmp_path, [use(n) for n in range(200)])
    before = (tmp_path / LEDGER).read_text() + use_line(use(200))
    write_uses(tmp_path, [use(200)])
    (archive,) = archives(tmp_path)
    (tmp_path / LEDGER).write_text(before)  # as if its writer had died after the archive
    assert len(all_rows(tmp_path)) == 201
    assert fleet_ledger.rotate(tmp_path) == archive
    assert (len(all_rows(tmp_path)), archives(tmp_path)) == (201, [archive])


def test_many_writers_lose_no_row(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for at in range(20):
            add(tmp_path, tokens_in=number * 100 + at, tokens_out=0)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(row.tokens for row in all_rows(tmp_path))
    assert found == sorted(n * 100 + at for n in range(6) for at in range(20))


def test_a_summary_of_rows_with_and_without_a_wave(tmp_path: Path) -> None:
    add(tmp_path)
    add(tmp_path, wave=7)
    add(tmp_path, wave="a-name", verdict="FAILED")
    found = json.loads(fleet_ledger.summary("json", tmp_path))
    assert {name: one["rows"] for name, one in found["by_wave"].items()} == {
        "-": 1,
        "7": 1,
        "a-name": 1,
    }
    text = fleet_ledger.summary("text", tmp_path)
    assert "Total: 3 entries, 45 tokens" in text
    assert "\n  a-name -: 1 entry" in text


def report(folder: Path, **more: Any) -> Path:
    path = folder / "report.json"
    tokens = {"buildOut": 100, "verifyOut": 0, "repairOut": 40, "totalOut": 140}
    path.write_text(
        json.dumps({"tokens": tokens, "integration": {"green": True}, "repairsUsed": 1, **more})
    )
    return path


def test_a_wave_of_another_program_is_added_once(tmp_path: Path) -> None:
    path, state = report(tmp_path), tmp_path / "state"
    flags = ["--report-file", str(path), "--wave", "7", "--timestamp", STAMP]
    for _ in range(2):
        assert wave_ledger_hook.main([*flags, "--state-dir", str(state)]) == 0
    rows = fleet_ledger.parse_ledger_rows(state)
    assert [(r["phase"], r["tokens_out"], r["verdict"], r["wave"]) for r in rows] == [
        ("build", 100, "OK", 7),
        ("verify", 0, "OK", 7),
        ("repair", 40, "OK", 7),
    ]
    assert {(row["agent_type"], row["model"]) for row in rows} == {("waverun", "haiku")}


@pytest.mark.parametrize("text", ["", "[]", '{"tokens": 5}', '{"tokens": {"buildOut": -1}}'])
def test_a_report_that_is_none_adds_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    flags = ["--report-file", str(path), "--wave", "7", "--timestamp", STAMP]
    assert wave_ledger_hook.main([*flags, "--state-dir", str(tmp_path / "state")]) == 1
    assert not (tmp_path / "state").exists()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--state-dir", str(tmp_path)]
    row = ["append", STAMP, "agent", "opus", "12", "900", "80", "OK", "build", "7"]
    assert fleet_ledger.main([*where, *row]) == 0
    assert fleet_ledger.main([*where, "append", STAMP, "agent", "opus", "12", "900"]) == 0
    assert fleet_ledger.main([*where, "append", "never", "agent", "opus", "12", "900"]) == 1
    assert fleet_ledger.main([*where, "append", STAMP, "agent", "opus", "12", "many"]) == 1
    capsys.readouterr()
    assert fleet_ledger.main([*where, "summary", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 1880
    assert fleet_ledger.main([*where, "rotate"]) == 0


USAGE = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7}


def said(agent: str | None, message: str, usage: Any = USAGE, **more: Any) -> dict[str, Any]:
    """A line of a transcript."""
    named = {} if agent is None else {"agentId": agent}
    return {**named, **more, "message": {"id": message, "model": "opus", "usage": usage}}


def transcript(root: Path, name: str, *lines: dict[str, Any]) -> None:
    path = root / "x" / "tasks" / f"{name}.output"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\nno json\n[]\n")


def harvested(state: Path) -> list[tuple[Any, ...]]:
    names = ("iso_ts", "agent_type", "model", "tokens_in", "tokens_out", "verdict")
    return [tuple(row[n] for n in names) for row in fleet_ledger.parse_ledger_rows(state)]


def test_each_agent_is_harvested_once_at_the_time_of_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = {"timestamp": "2026-11-29T10:00:00.123Z"}
    growing = said("one", "a", {**USAGE, "output_tokens": 1})
    transcript(tmp_path, "one", growing, said("one", "a"), said("one", "b", **at))
    transcript(tmp_path, "two", said(None, "c", uuid="u1", **at), said("none", "d", {}, **at))
    monkeypatch.setenv("AESOP_TEMP_ROOT", str(tmp_path))
    state = tmp_path / "state"
    assert [fleet_ledger.harvest(state_dir=state) for _ in range(2)] == [3, 0]
    assert harvested(state) == [
        (STAMP, "Agent", "opus", 200, 14, "OK"),
        (STAMP, "Agent", "opus", 100, 7, "OK"),
        (STAMP, "Agent", "opus", 0, 0, "EMPTY"),
    ]
    assert capsys.readouterr().out == "Harvested 3\nSkipped 2\nHarvested 0\nSkipped 2\n"
    assert fleet_ledger.load_harvest_state(state)[0] == {"one", "u1", "none"}


def test_what_a_transcript_gains_later_is_harvested_too(tmp_path: Path) -> None:
    state, at = tmp_path / "state", {"timestamp": STAMP}
    transcript(tmp_path, "one", said("one", "a", **at))
    assert fleet_ledger.harvest(tmp_path, state) == 1
    transcript(tmp_path, "one", said("one", "a", **at), said("one", "b", **at))
    assert [fleet_ledger.harvest(tmp_path, state) for _ in range(2)] == [1, 0]
    assert [row[3:5] for row in harvested(state)] == [(100, 7), (100, 7)]


@pytest.mark.parametrize(
    "held",
    [
        {"seen_agents": ["one"], "last_harvest_ts": STAMP},
        {"seen": ["x/tasks/one.output"], "timestamp": STAMP},
    ],
)
def test_what_the_source_or_an_older_version_harvested_is_not_spent_twice(
    tmp_path: Path, held: Any
) -> None:
    state, at = tmp_path / "state", {"timestamp": STAMP}
    path = fleet_ledger.get_ledger_paths(state)[1]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(held))
    assert fleet_ledger.load_harvest_state(state)[1] == STAMP
    transcript(tmp_path, "one", said("one", "a", **at))
    assert fleet_ledger.harvest(tmp_path, state) == 0
    transcript(tmp_path, "one", said("one", "a", **at), said("one", "b", **at))
    assert fleet_ledger.harvest(tmp_path, state) == 1
    assert "one" in json.loads(path.read_text())["seen_agents"]


def spent_today(state: Path, *tokens: int, wave: Any = 5) -> None:
    now = datetime.now(UTC)
    for at, count in enumerate(tokens):
        stamp = (now - timedelta(minutes=at)).strftime("%Y-%m-%dT%H:%M:%SZ")
        add(state, iso_ts=stamp, tokens_in=count, tokens_out=0, wave=wave)


def test_a_projection_tells_when_the_ceiling_is_met(tmp_path: Path) -> None:
    spent_today(tmp_path, 300, 300, 300)
    add(tmp_path, iso_ts="2020-01-01T00:00:00Z", tokens_in=10**6, wave=4)
    found = cost_projection.project(30, 1200, {}, 60, state_dir=tmp_path)
    assert (found["current"], found["burn_rate_per_min"]) == (900, 30)
    assert (found["projected"], found["projected_total"]) == (1800, 2700)
    assert (found["pct_of_ceiling"], found["minutes_to_ceiling"]) == (75.0, 10)
    by_model = {"m": {"tokens_in": 900, "tokens_out": 0, "total": 900, "entries": 3}}
    assert (found["is_thin_window"], found["by_role"]) == (False, by_model)
    assert "75.0 %" in found["summary"]
    assert found["reason"] is None
    none = cost_projection.project(30, None, {}, state_dir=tmp_path)
    assert (none["ceiling"], none["pct_of_ceiling"], none["minutes_to_ceiling"]) == (None,) * 3


def test_an_alert_is_given_once_for_each_wave_and_threshold(tmp_path: Path) -> None:
    spent_today(tmp_path, 750)

    def alert(wave: Any = 5) -> tuple[Any, bool]:
        found = cost_projection.check_and_alert(30, 1000, wave, {}, state_dir=tmp_path)
        return found["alert_level"], found["fired_alert"]

    assert [alert(), alert()] == [("70", True), ("70", False)]
    spent_today(tmp_path, 200)
    assert [alert(), alert()] == [("90", True), ("90", False)]
    assert (tmp_path / ".cost-alert-70-w5").exists()
    log = (tmp_path / "SECURITY-ALERTS.log").read_text().splitlines()
    assert [line.split()[1] for line in log] == ["HIGH", "CRITICAL"]
    with pytest.raises(ValueError, match="AESOP_WAVE"):
        cost_projection.check_and_alert(30, 1000, config={}, state_dir=tmp_path)


def test_a_jump_past_90_percent_alerts_for_both_levels(tmp_path: Path) -> None:
    spent_today(tmp_path, 950)
    found = cost_projection.check_and_alert(30, 1000, 5, {}, state_dir=tmp_path)
    assert (found["alert_level"], found["fired_alert"]) == ("90", True)
    log = (tmp_path / "SECURITY-ALERTS.log").read_text().splitlines()
    assert [("70%" in line, "90%" in line) for line in log] == [(True, False), (False, True)]
    assert all((tmp_path / f".cost-alert-{level}-w5").exists() for level in (70, 90))


def test_the_projections_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spent_today(tmp_path, 750)
    where = ["--state-dir", str(tmp_path), "--ceiling", "1000", "--json"]
    assert cost_projection.main(["--projection", *where]) == 0
    assert json.loads(capsys.readouterr().out)["current"] == 750
    assert cost_projection.main(["--check-alerts", *where]) == 1
    assert cost_projection.main(["--check-alerts", "--wave", "5", *where]) == 0
    assert cost_projection.main(where) == 0
    assert cost_projection.main(["--projection", "--window", "0", *where]) == 2


def test_a_torn_ledger_is_not_believed_nor_written(tmp_path: Path) -> None:
    add(tmp_path)
    with (tmp_path / LEDGER).open("a") as ledger:
        ledger.write("| 2026-11-29T10:0")
    with pytest.raises(InputError, match="no row"):
        write_uses(tmp_path, [use(1)])
    assert ledger_writer.MOST_ROWS == 200
