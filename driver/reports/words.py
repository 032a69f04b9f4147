"""Numbers and times as people read them. An unknown value is never shown as zero. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNKNOWN = "unknown"
NONE = "-"
_MINUTE, _HOUR = 60, 3600


def duration(seconds: float | None) -> str:
    """`5.0 s`, `3m 12s` or `1h 04m`; `-` if nothing ran."""
    if not seconds:
        return NONE if seconds is None else "0 s"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"


def tokens(number: int | None) -> str:
    """`940`, `12.3k` or `4.56M`; `unknown` if it was not measured."""
    if number is None:
        return UNKNOWN
    if number < 1_000:
        return str(number)
    if number < 999_950:
        return f"{number / 1_000:.1f}k"
    return f"{number / 1_000_000:.2f}M"


def dollars(amount: float | None) -> str:
    """`$0.06`, `$12.40`, or `<$0.01` for a small amount; `unknown` if it has no price."""
    if amount is None:
        return UNKNOWN
    return "<$0.01" if 0 < amount < 0.005 else f"${amount:.2f}"


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
