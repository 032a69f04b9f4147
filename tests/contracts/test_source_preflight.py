"""`wave_preflight` and `ReadAPI` as callers of the original project use them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from state_store.read_api import ReadAPI
from tests.support.repos import Checkout, make_repo, user_environ
from tools import wave_preflight

CHECKS = [
    "Git repository",
    "Feature branch (not main/master)",
    "Working tree clean",
    "No .HALT sentinel",
    "STATE.md phase consistent with orchestrator-status.json (warning-level)",
    "Heartbeats and orchestrator status fresh",
    "state/tracker.json parses as JSON",
    "secret_scan importable",
]


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    made = make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), {"a.txt": "a\n"})
    made.git("checkout", "-q", "-b", "work")
    made.write({"state/tracker.json": "[]"})
    return made


def stamp(ago_s: float) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago_s))
    return json.dumps({"updated_at": at, "phase": "build"})


def test_the_checks_have_the_names_that_callers_match(repo: Checkout) -> None:
    found = wave_preflight.run_checks(root_dir=str(repo.path), state_dir=repo.path / "state")
    assert [check["name"] for check in found["checks"]] == CHECKS


def test_without_a_root_it_is_the_current_folder(
    repo: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_STATE_DIR", raising=False)
    monkeypatch.delenv("AESOP_STATE_ROOT", raising=False)
    monkeypatch.chdir(repo.path)
    assert wave_preflight.run_checks()["ready"]
    assert wave_preflight.load_config() == {}
    assert wave_preflight.resolve_state_dir() == repo.path / "state"


def test_the_text_form(repo: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    repo.write({"a.txt": "changed"})
    where = ["--root", str(repo.path), "--state-root", str(repo.path / "state")]
    assert wave_preflight.main(where) == 1
    title, *lines, last = capsys.readouterr().out.splitlines()
    assert "wave_preflight" in title
    failing = CHECKS.index("Working tree clean")
    assert lines[::2] == [
        f"{n + 1}. {name}: {'FAIL' if n == failing else 'PASS'}" for n, name in enumerate(CHECKS)
    ]
    assert all(line.startswith("   ") for line in lines[1::2])
    assert last.startswith("FAIL")
    repo.write({"a.txt": "a\n"})
    assert wave_preflight.main(where) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("PASS")


def test_drift_of_the_phase_is_told_and_is_no_failure(repo: Checkout) -> None:
    status = {"state/orchestrator-status.json": stamp(0)}
    repo.write({**status, "state/STATE.md": "## Phase: `plan`\n"})
    drift = wave_preflight.run_checks(repo.path, repo.path / "state")["checks"][4]
    assert drift["ok"]
    for part in ("STATE.md=plan", "status.json=build", "[WARN: drift detected]"):
        assert part in drift["detail"]


@pytest.mark.parametrize(
    ("ago_s", "stale"), [(10, False), (200, False), (300, True), (-100, False), (-500, True)]
)
def test_a_status_is_told_as_stale_with_its_age(tmp_path: Path, ago_s: int, stale: bool) -> None:
    path = tmp_path / "s.json"
    path.write_text(stamp(ago_s))
    is_stale, age, info = wave_preflight.check_orchestrator_status_freshness(path, 300)
    assert is_stale is stale
    assert 0 <= age - max(ago_s, 0) < 30
    assert (info is not None) is stale


def test_a_missing_status_is_stale_but_a_project_without_one_is_ready(repo: Checkout) -> None:
    path = repo.path / "state" / "orchestrator-status.json"
    is_stale, age, info = wave_preflight.check_orchestrator_status_freshness(path, 300)
    assert (is_stale, age) == (True, 0)
    assert "missing" in str(info)
    assert wave_preflight.run_checks(repo.path, repo.path / "state")["ready"]


def test_each_answer_comes_with_its_reason(repo: Checkout) -> None:
    assert wave_preflight.can_import_secret_scan() == (True, None)
    assert wave_preflight.is_working_tree_clean(repo.path) == (True, None)
    names = [f"{n}.txt" for n in range(5)]
    repo.commit(dict.fromkeys(names, "x"))
    repo.write(dict.fromkeys(names, "y"))
    clean, detail = wave_preflight.is_working_tree_clean(root_dir=str(repo.path))
    assert not clean
    assert [name in str(detail) for name in names] == [True, True, True, False, False]


def test_both_items_of_an_overlap_are_flagged(tmp_path: Path) -> None:
    items = [{"id": name, "status": "todo", "ownsFiles": ["a.py"]} for name in "AB"]
    (tmp_path / "a.py").touch()
    (tmp_path / "tracker.json").write_text(json.dumps({"items": items}))
    found = wave_preflight.scan_backlog_items(tracker_path=tmp_path / "tracker.json", work_dir=".")
    kinds = [[flag["type"] for flag in item["flags"]] for item in found["items"]]
    assert all("ownership_overlap" in listed for listed in kinds)
    assert len(kinds) == 2


def test_the_watchdogs_heartbeat_is_in_the_state_folder_itself(tmp_path: Path) -> None:
    (tmp_path / ".watchdog-heartbeat").write_text(f"{time.time():.0f}\n")
    (tmp_path / "heartbeats").mkdir()
    (tmp_path / "heartbeats" / "main").write_text(f"{time.time():.0f}\nworking\n")
    read = ReadAPI(tmp_path)
    assert read.check_heartbeat_fresh(heartbeat_filename=".watchdog-heartbeat", threshold_s=200)
    assert read.check_heartbeat_fresh("main")
    (tmp_path / ".watchdog-heartbeat").write_text(f"{time.time() - 300:.0f}\n")
    assert not read.check_heartbeat_fresh(".watchdog-heartbeat")
    assert not read.check_heartbeat_fresh(f"heartbeats{os.sep}main")
