"""Whether a project is ready for a wave by hand, and what to look at in its backlog."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tests.support.repos import Checkout, make_repo, user_environ
from tools import wave_preflight
from tools.halt import halt
from tools.wave_preflight import (
    get_current_branch,
    is_git_repo,
    is_working_tree_clean,
    load_config,
    parse_orchestrator_status_phase,
    parse_state_md_phase,
    resolve_state_dir,
    run_checks,
    scan_backlog_items,
)

NAMES = [
    "git_repo", "feature_branch", "clean_tree", "halt", "phase_drift", "signs_of_life", "tracker",
    "secret_scan",
]  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    made = make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), {"a.txt": "a\n"})
    made.git("checkout", "-q", "-b", "work")
    made.write({"state/tracker.json": "[]"})
    return made


def status(repo: Checkout, phase: str, age_s: float = 0) -> None:
    at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
    body = json.dumps({"phase": phase, "updated_at": at})
    repo.write({"state/orchestrator-status.json": body})


def failing(repo: Checkout) -> list[str]:
    found = run_checks(repo.path, repo.path / "state")
    assert [check["id"] for check in found["checks"]] == NAMES
    assert all(check.keys() == {"id", "name", "ok", "detail"} for check in found["checks"])
    failed = [check["id"] for check in found["checks"] if not check["ok"]]
    assert found["ready"] is (not failed)
    return failed


def test_a_project_on_its_own_branch_with_a_tracker_is_ready(repo: Checkout) -> None:
    repo.write({"untracked.txt": "x"})
    assert failing(repo) == []


def beat(repo: Checkout, age_s: float) -> None:
    repo.write({"state/.watchdog-heartbeat": f"{time.time() - age_s}\nfine\n"})


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (lambda r: r.git("checkout", "-q", "main"), "feature_branch"),
        (lambda r: r.git("checkout", "-q", "--detach"), "feature_branch"),
        (lambda r: r.write({"a.txt": "changed"}), "clean_tree"),
        (lambda r: halt("a reason", r.path / "state"), "halt"),
        (lambda r: beat(r, 300), "signs_of_life"),
        (lambda r: (beat(r, 300), status(r, "x")), "signs_of_life"),
        (lambda r: beat(r, -900), "signs_of_life"),
        (lambda r: r.write({"state/.watchdog-heartbeat": "soon"}), "signs_of_life"),
        (lambda r: status(r, "x", 400), "signs_of_life"),
        (lambda r: r.write({"state/orchestrator-status.json": "{"}), "signs_of_life"),
        (lambda r: r.write({"state/tracker.json": "{"}), "tracker"),
        (lambda r: (r.path / "state/tracker.json").unlink(), "tracker"),
    ],
)
def test_each_thing_that_is_not_ready_is_named(
    repo: Checkout, spoil: Callable[[Checkout], object], name: str
) -> None:
    spoil(repo)
    assert failing(repo) == [name]


def test_signs_of_life_that_are_fresh_are_fine_and_drift_only_warns(repo: Checkout) -> None:
    beat(repo, 10)
    status(repo, "build")
    repo.write({"state/STATE.md": "# S\n\n## Phase: `plan`\n"})
    assert failing(repo) == []
    drift = run_checks(repo.path, repo.path / "state")["checks"][4]
    assert drift["detail"] == "STATE.md=plan status.json=build [WARN: drift detected]"
    assert parse_state_md_phase(repo.path / "state" / "STATE.md") == "plan"
    assert parse_state_md_phase(repo.path / "no.md") is None
    assert parse_orchestrator_status_phase(repo.path / "no.json") is None


def test_git_is_asked_about_the_folder_that_is_named(repo: Checkout, tmp_path: Path) -> None:
    assert (get_current_branch(repo.path), get_current_branch(tmp_path)) == ("work", None)
    assert (is_git_repo(repo.path), is_git_repo(tmp_path)) == (True, False)
    assert is_working_tree_clean(repo.path) == (True, None)
    repo.write({"a.txt": "changed"})
    assert is_working_tree_clean(repo.path) == (False, "changed: a.txt")
    assert is_working_tree_clean(tmp_path)[0] is False
    assert run_checks(tmp_path, tmp_path)["ready"] is False


def test_the_config_of_the_source_says_where_state_is(tmp_path: Path) -> None:
    assert load_config(tmp_path) == {}
    (tmp_path / "aesop.config.json").write_text('{"state_root": "st"}', encoding="utf-8")
    assert resolve_state_dir(tmp_path, load_config(tmp_path)) == tmp_path / "st"
    assert resolve_state_dir(tmp_path) == tmp_path / "st"
    (tmp_path / "aesop.config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError):
        load_config(tmp_path)


def test_a_backlog_is_looked_through_without_judging_it(tmp_path: Path) -> None:
    (tmp_path / "there.py").touch()
    items: list[dict[str, Any]] = [
        {"id": "A", "title": "a", "status": "todo", "ownsFiles": ["there.py"]},
        {"id": "B", "title": "b", "status": "todo", "ownsFiles": ["THERE.py", "new.py"]},
        {"id": "C", "title": "c", "status": "todo"},
        {"id": "D", "title": "d", "status": "done", "ownsFiles": ["there.py"]},
        {"id": "E", "title": "e", "status": "todo", "ownsFiles": ["../x"]},
        {"id": "F", "title": "f", "status": "todo", "ownsFiles": ["new.py"]},
        {"id": "P", "title": "p", "status": "proposed", "ownsFiles": ["new.py"]},
    ]
    tracker = tmp_path / "tracker.json"
    tracker.write_text(json.dumps(items), encoding="utf-8")
    ledger = tmp_path / "L.md"
    row = "| 2026-01-01T00:00:00Z | waverun | haiku | 1 | 2 | 3 | OK | build | 1 |\n"
    failed = row.replace("OK", "FAILED").replace("build", "repair")
    ledger.write_text("| ts | a |\n|---|---|\n" + row * 2 + failed)
    found = scan_backlog_items(tracker, tmp_path, ledger)
    assert found.keys() == {"success", "items", "ledger_stats", "summary"}
    flags = {i["id"]: [flag["type"] for flag in i["flags"]] for i in found["items"]}
    assert flags["B"][-1] == "ownership_overlap"
    assert "stale_reference" in flags["B"]
    assert flags["C"] == ["missing_ownership"]
    assert flags["F"] == ["stale_reference", "ownership_overlap"]
    assert flags["A"] == ["ownership_overlap"]
    assert not flags.keys() & {"D", "P"}
    assert found["ledger_stats"] == {
        "data": "AVAILABLE", "total_entries": 3, "failed_count": 1, "repair_count": 1,
        "retry_rate": 0.333, "rows": 3, "OK": 2, "FAILED": 1,
    }  # fmt: skip
    assert scan_backlog_items(tmp_path / "no.json", tmp_path)["success"] is False


def test_an_item_without_flags_is_listed_as_well(tmp_path: Path) -> None:
    (tmp_path / "tracker.json").write_text('[{"id": "A", "status": "todo", "ownsFiles": ["x/"]}]')
    (tmp_path / "x").mkdir()
    found = scan_backlog_items(tmp_path / "tracker.json", tmp_path)
    assert found["items"] == [{"id": "A", "title": None, "flags": []}]
    assert found["ledger_stats"]["data"] == "DATA-UNAVAILABLE"


def test_a_ledger_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "tracker.json").write_text("[]")
    (tmp_path / "folder").mkdir()
    told = {None: "note", "none.md": "reason", "folder": "error"}
    for name, key in told.items():
        ledger = None if name is None else tmp_path / name
        stats = scan_backlog_items(tmp_path / "tracker.json", tmp_path, ledger)["ledger_stats"]
        assert stats.keys() == {"data", key}


def test_the_command_line(repo: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--root", str(repo.path), "--state-root", str(repo.path / "state")]
    assert wave_preflight.main(where) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "1. Git repository: PASS"
    assert lines[-1] == "PASS: ready"
    repo.write({"a.txt": "changed"})
    assert wave_preflight.main([*where, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ready"] is False
    tracker = str(repo.path / "state" / "tracker.json")
    assert wave_preflight.main(["--tracker", tracker]) == 0
    assert wave_preflight.main(["--tracker", "no.json", "--json"]) == 0
    for wrong in (["--ledger", "x"], ["--nosuch"]):
        with pytest.raises(SystemExit) as ended:
            wave_preflight.main(wrong)
        assert ended.value.code == 2
