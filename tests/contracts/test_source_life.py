"""`common`, `heartbeat`, `stall_check` and `wave_resume` as callers of the original project use
them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from state_store.documents.journal import write_entry
from state_store.read_api import ReadAPI
from tools import common, heartbeat, stall_check, wave_resume

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TIDEGATE_STATE_DIR", raising=False)
    monkeypatch.setenv("AESOP_STATE_ROOT", str(tmp_path / "st"))
    monkeypatch.delenv("AESOP_TRANSCRIPTS_ROOT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    return tmp_path / "home"


# common


def test_the_state_folder_is_told_and_not_made(tmp_path: Path) -> None:
    assert common.get_state_dir() == tmp_path / "st"
    assert common.get_state_db_path() == tmp_path / "st" / "tracker_events.db"
    assert not (tmp_path / "st").exists()


def test_without_the_variable_it_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AESOP_STATE_ROOT")
    monkeypatch.chdir(tmp_path)
    assert common.get_state_dir() == tmp_path / "state"
    (tmp_path / "aesop.config.json").write_text('{"state_root": "elsewhere"}')
    assert common.get_state_dir() == tmp_path / "elsewhere"


@pytest.mark.parametrize(
    ("text", "word"),
    [(None, "missing"), ("", "empty"), (" \n", "empty"), ("soon\n", "unreadable"),
     ("nan", "unreadable"), ("inf", "unreadable")],
)  # fmt: skip
def test_a_heartbeat_without_a_time_is_stale(tmp_path: Path, text: str | None, word: str) -> None:
    path = tmp_path / "beat"
    if text is not None:
        path.write_text(text)
    stale, age, info = common.check_heartbeat_staleness(str(path), 60)
    assert (stale, age) == (True, 0)
    assert word in str(info)


def test_a_heartbeat_that_is_no_file_is_stale(tmp_path: Path) -> None:
    stale, age, info = common.check_heartbeat_staleness(tmp_path, 60)
    assert (stale, age) == (True, 0)
    assert "unreadable" in str(info)


@pytest.mark.parametrize(
    ("ago_s", "stale", "age"),
    [(0, False, 0), (10, False, 10), (60, True, 60), (300, True, 300), (-100, False, 0),
     (-200, True, 0)],
)  # fmt: skip
def test_a_heartbeat_is_judged_by_its_first_line(
    tmp_path: Path, ago_s: int, stale: bool, age: int
) -> None:
    path = tmp_path / "beat"
    path.write_text(f"{time.time() - ago_s}\nworking\n")
    is_stale, found, info = common.check_heartbeat_staleness(path, 60)
    assert is_stale is stale
    assert 0 <= found - age < 30
    assert (info is None) is not stale
    if stale and ago_s > 0:
        assert str(found) in str(info)
        assert "60" in str(info)


# heartbeat


def test_a_beat_is_a_time_and_a_status(tmp_path: Path, home: Path, capsys: Captured) -> None:
    heartbeat.beat("main", "working", state_dir=tmp_path / "own")
    stamp, status = (tmp_path / "own" / "heartbeats" / "main").read_text().splitlines()
    assert abs(time.time() - int(stamp)) < 60
    assert status == "working"
    heartbeat.beat("main", brain=True)
    assert (home / ".claude" / ".heartbeats" / "main").read_text().strip().isdigit()
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["beat: main written to state", "beat: main written to brain"]
    assert ReadAPI(tmp_path / "own").check_heartbeat_fresh("main")


@pytest.mark.parametrize("name", ["", ".", "..", "../main", "a/b", "a\\b", "a:b", "a\0"])
def test_a_beat_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="plain file name") as raised:
        heartbeat.beat(name, state_dir=tmp_path)
    assert isinstance(raised.value, InputError)
    assert list(tmp_path.iterdir()) == []


def checked(**asked: Any) -> int:
    with pytest.raises(SystemExit) as ended:
        heartbeat.check(**asked)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_check_tells_who_is_alive(tmp_path: Path, home: Path, capsys: Captured) -> None:
    assert checked() == 0
    heartbeat.beat("b")
    heartbeat.beat("a", brain=True)
    capsys.readouterr()
    assert checked() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(":")[0] for line in lines] == ["state/b ALIVE age", "brain/a ALIVE age"]
    folder = tmp_path / "st" / "heartbeats"
    (folder / "old").write_text(f"{int(time.time()) - 400}\n")
    (folder / "odd").write_text("soon\n")
    (folder / "ahead").write_text(f"{time.time() + 400:.0f}\n")
    assert checked(max_age=300) == 1
    found = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert found["state/odd"] == "STALE age:99999s"
    assert found["state/old"].startswith("STALE age:4")
    assert found["state/ahead"].startswith("STALE age:-")
    assert found["state/b"].startswith("ALIVE")


def test_the_command_line_of_heartbeat(tmp_path: Path, capsys: Captured) -> None:
    own = ["--state-dir", str(tmp_path / "own")]
    assert heartbeat.main(["beat", "x", "busy", *own]) == 0
    assert (tmp_path / "own" / "heartbeats" / "x").read_text().endswith("\nbusy\n")
    for age, code in (("300", 0), ("-1", 1)):
        with pytest.raises(SystemExit) as ended:
            heartbeat.main(["check", "--max-age", age, *own])
        assert ended.value.code == code
    capsys.readouterr()
    assert heartbeat.main([]) == 1
    assert capsys.readouterr().out.startswith("usage: ")
    assert heartbeat.main(["beat", "../x", *own]) == 2


# stall_check


def transcript(root: Path, name: str, age_s: float) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, age_s in (("a", 10), ("b", 700), ("c", 1300)):
        transcript(tmp_path / "root", f"project/{name}/agent-{name}.jsonl", age_s)
    transcript(tmp_path / "root", "other.jsonl", 5000)
    return tmp_path / "root"


def test_transcripts_are_judged_by_their_age(root: Path) -> None:
    found = stall_check.scan_transcripts(root, 600)
    assert found is not None
    assert [(one["agent"], one["verdict"]) for one in found] == [
        ("a", "ok"), ("b", "stale"), ("c", "dead"),
    ]  # fmt: skip
    first, *stalled = found
    assert first.keys() == {
        "agent", "transcript", "mtime_age_s", "verdict", "suggested_action", "last_mtime", "active",
    }  # fmt: skip
    assert first["transcript"] == str(root / "project" / "a" / "agent-a.jsonl")
    assert 10 <= first["mtime_age_s"] < 40
    assert (first["suggested_action"], first["active"]) == (None, None)
    assert first["last_mtime"].endswith("Z")
    assert all(isinstance(one["suggested_action"], str) for one in stalled)
    assert stall_check.scan_transcripts(root / "none", 600) is None


def test_only_active_agents_are_stale_where_that_is_known(root: Path, tmp_path: Path) -> None:
    active = tmp_path / "active"
    active.mkdir()
    (active / "b.status").touch()
    found = stall_check.scan_transcripts(root, 600, active) or []
    assert [(one["active"], one["verdict"]) for one in found] == [
        (False, "ok"), (True, "stale"), (False, "ok"),
    ]  # fmt: skip
    assert stall_check.is_agent_active("b", None) is None
    (tmp_path / "out.task").touch()
    assert stall_check.is_agent_active("../out", active) is False
    (active / "link.task").symlink_to(tmp_path / "out.task")
    assert stall_check.is_agent_active("link", active) is False


def test_an_odd_id_is_left_out_with_a_warning(root: Path, capsys: Captured) -> None:
    transcript(root, "agent-x y.jsonl", 5000)
    transcript(root, "agent-..jsonl", 5000)
    (root / "agent-folder.jsonl").mkdir()
    found = stall_check.scan_transcripts(root, 600) or []
    assert [one["agent"] for one in found] == ["a", "b", "c"]
    assert capsys.readouterr().err.count("WARNING") == 2
    assert stall_check.sanitize_agent_id("A-1_b", "f") == "A-1_b"


def test_the_advice_says_what_to_do(root: Path, tmp_path: Path) -> None:
    found = stall_check.scan_transcripts(root, 600) or []
    advice = [json.loads(text) for text in stall_check.emit_recovery_advisories(found)]
    assert [(one["agent"], one["verdict"]) for one in advice] == [("b", "stale"), ("c", "dead")]
    assert all(one.keys() == {"agent", "verdict", "age_s", "suggested_action"} for one in advice)
    assert all(isinstance(one["suggested_action"], list) for one in advice)
    folder = tmp_path / "advice"
    assert stall_check.write_recovery_files(found, folder) == 2
    assert {path.name for path in folder.iterdir()} == {"recovery-b.json", "recovery-c.json"}
    assert json.loads((folder / "recovery-c.json").read_text()) == advice[1]
    assert stall_check.write_recovery_files([], folder) == 0
    assert stall_check.write_recovery_files(found, None) == 0


def test_the_root_is_that_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stall_check.get_transcripts_root() == home / ".claude" / "projects"
    monkeypatch.setenv("AESOP_TRANSCRIPTS_ROOT", "/x")
    assert stall_check.get_transcripts_root() == Path("/x")


def test_the_command_line_of_stall_check(root: Path, tmp_path: Path, capsys: Captured) -> None:
    where = ["--transcripts-root", str(root)]
    assert stall_check.main(where) == 0
    assert "dead" in capsys.readouterr().out
    assert stall_check.main([*where, "--exit-nonzero-on-stall", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)) == 3
    slow = [*where, "--threshold-seconds", "5000"]
    assert stall_check.main([*slow, "--exit-nonzero-on-stall"]) == 0
    capsys.readouterr()
    folder = tmp_path / "advice"
    assert stall_check.main([*where, "--emit-recovery", "--recovery-dir", str(folder)]) == 0
    assert [json.loads(line)["agent"] for line in capsys.readouterr().out.splitlines()] == [
        "b",
        "c",
    ]
    assert len(list(folder.iterdir())) == 2
    none = ["--transcripts-root", str(tmp_path / "none"), "--exit-nonzero-on-stall"]
    assert stall_check.main(none) == 0
    assert capsys.readouterr().out == "no transcripts found\n"
    assert stall_check.main([*none, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


# wave_resume


def line(slug: str, status: str = "completed", *files: str) -> dict[str, Any]:
    return {"slug": slug, "status": status, "files": list(files)}


def journal(tmp_path: Path, *records: Mapping[str, Any] | str) -> Path:
    lines = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path = tmp_path / "journal.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_journal_is_read_line_by_line(tmp_path: Path) -> None:
    path = journal(tmp_path, line("a"), "{", "", "[1]", "3", line("b"))
    assert wave_resume.load_journal(str(path)) == [line("a"), line("b")]
    assert wave_resume.load_journal(tmp_path / "none") == []
    assert wave_resume.load_journal(tmp_path) == []


def test_files_are_looked_for_in_the_folder_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "d").mkdir(parents=True)
    (work / "d" / "a.py").touch()
    (tmp_path / "out").touch()
    there = wave_resume.verify_files_exist
    assert there(str(work), ["d/a.py", "d"])
    assert there(work, [])
    assert not there(work, ["d/a.py", "b.py"])
    assert not there(work, ["../out"])
    assert not there(work, [str(tmp_path / "out")])
    assert not there(work, [3])


def test_items_are_completed_if_all_their_files_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    records = [
        line("a", "completed", "a.py"),
        line("b", "completed", "b.py"),
        line("c", "completed"),
        line("d", "failed", "a.py"),
        {"status": "completed", "files": ["a.py"]},
    ]
    found = wave_resume.classify_items(records, tmp_path)
    assert found.keys() == {"completed", "remaining", "resume_hint"}
    assert (found["completed"], found["remaining"]) == (["a"], ["b", "c", "d"])
    assert "b" in found["resume_hint"].split()
    done = wave_resume.classify_items(records[:1], tmp_path)
    assert (done["completed"], done["remaining"]) == (["a"], [])
    assert "all" in done["resume_hint"]


def test_the_last_record_of_an_item_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    redone = [line("a", "failed", "a.py"), line("b"), line("a", "completed", "a.py")]
    assert wave_resume.classify_items(redone, tmp_path)["completed"] == ["a"]
    undone = [line("a", "completed", "a.py"), line("a", "failed", "a.py")]
    assert wave_resume.classify_items(undone, tmp_path)["remaining"] == ["a"]


def test_the_journal_of_our_own_waves_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    write_entry(tmp_path, "b", "failed", {"timestamp": 2.0, "filesWritten": ["a.py"]})
    shipped = {"timestamp": 1.0, "verified": True, "shipped": True, "filesWritten": ["a.py"]}
    write_entry(tmp_path, "a", "verified", shipped)
    found = wave_resume.classify_items(wave_resume.load_journal(tmp_path / "journal"), tmp_path)
    assert (found["completed"], found["remaining"]) == (["a"], ["b"])


def test_the_command_line_of_wave_resume(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.py").touch()
    path = journal(tmp_path, line("a", "completed", "a.py"), line("b", "failed"))
    asked = ["--journal", str(path), "--workdir", str(tmp_path)]
    assert wave_resume.main(asked) == 0
    *lines, hint = capsys.readouterr().out.splitlines()
    assert lines == ["Completed: 1", "  a", "Remaining: 1", "  b"]
    assert "b" in hint
    assert wave_resume.main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remaining"] == ["b"]
    assert wave_resume.main(["--journal", "none", "--workdir", str(tmp_path), "--json"]) == 0
    assert "names no item" in json.loads(capsys.readouterr().out)["resume_hint"]
    with pytest.raises(SystemExit) as ended:
        wave_resume.main(["--journal", "x"])
    assert ended.value.code == 2
