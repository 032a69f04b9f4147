"""What people are told last, from reports made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backlog.selection import Selection, Skipped
from driver.reports.summary_lines import summary_lines
from driver.scheduler.report import cycle_report
from driver.terminal.safe_text import describe_verdict


def record(slug: str, verdict: str = "verified", **more: Any) -> dict[str, Any]:
    return {"slug": slug, "verdict": verdict, "verified": verdict == "verified", **more}


def repository(**more: Any) -> dict[str, Any]:
    return {"repo": "/r", "branch": "wave/1", "sha": "5" * 40, "pushed": True, **more}


@pytest.mark.parametrize(
    ("wave", "lines"),
    [
        pytest.param({}, [], id="bad input"),
        pytest.param({"built": [], "shipped": []}, [], id="nothing begun"),
        pytest.param(
            {"built": [record("a")], "shipped": ["a"], "shipped_repos": [repository()]},
            ["shipped 1 of 1 item", "branch wave/1: pushed",
             "look: git -C /r log --stat HEAD..wave/1"],
            id="shipped",
        ),
        pytest.param(
            {"built": [record("a")], "shipped": ["a"],
             "shipped_repos": [repository(branch="main", onto="0123456789abcdef" * 2)]},
            ["shipped 1 of 1 item", "branch main: pushed",
             "look: git -C /r log --stat 0123456789ab..main"],
            id="on to the branch that is checked out: HEAD has been moved ahead",
        ),
        pytest.param(
            {"built": [record("a")], "shipped": ["a"], "pull_requests": [
                {"branch": "wave/1", "pr": {"url": "https://f/1", "state": "draft"}},
                {"branch": "wave/0", "pr": None, "prError": "gh is not installed"}]},
            ["shipped 1 of 1 item", "pull request of wave/1: https://f/1 (draft)",
             "no pull request of wave/0: gh is not installed"],
            id="proposed",
        ),
        pytest.param(
            {"built": [record("a")], "shipped": ["a"],
             "shipped_repos": [repository(pushed=False)]},
            ["shipped 1 of 1 item", "branch wave/1: in this repository only",
             "look: git -C /r log --stat HEAD..wave/1"],
            id="what an earlier run announced, completed where there is no remote",
        ),
        pytest.param(
            {"built": [record("a")], "shipped": ["a"],
             "shipped_repos": [repository(warning="changed in your checkout meanwhile: b")]},
            ["shipped 1 of 1 item",
             "branch wave/1: pushed; changed in your checkout meanwhile: b",
             "look: git -C /r log --stat HEAD..wave/1"],
            id="shipped while the user worked on",
        ),
        pytest.param(
            {"built": [record("a", savedWork="/s/a.patch")], "shipped": None},
            ["verified 1 of 1 item; nothing ships without --git or with mode none",
             "a: verified; its work: /s/a.patch"],
            id="no ship asked",
        ),
        pytest.param(
            {"built": [record("a", "refused", error="changed outside its files: b",
                              remedy="nothing at first: it is repaired. If it stays, say so")],
             "shipped": []},
            ["shipped 0 of 1 item", "a: refused: changed outside its files: b; to do: say so"],
            id="a refusal says what to do at the end, when no agent repairs it any more",
        ),
        pytest.param(
            {"built": [record("a", "halted", error="halted: lunch; to go on: halt.py --clear",
                              savedWork="/s/a.patch")], "shipped": []},
            ["shipped 0 of 1 item", "a: halted: lunch; its work: /s/a.patch"],
            id="halted: the command to go on is told once for all, not for each item",
        ),
        pytest.param(
            {"built": [record("a", ship_error="rejected")], "shipped": [],
             "shipped_repos": [repository(error="git_push_failed")]},
            ["shipped 0 of 1 item",
             "a: verified: rejected; to do: the commits are kept; mend the cause and run again"
             " (operations.md, Where work goes)",
             "branch wave/1: kept, not shipped",
             "look: git -C /r log --stat HEAD..wave/1"],
            id="push refused",
        ),
        pytest.param(
            {"built": [record("a", ship_warning="its pipeline has no publish")], "shipped": []},
            ["shipped 0 of 1 item", "a: verified: its pipeline has no publish"],
            id="a pipeline that does not ship says so",
        ),
        pytest.param(
            {"built": [record("a", "failed", error="red"), record("b", "halted")], "shipped": [],
             "shipped_repos": [{"repo": "/r", "branch": None, "sha": None}]},
            ["shipped 0 of 2 items", "a: failed: red", "b: halted"],
            id="nothing green",
        ),
    ],
)  # fmt: skip
def test_the_last_lines_say_what_shipped_and_where_everything_else_is(
    wave: dict[str, Any], lines: list[str]
) -> None:
    assert list(summary_lines(wave)) == lines
    assert list(summary_lines({"phase": "dispatch", "wave": wave})) == lines


def test_broken_items_are_named_and_waiting_ones_counted() -> None:
    skipped = [
        {"id": "x", "reason": "missing_or_empty_testCmd", "detail": "testCmd is missing"},
        {"id": "y", "reason": "overlap", "detail": "'a' of 'y' overlaps 'a' of 'x'"},
        {"id": "z", "reason": "max_items", "detail": ""},
    ]
    skipped += [
        {"id": "v", "reason": "unknown_dependency", "detail": "dependsOn names 'u'"},
        {"id": "w", "reason": "waits_for_dependency", "detail": "waits for 'x'"},
        {"id": "o", "reason": "not_asked_for", "detail": ""},
    ]
    told = (
        "item x is left out: testCmd is missing",
        "item v is left out: dependsOn names 'u'",
        "left for a later wave: 3",
    )
    assert summary_lines({"items_skipped": skipped}) == told


def test_a_long_list_of_skipped_items_is_cut_and_counted_by_reason() -> None:
    broken = [Skipped(f"B{n}", "missing_or_empty_testCmd", detail="no test") for n in range(102)]
    later = [Skipped(f"L{n}", "max_items") for n in range(5_000)]
    selection = Selection((), (*broken, *later))
    report = cycle_report("intake", "w", selection, success=True)
    listed = [one["id"] for one in report["items_skipped"]]
    assert listed == [f"B{n}" for n in range(100)] + [f"L{n}" for n in range(100)]
    assert report["items_skipped_counts"] == {"missing_or_empty_testCmd": 102, "max_items": 5_000}
    assert summary_lines(report)[99:] == (
        "item B99 is left out: no test",
        "left out for the same reasons: 2 more items",
        "left for a later wave: 5000",
    )


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (
            {"tracker_statuses": {"blocked": 1, "done": 2}},
            [
                "nothing to do: no item of the tracker has the status todo"
                " (there are: 1 blocked, 2 done)",
                "a blocked item says in its notes why; to try it again, set its status to todo",
            ],
        ),
        (
            {"tracker_statuses": {}},
            ["nothing to do: no item of the tracker has the status todo (there are: none)"],
        ),
        (
            {"items_skipped_counts": {"not_asked_for": 3}},
            ["nothing to do: none of 3 open items was asked for"],
        ),
    ],
)
def test_a_cycle_without_work_says_what_there_is(report: dict[str, Any], lines: list[str]) -> None:
    assert list(summary_lines(report)) == lines


def test_items_that_did_not_ship_for_one_reason_are_told_in_one_line() -> None:
    alike: dict[str, Any] = {
        "verified": False,
        "verdict": "over_budget",
        "error": "wave ceiling reached",
    }
    built = [record(slug, **alike) for slug in "abc"]
    built[1]["savedWork"] = "runs/w/b/work.patch"
    built.append(record("d", **{**alike, "error": "daily ceiling reached"}))
    assert summary_lines({"built": built, "shipped": []})[1:3] == (
        "a, b, c: over_budget: wave ceiling reached; work of 1 of them is kept, the first:"
        " runs/w/b/work.patch",
        "d: over_budget: daily ceiling reached",
    )


def test_work_done_in_place_is_said_to_be_there() -> None:
    in_place = record("a", isolation="in_place", filesWritten=["a.txt"])
    assert summary_lines({"built": [in_place], "shipped": None})[1:] == (
        "a: verified; its work is in place",
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        ("verified", None, "verified"),
        ("failed", "red", "failed: red"),
        ("halted", "halted: lunch", "halted: lunch"),
    ],
)
def test_a_verdict_is_said_once(verdict: str, reason: str | None, told: str) -> None:
    assert describe_verdict(verdict, reason) == told


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        ({"items_selected": ["A", 7]}, ["dry run: --execute would build A, 7"]),
        (
            {"items_selected": []},
            ["dry run: nothing to do now; a wave takes items with the status todo"],
        ),
        ({"items_selected": [], "error": "there is no tracker"}, []),
    ],
    ids=["what it would build", "nothing to do", "it could not look"],
)
def test_who_only_looks_is_told_what_a_run_would_build(
    told: dict[str, Any], lines: list[str]
) -> None:
    assert list(summary_lines({"dry_run": True, **told})) == lines
    assert list(summary_lines(told)) == []


def test_items_that_lack_the_same_are_read_first_in_one_line() -> None:
    read = [
        {"slug": "a", "grade": "C", "why": ["not counted", "no canary"]},
        {"slug": "b", "grade": "B", "why": ["no canary"]},
        {"slug": "c", "grade": "B", "why": ["no canary"]},
    ]
    wave = {"built": [record("a")], "shipped": ["a"], "read_first": read}
    told = [line for line in summary_lines(wave) if "first" in line]
    assert told == [
        "read first: a (grade C): not counted; no canary",
        "read first: b, c (grade B): no canary",
    ]
