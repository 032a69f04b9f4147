"""One item's slip, whatever it is, never takes the night from the others."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.programs import Project, item, writes

pytestmark = pytest.mark.in_walls

GONE = {"wave": "w", "branch": "gone", "commit": "a" * 40}


def test_slips_of_some_items_leave_the_others_their_turn(project: Project) -> None:
    project.track(
        item("good", prompt=writes("good.txt")),
        item("half", id="\ud800"),
        item("title", title="\ud800"),
        item("claimed", status="claimed", repo=5),
        item("shipped", status="in_progress", repo=["x"], shipped=GONE),
        item("option", status="in_progress", shipped={**GONE, "onto": "--all", "branch": "main"}),
    )
    done = project.schedule()
    assert (done.code, done.report["items_selected"]) == (0, ["GOOD"]), done.err
    assert "Traceback" not in done.err
    assert project.item_now("GOOD")["status"] == "in_progress"
    assert "follow_up_warnings" not in done.report


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_repository_that_is_reached_by_a_link_is_the_same_one(project: Project) -> None:
    link = project.home / "by-a-link"
    link.symlink_to(project.top)
    project.track(
        item("a", prompt=writes("a.txt")),
        item("b", repo=str(link), ownsFiles=["a.txt", "b.txt"]),
    )
    done = project.schedule()
    assert (done.code, done.report["items_selected"]) == (0, ["A"]), done.err
    assert [one["clash"] for one in done.report["items_skipped"]] == ["A"]


needs_rights = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything"
)


@pytest.mark.more
@needs_rights
def test_files_that_cannot_be_written_are_worked_on_without_being_touched(project: Project) -> None:
    exclude = project.top / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("/state/\n")
    exclude.chmod(0o444)
    project.track(item("a", prompt=writes("a.txt")), item("b", prompt=writes("b.txt")))
    project.top.chmod(0o555)
    try:
        done = project.schedule()
    finally:
        project.top.chmod(0o755)
    assert (done.code, len(done.report["items_shipped"])) == (0, 2), done.err


@pytest.mark.sampled(1)
@needs_rights
@pytest.mark.parametrize("folder", ["objects", "refs"])
def test_a_repository_that_can_keep_nothing_is_refused_before_anything_is_spent(
    folder: str, project: Project
) -> None:
    project.track(item("a", prompt=writes("a.txt")))
    closed = project.top / ".git" / folder
    closed.chmod(0o555)
    try:
        done = project.schedule()
    finally:
        closed.chmod(0o755)
    assert done.code == 4
    assert f"{folder} cannot be written" in done.err
    assert project.item_now("A")["status"] == "todo"
    assert "attempts" not in project.item_now("A")
