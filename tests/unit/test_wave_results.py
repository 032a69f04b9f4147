from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.backlog.publication_status import Shipped
from driver.backlog.retry_policy import RetryPolicy
from driver.backlog.selection import Selection
from driver.scheduler.report import WaveResults
from driver.scheduler.tracker_update import Terms, edits_for

SELECTION = Selection(({"id": 1, "slug": "a"}, {"id": "B", "slug": "b"}), ())
GREEN = [{"slug": "a", "verified": True}, {"slug": "b", "verified": True}]
NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)
SHIPPED = Shipped("0123456789", "c0ffee", "wave/1")
TERMS = Terms("0123456789", {"a": SHIPPED}, RetryPolicy(3, 0, 0), NOW)
DONE: dict[str, Any] = {"preflight_ok": True, "built": GREEN, "shipped": ["a", "b"]}


def results(**told: Any) -> WaveResults:
    return WaveResults.of(told, SELECTION)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({**DONE, "exit_code": 3}, 3),
        ({**DONE, "exit_code": 77}, 77),
        (DONE, 0),
        ({**DONE, "aborted": True}, 1),
        ({**DONE, "preflight_ok": False}, 1),
        ({**DONE, "shipped": ["a"]}, 1),
        ({**DONE, "built": GREEN[:1]}, 1),
        ({**DONE, "built": [*GREEN[:1], {"slug": "b", "verified": False}]}, 1),
        ({}, 1),
    ],
)
def test_a_wave_is_done_only_when_it_says_so_or_everything_it_tells_is_proven_and_shipped(
    told: dict[str, Any], code: int
) -> None:
    assert results(**told).exit_code == code


def test_only_selected_items_count_as_shipped() -> None:
    found = results(shipped=["b", "stranger"])
    assert (found.shipped, found.not_shipped) == (("b",), ("1",))


@pytest.mark.parametrize(
    ("record", "before", "after"),
    [
        ({"verdict": "failed", "error": "red"}, {}, {"attempts": 1, "lastError": "red"}),
        (
            {"verdict": "refused", "error": "no"},
            {"attempts": 2},
            {"attempts": 3, "lastError": "no"},
        ),
        ({"verdict": "undecided", "error": "no git"}, {}, {"attempts": 0, "lastError": "no git"}),
        ({"verdict": "halted", "error": "x"}, {"attempts": 1}, {"attempts": 1, "lastError": "x"}),
        (
            {"verdict": "verified", "error": None, "ship_error": "moved"},
            {"attempts": "many"},
            {"attempts": 0, "lastError": "moved"},
        ),
    ],
)
def test_only_the_works_own_faults_cost_an_attempt(
    record: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    edits = edits_for(results(built=[{"slug": "a", "dispatched": True, **record}]), TERMS)
    assert edits["1"](before) == after


def test_what_people_moved_on_while_the_wave_ran_is_not_moved_back() -> None:
    edit = edits_for(results(shipped=["a"]), TERMS)["1"]
    assert edit({"status": "claimed", "nextAttemptAt": "2026-01-01"}) == {
        "status": "in_progress",
        "notes": "[wave 01234567]",
        "shipped": {"wave": "0123456789", "commit": "c0ffee", "branch": "wave/1"},
        "nextAttemptAt": None,
    }
    assert edit({"status": "done", "notes": "mine"})["status"] == "done"


def test_an_item_nobody_worked_on_is_only_given_back() -> None:
    told = [{"slug": "a", "dispatched": False, "verdict": "halted"}, {"slug": "b"}]
    for edit in edits_for(results(built=told), TERMS).values():
        assert edit({"status": "claimed"}) == {"status": "todo"}
        assert edit({"status": "todo"}) == edit({"status": "done"}) == {}
