"""A scheduler's cycle as a cron job runs it: what it takes, what it tells, what it writes down."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver.reports.pages.files import SCHEMA
from tests.support import warm
from tests.support.beside import beside_on
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tests.support.programs import (
    DEADLINE_S,
    LOOP,
    ROOT,
    SCHEDULER,
    Project,
    Ran,
    a_project,
    environment,
    git,
    item,
    run,
    tree_hash,
    writes,
)

NOT_ALL_SHIPPED, BY_POLICY = 1, 3
on_project = beside_on(a_project)
ALWAYS = {"phase", "wave_id", "items_selected", "items_shipped", "merged", "timestamp", "success"}


def reasons(report: dict[str, Any]) -> dict[str, str]:
    return {left_out["id"]: left_out["reason"] for left_out in report.get("items_skipped", ())}


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory, template: Path) -> tuple[Project, Ran, Ran]:
    """A cycle in which all is well, and the next one."""
    project = Project(tmp_path_factory.mktemp("cycle"), template)
    a = item("a", notes="by hand", lastError="test failed with exit 1")
    project.track(a, item("b"))
    return project, project.schedule(), project.schedule()


def test_a_cycle_ships_what_is_proven_and_notes_it_in_the_tracker(
    cycle: tuple[Project, Ran, Ran],
) -> None:
    project, done, _ = cycle
    report = done.report
    assert done.code == 0, done.err
    assert report.keys() >= ALWAYS | {"branch", "sha", "tracker_update_attempted"}
    assert not report.keys() & {"error", "halt_reason", "ceiling_reason", "tracker_update_error"}
    assert (report["phase"], report["merged"], report["success"]) == ("dispatch", False, True)
    assert report["items_selected"] == ["A", "B"]
    for shipped, slug in zip(report["items_shipped"], "ab", strict=True):
        told = {key: shipped[key] for key in ("slug", "backend", "tier", "verified", "testExit")}
        assert told == {
            "slug": slug,
            "backend": "command",
            "tier": 4,
            "verified": True,
            "testExit": 0,
        }
        assert shipped["buildRecord"]["filesWritten"] == [f"{slug}.txt"]
    assert project.branches() == [report["branch"]]
    assert project.git("rev-parse", report["branch"]).strip() == report["sha"]
    assert project.git("show", f"{report['branch']}:b.txt") == "good"
    assert project.git("log", "--format=%s", "main") == "start\n"
    noted = project.item_now("A")
    assert noted["status"] == "in_progress"
    assert noted["notes"] == f"by hand [wave {report['wave_id'][:8]}]"


@pytest.mark.more
def test_a_shipped_item_no_longer_carries_the_error_of_an_earlier_wave(
    cycle: tuple[Project, Ran, Ran],
) -> None:
    project, _, _ = cycle
    assert project.item_now("A")["lastError"] is None


def test_what_is_shipped_is_not_built_again(cycle: tuple[Project, Ran, Ran]) -> None:
    project, _, again = cycle
    assert again.code == 0
    assert again.err == (
        "tidegate: nothing to do: no item of the tracker has the status todo"
        " (there are: 2 in_progress)\n"
    )
    assert again.report["phase"] == "intake"
    assert again.report["items_selected"] == []
    assert len(project.branches()) == 1


@dataclass(frozen=True)
class HalfDone:
    """A cycle of two items, one of which is bad, how the tracker was after it, and the next one."""

    project: Project
    done: Ran
    noted: dict[str | int, dict[str, Any]]
    again: Ran


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory, template: Path) -> HalfDone:
    project = Project(tmp_path_factory.mktemp("half-done"), template)
    project.track(item("a", id=7), item("b", prompt=writes("b.txt", "bad")))
    done = project.schedule()
    noted = {name: project.item_now(name) for name in (7, "B")}
    return HalfDone(project, done, noted, project.schedule("--only", "b"))


def test_an_item_that_failed_stays_to_do_and_says_why(half_done: HalfDone) -> None:
    done = half_done.done
    assert done.code == NOT_ALL_SHIPPED
    assert done.report["success"] is False
    assert [shipped["slug"] for shipped in done.report["items_shipped"]] == ["a"]
    assert done.report["items_failed_build"] == ["B"]
    failed = half_done.noted["B"]
    assert (failed["status"], failed["attempts"]) == ("todo", 1)
    assert failed["lastError"]
    assert half_done.again.code == NOT_ALL_SHIPPED
    assert half_done.project.item_now("B")["attempts"] == 2


@pytest.mark.more
def test_an_id_may_be_a_number(half_done: HalfDone) -> None:
    assert half_done.done.report["items_selected"] == [7, "B"]
    assert "tracker_update_error" not in half_done.done.report
    assert half_done.noted[7]["status"] == "in_progress"


@pytest.mark.more
def test_a_run_ends_with_what_shipped_and_where_the_rest_is(half_done: HalfDone) -> None:
    project, done = half_done.project, half_done.done
    patch = project.state / "runs" / done.report["wave_id"] / "b" / "work.patch"
    output = max(patch.parent.glob("test-?.out"))  # of the last round
    branch, base = done.report["branch"], done.report["wave"]["base"][0]["commit"][:12]
    told = [line.removeprefix("tidegate: ") for line in done.err.splitlines()[-7:]]
    doubt = "the output does not tell how many tests ran"
    no_canary = "no canary test was red (the command calls no runner that has a canary test)"
    assert told == [
        "shipped 1 of 2 items",
        "sandbox none; network: agent host, test host",
        f"b: failed: test failed with exit 1; its output: {output}; its work: {patch}",
        f"read first: a (grade C): {doubt}; {no_canary}",
        f"on the base as well (1 item, no fault of its own): {doubt}: let the test command print"
        " its runner's summary",
        f"branch {branch}: no remote: the branch is in this repository only",
        f"look: git -C {project.top} log --stat {base}..{branch}",
    ]
    assert patch.is_file()


@pytest.mark.more
def test_the_stop_command_that_is_told_works_from_any_folder(
    project: Project, tmp_path: Path
) -> None:
    keeps = ["sh", "-c", 'echo "$TIDEGATE_EVENT" >> told.txt']  # in the state folder
    project.configure(f"[notify]\ncommand = {json.dumps(keeps)}\n")
    project.track(item("a"))
    started = project.schedule()
    (line,) = [line for line in started.err.splitlines() if "or anywhere: " in line]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    typed = shlex.split(line.partition("or anywhere: ")[2])
    assert run(typed[1:], cwd=elsewhere).code == 0
    halted = project.schedule()
    assert halted.code == 3
    assert (project.state / "told.txt").read_text(encoding="utf-8").split() == ["ended", "halted"]
    go_on = shlex.split(halted.report["error"].partition("to go on: ")[2])
    assert run(go_on[1:], cwd=elsewhere).code == 0
    assert not (project.state / ".HALT").exists()


@pytest.mark.more
def test_what_is_undecided_costs_its_item_no_attempt_and_says_why(project: Project) -> None:
    project.track(item("a"))
    config = project.config.read_text(encoding="utf-8")
    project.config.write_text(config.replace('mode = "off"', 'mode = "policy"'), encoding="utf-8")
    done = project.schedule()
    assert done.code == NOT_ALL_SHIPPED
    told = project.item_now("A")
    assert (told["status"], told["attempts"]) == ("todo", 0)
    assert "review" in told["lastError"]


def test_selection_is_by_priority_then_age_and_every_item_left_out_has_a_reason(
    project: Project,
) -> None:
    project.track(
        item("old", priority="P2", createdAt="2024-01-01T00:00:00Z"),
        item("young", priority="P2", createdAt="2024-02-01T00:00:00Z"),
        item("wide", priority="P1", ownsFiles=["wide.txt", "x.txt", "y.txt"]),
        item("clash", priority="P3", ownsFiles=["./X.txt"]),
        item("late", priority="P3"),
        item("broken", priority="P1", testCmd=""),
        item("gone", status="done"),
    )
    report = project.schedule("--dry-run", "--max-items", "3").report
    assert report["items_selected"] == ["WIDE", "OLD", "YOUNG"]
    assert reasons(report) == {
        "CLASH": "max_items",
        "LATE": "max_items",
        "BROKEN": "missing_or_empty_testCmd",
    }
    report = project.schedule("--dry-run").report
    assert report["items_selected"] == ["WIDE", "OLD", "YOUNG", "LATE"]
    overlap = next(left for left in report["items_skipped"] if left["id"] == "CLASH")
    assert overlap["reason"] == "overlap"
    assert "WIDE" in overlap["detail"]


@pytest.mark.more
def test_what_an_item_asks_for_itself_wins_over_the_backends_tier(project: Project) -> None:
    project.track(
        item("a", spotCheckFrac=0.25, repairCap=0), item("b"), item("c", verificationTier=3)
    )
    a, b, c = project.schedule("--dry-run").report["manifest"]["items"]
    assert (a["spotCheckFrac"], a["repairCap"], a["verificationTier"]) == (0.25, 0, 4)
    assert (b["spotCheckFrac"], b["repairCap"], b["verificationTier"]) == (1.0, 3, 4)
    assert c["verificationTier"] == 3
    assert "repairCap" not in c  # that of tier 3, by the table


def test_a_test_command_that_can_hide_a_red_test_is_left_out_and_named(project: Project) -> None:
    project.track(item("a", testCmd="pytest || true"), item("b"))
    report = project.schedule("--dry-run").report
    assert (report["items_selected"], reasons(report)) == (["B"], {"A": "invalid_testCmd"})


@pytest.mark.more
def test_a_run_takes_only_what_it_was_asked_for_and_what_waits_for_nothing(
    project: Project,
) -> None:
    project.track(
        item("a", labels=["ui"]),
        item("b", labels=["ui"], dependsOn=["A"]),
        item("c", lane="web"),
        item("d", dependsOn=["nobody"]),
    )

    def taken(*flags: str) -> list[str]:
        return project.schedule("--dry-run", *flags).report["items_selected"]

    assert taken() == ["A", "C"]
    assert taken("--label", "ui") == ["A"]
    assert taken("--lane", "web") == ["C"]
    assert taken("--only", "c", "A") == ["A", "C"]
    assert taken("--only", "c", "--only", "A") == ["A", "C"]
    short = project.schedule("--dry-r")
    assert (short.code, "--dry-r" in short.err) == (2, True)
    report = project.schedule("--dry-run", "--only", "a", "b").report
    waits = next(left for left in report["items_skipped"] if left["id"] == "B")
    assert (waits["reason"], waits["clash"]) == ("waits_for_dependency", "A")
    assert reasons(report)["C"] == "not_asked_for"
    slip = project.schedule("--dry-run", "--only", "nosuch")
    assert slip.code == 2
    assert "--only nosuch" in slip.err
    project.track(item("a"), item("b", status="blocked"))
    beside = project.schedule("--dry-run", "--only", "A", "b")
    assert (beside.code, beside.report["items_selected"]) == (0, ["A"])
    assert reasons(beside.report) == {"b": "not_open"}
    assert "item b is left out: its status is 'blocked', not 'todo'" in beside.err
    for none in (["b"], ["a", "b", "nosuch"]):
        assert project.schedule("--dry-run", "--only", *none).code == 2
    project.track(item("a", dependsOn="B"), item("b", dependsOn="A"))
    circle = project.schedule("--dry-run")
    assert circle.code == 2
    assert "has a cycle" in circle.err


def test_one_broken_item_does_not_hold_up_the_rest(project: Project) -> None:
    tracker = project.track(item("a"), item("b", ownsFiles=["../x"]))
    document = json.loads(tracker.read_text(encoding="utf-8"))
    document["items"].append("not an item")
    tracker.write_text(json.dumps(document), encoding="utf-8")
    done = project.schedule()
    assert done.code == 0, done.err
    assert [shipped["slug"] for shipped in done.report["items_shipped"]] == ["a"]
    assert reasons(done.report) == {"B": "invalid_path", "": "not_an_object"}
    assert json.loads(tracker.read_text(encoding="utf-8"))["items"][-1] == "not an item"


@pytest.mark.more
def test_an_item_without_a_home_neither_stops_the_others_nor_takes_their_place(
    project: Project,
) -> None:
    project.track(
        item("a", priority="P1", workDir="nowhere"),
        item("b", priority="P1", repo="relative"),
        item("c", repo=str(project.home / "gone")),
        item("d"),
    )
    done = project.schedule("--max-items", "1")
    assert done.code == 0, done.err
    assert done.report["items_selected"] == ["D"]
    assert reasons(done.report) == {
        "A": "invalid_work_dir",
        "B": "invalid_repo_path",
        "C": "invalid_repo_path",
    }


@pytest.mark.more
def test_an_item_that_owns_a_path_through_a_link_is_left_out_with_the_real_path(
    project: Project,
) -> None:
    (project.top / "src").mkdir()
    (project.top / "src" / "core.txt").write_text("x\n", encoding="utf-8")
    (project.top / "alias").symlink_to("src")
    (project.top / "here").symlink_to(".")
    (project.top / "CLAUDE.md").symlink_to("src/core.txt")
    project.git("add", ".")
    project.git("commit", "-qm", "links")
    project.track(
        item("a", priority="P1", ownsFiles=["alias/core.txt"]),
        item("b", priority="P1", ownsFiles=["CLAUDE.md"]),
        item("c", ownsFiles=["CLAUDE.md", "src/core.txt"]),
        item("d"),
        item("e", ownsFiles=["here/src/core.txt"]),
    )
    dry = project.schedule("--dry-run")
    assert sorted(dry.report["items_selected"]) == ["C", "D"]
    assert reasons(dry.report) == dict.fromkeys("ABE", "invalid_file_paths")
    details = [one["detail"] for one in dry.report["items_skipped"]]
    assert all("symbolic link to src/core.txt: own that path" in detail for detail in details)
    assert not any("submodule" in detail for detail in details)


@pytest.mark.more
def test_items_of_other_repositories_ship_there_beside_those_of_this_one(
    project: Project, template: Path
) -> None:
    other = project.home / "other"
    shutil.copytree(template, other)
    project.track(item("a", repo=str(other)), item("b"))
    done = project.schedule()
    assert done.code == 0, done.err
    branch = done.report["wave"]["shipped_repos"][0]["branch"]
    assert git(other, "show", f"{branch}:a.txt") == "good"
    assert project.git("show", f"{branch}:b.txt") == "good"
    project.track(item("c", repo=str(other)))
    again = project.schedule()
    assert again.code == 0, again.err
    assert git(other, "show", f"{again.report['branch']}:c.txt") == "good"


@pytest.mark.more
def test_a_tracker_that_is_a_bare_list_stays_one(project: Project) -> None:
    project.track(item("a"), bare=True)
    assert project.schedule().code == 0
    document = json.loads(project.tracker.read_text(encoding="utf-8"))
    assert isinstance(document, list)
    assert document[0]["status"] == "in_progress"


def edits(project: Project, edit: str) -> str:
    """A prompt whose agent does its work and also plays the person who edits the tracker: `edit`
    is Python with the file as `p` and its document as `d`."""
    place = f"p = pathlib.Path({str(project.tracker)!r}); d = json.loads(p.read_text())"
    return f"{writes('a.txt')}\nDO {place}; {edit}"


SAVED = "p.write_text(json.dumps(d))"


@pytest.mark.more
def test_what_a_person_edits_while_a_wave_runs_is_kept(project: Project) -> None:
    edit = "d['items'][0]['title'] = 'Mine'; d['items'].append({'id': 'NEW', 'status': 'todo'})"
    project.track(item("a", prompt=edits(project, f"{edit}; {SAVED}")))
    assert project.schedule().code == 0
    assert project.item_now("A")["title"] == "Mine"
    assert project.item_now("A")["status"] == "in_progress"
    assert project.item_now("NEW") == {"id": "NEW", "status": "todo"}


@pytest.mark.more
def test_a_tracker_of_the_repository_may_be_edited_while_a_wave_runs(project: Project) -> None:
    project.tracker = project.top / "backlog.json"
    project.track(item("a", prompt="DO pass"))
    project.git("add", "backlog.json")
    project.git("-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "The backlog")
    project.track(item("a", prompt=edits(project, f"d['items'][0]['title'] = 'Mine'; {SAVED}")))
    done = project.schedule()
    assert done.code == 0, done.err
    assert project.item_now("A")["title"] == "Mine"


@pytest.mark.more
def test_a_status_that_a_person_set_meanwhile_is_not_taken_back(project: Project) -> None:
    project.track(
        item("a", prompt=edits(project, f"d['items'][0]['status'] = 'archived'; {SAVED}"))
    )
    assert project.schedule().code == 3
    assert project.item_now("A")["status"] == "archived"
    assert "notes" not in project.item_now("A")


@pytest.mark.more
def test_a_tracker_that_vanishes_while_a_wave_runs_is_written_again(project: Project) -> None:
    project.track(item("a", prompt=edits(project, "p.unlink()")))
    assert project.schedule().code == 0
    assert project.item_now("A")["status"] == "in_progress"


@pytest.mark.more
def test_an_item_that_a_person_deletes_meanwhile_stays_deleted(project: Project) -> None:
    project.track(item("a", prompt=edits(project, f"d['items'].clear(); {SAVED}")))
    assert project.schedule().code == 3
    assert json.loads(project.tracker.read_text(encoding="utf-8"))["items"] == []


@pytest.mark.more
@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("p.write_text('{')", "not usable JSON"),
    ],
    ids=["broken"],
)
def test_work_that_cannot_be_noted_in_the_tracker_is_no_success(
    project: Project, edit: str, told: str
) -> None:
    project.track(item("a", prompt=edits(project, edit)))
    done = project.schedule()
    assert done.code == NOT_ALL_SHIPPED
    assert done.report["success"] is False
    assert done.report["tracker_update_attempted"] is True
    assert told in done.report["tracker_update_error"]
    assert "tracker" in done.err.splitlines()[-1]
    assert project.branches()


@pytest.mark.more
def test_dry_run_tells_everything_and_writes_nothing(project: Project) -> None:
    project.configure(command=("agent-of-nowhere", "--flag"))
    project.track(item("a"), item("b"))
    project.manifest(item("a"), item("b"))
    before = tree_hash(project.home)
    programs = (
        project.schedule("--dry-run"),
        run(SCHEDULER, "--tracker", project.tracker, *project.places(), cwd=project.home),
        project.loop("--dry-run", "--manifest", project.home / "manifest.json"),
    )
    looks = "tidegate: dry run: --execute would build A, B\n"
    for done, told in zip(programs, (looks, looks, ""), strict=True):
        assert (done.code, done.err) == (0, told)
        report = done.report
        assert report["agent_command"] == ["agent-of-nowhere", "--flag"]
        assert [one["slug"] for one in report["manifest"]["items"]] == ["a", "b"]
        assert writes("a.txt") in report["prompts"]["a"]
        assert report["dry_run"] is True
    assert tree_hash(project.home) == before
    assert not project.state.exists()


@pytest.mark.more
def test_what_an_item_names_itself_goes_before_the_backends_tier(project: Project) -> None:
    """In the tracker as in a manifest: a review that is asked for is not silently left out."""
    knobs = {"model": "mine", "repairCap": 7, "spotCheckFrac": 0.25}
    project.track(
        item("a", **knobs), item("b", verificationTier=4), item("c", requireAdversarialReview=True)
    )
    done = project.schedule("--dry-run", "--driver", "claude")
    one, two, three = done.report["manifest"]["items"]
    assert {key: one[key] for key in knobs} == knobs
    assert two["verificationTier"] == 4
    assert not two.keys() & {"repairCap", "requireAdversarialReview"}
    assert three["requireAdversarialReview"] is True
    assert three["model"] == "haiku"


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_dry_run_of_claude_needs_neither_the_program_nor_a_key(project: Project) -> None:
    project.track(item("a"))
    git_alone = project.home / "bin"
    git_alone.mkdir()
    (git_alone / "git").symlink_to(str(shutil.which("git")))
    env = environment(project.home, PATH=str(git_alone))
    done = project.schedule("--dry-run", "--driver", "claude", "--config", empty(project), env=env)
    assert done.code == 0, done.err
    command = done.report["agent_command"]
    assert command[:2] == ["claude", "-p"]
    assert command[command.index("--model") + 1] == "haiku"
    assert done.report["manifest"]["items"][0]["model"] == "haiku"


def empty(project: Project) -> Path:
    path = project.home / "empty.toml"
    path.touch()
    return path


@pytest.mark.more
def test_the_report_is_kept_where_agents_and_tests_have_printed(project: Project) -> None:
    project.track(item("a"))
    out = project.home / "report.json"
    done = project.schedule("--output", out)
    assert (done.code, done.out) == (0, "")
    report = json.loads(out.read_text(encoding="utf-8"))
    assert f"tidegate: report written to {out}" in done.err.splitlines()
    kept = project.state / "runs" / report["wave_id"] / "report.json"
    assert json.loads(kept.read_text(encoding="utf-8")) == {"$schema": SCHEMA, **report}


@pytest.mark.more
def test_a_recording_of_a_wave_can_be_replayed(project: Project) -> None:
    project.track(item("a"))
    recording = project.home / "wave.jsonl"
    assert project.schedule("--record", recording).code == 0
    project.config.write_text(
        f'[backend]\nname = "replay"\nrecording = {json.dumps(str(recording))}\n'
        '[review]\nmode = "off"\n',
        encoding="utf-8",
    )
    project.track(item("a"))
    done = project.schedule()
    assert done.code == 0, done.err
    assert done.report["items_shipped"][0]["backend"] == "replay"
    assert project.schedule("--dry-run").report.get("agent_command") is None


@pytest.mark.more
@on_project
def test_a_state_folder_in_the_repository_never_shows_in_git_status(project: Project) -> None:
    state = project.top / "sub" / "[odd] state"
    state.mkdir()
    (state / "tracker.json").write_text(json.dumps([item("a")]), encoding="utf-8")
    exclude = project.top / ".git" / "info" / "exclude"
    flags = ("--execute", "--config", project.config, "--state-dir", state)
    done = run(SCHEDULER, *flags, cwd=project.top, env=environment(project.home))
    assert done.code == 0, done.err
    assert project.git("status", "--porcelain") == ""
    once = exclude.read_bytes()
    assert once.count(b"state") == 1
    run(SCHEDULER, *flags, cwd=project.top, env=environment(project.home))
    assert exclude.read_bytes() == once


@pytest.mark.more
@pytest.mark.parametrize("where", ["current folder", "tracker"])
@on_project
def test_the_repository_is_the_one_of_the_current_folder_else_of_the_tracker(
    project: Project, where: str
) -> None:
    cwd = project.top / "sub" if where == "current folder" else project.home
    tracker = project.top / "backlog.json"
    tracker.write_text(json.dumps([item("a")]), encoding="utf-8")
    (project.top / "tidegate.toml").write_text(project.config.read_text(encoding="utf-8"))
    flags = ("--execute", "--tracker", tracker, "--state-dir", project.state)
    done = run(SCHEDULER, *flags, cwd=cwd, env=environment(project.home))
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.more
@on_project
def test_the_checkout_of_the_tool_is_never_worked_on_by_accident(project: Project) -> None:
    project.track(item("a"))
    flags = ("--tracker", project.tracker, "--config", project.config, "--state-dir", project.state)
    done = run(SCHEDULER, "--execute", *flags, cwd=ROOT / "tests", env=environment(project.home))
    assert done.code == 2
    assert "Tidegate's own checkout" in done.said()
    assert "--repo" in done.said()
    assert not project.state.exists()
    manifest = project.manifest(item("a"))
    flags = ("--manifest", manifest, "--config", project.config, "--state-dir", project.state)
    done = run(LOOP, "--git", *flags, cwd=ROOT, env=environment(project.home))
    assert done.code == 2
    assert "no repository was given" in done.said()


@pytest.mark.more
@on_project
def test_from_the_checkout_of_the_tool_items_may_name_their_repository(project: Project) -> None:
    project.track(item("a", repo=str(project.top)))
    flags = ("--tracker", project.tracker, "--config", project.config, "--state-dir", project.state)
    done = run(SCHEDULER, "--execute", *flags, cwd=ROOT, env=environment(project.home))
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.more
def test_a_detached_head_works_and_is_told(project: Project) -> None:
    project.git("checkout", "-q", "--detach")
    project.track(item("a"))
    done = project.schedule()
    assert done.code == 0, done.err
    assert "a detached HEAD at " in done.err
    assert project.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "HEAD"


@pytest.mark.more
def test_a_dirty_checkout_works_and_is_not_touched(project: Project) -> None:
    (project.top / "README.md").write_text("being edited\n", encoding="utf-8")
    (project.top / "a.txt").write_text("a draft of mine\n", encoding="utf-8")
    (project.top / "sub" / "staged.txt").write_text("staged\n", encoding="utf-8")
    project.git("add", "sub/staged.txt")
    status = project.git("status", "--porcelain")
    project.track(item("a"))
    done = project.schedule()
    assert done.code == 0, done.err
    assert project.git("status", "--porcelain") == status
    assert (project.top / "a.txt").read_text(encoding="utf-8") == "a draft of mine\n"
    assert project.git("show", f"{done.report['branch']}:a.txt") == "good"
    changed = project.git("diff", "--name-only", "main", done.report["branch"]).split()
    assert changed == ["a.txt"]


@pytest.mark.more
def test_a_shallow_clone_works_and_is_told(project: Project) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "second")
    origin = project.top.rename(project.home / "origin")
    git(project.home, "clone", "-q", "--depth", "1", origin.as_uri(), "repo")
    project.track(item("a"))
    done = project.schedule()
    assert done.code == 0, done.err
    assert "a shallow clone" in done.err
    assert git(origin, "show", f"{done.report['branch']}:a.txt") == "good"


def start(project: Project, *command: str | Path) -> warm.Program:
    return warm.start(
        [*PYTHON, *map(str, command)],
        cwd=project.home,
        env=environment(project.home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.more
@on_project
def test_two_runs_with_one_state_folder_never_build_the_same_item(project: Project) -> None:
    seen, go = project.home / "seen", project.home / "go"
    wait = (
        f"DO pathlib.Path({str(seen)!r}).touch()\n"
        f"DO while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    )
    project.track(item("a", prompt=f"{wait}\n{writes('a.txt')}"))
    flags = ("--execute", "--tracker", project.tracker, *project.places())
    first = start(project, SCHEDULER, *flags)
    try:
        assert eventually(seen.exists, DEADLINE_S)
        second = project.schedule()
        third = project.loop("--manifest", project.manifest(item("a")))
        go.touch()
        first.communicate(timeout=DEADLINE_S)
    finally:
        go.touch()
        first.kill()
        first.communicate()
    for refused in (second, third):
        assert refused.code == BY_POLICY
        assert f":{first.pid}:" in refused.err
    assert third.report["built"][0]["verdict"] == "leased_elsewhere"
    assert first.returncode == 0
    assert len(project.branches()) == 1


# Stands in PATH as git: the first question about an item's place comes after the first look at the
# tracker and before the lock, so this is where another run takes the item.
GIT = """#!{python} -S
import os, pathlib, sys
tracker, real = pathlib.Path({tracker!r}), {real!r}
asked = tracker.with_name("asked")
if "--show-toplevel" in sys.argv:
    asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
