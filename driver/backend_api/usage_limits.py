"""Recognises an agent CLI's message that a plan is used up, and its reset time. Pure.

The messages are those of Claude Code (1.0 to 2.1), Codex and Gemini. They change often, so they are
matched loosely, and only in error messages.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from state_store.values.lazy_pattern import lazy_pattern

_LIMIT = lazy_pattern(
    r"\b(?:usage|session|weekly|monthly|daily|hourly|spend|(?:5|five)-hour|opus|sonnet|fable)"
    r" limit (?:reached|exceeded)"
    r"|\byou(?:'ve| have) (?:hit|reached|exhausted) your (?:[\w'-]+ ){0,3}"
    r"(?:limit|usage|quota|capacity)\b"
    r"|\b(?:is|are|you're) out of (?:extra )?usage\b"
    r"|\b(?:limit|usage|quota) will reset\b"
    r"|\busage_limit_(?:reached|exceeded)\b",
    re.IGNORECASE,
)
_EPOCH = lazy_pattern(r"\|\s*(\d{10})(\d{3})?\b")
_SPAN = lazy_pattern(
    r"\b(?:again|resets?) (?:in|after)\s+(?:about\s+)?"
    r"(?P<span>(?:\d{1,6}\s{0,9}[a-z]+[\s,]{0,9}(?:and\s+)?){1,9})",
    re.IGNORECASE,
)
_SPAN_PART = lazy_pattern(r"(\d{1,6})\s{0,9}([a-z])", re.IGNORECASE)
_SPAN_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "w": 604_800}
_ISO = lazy_pattern(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)\s*(Z|UTC|[+-]\d\d:\d\d)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = lazy_pattern(
    rf"\b(?:resets?|again|resuming)\s+(?:at\s+|on\s+)?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+"
    rf"(?:(?P<year>\d{{4}}),?\s+)?(?:at\s+)?)?"
    rf"(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]m)?\b"
    rf"(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_JUST_PAST = timedelta(hours=1)
_HALF_A_YEAR = timedelta(days=183)


def says_used_up(text: str) -> bool:
    """True if an error text says that the plan's allowance is used up."""
    return _LIMIT.search(_plain(text)) is not None


def is_nothing_but_used_up(text: str) -> bool:
    """True if a text without error mark is only that message."""
    found = _LIMIT.search(_plain(text))
    return found is not None and found.start() < 20 and len(text) < 200 and "\n" not in text.strip()


def resets_at(text: str, now: datetime) -> float | None:
    """The reset time of the plan, in seconds since the epoch; None if not given.

    A time of day without a zone is in the zone of `now`.
    """
    try:
        return _moment_in(_plain(text), now)
    except (ValueError, OverflowError):  # a day outside the calendar
        return None


def _moment_in(text: str, now: datetime) -> float | None:
    if epoch := _EPOCH.search(text):
        return float(epoch[1])
    if span := _SPAN.search(text):
        parts = _SPAN_PART.findall(span["span"])
        seconds = sum(int(count) * _SPAN_S.get(unit.lower(), 0) for count, unit in parts)
        return now.timestamp() + seconds
    if iso := _ISO.search(text):
        zone = (iso[3] or "").replace("UTC", "Z")
        when = datetime.fromisoformat(f"{iso[1]}T{iso[2]}{zone}")
        return (when if when.tzinfo else when.replace(tzinfo=now.tzinfo)).timestamp()
    clock = _CLOCK.search(text)
    return _from_clock(clock, now) if clock else None


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


def _from_clock(clock: re.Match[str], now: datetime) -> float | None:
    hour, minute, half = int(clock["hour"]), clock["minute"], (clock["half"] or "").lower()
    if not (half or minute):
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    here = now.astimezone(_zone(clock["zone"], now.tzinfo))
    when = here.replace(hour=hour, minute=int(minute or 0), second=0, microsecond=0)
    if clock["month"]:
        month = _MONTHS.index(clock["month"].lower()) + 1
        year = int(clock["year"] or here.year)
        when = when.replace(year=year, month=month, day=int(clock["day"]))
        if not clock["year"] and when < here - _HALF_A_YEAR:
            when = when.replace(year=when.year + 1)
    elif when < here - _JUST_PAST:  # a message may be read a little after its reset time
        when += timedelta(days=1)
    return when.timestamp()


def _zone(name: str | None, default: tzinfo | None) -> tzinfo | None:
    if not name:
        return default
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - rarely named

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # Windows has no list of zones
        return default
