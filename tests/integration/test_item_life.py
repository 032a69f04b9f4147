"""An item's life in the tracker: claimed, shipped, merged or dropped, tried again, given up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Project, Ran, environment, git, item, says_good, writes

BRANCH = "wave/2026-01-31-w1"
MESSAGE = "Work on {slug}\n\nWave-Id: w1\nItem-Id: {name}\nItem-Slug: {slug}\n"


def told(done: Ran) -> dict[str, str]:
    """What the report says has become of earlier items, by id."""
    return {one["id"]: one["what"] for one in done.report.get("items_followed", ())}


def left_out(done: Ran) -> dict[str, str]:
    return {one["id"]: one["detail"] for one in done.report.get("items_skipped", ())}


def shipped(project: Project, *slugs: str, branch: str = BRANCH) -> list[dict[str, Any]]:
    """Items as an earlier wave left them: commits on a branch of theirs, main as it was."""
    base = project.git("rev-parse", "main").strip()
    project.git("checkout", "-q", "-b", branch)
    items = []
    for slug in slugs:
        (project.top / f"{slug}.txt").write_text("good", encoding="utf-8")
        project.git("add", "-A")
        project.git("commit", "-q", "-m", MESSAGE.format(slug=slug, name=slug.upper()))
        kept = {"wave": "w1", "commit": project.git("rev-parse", "HEAD").strip(),
                "branch": branch, "target": "main", "onto": base}  # fmt: skip
        items.append(item(slug, status="in_progress", shipped=kept, mine=[1]))
    project.git("checkout", "-q", "main")
    return items


def with_remote(project: Project) -> Path:
    remote = project.home / "remote.git"
    git(project.home, "clone", "-q", "--bare", str(project.top), str(remote))
    project.git("remote", "add", "origin", str(remote))
    return remote


@pytest.mark.more
def test_what_ships_is_done_once_merged_and_to_do_again_once_its_branch_is_deleted(
    project: Project,
) -> None:
    seen = project.home / "seen.json"
    copies = f"DO open({str(seen)!r}, 'w').write(open({str(project.tracker)!r}).read())"
    project.track(
        item("a", prompt=f"{writes('a.txt')}\n{copies}", mine={"kept": True}),
        item("b", dependsOn="a", prompt="DO open('b.txt', 'w').write(open('a.txt').read())"),
    )
    first = project.schedule()
    assert first.code == 0, first.err
    while_it_ran = {i["id"]: i["status"] for i in json.loads(seen.read_text())["items"]}
    assert while_it_ran == {"A": "claimed", "B": "todo"}
    a = project.item_now("A")
    assert a["status"] == "in_progress"
    assert a["shipped"] == {
        "wave": first.report["wave_id"],
        "commit": first.report["sha"],
        "branch": first.report["branch"],
        "target": "main",
        "onto": project.git("rev-parse", "main").strip(),
    }

    waiting = project.schedule()  # A is shipped, but a wave would start from a main without it
    assert (waiting.code, waiting.report["items_selected"]) == (0, [])
    assert a["shipped"]["commit"][:12] in left_out(waiting)["B"]
    assert f"is not in main at {a['shipped']['onto'][:12]}" in left_out(waiting)["B"]

    project.git("merge", "-q", "--squash", a["shipped"]["branch"])
    project.git("commit", "-q", "--no-edit")
    project.git("branch", "-q", "-D", a["shipped"]["branch"])
    second = project.schedule()
    assert second.code == 0, second.err
    assert told(second) == {"A": "merged"}
    assert second.report["items_selected"] == ["B"]
    a = project.item_now("A")
    assert (a["status"], a["mine"]) == ("done", {"kept": True})
    assert a["shipped"]["merged"] == project.git("rev-parse", "main").strip()
    b = project.item_now("B")
    assert b["status"] == "in_progress"

    project.git("branch", "-q", "-D", b["shipped"]["branch"])
    third = project.schedule()
    assert told(third) == {"B": "dropped"}
    assert third.report["items_selected"] == ["B"]
    b = project.item_now("B")
    assert b["status"] == "in_progress"
    assert "was deleted and not merged; to do again]" in b["notes"]


def merged(project: Project, *command: str) -> None:
    project.git("merge", "-q", *command, BRANCH)


def squashed_under_another_message(project: Project) -> None:
    project.git("merge", "-q", "--squash", BRANCH)
    project.git("commit", "-q", "-m", "A title of their own")


def rebased(project: Project) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "meanwhile")
    project.git("checkout", "-q", BRANCH)
    project.git("rebase", "-q", "main")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--ff-only", BRANCH)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "merge",
    [
        lambda project: merged(project, "--no-ff", "-m", "merge"),
        lambda project: merged(project, "--ff-only"),
        squashed_under_another_message,
        rebased,
    ],
    ids=["merge commit", "fast-forward", "squash without trailers", "rebase"],
)
def test_whatever_way_work_was_merged_it_is_done(
    project: Project, merge: Callable[[Project], None]
) -> None:
    project.track(*shipped(project, "a", "b"))
    before = project.tracker.read_text(encoding="utf-8")
    assert told(project.schedule()) == {}
    assert project.tracker.read_text(encoding="utf-8") == before
    assert not project.state.exists()  # nothing to write down: nothing was made
    merge(project)
    project.git("branch", "-q", "-D", BRANCH)
    assert told(project.schedule()) == {"A": "merged", "B": "merged"}
    assert [project.item_now(name)["status"] for name in "AB"] == ["done", "done"]
    assert project.item_now("B")["mine"] == [1]
    assert told(project.schedule()) == {}


@pytest.mark.more
def test_the_remote_decides_what_is_merged_and_one_that_is_away_changes_nothing(
    project: Project,
) -> None:
    (a,) = shipped(project, "a")
    remote = with_remote(project)
    project.track(a)
    remote.rename(remote.with_name("away"))
    away = project.schedule()
    assert away.code == 0
    assert "was merged is not known" in away.report["follow_up_warnings"][0]
    assert "was merged is not known" in away.err
    assert project.item_now("A")["status"] == "in_progress"
    remote.with_name("away").rename(remote)

    merged(project, "--ff-only")  # here, and nobody else has it
    assert told(project.schedule()) == {}
    project.git("reset", "-q", "--hard", "HEAD^")

    other = project.home / "other"
    git(project.home, "clone", "-q", str(remote), str(other))
    git(other, "cherry-pick", "--allow-empty", f"origin/{BRANCH}")
    git(other, "commit", "-q", "--amend", "-m", MESSAGE.format(slug="a", name="A") + "X-By: me")
    git(other, "push", "-q", "origin", "main", f":{BRANCH}")
    project.git("branch", "-q", "-D", BRANCH)
    fetched = project.git("rev-parse", "main")
    project.track(a, item("c", dependsOn="a"))
    done = project.schedule()
    assert told(done) == {"A": "merged"}
    assert "merge it and pull" in left_out(done)["C"]  # a wave would start from here
    ahead = project.schedule("--dry-run", "--target", "main")  # and this from where the remote is
    assert ahead.report["items_selected"] == ["C"]
    assert project.git("rev-parse", "main") == fetched
    assert "refs/tidegate" not in project.git("for-each-ref")
    project.git("pull", "-q", "--ff-only", "origin", "main")
    assert project.schedule("--dry-run").report["items_selected"] == ["C"]


@pytest.mark.more
def test_a_branch_that_is_here_only_is_named_and_dropped_once_it_is_deleted_here_too(
    project: Project,
) -> None:
    (a,) = shipped(project, "a")
    remote = with_remote(project)
    git(remote, "update-ref", "-d", f"refs/heads/{BRANCH}")
    project.track({**a, "testCmd": ""})  # so that the cycle ends before a wave
    project.schedule()
    assert project.item_now("A")["status"] == "in_progress"
    assert f"{BRANCH} is here only" in project.schedule().err
    project.git("branch", "-q", "-D", BRANCH)
    assert told(project.schedule()) == {"A": "dropped"}
    assert (project.item_now("A")["status"], project.item_now("A")["shipped"]) == ("todo", None)


@pytest.mark.more
def test_work_that_lives_on_in_another_branch_is_not_dropped(project: Project) -> None:
    project.track(*shipped(project, "a"))
    project.git("branch", "-q", "-m", BRANCH, "mine")
    assert told(project.schedule()) == {}
    assert project.item_now("A")["status"] == "in_progress"


@pytest.mark.more
def test_in_a_shallow_clone_what_is_not_found_is_not_gone(project: Project) -> None:
    (a,) = shipped(project, "a")
    merged(project, "--ff-only")
    project.git("commit", "-q", "--allow-empty", "-m", "later")
    project.git("branch", "-q", "-D", BRANCH)
    whole = project.home / "whole.git"
    git(project.home, "clone", "-q", "--bare", str(project.top), str(whole))
    clone = project.home / "clone"
    git(project.home, "clone", "-q", "--depth", "1", f"file://{whole}", str(clone))
    (clone / "a.txt").write_text("changed since", encoding="utf-8")
    git(clone, "commit", "-q", "-a", "-m", "more")
    project.top = clone
    project.track(a, item("c", dependsOn="a"))
    done = project.schedule()
    assert told(done) == {}
    assert "cannot be told in a shallow clone" in done.report["follow_up_warnings"][0]
    assert "fetch the whole history" in left_out(done)["C"]
    assert project.item_now("A")["status"] == "in_progress"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("a", "ready"),
    [
        ({"status": "done"}, True),  # by hand, without any shipment
        ({"status": "archived"}, True),
        ({"status": "in_progress"}, False),  # somebody's, and no commit says so
        ({"status": "in_progress", "notes": "[wave w1]"}, False),
        ({"status": "done", "shipped": {"wave": "w1", "commit": "0" * 40}}, False),
    ],
)
def test_only_what_is_in_the_base_can_be_built_on(
    project: Project, a: dict[str, Any], ready: bool
) -> None:
    project.track(item("a", **a), item("c", dependsOn="a"))
    plan = project.schedule("--dry-run")
    assert plan.report["items_selected"] == (["C"] if ready else [])
    assert ready or "'A'" in left_out(plan)["C"] or "'a'" in left_out(plan)["C"]
    project.git("commit", "-q", "--allow-empty", "-m", MESSAGE.format(slug="a", name="A"))
    assert project.schedule("--dry-run").report["items_selected"] == ["C"]


@pytest.mark.more
def test_an_item_waits_after_a_failure_and_is_blocked_in_the_end(project: Project) -> None:
    project.configure("[limits]\nmax_attempts_per_item = 2\n")
    project.track(item("a", prompt=writes("a.txt", "bad"), testCmd=says_good("a.txt")))
    project.schedule()
    failed = project.item_now("A")
    assert (failed["status"], failed["attempts"]) == ("todo", 1)
    in_backoff = project.schedule()
    assert (in_backoff.code, in_backoff.report["items_selected"]) == (0, [])
    assert f"not before {failed['nextAttemptAt']}" in left_out(in_backoff)["A"]
    assert (
        f"waiting for another attempt: 1; A not before {failed['nextAttemptAt']}" in in_backoff.err
    )
    project.schedule("--only", "a")
    blocked = project.item_now("A")
    assert (blocked["status"], blocked["attempts"]) == ("blocked", 2)
    assert blocked["nextAttemptAt"] is None
    assert blocked["lastError"] in blocked["notes"]
    assert "set status to todo and attempts to 0" in blocked["notes"]
    assert project.schedule().report["items_selected"] == []


@pytest.mark.more
def test_a_claim_of_a_run_that_is_gone_holds_nobody_up(project: Project) -> None:
    project.track(item("a", status="claimed"), item("b", status="claimed", priority="P1"))
    done = project.schedule("--max-items", "1")
    assert done.report["items_selected"] == ["B"]
    assert project.item_now("A")["status"] == "todo"


@pytest.mark.more
def test_what_a_killed_run_had_published_is_known_by_that_runs_name(project: Project) -> None:
    with_remote(project)
    project.track(item("a"))
    armed = environment(project.home, TIDEGATE_FAIL="git.after_push=kill")
    killed = project.schedule(env=armed, prefix=())  # in a process of its own
    assert killed.code < 0
    assert project.item_now("A")["status"] == "claimed"
    (branch,) = project.branches()
    again = project.schedule()
    assert again.code == 0, again.err
    kept = project.item_now("A")["shipped"]
    assert (kept["branch"], kept["commit"]) == (branch, project.git("rev-parse", branch).strip())
    assert f"Wave-Id: {kept['wave']}" in project.git("log", "-1", "--format=%B", branch)
    assert "onto" not in kept  # this run's base may have it already
