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
        "timestamp": STAMP,
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
        "timestamp": STAMP,
        "agent_type": "waverun",
        "model": "m",
        "duration_sec": 3.0,
        "tokens_in": 10,
        "tokens_out": 5,
        "verdict": "HUNG",
        "phase": "a-very-long-pha",
        "wave": 7,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"timestamp": "yesterday"},
        {"timestamp": "2026-13-01T00:00:00Z"},
        {"timestamp": "2026-11-29"},
        {"agent_type": "a|b"},
        {"model": "a\nb"},
        {"phase": "a|b"},
        {"wave": "1|2"},
        {"verdict": "GOOD"},
        {"tokens_in": -1},
        {"tokens_out": float("nan")},
        {"tokens_in": "5"},
        {"tokens_in": True},
        {"duration_sec": float("inf")},
    ],
    ids=str,
)
def test_what_is_no_row_is_refused_and_nothing_is_made(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InputError):
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
    assert "3 rows, 45 tokens" in fleet_ledger.summary("text", tmp_path)


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


def test_transcripts_are_harvested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x" / "tasks"
    folder.mkdir(parents=True)
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7}
    lines = [
        {"message": {"id": "a", "model": "opus", "usage": {**usage, "output_tokens": 1}}},
        {"message": {"id": "a", "model": "opus", "usage": usage}},
        {"message": {"id": "b", "model": "opus", "usage": usage}},
    ]
    (folder / "one.output").write_text("\n".join(map(json.dumps, lines)) + "\nno json\n")
    (folder / "two.output").write_text("nothing\n")
    monkeypatch.setenv("AESOP_TEMP_ROOT", str(tmp_path))
    state = tmp_path / "state"
    assert [fleet_ledger.harvest(state_dir=state) for _ in range(2)] == [2, 0]
    rows = fleet_ledger.parse_ledger_rows(state)
    assert [(r["tokens_in"], r["tokens_out"], r["verdict"], r["model"]) for r in rows] == [
        (200, 14, "OK", "opus"),
        (0, 0, "EMPTY", "-"),
    ]


def spent_today(state: Path, *tokens: int, wave: Any = 5) -> None:
    now = datetime.now(UTC)
    for at, count in enumerate(tokens):
        stamp = (now - timedelta(minutes=at)).strftime("%Y-%m-%dT%H:%M:%SZ")
        add(state, timestamp=stamp, tokens_in=count, tokens_out=0, wave=wave)


def test_a_projection_tells_when_the_ceiling_is_met(tmp_path: Path) -> None:
    spent_today(tmp_path, 300, 300, 300)
    add(tmp_path, timestamp="2020-01-01T00:00:00Z", tokens_in=10**6, wave=4)
    found = cost_projection.project(30, 1200, {}, 60, state_dir=tmp_path)
    assert (found["current"], found["burn_rate_per_min"], found["projected"]) == (900, 30, 2700)
    assert (found["pct_of_ceiling"], found["minutes_to_ceiling"]) == (75.0, 10)
    assert (found["is_thin_window"], found["by_role"]) == (False, {"waverun": 900})
    assert "75.0 %" in found["reason"]
    none = cost_projection.project(30, None, {}, state_dir=tmp_path)
    assert (none["ceiling"], none["pct_of_ceiling"], none["minutes_to_ceiling"]) == (None,) * 3


def test_an_alert_is_given_once_for_each_wave_and_threshold(tmp_path: Path) -> None:
    spent_today(tmp_path, 750)

    def alert(wave: Any = 5) -> tuple[Any, bool]:
        found = cost_projection.check_and_alert(30, 1000, {}, wave=wave, state_dir=tmp_path)
        return found["alert_level"], found["fired_alert"]

    assert [alert(), alert()] == [(70, True), (70, False)]
    spent_today(tmp_path, 200)
    assert [alert(), alert()] == [(90, True), (90, False)]
    assert (tmp_path / ".cost-alert-70-w5").exists()
    log = (tmp_path / "SECURITY-ALERTS.log").read_text().splitlines()
    assert [line.split()[1] for line in log] == ["cost-alert-70", "cost-alert-90"]
    with pytest.raises(ValueError, match="AESOP_WAVE"):
        cost_projection.check_and_alert(30, 1000, {}, state_dir=tmp_path)


def test_the_projections_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spent_today(tmp_path, 750)
    where = ["--state-dir", str(tmp_path), "--ceiling", "1000", "--json"]
    assert cost_projection.main(["--projection", *where]) == 0
    assert json.loads(capsys.readouterr().out)["current"] == 750
    assert cost_projection.main(["--check-alerts", *where]) == 1
    assert cost_projection.main(["--check-alerts", "--wave", "5", *where]) == 0
    assert cost_projection.main(where) == 2
    assert cost_projection.main(["--projection", "--window", "0", *where]) == 2


def test_a_torn_ledger_is_not_believed_nor_written(tmp_path: Path) -> None:
    add(tmp_path)
    with (tmp_path / LEDGER).open("a") as ledger:
        ledger.write("| 2026-11-29T10:0")
    with pytest.raises(InputError, match="no row"):
        write_uses(tmp_path, [use(1)])
    assert ledger_writer.MOST_ROWS == 200
