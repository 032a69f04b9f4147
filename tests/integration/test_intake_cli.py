"""The intake as people run it: the tracker keeps its text, and what is lost is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.interpreter import PYTHON

INTAKE = Path(__file__).resolve().parents[2] / "tools" / "intake.py"
ISSUE = {
    "number": 3,
    "title": "Fix it",
    "body": "```tidegate\nownsFiles: a.py\ntestCmd: make t\n```",
    "url": "https://github.com/a/b/issues/3",
}


def intake(folder: Path, *args: str, stdin: str = "") -> tuple[int, str, str]:
    done = warm.run(
        [*PYTHON, str(INTAKE), *args],
        cwd=folder,
        given=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def items(tracker: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tracker.read_text(encoding="utf-8"))["items"]
    return found


def test_a_tracker_is_made_where_there_is_none_and_read_again_stays_as_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "issues.json").write_text(json.dumps([ISSUE, {**ISSUE, "number": 4, "url": ""}]))
    code, out, err = intake(tmp_path, "github", "issues.json")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "new: GH-3 gh-3-fix-it: proposed",
        "new: GH-4 gh-4-fix-it: proposed",
        "2 converted, 0 of them unchanged; 0 not converted",
    ]
    tracker = tmp_path / "state" / "tracker.json"
    before = tracker.read_bytes()
    assert [item["status"] for item in items(tracker)] == ["proposed", "proposed"]
    code, out, _ = intake(tmp_path, "github", "-", "--todo", stdin=json.dumps([ISSUE]))
    assert (code, out) == (0, "1 converted, 1 of them unchanged; 0 not converted\n")
    assert tracker.read_bytes() == before


def test_the_text_of_a_tracker_that_is_there_is_kept(tmp_path: Path) -> None:
    tracker = tmp_path / "t.json"
    text = '[\r\n    {"id": 1,  "slug": "own", "status": "todo"}\r\n]\r\n'
    tracker.write_bytes(text.encode())
    (tmp_path / "w.csv").write_text("title,files,test\nDo it,a.py,make\n", encoding="utf-8")
    assert intake(tmp_path, "csv", "w.csv", "--tracker", "t.json", "--dry-run")[0] == 0
    assert tracker.read_bytes() == text.encode()
    assert intake(tmp_path, "csv", "w.csv", "--tracker", "t.json", "--todo")[0] == 0
    after = tracker.read_bytes().decode()
    assert after.startswith(text[: text.index("}") + 1])
    assert json.loads(after)[1]["status"] == "todo"


@pytest.mark.more
def test_what_is_lost_and_what_is_lacking_is_told(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.md").write_text("---\ntitle: A\n---\nDo a.\n", encoding="utf-8")
    (tmp_path / "work" / "b.md").write_text("no front", encoding="utf-8")
    code, out, _ = intake(tmp_path, "markdown", "work")
    assert code == 1
    assert out.startswith("new: a a: proposed; to be run it needs: ")
    assert "testCmd" in out
    assert "not converted: b.md: has no front matter" in out
    code, out, _ = intake(tmp_path, "markdown", "work", "--json")
    document = json.loads(out)
    assert document["items"][0]["what"] == "unchanged"
    assert document["notConverted"] == [
        {"what": "b.md", "why": "has no front matter", "partly": False}
    ]


@pytest.mark.more
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("github", "no.json"), "does not exist"),
        (("github", "bad.json"), "gh issue list --json number,"),
        (("csv", "latin.csv"), "UTF-8"),
        (("markdown", "no"), "is not a folder"),
        (("github", "ok.json", "--tracker", "bad.json"), "not usable JSON"),
        (("jira", "x"), "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, args: tuple[str, ...], told: str) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "ok.json").write_text("[]", encoding="utf-8")
    (tmp_path / "latin.csv").write_bytes(b"title\n\xff\n")
    code, out, err = intake(tmp_path, *args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
