"""The short document of a wave, its details, and both joined again."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from driver.reports.documents import join, split, whole_record
from driver.reports.pages.files import SCHEMA, write_reports
from state_store.documents.indented_json import indented

RECEIPT = {
    "purpose": "proof",
    "kind": "green",
    "command": "pytest " * 30,
    "counts": {"runner": "pytest", "ran": 9, "failed": 0, "skipped": 1},
    "environment": ["PATH"] * 40,
    "outputFile": "/state/" + "d" * 120 + "/test-1.out",
}

OTHERS = (
    *("dispatched", "skipped_from_journal", "trust_verified", "waitsForPerson", "isolation"),
    *("spotChecked", "spot_check_failed", "flaky", "verificationTier", "savedWork", "publish"),
    *("testExit", "repairs", "workerId", "model", "adversarial_review", "grade"),
)


def record(slug: str, **more: Any) -> dict[str, Any]:
    """A long record of an item."""
    baseline = {**RECEIPT, "purpose": "baseline", "kind": "red"}
    attempt = {
        "number": 1,
        "phase": "build",
        "verdict": "verified",
        "reason": "r" * 900,
        "test": {**RECEIPT, "exit": 0},
        "evidence": {"receipts": [baseline, RECEIPT]},
    }
    phase = {
        "phase": "implement",
        "role": "agent",
        "status": "completed",
        "startedAt": "2026-11-30T10:00:00+00:00",
        "durationMs": 2_500,
        "engine": {"name": "claude", "model": "m"},
    }
    return {
        **dict.fromkeys(OTHERS, False),
        "slug": slug,
        "id": slug,
        "title": "t" * 500,
        "verdict": "verified",
        "verified": True,
        "error": None,
        "remedy": None,
        "ship_error": None,
        "ship_warning": None,
        "filesWritten": [f"src/{n}/{'n' * 60}.py" for n in range(50)],
        "selfWrittenTests": [],
        "afterApproval": [],
        "phases": [phase] * 6,
        "attempts": [{**attempt, "number": n} for n in range(4)],
        "reviews": [{"round": 1, "verdict": "approved", "summary": "s" * 3_000}],
        "together": [RECEIPT] * 3,
        "usage": {"totalTokens": 10, "costUsd": 0.1},
        "tree": "a" * 40,
        "commit": "b" * 40,
        **more,
    }


def cycle(*records: dict[str, Any]) -> dict[str, Any]:
    """The report of a cycle with these items."""
    good = [one for one in records if one["verified"]]
    batch = {"runs": 3, "receipts": [RECEIPT] * len(records)}
    wave = {
        "wave_id": "w",
        "built": list(records),
        "shipped": [one["slug"] for one in good],
        "shipped_repos": [{"repo": "/r", "integration": batch}],
        "read_first": [{"slug": one["slug"], "grade": "B", "why": ["w" * 80]} for one in good],
    }
    shipped = [{"slug": one["slug"], "buildRecord": one} for one in good]
    return {"phase": "dispatch", "items_shipped": shipped, "wave_id": "w", "wave": wave}


def written(report: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The short document, after all its files were written."""
    return dict(write_reports(report, folder, {}, pytest.fail))


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("slug", ["a", "s" * 40, "caf\u00e9-au-lait"])
def test_an_item_has_at_most_two_kilobytes(slug: str, is_good: bool) -> None:
    sizes, folder = [], Path("/home/me/app/state/runs", str(uuid.UUID(int=7)))
    more = {"error": "\u00e9" * 2_000, "remedy": "r" * 500, "verified": is_good}
    for number in (1, 11):
        records = [record(f"{slug}{n}", **more) for n in range(number)]
        short, _ = split(cycle(*records), folder, {})
        sizes.append(len(indented(short)))
    assert (sizes[1] - sizes[0]) / 10 < 2_048


def test_every_key_stays_and_the_shortened_ones_are_named(tmp_path: Path) -> None:
    whole = record("a")
    short = split(cycle(whole), tmp_path, {"a": {"files": 1, "added": 2, "removed": 3}})[0]
    (line,) = short["wave"]["built"]
    assert line.keys() >= whole.keys()
    assert {key for key in whole if line[key] != whole[key]} == set(line["cut"])
    assert {"attempts", "filesWritten", "together"} <= set(line["cut"])
    assert line["tests"] == {
        "before": {"kind": "red", "ran": 9, "failed": 0, "skipped": 1},
        "after": {"kind": "green", "ran": 9, "failed": 0, "skipped": 1},
    }
    assert (line["backend"], line["durationS"], line["diff"]["added"]) == ("claude", 2.5, 2)


def test_the_document_and_its_details_are_the_whole_report(tmp_path: Path) -> None:
    report = cycle(record("a"), record("b"))
    joined = join(written(report, tmp_path))
    for ours, theirs in zip(joined["wave"]["built"], report["wave"]["built"], strict=True):
        assert {key: ours[key] for key in theirs} == theirs
    assert joined["wave"]["shipped_repos"] == report["wave"]["shipped_repos"]
    assert joined["items_shipped"][1]["buildRecord"]["attempts"] == record("b")["attempts"]


def test_each_item_is_one_line_of_the_file(tmp_path: Path) -> None:
    written(cycle(record("a"), record("b")), tmp_path)
    text = (tmp_path / "report.json").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if '"slug": "a", ' in line]
    assert json.loads(lines[0].rstrip(","))["details"] == str(tmp_path / "a" / "report.json")


def test_a_folder_that_was_moved_has_its_details_still(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    short = written(cycle(record("a")), old)
    old.rename(new)
    (line,) = short["wave"]["built"]
    assert join(short)["wave"]["built"] == [line]  # nothing is where the line says
    assert whole_record(line, new)["attempts"] == record("a")["attempts"]


def test_details_that_cannot_be_written_stay_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way", encoding="utf-8")
    said: list[str] = []
    report = cycle(record("a"))
    assert write_reports(report, tmp_path, {}, said.append) == report
    assert "the details of the report are not in the run folder" in said[0]
    kept = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert kept == {"$schema": SCHEMA, **report}


def test_the_page_is_appended_to_the_summary_of_a_job(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    write_reports(cycle(record("a")), folder, {"GITHUB_STEP_SUMMARY": str(summary)}, pytest.fail)
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert summary.read_text(encoding="utf-8") == f"before\n{page}"
    summary.write_text("x" * (2**20 - len(page.encode())), encoding="utf-8")
    write_reports(cycle(record("a")), folder, {"GITHUB_STEP_SUMMARY": str(summary)}, pytest.fail)
    assert summary.stat().st_size <= 2**20


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
@pytest.mark.parametrize("kind", ["folder", "pipe", "pipe with a reader", "missing"])
def test_a_summary_that_is_no_file_is_told_and_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    summary, reader = tmp_path / "summary.md", None
    if kind == "folder":
        summary.mkdir()
    elif kind == "missing":
        summary = tmp_path / "no" / "summary.md"
    else:
        os.mkfifo(summary)
        reader = os.open(summary, os.O_RDONLY | os.O_NONBLOCK) if "reader" in kind else None
    said: list[str] = []
    write_reports(cycle(record("a")), tmp_path, {"GITHUB_STEP_SUMMARY": str(summary)}, said.append)
    if reader is not None:
        os.close(reader)
    assert len(said) == 1
    assert said[0].startswith("the summary of the job was not written: ")
    assert (tmp_path / "report.md").is_file()
