"""The programs that look into the state and mend it: state, reconcile, orchestrator_status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.read_api import ReadAPI
from state_store.tracker.ingest import sync_tracker
from tests.support.programs import ROOT, Ran, run, run_here
from tools import orchestrator_status, reconcile

STATE, RECONCILE = ROOT / "tools" / "state.py", ROOT / "tools" / "reconcile.py"
STATUS = ROOT / "tools" / "orchestrator_status.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with a little of everything."""
    state = tmp_path / "state"
    with StateAPI(state / "tracker_events.db") as api:
        api.append("tracker", "item_created", {"id": "T-1", "status": "todo", "title": "A\ttitle"})
        api.append("wave:w1", "wave_started", {"wave_id": "w1", "items": ["s"]})
        api.append("wave:w1", "item_shipped", {"slug": "s", "commit": "c1", "verdict": "verified"})
        used = {"agent_id": "w1/s/1", "tokens": 7, "cost_usd": 0.5, "verdict": "verified"}
        api.append("agent_traces", "agent_dispatched", {"agent_id": "w1/s/1", "item": "s"})
        api.append("agent_traces", "agent_completed", used)
        api.append("meta", "phase_set", {"phase": "build"})
    return state


def looked(folder: Path, *flags: str) -> Ran:
    return run_here(STATE, *flags, "--state-dir", folder, cwd=folder.parent)


@pytest.mark.parametrize("program", [STATE, RECONCILE, STATUS], ids=lambda path: str(path.stem))
def test_each_runs_as_a_file_from_any_folder(program: Path, tmp_path: Path) -> None:
    done = run(program, "--help", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: ")


@pytest.mark.parametrize(
    ("view", "line"),
    [
        (["items"], "T-1\ttodo\tA title"),
        (["wave", "w1"], "s\tverified\t0\tc1\t-"),
        (["traces"], "w1/s/1\tcompleted\tverified\t7\t0.5"),
        (["status"], 'phase: "build"'),
    ],
)
def test_a_view_is_a_line_for_each_thing(folder: Path, view: list[str], line: str) -> None:
    done = looked(folder, *view)
    assert (done.code, done.err) == (0, "")
    assert line in done.out.splitlines()


@pytest.mark.parametrize(
    ("flags", "view"),
    [
        (["items"], "tracker"),
        (["wave", "w1"], "wave:w1"),
        (["traces"], "agent_traces"),
        (["status"], "orchestrator_status"),
    ],
)
def test_a_view_as_json_is_the_view(folder: Path, flags: list[str], view: str) -> None:
    done = looked(folder, *flags, "--json")
    with StateAPI(folder / "tracker_events.db") as api:
        schema = f"tidegate/state/{flags[0]}/1"
        assert json.loads(done.out) == {"schema": schema, **api.project(view)}


def test_events_are_those_beyond_a_version(folder: Path) -> None:
    (event,) = json.loads(looked(folder, "events", "wave:w1", "--after", "1", "--json").out)
    assert (event["version"], event["type"]) == (2, "item_shipped")
    lines = looked(folder, "events", "wave:w1").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2"]
    (wave,) = json.loads(looked(folder, "waves", "--json").out)
    assert (wave["wave_id"], wave["shipped"]) == ("w1", ["s"])


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["wave", "w2"], "no wave w2"),
        (["events", "x"], "no stream x; there are: agent_traces, meta"),
        (["sync", "--prefer", "T-1=both"], "is not ID=file or ID=store"),
    ],
)
def test_what_is_not_there_is_one_sentence(folder: Path, flags: list[str], why: str) -> None:
    done = looked(folder, *flags)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert why in done.err


@pytest.mark.parametrize("flags", [["items"], ["sync"], ["events", "tracker"]])
def test_looking_makes_no_database(tmp_path: Path, flags: list[str]) -> None:
    done = looked(tmp_path / "none", *flags)
    assert done.code == 2
    assert "there is no database" in done.err
    assert not (tmp_path / "none").exists()


def test_a_damaged_database_is_one_sentence_and_exit_4(tmp_path: Path) -> None:
    (tmp_path / "tracker_events.db").write_bytes(b"garbage" * 1000)
    done = looked(tmp_path, "items")
    assert (done.code, done.err.count("\n")) == (4, 1)


@pytest.mark.parametrize(("side", "title"), [("file", "F"), ("store", "S")])
def test_a_conflict_is_told_until_a_person_settles_it(folder: Path, side: str, title: str) -> None:
    tracker = folder / "tracker.json"
    with StateAPI(folder / "tracker_events.db") as api:
        sync_tracker(api, tracker)
        tracker.write_text(tracker.read_text().replace("A\\ttitle", "F"))
        api.append("tracker", "item_updated", {"id": "T-1", "title": "S"})
    told = looked(folder, "sync")
    assert told.code == 1
    assert "'F'" in told.out or '"F"' in told.out
    assert json.loads(looked(folder, "sync", "--json").out)["conflicts"]
    assert looked(folder, "sync", "--prefer", f"T-1={side}").code == 0
    assert looked(folder, "sync").out == "0 events taken in, 0 items written to the file\n"
    assert json.loads(tracker.read_text())["items"][0]["title"] == title
    with StateAPI(folder / "tracker_events.db") as api:
        assert api.project("tracker")["items"][0]["title"] == title


