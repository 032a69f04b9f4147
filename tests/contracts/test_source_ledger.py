"""`fleet_ledger` and `wave_ledger_hook` as callers of the original project use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_store.read_api import ReadAPI
from tools import fleet_ledger, wave_ledger_hook

STAMP = "2026-11-29T10:00:00Z"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TIDEGATE_STATE_DIR", raising=False)
    monkeypatch.setenv("AESOP_STATE_ROOT", str(tmp_path / "st"))
    return tmp_path / "st"


def ledger_text() -> str:
    return fleet_ledger.get_ledger_paths()[0].read_text()


def append(*row: Any, **more: Any) -> bool:
    return fleet_ledger.append_ledger_line(*row, **more)


def report(folder: Path, tokens: Any, **more: Any) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps({"tokens": tokens, "integration": {"green": True}, **more}))
    return path


def test_the_header_is_a_table_and_missing_cells_are_empty_and_none() -> None:
    fleet_ledger.ensure_ledger_header()
    assert ledger_text().startswith("| ISO ts | agent_type | model | duration_sec | tokens_in |")
    append(STAMP, "a", "m", 5.5, None, "", "OK")
    append(STAMP, "a", "m", "", "12", 3)
    assert ledger_text().splitlines()[2:] == [
        f"| {STAMP} | a | m | 6 | - | - | OK |  |  |",
        f"| {STAMP} | a | m | 0 | 12 | 3 | OK |  |  |",
    ]
    for rows in (fleet_ledger.parse_ledger_rows(), ReadAPI(Path(ledger_path())).read_ledger_rows()):
        assert [(r["iso_ts"], r["duration_sec"], r["phase"], r["wave"]) for r in rows] == [
            (STAMP, 6, None, None),
            (STAMP, 0, None, None),
        ]


def ledger_path() -> str:
    return str(fleet_ledger.get_ledger_paths()[2].parent)


def test_a_ledger_with_the_older_header_is_read_and_goes_on(state: Path) -> None:
    path = fleet_ledger.get_ledger_paths()[0]
    path.parent.mkdir(parents=True)
    old = "# Outcomes ledger\n\n| timestamp | agent_type | model |\n|---|---|---|\n"
    path.write_text(f"{old}| {STAMP} | a | m | 1.5 | 2 | 3 | OK | - | - |\n")
    append(STAMP, "b", "m", 1, 2, 3, "OK", "build", 7)
    rows = fleet_ledger.parse_ledger_rows()
    assert [(row["agent_type"], row["phase"], row["wave"]) for row in rows] == [
        ("a", None, None),
        ("b", "build", 7),
    ]


@pytest.mark.parametrize("row", [("never", "a"), ("", "a"), (STAMP, "a|b")])
def test_a_bad_row_is_a_value_error(row: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"timestamp|agent_type"):
        append(*row, "m", 1, 2, 3)
    with pytest.raises(ValueError, match="phase"):
        append(STAMP, "a", "m", 1, 2, 3, phase="a|b")


def test_append_wave_answers_and_says_when_a_row_already_exists(tmp_path: Path) -> None:
    path = report(tmp_path, {"buildOut": "40", "verifyOut": "abc"})
    good, told = fleet_ledger.append_wave(str(path), 7, "build", STAMP)
    assert (good, "Appended" in told) == (True, True)
    good, told = fleet_ledger.append_wave(str(path), 7, "build", STAMP)
    assert (good, "already exists" in told) == (True, True)
    assert fleet_ledger.append_wave(str(path), None, "deploy-and-observe", STAMP)[0]
    for phase, stamp in (("verify", STAMP), ("build", "never"), ("a|b", STAMP)):
        assert fleet_ledger.append_wave(str(path), 7, phase, stamp)[0] is False
    rows = fleet_ledger.parse_ledger_rows()
    assert [(row["phase"], row["tokens_out"], row["wave"]) for row in rows] == [
        ("build", 40, 7),
        ("deploy-and-obse", 0, None),
    ]


@pytest.mark.parametrize(
    ("tokens", "repairs", "phases"),
    [
        ({"buildOut": 1}, 0, ["build"]),
        ({"build": 1, "verifyOut": 2}, 0, ["build", "verify"]),
        ({"verifyOut": 2, "repairOut": 3}, 0, ["verify"]),
        ({"verifyOut": 2, "repairOut": 3}, 1, ["verify", "repair"]),
        ({"buildOut": 1}, 1, ["build"]),
        ({"totalOut": 5}, 0, ["build", "verify", "repair"]),
        ({}, 0, []),
    ],
)
def test_the_hook_adds_the_phases_of_the_report(
    tmp_path: Path, capsys: Captured, tokens: Any, repairs: int, phases: list[str]
) -> None:
    path = report(tmp_path, tokens, repairsUsed=repairs)
    flags = ["--report-file", str(path), "--wave", "7", "--timestamp", STAMP]
    assert wave_ledger_hook.main(flags) == 0
    out, err = capsys.readouterr()
    assert (out.count("OK:"), len(out.splitlines()), err) == (len(phases), len(phases), "")
    assert [row["phase"] for row in fleet_ledger.parse_ledger_rows()] == phases


def test_the_hook_goes_on_after_a_failed_phase_and_says_so_on_stdout(
    tmp_path: Path, capsys: Captured
) -> None:
    path = report(tmp_path, {"buildOut": -1, "verifyOut": 2})
    flags = ["--report-file", str(path), "--wave", "7", "--timestamp"]
    assert wave_ledger_hook.main([*flags, STAMP]) == 1
    out, err = capsys.readouterr()
    assert ([line.split()[0] for line in out.splitlines()], err) == (["ERROR:", "OK:"], "")
    assert [row["phase"] for row in fleet_ledger.parse_ledger_rows()] == ["verify"]
    assert wave_ledger_hook.main([*flags, "a|b"]) == 1
    assert capsys.readouterr().out.startswith("ERROR:")


def test_the_hooks_check_of_a_timestamp() -> None:
    assert wave_ledger_hook.validate_timestamp(STAMP) == (True, "")
    for text, word in (("", "empty"), ("a|b", "pipe"), ("a\nb", "line"), ("a\n", "line")):
        good, told = wave_ledger_hook.validate_timestamp(text)
        assert (good, word in told) == (False, True)


def test_a_wave_that_is_neither_a_number_nor_ours_is_bad_input(
    tmp_path: Path, state: Path, capsys: Captured
) -> None:
    path = report(tmp_path, {"buildOut": 1})
    flags = ["append-wave", "--report-file", str(path), "--phase", "build", "--timestamp", STAMP]
    assert fleet_ledger.main([*flags, "--wave", "seven"]) == 1
    assert wave_ledger_hook.main([*flags[1:3], *flags[5:], "--wave", "seven"]) == 1
    (state / "runs" / "seven").mkdir(parents=True)
    assert fleet_ledger.main([*flags, "--wave", "seven"]) == 0
    assert "Appended" in capsys.readouterr().out


def test_the_command_line_wants_a_known_command_in_any_case(capsys: Captured) -> None:
    for words in ([], ["--state-dir", "x"], ["nothing"]):
        assert fleet_ledger.main(words) == 1
    row = [STAMP, "agent", "opus", "12", "900", "80", "OK", "build", "7"]
    assert fleet_ledger.main(["APPEND", *row]) == 0
    assert "Appended" in capsys.readouterr().out
    assert fleet_ledger.main(["Rotate"]) == 0
    assert "no rotation needed" in capsys.readouterr().out
    assert fleet_ledger.main(["append", STAMP, "agent", "opus", "12", "many"]) == 1


def test_summary_rotate_and_harvest_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    append(STAMP, "a", "m", 9, 10, 5, "OK", "build", 1)
    append(STAMP, "a", "m", 1, 2, 3)
    fleet_ledger.summary()
    out = capsys.readouterr().out
    assert all(word in out for word in ("Total:", "2 entries", "Wave"))
    fleet_ledger.summary("json")
    found = json.loads(capsys.readouterr().out)
    one = {"entries": 1, "tokens_in": 10, "tokens_out": 5, "duration": 9}
    assert found["totals"] == {"entries": 2, "tokens_in": 12, "tokens_out": 8, "duration": 10}
    assert found["by_wave_phase"]["(1, 'build')"] == one
    assert one.items() <= found["by_wave"]["1"].items()
    for _ in range(200):
        append(STAMP, "a", "m", 1, 2, 3)
    assert list(fleet_ledger.get_ledger_paths()[2].glob("archives/*"))
    fleet_ledger.rotate()
    assert "no rotation needed" in capsys.readouterr().out
    monkeypatch.delenv("AESOP_TEMP_ROOT", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    transcript = tmp_path / "claude" / "x" / "tasks" / "one.output"
    transcript.parent.mkdir(parents=True)
    usage = {"input_tokens": 4, "output_tokens": 2}
    line = {"uuid": "u", "timestamp": STAMP, "message": {"model": "opus", "usage": usage}}
    transcript.write_text(json.dumps(line) + "\n")
    fleet_ledger.harvest()
    assert capsys.readouterr().out == "Harvested 1\n"
    assert fleet_ledger.parse_ledger_rows()[-1]["agent_type"] == "Agent"


def test_the_harvest_state_has_the_keys_of_the_source() -> None:
    fleet_ledger.save_harvest_state({"a", "b"}, STAMP)
    held = json.loads(fleet_ledger.get_ledger_paths()[1].read_text())
    assert (held["seen_agents"], held["last_harvest_ts"]) == (["a", "b"], STAMP)
    assert fleet_ledger.load_harvest_state() == ({"a", "b"}, STAMP)
