"""The names that callers of the source import are there, with the shapes they rely on."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from driver import wave_loop, wave_scheduler
from driver.backends.command import CommandDriver

ITEM = {
    "id": "A",
    "slug": "a",
    "status": "todo",
    "ownsFiles": ["a.txt"],
    "prompt": "p",
    "testCmd": "true",
}


@pytest.fixture
def tracker(tmp_path: Path) -> Path:
    path = tmp_path / "tracker.json"
    path.write_text(json.dumps({"version": 1, "items": [ITEM]}), encoding="utf-8")
    return path


def test_items_are_loaded_and_a_bad_tracker_has_none(tracker: Path) -> None:
    assert [item["id"] for item in wave_scheduler.load_tracker_items(tracker)] == ["A"]
    assert wave_scheduler.load_tracker_items(str(tracker) + "x") == []


def test_todo_items_come_by_priority_and_then_age() -> None:
    items = [
        {"id": 3, "status": "todo"},
        {"id": 2, "status": "todo", "priority": "P1", "createdAt": "2024-02-01"},
        {"id": 1, "status": "todo", "priority": "P1", "created_at": "2024-01-01"},
        {"id": 4, "status": "done", "priority": "P1"},
    ]
    assert [item["id"] for item in wave_scheduler.filter_todo_items(items)] == [1, 2, 3]


def test_disjoint_items_and_the_ids_left_out() -> None:
    selected, skipped = wave_scheduler.select_disjoint_items([ITEM, {**ITEM, "id": "B"}], 5)
    assert ([item["id"] for item in selected], skipped) == (["A"], ["B"])


def test_a_manifest_and_the_ids_that_cannot_be_in_it() -> None:
    driver = CommandDriver(["x"], tier=3)
    manifest, failed = wave_scheduler.build_wave_manifest([ITEM], driver)
    assert manifest.keys() == {"wave_id", "items", "wave_description"}
    assert (manifest["items"][0]["verificationTier"], failed) == (3, [])
    odd = CommandDriver(["x"], tier=9)
    assert wave_scheduler.build_wave_manifest([ITEM], odd)[1] == ["A"]


def test_a_report_takes_its_values_by_position_and_leaves_out_what_is_empty() -> None:
    values: tuple[Any, ...] = (
        [{"slug": "a"}],
        ["B"],
        [],
        "br",
        "",
        None,
        None,
        "e",
        None,
        False,
        [],
        True,
    )
    report = wave_scheduler.emit_report("dispatch", "w", ["A"], *values)
    assert report.pop("timestamp")
    assert report == {
        "phase": "dispatch",
        "wave_id": "w",
        "items_selected": ["A"],
        "items_shipped": [{"slug": "a"}],
        "items_failed_build": ["B"],
        "branch": "br",
        "error": "e",
        "merged": False,
        "success": True,
    }


def test_a_report_has_what_is_always_there_and_leaves_out_what_says_nothing() -> None:
    report = wave_scheduler.emit_report(
        "halt", "w", ["A"], halt_reason="x", branch=None, items_skipped=[], success=False
    )
    assert report.pop("timestamp")
    assert report == {
        "phase": "halt",
        "wave_id": "w",
        "items_selected": ["A"],
        "items_shipped": [],
        "merged": False,
        "success": False,
        "halt_reason": "x",
    }


@pytest.mark.parametrize(
    ("path", "normal", "valid"),
    [
        ("src\\A.py", "src/a.py", True),
        ("./a", "a", True),
        ("././x", "./x", True),
        ("v1..v2/notes.md", "v1..v2/notes.md", True),
        ("/etc/x", "/etc/x", False),
        ("a/../x", "a/../x", False),
        (".git/config", ".git/config", False),
    ],
)
def test_paths(path: str, normal: str, valid: bool, tmp_path: Path) -> None:
    assert wave_scheduler._normalize_path(path) == normal
    assert wave_scheduler._is_valid_owned_path(path) is valid
    with nullcontext() if valid else pytest.raises(ValueError, match="cannot be owned"):
        assert wave_loop._validate_file_path(path, tmp_path) is None


def test_a_path_through_a_link_that_leaves_the_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/")
    with pytest.raises(ValueError, match="leaves"):
        wave_loop._validate_file_path("out/x.py", tmp_path)


def test_an_item_is_valid_or_has_a_reason() -> None:
    assert wave_scheduler._validate_item(ITEM) == (True, None)
    nameless = {key: value for key, value in ITEM.items() if key != "id"}
    assert wave_scheduler._validate_item(nameless) == (True, None)
    assert wave_scheduler._validate_item({**ITEM, "prompt": ""}) == (
        False,
        "missing_or_empty_prompt",
    )


def test_a_status_is_written_unless_the_tracker_changed(tracker: Path) -> None:
    write = wave_scheduler._write_tracker_status_atomic
    assert write(tracker, ["A"], "done", "12345678-9", "0" * 64) == (False, "tracker_conflict")
    digest = hashlib.sha256(tracker.read_bytes()).hexdigest()
    assert write(tracker, ["A"], "done", "12345678-9", digest) == (True, None)
    (item,) = wave_scheduler.load_tracker_items(tracker)
    assert (item["status"], item["notes"]) == ("done", "[wave 12345678]")
    assert write(tracker, ["A"], "todo", "w") == (True, None)
    assert wave_scheduler.load_tracker_items(tracker)[0]["notes"] == "[wave 12345678] [wave w]"


def test_a_status_for_a_missing_tracker_is_an_answer(tmp_path: Path) -> None:
    write = wave_scheduler._write_tracker_status_atomic
    written, error = write(tmp_path / "no.json", ["A"], "done", "w")
    assert (written, "does not exist" in error) == (False, True)


def test_the_gates_as_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wave_scheduler._verify_gate_availability() == (True, None)
    monkeypatch.setenv("AESOP_STATE_ROOT", str(tmp_path))
    for where in ((), (tmp_path,)):
        assert wave_scheduler._check_halt_file(*where) == (False, None)
        assert wave_scheduler._check_cost_ceiling(*where) == (False, None)
    (tmp_path / ".HALT").touch()
    is_halted, reason = wave_scheduler._check_halt_file(tmp_path)
    assert (is_halted, "halted" in reason) == (True, True)
    monkeypatch.setenv("TIDEGATE_LIMITS_MAX_WAVE_TOKENS", "0")
    is_reached, reason = wave_scheduler._check_cost_ceiling()
    assert (is_reached, "cost ceiling reached" in reason) == (True, True)
    monkeypatch.setenv("TIDEGATE_LIMITS_MAX_WAVE_TOKENS", "few")
    with pytest.raises(RuntimeError, match="MAX_WAVE_TOKENS"):
        wave_scheduler._check_cost_ceiling()


def test_the_journal_as_functions(tmp_path: Path) -> None:
    wave_loop._write_journal_entry(tmp_path, "a b", "verified", {"verified": True}, repo="/r")
    ((key, entry),) = wave_loop._load_journal_state(tmp_path).items()
    assert key == ("/r", "a b")
    stem = wave_loop._journal_key_for_item({"slug": "a b", "repo": "/r"})
    assert (tmp_path / "journal" / f"{stem}.json").is_file()
    assert (entry["phase"], entry["verified"]) == ("verified", True)
    assert wave_loop._should_skip_from_journal(entry) is False
    assert wave_loop._safe_slug("a b").startswith("ab-")
    assert wave_loop._quote_arg("a b") == "'a b'"


def test_a_repository_is_an_absolute_folder(tmp_path: Path) -> None:
    assert wave_loop._validate_repo_path(str(tmp_path)) == str(tmp_path)
    for bad in ("here", str(tmp_path / "x")):
        with pytest.raises(ValueError, match="repo "):
            wave_loop._validate_repo_path(bad)