# reconcile


def reconciled(folder: Path, *flags: str | Path) -> Ran:
    return run_here(RECONCILE, *flags, "--json", cwd=folder)


@pytest.mark.parametrize(
    ("phase", "flags", "code", "after"),
    [
        ("build", [], 0, ("build", "build")),
        ("ship", [], 1, ("ship", "build")),
        ("ship", ["--resolve"], 0, ("ship", "ship")),
        ("ship", ["--resolve", "--authority", "store"], 0, ("build", "build")),
    ],
)
def test_drift_is_told_by_the_exit_code_and_mended_on_request(
    folder: Path, phase: str, flags: list[str], code: int, after: tuple[str, str]
) -> None:
    top, db = folder.parent, folder / "tracker_events.db"
    (top / "STATE.md").write_text(f"# S\n\n## Phase: `{phase}`\n")
    assert reconciled(top, *flags).code == code
    assert (reconcile.read_git_phase(top / "STATE.md"), reconcile.read_store_phase(db)) == after
    assert reconciled(top, "--state-md", top / "STATE.md", "--db", db).code == (
        after[0] != after[1]
    )


def test_what_cannot_be_mended_says_why(folder: Path) -> None:
    (folder.parent / "STATE.md").write_text("no heading\n")
    done = reconciled(folder.parent, "--resolve")
    assert (done.code, json.loads(done.out)["action"]) == (1, "refused")
    assert "has no phase" in json.loads(done.out)["reason"]


def test_without_a_state_md_it_is_exit_2_and_no_database_is_made(tmp_path: Path) -> None:
    assert reconciled(tmp_path).code == 2
    (tmp_path / "STATE.md").write_text("## Phase: `x`\n")
    assert reconciled(tmp_path).code == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["STATE.md"]


def test_two_stores_become_one(folder: Path) -> None:
    other = folder.parent / "other.db"
    with StateAPI(other) as api:
        api.append("tracker", "item_created", {"id": "T-2", "title": "theirs"})
    done = reconciled(folder.parent, "--merge", other)
    assert (done.code, json.loads(done.out)) == (
        0,
        {"schema": "tidegate/reconcile/1", "adopted": {"tracker": 1}, "conflicts": []},
    )
    again = reconciled(folder.parent, "--merge", other)
    assert json.loads(again.out)["adopted"] == {}
    with StateAPI(folder / "tracker_events.db") as api:
        assert [one["id"] for one in api.project("tracker")["items"]] == ["T-1", "T-2"]
    missing = reconciled(folder.parent, "--merge", folder.parent / "no.db")
    assert missing.code == 2
    assert not (folder.parent / "no.db").exists()


# orchestrator_status


def status(folder: Path, *flags: str) -> Ran:
    return run_here(STATUS, *flags, "--state-dir", folder, cwd=folder)


def test_the_status_is_written_read_and_cleared(tmp_path: Path) -> None:
    done = status(tmp_path, "set", "--activity", "looking", "--phase", "build")
    assert done.code == 0, done.err
    told: dict[str, Any] = ReadAPI(tmp_path).read_orchestrator_status() or {}
    assert json.loads(done.out) == told
    assert {key: told[key] for key in told if key != "updated_at"} == {
        "id": "main",
        "role": "orchestrator",
        "parent_id": None,
        "activity": "looking",
        "phase": "build",
    }
    assert told["updated_at"].endswith("Z")
    assert ReadAPI(tmp_path).is_orchestrator_status_fresh()
    assert json.loads(status(tmp_path, "clear").out) == {"cleared": True}
    assert json.loads(status(tmp_path, "clear").out) == {"cleared": False}
    assert ReadAPI(tmp_path).read_orchestrator_status() is None


def test_the_status_has_the_id_and_role_it_is_given(tmp_path: Path) -> None:
    told = orchestrator_status.set_status("a", "p", id="two", role="worker", state_dir=tmp_path)
    assert (told["id"], told["role"]) == ("two", "worker")
    assert orchestrator_status.clear_status(tmp_path)


@pytest.mark.parametrize("flags", [[], ["set"], ["set", "--activity", " ", "--phase", "p"]])
def test_a_status_needs_an_activity_and_a_phase(tmp_path: Path, flags: list[str]) -> None:
    assert status(tmp_path, *flags).code == 2
    assert not (tmp_path / "orchestrator-status.json").exists()


def test_a_place_that_cannot_be_written_is_exit_4(tmp_path: Path) -> None:
    (tmp_path / "orchestrator-status.json").mkdir()
    assert status(tmp_path, "set", "--activity", "a", "--phase", "p").code == 4
    assert status(tmp_path, "clear").code == 4