if asked.exists() and asked.read_text() == "xxx":  # the check of the selected wave
    tracker.write_text(tracker.read_text().replace('"todo"', '"in_progress"'))
os.execv(real, [real, *sys.argv[1:]])
"""


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="needs programs that are scripts")
@on_project
def test_the_tracker_is_read_again_once_the_state_folder_is_ours(project: Project) -> None:
    project.track(item("a"))
    program = project.home / "bin" / "git"
    program.parent.mkdir()
    real = shutil.which("git")
    text = GIT.format(python=sys.executable, tracker=str(project.tracker), real=real)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = project.schedule(env=environment(project.home, PATH=path))
    assert (done.code, done.report["phase"]) == (0, "intake")
    assert done.report["items_selected"] == []
    assert project.item_now("A")["status"] == "in_progress"
    assert project.branches() == []


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
@pytest.mark.parametrize(
    "closing",
    [
        *(pytest.param(one, marks=pytest.mark.sweep) for one in ("1>&-", "0<&-", "2>&-")),
        "1>&- 0<&- 2>&-",
    ],
)
@on_project
def test_a_closed_standard_file_changes_nothing_of_a_run(project: Project, closing: str) -> None:
    project.track(item("a"))
    flags = ("--execute", "--tracker", project.tracker, *project.places())
    script = f'exec "$@" {closing}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *PYTHON, str(SCHEDULER), *map(str, flags)],
        cwd=project.home,
        env=environment(project.home),
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    (kept,) = project.state.glob("runs/*/report.json")
    report = json.loads(kept.read_text(encoding="utf-8"))
    assert project.branches() == [report["branch"]]
    assert project.item_now("A")["status"] == "in_progress"


@pytest.mark.more
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@on_project
def test_a_report_that_the_disk_refuses_is_told_and_kept(project: Project) -> None:
    project.track(item("a"))
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = project.schedule(stdout=full)
    assert done.code == 4
    assert "the report cannot be written to stdout" in done.err
    assert "Exception" not in done.err
    (kept,) = project.state.glob("runs/*/report.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["success"] is True
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert project.schedule(stdout=full).code == 4
        project.track(item("b", testCmd=""))
        assert project.schedule(stdout=full).code == 2
