"""Reports with values of a wrong kind, or that are gone: one is told, the others are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.reports.program import main

GOOD: dict[str, Any] = {
    "wave_id": "good",
    "built": [{"slug": "a", "verdict": "verified", "verified": True}],
}
WRONG: tuple[dict[str, Any], ...] = (
    {"built": 5},
    {"built": ["x"]},
    {"built": [{}], "read_first": [{}]},
    {"built": [{"slug": "a", "repairs": "x"}]},
    {"built": [{"slug": "a", "usage": 5, "dispatched": True}]},
)


def state_with(folder: Path, *reports: Any) -> Path:
    for number, report in enumerate(reports):
        run = folder / "runs" / f"w{number}"
        run.mkdir(parents=True)
        (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return folder


def run(state: Path, *flags: str) -> int:
    return main([*flags, "--state-dir", str(state)])


@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_report_is_left_out_of_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]
) -> None:
    state = state_with(tmp_path, GOOD, wrong)
    assert run(state, "--last", "2") == 0
    told = capsys.readouterr()
    assert "good" in told.out
    assert "all" in told.out
    (line,) = told.err.splitlines()
    assert line.startswith("tidegate: left out: ")
    assert "w1/report.json is damaged (" in line


@pytest.mark.parametrize("flags", [(), ("--json",), ("--html", "page.html")])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_report_is_told_in_a_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    flags: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(state_with(tmp_path, wrong), *flags) == 2
    told = capsys.readouterr()
    assert len(told.err.splitlines()) == 1
    assert "report.json is damaged (" in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "page.html").exists()


def test_a_report_that_is_a_link_to_nothing_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = state_with(tmp_path, GOOD)
    (state / "runs" / "gone").mkdir()
    (state / "runs" / "gone" / "report.json").symlink_to("nothing")
    assert run(state) == 0
    assert "a" in capsys.readouterr().out
