"""`tools/verify_state.py`, and what a run does with a store that lost something."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driver.run_state.run_registry import noted
from state_store.api import StateAPI
from state_store.database.errors import rebuild_command
from state_store.views.anchors import Anchor, lost
from tests.support.programs import ROOT, Project, Ran, call, item, run
from tools.verify_state import main

pytestmark = pytest.mark.usefixtures("at_home")


def verify(project: Project, *flags: str | Path, code: int = 0) -> Ran:
    done = call(main, "--state-dir", project.state, *flags)
    assert (done.code, done.err) == (code, "")
    return done


def database(project: Project) -> Path:
    return project.state / "tracker_events.db"


@pytest.fixture(scope="module")
def after_a_cycle(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A cycle that shipped an item and one whose test is red."""
    made = Project(tmp_path_factory.mktemp("cycle"), template)
    made.track(item("a"), item("b", testCmd=["false"]))
    made.schedule()
    return made


@pytest.fixture
def shipped(project: Project, after_a_cycle: Project) -> Project:
    """A copy of it."""
    shutil.rmtree(project.top)
    for mine, its in ((project.top, after_a_cycle.top), (project.state, after_a_cycle.state)):
        shutil.copytree(its, mine)
    shutil.copy(after_a_cycle.tracker, project.tracker)
    return project


