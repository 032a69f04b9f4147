"""What a person does to items of the tracker while a wave works on them, and what ships then."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.programs import Project, item, writes

# An agent's hands stand for the person's: it edits the tracker while the wave runs.
EDIT = """DO import json, pathlib
DO p = pathlib.Path({tracker!r}); d = json.loads(p.read_text())
DO n = {{i['id']: i for i in d['items']}}
DO {what}
DO p.write_text(json.dumps(d))"""


def edits(project: Project, what: str) -> str:
    """A prompt that makes `a.txt` good, and has the tracker `d`, items `n` by id, edited."""
    return f"{writes('a.txt')}\n" + EDIT.format(tracker=str(project.tracker), what=what)


def test_what_a_person_deletes_or_closes_during_its_wave_is_not_shipped_and_its_work_is_kept(
    project: Project,
) -> None:
    what = (
        "d['items'].remove(n['GONE']); n['SHUT']['status'] = 'blocked'; n['NEW']['id'] = 'NEWER';"
        " n['SAME'].update(title='Another', prompt='Something else.')"
    )
    project.track(
        item("a", prompt=edits(project, what)),
        *(item(name) for name in ("gone", "shut", "new", "same")),
    )
    done = project.schedule()
    assert done.code == 3
    withdrawn = dict.fromkeys(("gone", "shut", "new"), "withdrawn")
    assert done.verdicts == {"a": "verified", "same": "verified", **withdrawn}
    assert sorted(done.report["wave"]["shipped"]) == ["a", "same"]
    built = {record["slug"]: record for record in done.report["wave"]["built"]}
    assert "deleted from the tracker" in built["gone"]["error"]
    assert '"blocked"' in built["shut"]["error"]
    assert all(Path(built[slug]["savedWork"]).is_file() for slug in withdrawn)
    assert "shut: withdrawn: its status was set" in done.err
    shown = project.git("ls-tree", "--name-only", done.report["branch"]).split()
    assert {"a.txt", "same.txt"} < {*shown}
    assert not {"gone.txt", "shut.txt", "new.txt"} & {*shown}
    [repo] = done.report["wave"]["shipped_repos"]  # nor are tests spent on it
    together = json.dumps(repo["integration"]["receipts"])
    assert "same.txt" in together
    assert "gone.txt" not in together
    # What was taken ships as it was; that it reads otherwise now is told.
    assert "title and prompt of SAME" in done.report["tracker_warning"]
    assert "Another" not in project.git("log", "--format=%s", done.report["branch"])
    assert project.item_now("SAME")["status"] == "in_progress"
    # People's edits stay as they made them.
    left = project.item_now("SHUT")
    assert (left["status"], left.get("attempts"), left.get("lastError")) == ("blocked", None, None)
    assert '"id": "GONE"' not in project.tracker.read_text()
    assert project.item_now("NEWER")["status"] == "claimed"


@pytest.mark.more
def test_what_was_withdrawn_and_is_wanted_again_is_proven_and_not_built_again(
    project: Project,
) -> None:
    counted = project.home / "dispatched"
    prompt = f"DO open({str(counted)!r}, 'a').write('x')\n{writes('b.txt')}"
    project.track(
        item("a", prompt=edits(project, "n['B']['status'] = 'done'")), item("b", prompt=prompt)
    )
    assert project.schedule().verdicts["b"] == "withdrawn"
    text = project.tracker.read_text()
    assert text.count('"done"') == 1
    project.tracker.write_text(text.replace('"done"', '"todo"'))
    again = project.schedule()
    assert (again.code, again.verdicts) == (0, {"b": "verified"})
    assert counted.read_text() == "x"


@pytest.mark.more
def test_a_tracker_that_cannot_be_read_at_the_ship_withdraws_nothing(project: Project) -> None:
    what = "d = {'items': 7}"
    project.track(item("a", prompt=edits(project, what)))
    done = project.schedule()
    assert done.report["wave"]["shipped"] == ["a"]
    assert done.code == 1
    assert "tracker" in done.report["error"]


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="a hook for a POSIX shell")
def test_a_person_may_withdraw_an_item_until_the_commits_are_made(project: Project) -> None:
    hook = project.top / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    put_off = f"sed -i.old '/\"B\"/,/claimed/s/claimed/mine/' {project.tracker}"
    hook.write_text(f"#!/bin/sh\n{put_off}\n", encoding="utf-8")
    hook.chmod(0o755)
    project.track(item("a"), item("b"))
    done = project.schedule()
    assert (done.code, done.verdicts) == (3, {"a": "verified", "b": "withdrawn"})
    assert done.report["wave"]["shipped"] == ["a"]
    assert project.item_now("B")["status"] == "mine"
