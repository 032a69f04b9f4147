"""The sentences as the two CLIs have written them, and the times in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from driver.backend_api.usage_limits import is_nothing_but_used_up, resets_at, says_used_up

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)  # a Sunday
HERE = NOW.astimezone(timezone(timedelta(hours=2)))  # where it is 14:00


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


USED_UP = {
    "Claude AI usage limit reached|1780000000": 1780000000.0,
    "Claude AI usage limit reached|1780000000000": 1780000000.0,
    "Claude usage limit reached. Your limit will reset at 3pm.": at("2026-11-29T15:00+02:00"),
    "Claude usage limit reached. Your limit will reset at 9am (America/Chicago).": at(
        "2026-11-29T15:00Z"
    ),
    "5-hour limit reached \u2219 resets 3pm": at("2026-11-29T15:00+02:00"),
    "5-hour limit reached \u2219 resets 2am": at("2026-11-30T02:00+02:00"),
    "Weekly limit reached \u2219 resets Dec 4, 5pm": at("2026-12-04T17:00+02:00"),
    "Weekly limit reached \u2219 resets Jan 2, 5pm": at("2027-01-02T17:00+02:00"),
    "Session limit reached \u2219 resets 11:00 PM": at("2026-11-29T23:00+02:00"),
    "Opus weekly limit reached": None,
    "You've hit your limit \u00b7 resets 5pm (Europe/Berlin)": at("2026-11-29T16:00Z"),
    "You've hit your session limit \u00b7 resets 12:50am (America/Los_Angeles)": at(
        "2026-11-30T08:50Z"
    ),
    "You've hit your weekly limit \u00b7 resets Dec 1, 12am (UTC)": at("2026-12-01T00:00Z"),
    "You've hit your limit \u00b7 resets 5pm (Nowhere/Atall)": at("2026-11-29T17:00+02:00"),
    "You've hit your limit. Your limit will reset at 2026-11-30 18:00:00": at(
        "2026-11-30T18:00+02:00"
    ),
    "You've reached your Fable limit.": None,
    "You\u2019ve hit your usage limit. Upgrade to Pro (https://example.org/pro), visit "
    "https://example.org/usage to purchase more credits or try again at 2:51 PM.": at(
        "2026-11-29T14:51+02:00"
    ),
    "You've hit your usage limit. Upgrade to Plus to continue using Codex "
    "(https://example.org/plus), or try again at Jul 5th, 2027 8:19 PM.": at(
        "2027-07-05T20:19+02:00"
    ),
    "You've hit your usage limit. Upgrade to Pro (https://example.org/pricing) or try again in "
    "2 days 17 hours 14 minutes.": NOW.timestamp() + 2 * 86400 + 17 * 3600 + 14 * 60,
    "You've hit your usage limit. To get more access now, send a request to your admin or try "
    "again in 3 days 6 hours 57 minutes.": NOW.timestamp() + 3 * 86400 + 6 * 3600 + 57 * 60,
    "You've hit your usage limit. Try again Aug 18.": None,
    "You've hit your org's monthly usage limit \u00b7 contact your admin": None,
    "You've hit your monthly spend limit.": None,
    "You're out of extra usage \u00b7 resets 3pm": at("2026-11-29T15:00+02:00"),
    "Your org is out of usage \u00b7 add funds to continue": None,
    "You have exhausted your daily quota on this model.": None,
    "TerminalQuotaError: You have exhausted your capacity on this model. Your quota will reset "
    "after 1h49m8s.": NOW.timestamp() + 3600 + 49 * 60 + 8,
    "You've hit your usage limit. Try again later.": None,
}


@pytest.mark.parametrize(("text", "when"), USED_UP.items())
def test_a_used_up_plan_is_known_by_its_words_and_so_is_its_end(
    text: str, when: float | None
) -> None:
    assert says_used_up(text)
    assert resets_at(text, HERE) == when


@pytest.mark.parametrize(
    "text",
    [
        "",
        "API Error: Request rejected (429) \u00b7 slow down",
        "Rate limit reached for gpt-5.5 in organization x on tokens per min. Try again in 2s",
        "Reached maximum number of turns (2)",
        "the rate limiter in worker.js is wrong",
        "Approaching 5-hour limit",
        "API Error: Claude's response exceeded the 64000 output token maximum.",
    ],
)
def test_other_limits_are_no_used_up_plan(text: str) -> None:
    assert not says_used_up(text)


@pytest.mark.parametrize(
    "text",
    [
        "resets 25:00",
        "resets 13pm30",
        "resets Feb 30, 5pm",
        "resets 3",
        "try again in a while",
        "resets 2026-13-45 99:99",
        "resets 2026-11-30T10:00+99:99",
        f"try again in {'9' * 400} days",
        f"try again in {'9' * 5000} days",
    ],
)
def test_a_time_that_cannot_be_is_none(text: str) -> None:
    assert resets_at(text, NOW) is None


def test_a_leap_day_of_next_year_is_none() -> None:
    assert resets_at("resets Feb 29 at 5pm", datetime(2028, 12, 1, tzinfo=UTC)) is None


def test_a_time_just_past_is_not_tomorrow() -> None:
    assert resets_at("resets 11:50am", NOW) == at("2026-11-29T11:50Z")
    assert resets_at("resets 10:50am", NOW) == at("2026-11-30T10:50Z")


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("Claude AI usage limit reached|1780000000", True),
        ("You've hit your session limit \u00b7 resets 5pm", True),
        ('I made the page say "You\'ve hit your limit" to people.', False),
        ("You've hit your limit is now shown.\n\nAlso changed the tests.", False),
        ("Done.", False),
    ],
)
def test_without_an_error_only_the_bare_sentence_counts(text: str, alone: bool) -> None:
    assert is_nothing_but_used_up(text) is alone