def settled(project: Project) -> None:
    """All commits are in the one file."""
    with closing(sqlite3.connect(database(project))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def without_its_end(project: Project) -> None:
    """What a disk that lied about its flushes leaves: a whole database, some events shorter."""
    settled(project)
    with closing(sqlite3.connect(database(project))) as connection:
        connection.execute("DROP TRIGGER events_never_go")
        connection.execute("DELETE FROM events WHERE stream LIKE 'wave:%' AND version > 2")
        connection.execute(
            "CREATE TRIGGER events_never_go BEFORE DELETE ON events "
            "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )
        connection.commit()


def removed(project: Project) -> None:
    for path in project.state.glob("tracker_events.db*"):
        path.unlink()


def emptied(project: Project) -> None:
    settled(project)
    database(project).write_bytes(b"")


def garbled(project: Project) -> None:
    settled(project)
    database(project).write_bytes(b"\xff" * 5000)


def cut(project: Project) -> None:
    settled(project)
    with database(project).open("r+b") as file:
        file.truncate(8192)


def bit_flipped(project: Project) -> None:
    settled(project)
    body = database(project).read_bytes()
    at = body.index(b'"verdict":"failed"')
    database(project).write_bytes(body[:at] + b'"verdict":"fooled"' + body[at + 18 :])


def test_no_store_is_not_called_complete(tmp_path: Path) -> None:
    program = ROOT / "tools" / "verify_state.py"
    told = run(program, "--state-dir", tmp_path, cwd=tmp_path)
    assert (told.code, "does not exist yet" in told.out) == (0, True)


HURT = [without_its_end, removed, emptied, garbled, cut, bit_flipped]
SEEN_AT_START = [hurt for hurt in HURT if hurt is not bit_flipped]


def test_a_store_as_a_run_left_it_is_whole_and_says_so(shipped: Project) -> None:
    program = ROOT / "tools" / "verify_state.py"
    told = run(program, "--state-dir", shipped.state, cwd=shipped.home)
    assert (told.code, "is complete" in told.out) == (0, True)
    answer = verify(shipped, "--json", "--repo", shipped.top).report
    assert (answer["whole"], answer["problems"]) == (True, [])
    assert not list(shipped.state.glob("*damaged*"))


def test_the_remedy_for_a_damaged_store_names_a_program_that_is_there(tmp_path: Path) -> None:
    program, _, flags = rebuild_command(tmp_path).partition(" --rebuild ")
    assert Path(program.removeprefix("python ")) == ROOT / "tools" / "verify_state.py"
    assert flags == f"--state-dir {tmp_path}"


@pytest.mark.more
@pytest.mark.parametrize("hurt", HURT)
def test_every_damage_is_named_with_its_remedy_and_nothing_is_changed(
    shipped: Project, hurt: Callable[[Project], None]
) -> None:
    hurt(shipped)
    before = {path.name for path in shipped.state.iterdir()}
    lines = verify(shipped, code=4).out.splitlines()
    assert len(lines) >= 2
    assert "--rebuild" in lines[-1]
    answer = verify(shipped, "--json", code=4).report
    assert answer["problems"] == lines[:-1]
    gone = {path.name for path in shipped.state.iterdir()} ^ before
    assert gone <= {"tracker_events.db-wal", "tracker_events.db-shm", "tracker_events.db.lock"}


@pytest.mark.more
@pytest.mark.parametrize(
    ("hurt", "program"),
    [*((hurt, "schedule") for hurt in SEEN_AT_START), (without_its_end, "loop"), (cut, "loop")],
)
def test_no_run_begins_on_a_store_that_lost_what_it_acknowledged(
    shipped: Project, hurt: Callable[[Project], None], program: str
) -> None:
    hurt(shipped)
    agent = shipped.home / "ran"
    spy = f"DO pathlib.Path({str(agent)!r}).touch()"
    shipped.track(item("c", prompt=spy))
    manifest = shipped.manifest(item("c", prompt=spy))
    done = shipped.schedule() if program == "schedule" else shipped.loop("--manifest", manifest)
    assert done.code == 4
    assert "--rebuild" in done.report["error"]
    assert "\n" not in done.report["error"]
    assert not agent.exists()


@pytest.mark.more
@pytest.mark.parametrize("hurt", HURT)
def test_a_rebuilt_store_is_whole_has_what_was_known_and_is_run_on(
    shipped: Project, hurt: Callable[[Project], None]
) -> None:
    hurt(shipped)
    everything = ("--repo", shipped.top, "--tracker", shipped.tracker)
    said = verify(shipped, "--rebuild", *everything).out.splitlines()[-1]
    assert said.startswith("the database was ")
    assert "is complete" in verify(shipped, "--repo", shipped.top).out
    with StateAPI(database(shipped)) as api:
        assert {i["id"]: i["status"] for i in api.project("tracker")["items"]} == {
            "A": "in_progress",
            "B": "todo",
        }
        (wave,) = api.waves()
        items = {i["slug"]: i for i in api.project(f"wave:{wave}")["items"]}
    assert items["a"]["commit"]
    assert items["b"]["verdict"] == "failed"
    shipped.track(item("c"))
    assert shipped.schedule().report["wave"]["shipped"] == ["c"]


def test_what_is_set_aside_is_kept_byte_for_byte(shipped: Project) -> None:
    garbled(shipped)
    before = database(shipped).read_bytes()
    rebuilt = verify(shipped, "--rebuild", "--json").report["rebuilt"]
    assert (shipped.state / rebuilt["set_aside"]).read_bytes() == before
    assert rebuilt["journal_entries"] == 2


def test_a_tracker_that_cannot_be_read_is_told_before_anything_is_set_aside(
    shipped: Project,
) -> None:
    garbled(shipped)
    (shipped.state / "tracker.json").write_text("{")
    done = call(main, "--state-dir", shipped.state, "--rebuild")
    assert done.code == 2
    assert "tracker.json" in done.err
    assert database(shipped).exists()
    assert not list(shipped.state.glob("*damaged*"))


@pytest.mark.more
def test_a_wave_under_way_keeps_its_store(shipped: Project) -> None:
    garbled(shipped)
    (shipped.state / "runs" / "live").mkdir()
    with noted(shipped.state / "runs" / "live", "live", ()):
        done = call(main, "--state-dir", shipped.state, "--rebuild")
    assert done.code == 3
    assert "is running" in done.err
    assert database(shipped).read_bytes()[:1] == b"\xff"


@pytest.mark.more
def test_commits_tell_of_a_loss_when_the_journal_is_lost_too(shipped: Project) -> None:
    shutil.rmtree(shipped.state / "journal")
    without_its_end(shipped)
    assert "is complete" in verify(shipped).out
    told = verify(shipped, "--repo", shipped.top, code=4).out
    assert "anchor wave:" in told
    assert f"--repo {shipped.top}" in told.splitlines()[-1]
    verify(shipped, "--repo", shipped.top, "--rebuild")
    verify(shipped, "--repo", shipped.top)


@pytest.mark.more
def test_every_journal_entry_says_how_far_the_store_was(shipped: Project) -> None:
    with StateAPI(database(shipped)) as api:
        heads = api.store.heads()
    for path in (shipped.state / "journal").glob("*.json"):
        entry: dict[str, Any] = json.loads(path.read_text())
        stream, _, rest = entry["anchor"].rpartition("@")
        version, _, link = rest.partition(":")
        assert 0 < int(version) <= heads[stream][0]
        assert len(link) == 16


def test_a_state_folder_that_was_never_used_is_no_loss(project: Project) -> None:
    project.state.mkdir()
    verify(project)
    assert list(project.state.iterdir()) == []


def test_an_anchor_of_another_past_does_not_hold(tmp_path: Path) -> None:
    with StateAPI(tmp_path / "a.db") as mine, StateAPI(tmp_path / "b.db") as other:
        for number in range(3):
            mine.append("wave:w", "x", {"number": number})
            other.append("wave:w", "x", {"number": -number})
        kept, foreign = (Anchor.of("wave:w", api.store.head("wave:w")) for api in (mine, other))
        assert kept
        assert foreign
        assert list(lost(mine.store, [kept, foreign])) == [foreign]
        assert Anchor.parse(str(kept)) == kept


@pytest.mark.parametrize("text", ["", "wave:w@0:" + "0" * 16, "wave:w@1:00", "@1:" + "0" * 16, 7])
def test_what_is_no_anchor_is_none(text: object) -> None:
    assert Anchor.parse(text) is None
