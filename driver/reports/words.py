"""Numbers and times as people read them. An unknown value is never shown as zero. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.terminal import amounts

UNKNOWN = "unknown"
NONE = "-"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3:12` or `1:04:00`; `-` if nothing ran."""
    if not seconds:
        return NONE if seconds is None else "0 s"
    return f"{seconds:.1f} s" if seconds < 9.95 else amounts.duration(seconds)


def tokens(number: int | None) -> str:
    """`940`, `12k` or `4.6M`; `unknown` if it was not measured."""
    return UNKNOWN if number is None else amounts.tokens(number)


def dollars(amount: float | None) -> str:
    """`$0.06`, `$12.40`, or `<$0.01` for a small amount; `unknown` if it has no price."""
    return UNKNOWN if amount is None else amounts.usd(amount)


def at_least(text: str, missing: int) -> str:
    """`text` as a lower bound if some of its parts are unknown."""
    return f"at least {text}" if missing and text != UNKNOWN else text


def test_result(counts: Mapping[str, Any] | None) -> str:
    """`2/3 red`, `3 green`, or only the result if the runner printed no numbers."""
    if counts is None:
        return NONE
    kind = str(counts.get("kind")).replace("_", " ")
    ran, failed, skipped = (counts.get(key) for key in ("ran", "failed", "skipped"))
    if ran is None:
        return kind
    text = f"{failed}/{ran} red" if failed else f"{ran} {kind}"
    return f"{text}, {skipped} skipped" if skipped else text


def before_after(tests: Mapping[str, Any] | None) -> str:
    """`2/3 red -> 3 green`: the test on the base, and on the work."""
    before, after = (test_result((tests or {}).get(key)) for key in ("before", "after"))
    return NONE if before == after == NONE else f"{before} -> {after}"


def sandbox(walls: Mapping[str, Any] | None) -> str:
    """`bwrap`: the level of the tests, then the roles of another level, and a home that is the
    user's own. "" if the report does not say it."""
    roles = {name: one for name, one in (walls or {}).items() if isinstance(one, Mapping)}
    level = (roles.get("test") or {}).get("level")
    if walls is None or level is None:
        return ""
    others = [f"{name} {one['level']}" for name, one in roles.items() if one["level"] != level]
    home = ["your own home"] if walls.get("home") == "host" else []
    return ", ".join((str(level), *others, *home))


def networks(walls: Mapping[str, Any]) -> str:
    """`agent host, test loopback`: the network of the two roles that run an item's work."""
    return ", ".join(f"{role} {walls[role]['network']}" for role in ("agent", "test"))
