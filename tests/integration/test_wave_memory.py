"""What waves and cycles write into the store while they run, and who can watch them do it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.tracker.ingest import ingest_tracker_json
from state_store.views.export import export_buildlog, export_state_md
from tests.support.beside import beside_on
from tests.support.interpreter import PYTHON
from tests.support.programs import ROOT, Project
from tests.support.programs import item as tracked
from tests.support.waves import Agent, Scene, built, item, writes
from tools import halt
from tools.settings.schema import LimitsSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "c.txt": "base\n"}
DATABASE = "tracker_events.db"


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


def story(api: StateAPI, slug: str) -> list[tuple[Any, ...]]:
    """What stream wave:w1 tells of one item."""
    told = [(event["type"], event["payload"]) for event in api.get("wave:w1")]
    keys = ("number", "phase", "verdict")
    return [
        (kind, *(payload[key] for key in keys if key in payload))
        for kind, payload in told
        if payload.get("slug") == slug and kind != "phase_entered"  # of phases that last
    ]


@on_scene
def test_a_wave_tells_of_repaired_refused_and_halted_items(scene: Scene) -> None:
    def strays_and_halts(agent: Agent) -> None:
        agent.write({"c.txt": "not mine\n"})
        halt.halt("enough", scene.state)

    report, _ = scene.play(
        {"a": [writes(a__txt="bad\n"), writes(a__txt="good\n")], "b": strays_and_halts, "c": []},
        [
            item("a", "a.txt", "grep -q good a.txt"),
            item("b", "b.txt", "true"),
            item("c", "c.txt", "true"),
        ],
        settings=dataclasses.replace(scene.settings, limits=LimitsSettings(max_workers=1)),
    )
    with StateAPI(scene.state / DATABASE) as api:
        assert story(api, "a") == [
            ("attempt_started", 1, "build"),
            ("phase_finished", "implement"),
            ("attempt_judged", 1, "failed"),
            ("phase_finished", "gate"),
            ("attempt_started", 2, "repair"),
            ("phase_finished", "implement"),
            ("attempt_judged", 2, "verified"),
            ("phase_finished", "gate"),
        ]
        assert story(api, "b")[:2] == [
            ("attempt_started", 1, "build"),
            ("attempt_judged", 1, "refused"),
        ]
        assert story(api, "c") == [("item_settled", "halted")]
        kinds = [event["type"] for event in api.get("wave:w1")]
        assert (kinds[0], kinds[-1]) == ("wave_started", "wave_finished")
        view = api.project("wave:w1")
        assert (view["aborted"], view["abort_reason"]) == (True, report["abort_reason"])
        told = {one["slug"]: (one["verdict"], one["reason"] or None) for one in view["items"]}
        assert told == {
            slug: (record["verdict"], record["error"]) for slug, record in built(report).items()
        }
        assert view["shipped"] == []


@pytest.mark.more
@on_scene
def test_a_shipped_item_shows_its_branch_and_commit(scene: Scene) -> None:
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", "grep -q good a.txt")]
    )
    with StateAPI(scene.state / DATABASE) as api:
        view = api.project("wave:w1")
    (shown,) = view["items"]
    assert view["shipped"] == ["a"]
    assert (shown["phase"], shown["branch"], shown["commit"]) == (
        "shipped",
        report["branch"],
        built(report)["a"]["commit"],
    )


@pytest.mark.more
@on_scene
def test_the_traces_add_up_to_what_the_report_says(scene: Scene) -> None:
    report, _ = scene.play(
        {
            "a": [writes(a__txt="bad\n"), writes(a__txt="good\n")],
            "b": writes(b__txt="good\n"),
        },
        [item("a", "a.txt", "grep -q good a.txt"), item("b", "b.txt", "true")],
    )
    with StateAPI(scene.state / DATABASE) as api:
        totals = api.project("agent_traces")["totals"]
    said = report["tokens"]
    assert (totals["dispatches"], totals["running"]) == (3, 0)
    assert (totals["tokens_in"], totals["tokens_out"]) == (said["totalIn"], said["totalOut"])
    assert (totals["tokens"], totals["unmetered"]) == (said["total"], said["unmetered"])
    assert totals["cost_usd"] == pytest.approx(said["costUsd"])


WATCH = """
import json, sys
from state_store.api import StateAPI
api, seen = StateAPI(sys.argv[1]), []
watch = api.subscribe("wave:w1", seen.append)
print("ready", flush=True)
watch.follow(until=lambda: seen and seen[-1]["type"] == "wave_finished", timeout_s=30)
print(json.dumps(seen))
"""


@pytest.mark.more
@on_scene
def test_another_process_sees_every_event_once_and_in_order(scene: Scene) -> None:
    database = scene.state / DATABASE
    scene.state.mkdir()
    command = [*PYTHON, "-c", WATCH, str(database)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout
        assert watcher.stdout.readline() == "ready\n"
        slugs = [f"i{number}" for number in range(8)]
        scene.play(
            {slug: writes(**{f"{slug}__txt": "x"}) for slug in slugs},
            [item(slug, f"{slug}.txt", "true") for slug in slugs],
        )
        seen = json.loads(watcher.communicate(timeout=60)[0])
    with StateAPI(database) as api:
        assert seen == api.get("wave:w1")
    assert [event["version"] for event in seen] == list(range(1, len(seen) + 1))


# What a cycle leaves for people


def phases(project: Project) -> list[str]:
    with StateAPI(project.state / DATABASE) as api:
        told = api.get("orchestrator_status")
        return [event["payload"]["phase"] for event in told if event["type"] == "phase_changed"]


@pytest.mark.more
def test_a_cycle_tells_its_phases_and_an_idle_one_tells_nothing(project: Project) -> None:
    project.track(tracked("a"))
    wave_id = project.schedule().report["wave_id"]
    assert phases(project) == ["intake", "dispatch", "tracker", "idle"]
    project.schedule()
    assert len(phases(project)) == 4
    with StateAPI(project.state / DATABASE) as api:
        assert api.project("orchestrator_status")["cycle"]["wave_id"] == wave_id


@pytest.mark.more
def test_a_cycle_leaves_the_files_for_people_as_the_store_has_them(
    project: Project, tmp_path: Path
) -> None:
    project.track(tracked("a"), tracked("b", prompt="nothing"))
    assert project.schedule().code == 1
    with StateAPI(project.state / DATABASE) as api:
        export_state_md(api, tmp_path / "again.md")
        export_buildlog(api, tmp_path / "again-log.md")
    state_md = (project.state / "STATE.md").read_text(encoding="utf-8")
    log = (project.state / "BUILDLOG.md").read_text(encoding="utf-8")
    assert state_md == (tmp_path / "again.md").read_text(encoding="utf-8")
    assert log == (tmp_path / "again-log.md").read_text(encoding="utf-8")
    assert "## Items: in_progress (1)" in state_md
    assert "a: verified, commit " in log
    assert "b: no_change" in log


@pytest.mark.more
def test_a_file_for_people_that_cannot_be_written_is_told_and_ships_all_the_same(
    project: Project,
) -> None:
    (project.state / "STATE.md").mkdir(parents=True)
    project.track(tracked("a"))
    done = project.schedule()
    assert done.code == 0
    assert "STATE.md cannot be written" in done.err
    assert (project.state / "BUILDLOG.md").is_file()


# People and the machine at one tracker


def edits(project: Project, code: str) -> str:
    """A prompt whose agent, while it works, edits the tracker as a person would, in `text`."""
    path = f"pathlib.Path({str(project.tracker)!r})"
    return f"DO t = {path}; text = t.read_text(); {code}; t.write_text(text)\n"


@pytest.mark.more
def test_edits_by_people_while_a_wave_runs_survive_beside_the_machines(project: Project) -> None:
    change = (
        "d = json.loads(text); d['items'][0]['title'] = 'Better'; d['items'].pop(1);"
        " d['items'].append({'id': 'NEW', 'status': 'idea'}); d['mine'] = 1;"
        " text = json.dumps(d, indent=7)"
    )
    first = tracked("a", title="Title")
    first["prompt"] = edits(project, change) + first["prompt"]
    project.track(first, tracked("gone", status="idea"))
    report = project.schedule().report
    document = json.loads(project.tracker.read_text(encoding="utf-8"))
    assert [(one["id"], one["status"]) for one in document["items"]] == [
        ("A", "in_progress"),
        ("NEW", "idea"),
    ]
    assert (document["items"][0]["title"], document["mine"]) == ("Better", 1)
    assert report["wave_id"][:8] in document["items"][0]["notes"]
    assert "\n       " in project.tracker.read_text(encoding="utf-8")
    with StateAPI(project.state / DATABASE) as api:
        kept = {one["id"]: one for one in api.project("tracker")["items"]}
        assert (kept["A"]["title"], kept["A"]["status"]) == ("Better", "in_progress")
        assert (kept["GONE"]["status"], kept["NEW"]["status"]) == ("archived", "idea")
        before = len(api.get("tracker"))
        assert [ingest_tracker_json(api, project.tracker) for _ in range(2)] == [0, 0]
        assert len(api.get("tracker")) == before


@pytest.mark.more
def test_a_true_conflict_stops_that_item_alone_and_names_both_values(project: Project) -> None:
    first = tracked("a", prompt="nothing")
    project.track(first, tracked("b", status="idea"))
    project.schedule()
    with StateAPI(project.state / DATABASE) as api:
        api.append("tracker", "item_updated", {"id": "A", "title": "the machine's"})
    items = [project.item_now("A") | {"title": "a person's"}, tracked("b")]
    project.track(*items)
    done = project.schedule()
    (skipped,) = done.report["items_skipped"]
    assert (skipped["id"], skipped["reason"]) == ("A", "tracker_conflict")
    assert "the machine's" in skipped["detail"]
    assert "a person's" in skipped["detail"]
    assert [one["slug"] for one in done.report["items_shipped"]] == ["b"]
