"""What a wave that did not ship an item costs it, and when the item is tried again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.backlog.retry_policy import NO_TIME, RetryPolicy, after_try, in_backoff
from driver.backlog.selection import WAITS_FOR_ITS_TIME
from driver.domain.results import Verdict

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)
PATIENCE = RetryPolicy(most=3, pause_s=60, longest_s=3600)
WORKS_OWN = ["failed", "refused", "no_change", "already_green", "flaky"]


def after(
    verdict: object, item: dict[str, Any], patience: RetryPolicy = PATIENCE
) -> dict[str, Any]:
    return after_try({"status": "claimed", **item}, verdict, "red", patience, NOW)


@pytest.mark.parametrize("verdict", [*WORKS_OWN, None, "a word of somebody else's wave"])
def test_a_failure_of_the_work_costs_an_attempt_and_a_wait(verdict: object) -> None:
    assert after(verdict, {"attempts": 1}) == {
        "status": "todo",
        "attempts": 2,
        "lastError": "red",
        "nextAttemptAt": "2026-01-31T09:02:00Z",
    }


def test_what_is_undecided_costs_a_short_wait_and_no_attempt() -> None:
    told = after("undecided", {"attempts": 2})
    assert (told["attempts"], told["nextAttemptAt"]) == (2, "2026-01-31T09:01:00Z")
    assert told["status"] == "todo"


@pytest.mark.parametrize("verdict", ["halted", "over_budget", "leased_elsewhere", "verified"])
def test_what_was_stopped_from_outside_may_go_on_at_once(verdict: str) -> None:
    told = after(verdict, {"attempts": 2, "nextAttemptAt": "2026-01-31T08:00:00Z"})
    assert (told["status"], told["attempts"], told["nextAttemptAt"]) == ("todo", 2, None)


def test_every_verdict_has_its_price() -> None:
    assert {verdict for verdict in Verdict if after(verdict, {})} == set(Verdict)


@pytest.mark.parametrize(
    ("attempts", "wait_s"), [(0, 60), (1, 60), (2, 120), (3, 240), (7, 3600), (10**9, 3600)]
)
def test_waits_double_up_to_the_longest(attempts: int, wait_s: float) -> None:
    assert PATIENCE.wait_s(attempts) == wait_s


def test_no_wait_is_written_where_none_is_wanted() -> None:
    assert "nextAttemptAt" not in after("failed", {}, RetryPolicy(3, 0, 0))


def test_after_the_last_attempt_an_item_is_blocked_and_says_how_to_go_on() -> None:
    told = after("failed", {"attempts": 2, "notes": "mine", "nextAttemptAt": "2026-01-31"})
    assert told == {
        "status": "blocked",
        "attempts": 3,
        "lastError": "red",
        "nextAttemptAt": None,
        "notes": "mine [blocked after 3 attempts: red; to try it again, set status to todo"
        " and attempts to 0]",
    }


def test_who_was_set_back_to_todo_without_more_has_one_more_attempt() -> None:
    assert after("failed", {"attempts": 3})["status"] == "blocked"
    assert after("undecided", {"attempts": 3})["status"] == "todo"


@pytest.mark.parametrize("status", ["done", "blocked", "proposed", None])
def test_an_item_that_a_person_moved_on_keeps_its_status_and_waits_for_nothing(
    status: str | None,
) -> None:
    told = after("failed", {"status": status, "attempts": 9})
    assert told == {"attempts": 10, "lastError": "red"}


@pytest.mark.parametrize("written", [None, "many", -1, True, 1.5, [], {}])
def test_what_is_no_number_of_attempts_counts_as_none(written: Any) -> None:
    assert after("failed", {"attempts": written})["attempts"] == 1


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("2026-01-31T09:00:01Z", WAITS_FOR_ITS_TIME),
        ("2026-01-31T10:30:00+01:00", WAITS_FOR_ITS_TIME),
        ("2026-02-01", WAITS_FOR_ITS_TIME),
        (NOW.timestamp() + 1, WAITS_FOR_ITS_TIME),
        ("2026-01-31T09:00:00Z", None),
        ("2026-01-31", None),
        (None, None),
        ("soon", NO_TIME),
        ([], NO_TIME),
        (True, NO_TIME),
    ],
)
def test_an_item_rests_until_its_time_has_come(written: Any, reason: str | None) -> None:
    item = {"id": 7, "status": "todo", "nextAttemptAt": written}
    told = in_backoff([item], NOW)
    assert {name: skipped.reason for name, skipped in told.items()} == (
        {"7": reason} if reason else {}
    )
    if reason == WAITS_FOR_ITS_TIME:
        assert told["7"].detail == f"not before {written}; --only 7 takes it now"


def test_only_what_is_to_do_rests() -> None:
    late = {"nextAttemptAt": "2030-01-01"}
    items = [{"id": s, "status": s, **late} for s in ("todo", "claimed", "done", "blocked")]
    assert in_backoff(items, NOW).keys() == {"todo", "claimed"}
